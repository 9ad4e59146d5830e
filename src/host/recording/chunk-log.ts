// Collects the chunks of a streaming call for its recording, and for comparing a replay with it: their number, a digest of all, and the texts of
// the first ones.
import { createHash } from "node:crypto";
import type { JsonValue } from "../../sandbox/contract/errors.ts";
import type { RawChunk } from "../contract/tool-stream.ts";
import { redactAttachments, type TextWithBytes, type ToolValue, toTextWithBytes } from "../contract/tool-value.ts";
import { restoreBytes } from "../json/binary-placeholders.ts";
import type { Redactor } from "../observability/redaction/call-redactor.ts";
import type { RecordedChunks } from "./recording.ts";
import { redactJson } from "./redact-recording.ts";

export interface ChunkLogOptions {
  /** Redacts the values that are secret at that time. */
  readonly redactor: () => Redactor | undefined;
  /** Replaces what the caller does not want to be recorded. */
  readonly redact: ((value: JsonValue) => unknown) | undefined;
  /** Maximum size of the texts that are kept, in UTF-16 code units. */
  readonly maxLength: number;
  /** Whether the chunks are kept as they came, for `toOutput`. */
  readonly keepsChunks?: boolean;
}

export class ChunkLog {
  readonly #options: ChunkLogOptions;
  readonly #hash = createHash("sha256");
  #texts: string[] = [];
  #length = 0;
  #count = 0;
  #isCut = false;
  readonly #kept: RawChunk[] = [];
  #work: Promise<void> = Promise.resolve();

  constructor(options: ChunkLogOptions) {
    this.#options = options;
  }

  /** Adds chunks in their order. They are redacted and hashed later, since that takes several turns of the event loop for large ones. */
  add(chunks: readonly RawChunk[]): void {
    this.#work = this.#work.then(async () => {
      for (const chunk of chunks) await this.#addOne(chunk);
    });
  }

  async #addOne(chunk: RawChunk): Promise<void> {
    const redactor = this.#options.redactor();
    const isRedacted = redactor !== undefined && !redactor.isEmpty;
    const plain = isRedacted
      ? (await redactor.bytes(Buffer.from(chunk.text))).toString("utf8")
      : chunk.text.toString("utf8");
    const { redact, maxLength, keepsChunks } = this.#options;
    const text = redact === undefined ? plain : redactJson(plain, redact);
    this.#count += 1;
    this.#addToHash(text);
    if (chunk.bytes !== undefined) await this.#addBytes(chunk.bytes, isRedacted ? redactor : undefined);
    if (keepsChunks === true) this.#kept.push(chunk);
    if (this.#isCut || this.#length + text.length > maxLength) {
      this.#isCut = true;
      return;
    }
    this.#length += text.length;
    this.#texts.push(text);
  }

  async #addBytes(read: NonNullable<RawChunk["bytes"]>, redactor: Redactor | undefined): Promise<void> {
    try {
      const attachments = await read();
      const { parts } = redactor === undefined ? attachments : await redactAttachments(attachments, redactor);
      for (const part of parts) this.#addToHash(part);
    } catch {
      // The reader of the stream fails the call for bytes that cannot be read.
    }
  }

  #addToHash(part: string | Uint8Array): void {
    this.#hash.update(`${part.length}\0`).update(part);
  }

  /** Returns what was collected, when the call has ended. Call it once. */
  async end(): Promise<RecordedChunks> {
    await this.#work;
    return { count: this.#count, digest: this.#hash.digest("hex"), texts: this.#texts };
  }

  /** Returns the list of all chunks as an output. Requires `keepsChunks`. Call it after `end`. */
  async toOutput(): Promise<TextWithBytes & { readonly text: string }> {
    if (this.#kept.every(({ bytes }) => bytes === undefined)) {
      return { text: `[${this.#kept.map(({ text }) => text.toString("utf8")).join(",")}]`, bytes: undefined };
    }
    const values = await Promise.all(this.#kept.map(toValue));
    const { text = "[]", bytes } = toTextWithBytes(values);
    return { text, bytes };
  }
}

async function toValue({ text, bytes }: RawChunk): Promise<ToolValue> {
  const value = JSON.parse(text.toString("utf8")) as JsonValue;
  if (bytes === undefined) return value;
  const { mark, parts } = await bytes();
  return restoreBytes(value, { mark, parts: parts.map((part) => Buffer.from(part).toString("base64")) });
}

/** Returns chunks of which at most this many UTF-16 code units are kept. */
export function trimChunks({ count, digest, texts }: RecordedChunks, maxLength: number): RecordedChunks {
  let length = 0;
  const end = texts.findIndex((text) => {
    length += text.length;
    return length > maxLength;
  });
  return { count, digest, texts: end < 0 ? texts : texts.slice(0, end) };
}
