// Routes of the fleet, for its operators: the executors, their pools and the replicas of the server, and the request that an executor drains.
import { z } from "@hono/zod-openapi";
import type { ExecutorInfo, FleetState } from "../../../host/index.ts";
import { withBacklog } from "../../calls/queue/open-work-queue.ts";
import { appendAudit } from "../../records/audit/audit.ts";
import { changeExclusively } from "../../records/write-lock.ts";
import type { ReplicaInfo } from "../../replicas/bus.ts";
import type { App, ServerDependencies } from "../context.ts";
import { RequestError } from "../request-error.ts";
import { respondWithJson } from "../responses.ts";
import { addRoute, json } from "../route.ts";
import { TimeSchema } from "../schemas/common.ts";

/** State of an executor that is connected, or the reason why it was lost. */
const EXECUTOR_STATES = ["live", "draining", "silent", "rejected"] as const;
type ExecutorState = (typeof EXECUTOR_STATES)[number];

export const ExecutorSchema = z
  .strictObject({
    id: z.string(),
    pool: z.string(),
    version: z.string().describe("Version of Glovebox"),
    languages: z
      .array(z.enum(["javascript", "python"]))
      .describe("Languages of the tools that it runs. Python needs the package pyodide on its machine"),
    state: z
      .enum(EXECUTOR_STATES)
      .describe(
        "draining: it finishes its calls and ends. silent: it has ended, is frozen or cannot reach NATS. rejected: it has violated the protocol, and gets no calls for a minute. A lost executor is listed for ten minutes",
      ),
    slots: z.int().describe("Maximum number of calls that it runs at the same time, without nested ones"),
    busy: z.int().describe("Calls that it runs, without nested ones, at its last announcement"),
    startedAt: TimeSchema,
    seenAt: TimeSchema.describe("When it last announced itself, in ms since 1970"),
    bundles: z.int().describe("Bundles that this replica has given to it. It may have others in its cache"),
  })
  .openapi("Executor");
export const FleetSchema = z
  .strictObject({
    at: TimeSchema.describe("Time of the server, in ms since 1970"),
    replicaId: z
      .string()
      .describe("The replica that has answered. Bundles, and synchronous calls that wait, are its own"),
    usesExecutors: z.boolean().describe("Whether calls run on executors (`glovebox serve --nats`)"),
    executors: z.array(ExecutorSchema),
    pools: z
      .array(
        z.strictObject({
          pool: z.string(),
          executors: z.int().describe("Executors that accept calls"),
          draining: z.int(),
          slots: z.int().describe("Slots of the executors that accept calls"),
          busy: z.int().describe("Their calls, without nested ones"),
          queued: z
            .int()
            .describe("Calls that wait for an executor of the pool: in this replica, or in the work queue"),
          oldestMs: z.int().describe("Age of the oldest of them in ms"),
        }),
      )
      .describe("Pools with an executor that is connected, or with calls that wait"),
    replicas: z
      .array(
        z.strictObject({
          id: z.string(),
          version: z.string(),
          state: z.enum(["live", "silent"]).describe("silent: it has ended without a shutdown. Listed for an hour"),
          startedAt: TimeSchema,
          seenAt: TimeSchema,
        }),
      )
      .describe("The server processes with this database"),
  })
  .openapi("Fleet");

const ExecutorParamsSchema = z.strictObject({
  executor: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, { error: "Expected 1 to 64 of A-Z a-z 0-9 _ -" }),
});

/** @param now time of the server, which with Postgres is not that of this machine */
const toExecutor = (info: ExecutorInfo, state: ExecutorState, now: number): z.output<typeof ExecutorSchema> => {
  const { id, pool, version, slots, busy, since, bundles } = info;
  const languages = [...info.languages];
  const seenAt = Math.round(now - Math.max(0, Date.now() - info.seenAt));
  return { id, pool, version, languages, state, slots, busy, startedAt: since, seenAt, bundles };
};

const stateOf = ({ isDraining }: ExecutorInfo): ExecutorState => (isDraining ? "draining" : "live");

type Pool = z.output<typeof FleetSchema>["pools"][number];

function toPools({ executors, queues }: FleetState): readonly Pool[] {
  const names = new Set([...executors, ...queues].map(({ pool }) => pool));
  return [...names].sort().map((pool) => {
    const own = executors.filter((one) => one.pool === pool);
    const live = own.filter(({ isDraining }) => !isDraining);
    const { queued = 0, oldestMs = 0 } = queues.find((one) => one.pool === pool) ?? {};
    return {
      pool,
      executors: live.length,
      draining: own.length - live.length,
      queued,
      oldestMs,
      slots: live.reduce((sum, { slots }) => sum + slots, 0),
      busy: live.reduce((sum, { busy }) => sum + busy, 0),
    };
  });
}

const toReplica = ({ isAlive, ...replica }: ReplicaInfo): z.output<typeof FleetSchema>["replicas"][number] => ({
  ...replica,
  state: isAlive ? "live" : "silent",
});

export function addFleetRoutes(app: App, dependencies: ServerDependencies): void {
  const { glovebox, bus, database, usesExecutors } = dependencies;
  addRoute(
    app,
    dependencies,
    "GET /v1/fleet",
    {
      summary: "Shows the executors, their pools, and the replicas of the server",
      responses: { 200: json(FleetSchema, "The fleet") },
    },
    async (c, _input) => {
      const replicas = (await bus.replicas()).map(toReplica);
      const fleet = withBacklog(glovebox.fleet, dependencies.backlog());
      const at = Math.round(database.clock.now());
      const executors = [
        ...fleet.executors.map((info) => toExecutor(info, stateOf(info), at)),
        ...fleet.lost.map((info) => toExecutor(info, info.reason, at)),
      ].sort((a, b) => (a.id < b.id ? -1 : 1));
      return respondWithJson(c, {
        at,
        replicaId: bus.replicaId,
        usesExecutors,
        executors,
        pools: toPools(fleet),
        replicas,
      });
    },
  );
  addRoute(
    app,
    dependencies,
    "POST /v1/fleet/executors/{executor}/drain",
    {
      summary: "Requests that an executor finishes its calls, accepts no others, and ends",
      description:
        "The response says that it has begun. Its process exits with 0 when its calls have ended, or after its own limit (`--drain-ms`).",
      params: ExecutorParamsSchema,
      responses: { 200: json(ExecutorSchema, "The executor, which drains") },
    },
    async (c, { params: { executor: id } }) => {
      const find = (): ExecutorInfo | undefined => glovebox.fleet.executors.find((one) => one.id === id);
      const found = find();
      if (found === undefined) throw new RequestError("NOT_FOUND", "No executor with this id is connected");
      if (!found.isDraining) {
        const event = { actor: c.get("actor"), tenantId: null, action: "executor.drain_requested", target: id };
        await changeExclusively(database, (transaction) =>
          appendAudit(transaction, { ...event, details: { pool: found.pool, version: found.version } }),
        );
      }
      const outcome = await glovebox.drainExecutor(id);
      if (outcome === "unconfirmed")
        throw new RequestError(
          "UNAVAILABLE",
          `The executor ${id} has not confirmed the request. If it is frozen, it drains when it continues; otherwise stop its process with SIGTERM`,
          { retryAfterSeconds: 5 },
        );
      // It may have ended in the meantime: that was the request.
      const executor = toExecutor(find() ?? { ...found, busy: 0 }, "draining", database.clock.now());
      return respondWithJson(c, executor);
    },
  );
}
