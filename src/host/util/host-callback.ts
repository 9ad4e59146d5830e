// Calls functions that the host passed in: listeners, guards, policies, stores. All such calls go through this file, so that a callback
// that throws, rejects or never returns cannot end the process, delay a call beyond its timeout, or count as permission.

/** How a callback failed. */
export type CallbackFailure = {
  readonly failed: "threw" | "timed out" | "aborted";
  /** The exception or rejection; the signal's reason after an abort; undefined after a timeout. */
  readonly cause: unknown;
};

/** The unchecked answer of a callback, or how it failed. */
export type CallbackOutcome = { readonly answer: unknown } | CallbackFailure;

/** Bounds of the wait for a callback. */
export interface CallbackBounds {
  /** Longest wait in ms. */
  readonly timeoutMs: number;
  /** Ends the wait early. */
  readonly signal?: AbortSignal | undefined;
}

/** Returns whether a value is a promise of any realm, or any other object that `await` would wait for. Throws if reading `then` throws. */
export const isThenable = (value: unknown): value is PromiseLike<unknown> =>
  (typeof value === "object" || typeof value === "function") &&
  value !== null &&
  typeof (value as { readonly then?: unknown }).then === "function";

/** Calls a listener and ignores its outcome: a returned promise is not awaited, and its rejection is handled. */
export function notifySafely<Args extends readonly unknown[]>(
  listener: ((...args: Args) => unknown) | undefined,
  ...args: Args
): void {
  ignoreOutcome(() => listener?.(...args));
}

/**
 * Runs code of the host, such as a method of its logger, and ignores its outcome, as {@link notifySafely} does.
 * @param onFailure receives the exception or rejection; its own outcome is ignored in the same way
 */
export function ignoreOutcome(run: () => unknown, onFailure?: (cause: unknown) => unknown): void {
  const fail = (cause: unknown): void => {
    if (onFailure !== undefined) ignoreOutcome(() => onFailure(cause));
  };
  try {
    const returned = run();
    // A promise of another realm is not an instance of Promise, but its unhandled rejection also ends the process.
    if (isThenable(returned)) Promise.resolve(returned).then(undefined, fail);
  } catch (cause) {
    fail(cause);
  }
}

/**
 * Calls a function of the host and waits for its answer within bounds. Never throws and never rejects: the caller decides what a failure
 * means, which is "denied" for a guard or a policy. A synchronous answer is returned immediately and costs no timer.
 */
export function runCallback(run: () => unknown, bounds: CallbackBounds): CallbackOutcome | Promise<CallbackOutcome> {
  try {
    const returned = run();
    return isThenable(returned) ? waitForAnswer(returned, bounds) : { answer: returned };
  } catch (cause) {
    return { failed: "threw", cause };
  }
}

async function waitForAnswer(
  returned: PromiseLike<unknown>,
  { timeoutMs, signal }: CallbackBounds,
): Promise<CallbackOutcome> {
  const { promise: ended, resolve: end } = Promise.withResolvers<CallbackOutcome>();
  const onAbort = (): void => end({ failed: "aborted", cause: signal?.reason });
  const timer = setTimeout(() => end({ failed: "timed out", cause: undefined }), Math.max(0, timeoutMs));
  signal?.addEventListener("abort", onAbort, { once: true });
  if (signal?.aborted === true) onAbort();
  // Handles the rejection even if it occurs after the end of the wait.
  const settled = Promise.resolve(returned).then(
    (answer): CallbackOutcome => ({ answer }),
    (cause: unknown): CallbackOutcome => ({ failed: "threw", cause }),
  );
  try {
    return await Promise.race([settled, ended]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
  }
}
