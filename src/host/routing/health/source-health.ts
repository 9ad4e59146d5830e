// Which sources of tools can be asked at present, each tenant's for itself: what fails for one may be that one's own doing.
import * as z from "zod";
import { type ErrorCode, unavailable } from "../../../sandbox/contract/errors.ts";
import { strictObject } from "../../../sandbox/contract/plain-object.ts";
import type { Execution } from "../../executors/execution.ts";
import type { Executor } from "../../executors/executor.ts";
import { notifySafely } from "../../util/host-callback.ts";
import { type Admission, Circuit, type CircuitEvidence, type CircuitOptions, type CircuitState } from "./circuit.ts";

/** When sources that keep failing are left alone for a while; `false`: never. */
export type HealthOptions =
  | false
  | {
      /** Failures in a row after which a source is not asked, 1 to 100; 5 unless stated. */
      readonly failures?: number | undefined;
      /** For how long at first, in ms, 10 to 300,000; 10,000 unless stated. Each probe that fails doubles it. */
      readonly openMs?: number | undefined;
      /** Up to so long, 10 to 3,600,000; 300,000 unless stated. */
      readonly maxOpenMs?: number | undefined;
    };

export const HealthSchema = z.union([
  z.literal(false),
  strictObject({
    failures: z.int().min(1).max(100).default(5),
    openMs: z.int().min(10).max(300_000).default(10_000),
    maxOpenMs: z.int().min(10).max(3_600_000).default(300_000),
  }),
]);

/** A source as `health()` lists it: as a whole where nothing is wrong, else for each tenant for whom something is. */
export interface SourceHealth {
  /** `host:lookUp`, `sandbox:add`, or the id of a source that was added. */
  readonly sourceId: string;
  readonly source: Executor["source"];
  /** For whom; absent in the entry of a source with which nothing is wrong. */
  readonly tenantId?: string;
  readonly state: CircuitState;
  /** In a row. */
  readonly failures: number;
  /** Calls that were answered TOOL_UNAVAILABLE without asking it, since it opened. */
  readonly refused: number;
  /** When the last failure was, in ms since 1970, and its code. */
  readonly lastFailure?: { readonly code: ErrorCode; readonly at: number };
  /** Since when it is closed, or is not, in ms since 1970. */
  readonly since?: number;
  /** From when on a call is let through to see, in ms since 1970; absent unless it is open. */
  readonly nextProbeAt?: number;
}

/** A circuit has come into another state. */
export interface CircuitChange {
  readonly sourceId: string;
  readonly tenantId: string;
  readonly from: CircuitState;
  readonly state: CircuitState;
  /** In a row. */
  readonly failures: number;
  /** Of the last failure. */
  readonly code?: ErrorCode | undefined;
}

/** As far as an executor is looked at here. */
type Source = Pick<Executor, "source" | "sourceId">;

interface Entry {
  readonly sourceId: string;
  readonly source: Executor["source"];
  readonly tenantId: string;
  readonly circuit: Circuit;
  /** What it failed by last, and when. */
  last: { readonly cause: unknown; readonly at: number } | undefined;
}

/** Tenants times sources with which something is wrong. What is past it is forgotten, the oldest first: its source is asked. */
const MAX_ENTRIES = 10_000;

/** How calls end that say nothing of their source. */
const SAY_NOTHING: ReadonlySet<ErrorCode> = new Set([
  "CANCELLED",
  "TOOL_TIMEOUT",
  "OVERLOADED",
  "QUOTA_EXCEEDED",
  "APPROVAL_REQUIRED",
  "SANDBOX_CRASHED",
  "INTERNAL",
]);

function evidenceOf(execution: Execution): CircuitEvidence {
  if (!("error" in execution)) return { is: "up" };
  const { code } = execution.error;
  if (execution.isSourceFailure === true) return { is: "down", code };
  return { is: SAY_NOTHING.has(code) ? "unknown" : "up" };
}

/** Whether a call was ended by what has been counted already: a connection that was lost has ended all that were on their way. */
function isCounted({ error, usage }: Extract<Execution, { error: unknown }>, { last }: Entry, now: number): boolean {
  const hasBegunBefore = last !== undefined && now - usage.executeMs <= last.at;
  return hasBegunBefore && error.cause !== undefined && error.cause === last.cause;
}

const keyOf = (sourceId: string, tenantId: string): string => `${sourceId}\n${tenantId}`;

/** Nothing is kept of a source with which nothing is wrong, and a call of it costs nothing here. */
export class SourceHealthRegistry {
  readonly #options: CircuitOptions | undefined;
  readonly #now: () => number;
  readonly #entries = new Map<string, Entry>();
  /** Hears of each change, for the operator's log. */
  onChange: ((change: CircuitChange) => void) | undefined;

  /** @param now milliseconds by a clock that never goes back */
  constructor(options: CircuitOptions | false, now: () => number = () => performance.now()) {
    this.#options = options === false ? undefined : options;
    this.#now = now;
  }

  /**
   * Before a tool's source is asked. Undefined where nothing is known against it.
   * @throws {ToolError} TOOL_UNAVAILABLE, with `retryAfterMs` and the source's name, while it is left alone
   */
  admit({ source, sourceId }: Source, tenantId: string): Admission | undefined {
    if (this.#entries.size === 0 || sourceId === undefined) return undefined;
    const entry = this.#entries.get(keyOf(sourceId, tenantId));
    if (entry === undefined) return undefined;
    const { circuit } = entry;
    const before = circuit.state;
    const admission = circuit.admit(this.#now());
    this.#tell(entry, before);
    if ("epoch" in admission) return admission;
    const { retryAfterMs } = admission;
    const last = circuit.lastFailure === undefined ? "" : `, the last one ${circuit.lastFailure.code}`;
    const message = `${sourceId} is not asked for now: it failed ${circuit.failures} times in a row${last}`;
    throw unavailable("circuit_open", message, {
      details: { source, sourceId, state: circuit.state, retryAfterMs },
    });
  }

  /** After it has answered, or has not. */
  record({ source, sourceId }: Source, tenantId: string, admission: Admission | undefined, end: Execution): void {
    const options = this.#options;
    if (options === undefined || sourceId === undefined) return;
    const evidence = evidenceOf(end);
    if (evidence.is !== "down" && this.#entries.size === 0) return;
    const now = this.#now();
    const key = keyOf(sourceId, tenantId);
    let entry = this.#entries.get(key);
    if (entry === undefined) {
      if (evidence.is !== "down") return;
      entry = { source, sourceId, tenantId, circuit: new Circuit(options, now), last: undefined };
      this.#makeRoom(now);
      this.#entries.set(key, entry);
    }
    if (evidence.is === "down" && "error" in end) {
      if (admission?.isProbe !== true && isCounted(end, entry, now)) return;
      entry.last = { cause: end.error.cause, at: now };
    }
    // A call that began before anything was known is one of a circuit that has never been open.
    const before = entry.circuit.state;
    entry.circuit.record(admission ?? { isProbe: false, epoch: 0 }, evidence, now);
    this.#tell(entry, before);
    if (entry.circuit.isForgotten(now)) this.#entries.delete(key);
  }

  #tell({ sourceId, tenantId, circuit }: Entry, from: CircuitState): void {
    const { state, failures, lastFailure } = circuit;
    if (state === from) return;
    notifySafely(this.onChange, { sourceId, tenantId, from, state, failures, code: lastFailure?.code });
  }

  #makeRoom(now: number): void {
    if (this.#entries.size < MAX_ENTRIES) return;
    for (const [key, { circuit }] of this.#entries) if (circuit.isForgotten(now)) this.#entries.delete(key);
    for (const key of this.#entries.keys()) {
      if (this.#entries.size < MAX_ENTRIES) return;
      this.#entries.delete(key);
    }
  }

  /**
   * Forgets what is known of a source, because another one has taken its place.
   * @param tenantId whose source it is; undefined for a source of all tenants
   */
  forget(sourceId: string | undefined, tenantId?: string): void {
    for (const [key, entry] of this.#entries) {
      if (entry.sourceId === sourceId && (tenantId === undefined || entry.tenantId === tenantId))
        this.#entries.delete(key);
    }
  }

  /** Forgets what is known against any source for a tenant. Returns how many sources that were. */
  forgetTenant(tenantId: string): number {
    let count = 0;
    for (const [key, entry] of this.#entries) if (entry.tenantId === tenantId && this.#entries.delete(key)) count += 1;
    return count;
  }

  /** These sources, and those with which something is wrong, of one tenant or of all; by id. */
  list(sources: Iterable<Source>, tenantId: string | undefined): readonly SourceHealth[] {
    const now = this.#now();
    const toDate = (at: number): number => Math.round(Date.now() - (now - at));
    const wrong = [...this.#entries.values()]
      .filter((entry) => tenantId === undefined || entry.tenantId === tenantId)
      .filter(({ circuit }) => !circuit.isForgotten(now))
      .map(({ circuit, source, sourceId, tenantId: whose }): SourceHealth => {
        const { state, failures, refused, since, lastFailure, nextProbeAt } = circuit;
        return {
          ...{ source, sourceId, tenantId: whose, state, failures, refused, since: toDate(since) },
          ...(lastFailure === undefined ? {} : { lastFailure: { ...lastFailure, at: toDate(lastFailure.at) } }),
          ...(nextProbeAt === undefined ? {} : { nextProbeAt: toDate(nextProbeAt) }),
        };
      });
    const known = new Set(wrong.map(({ sourceId }) => sourceId));
    const well = new Map<string, SourceHealth>();
    for (const { source, sourceId } of sources) {
      if (sourceId === undefined || known.has(sourceId)) continue;
      well.set(sourceId, { sourceId, source, state: "closed", failures: 0, refused: 0 });
    }
    return [...wrong, ...well.values()].sort((a, b) => (a.sourceId < b.sourceId ? -1 : 1));
  }
}
