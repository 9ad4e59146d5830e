// Random bytes of guests: Node's, or for a repeatable call bytes from its seed, which must not be used as secrets: anyone with the seed can
// compute them.
import type { Cipheriv } from "node:crypto";
import { MAX_RANDOM_BYTES } from "../protocol/crypto-messages.ts";
import type { TurnOptions } from "./turns/turn-scheduler.ts";

/** Loaded on first use, because that takes 10 ms of CPU time and many processes need no random bytes. */
const nodeCrypto = (): typeof import("node:crypto") => process.getBuiltinModule("node:crypto");

/** Initial state of a repeatable call: its seed, its clock, and how its turns are chosen. */
export interface Deterministic extends TurnOptions {
  readonly seed: string;
}

/** Returns the initial state of an isolate whose call is recorded. Its random numbers cannot be predicted without the recording. */
export const recordedStart = (): Deterministic => ({
  mode: "record",
  seed: nodeCrypto().randomBytes(32).toString("base64url"),
  now: Date.now(),
});

const keyOf = (seed: string, purpose: string): Buffer =>
  nodeCrypto().createHash("sha256").update(`${purpose}\0${seed}`).digest();

/** Returns the seed of Math.random: four 32-bit words. */
export function seedWords(seed: string): readonly number[] {
  const key = keyOf(seed, "Math.random");
  return [0, 4, 8, 12].map((at) => key.readUInt32LE(at));
}

/** Random bytes of one isolate. Those of a repeatable call are a stream of AES in counter mode. */
export class RandomBytes {
  readonly #stream: Cipheriv | undefined;

  /** @param seed of a repeatable call; otherwise the bytes are Node's */
  constructor(seed: string | undefined) {
    if (seed === undefined) return;
    this.#stream = nodeCrypto().createCipheriv("aes-256-ctr", keyOf(seed, "bytes"), Buffer.alloc(16));
  }

  /** Returns this number of bytes, or none for a number that a guest may not request. */
  take(count: unknown): ArrayBuffer {
    const length = typeof count === "number" && count >= 0 && count <= MAX_RANDOM_BYTES ? Math.trunc(count) : 0;
    const bytes = new Uint8Array(length);
    if (this.#stream === undefined) nodeCrypto().randomFillSync(bytes);
    else bytes.set(this.#stream.update(bytes));
    return bytes.buffer;
  }
}
