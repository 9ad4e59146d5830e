// Validates large values against untrusted schemas, and repairs text, in a thread, so that the host's event loop is not blocked. The thread
// starts on first use, ends when it is idle, and is killed when a check takes too long. It does not keep the process alive.

import { Worker } from "node:worker_threads";
import { ToolError } from "../../../sandbox/contract/errors.ts";
import { RunningTimer } from "../../util/running-timer.ts";
import { copyTimeSliced, encodeTimeSliced } from "../../util/time-slicing.ts";
import { untilAborted } from "../../util/with-abort.ts";
import type { CompiledSchema } from "../compile-schema.ts";
import type { ValidationOutcome } from "../outcome.ts";

/** A check as it is sent to the thread, which replies with a {@link ValidationOutcome}. */
export interface SchemaCheck {
  readonly schema: string;
  readonly text: Uint8Array<ArrayBuffer>;
  readonly budgetMs: number;
}

/** A text to repair as it is sent to the thread, which replies with a {@link Repaired}. */
export interface RepairTask {
  readonly repair: string;
}
/** The repaired text; undefined if the text could not be repaired. */
export interface Repaired {
  readonly text: string | undefined;
}

/** Longest wall time of a repair. Repairing a model's mistake takes milliseconds. */
const REPAIR_TIMEOUT_MS = 2_000;
/** Longest wall time to start the thread on a busy machine. */
const START_TIMEOUT_MS = 10_000;

/** Time for which an idle thread is kept, since starting one takes about 50 ms. */
const IDLE_MS = 10_000;
/**
 * CPU time of a check. A well-formed value takes 12 ms per MiB in a warm thread (measured). The budget is twice that plus the time of a cold
 * start, since all values share the one thread.
 */
const schemaBudgetMs = (bytes: number): number => 200 + (25 * bytes) / (1024 * 1024);
/**
 * Wall time after which the thread is killed. The thread enforces its own budget; this timeout is for work that its clock does not see. It
 * is long, since starting a thread on a busy machine took two seconds. The call's own timeout ends most checks earlier.
 */
const timeoutMs = (bytes: number): number => 10_000 + 10 * schemaBudgetMs(bytes);
/** Heap of the thread. The largest values take a third of it (measured). */
const MAX_HEAP_MIB = 1_024;

/** Entry of the thread, in `.ts` source or in built `.js`. */
const ENTRY = new URL(`./schema-thread-entry${import.meta.url.endsWith(".ts") ? ".ts" : ".js"}`, import.meta.url);

const KILLED: ValidationOutcome = {
  valid: false,
  stopped: true,
  reason: "time",
  message: "Validation was stopped: the value and the schema together take too long to check",
};

/** Runs checks and repairs one after another. Disposing it ends the thread. */
export class SchemaThread implements AsyncDisposable {
  #worker: Worker | undefined;
  /** Settles when all checks before the next one have ended: there is one thread. */
  #queue: Promise<void> = Promise.resolve();
  #idleTimer: NodeJS.Timeout | undefined;

  /**
   * Validates a value, given as JSON text that the host has already parsed, so that it is valid and bounded. Rejects with the signal's reason
   * as soon as the signal aborts.
   */
  async validate(
    schema: CompiledSchema,
    text: string | Buffer,
    signal: AbortSignal | undefined,
  ): Promise<ValidationOutcome> {
    return await this.#enqueue(signal, async () => {
      const bytes =
        typeof text === "string" ? await encodeTimeSliced(text, signal) : await copyTimeSliced(text, signal);
      const check = { schema: schema.toText(), text: bytes, budgetMs: schemaBudgetMs(bytes.length) };
      const outcome = await this.#request<ValidationOutcome>(check, timeoutMs(bytes.length), signal, [bytes.buffer]);
      return outcome ?? KILLED;
    });
  }

  /** Repairs a text with jsonrepair; returns undefined if that fails or takes too long. Rejects as {@link validate} does. */
  async repair(text: string, signal: AbortSignal): Promise<string | undefined> {
    return await this.#enqueue(signal, async () => {
      const timeout = REPAIR_TIMEOUT_MS + (this.#worker === undefined ? START_TIMEOUT_MS : 0);
      return (await this.#request<Repaired>({ repair: text }, timeout, signal))?.text;
    });
  }

  async #enqueue<Result>(signal: AbortSignal | undefined, task: () => Promise<Result>): Promise<Result> {
    const ahead = this.#queue;
    const { promise, resolve: leave } = Promise.withResolvers<void>();
    this.#queue = promise;
    try {
      await (signal === undefined ? ahead : untilAborted(ahead, signal));
      return await task();
    } finally {
      // An aborted task keeps its position in the queue until the tasks before it have ended.
      void ahead.then(leave);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearTimeout(this.#idleTimer);
    await this.#end();
  }

  /** Returns the thread's answer; undefined if the task took too long or too much memory, and then the thread is killed. */
  async #request<Answer>(
    task: SchemaCheck | RepairTask,
    timeout: number,
    signal: AbortSignal | undefined,
    transfer: readonly ArrayBuffer[] = [],
  ): Promise<Answer | undefined> {
    clearTimeout(this.#idleTimer);
    this.#worker ??= startThread();
    const worker = this.#worker;
    // While a call waits for the answer, the thread keeps the process alive.
    worker.ref();
    let finished = false;
    try {
      const answer = await postTask<Answer>(worker, { task, transfer }, timeout, signal);
      finished = answer !== undefined;
      return answer;
    } finally {
      worker.unref();
      if (finished) this.#idleTimer = setTimeout(() => void this.#end(), IDLE_MS).unref();
      else void this.#end();
    }
  }

  async #end(): Promise<void> {
    const worker = this.#worker;
    this.#worker = undefined;
    await worker?.terminate();
  }
}

function startThread(): Worker {
  const worker = new Worker(ENTRY, {
    name: "glovebox-schema",
    // The thread needs no environment variables and no flags. Some flags of a process are invalid for a thread.
    env: {},
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MIB },
  });
  // Between two checks there is no other listener, and an error without a listener ends the process.
  worker.on("error", () => undefined);
  return worker;
}

/** Posts a task. Resolves with the answer, or with undefined after the timeout; rejects when the thread dies or the signal aborts. */
function postTask<Answer>(
  worker: Worker,
  { task, transfer }: { readonly task: SchemaCheck | RepairTask; readonly transfer: readonly ArrayBuffer[] },
  timeout: number,
  signal: AbortSignal | undefined,
): Promise<Answer | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer | undefined>();
  const fail = (cause: unknown): void => {
    const isMemory = Error.isError(cause) && "code" in cause && cause.code === "ERR_WORKER_OUT_OF_MEMORY";
    if (isMemory) resolve(undefined);
    else reject(new ToolError("INTERNAL", "The thread that checks large values ended", { cause }));
  };
  const abort = (): void => reject(signal?.reason);
  const timer = new RunningTimer(timeout, () => resolve(undefined));
  worker.once("message", resolve);
  worker.once("error", fail);
  worker.once("exit", fail);
  signal?.addEventListener("abort", abort, { once: true });
  if (signal?.aborted) abort();
  else worker.postMessage(task, [...transfer]);
  return promise.finally(() => {
    timer[Symbol.dispose]();
    worker.off("message", resolve);
    worker.off("error", fail);
    worker.off("exit", fail);
    signal?.removeEventListener("abort", abort);
  });
}
