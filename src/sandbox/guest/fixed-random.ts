// Deterministic Math.random for repeatable calls: the generator sfc32 (from Doty-Humphrey's PractRand). The worker derives its seed.
import { replaceMethod } from "./coarse-time.ts";

const TWO_TO_27 = 2 ** 27;
const TWO_TO_53 = 2 ** 53;

/**
 * Replaces Math.random.
 * @param words seed: four 32-bit words
 */
export function installFixedRandom(words: readonly number[]): void {
  let [a = 0, b = 0, c = 0, counter = 0] = words;
  const next = (): number => {
    const sum = (((a + b) | 0) + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (((c << 21) | (c >>> 11)) + sum) | 0;
    return sum >>> 0;
  };
  // 53 bits, the precision of a double.
  const random = (): number => ((next() >>> 6) * TWO_TO_27 + (next() >>> 5)) / TWO_TO_53;
  replaceMethod(Math, "random", () => random);
}
