// Parses large JSON text in time slices, so that the event loop stays responsive. One forward scan finds where to cut the text, and the
// native parser parses each piece. The scan recognizes only strings and brackets; the native parser checks that the text is valid JSON.
import type { JsonValue } from "../../sandbox/contract/errors.ts";
import { type CpuAccount, runTimeSliced } from "../util/time-slicing.ts";
import { CONTAINER_VALUES, type JsonErrorFactory, type JsonTextLimits } from "./json-errors.ts";
import {
  CLOSE,
  CLOSE_BRACKET,
  COLON,
  COMMA,
  KINDS,
  OPEN,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  SPACE,
  STRING,
  skipString,
  skipToken,
  startsSpecially,
  stringTextAt,
  TOKEN,
} from "./json-scanner.ts";
import { LargeJsonBuilder } from "./large-json-builder.ts";
import { LongString } from "./long-string-reader.ts";
import { isProtoKey, MAX_PROTO_LENGTH, PROTO } from "./proto-key.ts";
import { pointerToProtoKey } from "./proto-pointer.ts";

/** Size of the text that the native parser receives at a time. It takes 0.5 to 2 ms (measured). */
const BATCH_BYTES = 32 * 1024;
/** Longer string values are read in pieces. */
const LONG_STRING_BYTES = 8 * BATCH_BYTES;
/**
 * Maximum size of a key, a number or white space between tokens, because these cannot be cut: 64 MiB of digits took 90 ms (measured).
 * Legitimate ones are much shorter.
 */
const MAX_TOKEN_BYTES = 1024 * 1024;

/** Returns whether the string from `start` to `quote` may be `__proto__`. */
function mayBeProto(bytes: Buffer, start: number, quote: number): boolean {
  const length = quote - start - 1;
  return length >= PROTO.length && length <= MAX_PROTO_LENGTH && startsSpecially(bytes[start + 1]);
}

export interface LargeJsonOptions {
  readonly limits: Pick<JsonTextLimits, "depth" | "values" | "members">;
  readonly errors: JsonErrorFactory;
  readonly signal?: AbortSignal | undefined;
  readonly cpuAccount?: CpuAccount | undefined;
  /** For tests. */
  readonly batchBytes?: number;
  /** For tests. */
  readonly longStringBytes?: number;
}

/**
 * Parses UTF-8 text in time slices. The value is the same as that of JSON.parse.
 * @throws {ToolError} an error from `options.errors`, or the reason of `options.signal`; as a rejection
 */
export async function parseLargeJson(bytes: Buffer, options: LargeJsonOptions): Promise<JsonValue> {
  const builder = new LargeJsonBuilder(options.errors, options.limits.members);
  const parser = new LargeJsonParser(bytes, options, builder);
  await runTimeSliced(() => parser.step(), options.signal, options.cpuAccount);
  parser.finish();
  return builder.finish();
}

/** Checks the limits and keys of valid JSON text in time slices, without building its value. Rejects as {@link parseLargeJson} does. */
export async function checkLargeJson(bytes: Buffer, options: LargeJsonOptions): Promise<void> {
  const scan = new LargeJsonParser(bytes, options, undefined);
  await runTimeSliced(() => scan.step(), options.signal, options.cpuAccount);
}

/** Level 1 is the outermost container. Level 0 is the list with one item that the builder has around the whole text. */
class LargeJsonParser {
  readonly #bytes: Buffer;
  readonly #limits: LargeJsonOptions["limits"];
  readonly #errors: JsonErrorFactory;
  /** Undefined if no value is built. All levels stay text then. */
  readonly #builder: LargeJsonBuilder | undefined;
  readonly #batchBytes: number;
  readonly #longStringBytes: number;
  #at = 0;
  #values = 0;
  #depth = 0;
  /** Positions of the opening brackets of the open containers, by level. -1 if there is no bracket. */
  readonly #opens: number[] = [-1];
  /** Positions of the keys of the open containers, by level. -1 if there is no key. */
  readonly #keys: number[] = [-1];
  /** Number of levels that the builder has entered. Deeper levels are still text. */
  #entered = 0;
  /** Start of the pending text, which the builder has not received. It belongs to the innermost container that the builder has entered. */
  #batchAt = 0;
  /** Whether a comma precedes the pending text. */
  #afterComma = false;
  /** Whether only a comma or a closing bracket may follow, because a child that was added separately has just ended. */
  #afterChild = false;
  /** Start of the string that the scan is inside of; -1 if it is outside of strings. */
  #stringAt = -1;
  /** Start of the last complete string. */
  #lastString = -1;
  /** Start of the last complete string that is `__proto__`. */
  #lastProto = -1;
  /** Reader of the string value that the scan is inside of, once it has become long. */
  #long: LongString | undefined;

  constructor(bytes: Buffer, options: LargeJsonOptions, builder: LargeJsonBuilder | undefined) {
    const { limits, errors, batchBytes = BATCH_BYTES, longStringBytes = LONG_STRING_BYTES } = options;
    this.#bytes = bytes;
    this.#limits = limits;
    this.#errors = errors;
    this.#batchBytes = batchBytes;
    this.#longStringBytes = longStringBytes;
    this.#builder = builder;
  }

  /** Scans about one batch. Returns true at the end of the text. */
  step(): boolean {
    const end = Math.min(this.#at + this.#batchBytes, this.#bytes.length);
    this.#scan(end);
    if (this.#values > this.#limits.values) throw this.#errors.values();
    const isDone = this.#at >= this.#bytes.length;
    if (this.#builder === undefined) return isDone;
    if (this.#stringAt >= 0) this.#readLongString(this.#builder);
    if (this.#long === undefined) this.#checkPending(this.#builder);
    return isDone;
  }

  finish(): void {
    if (this.#depth > 0 || this.#stringAt >= 0) throw this.#errors.syntax();
    if (!this.#afterChild) this.#builder?.add(this.#textTo(this.#bytes.length), true);
  }

  /**
   * Scans every byte up to `end`. This is the hottest loop: the state that most tokens change is kept in local variables and written back
   * before another method needs it. That is four times as fast as a method for each token (measured).
   */
  #scan(end: number): void {
    const bytes = this.#bytes;
    const builder = this.#builder;
    let at = this.#continue(end);
    let values = this.#values;
    let depth = this.#depth;
    let lastString = this.#lastString;
    while (at < end) {
      switch (KINDS[bytes[at] as number]) {
        case SPACE:
          at += 1;
          break;
        case STRING: {
          values += 1;
          if (this.#afterChild) throw this.#errors.syntax();
          const quote = skipString(bytes, at + 1, end);
          if (quote >= end || bytes[quote] !== QUOTE) {
            this.#stringAt = at;
            at = quote;
            break;
          }
          lastString = at;
          if (mayBeProto(bytes, at, quote)) this.#noteProto(at, quote);
          at = quote + 1;
          break;
        }
        case TOKEN:
          values += 1;
          if (this.#afterChild) throw this.#errors.syntax();
          at = skipToken(bytes, at + 1, end);
          break;
        case OPEN:
          values += CONTAINER_VALUES;
          if (this.#afterChild) throw this.#errors.syntax();
          // In a list, a container has no key. Otherwise the last string, which may be large, would be read for each of a thousand levels.
          this.#keys[depth + 1] = bytes[this.#opens[depth] as number] === OPEN_BRACE ? lastString : -1;
          depth += 1;
          if (depth > this.#limits.depth) throw this.#errors.depth();
          this.#opens[depth] = at;
          at += 1;
          break;
        case CLOSE:
          if (depth === 0) throw this.#errors.syntax();
          if (builder !== undefined && depth === this.#entered) this.#leave(builder, at);
          depth -= 1;
          at += 1;
          break;
        case COMMA:
          if (depth === 0) throw this.#errors.syntax();
          if (builder !== undefined && (this.#afterChild || at - this.#batchAt >= this.#batchBytes)) {
            this.#depth = depth;
            this.#cut(builder, at);
          }
          at += 1;
          break;
        case COLON:
          if (this.#afterChild) throw this.#errors.syntax();
          if (this.#lastProto >= 0 && this.#lastProto === lastString) throw this.#protoKeyError(depth);
          at += 1;
      }
    }
    this.#at = at;
    this.#values = values;
    this.#depth = depth;
    this.#lastString = lastString;
  }

  /** Scans to the end of the string or number that the last scan stopped in. Returns the position after it. */
  #continue(end: number): number {
    const bytes = this.#bytes;
    const at = this.#at;
    if (this.#stringAt < 0) {
      return at > 0 && KINDS[bytes[at - 1] as number] === TOKEN ? skipToken(bytes, at, end) : at;
    }
    const quote = skipString(bytes, at, end);
    if (quote >= end || bytes[quote] !== QUOTE) return quote;
    const start = this.#stringAt;
    if (this.#long !== undefined) this.#endLongString(this.#long, quote);
    else {
      this.#lastString = start;
      if (mayBeProto(bytes, start, quote)) this.#noteProto(start, quote);
    }
    this.#stringAt = -1;
    return quote + 1;
  }

  #noteProto(start: number, quote: number): void {
    if (isProtoKey(this.#bytes.toString("latin1", start + 1, quote))) this.#lastProto = start;
  }

  /** Ends the innermost container that the builder has entered. */
  #leave(builder: LargeJsonBuilder, at: number): void {
    if (!this.#afterChild) builder.add(this.#textTo(at), this.#afterComma);
    builder.leave(this.#bytes[at] === CLOSE_BRACKET);
    this.#entered -= 1;
    this.#endChild(at + 1);
  }

  #endChild(next: number): void {
    this.#batchAt = next;
    this.#afterChild = true;
  }

  /** Cuts the text at a comma: after a child that was added separately, or if the pending text is a full batch. */
  #cut(builder: LargeJsonBuilder, at: number): void {
    if (this.#afterChild) this.#afterChild = false;
    else {
      this.#enterAll(builder);
      builder.add(this.#textTo(at), true);
    }
    this.#batchAt = at + 1;
    this.#afterComma = true;
  }

  /** Makes the builder enter each open container that is still text, after adding the text before it. */
  #enterAll(builder: LargeJsonBuilder): void {
    while (this.#entered < this.#depth) {
      this.#entered += 1;
      const at = this.#opens[this.#entered] ?? 0;
      const key = this.#keyText(this.#keys[this.#entered] ?? -1);
      builder.enter(this.#textTo(at), key, this.#bytes[at] === OPEN_BRACKET);
      this.#batchAt = at + 1;
      this.#afterComma = false;
    }
  }

  /** Reads a piece of the string that the scan is inside of, if it is a value and long. */
  #readLongString(builder: LargeJsonBuilder): void {
    const start = this.#stringAt;
    if (this.#long === undefined) {
      if (this.#at - start < this.#longStringBytes || !this.#isValue(start)) return;
      this.#enterAll(builder);
      this.#long = new LongString(this.#bytes, start + 1, this.#errors);
    }
    this.#long.read(this.#at);
  }

  #endLongString(long: LongString, end: number): void {
    long.read(end);
    this.#builder?.addWith(this.#textTo(this.#stringAt), this.#keyText(this.#lastString), long.text);
    this.#long = undefined;
    this.#endChild(end + 1);
  }

  #isInList(): boolean {
    return this.#depth === 0 || this.#bytes[this.#opens[this.#depth] ?? 0] === OPEN_BRACKET;
  }

  /** Returns whether the string that starts at `start` is a value and not a key. */
  #isValue(start: number): boolean {
    if (this.#isInList()) return true;
    let before = start - 1;
    while (KINDS[this.#bytes[before] ?? 0] === SPACE) before -= 1;
    return KINDS[this.#bytes[before] ?? 0] === COLON;
  }

  /** Limits the pending text, which grows until it can be cut. */
  #checkPending(builder: LargeJsonBuilder): void {
    const maxBytes = MAX_TOKEN_BYTES + this.#batchBytes;
    if (this.#at - this.#batchAt <= maxBytes) return;
    this.#enterAll(builder);
    if (this.#at - this.#batchAt > maxBytes) throw this.#errors.token(MAX_TOKEN_BYTES);
  }

  #textTo(end: number): string {
    return this.#bytes.toString("utf8", this.#batchAt, end);
  }

  /** Returns the JSON text of the key that starts at `start`, or an empty text in a list. */
  #keyText(start: number): string {
    return start < 0 ? "" : stringTextAt(this.#bytes, start);
  }

  #protoKeyError(depth: number): Error {
    const containers = { opens: this.#opens, keys: this.#keys, depth };
    let pointer: string;
    try {
      pointer = pointerToProtoKey(this.#bytes, containers);
    } catch (cause) {
      return this.#errors.syntax(cause);
    }
    return this.#errors.protoKey(pointer);
  }
}
