// "glovebox/ai-sdk": hosted tools as a ToolSet of the AI SDK (`ai` 7). An abort of generateText or streamText stops the tool, too.
/// <reference types="node" preserve="true" />
import { dynamicTool, type JSONValue, jsonSchema, type ToolSet } from "ai";
import * as z from "zod";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { createToolFailureMessage } from "../contract/failure-message.ts";
import type { ToolResult } from "../contract/tool-call.ts";
import { toJson } from "../contract/tool-value.ts";
import { ToolNames } from "../openai/tool-names.ts";
import { type EdgeTools, type HostedTools, selectTools } from "./hosted-tools.ts";
import { type ModelPart, toModelParts } from "./model-parts.ts";

/** What an output with content becomes: the AI SDK keeps it as JSON, and `toModelOutput` finds the parts in it again. */
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
 * @param host a Glovebox, or a ToolRouter
 * @returns one tool a name, to be given as `tools`. A call that fails throws inside the SDK, which tells the model so and goes on:
 *   the message is one honest sentence. A name that providers do not take is replaced by an alias.
 * @throws {ToolError} PARAM_INVALID for an option that is unknown or of the wrong type, naming its path; TOOL_UNAVAILABLE for a tool that
 *   is requested by name and is not there
 */
export function toAISDKTools(host: HostedTools, options?: EdgeTools): ToolSet {
  const { router, definitions, contextOf } = selectTools(host, options);
  const names = new ToolNames(definitions.map(({ name }) => name));
  return Object.fromEntries(
    definitions.map(({ name: toolName, description, inputSchema }) => [
      names.placeOf(toolName).name,
      dynamicTool({
        description,
        // Arguments are checked where the call is: what is wrong with them is said by Glovebox, in words that a model can mend it by.
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
