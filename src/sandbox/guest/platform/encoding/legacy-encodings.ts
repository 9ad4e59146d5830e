// The legacy encodings of TextDecoder. The tables of @exodus/bytes are a tenth of the size of others.
import { normalizeEncoding, TextDecoder } from "@exodus/bytes/encoding.js";
import type { LegacyDecoder } from "./encoding.ts";

export function createLegacyDecoder(label: string, fatal: boolean): LegacyDecoder | undefined {
  const encoding = normalizeEncoding(label);
  // "replacement" is the standard's label for encodings that are unsafe to decode.
  if (encoding === null || encoding === "replacement") return undefined;
  return new TextDecoder(encoding, { fatal }) as unknown as LegacyDecoder;
}
