// What fetch takes from the rest of the platform: other chunks, which are loaded when they are first needed, and helpers for bytes.
import type { ReadableStream } from "./streams.ts";

export { fromBase64, toBase64 } from "./base64.ts";
export type { Blob, File } from "./blob.ts";
export type Stream = ReadableStream<Uint8Array>;

// By its file, as an import would be; the build makes a look-up of it at run time.
declare function require(file: "./streams.ts"): typeof import("./streams.ts");
declare function require(file: "./blob.ts"): typeof import("./blob.ts");
declare function require(file: "./url.ts"): typeof import("./url.ts");
declare function require(file: "./crypto.ts"): typeof import("./crypto.ts");

export const streams = (): typeof import("./streams.ts") => require("./streams.ts");
export const blobs = (): typeof import("./blob.ts") => require("./blob.ts");
export const urls = (): typeof import("./url.ts") => require("./url.ts");
/** Its methods are made from a table, which no type shows. */
interface Digests {
  digest(algorithm: string, bytes: Uint8Array): Promise<ArrayBuffer>;
}
export const digests = (): Digests => require("./crypto.ts").crypto.subtle as unknown as Digests;

/** Whether it has ever been read from or cancelled: [[disturbed]], which the standard shows to no script. */
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
