// Access to the rest of the platform for fetch: platform modules that are loaded at first use, and helpers for bytes.
import type { ReadableStream } from "../streams/streams.ts";

export { fromBase64, toBase64 } from "../buffer/base64.ts";
export type { Blob, File } from "../buffer/blob.ts";
export type Stream = ReadableStream<Uint8Array>;

// Paths are those of an import. The build turns each into a lookup at run time.
declare function require(file: "../streams/streams.ts"): typeof import("../streams/streams.ts");
declare function require(file: "../buffer/blob.ts"): typeof import("../buffer/blob.ts");
declare function require(file: "../url/url.ts"): typeof import("../url/url.ts");
declare function require(file: "../crypto/crypto.ts"): typeof import("../crypto/crypto.ts");

export const streams = (): typeof import("../streams/streams.ts") => require("../streams/streams.ts");
export const blobs = (): typeof import("../buffer/blob.ts") => require("../buffer/blob.ts");
export const urls = (): typeof import("../url/url.ts") => require("../url/url.ts");
/** The methods are defined from a table, so they have no static types. */
interface Digests {
  digest(algorithm: string, bytes: Uint8Array): Promise<ArrayBuffer>;
}
export const digests = (): Digests => require("../crypto/crypto.ts").crypto.subtle as unknown as Digests;

/** Tells whether the stream was ever read from or cancelled: [[disturbed]], which the standard does not expose to scripts. */
export const isDisturbed = (stream: Stream): boolean => (stream as unknown as { _disturbed: boolean })._disturbed;

export function concat(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  let length = 0;
  for (const part of parts) length += part.byteLength;
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.byteLength;
  }
  return whole;
}
