// Input conversion and errors of node:zlib.
import { Buffer } from "../buffer/node-buffer.ts";
import { invalidArgument, nodeError } from "../shared/node-error.ts";

export const ERROR_NAMES: { readonly [errno: number]: string } = {
  2: "Z_NEED_DICT",
  [-1]: "Z_ERRNO",
  [-2]: "Z_STREAM_ERROR",
  [-3]: "Z_DATA_ERROR",
  [-4]: "Z_MEM_ERROR",
  [-5]: "Z_BUF_ERROR",
};

export function zlibError(errno: number, message: string): Error {
  const text = errno === 2 ? "Missing dictionary" : message || "zlib error";
  return Object.assign(new Error(text), { errno, code: ERROR_NAMES[errno] ?? "Z_STREAM_ERROR" });
}

export function toBytes(input: unknown): Uint8Array {
  if (typeof input === "string") return Buffer.from(input);
  if (ArrayBuffer.isView(input)) return new Uint8Array(input.buffer as ArrayBuffer, input.byteOffset, input.byteLength);
  if (input instanceof ArrayBuffer) return new Uint8Array(input);
  throw invalidArgument(
    "buffer",
    "of type string or an instance of Buffer, TypedArray, DataView, or ArrayBuffer",
    input,
  );
}

/** Creates the error for a result larger than the option maxOutputLength. */
export function tooLarge(maxBytes: number): Error {
  return nodeError(RangeError, "ERR_BUFFER_TOO_LARGE", `Cannot create a Buffer larger than ${maxBytes} bytes`);
}

/** Creates the error for bytes after the end of the compressed data, if the option rejectGarbageAfterEnd is set. */
export function trailingJunk(): Error {
  const message = "Trailing junk found after the end of the compressed stream";
  return nodeError(TypeError, "ERR_TRAILING_JUNK_AFTER_STREAM_END", message);
}
