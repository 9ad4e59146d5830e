// Routes that summarize: calls over time and what is wrong now, the versions of a tool, the processes of this server, and the audit log.
import { z } from "@hono/zod-openapi";
import { LAYERS, type Layer } from "../../../host/index.ts";
import { RecentReads } from "../../operation/recent-reads.ts";
import { SerialReads } from "../../operation/serial-reads.ts";
import { verifyAudit } from "../../records/audit/audit-chain.ts";
import { type OverviewRecord, readOverview, readVersionStats } from "../../records/reports/overview.ts";
import { readProblems } from "../../records/reports/problems.ts";
import type { App, ServerDependencies } from "../context.ts";
import { respondWithJson } from "../responses.ts";
import { addRoute, json } from "../route.ts";
import { ToolNameParamSchema } from "../schemas/common.ts";
import {
  DEFAULT_BUCKETS,
  HOUR_MS,
  MAX_RUNNING,
  type OverviewQuery,
  OverviewQuerySchema,
  OverviewSchema,
  ProblemSchema,
  roundUp,
  VersionStatsSchema,
  WorkersResponseSchema,
} from "../schemas/overview.ts";
import { TenantParamsSchema } from "./tenants.ts";

export function addOverviewRoutes(app: App, dependencies: ServerDependencies): void {
  const reads = new SerialReads();
  addSummaryRoutes(app, dependencies, reads);
  addVersionStatsRoute(app, dependencies, reads);
  addWorkersRoute(app, dependencies);
  addAuditVerificationRoute(app, dependencies);
}

/** The overview and the problems, which are a part of it. */
function addSummaryRoutes(app: App, dependencies: ServerDependencies, reads: SerialReads): void {
  const { db } = dependencies.database;
  const overviewOf = async (tenantId: string | undefined, ms: number, buckets: number): Promise<OverviewRecord> => {
    const now = dependencies.database.clock.now();
    return await readOverview(db, { tenantId, from: now - ms, until: now + 1, buckets });
  };
  /** Tools that fail are looked for in the last hour, whatever the length. */
  const hours = new RecentReads<OverviewRecord>();
  const overviews = new RecentReads<object>();
  /** Returns the latest overview: several viewers, and one who reloads, cost no more than one. */
  const readOnce = async (tenantId: string | undefined, query: OverviewQuery): Promise<object> => {
    const { ms, buckets } = roundUp(query);
    const tenant = tenantId ?? null;
    const readHour = (): Promise<OverviewRecord> =>
      hours.read(JSON.stringify([tenant]), () => overviewOf(tenantId, HOUR_MS, DEFAULT_BUCKETS));
    const read = async (): Promise<object> => {
      await dependencies.calls.flush();
      const hour = await readHour();
      const isHour = ms === HOUR_MS && buckets === DEFAULT_BUCKETS;
      const overview = isHour ? hour : await overviewOf(tenantId, ms, buckets);
      const running = dependencies.glovebox.listCalls(tenantId === undefined ? { scope: "all" } : { tenantId }).length;
      const now = dependencies.database.clock.now();
      return { ...overview, running, problems: await readProblems({ db, tenantId, now }, dependencies.glovebox, hour) };
    };
    return await overviews.read(JSON.stringify([tenant, ms, buckets]), () => reads.run(tenantId, read));
  };
  const responses = { 200: json(OverviewSchema, "The overview") };

  addRoute(
    app,
    dependencies,
    "GET /v1/overview",
    { summary: "Summarizes the calls of all tenants, and what is wrong", query: OverviewQuerySchema, responses },
    async (c, { query }) => respondWithJson(c, await readOnce(undefined, query)),
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/overview",
    {
      summary: "Summarizes the calls of a tenant, and what is wrong",
      params: TenantParamsSchema,
      query: OverviewQuerySchema,
      responses,
    },
    async (c, { query }) => respondWithJson(c, await readOnce(c.get("tenant").id, query)),
  );
  const problemsOf = async (tenantId: string | undefined): Promise<unknown> => {
    const overview = (await readOnce(tenantId, { ms: HOUR_MS, buckets: DEFAULT_BUCKETS })) as { problems: unknown };
    return overview.problems;
  };
  const problems = {
    200: json(z.strictObject({ items: z.array(ProblemSchema) }), "At most 200 problems, the newest first"),
  };
  addRoute(
    app,
    dependencies,
    "GET /v1/problems",
    { summary: "Lists what is wrong now, for all tenants and the server itself", responses: problems },
    async (c, _input) => respondWithJson(c, { items: await problemsOf(undefined) }),
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/problems",
    { summary: "Lists what is wrong now for a tenant", params: TenantParamsSchema, responses: problems },
    async (c, _input) => respondWithJson(c, { items: await problemsOf(c.get("tenant").id) }),
  );
}

function addVersionStatsRoute(app: App, dependencies: ServerDependencies, reads: SerialReads): void {
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/tools/{tool}/stats",
    {
      summary: "Summarizes the calls of a tool by version",
      params: TenantParamsSchema.extend({ tool: ToolNameParamSchema }),
      query: OverviewQuerySchema.pick({ ms: true }),
      responses: { 200: json(z.strictObject({ items: z.array(VersionStatsSchema) }), "The versions that ran") },
    },
    async (c, { params, query }) => {
      const tenantId = c.get("tenant").id;
      const items = await reads.run(tenantId, async () => {
        await dependencies.calls.flush();
        return await readVersionStats(
          dependencies.database.db,
          { tenantId, toolName: params.tool },
          dependencies.database.clock.now() - query.ms,
        );
      });
      return respondWithJson(c, { items });
    },
  );
}

/** Describes this process, its worker processes and the calls that run in it. */
function showWorkers({ glovebox, version }: ServerDependencies): object {
  const { rss, heapUsed } = process.memoryUsage();
  const workers = glovebox.workers.map(({ tenantIds, rssBytes, ...worker }) => ({
    ...worker,
    tenantIds: [...tenantIds],
    rssBytes: rssBytes ?? null,
  }));
  const calls = glovebox.listCalls({ scope: "all" });
  const running = calls.slice(0, MAX_RUNNING).map((call) => ({
    id: call.callId,
    tenantId: call.tenantId,
    tool: call.toolName,
    state: call.state,
    startedAt: call.startedAt,
    ageMs: Math.round(call.ageMs),
  }));
  const hardening = Object.entries(glovebox.hardening).map(([layer, state]) => ({
    layer,
    state,
    stops: LAYERS[layer as Layer].stops,
    get: LAYERS[layer as Layer].get,
  }));
  return {
    hardening,
    pid: process.pid,
    uptimeSeconds: Math.round(process.uptime()),
    rssBytes: rss,
    heapBytes: heapUsed,
    version,
    node: process.version,
    workers,
    runningTotal: calls.length,
    running,
  };
}

function addWorkersRoute(app: App, dependencies: ServerDependencies): void {
  addRoute(
    app,
    dependencies,
    "GET /v1/workers",
    { summary: "Shows the processes of this server", responses: { 200: json(WorkersResponseSchema, "The processes") } },
    (c, _input) => respondWithJson(c, showWorkers(dependencies)),
  );
}

function addAuditVerificationRoute(app: App, dependencies: ServerDependencies): void {
  addRoute(
    app,
    dependencies,
    "GET /v1/audit/verification",
    {
      summary: "Checks the hash chain of the audit log",
      description:
        "The entries of a deleted tenant are erased: they have no texts any more, and the chain still shows whether an entry was changed or removed.",
      responses: {
        200: json(
          z.strictObject({
            isIntact: z.boolean(),
            brokenAt: z.int().nullable().describe("Number of the first entry that does not match; null if all do"),
            erased: z.int().describe("How many entries were erased with their tenants"),
          }),
          "Whether each entry matches its hash and has the hash of the one before",
        ),
      },
    },
    async (c, _input) => {
      const { brokenAt, erased } = await verifyAudit(dependencies.database.db);
      return respondWithJson(c, { isIntact: brokenAt === undefined, brokenAt: brokenAt ?? null, erased });
    },
  );
}
