// Finds current problems that an operator should look at.

import { type Expression, expressionBuilder, type SqlBool } from "kysely";
import { type Glovebox, LAYERS, type Layer } from "../../../host/index.ts";
import type { Db } from "../../database/open-database.ts";
import {
  IS_OPEN_DELIVERY,
  IS_OPEN_RUN,
  IS_PENDING_APPROVAL,
  IS_WAITING_VERSION,
} from "../../database/partial-indexes.ts";
import type { DatabaseSchema } from "../../database/schema.ts";
import { firstIdAt } from "../../ids.ts";
import { quotaLimitOf, toQuotaName, WARN_AT } from "../../quotas/quota-status.ts";
import { TOOL_FAULTS } from "../calls/call-faults.ts";
import { parseColumn } from "../json.ts";
import { TenantPolicySchema } from "../tenants/tenant-policy.ts";
import type { OverviewGroup, OverviewRecord } from "./overview.ts";

export const PROBLEM_KINDS = [
  "version_waiting",
  "calls_waiting_for_approval",
  "runs_waiting_for_approval",
  "release_rolled_back",
  "quota_warning",
  "webhook_failing",
  "schedule_failing",
  "tool_failing",
  "tool_quarantined",
  "circuit_open",
  "worker_unhardened",
] as const;

/** Something that an operator should look at. */
export interface ProblemRecord {
  readonly kind: (typeof PROBLEM_KINDS)[number];
  /** Null for what concerns all tenants. */
  readonly tenantId: string | null;
  /** What it concerns: a tool with its version, a quota, a webhook, a schedule, a tool provider, or a layer. */
  readonly target: string;
  readonly count: number;
  /** Ms since 1970. */
  readonly at: number;
  readonly details: { readonly [name: string]: unknown };
}

/** Maximum number of problems of one kind that are looked for, and of those that are returned. */
const MAX_OF_KIND = 100;
const MAX_PROBLEMS = 200;
const DAY_MS = 86_400_000;
/** A tool with at least so many calls, of which more than this share failed, is a problem. */
const FAILING = { calls: 5, share: 0.2 } as const;
/** Failed calls of a tool that are read to find out whose fault they are. */
const JUDGED_CALLS = 100;

interface Search {
  readonly db: Db;
  /** Undefined for all tenants. */
  readonly tenantId: string | undefined;
  readonly now: number;
}

async function findWaitingVersions({ db, tenantId }: Search): Promise<readonly ProblemRecord[]> {
  let query = db
    .selectFrom("tool_versions")
    .select(["tenant_id", "tool_name", "version", "created_at"])
    .where(IS_WAITING_VERSION)
    .limit(MAX_OF_KIND);
  if (tenantId !== undefined) query = query.where("tenant_id", "=", tenantId);
  return (await query.execute()).map((row) => ({
    kind: "version_waiting",
    tenantId: row.tenant_id,
    target: `${row.tool_name}@${row.version}`,
    count: 1,
    at: row.created_at,
    details: {},
  }));
}

async function findWaitingCalls({ db, tenantId }: Search): Promise<readonly ProblemRecord[]> {
  let query = db
    .selectFrom("approvals")
    .select((of) => ["tenant_id", "tool_name", of.fn.countAll<number>().as("count"), of.fn.max("created_at").as("at")])
    .where(IS_PENDING_APPROVAL)
    .groupBy(["tenant_id", "tool_name"])
    .limit(MAX_OF_KIND);
  if (tenantId !== undefined) query = query.where("tenant_id", "=", tenantId);
  return toWaiting("calls_waiting_for_approval", await query.execute());
}

async function findWaitingRuns({ db, tenantId }: Search): Promise<readonly ProblemRecord[]> {
  let query = db
    .selectFrom("runs")
    .select((of) => ["tenant_id", "tool_name", of.fn.countAll<number>().as("count"), of.fn.max("created_at").as("at")])
    .where(IS_OPEN_RUN)
    .where("state", "=", "suspended")
    .where("waits", "like", '%"kind":"approval"%')
    .groupBy(["tenant_id", "tool_name"])
    .limit(MAX_OF_KIND);
  if (tenantId !== undefined) query = query.where("tenant_id", "=", tenantId);
  return toWaiting("runs_waiting_for_approval", await query.execute());
}

interface WaitingRow {
  readonly tenant_id: string;
  readonly tool_name: string;
  readonly count: number | string;
  readonly at: number | string;
}

/** Returns a problem for each tool of which something waits. Postgres returns sums as text. */
const toWaiting = (kind: ProblemRecord["kind"], rows: readonly WaitingRow[]): readonly ProblemRecord[] =>
  rows.map(({ tenant_id: tenantId, tool_name: target, count, at }) => ({
    kind,
    tenantId,
    target,
    count: Number(count),
    at: Number(at),
    details: {},
  }));

async function findRollbacks({ db, tenantId, now }: Search): Promise<readonly ProblemRecord[]> {
  let query = db
    .selectFrom("release_history")
    .select(["tenant_id", "tool_name", "alias", "created_at"])
    .where("reason", "=", "automatic_rollback")
    .where("created_at", ">", now - DAY_MS)
    .limit(MAX_OF_KIND);
  if (tenantId !== undefined) query = query.where("tenant_id", "=", tenantId);
  return (await query.execute()).map((row) => ({
    kind: "release_rolled_back",
    tenantId: row.tenant_id,
    target: `${row.tool_name}:${row.alias}`,
    count: 1,
    at: row.created_at,
    details: {},
  }));
}

/** Quotas that are nearly used up, unless the tenant's policy has raised or removed them since. */
async function findQuotaWarnings({ db, tenantId, now }: Search): Promise<readonly ProblemRecord[]> {
  let query = db
    .selectFrom("quota_counters")
    .innerJoin("tenants", "tenants.id", "quota_counters.tenant_id")
    .select(["quota_counters.tenant_id", "quota_counters.name", "value", "ends_at", "policy"])
    .where("is_warned", "=", 1)
    .where("ends_at", ">", now)
    .limit(MAX_OF_KIND);
  if (tenantId !== undefined) query = query.where("quota_counters.tenant_id", "=", tenantId);
  return (await query.execute()).flatMap((row) => {
    const target = toQuotaName(row.name);
    const limit = quotaLimitOf(parseColumn(TenantPolicySchema, row.policy, "policy of a tenant"), target);
    if (limit === undefined || row.value < limit * WARN_AT) return [];
    const details = { used: row.value, limit, resetsAt: row.ends_at };
    return [{ kind: "quota_warning", tenantId: row.tenant_id, target, count: 1, at: now, details }];
  });
}

/** Webhooks with deliveries that failed for good in the last day, or that are tried again. */
async function findFailingWebhooks({ db, tenantId, now }: Search): Promise<readonly ProblemRecord[]> {
  const byWebhook = (isFailing: Expression<SqlBool>) => {
    const query = db
      .selectFrom("deliveries")
      .select((of) => ["tenant_id", "webhook_id", of.fn.countAll<number>().as("count")])
      .select((of) => of.fn.max("created_at").as("at"))
      .where(isFailing)
      .groupBy(["tenant_id", "webhook_id"])
      .limit(MAX_OF_KIND);
    return (tenantId === undefined ? query : query.where("tenant_id", "=", tenantId)).execute();
  };
  const eb = expressionBuilder<DatabaseSchema, "deliveries">();
  const since = firstIdAt("delivery", now - DAY_MS);
  const failed = await byWebhook(eb.and([eb("state", "=", "failed"), eb("id", ">=", since)]));
  // One that is sent for the first time has no error yet.
  const retried = await byWebhook(eb.and([IS_OPEN_DELIVERY, eb("attempts", ">", 0), eb("error", "is not", null)]));
  const found = new Map<string, ProblemRecord>();
  for (const [name, rows] of [
    ["failed", failed],
    ["retried", retried],
  ] as const) {
    for (const { tenant_id, webhook_id: target, count, at } of rows) {
      const { details, ...known } = found.get(target) ?? { count: 0, at: 0, details: { failed: 0, retried: 0 } };
      found.set(target, {
        kind: "webhook_failing",
        tenantId: tenant_id,
        target,
        count: known.count + Number(count),
        at: Math.max(known.at, Number(at)),
        details: { ...details, [name]: Number(count) },
      });
    }
  }
  return [...found.values()];
}

/** A schedule whose latest run has failed. */
async function findFailingSchedules({ db, tenantId }: Search): Promise<readonly ProblemRecord[]> {
  let query = db
    .selectFrom("schedules")
    .innerJoin("calls", "calls.id", "schedules.last_call_id")
    .select(["schedules.id", "schedules.tenant_id", "schedules.name", "schedules.tool_name"])
    .select(["calls.id as call_id", "calls.error", "calls.ended_at"])
    .where("schedules.state", "=", "active")
    .where("calls.state", "=", "failed")
    .limit(MAX_OF_KIND);
  if (tenantId !== undefined) query = query.where("schedules.tenant_id", "=", tenantId);
  return (await query.execute()).map((row) => {
    const { code } = JSON.parse(row.error ?? "{}") as { readonly code?: string };
    return {
      kind: "schedule_failing",
      tenantId: row.tenant_id,
      target: row.id,
      count: 1,
      at: row.ended_at ?? 0,
      details: { name: row.name, tool: row.tool_name, callId: row.call_id, code: code ?? "INTERNAL" },
    };
  });
}

async function findQuarantined({ db, tenantId, now }: Search, glovebox: Glovebox): Promise<readonly ProblemRecord[]> {
  const callsLeft = new Map(glovebox.quarantinedTools.map((tool) => [tool.contentHash, tool.callsLeft]));
  if (callsLeft.size === 0) return [];
  let query = db
    .selectFrom("tool_versions")
    .select(["tenant_id", "tool_name", "version", "bundle_hash"])
    .where("bundle_hash", "in", [...callsLeft.keys()])
    .limit(MAX_OF_KIND);
  if (tenantId !== undefined) query = query.where("tenant_id", "=", tenantId);
  return (await query.execute()).map((row) => ({
    kind: "tool_quarantined",
    tenantId: row.tenant_id,
    target: `${row.tool_name}@${row.version}`,
    count: 1,
    at: now,
    details: { callsLeft: callsLeft.get(row.bundle_hash) ?? 0 },
  }));
}

/** `sandbox:add` → `add`: the kind of the source is not part of a tool's name. A tool provider is shown by its id. */
const toSourceName = (sourceId: string, source: string): string =>
  sourceId.startsWith(`${source}:`) ? sourceId.slice(source.length + 1) : sourceId;

function findOpenCircuits({ tenantId, now }: Search, glovebox: Glovebox): readonly ProblemRecord[] {
  const sources = glovebox.health(tenantId === undefined ? { scope: "all" } : { tenantId });
  return sources
    .filter(({ state }) => state !== "closed")
    .slice(0, MAX_OF_KIND)
    .map(({ sourceId, source, tenantId: owner, state, failures, rejected, since, nextProbeAt, lastFailure }) => ({
      kind: "circuit_open",
      tenantId: owner ?? null,
      target: toSourceName(sourceId, source),
      count: rejected,
      at: since ?? now,
      details: { state, failures, rejected, nextProbeAt: nextProbeAt ?? null, code: lastFailure?.code ?? null },
    }));
}

/** Layers that this machine does not have. They concern all tenants, so only the operator sees them. */
function findMissingLayers({ tenantId, now }: Search, glovebox: Glovebox): readonly ProblemRecord[] {
  if (tenantId !== undefined) return [];
  return Object.entries(glovebox.hardening)
    .filter(([, state]) => state === "missing" || state === "switched-off")
    .map(([layer, state]) => ({
      kind: "worker_unhardened",
      tenantId: null,
      target: layer,
      count: 1,
      at: now,
      details: { state, stops: LAYERS[layer as Layer].stops, get: LAYERS[layer as Layer].get },
    }));
}

/** Returns which share of a tool's failed calls was its own fault, by the newest of them. */
async function faultShare(db: Db, { tenantId, tool }: OverviewGroup, from: number): Promise<number> {
  const failed = await db
    .selectFrom("calls")
    .select("error")
    .where("tenant_id", "=", tenantId)
    .where("id", ">=", firstIdAt("call", from))
    .where("tool_name", "=", tool)
    .where("state", "=", "failed")
    .orderBy("id", "desc")
    .limit(JUDGED_CALLS)
    .execute();
  const codes = failed.map(({ error }) => (JSON.parse(error ?? "{}") as { readonly code?: string }).code ?? "");
  return codes.filter((code) => TOOL_FAULTS.has(code)).length / Math.max(1, codes.length);
}

/** Tools of which many calls fail, invalid inputs and calls of tools that do not exist aside. */
async function findFailingTools({ db }: Search, overview: OverviewRecord): Promise<readonly ProblemRecord[]> {
  const isFailing = ({ calls, failed }: Pick<OverviewGroup, "calls" | "failed">): boolean =>
    calls >= FAILING.calls && failed / calls > FAILING.share;
  const found: ProblemRecord[] = [];
  for (const group of overview.tools.filter(isFailing)) {
    const { tenantId, tool, calls } = group;
    const failed = Math.round(group.failed * (await faultShare(db, group, overview.from)));
    if (!isFailing({ calls, failed })) continue;
    found.push({ kind: "tool_failing", tenantId, target: tool, count: failed, at: overview.until, details: { calls } });
  }
  return found;
}

/**
 * Lists what is wrong now, the newest first.
 * @param overview of the last hour
 */
export async function readProblems(
  search: Search,
  glovebox: Glovebox,
  overview: OverviewRecord,
): Promise<readonly ProblemRecord[]> {
  const found = [
    ...(await findWaitingVersions(search)),
    ...(await findWaitingCalls(search)),
    ...(await findWaitingRuns(search)),
    ...(await findRollbacks(search)),
    ...(await findQuotaWarnings(search)),
    ...(await findFailingWebhooks(search)),
    ...(await findFailingSchedules(search)),
    ...(await findQuarantined(search, glovebox)),
    ...findOpenCircuits(search, glovebox),
    ...findMissingLayers(search, glovebox),
    ...(await findFailingTools(search, overview)),
  ];
  return found.toSorted((one, other) => other.at - one.at).slice(0, MAX_PROBLEMS);
}
