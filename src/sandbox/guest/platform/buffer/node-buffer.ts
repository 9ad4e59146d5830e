// node:buffer and node:string_decoder.

import { nodeError } from "../shared/node-error.ts";
import { Buffer, encodingName, INSPECTED_BYTES, SlowBuffer } from "./buffer-class.ts";
import { StringDecoder } from "./string-decoder.ts";

export { Buffer, StringDecoder };

interface WebGlobals {
  readonly atob: (text: string) => string;
  readonly btoa: (text: string) => string;
  readonly Blob?: unknown;
  readonly File?: unknown;
}
declare class TextDecoder {
  constructor(label: string, options?: { readonly fatal?: boolean });
  decode(bytes: Uint8Array): string;
}

const web = globalThis as unknown as WebGlobals;
const K_STRING_MAX_LENGTH = 2 ** 29 - 24;
const K_MAX_LENGTH = Number.MAX_SAFE_INTEGER;

export function isUtf8(input: Uint8Array | ArrayBuffer): boolean {
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(new Uint8Array(input as ArrayBuffer));
    return true;
  } catch {
    return false;
  }
}

export const isAscii = (input: Uint8Array | ArrayBuffer): boolean =>
  new Uint8Array(input as ArrayBuffer).every((byte) => byte < 128);

function transcode(source: Uint8Array, from: string, to: string): Buffer {
  const target = encodingName(to);
  if (encodingName(from) === undefined || target === undefined) {
    throw nodeError(Error, "U_ILLEGAL_ARGUMENT_ERROR", "Unable to transcode Buffer [U_ILLEGAL_ARGUMENT_ERROR]");
  }
  const text = Buffer.from(source).toString(from as "utf8");
  const limit = target === "ascii" ? 0x7f : target === "latin1" ? 0xff : 0x10ffff;
  return Buffer.from(
    [...text].map((character) => ((character.codePointAt(0) ?? 0) > limit ? "?" : character)).join(""),
    to as "utf8",
  );
}

// Path of an import. The module is loaded at first use.
declare function require(file: "./blob.ts"): typeof import("./blob.ts");

const buffer = {
  Buffer,
  SlowBuffer,
  transcode,
  isUtf8,
  isAscii,
  kMaxLength: K_MAX_LENGTH,
  kStringMaxLength: K_STRING_MAX_LENGTH,
  constants: { MAX_LENGTH: K_MAX_LENGTH, MAX_STRING_LENGTH: K_STRING_MAX_LENGTH },
  INSPECT_MAX_BYTES: INSPECTED_BYTES,
  atob: (text: string): string => web.atob(text),
  btoa: (text: string): string => web.btoa(text),
  get Blob(): unknown {
    return web.Blob;
  },
  get File(): unknown {
    return web.File;
  },
  resolveObjectURL: (url: unknown): unknown => require("./blob.ts").resolveObjectURL(String(url)),
};

export const builtins = { buffer, string_decoder: { StringDecoder } };
