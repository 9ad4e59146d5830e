// The methods of Node's event emitters on MessagePort: a listener of messages gets the message itself instead of an event, and `on` starts the port.
import { dispatch, Event, type EventTarget } from "./events.ts";
import { MessageEvent } from "./message-event.ts";

interface Port extends EventTarget {
  start(): void;
}
type Listener = (value?: unknown) => unknown;
type EventListener = (event: Event) => void;

/** What was added to each port as a listener of events, by type and by the listener that a tool has given. */
const listeners = new WeakMap<Port, Map<string, Map<Listener, EventListener>>>();

function listenersOf(port: Port, type: string): Map<Listener, EventListener> {
  const types = listeners.get(port) ?? new Map<string, Map<Listener, EventListener>>();
  listeners.set(port, types);
  const found = types.get(type) ?? new Map<Listener, EventListener>();
  types.set(type, found);
  return found;
}

function add(port: Port, type: string, listener: Listener, isOnce: boolean): void {
  const known = listenersOf(port, type);
  // Node adds a listener of one type once.
  if (known.has(listener)) return;
  const wrapper = (event: Event): void => {
    if (isOnce) remove(port, type, listener);
    Reflect.apply(listener, port, [event instanceof MessageEvent ? event.data : event]);
  };
  known.set(listener, wrapper);
  port.addEventListener(type, wrapper);
  if (type === "message") port.start();
}

function remove(port: Port, type: string, listener: Listener): void {
  const known = listenersOf(port, type);
  const wrapper = known.get(listener);
  if (wrapper === undefined) return;
  known.delete(listener);
  port.removeEventListener(type, wrapper);
}

const methods = {
  on(this: Port, type: string, listener: Listener): Port {
    add(this, type, listener, false);
    return this;
  },
  once(this: Port, type: string, listener: Listener): Port {
    add(this, type, listener, true);
    return this;
  },
  off(this: Port, type: string, listener: Listener): Port {
    remove(this, type, listener);
    return this;
  },
  removeAllListeners(this: Port, type?: string): Port {
    const types = type === undefined ? [...(listeners.get(this)?.keys() ?? [])] : [type];
    for (const each of types) for (const listener of [...listenersOf(this, each).keys()]) remove(this, each, listener);
    return this;
  },
  emit(this: Port, type: string, value?: unknown): boolean {
    const hasListeners = listenersOf(this, type).size > 0;
    const event =
      type === "message" || type === "messageerror" ? new MessageEvent(type, { data: value }) : new Event(type);
    dispatch(this, event, true);
    return hasListeners;
  },
  listenerCount(this: Port, type: string): number {
    return listenersOf(this, type).size;
  },
  eventNames(this: Port): string[] {
    const types = [...(listeners.get(this) ?? [])];
    return types.filter(([, known]) => known.size > 0).map(([type]) => type);
  },
};

/** Defines the methods on the prototype of MessagePort. */
export function defineEmitter(prototype: Port): void {
  const all = { ...methods, addListener: methods.on, removeListener: methods.off };
  for (const [name, value] of Object.entries(all)) {
    Object.defineProperty(prototype, name, { value, writable: true, configurable: true });
  }
}
