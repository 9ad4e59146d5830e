// The encodings from before Unicode, for TextDecoder: @exodus/bytes has their tables in a tenth of the room of others.
import { normalizeEncoding, TextDecoder } from "@exodus/bytes/encoding.js";
import type { LegacyDecoder } from "./encoding.ts";

export function createLegacyDecoder(label: string, fatal: boolean): LegacyDecoder | undefined {
  const encoding = normalizeEncoding(label);
  // The standard's own way to refuse an encoding that is not safe to decode.
  if (encoding === null || encoding === "replacement") return undefined;
  return new TextDecoder(encoding, { fatal }) as unknown as LegacyDecoder;
}
