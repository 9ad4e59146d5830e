// The one way to call a function that the host passed in: listeners, guards, policies, stores. What such a function throws, rejects or
// never returns must not end the process, hold up a call for longer than its bound, or count as permission.

/** How a callback ended that did not give an answer. */
export type CallbackFailure = {
  readonly failed: "threw" | "timed out" | "aborted";
  /** What it threw or rejected with; the signal's reason after an abort; undefined after a timeout. */
  readonly cause: unknown;
};

/** The answer of a callback, not yet checked, or how it failed. */
export type CallbackOutcome = { readonly answer: unknown } | CallbackFailure;

/** How long a callback may take. */
export interface CallbackBounds {
  /** In ms, from the call on. */
  readonly timeoutMs: number;
  /** Ends the wait early. */
  readonly signal?: AbortSignal | undefined;
}

/** Tells whether a value is a promise of any realm, or anything else that `await` would wait for. Throws what reading `then` throws. */
export const isThenable = (value: unknown): value is PromiseLike<unknown> =>
  (typeof value === "object" || typeof value === "function") &&
  value !== null &&
  typeof (value as { readonly then?: unknown }).then === "function";

/** Calls a listener and ignores how it ends: a returned promise is not waited for, and its rejection is handled. */
export function notifySafely<Args extends readonly unknown[]>(
  listener: ((...args: Args) => unknown) | undefined,
  ...args: Args
): void {
  ignoreOutcome(() => listener?.(...args));
}

/**
 * Runs code of the host and ignores how it ends, as {@link notifySafely} does: a method of the host's logger, for example.
 * @param onFailure receives what the code threw or rejected with, and is called just as safely
 */
export function ignoreOutcome(run: () => unknown, onFailure?: (cause: unknown) => unknown): void {
  const fail = (cause: unknown): void => {
    if (onFailure !== undefined) ignoreOutcome(() => onFailure(cause));
  };
  try {
    const returned = run();
    // A promise of another realm is no instance of Promise, and its rejection ends the process all the same.
    if (isThenable(returned)) Promise.resolve(returned).then(undefined, fail);
  } catch (cause) {
    fail(cause);
  }
}

/**
 * Calls a function of the host and waits for its answer within bounds. Never throws and never rejects: the caller decides what a failure
 * means, and for a guard or a policy it means "denied". An answer that is no promise is returned at once and costs no timer.
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
  // Its outcome is handled here even if it comes after the end of the wait.
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
