// Delays failures of public asynchronous methods to a later turn of the event loop. Otherwise a host that retries in a loop
// (`while (!done) await glovebox.execute(…)`) would run in microtasks only and block its own timers, sockets and signals.
import { setImmediate as nextTurn } from "node:timers/promises";

/**
 * Runs an asynchronous method. A success resolves immediately; a failure settles in a later turn of the event loop.
 * @param begin an exception counts as a rejection
 * @param isFailure returns whether a value is a failure. Default: only rejections are failures
 */
export async function deferFailure<Value>(
  begin: () => Value | Promise<Value>,
  isFailure?: (value: Value) => boolean,
): Promise<Value> {
  let value: Value;
  try {
    value = await begin();
  } catch (thrown) {
    await nextTurn();
    throw thrown;
  }
  if (isFailure?.(value) === true) await nextTurn();
  return value;
}
