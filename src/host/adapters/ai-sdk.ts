// "glovebox/ai-sdk": converts hosted tools to a ToolSet of the AI SDK (`ai` 7). Aborting generateText or streamText also cancels the tool.
/// <reference types="node" preserve="true" />
import { dynamicTool, type JSONValue, jsonSchema, type ToolSet } from "ai";
import * as z from "zod";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { createToolFailureMessage } from "../contract/failure-message.ts";
import type { ToolResult } from "../contract/tool-call.ts";
import { toJson } from "../contract/tool-value.ts";
import { ToolNames } from "../openai/tool-names.ts";
import { type HostedTools, selectTools, type ToolSelection } from "./hosted-tools.ts";
import { type ModelPart, toModelParts } from "./model-parts.ts";

/** The JSON form of an output with content. The AI SDK stores it, and `toModelOutput` reads the parts from it. */
const PartsSchema = z.strictObject({
  output: z.json(),
  modelParts: z.array(
    z.union([
      z.strictObject({ type: z.literal("text"), text: z.string() }),
      z.strictObject({
        type: z.literal("file"),
        data: z.string(),
        mimeType: z.string(),
        filename: z.string().optional(),
      }),
    ]),
  ),
});

function toOutput(result: Extract<ToolResult, { success: true }>): JSONValue {
  const parts = toModelParts(result);
  const output = toJson(result.output) as JSONValue;
  return parts === undefined ? output : ({ output, modelParts: parts } as unknown as JSONValue);
}

type ModelOutput = ReturnType<NonNullable<NonNullable<ToolSet[string]>["toModelOutput"]>>;

const toFilePart = ({ data, mimeType, filename }: Extract<ModelPart, { type: "file" }>) => ({
  type: "file" as const,
  mediaType: mimeType,
  data: { type: "data" as const, data },
  ...(filename === undefined ? {} : { filename }),
});

function toModelOutput(output: unknown): ModelOutput {
  const read = PartsSchema.safeParse(output);
  if (read.success) {
    return {
      type: "content",
      value: (read.data.modelParts as readonly ModelPart[]).map((part) =>
        part.type === "text" ? part : toFilePart(part),
      ),
    };
  }
  return typeof output === "string" ? { type: "text", value: output } : { type: "json", value: output as JSONValue };
}

/**
 * Converts hosted tools to a ToolSet.
 * @param host a Glovebox, or a ToolRouter
 * @returns the value for the `tools` option, with one entry per tool. A failed call throws inside the SDK, which reports the message to the
 *   model and continues. A name that providers do not accept is replaced by an alias.
 * @throws {ToolError} PARAM_INVALID for an unknown option or one of the wrong type, naming its path; TOOL_UNAVAILABLE if a tool that is
 *   requested by name does not exist
 * @example
 * ```typescript
 * import { openai } from "@ai-sdk/openai";
 * import { generateText, isStepCount } from "ai";
 * import { createGlovebox } from "glovebox";
 * import { toAISDKTools } from "glovebox/ai-sdk";
 *
 * await using glovebox = await createGlovebox();
 * await glovebox.addTool({ path: "./tools/add.ts" });
 * const { text } = await generateText({
 *   model: openai("gpt-5.1"),
 *   tools: toAISDKTools(glovebox),
 *   prompt: "How much is 19 + 23?",
 *   stopWhen: isStepCount(5),
 * });
 * console.log(text);
 * ```
 */
export function toAISDKTools(host: HostedTools, options?: ToolSelection): ToolSet {
  const { router, definitions, contextOf } = selectTools(host, options);
  const names = new ToolNames(definitions.map(({ name }) => name));
  return Object.fromEntries(
    definitions.map(({ name: toolName, description, inputSchema }) => [
      names.wireNameOf(toolName).name,
      dynamicTool({
        description,
        // The router checks the arguments and words its errors so that the model can correct them, so the SDK does not validate.
        inputSchema: jsonSchema(inputSchema as Parameters<typeof jsonSchema>[0]),
        execute: async (input, { toolCallId, abortSignal }) => {
          const call = { id: toolCallId, toolName, arguments: input };
          const result = await router.execute(call, contextOf(abortSignal));
          if (result.success) return toOutput(result);
          const { code, details } = result.error;
          const message = createToolFailureMessage(result) ?? result.error.userMessage;
          throw new ToolError(code, message, details === undefined ? {} : { details });
        },
        toModelOutput: ({ output }) => toModelOutput(output),
      }),
    ]),
  );
}
