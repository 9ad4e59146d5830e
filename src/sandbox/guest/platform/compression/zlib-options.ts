// Reads the options of the deflate, gzip and raw streams of node:zlib, with Node's checks.
import { checkNumber, invalidArgument, outOfRange } from "../shared/node-error.ts";
import { toBytes } from "./node-zlib-data.ts";
import { type Format, isCompressor, type ZlibSettings } from "./zlib-handle.ts";

export interface ZlibOptions {
  readonly level?: number;
  readonly memLevel?: number;
  readonly strategy?: number;
  readonly windowBits?: number;
  readonly dictionary?: Uint8Array | ArrayBuffer;
  readonly chunkSize?: number;
  readonly flush?: number;
  readonly finishFlush?: number;
  readonly maxOutputLength?: number;
  readonly rejectGarbageAfterEnd?: boolean;
  readonly info?: boolean;
  readonly [name: string]: unknown;
}

/** Returns an option that is a number in a range, or its default. */
export function readNumber(
  options: ZlibOptions,
  name: string,
  [min, max, fallback]: readonly [number, number, number],
) {
  const value = options[name];
  if (value === undefined || Number.isNaN(value)) return fallback;
  checkNumber(value, `options.${name}`);
  const range = max === Number.POSITIVE_INFINITY ? `>= ${min}` : `>= ${min} and <= ${max}`;
  if (!(value >= min && value <= max)) throw outOfRange(`options.${name}`, range, value);
  return value;
}

function readWindowBits(options: ZlibOptions, format: Format): number {
  const isRaw = format === "DeflateRaw" || format === "InflateRaw";
  if (!isCompressor(format) && !isRaw && !options.windowBits) return 0;
  const min = format === "Gzip" ? 9 : 8;
  const windowBits = readNumber(options, "windowBits", [min, 15, 15]);
  // zlib cannot write a window of 256 bytes.
  return isCompressor(format) ? Math.max(windowBits, 9) : windowBits;
}

function readDictionary({ dictionary }: ZlibOptions): Uint8Array | undefined {
  if (dictionary === undefined) return undefined;
  if (ArrayBuffer.isView(dictionary) || dictionary instanceof ArrayBuffer) return toBytes(dictionary);
  const expected = "an instance of Buffer, TypedArray, DataView, or ArrayBuffer";
  throw invalidArgument("options.dictionary", expected, dictionary);
}

export const readSettings = (options: ZlibOptions, format: Format): ZlibSettings => ({
  windowBits: readWindowBits(options, format),
  level: readNumber(options, "level", [-1, 9, -1]),
  memLevel: readNumber(options, "memLevel", [1, 9, 8]),
  strategy: readNumber(options, "strategy", [0, 4, 0]),
  dictionary: readDictionary(options),
});
