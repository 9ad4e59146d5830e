// Converts a result to the parts that all supported frameworks have: text, and files as base64.
import type { ContentPart } from "../../sandbox/contract/content.ts";
import type { ToolResult } from "../contract/tool-call.ts";
import { toJson } from "../contract/tool-value.ts";

export type ModelPart =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "file"; readonly data: string; readonly mimeType: string; readonly filename?: string };

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

/** Returns the content of a result, preceded by its output as JSON text if there is one; undefined if the result has no content. */
export function toModelParts(result: Extract<ToolResult, { success: true }>): readonly ModelPart[] | undefined {
  const { output, content } = result;
  if (content === undefined) return undefined;
  const parts = content.filter(isForModel).map(toPart);
  return output === null ? parts : [{ type: "text", text: JSON.stringify(toJson(output)) }, ...parts];
}
