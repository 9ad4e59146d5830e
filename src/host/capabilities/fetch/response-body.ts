// The body of a response on its way to the tool: decoded as fetch decodes, counted before and after, redacted, in parts.
import { pipeline, type Readable, type Transform } from "node:stream";
// Zstandard by its module, not by name: an import of a name that an older Node lacks would fail before that Node can be reported.
import zlib, { constants, createBrotliDecompress, createGunzip, createInflate, createInflateRaw } from "node:zlib";
import { ToolError } from "../../../sandbox/contract/errors.ts";
import { filteredParts, type StreamFilter, type Turns } from "../../observability/redaction/stream-filter.ts";

/** What a tool is given at once. */
const MAX_PART_BYTES = 256 * 1024;
const DECODED_BYTES = 64 * 1024;
/** More than anybody means well with. */
const MAX_CODINGS = 5;
/** Comparisons of a byte with a secret's value that take a millisecond or two; a longer part takes several turns of the event loop. */
const AT_ONCE_COMPARISONS = 256 * 1024;

const gunzip = (): Transform =>
  createGunzip({ chunkSize: DECODED_BYTES, flush: constants.Z_SYNC_FLUSH, finishFlush: constants.Z_SYNC_FLUSH });
const DECODERS: { readonly [coding: string]: (first: number) => Transform } = {
  gzip: gunzip,
  "x-gzip": gunzip,
  // With zlib's header, as it should be, or without, as it often is.
  deflate: (first) => {
    const options = { chunkSize: DECODED_BYTES, flush: constants.Z_SYNC_FLUSH, finishFlush: constants.Z_SYNC_FLUSH };
    return (first & 0x0f) === 8 ? createInflate(options) : createInflateRaw(options);
  },
  br: () => createBrotliDecompress({ chunkSize: DECODED_BYTES }),
  // RFC 9659: a window of 8 MiB, so that a decoder's memory has an end.
  zstd: () => zlib.createZstdDecompress({ chunkSize: DECODED_BYTES, params: { [constants.ZSTD_d_windowLogMax]: 23 } }),
};

/** In the order in which they were applied. None where one is unknown: then the body is passed on as it is. */
function codingsOf(header: string): readonly string[] {
  const codings = header
    .toLowerCase()
    .split(",")
    .map((coding) => coding.trim())
    .filter((coding) => coding !== "" && coding !== "identity");
  if (codings.length > MAX_CODINGS)
    throw new ToolError("QUOTA_EXCEEDED", `A response may be encoded ${MAX_CODINGS} times`);
  return codings.every((coding) => Object.hasOwn(DECODERS, coding)) ? codings : [];
}

async function* decode(source: AsyncIterable<Buffer>, coding: string): AsyncGenerator<Buffer> {
  const parts = source[Symbol.asyncIterator]();
  const first = await parts.next();
  if (first.done === true) return;
  const decoder = DECODERS[coding]?.(first.value[0] ?? 0);
  if (decoder === undefined) return;
  async function* whole(): AsyncGenerator<Buffer> {
    yield first.value;
    for (let part = await parts.next(); part.done !== true; part = await parts.next()) yield part.value;
  }
  // The error comes out of the iteration.
  pipeline(whole, decoder, () => {});
  try {
    for await (const part of decoder) yield part as Buffer;
  } finally {
    decoder.destroy();
  }
}

async function* counted(source: AsyncIterable<Buffer>, most: number): AsyncGenerator<Buffer> {
  let bytes = 0;
  for await (const part of source) {
    bytes += part.length;
    if (bytes > most) throw new ToolError("QUOTA_EXCEEDED", `A response's body may have ${most} bytes`);
    yield part;
  }
}

async function* redacted(
  source: AsyncIterable<Buffer>,
  filter: StreamFilter,
  turns: Turns,
): AsyncGenerator<Buffer, void> {
  for await (const part of source) {
    if (filter.costOf(part.length) <= AT_ONCE_COMPARISONS) yield filter.push(part);
    else yield* filteredParts(filter.steps(part), turns);
  }
  yield* filteredParts(filter.lastSteps(), turns);
}

export interface ResponseBodyOptions {
  readonly contentEncoding: string;
  readonly maxBytes: number;
  /** Takes out what the tool may not see. */
  readonly filter: StreamFilter;
  readonly turns: Turns;
}

/** The body in parts of 1 byte to 256 KiB. Throws what the network, a decoder or a cap throws. */
export async function* readBody(body: Readable, options: ResponseBodyOptions): AsyncGenerator<Buffer> {
  const { contentEncoding, maxBytes, filter, turns } = options;
  let parts: AsyncIterable<Buffer> = counted(body, maxBytes);
  for (const coding of codingsOf(contentEncoding).toReversed()) parts = counted(decode(parts, coding), maxBytes);
  // What stands in a value's place may be longer than the value: counted once more.
  const shown = filter.isIdle ? parts : counted(redacted(parts, filter, turns), maxBytes);
  for await (const part of shown) {
    for (let at = 0; at < part.length; at += MAX_PART_BYTES) yield part.subarray(at, at + MAX_PART_BYTES);
  }
}
