// A frame of chunks as the worker sends it, cut into chunks. None of them has been looked at.
import { STREAM_WINDOW } from "../../sandbox/protocol/guest-messages.ts";
import type { RawChunk } from "../contract/tool-stream.ts";
import { readBeside } from "../contract/tool-value.ts";

const NEWLINE = 10;
/** Lines of less than this become text at once: a view would keep all of its frame. */
const SMALL_BYTES = 128 * 1024;

/** Not more than may come at one time: a frame may be nothing but newlines. */
function cut(lines: Buffer): Buffer[] {
  const cuts: Buffer[] = [];
  let from = 0;
  for (let at = lines.indexOf(NEWLINE); at >= 0; at = lines.indexOf(NEWLINE, from)) {
    if (cuts.length >= STREAM_WINDOW.chunks) throw new Error("The worker sent more chunks than were asked for");
    cuts.push(lines.subarray(from, at));
    from = at + 1;
  }
  cuts.push(lines.subarray(from));
  return cuts;
}

const toText = (line: Buffer): string | Buffer => (line.length <= SMALL_BYTES ? line.toString() : line);

/** @throws {Error} for parts that no worker of ours sends */
export function toRawChunks(parts: readonly Buffer[]): RawChunk[] {
  const [lines, header, data] = parts;
  if (lines === undefined || parts.length === 2 || parts.length > 3) throw new Error("The worker sent no chunks");
  if (header === undefined || data === undefined) {
    return cut(lines).map((line) => ({ text: toText(line), size: line.length }));
  }
  const bytes = (): ReturnType<typeof readBeside> => readBeside(header, data, "A chunk of the output");
  return [{ text: toText(lines), bytes, size: lines.length + data.length }];
}
