// BroadcastChannel (HTML, "broadcasting to other browsing contexts"): sends to the other channels of its name in this isolate. Messages
// never leave the isolate.

import { inContext, queueTask } from "../../timers.ts";
import { defineInterface, requireArguments } from "../shared/webidl.ts";
import { structuredClone } from "../util/structured-clone.ts";
import { defineHandlers, dispatch, EventTarget } from "./events.ts";
import { MessageEvent } from "./message-event.ts";

/** In order of creation, which is the order of delivery. */
const open = new Set<BroadcastChannel>();

export class BroadcastChannel extends EventTarget {
  readonly #name: string;
  /** Delivers messages in the context in which the channel was created. */
  readonly #deliver: (data: unknown) => void;

  constructor(name: unknown) {
    requireArguments("BroadcastChannel", 1, arguments.length);
    super();
    this.#name = String(name);
    this.#deliver = inContext((data: unknown): void => {
      if (open.has(this)) dispatch(this, new MessageEvent("message", { data }), true);
    });
    open.add(this);
  }

  get name(): string {
    return this.#name;
  }

  postMessage(message: unknown): void {
    requireArguments("postMessage", 1, arguments.length);
    if (!open.has(this)) throw new DOMException("The channel is closed", "InvalidStateError");
    const others = [...open].filter((one) => one !== this && one.#name === this.#name);
    // A value that cannot be cloned must throw even without a receiver.
    const copies = others.map((other) => ({ other, data: structuredClone(message) }));
    if (others.length === 0) structuredClone(message);
    for (const { other, data } of copies) queueTask(() => other.#deliver(data));
  }

  close(): void {
    open.delete(this);
  }

  /** `ref` and `unref` exist because Node has them. No channel keeps a call alive. */
  ref(): this {
    return this;
  }
  unref(): this {
    return this;
  }
}

defineHandlers(BroadcastChannel, ["message", "messageerror"]);
defineInterface("BroadcastChannel", BroadcastChannel);
