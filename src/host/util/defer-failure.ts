// Every public asynchronous method fails through here: a call that is rejected at once would otherwise resolve in a microtask, and a host
// that retries in a loop (`while (!done) await glovebox.execute(…)`) would never let one of its timers, sockets or signals through.
import { setImmediate as nextTurn } from "node:timers/promises";

/**
 * Runs an asynchronous method. A value comes as soon as it is there; a failure comes in a later turn of the event loop.
 * @param begin may throw: that is a rejection
 * @param isFailure tells which values are failures. Default: none, only rejections are
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
