// The worker's side of inspection: the isolate of a call waits without the tool until the host has said what it had to say to it, and
// stays when the call is over, to be looked at until the next one comes. Only in a worker that its host has started for this.
import type { Send } from "../protocol/messages.ts";
import { MAX_INSPECT_BYTES } from "../protocol/messages.ts";
import type { ToolIsolate } from "./tool-isolate.ts";

interface Inspected {
  readonly seq: number;
  readonly isolate: ToolIsolate;
  readonly go: () => void;
  isCallOver: boolean;
}

export class Inspection {
  readonly #send: Send;
  #inspected: Inspected | undefined;

  constructor(send: Send) {
    this.#send = send;
  }

  /** Resolves when the host lets the call go on: at once for one beside another that is inspected already. */
  async open(seq: number, isolate: ToolIsolate): Promise<void> {
    if (this.#inspected?.isCallOver === false) return;
    void this.#inspected?.isolate.dispose();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#inspected = { seq, isolate, go: resolve, isCallOver: false };
    isolate.openInspector((text) => {
      // Text of UTF-16 units: in UTF-8 it may be three times as long.
      if (this.#inspected?.isolate === isolate && text.length * 3 <= MAX_INSPECT_BYTES) {
        this.#send({ type: "inspected", seq }, [text]);
      }
    });
    this.#send({ type: "inspect-open", seq });
    await promise;
  }

  /** To an isolate that is there no more, nothing is said. */
  receive(seq: number, text: string): void {
    if (this.#inspected?.seq === seq) this.#inspected.isolate.inspect(text);
  }

  go(seq: number): void {
    if (this.#inspected?.seq === seq) this.#inspected.go();
  }

  /** The call is over. True when its isolate is to stay. */
  end(seq: number): boolean {
    if (this.#inspected?.seq !== seq) return false;
    this.#inspected.isCallOver = true;
    return true;
  }
}
