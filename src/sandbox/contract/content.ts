// What a tool may show a model besides JSON, in MCP's words (spec 2026-07-28, tools, "Tool result"); bytes are bytes here, and base64 only
// where they become JSON.

/** The registered symbol under which a return value carries its content. */
export const CONTENT_KEY = "glovebox.content";

/** For whom a part of the content is, in MCP's words. */
export interface ContentAnnotations {
  readonly audience?: readonly ("user" | "assistant")[];
  /** 0 to 1. */
  readonly priority?: number;
  /** ISO 8601. */
  readonly lastModified?: string;
}

interface PartBase {
  readonly annotations?: ContentAnnotations;
}
export interface TextPart extends PartBase {
  readonly type: "text";
  readonly text: string;
}
export interface ImagePart extends PartBase {
  readonly type: "image";
  readonly data: Uint8Array;
  readonly mimeType: string;
}
export interface AudioPart extends PartBase {
  readonly type: "audio";
  readonly data: Uint8Array;
  readonly mimeType: string;
}
/** A resource itself, as text or as bytes. */
export interface ResourcePart extends PartBase {
  readonly type: "resource";
  readonly resource:
    | { readonly uri: string; readonly mimeType?: string; readonly text: string }
    | { readonly uri: string; readonly mimeType?: string; readonly blob: Uint8Array };
}
/** Where a resource is. */
export interface ResourceLinkPart extends PartBase {
  readonly type: "resource_link";
  readonly uri: string;
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly mimeType?: string;
  readonly size?: number;
}
export type ContentPart = TextPart | ImagePart | AudioPart | ResourcePart | ResourceLinkPart;
