// Summarizes calls over time, by tenant and by tool: how many, how many failed, and how long they took. The newest calls are read one by one;
// of those before them, the usage by hour has the numbers.
import { setImmediate as nextTurn } from "node:timers/promises";
import { sql } from "kysely";
import type { Db } from "../../database/open-database.ts";
import { IS_OPEN_CALL, IS_QUEUED_CALL } from "../../database/partial-indexes.ts";
import { firstIdAt } from "../../ids.ts";
import {
  addCounts,
  type CallCounts,
  type EndedSummary,
  endedBySpeed,
  MAX_CALLS,
  readNewest,
  type Summary,
  summarize,
} from "../calls/call-summary.ts";

const HOUR_MS = 3_600_000;
const MAX_GROUPS = 50;
/** Queued calls that are counted by tenant and tool at most: their rows are read, where the index has the number of all. */
const MAX_QUEUED = 20_000;

export interface OverviewBucket extends Summary {
  readonly at: number;
}
export interface OverviewGroup extends Summary {
  readonly tenantId: string;
  readonly tool: string;
  /** Calls that wait in the queue now. */
  readonly queued: number;
}
export type OverviewTenant = Omit<OverviewGroup, "tool">;
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
  readonly tenants: readonly OverviewTenant[];
  readonly cpuMs: number;
  readonly queued: number;
}

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
  const hours = isPartial ? { tenantId, from, until: completeFrom } : undefined;
  const queued = await countQueuedByTool(db, tenantId);
  const groupBy = async (columns: GroupColumns): Promise<readonly OverviewGroup[]> => {
    const counted = hours === undefined ? [] : await countByGroup(db, hours, columns);
    return toGroups(columns, ended, counted, queued);
  };
  const tools = await groupBy(["tenant_id", "tool_name"]);
  const tenants = await groupBy(["tenant_id"]);
  const before = hours === undefined ? [] : spread(await countByHour(db, hours), hours, { from, width, buckets });
  const total = before.reduce<Summary>((sum, counts) => addCounts(sum, counts), summarize(ended));
  return {
    from,
    until,
    isPartial,
    completeFrom,
    total,
    tools,
    tenants: tenants.map(({ tool: _, ...tenant }) => tenant),
    cpuMs: total.cpuMs,
    buckets: Array.from({ length: buckets }, (_, index) => ({
      at: Math.round(from + index * width),
      ...addCounts(summarize(byBucket.get(index) ?? []), before[index]),
    })),
    queued: await countQueued(db, tenantId),
  };
}

type Period = Pick<OverviewOptions, "tenantId" | "from" | "until">;
type GroupColumns = readonly ["tenant_id", "tool_name"] | readonly ["tenant_id"];
/** What is counted of a tenant or of one of its tools. `tool` is "" for a tenant. */
interface Group {
  readonly tenantId: string;
  readonly tool: string;
}

/** Merges the calls that were read one by one, the counts of those before them, and the queue. The groups with the most calls come first. */
function toGroups(
  columns: GroupColumns,
  ended: readonly EndedSummary[],
  counted: readonly (Group & CallCounts)[],
  queued: readonly (Group & { readonly queued: number })[],
): readonly OverviewGroup[] {
  const groups = new Map<string, OverviewGroup>();
  const keyOf = ({ tenantId, tool }: Group): Group => ({ tenantId, tool: columns.length === 1 ? "" : tool });
  const change = (group: Group, to: (before: OverviewGroup) => OverviewGroup): void => {
    const names = keyOf(group);
    const key = JSON.stringify(names);
    groups.set(key, to(groups.get(key) ?? { ...names, ...summarize([]), queued: 0 }));
  };
  for (const [, calls] of Map.groupBy(ended, (call) => JSON.stringify(keyOf(call)))) {
    const [first] = calls as [EndedSummary];
    change(first, (before) => ({ ...before, ...summarize(calls) }));
  }
  for (const counts of counted) change(counts, (before) => addCounts(before, counts));
  for (const waiting of queued) change(waiting, (before) => ({ ...before, queued: before.queued + waiting.queued }));
  return [...groups.values()]
    .toSorted((one, other) => other.calls + other.queued - (one.calls + one.queued))
    .slice(0, MAX_GROUPS);
}

const hourOf = (at: number): number => Math.floor(at / HOUR_MS) * HOUR_MS;
/** Outcomes of calls that have not failed. */
const isFailure = sql<boolean>`outcome not in ('ok', 'CANCELLED')`;

/** Selects the usage of a period by hour; the first and the last hour may be in it in part. */
function usageIn(db: Db, { tenantId, from, until }: Period) {
  const query = db.selectFrom("usage").where("hour", ">=", hourOf(from)).where("hour", "<", until);
  return tenantId === undefined ? query : query.where("tenant_id", "=", tenantId);
}

async function countByHour(db: Db, period: Period): Promise<readonly (CallCounts & { readonly hour: number })[]> {
  const rows = await usageIn(db, period)
    .select([
      "hour",
      sql<number>`sum(calls)`.as("all"),
      sql<number>`sum(case when ${isFailure} then calls else 0 end)`.as("bad"),
      sql<number>`sum(cpu_ms)`.as("cpu"),
    ])
    .groupBy("hour")
    .execute();
  return rows.map(({ hour, all, bad, cpu }) => ({
    hour: Number(hour),
    calls: Number(all),
    failed: Number(bad),
    cpuMs: Number(cpu),
  }));
}

/** Returns the tools, or the tenants, with the most calls. */
async function countByGroup(db: Db, period: Period, columns: GroupColumns): Promise<readonly (CallCounts & Group)[]> {
  const { from, until } = period;
  const [first, last] = [hourOf(from), hourOf(until)];
  const shareOf = (hour: number) => sql`cast(${shareWithin(hour, from, until)} as double precision)`;
  const share = sql`case hour when ${sql.lit(first)} then ${shareOf(first)} when ${sql.lit(last)} then ${shareOf(last)} else 1 end`;
  const all = sql<number>`sum(calls * ${share})`;
  const rows = await usageIn(db, period)
    .select([
      "tenant_id",
      sql<string>`${columns.length === 1 ? sql.lit("") : sql.ref("tool_name")}`.as("tool"),
      all.as("all"),
      sql<number>`sum(case when ${isFailure} then calls * ${share} else 0 end)`.as("bad"),
      sql<number>`sum(cpu_ms * ${share})`.as("cpu"),
    ])
    .groupBy([...columns])
    .orderBy(all, "desc")
    .limit(MAX_GROUPS)
    .execute();
  return rows.map((row) => ({
    tenantId: row.tenant_id,
    tool: row.tool,
    cpuMs: Number(row.cpu),
    calls: Math.round(Number(row.all)),
    failed: Math.round(Number(row.bad)),
  }));
}

/** Returns which share of an hour is in a period. */
const shareWithin = (hour: number, from: number, until: number): number =>
  Math.max(0, Math.min(hour + HOUR_MS, until) - Math.max(hour, from)) / HOUR_MS;

/** Spreads the calls of each hour evenly over the buckets that it covers. Rounding loses no call: it is carried to the next bucket. */
function spread(
  hours: readonly (CallCounts & { readonly hour: number })[],
  { from, until }: Period,
  { width, buckets }: { readonly from: number; readonly width: number; readonly buckets: number },
): readonly CallCounts[] {
  const exact = Array.from({ length: buckets }, () => ({ calls: 0, failed: 0, cpuMs: 0 }));
  for (const { hour, calls, failed, cpuMs } of hours) {
    const [start, end] = [Math.max(hour, from), Math.min(hour + HOUR_MS, until)];
    for (let index = Math.floor((start - from) / width); index < buckets && from + index * width < end; index += 1) {
      const bucket = exact[index];
      if (bucket === undefined) continue;
      const begin = from + index * width;
      const share = Math.max(0, Math.min(end, begin + width) - Math.max(start, begin)) / HOUR_MS;
      bucket.calls += calls * share;
      bucket.failed += failed * share;
      bucket.cpuMs += cpuMs * share;
    }
  }
  const carry = { calls: 0, failed: 0 };
  return exact.map(({ calls, failed, cpuMs }) => {
    const rounded = { calls: Math.round(calls + carry.calls), failed: Math.round(failed + carry.failed), cpuMs };
    carry.calls += calls - rounded.calls;
    carry.failed += failed - rounded.failed;
    return rounded;
  });
}

async function countQueued(db: Db, tenantId: string | undefined): Promise<number> {
  const all = db.selectFrom("calls").select((of) => of.fn.countAll<number>().as("count"));
  const query =
    tenantId === undefined
      ? all.where(IS_OPEN_CALL).where("state", "=", "queued")
      : all.where(IS_QUEUED_CALL).where("tenant_id", "=", tenantId);
  return Number((await query.executeTakeFirst())?.count ?? 0);
}

/** Counts queued calls by tool, the first that are due. */
async function countQueuedByTool(
  db: Db,
  tenantId: string | undefined,
): Promise<readonly (Group & { readonly queued: number })[]> {
  const all = db.selectFrom("calls").select(["tenant_id", "tool_name"]);
  const first =
    tenantId === undefined
      ? all.where(IS_OPEN_CALL).where("state", "=", "queued").orderBy("state").orderBy("run_at")
      : all.where(IS_QUEUED_CALL).where("tenant_id", "=", tenantId).orderBy("run_at");
  const rows = await db
    .selectFrom(first.limit(MAX_QUEUED).as("first"))
    .select(["tenant_id", "tool_name", (of) => of.fn.countAll<number>().as("count")])
    .groupBy(["tenant_id", "tool_name"])
    .execute();
  return rows.map((row) => ({ tenantId: row.tenant_id, tool: row.tool_name, queued: Number(row.count) }));
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
