// Runs asynchronous calls: claims queued rows, runs them, and stores their outcomes. A call whose process has died is run again only if nothing
// of it has run, or if its tool is annotated with `idempotentHint`; otherwise it fails and says that effects are possible.
import { randomUUID } from "node:crypto";
import type { ToolResult } from "../../host/index.ts";
import type { DatabaseKind } from "../database/column-types.ts";
import type { Db } from "../database/open-database.ts";
import { withContents } from "../records/call-contents.ts";
import {
  type CallOutcome,
  type CallRow,
  claimCalls,
  findExpired,
  finishCall,
  markStarted,
  renewLeases,
  requeue,
} from "../records/calls.ts";
import { toStoredInput } from "./outcome.ts";

/** Length of a lease in ms, and how often it is renewed. A process that is busy for longer than the difference could lose its calls. */
const LEASE_MS = 15_000;
const RENEW_MS = 4_000;
/** How often a process looks for calls that others have added, and for expired leases, in ms. */
const POLL_MS = 500;
/** Most calls that one process has claimed at the same time. */
const MAX_RUNNING = 32;
const MAX_ATTEMPTS = 5;

export interface CallQueueParts {
  readonly db: Db;
  readonly kind: DatabaseKind;
  /** Runs a claimed call. Never rejects. */
  readonly run: (row: CallRow, signal: AbortSignal) => Promise<ToolResult>;
  /** Converts the result to what is stored. */
  readonly toOutcome: (row: CallRow, result: ToolResult) => Promise<CallOutcome>;
  /** Returns whether the tool of a call is annotated with `idempotentHint`. */
  readonly isIdempotent: (row: CallRow) => Promise<boolean>;
  readonly onError: (error: unknown) => void;
}

const lostError = {
  code: "SANDBOX_CRASHED",
  message: "The server that ran the call ended before the call did. Effects of the call are possible",
  userMessage: "The call ended unexpectedly",
  recoverable: false,
  details: { reason: "server_ended" },
} as const;

export class CallQueue implements AsyncDisposable {
  readonly #parts: CallQueueParts;
  readonly #owner: string = randomUUID();
  readonly #running = new Map<string, { readonly done: Promise<void>; readonly controller: AbortController }>();
  #polling: NodeJS.Timeout | undefined;
  #renewing: NodeJS.Timeout | undefined;
  #claiming: Promise<void> | undefined;
  #isWanted = false;
  #isClosed = false;

  constructor(parts: CallQueueParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#polling = setInterval(() => {
      this.notify();
      void this.#safely(() => this.#recover());
    }, POLL_MS);
    this.#renewing = setInterval(() => void this.#safely(() => this.#renew()), RENEW_MS);
    void this.#safely(() => this.#recover());
    this.notify();
  }

  /** Claims calls soon. Call it when a call was added. */
  notify(): void {
    this.#isWanted = true;
    if (this.#isClosed) return;
    this.#claiming ??= this.#safely(() => this.#claim()).finally(() => {
      this.#claiming = undefined;
      if (this.#isWanted && this.#running.size < MAX_RUNNING) this.notify();
    });
  }

  /** Cancels a call that runs in this process. Returns false if it does not run here. */
  cancel(id: string): boolean {
    const running = this.#running.get(id);
    running?.controller.abort();
    return running !== undefined;
  }

  /** Stops claiming, and resolves when the running calls have ended and their outcomes are stored. */
  async drain(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#polling);
    await this.#claiming;
    await Promise.all([...this.#running.values()].map(({ done }) => done));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.drain();
    clearInterval(this.#renewing);
  }

  async #claim(): Promise<void> {
    this.#isWanted = false;
    const free = MAX_RUNNING - this.#running.size;
    if (free <= 0 || this.#isClosed) return;
    const { db, kind } = this.#parts;
    const rows = await claimCalls({ db, kind }, free, { owner: this.#owner, until: Date.now() + LEASE_MS });
    if (rows.length === free) this.#isWanted = true;
    for (const row of rows) this.#begin(row);
  }

  #begin(row: CallRow): void {
    const controller = new AbortController();
    const done = this.#safely(() => this.#runOne(row, controller.signal)).finally(() => {
      this.#running.delete(row.id);
      this.notify();
    });
    this.#running.set(row.id, { done, controller });
  }

  async #runOne(row: CallRow, signal: AbortSignal): Promise<void> {
    const { db, run, toOutcome } = this.#parts;
    if (!(await markStarted(db, row, Date.now()))) return;
    const result = await run(row, signal);
    await finishCall(db, row, await toOutcome(row, result));
  }

  async #renew(): Promise<void> {
    if (this.#running.size === 0) return;
    const cancelled = await renewLeases(this.#parts.db, { owner: this.#owner, until: Date.now() + LEASE_MS });
    for (const id of cancelled) this.cancel(id);
  }

  /** Decides about calls whose process is gone. */
  async #recover(): Promise<void> {
    const { db, isIdempotent } = this.#parts;
    for (const row of await findExpired(db, Date.now())) {
      if (this.#running.has(row.id)) continue;
      // The client of a synchronous call is gone, and its input is not stored.
      const mayRepeat = row.mode === "async" && (row.effects === "none" || (await isIdempotent(row)));
      if (mayRepeat && row.attempts < MAX_ATTEMPTS && row.cancel_requested === 0) {
        if (await requeue(db, row, Date.now())) this.notify();
        continue;
      }
      await finishCall(db, row, {
        ...{
          state: "failed",
          effects: row.effects,
          tool_version: row.tool_version,
          input: toStoredInput((await withContents(db, row)).input),
          output: null,
        },
        ...{
          error: JSON.stringify(lostError),
          logs: null,
          usage: null,
          calls: null,
          timeline: null,
          ended_at: Date.now(),
        },
      });
    }
  }

  async #safely(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (thrown) {
      this.#parts.onError(thrown);
    }
  }
}
