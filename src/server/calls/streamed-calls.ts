// Runs calls whose clients receive the events as they occur.
import type { ToolResult } from "../../host/index.ts";
import type { Clock } from "../database/database-clock.ts";
import type { CallRow } from "../records/calls.ts";
import type { AwaitedCalls } from "./awaited-calls.ts";
import type { CallAdmission } from "./call-admission.ts";
import type { CallCaller, CallProgressEvent, CallRequest } from "./call-request.ts";
import { toFailedResult } from "./call-results.ts";
import type { CallRunner, StreamSink } from "./call-runner.ts";
import { toNewRow } from "./new-call.ts";

export interface StreamedCallsParts {
  readonly admission: CallAdmission;
  readonly awaited: AwaitedCalls;
  readonly runner: CallRunner;
  readonly clock: Clock;
  readonly onError: (error: unknown) => void;
}

export class StreamedCalls {
  readonly #parts: StreamedCallsParts;

  constructor(parts: StreamedCallsParts) {
    this.#parts = parts;
  }

  /** Runs a call and yields its events as they occur. A consumer that stops early cancels the call. */
  async *stream(request: CallRequest, caller: CallCaller): AsyncGenerator<CallProgressEvent, void> {
    const now = this.#parts.clock.now();
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
    let result: ToolResult;
    try {
      const admitted = await this.#parts.admission.admit(row, request, caller);
      if ("waiting" in admitted) return await this.#parts.awaited.stream(admitted.waiting, caller, push);
      result =
        "failed" in admitted
          ? admitted.failed
          : await this.#parts.runner.stream(row, request, caller, { pins: admitted, sink: toSink(push) });
    } catch (thrown) {
      result = toFailedResult(row, thrown, this.#parts.onError);
    }
    push({ event: "result", data: await this.#parts.runner.ended(row, request, caller, result) });
  }
}

const toSink = (push: (event: CallProgressEvent) => void): StreamSink => ({
  onLog: (data) => push({ event: "log", data }),
  onProgress: (data) => push({ event: "progress", data }),
  onChunk: (data) => push({ event: "chunk", data }),
});
