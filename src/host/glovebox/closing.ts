// Glovebox.close(): ends every part, each within a time of its own, whatever hangs in it. close() always resolves, and what has not ended by
// then is killed or let go, so that it does not keep the host's process alive.
import { ToolError } from "../../sandbox/contract/errors.ts";
import { notifySafely, runCallback } from "../util/host-callback.ts";

/** Longest time in ms that all parts together take to close. */
const CLOSE_MS = 5_000;
/** The last part has so much, however long those before it have taken. */
const MIN_REST_MS = 500;

/** A part of a Glovebox that has to end. */
export interface ClosingPart {
  /** What the operator reads when it does not. */
  readonly name: string;
  readonly close: () => unknown;
  /** Ends it without waiting, after its time. Must not throw. */
  readonly abandon?: (() => void) | undefined;
}

/** Parts of one step are closed side by side, one step after the other. */
export interface ClosingStep {
  /** Default: what is left of {@link CLOSE_MS}. */
  readonly withinMs?: number;
  readonly parts: readonly ClosingPart[];
}

/**
 * Closes all parts. Never rejects: a part that fails, or takes longer than its step may, is reported and left behind.
 * @param onError receives a ToolError (INTERNAL) for each of those
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
  { name, close, abandon }: ClosingPart,
  withinMs: number,
  onError: ((error: ToolError) => unknown) | undefined,
): Promise<void> {
  const outcome = await runCallback(close, { timeoutMs: withinMs });
  if (!("failed" in outcome)) return;
  abandon?.();
  const message =
    outcome.failed === "timed out"
      ? `Closing ${name} took longer than ${withinMs} ms, so Glovebox was closed without it`
      : `Closing ${name} failed`;
  notifySafely(onError, new ToolError("INTERNAL", message, { cause: outcome.cause }));
}
