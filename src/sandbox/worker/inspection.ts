// The worker's side of inspection with DevTools. An inspected isolate waits before the tool is loaded until the client has finished its
// setup, and stays open after the call until the next call is inspected. Only in a worker that the host started for inspection.

import { MAX_INSPECT_BYTES } from "../protocol/message-fields.ts";
import type { Send } from "../protocol/worker-messages.ts";
import type { ToolIsolate } from "./isolate/tool-isolate.ts";

interface Inspected {
  readonly seq: number;
  readonly isolate: ToolIsolate;
  readonly go: () => void;
  hasEnded: boolean;
}

export class WorkerInspection {
  readonly #send: Send;
  #inspected: Inspected | undefined;

  constructor(send: Send) {
    this.#send = send;
  }

  /** Opens the isolate for inspection. Resolves when the host continues the call, or at once if another running call is inspected. */
  async open(seq: number, isolate: ToolIsolate): Promise<void> {
    if (this.#inspected?.hasEnded === false) return;
    void this.#inspected?.isolate.dispose();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#inspected = { seq, isolate, go: resolve, hasEnded: false };
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

  /** Marks the call as ended. Returns true if its isolate must stay open for inspection. */
  end(seq: number): boolean {
    if (this.#inspected?.seq !== seq) return false;
    this.#inspected.hasEnded = true;
    return true;
  }
}
