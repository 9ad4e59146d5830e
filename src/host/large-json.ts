// Large JSON text, parsed in slices so that the event loop runs on: one forward scan finds where to cut, and the native parser
// reads each cut. The scan knows strings and brackets only; that the text is JSON is for the native parser to say.
import type { JsonValue } from "../sandbox/errors.ts";
import { JsonBuilder } from "./json-builder.ts";
import {
  BACKSLASH,
  CLOSE,
  CLOSE_BRACKET,
  COLON,
  COMMA,
  KINDS,
  OPEN,
  OPEN_BRACKET,
  QUOTE,
  SPACE,
  STRING,
  skipString,
  skipToken,
  stringTextAt,
  TOKEN,
  UNDERSCORE,
} from "./json-bytes.ts";
import { CONTAINER_VALUES, type JsonRefusals, type JsonTextLimits } from "./json-refusals.ts";
import { toBoundedPointer } from "./json-schema/json-pointer.ts";
import { LongString } from "./long-string.ts";
import { isProtoKey, MAX_PROTO_UNITS, PROTO } from "./proto-key.ts";
import { inTurns, type Payer } from "./turns.ts";

/** Text for the native parser at one time: 0.5 to 2 ms of its work [m]. */
const BATCH_BYTES = 32 * 1024;
/** A string value that is longer is read in pieces. */
const LONG_STRING_BYTES = 8 * BATCH_BYTES;
/** No key, number or gap can be cut; 64 MiB of digits took 90 ms [m]. None that means something is near this. */
const MAX_TOKEN_BYTES = 1024 * 1024;
const MAX_POINTER_CHARS = 1_024;

export interface LargeJsonOptions {
  readonly limits: Pick<JsonTextLimits, "depth" | "values">;
  readonly refusals: JsonRefusals;
  readonly signal?: AbortSignal | undefined;
  readonly payer?: Payer | undefined;
  /** Both for tests. */
  readonly batchBytes?: number;
  readonly longStringBytes?: number;
}

/**
 * What JSON.parse makes of the text in UTF-8, made over several turns of the event loop.
 * @throws {ToolError} as `options.refusals` has them; or the reason of `options.signal`
 */
export async function parseLargeJson(bytes: Buffer, options: LargeJsonOptions): Promise<JsonValue> {
  const builder = new JsonBuilder(options.refusals);
  const parser = new LargeJsonParser(bytes, options, builder);
  await inTurns(() => parser.step(), options.signal, options.payer);
  parser.finish();
  return builder.finish();
}

/**
 * Checks bounds and keys of text that is known to be JSON, in the same turns and with the same refusals, and makes no value of it.
 */
export async function checkLargeJson(bytes: Buffer, options: LargeJsonOptions): Promise<void> {
  const scan = new LargeJsonParser(bytes, options, undefined);
  await inTurns(() => scan.step(), options.signal, options.payer);
}

/** Levels are counted from the outermost container, which is 1; level 0 is the list of one that the builder keeps around the text. */
class LargeJsonParser {
  readonly #bytes: Buffer;
  readonly #limits: LargeJsonOptions["limits"];
  readonly #refusals: JsonRefusals;
  /** Undefined when no value is wanted: then all levels stay text. */
  readonly #builder: JsonBuilder | undefined;
  readonly #batchBytes: number;
  readonly #longStringBytes: number;
  #at = 0;
  #values = 0;
  #depth = 0;
  /** Of each open container: where its bracket is, where the string before that began (its key, in an object), commas so far. */
  readonly #opens: number[] = [-1];
  readonly #keys: number[] = [-1];
  readonly #commas: number[] = [0];
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

  #scan(end: number): void {
    const bytes = this.#bytes;
    let at = this.#at;
    if (this.#stringAt >= 0) at = this.#string(at, end);
    else if (at > 0 && KINDS[bytes[at - 1] ?? 0] === TOKEN) at = skipToken(bytes, at, end);
    while (at < end) {
      switch (KINDS[bytes[at] ?? 0]) {
        case SPACE:
          at += 1;
          break;
        case STRING:
          this.#begin();
          this.#stringAt = at;
          at = this.#string(at + 1, end);
          break;
        case TOKEN:
          this.#begin();
          at = skipToken(bytes, at, end);
          break;
        case OPEN:
          this.#begin();
          this.#open(at++);
          break;
        case CLOSE:
          this.#close(at++);
          break;
        case COMMA:
          this.#comma(at++);
          break;
        case COLON:
          this.#colon();
          at += 1;
      }
    }
    this.#at = at;
  }

  #colon(): void {
    if (this.#afterChild) throw this.#refusals.syntax();
    if (this.#lastProto >= 0 && this.#lastProto === this.#lastString) throw this.#refuseProto();
  }

  /** A value or a key. */
  #begin(): void {
    this.#values += 1;
    if (this.#afterChild) throw this.#refusals.syntax();
  }

  /** Scans on in a string; gives where the scan stands then. */
  #string(from: number, end: number): number {
    const at = skipString(this.#bytes, from, end);
    if (at >= end || this.#bytes[at] !== QUOTE) return at;
    if (this.#long === undefined) this.#endString(at);
    else this.#endLongString(this.#long, at);
    return at + 1;
  }

  #endString(at: number): void {
    const start = this.#stringAt;
    this.#stringAt = -1;
    this.#lastString = start;
    const length = at - start - 1;
    if (length < PROTO.length || length > MAX_PROTO_UNITS) return;
    const first = this.#bytes[start + 1];
    if (first !== UNDERSCORE && first !== BACKSLASH) return;
    if (isProtoKey(this.#bytes.toString("latin1", start + 1, at))) this.#lastProto = start;
  }

  #open(at: number): void {
    // In a list it has no key; the last string, which may be large, is not to be read for each of a thousand levels.
    const key = this.#isInList() ? -1 : this.#lastString;
    this.#depth += 1;
    if (this.#depth > this.#limits.depth) throw this.#refusals.depth();
    this.#opens[this.#depth] = at;
    this.#keys[this.#depth] = key;
    this.#values += CONTAINER_VALUES - 1;
    this.#commas[this.#depth] = 0;
  }

  #close(at: number): void {
    if (this.#depth === 0) throw this.#refusals.syntax();
    const builder = this.#builder;
    if (builder !== undefined && this.#depth === this.#entered) {
      if (!this.#afterChild) builder.add(this.#textTo(at), this.#afterComma);
      builder.leave(this.#bytes[at] === CLOSE_BRACKET);
      this.#entered -= 1;
      this.#endChild(at + 1);
    }
    this.#depth -= 1;
  }

  #endChild(next: number): void {
    this.#batchAt = next;
    this.#afterChild = true;
  }

  #comma(at: number): void {
    if (this.#depth === 0) throw this.#refusals.syntax();
    this.#commas[this.#depth] = (this.#commas[this.#depth] ?? 0) + 1;
    if (this.#builder === undefined) return;
    if (this.#afterChild) this.#afterChild = false;
    else if (at - this.#batchAt < this.#batchBytes) return;
    else {
      this.#enterAll(this.#builder);
      this.#builder.add(this.#textTo(at), true);
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
    this.#stringAt = -1;
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

  #refuseProto(): Error {
    const path: (string | number)[] = [];
    for (let level = 1; level < this.#depth; level += 1) {
      const isArray = this.#bytes[this.#opens[level] ?? 0] === OPEN_BRACKET;
      path.push(isArray ? (this.#commas[level] ?? 0) : this.#readKey(this.#keys[level + 1] ?? -1));
    }
    return this.#refusals.protoKey(toBoundedPointer([...path, PROTO], MAX_POINTER_CHARS));
  }

  #readKey(start: number): string {
    try {
      return String(JSON.parse(this.#keyText(start)));
    } catch (cause) {
      throw this.#refusals.syntax(cause);
    }
  }
}
