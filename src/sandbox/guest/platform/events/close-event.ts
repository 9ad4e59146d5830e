// CloseEvent (WebSockets standard): reports how a WebSocket was closed.

import { defineInterface, requireArguments, toDictionary } from "../shared/webidl.ts";
import { Event } from "./events.ts";

export class CloseEvent extends Event {
  readonly #wasClean: boolean;
  readonly #code: number;
  readonly #reason: string;

  constructor(type: unknown, init: unknown = undefined) {
    requireArguments("CloseEvent", 1, arguments.length);
    super(type, init);
    const { code, reason, wasClean } = toDictionary(init, "CloseEvent");
    this.#code = code === undefined ? 0 : Number(code) & 0xffff;
    this.#reason = reason === undefined ? "" : `${reason as string}`.toWellFormed();
    this.#wasClean = !!wasClean;
  }

  get wasClean(): boolean {
    return this.#wasClean;
  }
  get code(): number {
    return this.#code;
  }
  get reason(): string {
    return this.#reason;
  }
}

defineInterface("CloseEvent", CloseEvent);
