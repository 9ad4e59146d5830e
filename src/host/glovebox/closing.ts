// Glovebox.close(): closes every part, each within a time limit. It always resolves. A part that does not close in time is killed or
// abandoned, so that it does not keep the host's process alive.
import * as z from "zod";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { strictObject } from "../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../config/option-errors.ts";
import { MAX_DRAIN_MS } from "../config/options.ts";
import { notifySafely, runCallback } from "../util/host-callback.ts";

/** Longest time in ms to close all parts. */
const CLOSE_MS = 5_000;
/** Shortest time in ms for the last step, even if the steps before it took longer than planned. */
const MIN_REST_MS = 500;

const CloseOptionsSchema = strictObject({ drainMs: z.int().min(0).max(MAX_DRAIN_MS).default(0) });

/** @throws {ToolError} PARAM_INVALID for options that are invalid or unknown */
export function parseCloseOptions(options: unknown = {}): z.infer<typeof CloseOptionsSchema> {
  return parseOptions(CloseOptionsSchema, options, "options");
}

/** A part of a Glovebox to close. */
export interface ClosingPart {
  /** Name of the part in error messages. */
  readonly name: string;
  readonly close: () => unknown;
  /** Ends the part without waiting, once its time is up. Must not throw. */
  readonly forceClose?: (() => void) | undefined;
}

/** Parts of one step are closed in parallel; the steps run one after the other. */
export interface ClosingStep {
  /** Longest time in ms for the step. Default: the rest of {@link CLOSE_MS}. */
  readonly withinMs?: number;
  readonly parts: readonly ClosingPart[];
}

/**
 * Closes all parts. Never rejects: a part that fails, or exceeds the time of its step, is abandoned and reported.
 * @param onError receives a ToolError (INTERNAL) for each abandoned part
 */
export async function closeAll(
  steps: readonly ClosingStep[],
  onError: ((error: ToolError) => unknown) | undefined,
): Promise<void> {
  const endsAt = performance.now() + CLOSE_MS;
  for (const { withinMs = Math.max(MIN_REST_MS, Math.round(endsAt - performance.now())), parts } of steps) {
    await Promise.all(parts.map((part) => closePart(part, withinMs, onError)));
  }
}

async function closePart(
  { name, close, forceClose }: ClosingPart,
  withinMs: number,
  onError: ((error: ToolError) => unknown) | undefined,
): Promise<void> {
  const outcome = await runCallback(close, { timeoutMs: withinMs });
  if (!("failed" in outcome)) return;
  forceClose?.();
  const message =
    outcome.failed === "timed out"
      ? `Closing ${name} took longer than ${withinMs} ms, so Glovebox was closed without it`
      : `Closing ${name} failed`;
  notifySafely(onError, new ToolError("INTERNAL", message, { cause: outcome.cause }));
}
