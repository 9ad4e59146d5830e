// Encodes and decodes the UTF-8 text of bodies.
import { TextDecoder, TextEncoder } from "../encoding/encoding.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const keepingDecoder = new TextDecoder("utf-8", { ignoreBOM: true });

export const encodeUtf8 = (text: string): Uint8Array => encoder.encode(text);
/** Returns a decoder for text that arrives in pieces. */
export const makeDecoder = (): InstanceType<typeof TextDecoder> => new TextDecoder();

/** Removes a byte order mark unless `keepsMark` is set. Malformed bytes become the replacement character. */
export const decodeUtf8 = (bytes: Uint8Array, { keepsMark = false }: { readonly keepsMark?: boolean } = {}): string =>
  (keepsMark ? keepingDecoder : decoder).decode(bytes);
