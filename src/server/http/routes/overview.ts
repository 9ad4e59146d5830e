// Routes that summarize: calls over time and what is wrong now, the versions of a tool, and the processes of this server.
import { z } from "@hono/zod-openapi";
import { LAYERS, type Layer } from "../../../host/index.ts";
import { findBrokenAuditRow } from "../../records/audit.ts";
import { readOverview, readProblems, readVersionStats } from "../../records/overview.ts";
import type { App, ServerParts } from "../context.ts";
import { addRoute, json } from "../route.ts";
import { TimeSchema, ToolNameSchema } from "../schemas.ts";
import { TenantParamsSchema } from "./tenants.ts";

const HOUR_MS = 3_600_000;
const LONGEST_MS = 31 * 24 * HOUR_MS;
const DEFAULT_BUCKETS = 60;

const OverviewQuerySchema = z.strictObject({
  ms: z.coerce.number().int().min(60_000).max(LONGEST_MS).default(HOUR_MS).openapi({ description: "Length in ms" }),
  buckets: z.coerce.number().int().min(1).max(500).default(DEFAULT_BUCKETS),
});
type OverviewQuery = z.output<typeof OverviewQuerySchema>;
/** Time in ms for which an overview is kept. */
const KEPT_MS = 1_000;
const MAX_KEPT = 200;
const summary = {
  calls: z.int(),
  failed: z.int(),
  p50: z.number().nullable().describe("Median time in ms from acceptance to result"),
  p95: z.number().nullable(),
  p99: z.number().nullable(),
};
export const OverviewSchema = z
  .strictObject({
    from: TimeSchema,
    until: TimeSchema,
    isPartial: z.boolean().describe("Whether only the newest 20,000 calls of this time are counted"),
    total: z.strictObject(summary),
    buckets: z.array(z.strictObject({ at: TimeSchema, ...summary })),
    tools: z.array(z.strictObject({ tenantId: z.string(), tool: z.string(), ...summary })),
    cpuMs: z.number(),
    queued: z.int(),
    running: z.int(),
    problems: z.array(
      z.strictObject({
        kind: z.enum(["version_waiting", "release_rolled_back", "quota_warning", "webhook_failing", "tool_failing"]),
        tenantId: z.string(),
        target: z.string(),
        count: z.int(),
        at: TimeSchema,
      }),
    ),
  })
  .openapi("Overview");
export const VersionStatsSchema = z.strictObject({ version: z.int().nullable(), ...summary }).openapi("VersionStats");
export const WorkersSchema = z
  .strictObject({
    pid: z.int(),
    uptimeSeconds: z.number(),
    rssBytes: z.int(),
    heapBytes: z.int(),
    version: z.string(),
    node: z.string(),
    workers: z.array(z.strictObject({ pid: z.int(), rssBytes: z.int().nullable() })),
    hardening: z
      .array(z.strictObject({ layer: z.string(), state: z.string(), stops: z.string(), get: z.string() }))
      .describe("The layers around a worker process. `glovebox doctor` tries each of them"),
    running: z.array(
      z.strictObject({
        id: z.string(),
        tenantId: z.string(),
        tool: z.string(),
        state: z.string(),
        startedAt: TimeSchema,
        ageMs: z.number(),
      }),
    ),
  })
  .openapi("Workers");

export function addOverviewRoutes(app: App, parts: ServerParts): void {
  const { db } = parts.database;
  const read = async (tenantId: string | undefined, { ms, buckets }: OverviewQuery): Promise<object> => {
    await parts.calls.flush();
    const now = Date.now();
    const overview = await readOverview(db, { tenantId, from: now - ms, until: now + 1, buckets });
    const hour =
      ms === HOUR_MS ? overview : await readOverview(db, { tenantId, from: now - HOUR_MS, until: now, buckets: 1 });
    const running = parts.box.listCalls(tenantId === undefined ? { scope: "all" } : { tenantId }).length;
    return { ...overview, running, problems: await readProblems(db, { tenantId, now, overview: hour }) };
  };
  const recent = new Map<string, { readonly at: number; readonly overview: Promise<object> }>();
  /** Returns the overview of this second: several viewers, and one who reloads, cost no more than one. */
  const readOnce = async (tenantId: string | undefined, query: OverviewQuery): Promise<object> => {
    const key = JSON.stringify([tenantId ?? null, query.ms, query.buckets]);
    const found = recent.get(key);
    const now = performance.now();
    if (found !== undefined && now - found.at < KEPT_MS) return await found.overview;
    if (recent.size >= MAX_KEPT) recent.clear();
    const overview = read(tenantId, query);
    recent.set(key, { at: now, overview });
    return await overview;
  };
  const responses = { 200: json(OverviewSchema, "The overview") };

  addRoute(
    app,
    parts,
    "GET /v1/overview",
    { summary: "Summarizes the calls of all tenants, and what is wrong", query: OverviewQuerySchema, responses },
    async (c, { query }) => c.json((await readOnce(undefined, query)) as never, 200),
  );
  addRoute(
    app,
    parts,
    "GET /v1/tenants/{tenant}/overview",
    {
      summary: "Summarizes the calls of a tenant, and what is wrong",
      params: TenantParamsSchema,
      query: OverviewQuerySchema,
      responses,
    },
    async (c, { query }) => c.json((await readOnce(c.get("tenant").id, query)) as never, 200),
  );
  addRoute(
    app,
    parts,
    "GET /v1/tenants/{tenant}/tools/{tool}/stats",
    {
      summary: "Summarizes the calls of a tool by version",
      params: TenantParamsSchema.extend({ tool: ToolNameSchema }),
      query: OverviewQuerySchema.pick({ ms: true }),
      responses: { 200: json(z.strictObject({ items: z.array(VersionStatsSchema) }), "The versions that ran") },
    },
    async (c, { params, query }) => {
      await parts.calls.flush();
      const key = { tenantId: c.get("tenant").id, toolName: params.tool };
      return c.json({ items: await readVersionStats(db, key, Date.now() - query.ms) } as never, 200);
    },
  );
  addRoute(
    app,
    parts,
    "GET /v1/workers",
    { summary: "Shows the processes of this server", responses: { 200: json(WorkersSchema, "The processes") } },
    async (c, _input) => {
      const { rss, heapUsed } = process.memoryUsage();
      const workers = await Promise.all(
        parts.box.workerPids.map(async (pid) => ({ pid, rssBytes: (await readRss(pid)) ?? null })),
      );
      const running = parts.box.listCalls({ scope: "all" }).map((call) => ({
        ...{ id: call.callId, tenantId: call.tenantId, tool: call.toolName, state: call.state },
        ...{ startedAt: call.startedAt, ageMs: Math.round(call.ageMs) },
      }));
      const hardening = Object.entries(parts.box.hardening).map(([layer, state]) => ({
        ...{ layer, state, stops: LAYERS[layer as Layer].stops, get: LAYERS[layer as Layer].get },
      }));
      return c.json(
        {
          ...{
            hardening,
            pid: process.pid,
            uptimeSeconds: Math.round(process.uptime()),
            rssBytes: rss,
            heapBytes: heapUsed,
          },
          ...{ version: parts.version, node: process.version, workers, running },
        },
        200,
      );
    },
  );
  addRoute(
    app,
    parts,
    "GET /v1/audit/verification",
    {
      summary: "Checks the hash chain of the audit log",
      responses: {
        200: json(
          z.strictObject({ isIntact: z.boolean(), brokenAt: z.int().nullable() }),
          "Whether each entry has the hash of the one before; otherwise the number of the first that has not",
        ),
      },
    },
    async (c, _input) => {
      const brokenAt = await findBrokenAuditRow(db);
      return c.json({ isIntact: brokenAt === undefined, brokenAt: brokenAt ?? null }, 200);
    },
  );
}

const PAGE_BYTES = 4_096;

/** Returns the resident memory of a process in bytes; undefined where the system does not tell. */
async function readRss(pid: number): Promise<number | undefined> {
  const { readFile } = await import("node:fs/promises");
  try {
    const pages = Number((await readFile(`/proc/${pid}/statm`, "utf8")).split(" ")[1]);
    return Number.isFinite(pages) ? pages * PAGE_BYTES : undefined;
  } catch {
    return undefined;
  }
}
