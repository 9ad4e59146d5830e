// Random bytes that a seed decides, for calls that are to repeat exactly. Of no use as secrets: whoever has the seed has them.
import { type Cipheriv, createCipheriv, createHash } from "node:crypto";

/** What a call that repeats begins with, besides its input. */
export interface Deterministic {
  readonly seed: string;
  /** What its clock shows first, in ms since 1970. */
  readonly now: number;
}

const keyOf = (seed: string, purpose: string): Buffer => createHash("sha256").update(`${purpose}\0${seed}`).digest();

/** The start of Math.random: four words of 32 bits. */
export function seedWords(seed: string): readonly number[] {
  const key = keyOf(seed, "Math.random");
  return [0, 4, 8, 12].map((at) => key.readUInt32LE(at));
}

/** One call's stream of bytes: AES in counter mode. */
export class SeededBytes {
  readonly #stream: Cipheriv;

  constructor(seed: string) {
    this.#stream = createCipheriv("aes-256-ctr", keyOf(seed, "bytes"), Buffer.alloc(16));
  }

  fill(target: Uint8Array): void {
    target.set(this.#stream.update(new Uint8Array(target.length)));
  }
}
