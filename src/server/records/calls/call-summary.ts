// Summarizes calls that were read one by one: how many, how many failed, how long they took and waited, and how much CPU time they used.
import type { SelectQueryBuilder } from "kysely";
import type { DatabaseSchema } from "../../database/schema.ts";
import { Slices } from "../slices.ts";
import type { CallRow } from "./calls.ts";

/** Calls that one summary reads at most, the newest. */
export const MAX_CALLS = 20_000;

export interface Summary {
  readonly calls: number;
  readonly failed: number;
  /** Times in ms from acceptance to result; null without calls. */
  readonly p50: number | null;
  readonly p95: number | null;
  readonly p99: number | null;
  readonly cpuMs: number;
  /** Time in ms for which calls waited, in the queue and for a worker process; null without calls that began. */
  readonly waitP95: number | null;
}
/** What the usage by hour has of calls that are not read one by one. */
export type CallCounts = Pick<Summary, "calls" | "failed" | "cpuMs">;

/** What a summary needs of a call that has ended. */
export interface EndedSummary {
  readonly tenantId: string;
  readonly tool: string;
  readonly version: number | null;
  readonly at: number;
  readonly ms: number;
  readonly isFailed: boolean;
  readonly cpuMs: number;
  /** Undefined if the call has not begun. */
  readonly waitMs: number | undefined;
}

function percentile(sorted: readonly number[], share: number): number | null {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? null;
}

/** @param calls by their time from acceptance to result */
export function summarize(calls: readonly EndedSummary[]): Summary {
  const sorted = calls.map(({ ms }) => ms);
  const waits = calls.flatMap(({ waitMs }) => waitMs ?? []).sort((one, other) => one - other);
  return {
    calls: calls.length,
    failed: calls.filter(({ isFailed }) => isFailed).length,
    p50: percentile(sorted, 0.5),
    p95: percentile(sorted, 0.95),
    p99: percentile(sorted, 0.99),
    cpuMs: calls.reduce((sum, { cpuMs }) => sum + cpuMs, 0),
    waitP95: percentile(waits, 0.95),
  };
}

/** Adds calls before those that were summarized. Their durations and waiting times are unknown. */
export const addCounts = <Of extends Summary>(summary: Of, counts: CallCounts | undefined): Of => ({
  ...summary,
  calls: summary.calls + (counts?.calls ?? 0),
  failed: summary.failed + (counts?.failed ?? 0),
  cpuMs: summary.cpuMs + (counts?.cpuMs ?? 0),
});

const SUMMARIZED = [
  ...(["id", "tenant_id", "tool_name", "tool_version", "mode", "state"] as const),
  ...(["created_at", "run_at", "started_at", "ended_at", "usage"] as const),
] as const;
type ReadRow = Pick<CallRow, (typeof SUMMARIZED)[number]>;
export interface SummarizedRow extends Omit<ReadRow, "usage">, Pick<EndedSummary, "cpuMs" | "waitMs"> {}

/** Reads the newest calls that a query selects, up to one more than are summarized, in slices. */
export async function readNewest(
  query: SelectQueryBuilder<DatabaseSchema, "calls", object>,
  maxCalls: number = MAX_CALLS,
): Promise<readonly SummarizedRow[]> {
  const rows: SummarizedRow[] = [];
  const slices = new Slices();
  for (;;) {
    const size = Math.min(slices.size, maxCalls + 1 - rows.length);
    const last = rows.at(-1);
    const rest = last === undefined ? query : query.where("id", "<", last.id);
    const slice = await rest.select(SUMMARIZED).orderBy("id", "desc").limit(size).execute();
    rows.push(...slice.map(withUsage));
    if (slice.length < size || rows.length > maxCalls) return rows;
    await slices.next();
  }
}

/**
 * Adds what a call used and for how long it waited. The time until it was approved, until the time of a retry, and for which a durable run was
 * suspended, is not time in the queue.
 */
function withUsage({ usage, ...row }: ReadRow): SummarizedRow {
  const { cpuMs = 0, queueMs = 0 }: { readonly cpuMs?: number; readonly queueMs?: number } =
    usage === null ? {} : JSON.parse(usage);
  const { mode, created_at: createdAt, run_at: runAt, started_at: startedAt } = row;
  if (startedAt === null) return { ...row, cpuMs, waitMs: undefined };
  const queued = mode === "run" ? 0 : Math.max(0, startedAt - Math.max(createdAt, runAt ?? 0));
  return { ...row, cpuMs, waitMs: queued + queueMs };
}

/** Returns the calls that have ended, by their time from acceptance to result. */
export const endedBySpeed = (rows: readonly SummarizedRow[]): readonly EndedSummary[] =>
  rows
    .flatMap((row): EndedSummary[] => {
      if (row.ended_at === null) return [];
      const ms = row.ended_at - row.created_at;
      const { tenant_id: tenantId, tool_name: tool, tool_version: version, created_at: at, cpuMs, waitMs } = row;
      return [{ tenantId, tool, version, at, ms, isFailed: row.state === "failed", cpuMs, waitMs }];
    })
    .sort((one, other) => one.ms - other.ms);
