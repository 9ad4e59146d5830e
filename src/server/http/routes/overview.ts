// Routes that summarize: calls over time and what is wrong now, the versions of a tool, and the processes of this server.
import { z } from "@hono/zod-openapi";
import { LAYERS, type Layer } from "../../../host/index.ts";
import { SerialReads } from "../../operation/serial-reads.ts";
import { verifyAudit } from "../../records/audit-chain.ts";
import { type OverviewRecord, readOverview, readVersionStats } from "../../records/overview.ts";
import { PROBLEM_KINDS, readProblems } from "../../records/problems.ts";
import type { App, ServerDependencies } from "../context.ts";
import { addRoute, json } from "../route.ts";
import { TimeSchema, ToolNameSchema } from "../schemas/common.ts";
import { TenantParamsSchema } from "./tenants.ts";

const HOUR_MS = 3_600_000;
const LONGEST_MS = 31 * 24 * HOUR_MS;
const DEFAULT_BUCKETS = 60;

/** Steps to which lengths are rounded up, by the longest length of each: few different overviews can be requested. */
const STEPS = [
  [HOUR_MS, 60_000],
  [24 * HOUR_MS, 15 * 60_000],
  [LONGEST_MS, 6 * HOUR_MS],
] as const;
const BUCKETS = [1, 10, 20, 30, 60, 100, 200, 500] as const;

const OverviewQuerySchema = z.strictObject({
  ms: z.coerce.number().int().min(60_000).max(LONGEST_MS).default(HOUR_MS).openapi({
    description:
      "Length in ms, rounded up to whole minutes, quarters of an hour (from 1 h) or quarters of a day (from 24 h)",
  }),
  buckets: z.coerce
    .number()
    .int()
    .min(1)
    .max(500)
    .default(DEFAULT_BUCKETS)
    .openapi({
      description: `Number of buckets, rounded up to ${BUCKETS.join(", ")}`,
    }),
});
type OverviewQuery = z.output<typeof OverviewQuerySchema>;
/** Shortest and longest time in ms for which an overview is kept. In between, so long that reading it takes at most 2 % of the time. */
const KEPT_MS = { min: 1_000, max: 30_000 } as const;
const TIME_PER_COST = 50;
const MAX_KEPT = 200;
/** Running calls in one answer: more are not read by people. */
const MAX_RUNNING = 1_000;
const summary = {
  calls: z.int(),
  failed: z.int(),
  p50: z.number().nullable().describe("Median time in ms from acceptance to result"),
  p95: z.number().nullable(),
  p99: z.number().nullable(),
  cpuMs: z.number().describe("CPU time in ms. Of a durable run, that of its last attempt"),
  waitP95: z
    .number()
    .nullable()
    .describe("Time in ms that 95 % of the calls waited at most, in the queue and for a worker process"),
};
const queuedNow = z.int().describe("Calls that wait in the queue now; the first 20,000 of all queued calls count");
export const ProblemSchema = z
  .strictObject({
    kind: z.enum(PROBLEM_KINDS),
    tenantId: z.string().nullable().describe("Null for what concerns all tenants"),
    target: z.string().describe("A tool, a version, a quota, a webhook, a schedule, a source of tools, or a layer"),
    count: z.int(),
    at: TimeSchema,
    details: z.record(z.string(), z.unknown()),
  })
  .openapi("Problem");
export const OverviewSchema = z
  .strictObject({
    from: TimeSchema,
    until: TimeSchema,
    isPartial: z.boolean().describe("Whether durations describe only the newest 20,000 calls of this time"),
    completeFrom: TimeSchema.describe(
      "Time from which durations are complete. Before it, the numbers of calls come from the usage by hour",
    ),
    total: z.strictObject(summary),
    buckets: z.array(z.strictObject({ at: TimeSchema, ...summary })),
    tools: z
      .array(z.strictObject({ tenantId: z.string(), tool: z.string(), ...summary, queued: queuedNow }))
      .describe("The 50 tools with the most calls"),
    tenants: z
      .array(z.strictObject({ tenantId: z.string(), ...summary, queued: queuedNow }))
      .describe("The 50 tenants with the most calls"),
    cpuMs: z.number(),
    queued: z.int(),
    running: z.int(),
    problems: z.array(ProblemSchema),
  })
  .openapi("Overview");
export const VersionStatsSchema = z.strictObject({ version: z.int().nullable(), ...summary }).openapi("VersionStats");
const WorkerProcessSchema = z
  .strictObject({
    pid: z.int(),
    language: z.enum(["javascript", "python"]),
    use: z
      .enum(["warm", "tenant", "shared"])
      .describe(
        "warm: started ahead for any tenant; tenant: for one tenant until it ends; shared: for several tenants",
      ),
    state: z.enum(["starting", "idle", "busy", "ending"]),
    tenantIds: z
      .array(z.string())
      .describe("The tenant that it is for; if it is shared, those whose calls are in it now; none for a warm one"),
    isolates: z.strictObject({
      running: z.int().describe("Those with a call"),
      warm: z.int().describe("Those kept for the next call of a tool; the process may have up to 8 more"),
      sessions: z.int().describe("Those of sessions in which no call runs"),
    }),
    rssBytes: z.int().nullable().describe("Resident memory; null where the system does not tell"),
  })
  .openapi("WorkerProcess");
export const WorkersSchema = z
  .strictObject({
    pid: z.int(),
    uptimeSeconds: z.number(),
    rssBytes: z.int(),
    heapBytes: z.int(),
    version: z.string(),
    node: z.string(),
    workers: z
      .array(WorkerProcessSchema)
      .describe(
        "The worker processes of this server, as the server counts and measures them. Executors have their own",
      ),
    hardening: z
      .array(z.strictObject({ layer: z.string(), state: z.string(), stops: z.string(), get: z.string() }))
      .describe("The layers around a worker process. `glovebox doctor` tries each of them"),
    runningTotal: z.int().describe("Number of calls that run or wait for a process"),
    running: z
      .array(
        z.strictObject({
          id: z.string(),
          tenantId: z.string(),
          tool: z.string(),
          state: z.string(),
          startedAt: TimeSchema,
          ageMs: z.number(),
        }),
      )
      .describe(`The oldest of them, at most ${MAX_RUNNING}`),
  })
  .openapi("Workers");

function roundUp({ ms, buckets }: OverviewQuery): OverviewQuery {
  const [, step] = STEPS.find(([longest]) => ms <= longest) ?? STEPS[2];
  return { ms: Math.ceil(ms / step) * step, buckets: BUCKETS.find((count) => count >= buckets) ?? buckets };
}

/** Keeps what was read lately, the longer the more it cost. */
class RecentReads<Result> {
  readonly #recent = new Map<string, { until: number; readonly result: Promise<Result> }>();

  async read(key: string, read: () => Promise<Result>): Promise<Result> {
    const found = this.#recent.get(key);
    if (found !== undefined && performance.now() < found.until) return await found.result;
    const [oldest] = this.#recent.keys();
    if (this.#recent.size >= MAX_KEPT && oldest !== undefined) this.#recent.delete(oldest);
    const begun = performance.now();
    const kept = { until: Number.POSITIVE_INFINITY, result: read() };
    this.#recent.delete(key);
    this.#recent.set(key, kept);
    try {
      const result = await kept.result;
      const ended = performance.now();
      kept.until = ended + Math.min(KEPT_MS.max, Math.max(KEPT_MS.min, (ended - begun) * TIME_PER_COST));
      return result;
    } catch (thrown) {
      if (this.#recent.get(key) === kept) this.#recent.delete(key);
      throw thrown;
    }
  }
}

export function addOverviewRoutes(app: App, dependencies: ServerDependencies): void {
  const { db } = dependencies.database;
  const reads = new SerialReads();
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
    async (c, { query }) => c.json((await readOnce(undefined, query)) as never, 200),
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
    async (c, { query }) => c.json((await readOnce(c.get("tenant").id, query)) as never, 200),
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
    async (c, _input) => c.json({ items: await problemsOf(undefined) } as never, 200),
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/problems",
    { summary: "Lists what is wrong now for a tenant", params: TenantParamsSchema, responses: problems },
    async (c, _input) => c.json({ items: await problemsOf(c.get("tenant").id) } as never, 200),
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/tools/{tool}/stats",
    {
      summary: "Summarizes the calls of a tool by version",
      params: TenantParamsSchema.extend({ tool: ToolNameSchema }),
      query: OverviewQuerySchema.pick({ ms: true }),
      responses: { 200: json(z.strictObject({ items: z.array(VersionStatsSchema) }), "The versions that ran") },
    },
    async (c, { params, query }) => {
      const tenantId = c.get("tenant").id;
      const items = await reads.run(tenantId, async () => {
        await dependencies.calls.flush();
        return await readVersionStats(
          db,
          { tenantId, toolName: params.tool },
          dependencies.database.clock.now() - query.ms,
        );
      });
      return c.json({ items } as never, 200);
    },
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/workers",
    { summary: "Shows the processes of this server", responses: { 200: json(WorkersSchema, "The processes") } },
    (c, _input) => {
      const { rss, heapUsed } = process.memoryUsage();
      const workers = dependencies.glovebox.workers.map(({ tenantIds, rssBytes, ...worker }) => ({
        ...{ ...worker, tenantIds: [...tenantIds], rssBytes: rssBytes ?? null },
      }));
      const calls = dependencies.glovebox.listCalls({ scope: "all" });
      const running = calls.slice(0, MAX_RUNNING).map((call) => ({
        ...{ id: call.callId, tenantId: call.tenantId, tool: call.toolName, state: call.state },
        ...{ startedAt: call.startedAt, ageMs: Math.round(call.ageMs) },
      }));
      const hardening = Object.entries(dependencies.glovebox.hardening).map(([layer, state]) => ({
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
          ...{ version: dependencies.version, node: process.version, workers, runningTotal: calls.length, running },
        },
        200,
      );
    },
  );
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
      const { brokenAt, erased } = await verifyAudit(db);
      return c.json({ isIntact: brokenAt === undefined, brokenAt: brokenAt ?? null, erased }, 200);
    },
  );
}
