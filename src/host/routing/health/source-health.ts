// Circuit breakers of tool sources: decides whether a source can be called, for each tenant separately, since a tenant may cause its own
// failures.
import * as z from "zod";
import { type ErrorCode, unavailable } from "../../../sandbox/contract/errors.ts";
import { strictObject } from "../../../sandbox/contract/plain-object.ts";
import type { Execution } from "../../executors/execution.ts";
import type { ToolExecutor } from "../../executors/executor.ts";
import { notifySafely } from "../../util/host-callback.ts";
import {
  Circuit,
  type CircuitAdmission,
  type CircuitEvidence,
  type CircuitOptions,
  type CircuitState,
} from "./circuit.ts";

/** When the circuit breaker of a source that keeps failing opens. `false` turns circuit breakers off. */
export type HealthOptions =
  | false
  | {
      /** Consecutive failures after which the circuit opens, 1 to 100. @default 5 */
      readonly failures?: number | undefined;
      /** Time in ms that the circuit is open at first, 10 to 300,000. Each failed probe doubles it. @default 10_000 */
      readonly openMs?: number | undefined;
      /** Longest time in ms that the circuit is open, 10 to 3,600,000. @default 300_000 */
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

/** Health of a source, as `health()` lists it: one entry if it is healthy, otherwise one entry for each tenant that it fails for. */
export interface SourceHealth {
  /** `host:lookUp`, `sandbox:add`, or the id of a tool provider. */
  readonly sourceId: string;
  readonly source: ToolExecutor["source"];
  /** The tenant that the source fails for. Absent in the entry of a healthy source. */
  readonly tenantId?: string;
  readonly state: CircuitState;
  /** Number of consecutive failures. */
  readonly failures: number;
  /** Number of calls that failed with TOOL_UNAVAILABLE, without reaching the source, since the circuit opened. */
  readonly rejected: number;
  /** Code and time, in ms since 1970, of the last failure. */
  readonly lastFailure?: { readonly code: ErrorCode; readonly at: number };
  /** Time in ms since 1970 of the last change between closed and not closed. */
  readonly since?: number;
  /** Time in ms since 1970 from which one call is let through as a probe. Absent unless the circuit is open. */
  readonly nextProbeAt?: number;
}

/** A change of a circuit's state. */
export interface CircuitChange {
  readonly sourceId: string;
  readonly tenantId: string;
  readonly from: CircuitState;
  readonly state: CircuitState;
  /** Number of consecutive failures. */
  readonly failures: number;
  /** Code of the last failure. */
  readonly code?: ErrorCode | undefined;
}

/** The fields of an executor that identify its source. */
type Source = Pick<ToolExecutor, "source" | "sourceId">;

interface Entry {
  readonly sourceId: string;
  readonly source: ToolExecutor["source"];
  readonly tenantId: string;
  readonly circuit: Circuit;
  /** Cause and time of the last failure. */
  last: { readonly cause: unknown; readonly at: number } | undefined;
}

/** Largest number of entries, one for each tenant and failing source. Beyond it the oldest are removed, which closes their circuits. */
const MAX_ENTRIES = 10_000;

/** Codes of failures that do not indicate the health of the source. */
const INCONCLUSIVE_CODES: ReadonlySet<ErrorCode> = new Set([
  "CANCELLED",
  "TOOL_TIMEOUT",
  "OVERLOADED",
  "QUOTA_EXCEEDED",
  "APPROVAL_REQUIRED",
  "SANDBOX_CRASHED",
  "INTERNAL",
]);

function evidenceOf(execution: Execution | undefined): CircuitEvidence {
  if (execution === undefined) return { kind: "unknown" };
  if (!("error" in execution)) return { kind: "up" };
  const { code } = execution.error;
  if (execution.isSourceFailure === true) return { kind: "down", code };
  return { kind: INCONCLUSIVE_CODES.has(code) ? "unknown" : "up" };
}

/** Returns whether the cause of a failure was counted already: one lost connection, process or executor ends all calls that use it. */
function isCounted({ error, usage }: Extract<Execution, { error: unknown }>, { last }: Entry, now: number): boolean {
  const hasBegunBefore = last !== undefined && now - usage.queueMs - usage.executeMs <= last.at;
  return hasBegunBefore && error.cause !== undefined && error.cause === last.cause;
}

/** Tools are sources of their own, and their users know them by their names. */
const describeSource = ({ source, sourceId = "" }: Source): string =>
  sourceId.startsWith(`${source}:`)
    ? `The tool "${sourceId.slice(source.length + 1)}"`
    : `The tool provider "${sourceId}"`;

const keyOf = (sourceId: string, tenantId: string): string => `${sourceId}\n${tenantId}`;

/** Keeps an entry only for a source that fails, so that calls of healthy sources cost nothing here. */
export class SourceHealthRegistry {
  readonly #options: CircuitOptions | undefined;
  readonly #now: () => number;
  readonly #entries = new Map<string, Entry>();
  /** Receives each change of a circuit's state, for the operator's log. */
  onChange: ((change: CircuitChange) => void) | undefined;

  /** @param now returns the time of a monotonic clock in ms */
  constructor(options: CircuitOptions | false, now: () => number = () => performance.now()) {
    this.#options = options === false ? undefined : options;
    this.#now = now;
  }

  /**
   * Called before a call of a source's tool. Returns undefined for a healthy source.
   * @throws {ToolError} TOOL_UNAVAILABLE, with `retryAfterMs` and the source's id, while the circuit is open
   */
  admit({ source, sourceId }: Source, tenantId: string): CircuitAdmission | undefined {
    if (this.#entries.size === 0 || sourceId === undefined) return undefined;
    const entry = this.#entries.get(keyOf(sourceId, tenantId));
    if (entry === undefined) return undefined;
    const { circuit } = entry;
    const before = circuit.state;
    const admission = circuit.admit(this.#now());
    this.#notify(entry, before);
    if ("epoch" in admission) return admission;
    const { retryAfterMs } = admission;
    const last = circuit.lastFailure === undefined ? "" : `, last with ${circuit.lastFailure.code}`;
    const message = `${describeSource({ source, sourceId })} is not called at present, because it failed ${circuit.failures} times in a row${last}`;
    throw unavailable("circuit_open", message, {
      details: { source, sourceId, state: circuit.state, retryAfterMs },
    });
  }

  /**
   * Records the outcome of a call that `admit` let through.
   * @param end undefined for an outcome that says nothing about the source, which still ends a probe
   */
  record(
    { source, sourceId }: Source,
    tenantId: string,
    admission: CircuitAdmission | undefined,
    end: Execution | undefined,
  ): void {
    const options = this.#options;
    if (options === undefined || sourceId === undefined) return;
    const evidence = evidenceOf(end);
    if (evidence.kind !== "down" && this.#entries.size === 0) return;
    const now = this.#now();
    const key = keyOf(sourceId, tenantId);
    let entry = this.#entries.get(key);
    if (entry === undefined) {
      if (evidence.kind !== "down") return;
      entry = { source, sourceId, tenantId, circuit: new Circuit(options, now), last: undefined };
      this.#makeRoom(now);
      this.#entries.set(key, entry);
    }
    if (evidence.kind === "down" && end !== undefined && "error" in end) {
      if (admission?.isProbe !== true && isCounted(end, entry, now)) return;
      entry.last = { cause: end.error.cause, at: now };
    }
    // A call that began before the entry existed counts as one of a circuit that was never open.
    const before = entry.circuit.state;
    entry.circuit.record(admission ?? { isProbe: false, epoch: 0 }, evidence, now);
    this.#notify(entry, before);
    if (entry.circuit.isStale(now)) this.#entries.delete(key);
  }

  #notify({ sourceId, tenantId, circuit }: Entry, from: CircuitState): void {
    const { state, failures, lastFailure } = circuit;
    if (state === from) return;
    notifySafely(this.onChange, { sourceId, tenantId, from, state, failures, code: lastFailure?.code });
  }

  #makeRoom(now: number): void {
    if (this.#entries.size < MAX_ENTRIES) return;
    for (const [key, { circuit }] of this.#entries) if (circuit.isStale(now)) this.#entries.delete(key);
    for (const key of this.#entries.keys()) {
      if (this.#entries.size < MAX_ENTRIES) return;
      this.#entries.delete(key);
    }
  }

  /**
   * Removes the entries of a source, because another one replaced it.
   * @param tenantId owner of the source; undefined for a source of all tenants
   */
  forget(sourceId: string | undefined, tenantId?: string): void {
    for (const [key, entry] of this.#entries) {
      if (entry.sourceId === sourceId && (tenantId === undefined || entry.tenantId === tenantId))
        this.#entries.delete(key);
    }
  }

  /** Removes all entries of a tenant. Returns their number. */
  forgetTenant(tenantId: string): number {
    let count = 0;
    for (const [key, entry] of this.#entries) if (entry.tenantId === tenantId && this.#entries.delete(key)) count += 1;
    return count;
  }

  /** Lists these sources and all failing ones, of one tenant or of all, sorted by id. */
  list(sources: Iterable<Source>, tenantId: string | undefined): readonly SourceHealth[] {
    const now = this.#now();
    const toDate = (at: number): number => Math.round(Date.now() - (now - at));
    const failing = [...this.#entries.values()]
      .filter((entry) => tenantId === undefined || entry.tenantId === tenantId)
      .filter(({ circuit }) => !circuit.isStale(now))
      .map(({ circuit, source, sourceId, tenantId: owner }): SourceHealth => {
        const { state, failures, rejected, since, lastFailure, nextProbeAt } = circuit;
        return {
          source,
          sourceId,
          tenantId: owner,
          state,
          failures,
          rejected,
          since: toDate(since),
          ...(lastFailure === undefined ? {} : { lastFailure: { ...lastFailure, at: toDate(lastFailure.at) } }),
          ...(nextProbeAt === undefined ? {} : { nextProbeAt: toDate(nextProbeAt) }),
        };
      });
    const known = new Set(failing.map(({ sourceId }) => sourceId));
    const healthy = new Map<string, SourceHealth>();
    for (const { source, sourceId } of sources) {
      if (sourceId === undefined || known.has(sourceId)) continue;
      healthy.set(sourceId, { sourceId, source, state: "closed", failures: 0, rejected: 0 });
    }
    return [...failing, ...healthy.values()].sort((a, b) => (a.sourceId < b.sourceId ? -1 : 1));
  }
}
