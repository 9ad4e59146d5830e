// Routes of usage: what a tenant's tools used by hour, as JSON or CSV, and what is left of its limits.
import { z } from "@hono/zod-openapi";
import { quotaStatuses } from "../../quotas/quota-status.ts";
import { countQueued } from "../../records/calls/call-claims.ts";
import { readUsage, readUsageTotals, type UsageRecord } from "../../records/reports/usage.ts";
import { readStoredBytes } from "../../records/tenants/stored-bytes.ts";
import { maxAsyncCallsOf } from "../../records/tenants/tenant-policy.ts";
import { listToolNames } from "../../records/tools/tool-versions.ts";
import type { App, ServerDependencies } from "../context.ts";
import { RequestError } from "../request-error.ts";
import { respondWithJson, respondWithStream } from "../responses.ts";
import { addRoute, json } from "../route.ts";
import { MAX_TIME, ToolNameParamSchema } from "../schemas/common.ts";
import { QuotasResponseSchema, UsageSchema } from "../schemas/operation.ts";
import { TenantParamsSchema } from "./tenants.ts";

const DAY_MS = 86_400_000;
const MAX_DAYS = 400;
/** Maximum number of rows of a JSON response. CSV is streamed, so it has no such limit. */
const MAX_ROWS = 50_000;

const TimeSchema = z.coerce.number().int().min(0).max(MAX_TIME);
const UsageQuerySchema = z.strictObject({
  from: TimeSchema.optional().describe("First hour in ms since 1970. Default: 30 days ago"),
  until: TimeSchema.optional().describe("End in ms since 1970, exclusive. Default: now"),
  tool: ToolNameParamSchema.optional(),
  by: z
    .enum(["hour", "total"])
    .default("hour")
    .describe("total: one item for each tool and outcome, with the first hour that has calls. Default: hour"),
  format: z.enum(["json", "csv"]).default("json"),
});

const COLUMNS = [
  ...(["hour", "tool", "outcome", "calls", "cpuMs", "wallMs"] as const),
  ...(["inputBytes", "outputBytes", "egressBytesIn", "egressBytesOut"] as const),
] satisfies readonly (keyof UsageRecord)[];

/** Names of tools and codes consist of letters, digits and `_ . -`, so a field needs quotes only to be safe. */
const field = (value: string | number): string =>
  typeof value === "number" ? String(value) : `"${value.replaceAll('"', '""')}"`;

const toLine = (row: UsageRecord): string =>
  `${COLUMNS.map((name) => (name === "hour" ? new Date(row.hour).toISOString() : field(row[name]))).join(",")}\r\n`;

/** Yields the lines of a CSV file: the names of the columns, then each row. */
async function* toCsv(rows: AsyncIterable<UsageRecord>): AsyncGenerator<string, void> {
  yield `${COLUMNS.join(",")}\r\n`;
  for await (const row of rows) yield toLine(row);
}

export function addUsageRoutes(app: App, dependencies: ServerDependencies): void {
  const { db } = dependencies.database;

  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/usage",
    {
      summary: "Returns what a tenant's tools used, by hour and outcome",
      streams: (c) => c.req.query("format") === "csv",
      params: TenantParamsSchema,
      query: UsageQuerySchema,
      responses: {
        200: {
          content: {
            "application/json": { schema: z.strictObject({ items: z.array(UsageSchema) }) },
            "text/csv": { schema: z.string() },
          },
          description: "The usage, the earliest hour first",
        },
      },
    },
    async (c, { query }) => {
      const until = query.until ?? dependencies.database.clock.now() + 1;
      const from = query.from ?? until - 30 * DAY_MS;
      if (from >= until || until - from > MAX_DAYS * DAY_MS)
        throw new RequestError("INVALID", `from: Expected a time before until, at most ${MAX_DAYS} days`);
      await dependencies.calls.flush();
      const read = query.by === "total" ? readUsageTotals : readUsage;
      const rows = read(db, c.get("tenant").id, { from, until, tool: query.tool });
      if (query.format === "csv") {
        c.header("content-disposition", 'attachment; filename="usage.csv"');
        return respondWithStream(c, toCsv(rows), "text/csv; charset=utf-8");
      }
      const items: UsageRecord[] = [];
      for await (const row of rows) {
        if (items.push(row) > MAX_ROWS)
          throw new RequestError(
            "INVALID",
            `More than ${MAX_ROWS} rows. Choose a shorter time, by=total or format=csv`,
          );
      }
      return respondWithJson(c, { items });
    },
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/quotas",
    {
      summary: "Returns the limits of a tenant, and what is left of them",
      params: TenantParamsSchema,
      responses: { 200: json(QuotasResponseSchema, "The limits") },
    },
    async (c, _input) => {
      const { id, policy } = c.get("tenant");
      await dependencies.calls.flush();
      const { used = 0 } = (await readStoredBytes(db, [id])).get(id) ?? {};
      const { running, waiting } = await dependencies.runningCounts.of({ kind: "tenant", id });
      const maxAsyncCalls = maxAsyncCallsOf(policy);
      const tools = await listToolNames(db, id, { limit: policy.maxTools + 1 });
      return respondWithJson(c, {
        quotas: [...quotaStatuses(policy, await dependencies.quotas.read(id), dependencies.database.clock.now())],
        concurrency: { limit: dependencies.slots.limitOf(policy, "maxConcurrentCalls"), used: running },
        waiting: { limit: dependencies.slots.limitOf(policy, "maxQueuedCalls"), used: waiting },
        queue: { limit: maxAsyncCalls, used: await countQueued(db, id, maxAsyncCalls) },
        tools: { limit: policy.maxTools, used: tools.length },
        storedBytes: { limit: policy.maxStoredBytes, used },
      });
    },
  );
}
