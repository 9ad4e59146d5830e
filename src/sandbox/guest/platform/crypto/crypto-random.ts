// The only source of random bytes in a guest. Fetches them from the worker in batches.
import { MAX_RANDOM_BYTES } from "../../../protocol/crypto-messages.ts";
import { requestFromWorker } from "../../host.ts";

const BATCH_BYTES = 4_096;
let batch = new Uint8Array(0);
let used = 0;

function fetch(bytes: number): Uint8Array<ArrayBuffer> {
  const buffer = requestFromWorker("random", bytes);
  if (!(buffer instanceof ArrayBuffer) || buffer.byteLength !== bytes)
    throw new Error("The sandbox returned no random bytes");
  return new Uint8Array(buffer);
}

/** Fills the whole array with random bytes. */
export function fillRandom(target: Uint8Array): void {
  if (target.length <= BATCH_BYTES / 16) {
    if (batch.length - used < target.length) {
      batch = fetch(BATCH_BYTES);
      used = 0;
    }
    target.set(batch.subarray(used, used + target.length));
    // Bytes that were handed out are erased from the batch.
    batch.fill(0, used, used + target.length);
    used += target.length;
    return;
  }
  for (let start = 0; start < target.length; start += MAX_RANDOM_BYTES) {
    const bytes = Math.min(MAX_RANDOM_BYTES, target.length - start);
    target.set(fetch(bytes), start);
  }
}
