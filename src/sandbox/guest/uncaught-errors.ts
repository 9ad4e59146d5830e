// Reports uncaught errors and unhandled rejections to the guest's own handlers, or else logs them. As in a browser, they do not fail the
// call.

import { describeValue } from "./error-text.ts";
import { writeLazily } from "./log-lines.ts";
import { usePlatformModule } from "./module-loader.ts";
import { defineGlobal, ReflectApply, TypeErrorConstructor } from "./primordials.ts";

/** True while a handler runs. Errors of the handler itself are not reported to handlers. */
let isHandling = false;

/** Calls `globalThis.onerror` as in HTML, "report an exception", but without an event. Returns true if the handler returned true. */
function notifyHandler(thrown: unknown): boolean {
  if (isHandling) return false;
  isHandling = true;
  try {
    const { onerror } = globalThis as { readonly onerror?: unknown };
    if (typeof onerror !== "function") return false;
    return ReflectApply(onerror as () => unknown, globalThis, [describeValue(thrown), "", 0, 0, thrown]) === true;
  } catch {
    return false;
  } finally {
    isHandling = false;
  }
}

/** Notifies the event listeners of the global object. Returns true if one has handled the error. Replaced when listeners can exist. */
let dispatchToListeners = (_thrown: unknown, _message: string): boolean => false;

export function onException(dispatch: typeof dispatchToListeners): void {
  dispatchToListeners = dispatch;
}

function notifyListeners(thrown: unknown): boolean {
  if (isHandling) return false;
  isHandling = true;
  try {
    return dispatchToListeners(thrown, describeValue(thrown));
  } catch {
    return false;
  } finally {
    isHandling = false;
  }
}

/** Functions of the console module that format values and stacks. */
interface ConsoleChunk {
  dropPreludeFrames(stack: string): string;
  inspect(value: unknown, budget: number): string;
}
const consoleChunk = (): ConsoleChunk => usePlatformModule("console") as unknown as ConsoleChunk;

/**
 * Reports an uncaught error.
 * @param where context for the log line, such as "in a timer"
 */
export function reportException(thrown: unknown, where: string): void {
  const isHandledByListener = notifyListeners(thrown);
  if (notifyHandler(thrown) || isHandledByListener) return;
  writeLazily("error", () => `Uncaught ${where}: ${consoleChunk().inspect(thrown, 4_096)}`);
}

/** Logs an unhandled promise rejection. The worker knows only the reason as text, not the promise. */
export function reportRejection(text: string): void {
  writeLazily("error", () => consoleChunk().dropPreludeFrames(`Uncaught (in a promise): ${text}`));
}

export function installUncaughtErrors(): void {
  defineGlobal("onerror", null);
  defineGlobal("reportError", (...args: readonly unknown[]): void => {
    if (args.length === 0) throw new TypeErrorConstructor("reportError expected a value, got no argument");
    reportException(args[0], "(reported)");
  });
}
