// Splits a worker's frame of chunks into single chunks, without parsing them.
import { STREAM_WINDOW } from "../../../sandbox/protocol/guest-messages.ts";
import type { RawChunk } from "../../contract/tool-stream.ts";
import { readAttachments } from "../../contract/tool-value.ts";

const NEWLINE = 10;
/** Lines up to this size are copied to a string. A view would keep the whole frame in memory. */
const SMALL_BYTES = 128 * 1024;

/** Splits at newlines. Limits the count, because a frame may consist of newlines only. */
function splitLines(lines: Buffer): Buffer[] {
  const chunks: Buffer[] = [];
  let from = 0;
  for (let at = lines.indexOf(NEWLINE); at >= 0; at = lines.indexOf(NEWLINE, from)) {
    if (chunks.length >= STREAM_WINDOW.chunks) throw new Error("The worker sent more chunks than requested");
    chunks.push(lines.subarray(from, at));
    from = at + 1;
  }
  chunks.push(lines.subarray(from));
  return chunks;
}

const toText = (line: Buffer): string | Buffer => (line.length <= SMALL_BYTES ? line.toString() : line);

/**
 * Parses the parts of a chunk message.
 * @throws {Error} for parts that a correct worker never sends
 */
export function toRawChunks(parts: readonly Buffer[]): RawChunk[] {
  const [lines, header, data] = parts;
  if (lines === undefined || parts.length === 2 || parts.length > 3)
    throw new Error("The worker sent an invalid chunk message");
  if (header === undefined || data === undefined) {
    return splitLines(lines).map((line) => ({ text: toText(line), size: line.length }));
  }
  const bytes = (): ReturnType<typeof readAttachments> => readAttachments(header, data, "A chunk of the output");
  return [{ text: toText(lines), bytes, attachments: [header, data], size: lines.length + data.length }];
}
