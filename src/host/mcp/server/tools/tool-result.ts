// Converts a ToolResult to MCP's CallToolResult: content for a model, structured content for a program, and failures with `isError`.
import type { CallToolResult, ContentBlock } from "@modelcontextprotocol/server";
import type { ContentPart } from "../../../../sandbox/contract/content.ts";
import type { JsonValue } from "../../../../sandbox/contract/errors.ts";
import { isJsonObject } from "../../../../sandbox/contract/value-kind.ts";
import { createToolFailureMessage } from "../../../contract/failure-message.ts";
import type { ToolResult } from "../../../contract/tool-call.ts";
import { toJson } from "../../../contract/tool-value.ts";
import { writeJson } from "../../../json/write-json.ts";

/** Key in a failed result's `_meta` whose value is the error code, for programs. */
export const ERROR_CODE_META = "glovebox/errorCode";

const toBase64 = (bytes: Uint8Array): string => toJson(bytes) as string;

function toBlock(part: ContentPart): ContentBlock {
  switch (part.type) {
    case "image":
    case "audio":
      return { ...part, data: toBase64(part.data) } as ContentBlock;
    case "resource": {
      const { resource } = part;
      if ("text" in resource) return part as ContentBlock;
      return { ...part, resource: { ...resource, blob: toBase64(resource.blob) } } as ContentBlock;
    }
    default:
      return part as ContentBlock;
  }
}

/** Size in bytes above which an output is serialized in time slices. */
const LARGE_OUTPUT_BYTES = 65_536;

/**
 * Returns a string output unchanged, and every other output as JSON. After a large one it lets the event loop turn, before the SDK serializes
 * the whole message at once.
 */
async function toText(output: JsonValue, bytes: number, signal: AbortSignal): Promise<string> {
  if (typeof output === "string") return output;
  return bytes > LARGE_OUTPUT_BYTES ? await writeJson(output, signal) : JSON.stringify(output);
}

/**
 * @param hasOutputSchema whether the tool declares an output schema, so that its output must be structured content. Without a schema only
 *   objects are, as the revisions of 2025 require.
 * @param signal ends the serialization of a large output
 */
export async function toCallToolResult(
  result: ToolResult,
  hasOutputSchema: boolean,
  signal: AbortSignal,
): Promise<CallToolResult> {
  if (!result.success) {
    const text = createToolFailureMessage(result) ?? "";
    return { content: [{ type: "text", text }], isError: true, _meta: { [ERROR_CODE_META]: result.error.code } };
  }
  const output = toJson(result.output);
  const structured =
    hasOutputSchema || isJsonObject(output) ? { structuredContent: output as Record<string, unknown> } : {};
  const blocks = (result.content ?? []).map(toBlock);
  // The text repeats structured content for clients that do not support it, and contains an output that structured content cannot.
  // Content without an output needs no text.
  if (blocks.length > 0 && output === null) return { content: blocks, ...structured };
  const text = await toText(output, result.usage.outputBytes, signal);
  return { content: [...blocks, { type: "text", text }], ...structured };
}
