// The global object as an EventTarget (ECMA-429), which receives an event for each uncaught exception. It is not an `instanceof
// EventTarget`, because its prototype is the engine's.
import { onException } from "../../uncaught-errors.ts";
import { dispatch, EventTarget } from "./events.ts";
import { ErrorEvent } from "./message-event.ts";

const hub = new EventTarget();

export function addEventListener(...args: [type: unknown, listener: unknown, options?: unknown]): void {
  hub.addEventListener(...args);
}
export function removeEventListener(...args: [type: unknown, listener: unknown, options?: unknown]): void {
  hub.removeEventListener(...args);
}
export function dispatchEvent(event: unknown): boolean {
  return dispatch(hub, event, false, globalThis);
}

onException((error, message) => {
  return !dispatch(hub, new ErrorEvent("error", { cancelable: true, error, message }), true, globalThis);
});
