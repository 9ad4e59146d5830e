// Large JSON text, parsed in slices so that the event loop runs on: one forward scan finds where to cut, and the native parser
// reads each cut. The scan knows strings and brackets only; that the text is JSON is for the native parser to say.
import type { JsonValue } from "../../sandbox/contract/errors.ts";
import { toBoundedPointer } from "../json-schema/json-pointer.ts";
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
import { JsonBuilder } from "./large-json-builder.ts";
import { LongString } from "./long-string-reader.ts";
import { isProtoKey, MAX_PROTO_UNITS, PROTO } from "./proto-key.ts";

/** Text for the native parser at one time: 0.5 to 2 ms of its work [m]. */
const BATCH_BYTES = 32 * 1024;
/** A string value that is longer is read in pieces. */
const LONG_STRING_BYTES = 8 * BATCH_BYTES;
/** No key, number or gap can be cut; 64 MiB of digits took 90 ms [m]. None that means something is near this. */
const MAX_TOKEN_BYTES = 1024 * 1024;
const MAX_POINTER_CHARS = 1_024;

/** Whether the string from `start` to `quote` is to be looked at more closely. */
function mayBeProto(bytes: Buffer, start: number, quote: number): boolean {
  const length = quote - start - 1;
  return length >= PROTO.length && length <= MAX_PROTO_UNITS && startsSpecially(bytes[start + 1]);
}

export interface LargeJsonOptions {
  readonly limits: Pick<JsonTextLimits, "depth" | "values" | "members">;
  readonly refusals: JsonErrorFactory;
  readonly signal?: AbortSignal | undefined;
  readonly cpuAccount?: CpuAccount | undefined;
  /** Both for tests. */
  readonly batchBytes?: number;
  readonly longStringBytes?: number;
}

/**
 * What JSON.parse makes of the text in UTF-8, made over several turns of the event loop.
 * @throws {ToolError} as `options.refusals` has them; or the reason of `options.signal`
 */
export async function parseLargeJson(bytes: Buffer, options: LargeJsonOptions): Promise<JsonValue> {
  const builder = new JsonBuilder(options.refusals, options.limits.members);
  const parser = new LargeJsonParser(bytes, options, builder);
  await runTimeSliced(() => parser.step(), options.signal, options.cpuAccount);
  parser.finish();
  return builder.finish();
}

/**
 * Checks bounds and keys of text that is known to be JSON, in the same turns and with the same refusals, and makes no value of it.
 */
export async function checkLargeJson(bytes: Buffer, options: LargeJsonOptions): Promise<void> {
  const scan = new LargeJsonParser(bytes, options, undefined);
  await runTimeSliced(() => scan.step(), options.signal, options.cpuAccount);
}

/** Levels are counted from the outermost container, which is 1; level 0 is the list of one that the builder keeps around the text. */
class LargeJsonParser {
  readonly #bytes: Buffer;
  readonly #limits: LargeJsonOptions["limits"];
  readonly #refusals: JsonErrorFactory;
  /** Undefined when no value is wanted: then all levels stay text. */
  readonly #builder: JsonBuilder | undefined;
  readonly #batchBytes: number;
  readonly #longStringBytes: number;
  #at = 0;
  #values = 0;
  #depth = 0;
  /** Of each open container: where its bracket is, and where its key began; -1 where it has none. */
  readonly #opens: number[] = [-1];
  readonly #keys: number[] = [-1];
  /** Levels that the builder has entered; deeper ones are still text. */
  #entered = 0;
  /** Where the text begins that the builder has not had yet; it belongs to the innermost container entered. */
  #batchAt = 0;
  /** Whether a comma stands before that text. */
  #afterComma = false;
  /** Whether that text may only go on with a comma or a bracket, since a child that was built apart has just ended. */
  #afterChild = false;
  /** Where the string began in which the scan is; -1 outside. */
  #stringAt = -1;
  /** The last string that ended, and the last one that says `__proto__`. */
  #lastString = -1;
  #lastProto = -1;
  /** The string value in which the scan is, once it has become long. */
  #long: LongString | undefined;

  constructor(bytes: Buffer, options: LargeJsonOptions, builder: JsonBuilder | undefined) {
    const { limits, refusals, batchBytes = BATCH_BYTES, longStringBytes = LONG_STRING_BYTES } = options;
    this.#bytes = bytes;
    this.#limits = limits;
    this.#refusals = refusals;
    this.#batchBytes = batchBytes;
    this.#longStringBytes = longStringBytes;
    this.#builder = builder;
  }

  /** Goes on by about one batch; true at the end of the text. */
  step(): boolean {
    const end = Math.min(this.#at + this.#batchBytes, this.#bytes.length);
    this.#scan(end);
    if (this.#values > this.#limits.values) throw this.#refusals.values();
    const isDone = this.#at >= this.#bytes.length;
    if (this.#builder === undefined) return isDone;
    if (this.#stringAt >= 0) this.#readLongString(this.#builder);
    if (this.#long === undefined) this.#checkPending(this.#builder);
    return isDone;
  }

  finish(): void {
    if (this.#depth > 0 || this.#stringAt >= 0) throw this.#refusals.syntax();
    if (!this.#afterChild) this.#builder?.add(this.#textTo(this.#bytes.length), true);
  }

  /**
   * The one loop that sees every byte, so it keeps in variables what it changes at most tokens, and writes it back where another
   * method goes on: four times as fast as a method for each token [m].
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
          if (this.#afterChild) throw this.#refusals.syntax();
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
          if (this.#afterChild) throw this.#refusals.syntax();
          at = skipToken(bytes, at + 1, end);
          break;
        case OPEN:
          values += CONTAINER_VALUES;
          if (this.#afterChild) throw this.#refusals.syntax();
          // In a list it has no key; the last string, which may be large, is not to be read for each of a thousand levels.
          this.#keys[depth + 1] = bytes[this.#opens[depth] as number] === OPEN_BRACE ? lastString : -1;
          depth += 1;
          if (depth > this.#limits.depth) throw this.#refusals.depth();
          this.#opens[depth] = at;
          at += 1;
          break;
        case CLOSE:
          if (depth === 0) throw this.#refusals.syntax();
          if (builder !== undefined && depth === this.#entered) this.#leave(builder, at);
          depth -= 1;
          at += 1;
          break;
        case COMMA:
          if (depth === 0) throw this.#refusals.syntax();
          if (builder !== undefined && (this.#afterChild || at - this.#batchAt >= this.#batchBytes)) {
            this.#depth = depth;
            this.#cut(builder, at);
          }
          at += 1;
          break;
        case COLON:
          if (this.#afterChild) throw this.#refusals.syntax();
          if (this.#lastProto >= 0 && this.#lastProto === lastString) throw this.#refuseProto(depth);
          at += 1;
      }
    }
    this.#at = at;
    this.#values = values;
    this.#depth = depth;
    this.#lastString = lastString;
  }

  /** Scans to the end of the string or number in which the last scan has stopped; gives where the scan stands then. */
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

  /** The innermost container that the builder has entered ends. */
  #leave(builder: JsonBuilder, at: number): void {
    if (!this.#afterChild) builder.add(this.#textTo(at), this.#afterComma);
    builder.leave(this.#bytes[at] === CLOSE_BRACKET);
    this.#entered -= 1;
    this.#endChild(at + 1);
  }

  #endChild(next: number): void {
    this.#batchAt = next;
    this.#afterChild = true;
  }

  /** At a comma after which the builder goes on: after a child of its own, or when there is a batch for it. */
  #cut(builder: JsonBuilder, at: number): void {
    if (this.#afterChild) this.#afterChild = false;
    else {
      this.#enterAll(builder);
      builder.add(this.#textTo(at), true);
    }
    this.#batchAt = at + 1;
    this.#afterComma = true;
  }

  /** Hands to the builder what stands before each open container that is still text, and has it enter that one. */
  #enterAll(builder: JsonBuilder): void {
    while (this.#entered < this.#depth) {
      this.#entered += 1;
      const at = this.#opens[this.#entered] ?? 0;
      const key = this.#keyText(this.#keys[this.#entered] ?? -1);
      builder.enter(this.#textTo(at), key, this.#bytes[at] === OPEN_BRACKET);
      this.#batchAt = at + 1;
      this.#afterComma = false;
    }
  }

  /** Reads a piece of the string in which the scan is, when that is a value and long. */
  #readLongString(builder: JsonBuilder): void {
    const start = this.#stringAt;
    if (this.#long === undefined) {
      if (this.#at - start < this.#longStringBytes || !this.#isValue(start)) return;
      this.#enterAll(builder);
      this.#long = new LongString(this.#bytes, start + 1, this.#refusals);
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

  /** Whether the string that begins at `start` is no key. */
  #isValue(start: number): boolean {
    if (this.#isInList()) return true;
    let before = start - 1;
    while (KINDS[this.#bytes[before] ?? 0] === SPACE) before -= 1;
    return KINDS[this.#bytes[before] ?? 0] === COLON;
  }

  #checkPending(builder: JsonBuilder): void {
    const most = MAX_TOKEN_BYTES + this.#batchBytes;
    if (this.#at - this.#batchAt <= most) return;
    this.#enterAll(builder);
    if (this.#at - this.#batchAt > most) throw this.#refusals.token(MAX_TOKEN_BYTES);
  }

  #textTo(end: number): string {
    return this.#bytes.toString("utf8", this.#batchAt, end);
  }

  /** The JSON text of the key that begins at `start`; nothing in a list, where there is none. */
  #keyText(start: number): string {
    return start < 0 ? "" : stringTextAt(this.#bytes, start);
  }

  #refuseProto(depth: number): Error {
    const path: (string | number)[] = [];
    for (let level = 1; level < depth; level += 1) {
      const isArray = this.#bytes[this.#opens[level] ?? 0] === OPEN_BRACKET;
      path.push(isArray ? this.#commasOf(level) : this.#readKey(this.#keys[level + 1] ?? -1));
    }
    return this.#refusals.protoKey(toBoundedPointer([...path, PROTO], MAX_POINTER_CHARS));
  }

  /** Of the list that is open at this level, those before the container that is open in it. */
  #commasOf(level: number): number {
    const bytes = this.#bytes;
    const end = this.#opens[level + 1] ?? 0;
    let commas = 0;
    let depth = 0;
    for (let at = (this.#opens[level] ?? 0) + 1; at < end; at += 1) {
      const kind = KINDS[bytes[at] ?? 0];
      if (kind === STRING) at = skipString(bytes, at + 1, end);
      else if (kind === OPEN) depth += 1;
      else if (kind === CLOSE) depth -= 1;
      else if (kind === COMMA && depth === 0) commas += 1;
    }
    return commas;
  }

  #readKey(start: number): string {
    try {
      return String(JSON.parse(this.#keyText(start)));
    } catch (cause) {
      throw this.#refusals.syntax(cause);
    }
  }
}
