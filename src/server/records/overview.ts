// Summarizes calls over time, by tenant and by tool: how many, how many failed, and how long they took.
import type { Db } from "../database/open-database.ts";
import { firstIdAt } from "../ids.ts";

/** Calls that one overview reads at most, the newest. */
const MAX_CALLS = 20_000;
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
export interface Overview {
  readonly from: number;
  readonly until: number;
  /** Whether there were more calls in this time than are counted here: then it describes the newest of them. */
  readonly isPartial: boolean;
  readonly total: Summary;
  readonly buckets: readonly OverviewBucket[];
  readonly tools: readonly OverviewGroup[];
  readonly cpuMs: number;
  readonly queued: number;
}

interface Ended {
  readonly tenantId: string;
  readonly tool: string;
  readonly at: number;
  readonly ms: number;
  readonly isFailed: boolean;
}

function percentile(sorted: readonly number[], share: number): number | null {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? null;
}

function summarize(calls: readonly Ended[]): Summary {
  const sorted = calls.map(({ ms }) => ms).toSorted((one, other) => one - other);
  return {
    ...{ calls: calls.length, failed: calls.filter(({ isFailed }) => isFailed).length },
    ...{ p50: percentile(sorted, 0.5), p95: percentile(sorted, 0.95), p99: percentile(sorted, 0.99) },
  };
}

export interface OverviewOptions {
  /** Default: all tenants. */
  readonly tenantId?: string | undefined;
  readonly from: number;
  readonly until: number;
  readonly buckets: number;
}

export async function readOverview(db: Db, { tenantId, from, until, buckets }: OverviewOptions): Promise<Overview> {
  let query = db
    .selectFrom("calls")
    .select(["tenant_id", "tool_name", "state", "created_at", "ended_at"])
    .where("id", ">=", firstIdAt("call", from))
    .where("created_at", "<", until)
    .orderBy("id", "desc")
    .limit(MAX_CALLS + 1);
  if (tenantId !== undefined) query = query.where("tenant_id", "=", tenantId);
  const rows = await query.execute();
  const ended = rows.slice(0, MAX_CALLS).flatMap((row): Ended[] => {
    if (row.ended_at === null) return [];
    const ms = row.ended_at - row.created_at;
    return [{ tenantId: row.tenant_id, tool: row.tool_name, at: row.created_at, ms, isFailed: row.state === "failed" }];
  });
  const width = (until - from) / buckets;
  const byBucket = Map.groupBy(ended, ({ at }) => Math.floor((at - from) / width));
  const groups = [...Map.groupBy(ended, (call) => JSON.stringify([call.tenantId, call.tool])).values()]
    .toSorted((one, other) => other.length - one.length)
    .slice(0, MAX_GROUPS)
    .map((calls): OverviewGroup => {
      const [first] = calls as [Ended];
      return { tenantId: first.tenantId, tool: first.tool, ...summarize(calls) };
    });
  return {
    ...{ from, until, isPartial: rows.length > MAX_CALLS, total: summarize(ended), tools: groups },
    buckets: Array.from({ length: buckets }, (_, index) => ({
      at: Math.round(from + index * width),
      ...summarize(byBucket.get(index) ?? []),
    })),
    cpuMs: await readCpuMs(db, { tenantId, from, until }),
    queued: await countQueued(db, tenantId),
  };
}

async function readCpuMs(
  db: Db,
  { tenantId, from, until }: Pick<OverviewOptions, "tenantId" | "from" | "until">,
): Promise<number> {
  let query = db
    .selectFrom("usage")
    .select((of) => of.fn.sum<number | null>("cpu_ms").as("ms"))
    .where("hour", ">=", from - 3_600_000)
    .where("hour", "<", until);
  if (tenantId !== undefined) query = query.where("tenant_id", "=", tenantId);
  return Number((await query.executeTakeFirst())?.ms ?? 0);
}

async function countQueued(db: Db, tenantId: string | undefined): Promise<number> {
  let query = db
    .selectFrom("calls")
    .select((of) => of.fn.countAll<number>().as("count"))
    .where("state", "=", "queued");
  if (tenantId !== undefined) query = query.where("tenant_id", "=", tenantId);
  return Number((await query.executeTakeFirst())?.count ?? 0);
}

/** Something that an operator should look at. */
export interface Problem {
  readonly kind: "version_waiting" | "release_rolled_back" | "quota_warning" | "webhook_failing" | "tool_failing";
  readonly tenantId: string;
  /** What it concerns: a tool with its version, a quota, or a webhook. */
  readonly target: string;
  readonly count: number;
  /** Ms since 1970. */
  readonly at: number;
}

const MAX_PROBLEMS = 100;
const DAY_MS = 86_400_000;
/** A tool with at least so many calls, of which more than this share failed, is a problem. */
const FAILING = { calls: 5, share: 0.2 } as const;

/** Lists what is wrong now. @param overview of the last hour */
export async function readProblems(
  db: Db,
  {
    tenantId,
    now,
    overview,
  }: { readonly tenantId?: string | undefined; readonly now: number; readonly overview: Overview },
): Promise<readonly Problem[]> {
  const limited = MAX_PROBLEMS;
  let waiting = db
    .selectFrom("tool_versions")
    .select(["tenant_id", "tool_name", "version", "created_at"])
    .where("state", "=", "waiting_for_approval")
    .limit(limited);
  let rolledBack = db
    .selectFrom("release_history")
    .select(["tenant_id", "tool_name", "alias", "created_at"])
    .where("reason", "=", "automatic_rollback")
    .where("created_at", ">", now - DAY_MS)
    .limit(limited);
  let warned = db
    .selectFrom("quota_counters")
    .select(["tenant_id", "name", "ends_at"])
    .where("is_warned", "=", 1)
    .where("ends_at", ">", now)
    .limit(limited);
  let failing = db
    .selectFrom("deliveries")
    .select((of) => ["tenant_id", "webhook_id", of.fn.countAll<number>().as("count"), of.fn.max("created_at").as("at")])
    .where("state", "=", "failed")
    .where("id", ">=", firstIdAt("delivery", now - DAY_MS))
    .groupBy(["tenant_id", "webhook_id"])
    .limit(limited);
  if (tenantId !== undefined) {
    waiting = waiting.where("tenant_id", "=", tenantId);
    rolledBack = rolledBack.where("tenant_id", "=", tenantId);
    warned = warned.where("tenant_id", "=", tenantId);
    failing = failing.where("tenant_id", "=", tenantId);
  }
  const found: Problem[] = [];
  for (const row of await waiting.execute()) {
    const target = `${row.tool_name}@${row.version}`;
    found.push({ kind: "version_waiting", tenantId: row.tenant_id, target, count: 1, at: row.created_at });
  }
  for (const row of await rolledBack.execute()) {
    const target = `${row.tool_name}:${row.alias}`;
    found.push({ kind: "release_rolled_back", tenantId: row.tenant_id, target, count: 1, at: row.created_at });
  }
  for (const row of await warned.execute()) {
    found.push({ kind: "quota_warning", tenantId: row.tenant_id, target: row.name, count: 1, at: now });
  }
  for (const row of await failing.execute()) {
    const count = Number(row.count);
    found.push({ kind: "webhook_failing", tenantId: row.tenant_id, target: row.webhook_id, count, at: Number(row.at) });
  }
  for (const { tenantId: owner, tool, calls, failed } of overview.tools) {
    if (calls < FAILING.calls || failed / calls <= FAILING.share) continue;
    found.push({ kind: "tool_failing", tenantId: owner, target: tool, count: failed, at: overview.until });
  }
  return found.toSorted((one, other) => other.at - one.at).slice(0, MAX_PROBLEMS);
}

export interface VersionStats extends Summary {
  readonly version: number | null;
}

/** Summarizes the newest calls of a tool by version. @param from ms since 1970 */
export async function readVersionStats(
  db: Db,
  { tenantId, toolName }: { readonly tenantId: string; readonly toolName: string },
  from: number,
): Promise<readonly VersionStats[]> {
  const rows = await db
    .selectFrom("calls")
    .select(["tool_version", "state", "created_at", "ended_at"])
    .where("tenant_id", "=", tenantId)
    .where("tool_name", "=", toolName)
    .where("id", ">=", firstIdAt("call", from))
    .orderBy("id", "desc")
    .limit(MAX_CALLS)
    .execute();
  const byVersion = Map.groupBy(rows, ({ tool_version }) => tool_version);
  return [...byVersion].map(([version, calls]) => ({
    version,
    ...summarize(
      calls.flatMap(({ created_at, ended_at, state }): Ended[] =>
        ended_at === null
          ? []
          : [{ tenantId, tool: toolName, at: created_at, ms: ended_at - created_at, isFailed: state === "failed" }],
      ),
    ),
  }));
}
