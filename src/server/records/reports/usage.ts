// Stores what calls used, by tenant, tool and hour. The rows are written in the transaction that stores the calls, so both agree.
import { sql } from "kysely";
import * as z from "zod";
import type { Db } from "../../database/open-database.ts";
import type { CallsTable } from "../../database/tables/call-tables.ts";
import type { UsageTable } from "../../database/tables/tenant-tables.ts";

const HOUR_MS = 3_600_000;

const UsageSchema = z.looseObject({
  cpuMs: z.number().default(0),
  inputBytes: z.number().default(0),
  outputBytes: z.number().default(0),
  egressBytesIn: z.number().default(0),
  egressBytesOut: z.number().default(0),
});
const ErrorSchema = z.looseObject({ code: z.string() });

type EndedCall = Pick<CallsTable, "tenant_id" | "tool_name" | "usage" | "error" | "started_at" | "ended_at">;

function toUsage(row: EndedCall): UsageTable {
  const endedAt = row.ended_at ?? Date.now();
  const usage = UsageSchema.parse(row.usage === null ? {} : JSON.parse(row.usage));
  const outcome = row.error === null ? "ok" : ErrorSchema.parse(JSON.parse(row.error)).code;
  return {
    tenant_id: row.tenant_id,
    tool_name: row.tool_name,
    hour: Math.floor(endedAt / HOUR_MS) * HOUR_MS,
    outcome,
    calls: 1,
    cpu_ms: usage.cpuMs,
    wall_ms: Math.max(0, endedAt - (row.started_at ?? endedAt)),
    input_bytes: Math.round(usage.inputBytes),
    output_bytes: Math.round(usage.outputBytes),
    egress_bytes_in: Math.round(usage.egressBytesIn),
    egress_bytes_out: Math.round(usage.egressBytesOut),
  };
}

const SUMS = [
  ...(["calls", "cpu_ms", "wall_ms", "input_bytes", "output_bytes"] as const),
  ...(["egress_bytes_in", "egress_bytes_out"] as const),
];

/** Adds the usage of calls that have ended. */
export async function addUsage(db: Db, calls: readonly EndedCall[]): Promise<void> {
  const sums = new Map<string, UsageTable>();
  for (const call of calls) {
    const usage = toUsage(call);
    const key = JSON.stringify([usage.tenant_id, usage.tool_name, usage.hour, usage.outcome]);
    const sum = sums.get(key);
    if (sum === undefined) sums.set(key, usage);
    else for (const name of SUMS) sum[name] += usage[name];
  }
  // In one order everywhere, so that two servers cannot wait for each other's rows.
  for (const [, usage] of [...sums].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    await db
      .insertInto("usage")
      .values(usage)
      .onConflict((conflict) =>
        conflict
          .columns(["tenant_id", "hour", "tool_name", "outcome"])
          .doUpdateSet((row) =>
            Object.fromEntries(SUMS.map((name) => [name, row(`usage.${name}`, "+", row.ref(`excluded.${name}`))])),
          ),
      )
      .execute();
  }
}

export interface UsageFilter {
  /** First hour in ms since 1970. */
  readonly from: number;
  /** End, exclusive, in ms since 1970. */
  readonly until: number;
  readonly tool?: string | undefined;
}

export const toUsageRecord = (row: UsageTable) => ({
  tool: row.tool_name,
  hour: row.hour,
  outcome: row.outcome,
  calls: row.calls,
  cpuMs: row.cpu_ms,
  wallMs: row.wall_ms,
  inputBytes: row.input_bytes,
  outputBytes: row.output_bytes,
  egressBytesIn: row.egress_bytes_in,
  egressBytesOut: row.egress_bytes_out,
});
export type UsageRecord = ReturnType<typeof toUsageRecord>;

/** Selects the usage of a tenant in a time. */
function usageOf(db: Db, tenantId: string, { from, until, tool }: UsageFilter) {
  const query = db
    .selectFrom("usage")
    .where("tenant_id", "=", tenantId)
    .where("hour", ">=", from)
    .where("hour", "<", until);
  return tool === undefined ? query : query.where("tool_name", "=", tool);
}

/** Yields the sums of a tenant's usage by tool and outcome, each with its first hour. */
export async function* readUsageTotals(
  db: Db,
  tenantId: string,
  filter: UsageFilter,
): AsyncGenerator<UsageRecord, void> {
  const rows = await usageOf(db, tenantId, filter)
    .select(["tool_name", "outcome", sql<number>`min(hour)`.as("hour")])
    .select(SUMS.map((name) => sql<number>`sum(${sql.ref(name)})`.as(name)))
    .groupBy(["tool_name", "outcome"])
    .orderBy("tool_name")
    .orderBy("outcome")
    .execute();
  for (const { tool_name, outcome, hour, ...sums } of rows) {
    // Postgres returns the sum of a large column as text.
    const numbers = Object.fromEntries(SUMS.map((name) => [name, Number(sums[name])])) as typeof sums;
    yield toUsageRecord({ tenant_id: tenantId, tool_name, outcome, hour: Number(hour), ...numbers });
  }
}

/** Yields the usage of a tenant, the earliest hour first. */
export async function* readUsage(db: Db, tenantId: string, filter: UsageFilter): AsyncGenerator<UsageRecord, void> {
  const PAGE = 1_000;
  let after: UsageTable | undefined;
  for (;;) {
    let query = usageOf(db, tenantId, filter)
      .selectAll()
      .orderBy("hour")
      .orderBy("tool_name")
      .orderBy("outcome")
      .limit(PAGE);
    const last = after;
    if (last !== undefined) {
      query = query.where(({ eb, or, and }) =>
        or([
          eb("hour", ">", last.hour),
          and([eb("hour", "=", last.hour), eb("tool_name", ">", last.tool_name)]),
          and([eb("hour", "=", last.hour), eb("tool_name", "=", last.tool_name), eb("outcome", ">", last.outcome)]),
        ]),
      );
    }
    const rows = await query.execute();
    for (const row of rows) yield toUsageRecord(row);
    after = rows.at(-1);
    if (rows.length < PAGE) return;
  }
}
