// The events for messages and errors: MessageEvent, ErrorEvent, PromiseRejectionEvent (HTML).

import { defineInterface, requireArguments, toDictionary } from "../shared/webidl.ts";
import { Event } from "./events.ts";

const text = (value: unknown): string => (value === undefined ? "" : `${value as string}`);
const toUint32 = (value: unknown): number => Number(value ?? 0) >>> 0;

function toPorts(value: unknown): readonly unknown[] {
  return Object.freeze(value === undefined ? [] : [...(value as Iterable<unknown>)]);
}

export class MessageEvent extends Event {
  #data: unknown;
  #origin: string;
  #lastEventId: string;
  #source: unknown;
  #ports: readonly unknown[];

  constructor(type: unknown, init: unknown = undefined) {
    requireArguments("MessageEvent", 1, arguments.length);
    super(type, init);
    const { data, lastEventId, origin, ports, source } = toDictionary(init, "MessageEvent");
    this.#data = data === undefined ? null : data;
    this.#origin = text(origin);
    this.#lastEventId = text(lastEventId);
    this.#source = source ?? null;
    this.#ports = toPorts(ports);
  }

  get data(): unknown {
    return this.#data;
  }
  get origin(): string {
    return this.#origin;
  }
  get lastEventId(): string {
    return this.#lastEventId;
  }
  get source(): unknown {
    return this.#source;
  }
  get ports(): readonly unknown[] {
    return this.#ports;
  }
  initMessageEvent(type: unknown, ...rest: readonly unknown[]): void {
    requireArguments("initMessageEvent", 1, arguments.length);
    const [bubbles = false, cancelable = false, data = null, origin, lastEventId, source, ports] = rest;
    if (this.currentTarget !== null) return;
    this.initEvent(type, bubbles, cancelable);
    this.#data = data;
    this.#origin = text(origin);
    this.#lastEventId = text(lastEventId);
    this.#source = source ?? null;
    this.#ports = toPorts(ports);
  }
}

export class ErrorEvent extends Event {
  readonly #message: string;
  readonly #filename: string;
  readonly #lineno: number;
  readonly #colno: number;
  readonly #error: unknown;

  constructor(type: unknown, init: unknown = undefined) {
    requireArguments("ErrorEvent", 1, arguments.length);
    super(type, init);
    const { colno, error, filename, lineno, message } = toDictionary(init, "ErrorEvent");
    this.#message = text(message);
    this.#filename = text(filename);
    this.#lineno = toUint32(lineno);
    this.#colno = toUint32(colno);
    this.#error = error;
  }

  get message(): string {
    return this.#message;
  }
  get filename(): string {
    return this.#filename;
  }
  get lineno(): number {
    return this.#lineno;
  }
  get colno(): number {
    return this.#colno;
  }
  get error(): unknown {
    return this.#error;
  }
}

export class PromiseRejectionEvent extends Event {
  readonly #promise: unknown;
  readonly #reason: unknown;

  constructor(type: unknown, init: unknown) {
    requireArguments("PromiseRejectionEvent", 2, arguments.length);
    super(type, init);
    const { promise, reason } = toDictionary(init, "PromiseRejectionEvent");
    if (promise === undefined) throw new TypeError("PromiseRejectionEvent expected a promise");
    this.#promise = promise;
    this.#reason = reason;
  }

  get promise(): unknown {
    return this.#promise;
  }
  get reason(): unknown {
    return this.#reason;
  }
}

defineInterface("MessageEvent", MessageEvent);
defineInterface("ErrorEvent", ErrorEvent);
defineInterface("PromiseRejectionEvent", PromiseRejectionEvent);
