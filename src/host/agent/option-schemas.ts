// Zod schemas shared by the options of AgentLoop and ToolsRouterAgent. Every field is optional, because an agent and each of its runs can
// set it; the two are merged before defaults apply.
import * as z from "zod";
import { describeKind, isPlainObject, strictObject } from "../../sandbox/contract/plain-object.ts";
import { TOOL_NAME_PATTERN, TOOL_NAME_RULE } from "../../sandbox/contract/tool-name.ts";
import { ContextSchema } from "./loop/agent-context.ts";
import { isAgentRouter } from "./tools/call-tool.ts";

type AnyFunction = (...args: readonly unknown[]) => unknown;

/** Returns the error option of a schema: what is expected, and the kind of what was passed. */
export const expected = (what: string): { readonly error: (issue: { readonly input?: unknown }) => string } => ({
  error: ({ input }) => `Expected ${what}, got ${describeKind(input)}`,
});

export const functionSchema: z.ZodType<AnyFunction> = z.custom<AnyFunction>(
  (value) => typeof value === "function",
  expected("a function"),
);

export const ToolNameOptionSchema: z.ZodType<string> = z
  .string(expected("a tool name"))
  .regex(TOOL_NAME_PATTERN, `Expected a tool name of ${TOOL_NAME_RULE}`);

export const ToolNamesSchema: z.ZodType<readonly string[]> = z.array(
  ToolNameOptionSchema,
  expected("an array of tool names"),
);

export const AbortSignalSchema: z.ZodType<AbortSignal> = z.custom<AbortSignal>(
  (value) => value instanceof AbortSignal,
  expected("an AbortSignal"),
);

export const ResponseSchemaSchema = strictObject({
  name: z.string().min(1),
  schema: z.custom<{ readonly [key: string]: unknown }>(isPlainObject, expected("a JSON Schema as a plain object")),
});

/** Fields that both agents accept. */
export const sharedFields = {
  model: functionSchema.optional(),
  router: z.custom<object>(isAgentRouter, expected("a ToolRouter or a Glovebox")).optional(),
  context: ContextSchema.optional(),
  tools: z.union([ToolNamesSchema, functionSchema], expected("an array of tool names or a function")).optional(),
  onError: functionSchema.optional(),
};
