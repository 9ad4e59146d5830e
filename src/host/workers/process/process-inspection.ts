// The host's side of inspection: passes DevTools messages between an inspector and one isolate of a worker process.
import { MAX_INSPECT_BYTES } from "../../../sandbox/protocol/message-fields.ts";
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
  readonly #onRelease: () => void;
  #inspected: { readonly seq: number; readonly isolate: InspectedIsolate } | undefined;
  #isReleased = false;

  /**
   * @param inspector undefined in a process that is not inspected
   * @param onRelease called when the process is no longer needed for its inspected isolate
   */
  constructor(inspector: Inspector | undefined, calls: ProcessCalls, send: SendInspection, onRelease: () => void) {
    this.#inspector = inspector;
    this.#calls = calls;
    this.#send = send;
    this.#onRelease = onRelease;
  }

  get isEnabled(): boolean {
    return this.#inspector !== undefined;
  }

  /** Whether an isolate of the process was opened for inspection. isolated-vm cannot dispose it, so it ends with the process. */
  get hasBegun(): boolean {
    return this.#inspected !== undefined;
  }

  /** Whether the inspector still needs the isolate. */
  get isHeld(): boolean {
    return this.hasBegun && !this.#isReleased;
  }

  isOf(seq: number): boolean {
    return this.#inspected?.seq === seq;
  }

  /** @throws {Error} if the process is not inspected, has no such call, or has inspected another call */
  begin(seq: number): void {
    const call = this.#calls.get(seq);
    if (this.#inspector === undefined || call === undefined || call.hasEnded || this.#inspected !== undefined) {
      throw new Error("The worker offered an isolate for inspection that was not requested");
    }
    const isolate: InspectedIsolate = {
      get isRunning() {
        return !call.hasEnded && !call.isCancelled;
      },
      send: (text) => this.#send({ type: "inspect", seq }, [text]),
      go: () => this.#send({ type: "inspect-go", seq }),
      setPaused: (isPaused) => this.#calls.get(seq)?.listener.onPaused(isPaused),
      release: () => this.#release(),
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

  #release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#onRelease();
  }

  /** Reports the end of the process. */
  end(): void {
    this.#isReleased = true;
    if (this.#inspected !== undefined) this.#inspector?.onClosed(this.#inspected.isolate);
  }
}
