// A ToolResult in MCP's words: content for a model, structured content for a program, a failure as a result that says so.
import type { CallToolResult, ContentBlock } from "@modelcontextprotocol/server";
import type { ContentPart } from "../../../sandbox/contract/content.ts";
import type { JsonValue } from "../../../sandbox/contract/errors.ts";
import { createToolFailureMessage } from "../../contract/failure-message.ts";
import type { ToolResult } from "../../contract/tool-call.ts";
import { toJson } from "../../contract/tool-value.ts";

/** Where a result's `_meta` tells a program the code of a failure. */
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

/** An output that is text is shown as it is, everything else as JSON. */
const toText = (output: JsonValue): string => (typeof output === "string" ? output : JSON.stringify(output));

/** @param hasOutputSchema its output is promised to be structured; else it is if it is an object, as MCP's older revisions have it */
export function toCallToolResult(result: ToolResult, hasOutputSchema: boolean): CallToolResult {
  if (!result.success) {
    const text = createToolFailureMessage(result) ?? "";
    return { content: [{ type: "text", text }], isError: true, _meta: { [ERROR_CODE_META]: result.error.code } };
  }
  const output = toJson(result.output);
  const isObject = typeof output === "object" && output !== null && !Array.isArray(output);
  const structured = hasOutputSchema || isObject ? { structuredContent: output as Record<string, unknown> } : {};
  const blocks = (result.content ?? []).map(toBlock);
  // A client that knows no structured content finds it as text; content without an output stands for itself.
  const says = blocks.length === 0 || (output !== null && hasOutputSchema) || isObject;
  return { content: says ? [...blocks, { type: "text", text: toText(output) }] : blocks, ...structured };
}
