// Reads the body of a response for the tool: decodes it as fetch does, counts its bytes before and after, redacts secrets, and splits it.
import { pipeline, type Readable, type Transform } from "node:stream";
// Zstandard is used through the module object: a named import that an older Node.js lacks would fail before its version can be reported.
import zlib, { constants, createBrotliDecompress, createGunzip, createInflate, createInflateRaw } from "node:zlib";
import { ToolError } from "../../../sandbox/contract/errors.ts";
import { type ContentCoding, decodedCodings, listCodings } from "../../../sandbox/protocol/content-codings.ts";
import { filteredParts, type StreamFilter, type Turns } from "../../observability/redaction/stream-filter.ts";

/** Longest part that a tool receives. */
const MAX_PART_BYTES = 256 * 1024;
const DECODED_BYTES = 64 * 1024;
/** Real servers use one or two codings. The limit stops bodies that are compressed many times over. */
const MAX_CODINGS = 5;
/** Comparisons of a byte with a secret's value in one turn of the event loop: 1 to 2 ms. A longer part is time-sliced. */
const MAX_SYNC_COMPARISONS = 256 * 1024;

const gunzip = (): Transform =>
  createGunzip({ chunkSize: DECODED_BYTES, flush: constants.Z_SYNC_FLUSH, finishFlush: constants.Z_SYNC_FLUSH });
const DECODERS: { readonly [Coding in ContentCoding]: (first: number) => Transform } = {
  gzip: gunzip,
  "x-gzip": gunzip,
  // The standard requires a zlib header, but many servers omit it.
  deflate: (first) => {
    const options = { chunkSize: DECODED_BYTES, flush: constants.Z_SYNC_FLUSH, finishFlush: constants.Z_SYNC_FLUSH };
    return (first & 0x0f) === 8 ? createInflate(options) : createInflateRaw(options);
  },
  br: () => createBrotliDecompress({ chunkSize: DECODED_BYTES }),
  // RFC 9659 limits the window to 8 MiB, which bounds the decoder's memory.
  zstd: () => zlib.createZstdDecompress({ chunkSize: DECODED_BYTES, params: { [constants.ZSTD_d_windowLogMax]: 23 } }),
};

/** Returns the content codings to decode. @throws {ToolError} QUOTA_EXCEEDED */
function codingsOf(header: string): readonly ContentCoding[] {
  const codings = listCodings(header);
  if (codings.length > MAX_CODINGS)
    throw new ToolError("QUOTA_EXCEEDED", `The response has more than ${MAX_CODINGS} content codings`);
  return decodedCodings(codings);
}

async function* decode(source: AsyncIterable<Buffer>, coding: ContentCoding): AsyncGenerator<Buffer> {
  const parts = source[Symbol.asyncIterator]();
  const first = await parts.next();
  if (first.done === true) return;
  const decoder = DECODERS[coding](first.value[0] ?? 0);
  async function* whole(): AsyncGenerator<Buffer> {
    yield first.value;
    for (let part = await parts.next(); part.done !== true; part = await parts.next()) yield part.value;
  }
  // Iterating over the decoder throws its error.
  pipeline(whole, decoder, () => {});
  try {
    for await (const part of decoder) yield part as Buffer;
  } finally {
    decoder.destroy();
  }
}

/** Returns the error of a response body that exceeds the limit. */
export const responseTooLarge = (max: number): ToolError =>
  new ToolError("QUOTA_EXCEEDED", `The response's body has more than ${max} bytes (egress.responseBytes)`);

async function* counted(source: AsyncIterable<Buffer>, max: number): AsyncGenerator<Buffer> {
  let bytes = 0;
  for await (const part of source) {
    bytes += part.length;
    if (bytes > max) throw responseTooLarge(max);
    yield part;
  }
}

async function* redacted(
  source: AsyncIterable<Buffer>,
  filter: StreamFilter,
  turns: Turns,
): AsyncGenerator<Buffer, void> {
  for await (const part of source) {
    if (filter.costOf(part.length) <= MAX_SYNC_COMPARISONS) yield filter.push(part);
    else yield* filteredParts(filter.steps(part), turns);
  }
  yield* filteredParts(filter.lastSteps(), turns);
}

export interface ResponseBodyOptions {
  readonly contentEncoding: string;
  readonly maxBytes: number;
  /** Redacts the values of secrets. */
  readonly filter: StreamFilter;
  readonly turns: Turns;
}

/** Yields the body in parts of 1 byte to 256 KiB. Throws errors of the network, of a decoder, or of a limit. */
export async function* readBody(body: Readable, options: ResponseBodyOptions): AsyncGenerator<Buffer> {
  const { contentEncoding, maxBytes, filter, turns } = options;
  let parts: AsyncIterable<Buffer> = counted(body, maxBytes);
  for (const coding of codingsOf(contentEncoding).toReversed()) parts = counted(decode(parts, coding), maxBytes);
  // A redaction label may be longer than the value, so the bytes are counted again.
  const shown = filter.isIdle ? parts : counted(redacted(parts, filter, turns), maxBytes);
  for await (const part of shown) {
    for (let at = 0; at < part.length; at += MAX_PART_BYTES) yield part.subarray(at, at + MAX_PART_BYTES);
  }
}
