// UTF-8 to text and back, for bodies.
import { TextDecoder, TextEncoder } from "./encoding.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const keepingDecoder = new TextDecoder("utf-8", { ignoreBOM: true });

export const encodeUtf8 = (text: string): Uint8Array => encoder.encode(text);
/** For text that comes in pieces. */
export const makeDecoder = (): InstanceType<typeof TextDecoder> => new TextDecoder();

/** Without a byte order mark, unless it is kept; what is malformed is replaced. */
export const decodeUtf8 = (bytes: Uint8Array, { keepsMark = false }: { readonly keepsMark?: boolean } = {}): string =>
  (keepsMark ? keepingDecoder : decoder).decode(bytes);
