// The thread in which large values are checked against foreign schemas, and text is repaired, so that the host's own goes on. Started when first needed,
// ended when idle, killed when a check takes too long; it does not keep the process alive.

import { Worker } from "node:worker_threads";
import { ToolError } from "../../../sandbox/contract/errors.ts";
import { copyTimeSliced, encodeInTurns } from "../../util/time-slicing.ts";
import { untilAborted } from "../../util/with-abort.ts";
import type { CompiledSchema } from "../compile-schema.ts";
import type { ValidationOutcome } from "../outcome.ts";

/** One check, as it crosses to the thread; a {@link ValidationOutcome} comes back. */
export interface SchemaCheck {
  readonly schema: string;
  readonly text: Uint8Array<ArrayBuffer>;
  readonly budgetMs: number;
}

/** One text to be repaired, as it crosses to the thread; a {@link Repaired} comes back. */
export interface RepairTask {
  readonly repair: string;
}
/** Undefined where it could not be. */
export interface Repaired {
  readonly text: string | undefined;
}

/** Wall time: a model's slip takes milliseconds, what takes longer is no slip. */
const REPAIR_PATIENCE_MS = 2_000;
/** To start the thread, on a busy machine. */
const START_PATIENCE_MS = 10_000;

/** To start it takes about 50 ms, so it stays for the next large value of a busy time. */
const IDLE_MS = 10_000;
/**
 * CPU time of a check. A well-formed value takes 12 ms for each MiB once the thread is warm (measured), and all values have the one
 * thread to share; so twice that, and what a cold start takes.
 */
const schemaBudgetMs = (bytes: number): number => 200 + (25 * bytes) / (1024 * 1024);
/**
 * Wall time after which the thread is killed. It keeps its own budget; this is for what its clock does not see, and long, since on
 * a busy machine the start of a thread took two seconds. A call's own deadline ends most checks before.
 */
const patienceMs = (bytes: number): number => 10_000 + 10 * schemaBudgetMs(bytes);
/** The largest values take a third of this [m]. */
const MAX_HEAP_MIB = 1_024;

/** Our entry, whether we run from `.ts` source or from built `.js`. */
const ENTRY = new URL(`./schema-thread-entry${import.meta.url.endsWith(".ts") ? ".ts" : ".js"}`, import.meta.url);

const KILLED: ValidationOutcome = {
  valid: false,
  stopped: true,
  reason: "time",
  message: "Validation was stopped: the value and the schema together take too long to check",
};

export class SchemaThread implements AsyncDisposable {
  #worker: Worker | undefined;
  /** Settles when all checks before the next one have ended: there is one thread. */
  #queue: Promise<void> = Promise.resolve();
  #idleTimer: NodeJS.Timeout | undefined;

  /**
   * Checks a value that is given as its JSON text, which has been parsed already, so that it is known to be valid and bounded.
   * Rejects with the signal's reason, within a turn of its abort.
   */
  async validate(
    schema: CompiledSchema,
    text: string | Buffer,
    signal: AbortSignal | undefined,
  ): Promise<ValidationOutcome> {
    return await this.#inTurn(signal, async () => {
      const bytes = typeof text === "string" ? await encodeInTurns(text, signal) : await copyTimeSliced(text, signal);
      const check = { schema: schema.toText(), text: bytes, budgetMs: schemaBudgetMs(bytes.length) };
      const outcome = await this.#ask<ValidationOutcome>(check, patienceMs(bytes.length), signal, [bytes.buffer]);
      return outcome ?? KILLED;
    });
  }

  /** What jsonrepair makes of a text; undefined where that is nothing, or takes too long. Rejects as {@link validate} does. */
  async repair(text: string, signal: AbortSignal): Promise<string | undefined> {
    return await this.#inTurn(signal, async () => {
      const patience = REPAIR_PATIENCE_MS + (this.#worker === undefined ? START_PATIENCE_MS : 0);
      return (await this.#ask<Repaired>({ repair: text }, patience, signal))?.text;
    });
  }

  async #inTurn<Result>(signal: AbortSignal | undefined, task: () => Promise<Result>): Promise<Result> {
    const ahead = this.#queue;
    const { promise, resolve: leave } = Promise.withResolvers<void>();
    this.#queue = promise;
    try {
      await (signal === undefined ? ahead : untilAborted(ahead, signal));
      return await task();
    } finally {
      // One that gives up its place while others are ahead leaves it only after them.
      void ahead.then(leave);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearTimeout(this.#idleTimer);
    await this.#end();
  }

  /** Undefined where it took too long, or too much memory: the thread is killed then. */
  async #ask<Answer>(
    task: SchemaCheck | RepairTask,
    patience: number,
    signal: AbortSignal | undefined,
    transfer: readonly ArrayBuffer[] = [],
  ): Promise<Answer | undefined> {
    clearTimeout(this.#idleTimer);
    this.#worker ??= startThread();
    const worker = this.#worker;
    // A call that waits is a reason for the process to go on.
    worker.ref();
    let finished = false;
    try {
      const answer = await ask<Answer>(worker, { task, transfer }, patience, signal);
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
    // It needs nothing of ours: no variables, and no flags, some of which only a process may have.
    env: {},
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MIB },
  });
  // Between two checks nobody listens, and an error without a listener ends the process.
  worker.on("error", () => undefined);
  return worker;
}

/** Rejects when the thread dies or the signal aborts; undefined when it takes too long. */
function ask<Answer>(
  worker: Worker,
  { task, transfer }: { readonly task: SchemaCheck | RepairTask; readonly transfer: readonly ArrayBuffer[] },
  patience: number,
  signal: AbortSignal | undefined,
): Promise<Answer | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer | undefined>();
  const fail = (cause: unknown): void => {
    const isMemory = Error.isError(cause) && "code" in cause && cause.code === "ERR_WORKER_OUT_OF_MEMORY";
    if (isMemory) resolve(undefined);
    else reject(new ToolError("INTERNAL", "The thread that checks large values ended", { cause }));
  };
  const abort = (): void => reject(signal?.reason);
  const timer = setTimeout(() => resolve(undefined), patience);
  worker.once("message", resolve);
  worker.once("error", fail);
  worker.once("exit", fail);
  signal?.addEventListener("abort", abort, { once: true });
  if (signal?.aborted) abort();
  else worker.postMessage(task, [...transfer]);
  return promise.finally(() => {
    clearTimeout(timer);
    worker.off("message", resolve);
    worker.off("error", fail);
    worker.off("exit", fail);
    signal?.removeEventListener("abort", abort);
  });
}
