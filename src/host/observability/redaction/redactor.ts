// What must not be seen in anything that a call says: values are named, and from then on replaced in logs, results and errors.
import { type JsonValue, ToolError } from "../../../sandbox/contract/errors.ts";
import { type Needle, NeedleSet, secretNeedles } from "./needle.ts";
import { filterBytes, filterText, filterTexts, StreamFilter, type Turns } from "./stream-filter.ts";

/** Shorter ones stand in ordinary text by chance, and are guessed by whoever can see what was replaced. */
export const MIN_SECRET_BYTES = 8;
/** No key is longer. */
export const MAX_SECRET_BYTES = 8_192;

export class Redactor {
  readonly #known = new Set<string>();
  readonly #needles: Needle[] = [];
  /** Made of all needles when it is needed. */
  #set: NeedleSet | undefined = new NeedleSet([]);

  /** @throws {ToolError} PARAM_INVALID for a value of fewer than 8 or more than 8,192 bytes */
  conceal(label: string, value: string): void {
    const bytes = Buffer.byteLength(value);
    if (bytes < MIN_SECRET_BYTES || bytes > MAX_SECRET_BYTES) {
      const expected = `expected a value of ${MIN_SECRET_BYTES} to ${MAX_SECRET_BYTES} bytes, got ${bytes}`;
      throw new ToolError("PARAM_INVALID", `What is concealed as ${label}: ${expected}`);
    }
    if (this.#known.has(value)) return;
    this.#known.add(value);
    this.#needles.push(...secretNeedles(value, () => `[redacted:${label}]`));
    this.#set = undefined;
  }

  get #needleSet(): NeedleSet {
    this.#set ??= new NeedleSet(this.#needles);
    return this.#set;
  }

  /** Values that are concealed. */
  get size(): number {
    return this.#known.size;
  }

  get isIdle(): boolean {
    return this.#needles.length === 0;
  }

  text(text: string): string {
    return filterText(text, this.#needleSet);
  }

  /** The same for several texts that may be long, over several turns of the event loop. */
  async texts(texts: readonly string[], turns: Turns = {}): Promise<readonly string[]> {
    return await filterTexts(texts, this.#needleSet, turns);
  }

  /** Also where a value stands as a number: then it is a text afterwards. */
  json<Value extends JsonValue>(value: Value): Value {
    if (this.isIdle) return value;
    const text = JSON.stringify(value);
    const redacted = this.text(text);
    if (redacted === text) return value;
    try {
      return JSON.parse(redacted) as Value;
    } catch {
      return redacted as Value;
    }
  }

  /** For bytes that come in chunks. */
  filter(): StreamFilter {
    return new StreamFilter(this.#needleSet);
  }

  /** For many bytes at once, over several turns. */
  async bytes(bytes: Buffer): Promise<Buffer> {
    const filter = this.filter();
    return Buffer.concat([await filterBytes(filter, bytes), filter.end()]);
  }
}
