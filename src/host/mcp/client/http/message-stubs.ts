// Messages that came by HTTP, on their way around the SDK's transport. That transport parses all that it is given at once, with nothing to
// bound its depth or its values. It is given a stub of some 80 bytes for each message that we have parsed, and who takes a stub from it
// gets the message back.
import { randomUUID } from "node:crypto";
import type { JSONRPCMessage } from "@modelcontextprotocol/client";

/** The ids that the SDK's transport accepts: it rejects a stub with any other, and nobody would take its message. */
const isId = (id: unknown): id is string | number => typeof id === "string" || Number.isSafeInteger(id);

export class MessageStubs {
  /** No server can make a stub: this name never leaves the process. */
  readonly #key: string = `glovebox:${randomUUID()}`;
  readonly #messages = new Map<number, JSONRPCMessage>();
  #last = 0;

  /** Keeps a message. Returns its number and the text of its stub; undefined for an answer without a valid id, which answers nothing. */
  put(message: JSONRPCMessage): { readonly number: number; readonly text: string } | undefined {
    this.#last += 1;
    const number = this.#last;
    const held = { [this.#key]: number };
    if ("method" in message) {
      this.#messages.set(number, message);
      return { number, text: JSON.stringify({ jsonrpc: "2.0", method: "glovebox/stub", params: held }) };
    }
    if (!isId(message.id)) return undefined;
    this.#messages.set(number, message);
    // An answer by its kind: the transport does not ask for the rest of a stream that has brought one.
    return { number, text: JSON.stringify({ jsonrpc: "2.0", id: message.id, result: held }) };
  }

  /** Returns the message of a stub, once; any other message as it is. Undefined for a stub whose message has gone. */
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

  /** How many messages wait for the transport to take them. */
  get size(): number {
    return this.#messages.size;
  }

  clear(): void {
    this.#messages.clear();
  }
}
