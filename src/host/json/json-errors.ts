// Creates the errors for JSON text that is rejected: messages and codes of both parsers.
import { type ErrorCode, ToolError } from "../../sandbox/contract/errors.ts";

/**
 * Weight of one array or object, which takes four times the memory of a number. With 1,000,000 of them, V8 blocked the host for 50 ms at a
 * time when it copied the live objects (measured).
 */
export const CONTAINER_VALUES = 4;

export interface JsonTextLimits {
  readonly bytes: number;
  readonly depth: number;
  /** Keys count too. */
  readonly values: number;
  /** Keys of one object, in text that is parsed in time slices. Default and maximum: 170,000. */
  readonly members?: number | undefined;
}

/** Error codes by kind of violation; inputs and outputs have different ones. */
export interface JsonTextCodes {
  readonly invalid: ErrorCode;
  readonly tooLarge: ErrorCode;
}

/** Returns the position at which V8's parser stopped, if its message has one. The rest of the message quotes the text and is not used. */
function jsonPositionOf(cause: unknown): string {
  if (!Error.isError(cause) || !(cause instanceof SyntaxError)) return "";
  const position = / at position (\d{1,9})/.exec(cause.message)?.[1];
  if (position !== undefined) return ` at character ${Number(position) + 1}`;
  return cause.message === "Unexpected end of JSON input" ? ": unexpected end of input" : "";
}

/** Creates the errors for one text. `what` names the value, such as "The output". */
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
    const message = `${this.#what}: expected at most ${limitValues} JSON values (each key counts as 1, each array and object as ${CONTAINER_VALUES})`;
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
    const message = `${this.#what}: expected keys, numbers and white space of at most ${limitBytes} bytes each`;
    return new ToolError(this.#codes.invalid, message, { details: { limitBytes } });
  }

  syntax(cause?: unknown): ToolError {
    return new ToolError(this.#codes.invalid, `${this.#what}: invalid JSON`, { cause });
  }

  /** For text that was parsed as a whole. A position in one piece is not a position in the text, so {@link syntax} has none. */
  syntaxOfWhole(cause: unknown): ToolError {
    const message = `${this.#what}: invalid JSON${jsonPositionOf(cause)}`;
    return new ToolError(this.#codes.invalid, message, { cause });
  }

  infinity(): ToolError {
    return new ToolError(this.#codes.invalid, `${this.#what}: expected numbers within the range of a double`);
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
