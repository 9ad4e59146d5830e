// Routes of calls that were made: list and read them, and follow those that run.
import { z } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { JsonValue } from "../../../host/index.ts";
import { runningRow } from "../../calls/new-call.ts";
import { pause } from "../../operation/background-work.ts";
import { type CallPage, isSearch, listCalls } from "../../records/call-list.ts";
import type { TreeCall } from "../../records/call-tree.ts";
import {
  logsOf,
  nestedIdsOf,
  timelineOf,
  toCallRecord,
  toTimelineSoFar,
  type WholeCall,
  writeCallRecord,
} from "../../records/calls.ts";
import type { App, AppEnv, ServerDependencies } from "../context.ts";
import { respondWithEvents } from "../event-response.ts";
import { notFound } from "../problem.ts";
import { addRoute, json } from "../route.ts";
import { CALL_STATES, CallSchema, TimelineSchema, TreeCallSchema } from "../schemas/calls.ts";
import { CALL_ID_PATTERN, CallIdSchema, pageOf, pageQueryOf, TimeSchema, ToolNameSchema } from "../schemas/common.ts";
import { TextSchema } from "../schemas/text.ts";
import { TenantParamsSchema } from "./tenants.ts";

export const CallParamsSchema = TenantParamsSchema.extend({ call: CallIdSchema });
const CallQuerySchema = pageQueryOf(CALL_ID_PATTERN).extend({
  tool: ToolNameSchema.optional(),
  version: z.coerce.number().int().min(1).optional(),
  state: z.enum(CALL_STATES).optional(),
  minMs: z.coerce.number().int().min(0).optional().openapi({ description: "Least duration in ms" }),
  nested: z
    .enum(["true", "false"])
    .default("false")
    .openapi({ description: "Whether calls that other calls made are listed" }),
  parent: CallIdSchema.optional().openapi({ description: "The call that made the listed ones" }),
  text: TextSchema.min(1).max(200).optional().openapi({ description: "Text in the input, output, error or logs" }),
});

/** Returns a call with its logs as JSON text. */
export const writeWhole = (row: WholeCall): string =>
  writeCallRecord(row, {
    logs: logsOf(row),
    ...(row.parts === undefined || row.parts === null ? {} : { content: JSON.parse(row.parts) as JsonValue }),
  });

const JSON_TYPE = { "content-type": "application/json" };

/** Responds with JSON text. */
export const respondWithText = (c: Context<AppEnv>, text: string, status: 200 | 202): Response =>
  c.body(text, status, JSON_TYPE);

/** Returns a call as its tree shows it. */
function showInTree(row: TreeCall, rootDepth: number): object {
  const { id, parent_id: parentId, tool_name: tool, tool_version: version, state, effects } = row;
  const usage = row.usage === null ? undefined : (JSON.parse(row.usage) as { readonly cpuMs?: number });
  return {
    id,
    parentId,
    depth: id.split(".").length - rootDepth,
    tool,
    version,
    state,
    effects,
    code: row.ended_at === null ? null : (row.errorCode ?? "ok"),
    createdAt: row.created_at,
    startedAt: row.started_at,
    endedAt: row.ended_at,
    durationMs: row.ended_at === null ? null : row.ended_at - row.created_at,
    cpuMs: usage?.cpuMs ?? null,
    logs: row.logLines,
  };
}

/** Compares ids of calls so that a call comes before those that it made, and those come in the order in which they began. */
function compareIds(one: string, other: string): number {
  const [a, b] = [one.split("."), other.split(".")];
  for (let index = 1; index < Math.min(a.length, b.length); index += 1) {
    const difference = Number(a[index]) - Number(b[index]);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

export const RunningCallSchema = z
  .strictObject({ id: z.string(), tool: z.string(), state: z.string(), startedAt: TimeSchema })
  .openapi("RunningCall");
/** Time in ms between two looks at a call that does not run: the first, and the longest, for a call that waits for days. */
const WATCH_MS = { min: 500, max: 2_000 } as const;
const WATCH_GROWTH = 1.2;
/** Looks for a call that neither runs nor has a record, after which there is none. */
const MAX_MISSING = 10;

export function addCallRecordRoutes(app: App, dependencies: ServerDependencies): void {
  const { db } = dependencies.database;

  const list = async (
    tenantId: string | undefined,
    { limit, cursor, nested, ...filter }: z.output<typeof CallQuerySchema>,
  ): Promise<object> => {
    await dependencies.calls.flush();
    const wanted = { ...filter, nested: nested === "true", before: cursor, limit };
    const read = (): Promise<CallPage> => listCalls(db, tenantId, wanted);
    const { rows, next } = await (isSearch(wanted) ? dependencies.searches.run(tenantId, read) : read());
    return { items: rows.map(toCallRecord), next };
  };
  const listResponses = { 200: json(pageOf(CallSchema), "A page of calls, without their logs") };
  addRoute(
    app,
    dependencies,
    "GET /v1/calls",
    { summary: "Lists the calls of all tenants, the newest first", query: CallQuerySchema, responses: listResponses },
    async (c, { query }) => c.json((await list(undefined, query)) as never, 200),
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/running-calls",
    {
      summary: "Lists the calls of a tenant that run in this server, which have no record before they end",
      params: TenantParamsSchema,
      responses: { 200: json(z.strictObject({ items: z.array(RunningCallSchema) }), "The calls") },
    },
    (c, _input) => {
      const running = dependencies.glovebox
        .listCalls({ tenantId: c.get("tenant").id })
        .filter(({ parentId }) => parentId === undefined);
      const items = running.map(({ callId, toolName, state, startedAt }) => ({
        id: callId,
        tool: toolName,
        state,
        startedAt,
      }));
      return c.json({ items }, 200);
    },
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/calls",
    {
      summary: "Lists the calls of a tenant, the newest first",
      params: TenantParamsSchema,
      query: CallQuerySchema,
      responses: listResponses,
    },
    async (c, input) => {
      return c.json((await list(c.get("tenant").id, input.query)) as never, 200);
    },
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/calls/{call}",
    {
      summary: "Returns a call with its logs",
      params: CallParamsSchema,
      responses: { 200: json(CallSchema, "The call") },
    },
    async (c, input) => {
      const row = await dependencies.calls.find(c.get("tenant").id, input.params.call);
      if (row === undefined) throw notFound("call", input.params.call);
      return respondWithText(c, writeWhole(row), 200);
    },
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/calls/{call}/timeline",
    {
      summary: "Returns what a call did and when",
      description:
        "The call's stages and each use of a capability, by start, and its nested calls with theirs. While the call runs, it is the timeline so far: its stages, and the newest 500 uses of capabilities and spans of the tool. Empty for a timeline of more than 16 MiB. Those of its nested calls have at most 16 MiB together: later ones are left out, and can be read by the id of their call.",
      params: CallParamsSchema,
      responses: { 200: json(TimelineSchema, "The timeline") },
    },
    async (c, input) => {
      const tenantId = c.get("tenant").id;
      const { call } = input.params;
      let row = await dependencies.calls.findStored(tenantId, call);
      if (row === undefined || row.ended_at === null) {
        // One that waits runs in no replica, so none is asked.
        const isWaiting = row !== undefined && row.state !== "running";
        const { isRunning, soFar } = isWaiting
          ? { isRunning: false, soFar: undefined }
          : await dependencies.calls.timelineSoFar(tenantId, call);
        // It may have ended meanwhile.
        if (isRunning) row = await dependencies.calls.findStored(tenantId, call);
        else if (!isWaiting) row = await dependencies.calls.find(tenantId, call);
        if (row === undefined || row.ended_at === null) {
          if (row === undefined && !isRunning) throw notFound("call", call);
          return c.json(toTimelineSoFar(row, soFar, dependencies.database.clock.now()) as never, 200);
        }
      }
      const ended = row;
      if (ended.calls === null) return c.json(timelineOf(ended, []) as never, 200);
      const nested = await dependencies.searches.run(tenantId, () =>
        dependencies.calls.findTimelines(tenantId, nestedIdsOf(ended)),
      );
      return c.json(timelineOf(ended, nested) as never, 200);
    },
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/calls/{call}/tree",
    {
      summary: "Returns a call and all calls below it",
      description:
        "Each call comes before those that it made. Also shows calls that run in this server and have not ended.",
      params: CallParamsSchema,
      responses: { 200: json(z.strictObject({ items: z.array(TreeCallSchema) }), "The calls") },
    },
    async (c, { params }) => {
      const tenantId = c.get("tenant").id;
      const { call } = params;
      const isBelow = (id: string): boolean => id === call || id.startsWith(`${call}.`);
      const stored = await dependencies.searches.run(tenantId, () => dependencies.calls.findTree(tenantId, call));
      const known = new Set(stored.map(({ id }) => id));
      const running = dependencies.glovebox
        .listCalls({ tenantId })
        .filter(({ callId }) => isBelow(callId) && !known.has(callId))
        .map((info) => ({ ...runningRow(info, tenantId), errorCode: null, logLines: 0 }));
      const rows = [...stored, ...running].filter(({ id }) => isBelow(id));
      if (rows.length === 0) throw notFound("call", call);
      const depth = call.split(".").length;
      const items = rows.toSorted((one, other) => compareIds(one.id, other.id)).map((row) => showInTree(row, depth));
      return c.json({ items } as never, 200);
    },
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/calls/{call}/events",
    {
      summary: "Streams the log lines of a call while it runs, and its result",
      description:
        "Server-sent events: `log`, and at last `result`, or `error` if the server failed. A stream that ends without a result has reached its longest time: a client that reconnects with `Last-Event-ID` gets the lines that it has missed.",
      streams: () => true,
      params: CallParamsSchema,
      responses: { 200: { description: "The events", content: { "text/event-stream": { schema: z.string() } } } },
    },
    async (c, { params }) => {
      const tenantId = c.get("tenant").id;
      const isKnown = async (): Promise<boolean> =>
        (await dependencies.calls.find(tenantId, params.call)) !== undefined ||
        (await dependencies.calls.isRunning(tenantId, params.call)) ||
        // It may have ended meanwhile.
        (await dependencies.calls.find(tenantId, params.call)) !== undefined;
      if (!(await isKnown())) throw notFound("call", params.call);
      const open = c.get("stream");
      open.limitTime();
      const signal = AbortSignal.any([c.req.raw.signal, open.signal]);
      // A browser that reconnects sends the id of the last event that it has received.
      const last = /^\d{1,9}$/.exec(c.req.header("last-event-id") ?? "")?.[0];
      let next = last === undefined ? 0 : Number(last) + 1;
      let missing = 0;
      let watchMs: number = WATCH_MS.min;
      return respondWithEvents(c, dependencies, async (stream) => {
        while (!(stream.aborted || signal.aborted)) {
          let hasRun = false;
          for await (const { index, entry } of dependencies.calls.linesOf(tenantId, params.call, signal, next)) {
            next = index + 1;
            hasRun = true;
            await stream.writeSSE({ event: "log", data: JSON.stringify(entry), id: String(index) });
          }
          const row = await dependencies.calls.find(tenantId, params.call);
          if (row !== undefined && row.ended_at !== null) {
            await stream.writeSSE({ event: "result", data: writeWhole(row) });
            return;
          }
          // The server that ran it has ended, and left no record.
          missing = row === undefined ? missing + 1 : 0;
          if (missing > MAX_MISSING) return;
          watchMs = hasRun ? WATCH_MS.min : Math.min(WATCH_MS.max, watchMs * WATCH_GROWTH);
          await pause(hasRun ? 20 : watchMs, signal);
        }
      });
    },
  );
}
