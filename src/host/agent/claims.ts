// Claims: whether a paused state may be resumed. A state is plain JSON and can be copied, so the state itself cannot tell.
import { open } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { makeFolder } from "../../bundler/locate/make-folder.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { describeKind } from "../../sandbox/contract/plain-object.ts";
import { runCallback } from "../util/host-callback.ts";
import { GUARD_TIMEOUT_MS } from "./callback-bounds.ts";

/**
 * Returns true if a state may be resumed. It is called once for each attempt, after every other check and before anything runs, and must
 * return true the first time for an id and false from then on, in all processes that can resume the state. Only `true` resumes; a claim
 * that throws, returns anything else, or takes longer than 30 s does not.
 */
export type ClaimState = (stateId: string) => boolean | Promise<boolean>;

/** @throws {ToolError} PARAM_INVALID */
function checkId(stateId: unknown): void {
  if (!z.uuid().safeParse(stateId).success) throw new ToolError("PARAM_INVALID", "id: Expected a UUID");
}

/** Keeps claims in this process: sufficient if no other process resumes, and if no state is resumed after a restart. */
export function createMemoryClaims(): ClaimState {
  const claimed = new Set<string>();
  return (stateId) => {
    checkId(stateId);
    if (claimed.has(stateId)) return false;
    claimed.add(stateId);
    return true;
  };
}

/**
 * Keeps claims as empty files, one for each state, for all processes that share the folder. The claim rejects if the folder is not writable.
 * @param directory created if it is missing
 * @throws {ToolError} PARAM_INVALID for a directory that is not a path
 */
export function createFileClaims(directory: string): ClaimState {
  if (typeof directory !== "string" || directory === "") {
    throw new ToolError("PARAM_INVALID", `directory: Expected a path, got ${describeKind(directory)}`);
  }
  return async (stateId) => {
    checkId(stateId);
    await makeFolder(directory);
    try {
      // Created or not in one step, by the file system.
      await (await open(join(directory, stateId), "wx", 0o600)).close();
      return true;
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code === "EEXIST") return false;
      throw thrown;
    }
  };
}

/**
 * Claims a state, or rejects: with PARAM_INVALID if it was claimed before, INTERNAL if the claim failed or took too long, CANCELLED if the
 * run was cancelled meanwhile.
 */
export async function claimState(claim: ClaimState, stateId: string, signal: AbortSignal): Promise<void> {
  const outcome = await runCallback(() => claim(stateId), { timeoutMs: GUARD_TIMEOUT_MS, signal });
  if (signal.aborted) throw new ToolError("CANCELLED", "The run was cancelled before its state was resumed");
  if ("failed" in outcome) {
    const { failed, cause } = outcome;
    throw new ToolError("INTERNAL", `options.claim ${failed}: the state was not resumed`, { cause });
  }
  if (outcome.answer === true) return;
  const got = outcome.answer === false ? "" : `; options.claim returned ${describeKind(outcome.answer)}`;
  throw new ToolError("PARAM_INVALID", `options.state: It was resumed before: its calls would run twice${got}`);
}
