// Converts the input and output of the functions of node:crypto: text in an encoding, or bytes.
import { Buffer } from "../buffer/node-buffer.ts";
import { checkFunction, invalidArgument } from "../shared/node-error.ts";

export type Data = string | ArrayBufferView | ArrayBuffer;
export type Callback = (error: unknown, value?: unknown) => void;
declare function queueMicrotask(run: () => void): void;

export function dataBytes(data: unknown, name: string, encoding?: string): Uint8Array {
  if (typeof data === "string")
    return Buffer.from(data, (encoding === "buffer" ? "utf8" : (encoding ?? "utf8")) as "utf8");
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer as ArrayBuffer, data.byteOffset, data.byteLength);
  if (data instanceof ArrayBuffer) return new Uint8Array(data);
  throw invalidArgument(name, "of type string or an instance of ArrayBuffer, Buffer, TypedArray, or DataView", data);
}

export const encode = (bytes: Uint8Array, encoding?: string): unknown => {
  const buffer = Buffer.from(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.byteLength);
  return encoding === undefined || encoding === null || encoding === "buffer"
    ? buffer
    : buffer.toString(encoding as "utf8");
};

/** Returns the result, or passes it to a callback if the last argument is one. */
export function maybeLater<Value>(callback: unknown, make: () => Value): Value | undefined {
  if (callback === undefined) return make();
  checkFunction(callback, "callback");
  const value = make();
  queueMicrotask(() => (callback as unknown as Callback)(null, value));
  return undefined;
}

/** Passes bytes, as a Buffer, or an error to a callback. */
export function settle(promise: Promise<Uint8Array>, callback: unknown): void {
  checkFunction(callback, "callback");
  const done = callback as unknown as Callback;
  promise.then(
    (bytes) => done(null, encode(bytes)),
    (error: unknown) => done(error),
  );
}

export type Done = (error?: Error | null, data?: unknown) => void;
