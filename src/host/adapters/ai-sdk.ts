// "glovebox/ai-sdk": converts hosted tools to a ToolSet of the AI SDK (`ai` 7). Aborting generateText or streamText also cancels the tool.
/// <reference types="node" preserve="true" />
import { dynamicTool, type JSONValue, jsonSchema, type ToolSet } from "ai";
import * as z from "zod";
import type { ContentPart } from "../../sandbox/contract/content.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { createToolFailureMessage } from "../contract/failure-message.ts";
import type { ToolResult } from "../contract/tool-call.ts";
import { toJson } from "../contract/tool-value.ts";
import { unwrapInput } from "../openai/calls.ts";
import { type ResponsesFunctionTool, toOpenAITools } from "../openai/tools.ts";
import { type HostedTools, selectTools, type ToolSelection } from "./hosted-tools.ts";

/** A part of what the model receives: text, or a file as base64. */
type ModelPart =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "file"; readonly data: string; readonly mimeType: string; readonly filename?: string };

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

const DEFAULT_MIME_TYPE = "application/octet-stream";

const toBase64 = (data: Uint8Array): string => toJson(data) as string;

/** Returns whether a part is meant for the model, and not only for the user. */
const isForModel = ({ annotations }: ContentPart): boolean => annotations?.audience?.includes("assistant") ?? true;

function toPart(part: ContentPart): ModelPart {
  switch (part.type) {
    case "text":
      return { type: "text", text: part.text };
    case "image":
    case "audio":
      return { type: "file", data: toBase64(part.data), mimeType: part.mimeType };
    case "resource": {
      const { resource } = part;
      if ("text" in resource) return { type: "text", text: resource.text };
      const filename = resource.uri.split(/[?#]/, 1)[0]?.split("/").at(-1) ?? "";
      const mimeType = resource.mimeType ?? DEFAULT_MIME_TYPE;
      return { type: "file", data: toBase64(resource.blob), mimeType, ...(filename === "" ? {} : { filename }) };
    }
    case "resource_link":
      return { type: "text", text: [part.title ?? part.name, part.uri, part.description].filter(Boolean).join("\n") };
  }
}

/** Returns what the model receives of a result with content: its output as text if there is one, and the parts that are for the model. */
function toModelParts(output: JSONValue, content: readonly ContentPart[]): readonly ModelPart[] {
  const parts = content.filter(isForModel).map(toPart);
  // Some providers reject a result without any part.
  if (output === null && parts.length > 0) return parts;
  return [{ type: "text", text: typeof output === "string" ? output : JSON.stringify(output) }, ...parts];
}

function toOutput(result: Extract<ToolResult, { success: true }>): JSONValue {
  const output = toJson(result.output) as JSONValue;
  // A tool controls its output, which must not be read as parts.
  const posesAsParts = PartsSchema.safeParse(output).success;
  if (result.content === undefined && !posesAsParts) return output;
  return { output, modelParts: toModelParts(output, result.content ?? []) } as unknown as JSONValue;
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
 *   model and continues. A name that providers do not accept is replaced by an alias, and an input that is not an object is the property
 *   `input`.
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
  // Providers accept only schemas of objects: a tool with another input is offered with one property, `input`.
  const { tools, names, readingOf } = toOpenAITools(definitions, { api: "responses", strict: false });
  return Object.fromEntries(
    (tools as readonly ResponsesFunctionTool[]).map(({ name, description, parameters }) => [
      name,
      dynamicTool({
        description,
        // The router checks the arguments and words its errors so that the model can correct them, so the SDK does not validate.
        inputSchema: jsonSchema(parameters as Parameters<typeof jsonSchema>[0]),
        execute: async (input, { toolCallId, abortSignal }) => {
          const toolName = names.toToolName(name);
          const isWrapped = readingOf(toolName)?.isWrapped === true;
          const call = { id: toolCallId, toolName, arguments: isWrapped ? unwrapInput(input) : input };
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
