// Serializes a parsed JSON value over several turns of the event loop: `JSON.stringify` can take 250 ms for the value of one message or call.
import type { JsonValue } from "../../sandbox/contract/errors.ts";
import { runTimeSliced } from "../util/time-slicing.ts";

/** Values written between two readings of the clock. */
const BATCH_VALUES = 500;

type JsonObject = { readonly [key: string]: JsonValue };

/** A container that is being written. */
interface Frame {
  readonly values: readonly JsonValue[] | JsonObject;
  /** Undefined for arrays. */
  readonly keys: readonly string[] | undefined;
  readonly length: number;
  at: number;
}

function toFrame(value: readonly JsonValue[] | JsonObject): Frame {
  if (Array.isArray(value)) return { values: value, keys: undefined, length: value.length, at: 0 };
  const keys = Object.keys(value);
  return { values: value as JsonObject, keys, length: keys.length, at: 0 };
}

class JsonWriter {
  readonly #frames: Frame[] = [];
  readonly #pieces: string[] = [];
  /** Joined after each batch. A string that is built with `+=` is a tree of its parts, which V8 copies in each garbage collection. */
  #parts: string[] = [];

  constructor(value: JsonValue) {
    this.#write(value);
  }

  get text(): string {
    return this.#pieces.join("");
  }

  /** Writes one batch. Returns true when everything has been written. */
  step(): boolean {
    for (let count = 0; count < BATCH_VALUES; count += 1) {
      const frame = this.#frames.at(-1);
      if (frame === undefined) break;
      if (frame.at >= frame.length) {
        this.#frames.pop();
        this.#parts.push(frame.keys === undefined ? "]" : "}");
      } else this.#writeMember(frame);
    }
    this.#pieces.push(this.#parts.join(""));
    this.#parts = [];
    return this.#frames.length === 0;
  }

  #writeMember(frame: Frame): void {
    const index = frame.at;
    frame.at += 1;
    if (index > 0) this.#parts.push(",");
    const key = frame.keys?.[index];
    if (key !== undefined) this.#parts.push(JSON.stringify(key), ":");
    const value = key === undefined ? (frame.values as readonly JsonValue[])[index] : (frame.values as JsonObject)[key];
    this.#write(value as JsonValue);
  }

  #write(value: JsonValue): void {
    if (typeof value !== "object" || value === null) {
      this.#parts.push(JSON.stringify(value));
      return;
    }
    const frame = toFrame(value);
    this.#frames.push(frame);
    this.#parts.push(frame.keys === undefined ? "[" : "{");
  }
}

/** Returns the same text as `JSON.stringify`, for a value from `JSON.parse`. If the signal aborts, rejects with its reason. */
export async function writeJson(value: JsonValue, signal: AbortSignal): Promise<string> {
  const writer = new JsonWriter(value);
  await runTimeSliced(() => writer.step(), signal);
  return writer.text;
}
