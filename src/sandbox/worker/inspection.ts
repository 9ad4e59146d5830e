// The worker's side of inspection with DevTools. An inspected isolate waits before the tool is loaded until the client has finished its
// setup, and stays open until the process ends. Only in a worker that the host started for inspection, which inspects one call.

import { MAX_INSPECT_BYTES } from "../protocol/message-fields.ts";
import type { Send } from "../protocol/worker-messages.ts";
import type { ToolIsolate } from "./isolate/tool-isolate.ts";

interface Inspected {
  readonly seq: number;
  readonly isolate: ToolIsolate;
  readonly go: () => void;
}

export class WorkerInspection {
  readonly #send: Send;
  #inspected: Inspected | undefined;

  constructor(send: Send) {
    this.#send = send;
  }

  /** Opens the isolate for inspection. Resolves when the host continues the call, or at once if the process has inspected another call. */
  async open(seq: number, isolate: ToolIsolate): Promise<void> {
    if (this.#inspected !== undefined) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#inspected = { seq, isolate, go: resolve };
    isolate.openInspector((text) => {
      // In UTF-8 a UTF-16 code unit takes up to three bytes.
      if (this.#inspected?.isolate === isolate && text.length * 3 <= MAX_INSPECT_BYTES) {
        this.#send({ type: "inspected", seq }, [text]);
      }
    });
    this.#send({ type: "inspect-open", seq });
    await promise;
  }

  /** Forwards a DevTools message to the isolate of the call. Ignores messages for other calls. */
  receive(seq: number, text: string): void {
    if (this.#inspected?.seq === seq) this.#inspected.isolate.inspect(text);
  }

  /** Continues the call. */
  go(seq: number): void {
    if (this.#inspected?.seq === seq) this.#inspected.go();
  }

  /** Whether the call is the inspected one. Its isolate stays open. */
  isOf(seq: number): boolean {
    return this.#inspected?.seq === seq;
  }
}
