// Idempotency stores: decide whether a paused state may be resumed. A state is plain JSON and can be copied, so it cannot record that itself.
import { accessSync, constants } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { makeFolder, makeFolderSync } from "../../../bundler/locate/make-folder.ts";
import { ToolError } from "../../../sandbox/contract/errors.ts";
import { describeKind, isPlainObject } from "../../../sandbox/contract/plain-object.ts";
import { unknownOptionError } from "../../config/option-errors.ts";
import { runCallback } from "../../util/host-callback.ts";
import { GUARD_TIMEOUT_MS } from "../callback-bounds.ts";

/** Records which paused states were resumed. */
export interface IdempotencyStore {
  /**
   * Returns true the first time it is called for an id, and false from then on, in all processes that can resume the state. The loop calls
   * it once for each attempt, after all other checks and before any tool call. Only `true` resumes the state; if the method throws,
   * returns anything else, or takes longer than 30 s, the run fails.
   */
  claim(stateId: string): boolean | Promise<boolean>;
}

type Claim = (stateId: string) => unknown;

/**
 * Returns the bound `claim` method of a value that a caller passed.
 * @throws {ToolError} PARAM_INVALID for a value without one
 */
export function readClaim(store: unknown): Claim {
  const where = "options.idempotencyStore";
  const expected = 'Expected an object with the method "claim"';
  if (typeof store !== "object" || store === null) {
    throw new ToolError("PARAM_INVALID", `${where}: ${expected}, got ${describeKind(store)}`);
  }
  let claim: unknown;
  try {
    claim = Reflect.get(store, "claim");
  } catch {
    throw new ToolError("PARAM_INVALID", `${where}.claim: Cannot be read`);
  }
  if (typeof claim !== "function") {
    throw new ToolError("PARAM_INVALID", `${where}: ${expected}, got an object without it`);
  }
  return (stateId) => Reflect.apply(claim, store, [stateId]);
}

/** @throws {ToolError} PARAM_INVALID */
function checkId(stateId: unknown): void {
  if (!z.uuid().safeParse(stateId).success) throw new ToolError("PARAM_INVALID", "id: Expected a UUID");
}

/** A store has no options. One that a caller passes is not silently without effect. @throws {ToolError} PARAM_INVALID */
function checkNoOptions([options]: readonly unknown[]): void {
  if (options === undefined) return;
  const [key] = isPlainObject(options) ? Object.keys(options) : [];
  if (key !== undefined) throw unknownOptionError("options", key, []);
  if (!isPlainObject(options))
    throw new ToolError("PARAM_INVALID", `options: Expected none, got ${describeKind(options)}`);
}

/**
 * Keeps claims in memory. Sufficient if only this process resumes states, and none after a restart.
 * @throws {ToolError} PARAM_INVALID for options: there are none
 */
export function createMemoryIdempotencyStore(...options: readonly never[]): IdempotencyStore {
  checkNoOptions(options);
  const claimed = new Set<string>();
  return {
    claim(stateId) {
      checkId(stateId);
      if (claimed.has(stateId)) return false;
      claimed.add(stateId);
      return true;
    },
  };
}

/**
 * Keeps claims as empty files, one for each state, for all processes that share the directory. A claim rejects if the directory is not
 * writable.
 * @param directory created if it is missing
 * @throws {ToolError} PARAM_INVALID for a directory that is not a path or cannot be used, and for options: there are none
 * @example
 * ```typescript
 * import { type AgentLoop, createFileIdempotencyStore } from "glovebox/agent";
 *
 * async function approve(loop: AgentLoop, state: string): Promise<void> {
 *   const idempotencyStore = createFileIdempotencyStore("./data/resumed");
 *   const outcome = await loop.run({ state, approvals: { call_1: true }, idempotencyStore });
 *   console.log(outcome.status);
 * }
 * ```
 */
export function createFileIdempotencyStore(directory: string, ...options: readonly never[]): IdempotencyStore {
  checkNoOptions(options);
  if (typeof directory !== "string" || directory === "") {
    throw new ToolError("PARAM_INVALID", `directory: Expected a path, got ${describeKind(directory)}`);
  }
  try {
    makeFolderSync(directory);
    accessSync(directory, constants.W_OK | constants.X_OK);
  } catch (cause) {
    const code = String((cause as NodeJS.ErrnoException).code);
    throw new ToolError("PARAM_INVALID", `directory: Expected a folder that can be written, got ${code}`, { cause });
  }
  return {
    async claim(stateId) {
      checkId(stateId);
      await makeFolder(directory);
      try {
        // The file system creates the file atomically, so only one process succeeds.
        await (await open(join(directory, stateId), "wx", 0o600)).close();
        return true;
      } catch (thrown) {
        if ((thrown as NodeJS.ErrnoException).code === "EEXIST") return false;
        throw thrown;
      }
    },
  };
}

/**
 * Claims a state. Rejects with PARAM_INVALID if it was claimed before, with INTERNAL if the claim failed or took too long, and with
 * CANCELLED if the run was cancelled meanwhile.
 */
export async function claimState(claim: Claim, stateId: string, signal: AbortSignal): Promise<void> {
  const outcome = await runCallback(() => claim(stateId), { timeoutMs: GUARD_TIMEOUT_MS, signal });
  if (signal.aborted) throw new ToolError("CANCELLED", "The run was cancelled before its state was resumed");
  if ("failed" in outcome) {
    const { failed, cause } = outcome;
    throw new ToolError("INTERNAL", `options.idempotencyStore.claim() ${failed}: the state was not resumed`, { cause });
  }
  if (outcome.answer === true) return;
  const got =
    outcome.answer === false ? "" : `; options.idempotencyStore.claim() returned ${describeKind(outcome.answer)}`;
  throw new ToolError(
    "PARAM_INVALID",
    `options.state: This state was already resumed, and its calls would run twice${got}`,
  );
}
