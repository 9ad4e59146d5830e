// Types of the content parts (text, images, audio, resources) that a tool may return in addition to JSON, named as in MCP
// (spec 2026-07-28, tools, "Tool result"). Binary data is a Uint8Array here; it becomes base64 only when it is serialized to JSON.

/** Key for `Symbol.for()`: the symbol property of a return value that holds its content parts. */
export const CONTENT_KEY = "glovebox.content";

/** Audience, priority and modification time of a content part, as MCP defines them. */
export interface ContentAnnotations {
  /** For whom the part is meant. */
  readonly audience?: readonly ("user" | "assistant")[];
  /** From 0 (optional) to 1 (required). */
  readonly priority?: number;
  /** Timestamp in ISO 8601 format. */
  readonly lastModified?: string;
}

interface PartBase {
  readonly annotations?: ContentAnnotations;
}
/** Text for the model. */
export interface TextPart extends PartBase {
  readonly type: "text";
  readonly text: string;
}
/** An image for the model. */
export interface ImagePart extends PartBase {
  readonly type: "image";
  readonly data: Uint8Array;
  /** MIME type, such as `image/png`. */
  readonly mimeType: string;
}
/** Audio for the model. */
export interface AudioPart extends PartBase {
  readonly type: "audio";
  readonly data: Uint8Array;
  /** MIME type, such as `audio/wav`. */
  readonly mimeType: string;
}
/** An embedded resource with its contents, as text or as bytes. */
export interface ResourcePart extends PartBase {
  readonly type: "resource";
  readonly resource:
    | { readonly uri: string; readonly mimeType?: string; readonly text: string }
    | { readonly uri: string; readonly mimeType?: string; readonly blob: Uint8Array };
}
/** A link to a resource, without its contents. */
export interface ResourceLinkPart extends PartBase {
  readonly type: "resource_link";
  readonly uri: string;
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly mimeType?: string;
  /** Size of the resource in bytes. */
  readonly size?: number;
}
/** A part of a tool's content, named as in MCP. Bytes are a Uint8Array, not base64. */
export type ContentPart = TextPart | ImagePart | AudioPart | ResourcePart | ResourceLinkPart;
