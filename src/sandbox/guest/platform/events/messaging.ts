// MessageChannel and MessagePort (HTML, "channel messaging"): each message is a copy and arrives in a separate task.

import { withCode } from "../../error-text.ts";
import { addPlatformType } from "../../platform-types.ts";
import { inContext, queueTask } from "../../timers.ts";
import { defineInterface, requireArguments } from "../shared/webidl.ts";
import { cloneWithTransfer } from "../util/structured-clone.ts";
import { defineHandlers, dispatch, Event, EventTarget, getHandler, setHandler } from "./events.ts";
import { MessageEvent } from "./message-event.ts";
import { defineEmitter } from "./port-emitter.ts";

export { BroadcastChannel } from "./broadcast-channel.ts";
export { addEventListener, dispatchEvent, removeEventListener } from "./global-events.ts";
export { ErrorEvent, MessageEvent, PromiseRejectionEvent } from "./message-event.ts";

interface Message {
  readonly data: unknown;
  readonly ports: readonly MessagePort[];
}

/** One end of a channel. When a port is transferred, a new port takes over its end. */
interface End {
  owner: MessagePort | undefined;
  peer: End | undefined;
  isStarted: boolean;
  readonly waiting: Message[];
  /** Delivers messages in the context in which the channel was created. */
  readonly deliver: (end: End) => void;
}

function deliver(end: End): void {
  const { owner } = end;
  if (owner === undefined || !end.isStarted) return;
  const message = end.waiting.shift();
  if (message !== undefined) dispatch(owner, new MessageEvent("message", message), true);
}

/** Reads the second argument of `postMessage`: a list, or an object with one. */
function toTransferList(options: unknown): unknown {
  if (options === undefined || options === null) return undefined;
  if (typeof options !== "object") throw new TypeError("postMessage expected a list of objects to transfer");
  return Symbol.iterator in options ? options : (options as { readonly transfer?: unknown }).transfer;
}

const KEY = {};
let isPort: (value: unknown) => value is MessagePort;
/** Returns a new port without an end, and a function that moves the end of an existing port to it. */
let transferPort: (port: MessagePort) => { readonly target: MessagePort; readonly commit: () => void };
let entangle: (left: MessagePort, right: MessagePort) => void;
let takeMessage: (port: MessagePort) => Message | undefined;

export class MessagePort extends EventTarget {
  /** Undefined once the port has been transferred. */
  #end: End | undefined;

  static {
    isPort = (value): value is MessagePort => typeof value === "object" && value !== null && #end in value;
    transferPort = (port) => {
      const end = port.#end;
      if (end === undefined) throw new DOMException("The port has already been transferred", "DataCloneError");
      const target = new MessagePort(KEY);
      const commit = (): void => {
        port.#end = undefined;
        target.#end = end;
        end.owner = target;
        end.isStarted = false;
      };
      return { target, commit };
    };
    takeMessage = (port) => port.#end?.waiting.shift();
    entangle = (left, right) => {
      const first: End = { owner: left, peer: undefined, isStarted: false, waiting: [], deliver: inContext(deliver) };
      const second: End = { owner: right, peer: first, isStarted: false, waiting: [], deliver: first.deliver };
      first.peer = second;
      left.#end = first;
      right.#end = second;
    };
  }

  constructor(key: unknown = undefined) {
    super();
    if (key !== KEY) throw new TypeError("MessagePort cannot be constructed; use MessageChannel");
  }

  postMessage(message: unknown, options: unknown = undefined): void {
    requireArguments("postMessage", 1, arguments.length);
    const list = toTransferList(options);
    const listed = list === undefined ? undefined : [...(list as Iterable<unknown>)];
    if (listed?.includes(this)) throw new DOMException("A port cannot be sent through itself", "DataCloneError");
    const peer = this.#end?.peer;
    const isDoomed = listed !== undefined && peer?.owner !== undefined && listed.includes(peer.owner);
    const { copy, transferred } = cloneWithTransfer(message, listed);
    if (peer === undefined || isDoomed) return;
    peer.waiting.push({ data: copy, ports: transferred.filter(isPort) });
    if (peer.isStarted) queueTask(() => peer.deliver(peer));
  }

  start(): void {
    const end = this.#end;
    if (end === undefined || end.isStarted) return;
    end.isStarted = true;
    for (const _ of end.waiting) queueTask(() => end.deliver(end));
  }

  close(): void {
    const end = this.#end;
    const peer = end?.peer;
    if (end === undefined || peer === undefined) return;
    end.peer = undefined;
    peer.peer = undefined;
    // The event follows the messages that were sent before.
    queueTask(() => {
      if (peer.owner !== undefined) dispatch(peer.owner, new Event("close"), true);
    });
  }

  // Node's. An open port keeps no tool running, so these have no effect.
  ref(): void {}
  unref(): void {}
  hasRef(): boolean {
    return false;
  }

  get onmessage(): unknown {
    return getHandler(this, "message");
  }
  set onmessage(handler: unknown) {
    setHandler(this, "message", handler);
    this.start();
  }
}

export class MessageChannel {
  readonly #port1 = new MessagePort(KEY);
  readonly #port2 = new MessagePort(KEY);

  constructor() {
    entangle(this.#port1, this.#port2);
  }

  get port1(): MessagePort {
    return this.#port1;
  }
  get port2(): MessagePort {
    return this.#port2;
  }
}

/**
 * Node's function: takes the oldest message that has not been delivered.
 * @throws {TypeError} ERR_INVALID_ARG_TYPE
 */
export function receiveMessageOnPort(port: unknown): { readonly message: unknown } | undefined {
  if (!isPort(port)) {
    throw withCode(new TypeError('The "port" argument must be a MessagePort instance'), "ERR_INVALID_ARG_TYPE");
  }
  const taken = takeMessage(port);
  return taken === undefined ? undefined : { message: taken.data };
}

defineEmitter(MessagePort.prototype);
defineHandlers(MessagePort, ["messageerror", "close"]);
defineInterface("MessagePort", MessagePort);
defineInterface("MessageChannel", MessageChannel);
addPlatformType({ owns: isPort, transfer: (value) => transferPort(value as MessagePort) });
