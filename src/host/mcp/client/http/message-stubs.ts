// Stores parsed messages while the SDK's HTTP transport handles stubs in their place. That transport parses its input synchronously and
// without limits on depth and values. It therefore receives a stub of some 80 bytes for each message, which is replaced by the message
// behind the transport.
import { randomUUID } from "node:crypto";
import type { JSONRPCMessage } from "@modelcontextprotocol/client";

/** Returns whether the SDK's transport accepts an id. It rejects stubs with any other id, so their messages would never be taken. */
const isId = (id: unknown): id is string | number => typeof id === "string" || Number.isSafeInteger(id);

export class MessageStubs {
  /** Servers cannot forge a stub, because this name never leaves the process. */
  readonly #key: string = `glovebox:${randomUUID()}`;
  readonly #messages = new Map<number, JSONRPCMessage>();
  #last = 0;

  /** Stores a message. Returns its number and the text of its stub; undefined for a response without a valid id. */
  put(message: JSONRPCMessage): { readonly number: number; readonly text: string } | undefined {
    this.#last += 1;
    const number = this.#last;
    const reference = { [this.#key]: number };
    if ("method" in message) {
      this.#messages.set(number, message);
      return { number, text: JSON.stringify({ jsonrpc: "2.0", method: "glovebox/stub", params: reference }) };
    }
    if (!isId(message.id)) return undefined;
    this.#messages.set(number, message);
    // The stub of a response is itself a response, because the transport does not reopen a stream that has delivered one.
    return { number, text: JSON.stringify({ jsonrpc: "2.0", id: message.id, result: reference }) };
  }

  /** Removes and returns the message of a stub; undefined if it was already taken or dropped. Returns any other message unchanged. */
  take(stub: JSONRPCMessage): JSONRPCMessage | undefined {
    const { params, result } = stub as { readonly params?: object; readonly result?: object };
    const number = ((params ?? result) as { readonly [key: string]: unknown } | undefined)?.[this.#key];
    if (typeof number !== "number") return stub;
    const message = this.#messages.get(number);
    this.#messages.delete(number);
    return message;
  }

  /** Drops a message whose stub will not be read. */
  drop(number: number): void {
    this.#messages.delete(number);
  }

  /** Number of messages that have not been taken. */
  get size(): number {
    return this.#messages.size;
  }

  clear(): void {
    this.#messages.clear();
  }
}
