// The hard stop: V8's own watchdog thread ends what runs too long, even inside one regex.
import { createContext, Script } from "node:vm";

interface Slot {
  run: (() => void) | undefined;
}

// A context of our own is the way to reach a function from a script without a name on the host's global object.
// No foreign code is ever evaluated in it: the script is the constant below.
const slot: Slot = Object.assign(Object.create(null), { run: undefined });
let call: Script | undefined;

/**
 * Runs `task` for at most `timeoutMs` (rounded up to a whole millisecond); gives false when it was ended.
 * Costs about 110 µs, for the thread [m]; a catastrophic regex ends within a millisecond of the time.
 */
export function runGuarded(task: () => void, timeoutMs: number): boolean {
  if (call === undefined) {
    createContext(slot);
    call = new Script("run()");
  }
  const outer = slot.run;
  slot.run = task;
  try {
    call.runInContext(slot, { timeout: Math.max(1, Math.ceil(timeoutMs)) });
    return true;
  } catch (error) {
    if (isTimeout(error)) return false;
    throw error;
  } finally {
    slot.run = outer;
  }
}

/** By Node's own code. The error is of the slot's realm, so it is no `instanceof` our Error; a regex or a schema can throw no such thing. */
function isTimeout(error: unknown): boolean {
  return (
    typeof error === "object" && error !== null && "code" in error && error.code === "ERR_SCRIPT_EXECUTION_TIMEOUT"
  );
}
