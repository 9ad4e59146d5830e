// Why JSON text from outside is not taken, as errors: the words and codes of both parsers.
import { type ErrorCode, ToolError } from "../../sandbox/contract/errors.ts";

/**
 * What one array or object counts as: it takes four times the memory of a number. 1,000,000 of them held the host up for 50 ms at a
 * time, when V8 copied all that was alive [m].
 */
export const CONTAINER_VALUES = 4;

export interface JsonTextLimits {
  readonly bytes: number;
  readonly depth: number;
  /** Keys count too. */
  readonly values: number;
  /** Keys of one object, in text that is parsed over several turns; 170,000 at most, which is the default. */
  readonly members?: number | undefined;
}

/** Which code each kind of violation gets: an input's and an output's differ. */
export interface JsonTextCodes {
  readonly invalid: ErrorCode;
  readonly tooLarge: ErrorCode;
}

/** Where V8's parser stopped, as far as it says so. Nothing else of its message is told: it quotes the text. */
function jsonPositionOf(cause: unknown): string {
  if (!Error.isError(cause) || !(cause instanceof SyntaxError)) return "";
  const position = / at position (\d{1,9})/.exec(cause.message)?.[1];
  if (position !== undefined) return `, at character ${Number(position) + 1}`;
  return cause.message === "Unexpected end of JSON input" ? ": it ends too soon" : "";
}

/** Makes the errors for one text; `what` names the value in them, e.g. "The output". */
export class JsonErrorFactory {
  readonly #limits: JsonTextLimits;
  readonly #codes: JsonTextCodes;
  readonly #what: string;

  constructor(limits: JsonTextLimits, codes: JsonTextCodes, what: string) {
    this.#limits = limits;
    this.#codes = codes;
    this.#what = what;
  }

  /** @param bytes undefined for a value that was not read to its end */
  bytes(bytes: number | undefined): ToolError {
    const limitBytes = this.#limits.bytes;
    const message = `${this.#what}: expected at most ${limitBytes} bytes of JSON, got ${bytes ?? "more"}`;
    return new ToolError(this.#codes.tooLarge, message, {
      details: { limitBytes, ...(bytes === undefined ? {} : { bytes }) },
    });
  }

  values(): ToolError {
    const limitValues = this.#limits.values;
    const message = `${this.#what}: expected at most ${limitValues} JSON values, keys included and ${CONTAINER_VALUES} for each array and object`;
    return new ToolError(this.#codes.tooLarge, message, { details: { limitValues } });
  }

  members(limitMembers: number): ToolError {
    const message = `${this.#what}: expected at most ${limitMembers} keys in one object`;
    return new ToolError(this.#codes.tooLarge, message, { details: { limitMembers } });
  }

  depth(): ToolError {
    const limitDepth = this.#limits.depth;
    const message = `${this.#what}: expected JSON nested at most ${limitDepth} deep`;
    return new ToolError(this.#codes.invalid, message, { details: { limitDepth } });
  }

  token(limitBytes: number): ToolError {
    const message = `${this.#what}: expected no key, number or gap of over ${limitBytes} bytes`;
    return new ToolError(this.#codes.invalid, message, { details: { limitBytes } });
  }

  syntax(cause?: unknown): ToolError {
    return new ToolError(this.#codes.invalid, `${this.#what}: expected JSON, got text that is not`, { cause });
  }

  /** Of text that was parsed as a whole: where a part of it is wrong says nothing of the place in it. */
  syntaxOfWhole(cause: unknown): ToolError {
    const message = `${this.#what}: expected JSON, got text that is not${jsonPositionOf(cause)}`;
    return new ToolError(this.#codes.invalid, message, { cause });
  }

  infinity(): ToolError {
    return new ToolError(this.#codes.invalid, `${this.#what}: expected numbers that a double can hold`);
  }

  protoKey(pointer: string | undefined): ToolError {
    const where = pointer === undefined ? "" : `, at ${pointer}`;
    const message = `${this.#what}: the key "__proto__" is not allowed${where}`;
    if (pointer === undefined) return new ToolError(this.#codes.invalid, message);
    return new ToolError(this.#codes.invalid, message, {
      details: { problems: [{ pointer, message: "This key is not allowed" }] },
    });
  }
}
