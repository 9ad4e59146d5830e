// The host's side of inspection: passes DevTools messages between an inspector and one isolate of a worker process.
import { MAX_INSPECT_BYTES } from "../../sandbox/protocol/message-fields.ts";
import type { InspectedIsolate, Inspector } from "./inspected-isolate.ts";
import type { ProcessCalls } from "./process-calls.ts";

/** Sends a message to the worker, if it still runs. */
export type SendInspection = (
  message: { readonly type: "inspect" | "inspect-go"; readonly seq: number },
  parts?: readonly string[],
) => void;

export class ProcessInspection {
  readonly #inspector: Inspector | undefined;
  readonly #calls: ProcessCalls;
  readonly #send: SendInspection;
  #inspected: { readonly seq: number; readonly isolate: InspectedIsolate } | undefined;

  /** @param inspector undefined in a process that is not inspected */
  constructor(inspector: Inspector | undefined, calls: ProcessCalls, send: SendInspection) {
    this.#inspector = inspector;
    this.#calls = calls;
    this.#send = send;
  }

  get isEnabled(): boolean {
    return this.#inspector !== undefined;
  }

  /**
   * Inspects one of several concurrent calls at a time. Inspection of the next call ends that of the previous one.
   * @throws {Error} if the process is not inspected or has no such call
   */
  begin(seq: number): void {
    const call = this.#calls.get(seq);
    if (this.#inspector === undefined || call === undefined || call.hasEnded) {
      throw new Error("The worker offered an isolate for inspection that was not requested");
    }
    this.end();
    const isolate: InspectedIsolate = {
      send: (text) => this.#send({ type: "inspect", seq }, [text]),
      go: () => this.#send({ type: "inspect-go", seq }),
      setPaused: (isPaused) => this.#calls.get(seq)?.listener.onPaused(isPaused),
    };
    this.#inspected = { seq, isolate };
    this.#inspector.onOpened(isolate);
  }

  /** @throws {Error} for a message of an isolate that is not inspected */
  receive(seq: number, [text]: readonly Buffer[]): void {
    const inspected = this.#inspected;
    if (inspected?.seq !== seq || text === undefined || text.length > MAX_INSPECT_BYTES) {
      throw new Error("The worker sent an inspector message for an isolate that is not inspected");
    }
    this.#inspector?.onMessage(inspected.isolate, text.toString());
  }

  end(): void {
    if (this.#inspected !== undefined) this.#inspector?.onClosed(this.#inspected.isolate);
    this.#inspected = undefined;
  }
}
