// One run of a replay in the worker pool: receives its chunks, and hands its outcome to the PreparedReplay in the form that recordings compare.
import type { RawChunk } from "../contract/tool-stream.ts";
import type { Execution } from "../executors/execution.ts";
import { isStreamed, outcomeOf, streamedOutcomeOf } from "./call-recorder.ts";
import { ChunkLog } from "./chunk-log.ts";
import type { PreparedReplay } from "./replay.ts";

export class ReplayRun {
  readonly replay: PreparedReplay;
  #chunks: ChunkLog | undefined;

  constructor(replay: PreparedReplay) {
    this.replay = replay;
  }

  /** A process has taken the call. It begins again if an earlier process was lost before the tool ran. */
  begin(): void {
    const { isStreamed: isRead, redact } = this.replay;
    if (!isRead) return;
    // Recorded answers have no secrets, so nothing is redacted but what `redact` replaces.
    const redactor = (): undefined => undefined;
    this.#chunks = new ChunkLog({ redactor, redact, maxLength: Number.POSITIVE_INFINITY, keepsChunks: true });
  }

  addChunks(chunks: readonly RawChunk[]): void {
    this.#chunks?.add(chunks);
  }

  /** Sets the outcome of the replay. Returns the execution, with its chunks as the output if it has no other. */
  async end(execution: Execution): Promise<Execution> {
    const { replay } = this;
    const chunks = this.#chunks;
    replay.chunks = await chunks?.end();
    if (chunks === undefined || replay.chunks === undefined || "error" in execution || !isStreamed(execution)) {
      replay.outcome = await outcomeOf(execution, replay.redact);
      return execution;
    }
    replay.outcome = await streamedOutcomeOf(replay.chunks);
    replay.isOutputStreamed = true;
    const { text: outputText, bytes } = await chunks.toOutput();
    return { ...execution, outputText, ...(bytes === undefined ? {} : { outputBytes: () => bytes }) };
  }
}
