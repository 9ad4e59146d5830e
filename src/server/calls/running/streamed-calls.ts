// Runs calls whose clients receive the events as they occur.
import type { WallClock } from "../../database/database-clock.ts";
import type { CallRow } from "../../records/calls/calls.ts";
import type { CallCaller, CallProgressEvent, CallRequest } from "../call-request.ts";
import { toNewRow } from "../new-call.ts";
import type { AwaitedCalls } from "./awaited-calls.ts";
import type { DirectCalls } from "./direct-calls.ts";
import type { StreamSink } from "./journaled-call-runner.ts";

export interface StreamedCallsDependencies {
  readonly direct: Pick<DirectCalls, "run">;
  readonly awaited: AwaitedCalls;
  readonly clock: WallClock;
}

export class StreamedCalls {
  readonly #dependencies: StreamedCallsDependencies;

  constructor(dependencies: StreamedCallsDependencies) {
    this.#dependencies = dependencies;
  }

  /** Runs a call and yields its events as they occur. A consumer that stops early cancels the call. */
  async *stream(request: CallRequest, caller: CallCaller): AsyncGenerator<CallProgressEvent, void> {
    const now = this.#dependencies.clock.now();
    const row = toNewRow(request, { tenantId: caller.tenant.id, keyId: caller.keyId, now }, "stream");
    const events: CallProgressEvent[] = [];
    let wake: (() => void) | undefined;
    const push = (event: CallProgressEvent): void => {
      events.push(event);
      wake?.();
    };
    const stop = new AbortController();
    const signal = caller.signal === undefined ? stop.signal : AbortSignal.any([caller.signal, stop.signal]);
    let isOver = false;
    const running = this.#streamInto(row, request, { ...caller, signal }, push).finally(() => {
      isOver = true;
      wake?.();
    });
    // Its error is thrown below, when the events before it were read.
    running.catch(() => {});
    try {
      for (;;) {
        const event = events.shift();
        if (event !== undefined) {
          yield event;
          if (event.event === "result") return;
          continue;
        }
        // A client that leaves while its call waits gets no result.
        if (isOver) return;
        await new Promise<void>((resolve) => {
          wake = resolve;
          if (events.length > 0 || isOver) resolve();
        });
      }
    } finally {
      stop.abort();
      await running;
    }
  }

  async #streamInto(
    row: CallRow,
    request: CallRequest,
    caller: CallCaller,
    push: (event: CallProgressEvent) => void,
  ): Promise<void> {
    push({ event: "started", data: { id: row.id } });
    const answer = await this.#dependencies.direct.run({ row, request, caller, sink: toSink(push) });
    if ("waiting" in answer) return await this.#dependencies.awaited.stream(answer.waiting, caller, push);
    push({ event: "result", data: answer.ended });
  }
}

const toSink = (push: (event: CallProgressEvent) => void): StreamSink => ({
  onLog: (data) => push({ event: "log", data }),
  onProgress: (data) => push({ event: "progress", data }),
  onChunk: (data) => push({ event: "chunk", data }),
});
