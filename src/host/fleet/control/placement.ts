// Chooses the executor of a call. Calls of one tenant prefer the same executor, where its bundles and isolates are warm
// (rendezvous hashing); one that has far more calls than the others is bypassed (bounded loads, Mirrokni et al. 2016).
import { NESTED_PER_SLOT } from "../protocol/message-fields.ts";

/** An executor that may be chosen. */
export interface Candidate {
  readonly id: string;
  /** `hashText` of its id, which is not computed again for each call. */
  readonly hash: number;
  readonly slots: number;
  /** Calls that it runs, without nested ones. */
  readonly load: number;
  /** Nested calls that this control plane has sent to it. */
  readonly nested: number;
}

/** How far the load of a preferred executor may exceed the mean. */
const LOAD_FACTOR = 1.25;

/**
 * Returns the best candidate that has room, or undefined if none has.
 * @param key the tenant
 * @param isNested whether the caller of this call lends its slot
 */
export function chooseExecutor<One extends Candidate>(
  candidates: readonly One[],
  key: string,
  isNested: boolean,
): One | undefined {
  let slots = 0;
  let load = 0;
  for (const one of candidates) {
    slots += one.slots;
    load += Math.min(one.load, one.slots);
  }
  const limitFor = (one: One): number => Math.ceil((LOAD_FACTOR * one.slots * (load + 1)) / slots);
  const keyHash = hashText(key);
  let best: One | undefined;
  let bestScore = -1;
  let least: One | undefined;
  for (const one of candidates) {
    const hasRoom = isNested ? one.nested < NESTED_PER_SLOT * one.slots : one.load < one.slots;
    if (!hasRoom) continue;
    if (least === undefined || one.load / one.slots < least.load / least.slots) least = one;
    if (one.load >= limitFor(one)) continue;
    const score = scoreOf(keyHash, one.hash);
    if (score > bestScore) [best, bestScore] = [one, score];
  }
  return best ?? least;
}

/** Returns the rendezvous score of two hashes: the mix of MurmurHash3, so that hashes that differ in one bit get unrelated scores. */
export function scoreOf(keyHash: number, idHash: number): number {
  let hash = Math.imul(idHash ^ (idHash >>> 15), 0x2c1b3c6d) ^ keyHash;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/** Returns the hash of a text: FNV-1a. */
export function hashText(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  return hash;
}
