// What a streaming tool yields, on its way out of the worker: counted in bytes, and sent in one frame for those of one turn.
import type { Limits } from "../contract/limits.ts";
import type { GuestBytes } from "./tool-isolate.ts";

type SendParts = (parts: readonly (string | Uint8Array)[]) => void;

export class OutputBuffer {
  readonly #send: SendParts;
  readonly #limits: Pick<Limits, "outputBytes" | "jsonValues">;
  #lines: string[] = [];
  #bytes = 0;
  #count = 0;
  #isOver = false;

  constructor(limits: Pick<Limits, "outputBytes" | "jsonValues">, send: SendParts) {
    this.#limits = limits;
    this.#send = send;
  }

  /** Of all that was added. */
  get bytes(): number {
    return this.#bytes;
  }

  /** False, and nothing is added, once it is more than one output may be. */
  add(text: string, bytes: GuestBytes | undefined): boolean {
    this.#bytes += Buffer.byteLength(text) + (bytes?.data.byteLength ?? 0);
    this.#count += 1;
    if (this.#bytes > this.#limits.outputBytes || this.#count > this.#limits.jsonValues) return false;
    if (bytes !== undefined) {
      this.flush();
      this.#send([text, bytes.header, bytes.data]);
    } else if (this.#lines.push(text) === 1) setImmediate(() => this.flush());
    return true;
  }

  /** Before anything else is said of the call: what comes earlier arrives earlier. */
  flush(): void {
    if (this.#lines.length === 0 || this.#isOver) return;
    const lines = this.#lines;
    this.#lines = [];
    this.#send([lines.join("\n")]);
  }

  /** After the end of the call nothing leaves. */
  close(): void {
    this.flush();
    this.#isOver = true;
  }
}
