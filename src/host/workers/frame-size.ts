// Size limit of the messages that a call can cause, for the connections to worker processes and executors.
import type { Limits } from "../../sandbox/contract/limits.ts";
import { MAX_FRAME_BYTES } from "../../sandbox/protocol/frames.ts";

const MiB = 1024 * 1024;

/**
 * Returns the largest frame in bytes that a call with these limits can cause. A UTF-16 code unit takes up to three
 * bytes.
 */
export function largestFrame({ inputBytes, outputBytes, logBytes }: Limits, codeUnits: number): number {
  const largestPart = Math.max(outputBytes, 3 * inputBytes, 3 * logBytes, 4 * codeUnits);
  return Math.min(MAX_FRAME_BYTES, largestPart + 2 * MiB);
}
