// Deterministic random bytes for repeatable calls. They must not be used as secrets: anyone with the seed can compute them.
import { type Cipheriv, createCipheriv, createHash, randomBytes } from "node:crypto";
import type { TurnOptions } from "./turns/turn-scheduler.ts";

/** Initial state of a repeatable call: its seed, its clock, and how its turns are chosen. */
export interface Deterministic extends TurnOptions {
  readonly seed: string;
}

/** Returns the initial state of an isolate whose call is recorded. Its random numbers cannot be predicted without the recording. */
export const recordedStart = (): Deterministic => ({
  mode: "record",
  seed: randomBytes(32).toString("base64url"),
  now: Date.now(),
});

const keyOf = (seed: string, purpose: string): Buffer => createHash("sha256").update(`${purpose}\0${seed}`).digest();

/** Returns the seed of Math.random: four 32-bit words. */
export function seedWords(seed: string): readonly number[] {
  const key = keyOf(seed, "Math.random");
  return [0, 4, 8, 12].map((at) => key.readUInt32LE(at));
}

/** Stream of random bytes of one call, generated with AES in counter mode. */
export class SeededBytes {
  readonly #stream: Cipheriv;

  constructor(seed: string) {
    this.#stream = createCipheriv("aes-256-ctr", keyOf(seed, "bytes"), Buffer.alloc(16));
  }

  fill(target: Uint8Array): void {
    target.set(this.#stream.update(new Uint8Array(target.length)));
  }
}
