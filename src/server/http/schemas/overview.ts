// Schemas of the overview: calls by time, problems, statistics of versions, and the server's processes.
import { z } from "@hono/zod-openapi";
import { PROBLEM_KINDS } from "../../records/reports/problems.ts";
import { TimeSchema } from "./common.ts";

/** Running calls in one answer: more are not read by people. */
export const MAX_RUNNING = 1_000;

const queuedNow = z.int().describe("Calls that wait in the queue now; the first 20,000 of all queued calls count");

export const HOUR_MS = 3_600_000;

const LONGEST_MS = 31 * 24 * HOUR_MS;

export const DEFAULT_BUCKETS = 60;

/** Steps to which lengths are rounded up, by the longest length of each: few different overviews can be requested. */
const STEPS = [
  [HOUR_MS, 60_000],
  [24 * HOUR_MS, 15 * 60_000],
  [LONGEST_MS, 6 * HOUR_MS],
] as const;

const BUCKETS = [1, 10, 20, 30, 60, 100, 200, 500] as const;

export const OverviewQuerySchema = z.strictObject({
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

export type OverviewQuery = z.output<typeof OverviewQuerySchema>;

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

export const ProblemSchema = z
  .strictObject({
    kind: z.enum(PROBLEM_KINDS),
    tenantId: z.string().nullable().describe("Null for what concerns all tenants"),
    target: z.string().describe("A tool, a version, a quota, a webhook, a schedule, a tool provider, or a layer"),
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

export const WorkersResponseSchema = z
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

export function roundUp({ ms, buckets }: OverviewQuery): OverviewQuery {
  const [, step] = STEPS.find(([longest]) => ms <= longest) ?? STEPS[2];
  return { ms: Math.ceil(ms / step) * step, buckets: BUCKETS.find((count) => count >= buckets) ?? buckets };
}
