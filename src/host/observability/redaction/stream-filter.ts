// Replaces literals in bytes that arrive in chunks. Bytes that may be the start of a literal are held back until it is certain.
import { type CpuAccount, runTimeSliced } from "../../util/time-slicing.ts";
import { LiteralMatcher, type Match } from "./literal-matcher.ts";
import type { SecretLiteral, SecretLiteralSet } from "./secret-literal.ts";

const EMPTY = Buffer.alloc(0);

/** Comparisons of a byte with a literal in one step: about 0.5 ms. */
const STEP_COMPARISONS = 64 * 1024;
const MIN_STEP_BYTES = 256;
const MAX_STEP_BYTES = 16 * 1024;

/** Filters one stream. */
export class StreamFilter {
  readonly #literals: SecretLiteralSet;
  readonly #matchers: readonly LiteralMatcher[];
  readonly #stepBytes: number;
  /** Bytes that were not passed on yet; `#base` is the offset of the first one. */
  #text: Buffer = EMPTY;
  #base = 0;
  /** Offset up to which the matchers have read. */
  #read = 0;
  #pending: readonly Match[] = [];
  #replaced = 0;

  constructor(literals: SecretLiteralSet) {
    this.#literals = literals;
    this.#matchers = [new LiteralMatcher(literals, true), new LiteralMatcher(literals, false)];
    this.#stepBytes = Math.min(MAX_STEP_BYTES, Math.max(MIN_STEP_BYTES, Math.floor(STEP_COMPARISONS / literals.size)));
  }

  /** Number of replacements so far. */
  get replaced(): number {
    return this.#replaced;
  }

  /** Whether the filter has no literals, so that all bytes pass. */
  get isIdle(): boolean {
    return this.#literals.isEmpty;
  }

  /** Returns the number of comparisons of a byte with a literal that filtering these bytes takes. */
  costOf(bytes: number): number {
    return bytes * this.#literals.size;
  }

  /** Filters a chunk. Returns the bytes that can be passed on now, possibly none. Throws the exceptions of a literal's replacement. */
  push(chunk: Uint8Array): Buffer {
    return join(this.steps(chunk));
  }

  /** Ends the stream and returns the bytes that were held back. */
  end(): Buffer {
    return join(this.lastSteps());
  }

  /** Like {@link push}, in steps of less than a millisecond. The parts that they yield may be empty. */
  *steps(chunk: Uint8Array): Generator<Buffer, void> {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    if (this.isIdle) {
      yield bytes;
      return;
    }
    this.#text = this.#text.length === 0 ? bytes : Buffer.concat([this.#text, bytes]);
    yield* this.#pass(false);
    // Copied, because the chunk belongs to the caller and may be large.
    this.#text = Buffer.from(this.#text);
  }

  /** Like {@link end}, in steps. */
  *lastSteps(): Generator<Buffer, void> {
    if (this.#text.length > 0) yield* this.#pass(true);
  }

  /** Filters a stream of one chunk, in steps. */
  *wholeSteps(bytes: Uint8Array): Generator<Buffer, void> {
    yield* this.steps(bytes);
    yield* this.lastSteps();
  }

  *#pass(isWhole: boolean): Generator<Buffer, void> {
    const end = this.#base + this.#text.length;
    do {
      this.#read = Math.min(this.#read + this.#stepBytes, end);
      const found = this.#matchers.flatMap((matcher) => matcher.follow(this.#text, this.#base, this.#read, isWhole));
      yield EMPTY;
      yield* this.#emit(merge([...this.#pending, ...found]), isWhole && this.#read === end);
    } while (this.#read < end);
  }

  /** Passes on all bytes before the earliest possible match. */
  #emit(matches: readonly Match[], isLast: boolean): readonly Buffer[] {
    const end = this.#base + this.#text.length;
    const openAt = isLast ? end : Math.min(...this.#matchers.map((matcher) => matcher.openAt));
    const certain = matches.filter(({ start }) => start < openAt);
    this.#pending = matches.slice(certain.length);
    const parts: Buffer[] = [];
    let from = this.#base;
    for (const { start, end: until, literal } of certain) {
      // A match that overlaps the previous one is part of its replacement.
      if (start >= from) parts.push(this.#slice(from, start), this.#replacement(start, until, literal));
      from = Math.max(from, until);
    }
    if (openAt > from) parts.push(this.#slice(from, openAt));
    from = Math.max(from, openAt);
    this.#text = this.#text.subarray(from - this.#base);
    this.#base = from;
    for (const matcher of this.#matchers) matcher.skipTo(from);
    return parts;
  }

  #slice(from: number, to: number): Buffer {
    return this.#text.subarray(from - this.#base, to - this.#base);
  }

  #replacement(start: number, end: number, literal: SecretLiteral): Buffer {
    this.#replaced += 1;
    const written = literal.replace(this.#slice(start, end).toString("latin1"));
    return typeof written === "string" ? Buffer.from(written) : written;
  }
}

/** Merges overlapping matches into one, with the replacement of the first. */
function merge(matches: readonly Match[]): readonly Match[] {
  if (matches.length < 2) return matches;
  const merged: Match[] = [];
  for (const match of matches.toSorted((a, b) => a.start - b.start || b.end - a.end)) {
    const last = merged.at(-1);
    if (last === undefined || match.start >= last.end) merged.push(match);
    else if (match.end > last.end) merged[merged.length - 1] = { ...last, end: match.end };
  }
  return merged;
}

function join(steps: Iterable<Buffer>): Buffer {
  const parts = [...steps].filter(({ length }) => length > 0);
  const [only = EMPTY] = parts;
  return parts.length < 2 ? only : Buffer.concat(parts);
}

/** The CPU account that is charged for the work, and a signal that ends it early. */
export interface Turns {
  readonly signal?: AbortSignal | undefined;
  readonly cpuAccount?: CpuAccount | undefined;
}

/** Runs the steps of a filter over several turns of the event loop and passes each part to `take`. Rejects if `take` throws. */
export async function runSteps(
  steps: Iterator<Buffer, void>,
  take: (part: Buffer) => void,
  { signal, cpuAccount }: Turns = {},
): Promise<void> {
  const step = (): boolean => {
    const { done, value } = steps.next();
    if (done !== true && value.length > 0) take(value);
    return done === true;
  };
  await runTimeSliced(step, signal, cpuAccount);
}

/** Size of the parts that {@link filteredParts} yields, give or take one replacement. */
const PART_BYTES = 64 * 1024;

/** Runs the steps of a filter over several turns of the event loop, at the speed at which its parts are read. */
export async function* filteredParts(
  steps: Iterator<Buffer, void>,
  { signal, cpuAccount }: Turns,
): AsyncGenerator<Buffer> {
  for (let isDone = false; !isDone; ) {
    const parts: Buffer[] = [];
    let bytes = 0;
    const step = (): boolean => {
      const { done, value } = steps.next();
      isDone = done === true;
      if (isDone || value === undefined) return true;
      parts.push(value);
      bytes += value.length;
      return bytes >= PART_BYTES;
    };
    await runTimeSliced(step, signal, cpuAccount);
    if (bytes > 0) yield Buffer.concat(parts, bytes);
  }
}

const IMMEDIATE_COMPARISONS = 256 * 1024;

/** Filters bytes: immediately if it takes a millisecond or two, otherwise over several turns of the event loop. */
export async function filterBytes(filter: StreamFilter, bytes: Buffer, turns: Turns = {}): Promise<Buffer> {
  if (filter.costOf(bytes.length) <= IMMEDIATE_COMPARISONS) return filter.push(bytes);
  const parts: Buffer[] = [];
  await runSteps(filter.steps(bytes), (part) => parts.push(part), turns);
  return Buffer.concat(parts);
}

/** Filters a whole text synchronously. */
export function filterText(text: string, literals: SecretLiteralSet): string {
  if (literals.isEmpty) return text;
  const filter = new StreamFilter(literals);
  const written = join(filter.wholeSteps(Buffer.from(text)));
  return filter.replaced === 0 ? text : written.toString();
}

/** Filters whole texts separately: immediately if it takes a millisecond or two, otherwise over several turns of the event loop. */
export async function filterTexts(
  texts: readonly string[],
  literals: SecretLiteralSet,
  turns: Turns,
): Promise<readonly string[]> {
  const length = texts.reduce((sum, { length }) => sum + length, 0);
  if (length * literals.size <= IMMEDIATE_COMPARISONS) return texts.map((text) => filterText(text, literals));
  const filtered: string[] = [];
  for (const text of texts) {
    const filter = new StreamFilter(literals);
    const parts: Buffer[] = [];
    await runSteps(filter.wholeSteps(Buffer.from(text)), (part) => parts.push(part), turns);
    filtered.push(filter.replaced === 0 ? text : Buffer.concat(parts).toString());
  }
  return filtered;
}
