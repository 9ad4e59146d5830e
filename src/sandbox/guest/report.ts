// What nobody catches: told to the guest's own `onerror`, else logged. It fails no call, as in a browser.
import { useChunk } from "./chunk-loader.ts";
import { describeValue } from "./error-text.ts";
import { writeLazily } from "./log-lines.ts";
import { defineGlobal, ReflectApply, TypeErrorConstructor } from "./primordials.ts";

/** A handler that throws is not asked about that. */
let isHandling = false;

/** HTML, "report an exception", without an event: the handler is given what it would be called with, and answers true to have handled it. */
function handlerTakes(thrown: unknown): boolean {
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

/** Tells the listeners of the global object, once there may be any; true where one has handled it. */
let tellListeners = (_thrown: unknown, _message: string): boolean => false;

export function onException(tell: typeof tellListeners): void {
  tellListeners = tell;
}

function listenersTake(thrown: unknown): boolean {
  if (isHandling) return false;
  isHandling = true;
  try {
    return tellListeners(thrown, describeValue(thrown));
  } catch {
    return false;
  } finally {
    isHandling = false;
  }
}

/** How values and stacks are shown. */
interface ConsoleChunk {
  dropPreludeFrames(stack: string): string;
  inspect(value: unknown, budget: number): string;
}
const consoleChunk = (): ConsoleChunk => useChunk("console") as unknown as ConsoleChunk;

/** @param where "in a timer" */
export function reportException(thrown: unknown, where: string): void {
  const isTold = listenersTake(thrown);
  if (handlerTakes(thrown) || isTold) return;
  writeLazily("error", () => `Uncaught ${where}: ${consoleChunk().inspect(thrown, 4_096)}`);
}

/** Of a promise that nobody handles the worker knows the reason only, as text: enough to tell the author. */
export function reportRejection(text: string): void {
  writeLazily("error", () => consoleChunk().dropPreludeFrames(`Uncaught (in a promise): ${text}`));
}

export function installReport(): void {
  defineGlobal("onerror", null);
  defineGlobal("reportError", (...args: readonly unknown[]): void => {
    if (args.length === 0) throw new TypeErrorConstructor("reportError expected a value, got no argument");
    reportException(args[0], "(reported)");
  });
}
