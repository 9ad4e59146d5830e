// Replaces the values of secrets that capabilities register during a call, in its logs, results and errors. value-redactor.ts finds secrets
// that were not registered, for telemetry and operators' logs.
import { type JsonValue, ToolError } from "../../../sandbox/contract/errors.ts";
import { createSecretLiterals, type SecretLiteral, SecretLiteralSet } from "./secret-literal.ts";
import { filterBytes, filterText, filterTexts, StreamFilter, type Turns } from "./stream-filter.ts";

/** Shorter values occur in ordinary text by chance, and could be guessed from what was replaced. */
export const MIN_SECRET_BYTES = 8;
/** Keys are not longer than this. */
export const MAX_SECRET_BYTES = 8_192;

/** Whether a value has a length that can be redacted. */
export const isSecretLength = (value: string): boolean => {
  const bytes = Buffer.byteLength(value);
  return bytes >= MIN_SECRET_BYTES && bytes <= MAX_SECRET_BYTES;
};

export class Redactor {
  /** Labels by value. */
  readonly #known = new Map<string, string>();
  readonly #literals: SecretLiteral[] = [];
  /** Built from all literals when needed. */
  #set: SecretLiteralSet | undefined = new SecretLiteralSet([]);

  /** @throws {ToolError} PARAM_INVALID for a value of fewer than 8 or more than 8,192 bytes */
  addSecret(label: string, value: string): void {
    if (!isSecretLength(value)) {
      const bytes = Buffer.byteLength(value);
      const expected = `expected a value of ${MIN_SECRET_BYTES} to ${MAX_SECRET_BYTES} bytes, got ${bytes}`;
      throw new ToolError("PARAM_INVALID", `The secret "${label}" cannot be redacted: ${expected}`);
    }
    if (this.#known.has(value)) return;
    this.#known.set(value, label);
    this.#literals.push(...createSecretLiterals(value, () => `[redacted:${label}]`));
    this.#set = undefined;
  }

  get #literalSet(): SecretLiteralSet {
    this.#set ??= new SecretLiteralSet(this.#literals);
    return this.#set;
  }

  /** Number of registered values. */
  get size(): number {
    return this.#known.size;
  }

  get isEmpty(): boolean {
    return this.#literals.length === 0;
  }

  text(text: string): string {
    return filterText(text, this.#literalSet);
  }

  /** Redacts several texts, which may be long, over several turns of the event loop. */
  async texts(texts: readonly string[], turns: Turns = {}): Promise<readonly string[]> {
    return await filterTexts(texts, this.#literalSet, turns);
  }

  /**
   * Finds the registered values that a text contains, in any encoding.
   * @param except values that are not searched for
   */
  async find(
    text: string,
    except: ReadonlySet<string>,
  ): Promise<readonly { readonly label: string; readonly value: string }[]> {
    const found: { readonly label: string; readonly value: string }[] = [];
    const [redactedText] = await this.texts([text]);
    if (redactedText === text) return found;
    for (const [value, label] of this.#known) {
      if (except.has(value)) continue;
      const [redacted] = await filterTexts([text], new SecretLiteralSet(createSecretLiterals(value, () => "")), {});
      if (redacted !== text) found.push({ label, value });
    }
    return found;
  }

  /** Redacts a JSON value. If a redacted number makes the JSON invalid, the result is a string. */
  json<Value extends JsonValue>(value: Value): Value {
    if (this.isEmpty) return value;
    const text = JSON.stringify(value);
    const redacted = this.text(text);
    if (redacted === text) return value;
    try {
      return JSON.parse(redacted) as Value;
    } catch {
      return redacted as Value;
    }
  }

  /** Creates a filter for bytes that arrive in chunks. */
  filter(): StreamFilter {
    return new StreamFilter(this.#literalSet);
  }

  /** Redacts many bytes over several turns of the event loop. */
  async bytes(bytes: Buffer): Promise<Buffer> {
    const filter = this.filter();
    return Buffer.concat([await filterBytes(filter, bytes), filter.end()]);
  }
}
