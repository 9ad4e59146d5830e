// Content codings of responses that the host decodes before a tool reads the body. The guest's node:http leaves out their header, since the
// body no longer has them. No imports: this file is bundled into a platform module.

const CODINGS = ["gzip", "x-gzip", "deflate", "br", "zstd"] as const;
export type ContentCoding = (typeof CODINGS)[number];

const isKnown = (coding: string): coding is ContentCoding => (CODINGS as readonly string[]).includes(coding);

/** Returns the content codings of a header in the order in which they were applied. */
export const listCodings = (header: string): readonly string[] =>
  header
    .toLowerCase()
    .split(",")
    .map((coding) => coding.trim())
    .filter((coding) => coding !== "" && coding !== "identity");

/** Returns the codings that the host decodes: all of them, or none if one is unknown. */
export const decodedCodings = (codings: readonly string[]): readonly ContentCoding[] =>
  codings.every(isKnown) ? codings : [];
