// Summarizes calls over time, by tenant and by tool: how many, how many failed, and how long they took. The newest calls are read one by one;
// of those before them, the usage by hour has the numbers.
import { setImmediate as nextTurn } from "node:timers/promises";
import { type SelectQueryBuilder, sql } from "kysely";
import type { Db } from "../database/open-database.ts";
import { IS_OPEN_CALL, IS_QUEUED_CALL } from "../database/partial-indexes.ts";
import type { DatabaseSchema } from "../database/schema.ts";
import { firstIdAt } from "../ids.ts";
import type { CallRow } from "./calls.ts";
import { Slices } from "./slices.ts";

/** Calls that one overview reads at most, the newest. */
const MAX_CALLS = 20_000;
const HOUR_MS = 3_600_000;
const MAX_GROUPS = 50;

export interface Summary {
  readonly calls: number;
  readonly failed: number;
  /** Times in ms from acceptance to result; null without calls. */
  readonly p50: number | null;
  readonly p95: number | null;
  readonly p99: number | null;
}
export interface OverviewBucket extends Summary {
  readonly at: number;
}
export interface OverviewGroup extends Summary {
  readonly tenantId: string;
  readonly tool: string;
}
export interface OverviewRecord {
  readonly from: number;
  readonly until: number;
  /** Whether there were more calls in this time than are read one by one: then durations describe the newest of them. */
  readonly isPartial: boolean;
  /** Time from which durations are complete. Before it, the numbers of calls come from the usage by hour, spread evenly over the hour. */
  readonly completeFrom: number;
  readonly total: Summary;
  readonly buckets: readonly OverviewBucket[];
  readonly tools: readonly OverviewGroup[];
  readonly cpuMs: number;
  readonly queued: number;
}

interface Ended {
  readonly tenantId: string;
  readonly tool: string;
  readonly version: number | null;
  readonly at: number;
  readonly ms: number;
  readonly isFailed: boolean;
}

function percentile(sorted: readonly number[], share: number): number | null {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? null;
}

/** @param calls by their time from acceptance to result */
function summarize(calls: readonly Ended[]): Summary {
  const sorted = calls.map(({ ms }) => ms);
  return {
    ...{ calls: calls.length, failed: calls.filter(({ isFailed }) => isFailed).length },
    ...{ p50: percentile(sorted, 0.5), p95: percentile(sorted, 0.95), p99: percentile(sorted, 0.99) },
  };
}

const SUMMARIZED = ["id", "tenant_id", "tool_name", "tool_version", "state", "created_at", "ended_at"] as const;
type SummarizedRow = Pick<CallRow, (typeof SUMMARIZED)[number]>;

/** Reads the newest calls that a query selects, up to one more than are summarized, in slices. */
async function readNewest(
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
    rows.push(...slice);
    if (slice.length < size || rows.length > maxCalls) return rows;
    await slices.next();
  }
}

/** Returns the calls that have ended, by their time from acceptance to result. */
const endedBySpeed = (rows: readonly SummarizedRow[]): readonly Ended[] =>
  rows
    .flatMap((row): Ended[] => {
      if (row.ended_at === null) return [];
      const ms = row.ended_at - row.created_at;
      const { tenant_id: tenantId, tool_name: tool, tool_version: version, created_at: at } = row;
      return [{ tenantId, tool, version, at, ms, isFailed: row.state === "failed" }];
    })
    .sort((one, other) => one.ms - other.ms);

export interface OverviewOptions {
  /** Default: all tenants. */
  readonly tenantId?: string | undefined;
  readonly from: number;
  readonly until: number;
  readonly buckets: number;
  /** Calls that are read one by one, the newest. @default 20_000 */
  readonly maxCalls?: number;
}

export async function readOverview(
  db: Db,
  { tenantId, from, until, buckets, maxCalls = MAX_CALLS }: OverviewOptions,
): Promise<OverviewRecord> {
  let query = db.selectFrom("calls").where("id", ">=", firstIdAt("call", from)).where("created_at", "<", until);
  if (tenantId !== undefined) query = query.where("tenant_id", "=", tenantId);
  const rows = await readNewest(query, maxCalls);
  const isPartial = rows.length > maxCalls;
  const read = rows.slice(0, maxCalls);
  const completeFrom = isPartial ? Math.max(from, read.at(-1)?.created_at ?? from) : from;
  const ended = endedBySpeed(read);
  await nextTurn();
  const width = (until - from) / buckets;
  const byBucket = Map.groupBy(ended, ({ at }) => Math.floor((at - from) / width));
  const groups = new Map<string, OverviewGroup>();
  for (const [key, calls] of Map.groupBy(ended, (call) => JSON.stringify([call.tenantId, call.tool]))) {
    const [first] = calls as [Ended];
    groups.set(key, { tenantId: first.tenantId, tool: first.tool, ...summarize(calls) });
  }
  const hours = isPartial ? { tenantId, from, until: completeFrom } : undefined;
  for (const { tenantId: owner, tool, ...counts } of hours === undefined ? [] : await countByTool(db, hours)) {
    const key = JSON.stringify([owner, tool]);
    groups.set(key, { tenantId: owner, tool, ...addCounts(groups.get(key) ?? summarize([]), counts) });
  }
  const before = hours === undefined ? [] : spread(await countByHour(db, hours), hours, { from, width, buckets });
  return {
    ...{ from, until, isPartial, completeFrom },
    total: before.reduce<Summary>((sum, counts) => addCounts(sum, counts), summarize(ended)),
    tools: [...groups.values()].toSorted((one, other) => other.calls - one.calls).slice(0, MAX_GROUPS),
    buckets: Array.from({ length: buckets }, (_, index) => ({
      at: Math.round(from + index * width),
      ...addCounts(summarize(byBucket.get(index) ?? []), before[index]),
    })),
    cpuMs: await readCpuMs(db, { tenantId, from, until }),
    queued: await countQueued(db, tenantId),
  };
}

type Counts = Pick<Summary, "calls" | "failed">;
type Period = Pick<OverviewOptions, "tenantId" | "from" | "until">;

const addCounts = (summary: Summary, counts: Counts | undefined): Summary => ({
  ...summary,
  calls: summary.calls + (counts?.calls ?? 0),
  failed: summary.failed + (counts?.failed ?? 0),
});

const hourOf = (at: number): number => Math.floor(at / HOUR_MS) * HOUR_MS;
/** Outcomes of calls that have not failed. */
const isFailure = sql<boolean>`outcome not in ('ok', 'CANCELLED')`;

/** Selects the usage of a period by hour; the first and the last hour may be in it in part. */
function usageIn(db: Db, { tenantId, from, until }: Period) {
  const query = db.selectFrom("usage").where("hour", ">=", hourOf(from)).where("hour", "<", until);
  return tenantId === undefined ? query : query.where("tenant_id", "=", tenantId);
}

async function countByHour(db: Db, period: Period): Promise<readonly (Counts & { readonly hour: number })[]> {
  const rows = await usageIn(db, period)
    .select([
      "hour",
      sql<number>`sum(calls)`.as("all"),
      sql<number>`sum(case when ${isFailure} then calls else 0 end)`.as("bad"),
    ])
    .groupBy("hour")
    .execute();
  return rows.map(({ hour, all, bad }) => ({ hour: Number(hour), calls: Number(all), failed: Number(bad) }));
}

/** Returns the tools with the most calls. */
async function countByTool(
  db: Db,
  period: Period,
): Promise<readonly (Counts & { readonly tenantId: string; readonly tool: string })[]> {
  const { from, until } = period;
  const [first, last] = [hourOf(from), hourOf(until)];
  const shareOf = (hour: number) => sql`cast(${shareWithin(hour, from, until)} as double precision)`;
  const share = sql`case hour when ${sql.lit(first)} then ${shareOf(first)} when ${sql.lit(last)} then ${shareOf(last)} else 1 end`;
  const all = sql<number>`sum(calls * ${share})`;
  const rows = await usageIn(db, period)
    .select([
      "tenant_id",
      "tool_name",
      all.as("all"),
      sql<number>`sum(case when ${isFailure} then calls * ${share} else 0 end)`.as("bad"),
    ])
    .groupBy(["tenant_id", "tool_name"])
    .orderBy(all, "desc")
    .limit(MAX_GROUPS)
    .execute();
  return rows.map((row) => ({
    ...{ tenantId: row.tenant_id, tool: row.tool_name },
    ...{ calls: Math.round(Number(row.all)), failed: Math.round(Number(row.bad)) },
  }));
}

/** Returns which share of an hour is in a period. */
const shareWithin = (hour: number, from: number, until: number): number =>
  Math.max(0, Math.min(hour + HOUR_MS, until) - Math.max(hour, from)) / HOUR_MS;

/** Spreads the calls of each hour evenly over the buckets that it covers. Rounding loses no call: it is carried to the next bucket. */
function spread(
  hours: readonly (Counts & { readonly hour: number })[],
  { from, until }: Period,
  { width, buckets }: { readonly from: number; readonly width: number; readonly buckets: number },
): readonly Counts[] {
  const exact = Array.from({ length: buckets }, () => ({ calls: 0, failed: 0 }));
  for (const { hour, calls, failed } of hours) {
    const [start, end] = [Math.max(hour, from), Math.min(hour + HOUR_MS, until)];
    for (let index = Math.floor((start - from) / width); index < buckets && from + index * width < end; index += 1) {
      const bucket = exact[index];
      if (bucket === undefined) continue;
      const begin = from + index * width;
      const share = Math.max(0, Math.min(end, begin + width) - Math.max(start, begin)) / HOUR_MS;
      bucket.calls += calls * share;
      bucket.failed += failed * share;
    }
  }
  const carry = { calls: 0, failed: 0 };
  return exact.map(({ calls, failed }) => {
    const rounded = { calls: Math.round(calls + carry.calls), failed: Math.round(failed + carry.failed) };
    carry.calls += calls - rounded.calls;
    carry.failed += failed - rounded.failed;
    return rounded;
  });
}

async function readCpuMs(
  db: Db,
  { tenantId, from, until }: Pick<OverviewOptions, "tenantId" | "from" | "until">,
): Promise<number> {
  let query = db
    .selectFrom("usage")
    .select((of) => of.fn.sum<number | null>("cpu_ms").as("ms"))
    .where("hour", ">=", from - HOUR_MS)
    .where("hour", "<", until);
  if (tenantId !== undefined) query = query.where("tenant_id", "=", tenantId);
  return Number((await query.executeTakeFirst())?.ms ?? 0);
}

async function countQueued(db: Db, tenantId: string | undefined): Promise<number> {
  const all = db.selectFrom("calls").select((of) => of.fn.countAll<number>().as("count"));
  const query =
    tenantId === undefined
      ? all.where(IS_OPEN_CALL).where("state", "=", "queued")
      : all.where(IS_QUEUED_CALL).where("tenant_id", "=", tenantId);
  return Number((await query.executeTakeFirst())?.count ?? 0);
}

export interface VersionStatsRecord extends Summary {
  readonly version: number | null;
}

/** Summarizes the newest calls of a tool by version. @param from ms since 1970 */
export async function readVersionStats(
  db: Db,
  { tenantId, toolName }: { readonly tenantId: string; readonly toolName: string },
  from: number,
): Promise<readonly VersionStatsRecord[]> {
  const query = db
    .selectFrom("calls")
    .where("tenant_id", "=", tenantId)
    .where("tool_name", "=", toolName)
    .where("id", ">=", firstIdAt("call", from));
  const rows = (await readNewest(query)).slice(0, MAX_CALLS);
  await nextTurn();
  // A version whose calls have not ended is listed too.
  const versions = new Set(rows.map(({ tool_version: version }) => version));
  const byVersion = Map.groupBy(endedBySpeed(rows), ({ version }) => version);
  return [...versions].map((version) => ({ version, ...summarize(byVersion.get(version) ?? []) }));
}
