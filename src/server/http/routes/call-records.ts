// Routes of calls that were made: list and read them, with their timelines and the calls below them.
import { z } from "@hono/zod-openapi";
import type { JsonValue } from "../../../host/index.ts";
import { runningRow } from "../../calls/new-call.ts";
import { type CallPage, isSearch, listCalls } from "../../records/calls/call-list.ts";
import type { TreeCall } from "../../records/calls/call-tree.ts";
import {
  logsOf,
  nestedIdsOf,
  timelineOf,
  toCallRecord,
  toTimelineSoFar,
  type WholeCall,
  writeCallRecord,
} from "../../records/calls/calls.ts";
import type { App, ServerDependencies } from "../context.ts";
import { notFound } from "../request-error.ts";
import { respondWithJson, respondWithText } from "../responses.ts";
import { addRoute, json } from "../route.ts";
import { CALL_STATES, CallSchema, TimelineSchema, TreeCallSchema } from "../schemas/calls.ts";
import {
  CALL_ID_PATTERN,
  CallIdSchema,
  pageOf,
  pageQueryOf,
  TimeSchema,
  ToolNameParamSchema,
} from "../schemas/common.ts";
import { TextSchema } from "../schemas/text.ts";
import { TenantParamsSchema } from "./tenants.ts";

export const CallParamsSchema = TenantParamsSchema.extend({ call: CallIdSchema });
const CallQuerySchema = pageQueryOf(CALL_ID_PATTERN).extend({
  tool: ToolNameParamSchema.optional(),
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

/**
 * Returns the timeline of a call that runs or has ended.
 * @throws {RequestError} NOT_FOUND
 */
async function readTimeline(dependencies: ServerDependencies, tenantId: string, call: string): Promise<object> {
  let row = await dependencies.calls.findStored(tenantId, call);
  if (row === undefined || row.ended_at === null) {
    // A waiting call runs in no replica, so no replica is queried.
    const isWaiting = row !== undefined && row.state !== "running";
    const { isRunning, soFar } = isWaiting
      ? { isRunning: false, soFar: undefined }
      : await dependencies.calls.timelineSoFar(tenantId, call);
    // It may have ended meanwhile.
    if (isRunning) row = await dependencies.calls.findStored(tenantId, call);
    else if (!isWaiting) row = await dependencies.calls.find(tenantId, call);
    if (row === undefined || row.ended_at === null) {
      if (row === undefined && !isRunning) throw notFound("call", call);
      return toTimelineSoFar(row, soFar, dependencies.database.clock.now());
    }
  }
  const ended = row;
  if (ended.calls === null) return timelineOf(ended, []);
  const nested = await dependencies.searches.run(tenantId, () =>
    dependencies.calls.findTimelines(tenantId, nestedIdsOf(ended)),
  );
  return timelineOf(ended, nested);
}

/**
 * Returns a call and all calls below it, also those that run in this server.
 * @throws {RequestError} NOT_FOUND
 */
async function readTree(dependencies: ServerDependencies, tenantId: string, call: string): Promise<readonly object[]> {
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
  return rows.toSorted((one, other) => compareIds(one.id, other.id)).map((row) => showInTree(row, depth));
}

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
    async (c, { query }) => respondWithJson(c, await list(undefined, query)),
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
      return respondWithJson(c, { items });
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
    async (c, { query }) => respondWithJson(c, await list(c.get("tenant").id, query)),
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
      return respondWithText(c, writeWhole(row));
    },
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/calls/{call}/timeline",
    {
      summary: "Returns what a call did and when",
      description:
        "The call's stages and each use of a capability, by start, and its nested calls with theirs. While the call runs, the timeline is unfinished: it has its stages, and the newest 500 uses of capabilities and spans of the tool. Empty for a timeline of more than 16 MiB. Those of its nested calls have at most 16 MiB together: later ones are left out, and can be read by the id of their call.",
      params: CallParamsSchema,
      responses: { 200: json(TimelineSchema, "The timeline") },
    },
    async (c, { params }) => respondWithJson(c, await readTimeline(dependencies, c.get("tenant").id, params.call)),
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
    async (c, { params }) =>
      respondWithJson(c, { items: await readTree(dependencies, c.get("tenant").id, params.call) }),
  );
}
