// Routes of calls: run at once, later or streamed; list, read and cancel.
import { z } from "@hono/zod-openapi";
import type { Context } from "hono";
import { streamSSE } from "hono/streaming";
import { toHttpStatus, toRetryAfterSeconds } from "../../../host/index.ts";
import type { CallCaller, CallRequest } from "../../calls/call-service.ts";
import { quotaStatuses, toRateLimitHeaders } from "../../quotas/quota-status.ts";
import { type CallRow, listCalls, logsOf, timelineOf, toCallRecord } from "../../records/calls.ts";
import type { App, AppEnv, ServerParts } from "../context.ts";
import { RequestError } from "../problem.ts";
import { addRoute, json } from "../route.ts";
import {
  BatchSchema,
  CALL_STATES,
  CallSchema,
  IdSchema,
  NewCallSchema,
  PageQuerySchema,
  pageOf,
  TimelineSchema,
  TimeSchema,
  ToolNameSchema,
} from "../schemas.ts";
import { TenantParamsSchema } from "./tenants.ts";

const ToolParamsSchema = TenantParamsSchema.extend({ tool: ToolNameSchema });
const CallParamsSchema = TenantParamsSchema.extend({ call: IdSchema });
const CallQuerySchema = PageQuerySchema.extend({
  tool: ToolNameSchema.optional(),
  version: z.coerce.number().int().min(1).optional(),
  state: z.enum(CALL_STATES).optional(),
  minMs: z.coerce.number().int().min(0).optional().openapi({ description: "Least duration in ms" }),
  text: z.string().min(1).max(200).optional().openapi({ description: "Text in the input, output, error or logs" }),
});
/** Structured Headers allow quotes around the key; both forms are in use. */
const KEY_PATTERN = /^"?([A-Za-z0-9._:-]{1,200})"?$/;

const showWhole = (row: CallRow): object => ({ ...toCallRecord(row), logs: logsOf(row) });

/** Returns the status of a call that has ended: 200, or what its error stands for. */
function statusOf(row: CallRow): { readonly status: number; readonly headers: { readonly [name: string]: string } } {
  if (row.error === null) return { status: 200, headers: {} };
  const error = JSON.parse(row.error) as Parameters<typeof toHttpStatus>[0];
  const seconds = toRetryAfterSeconds(error);
  return { status: toHttpStatus(error), headers: seconds === undefined ? {} : { "retry-after": String(seconds) } };
}

/** @throws {RequestError} INVALID */
function readKey(header: string | undefined): string | undefined {
  if (header === undefined) return undefined;
  const key = KEY_PATTERN.exec(header)?.[1];
  if (key !== undefined) return key;
  throw new RequestError("INVALID", "Idempotency-Key: Expected 1 to 200 of A-Z a-z 0-9 . _ : -");
}

const RunningCallSchema = z
  .strictObject({ id: z.string(), tool: z.string(), state: z.string(), startedAt: TimeSchema })
  .openapi("RunningCall");
/** Time in ms between two looks at a call that runs in another process. */
const WATCH_MS = 500;

export function addCallRoutes(app: App, parts: ServerParts): void {
  const { db } = parts.database;
  /** Adds what is left of the tenant's limits. A tenant without limits costs no query. */
  const addRateHeaders = async (c: Context<AppEnv>): Promise<void> => {
    const { id, policy } = c.get("tenant");
    if (policy.rateLimit === undefined && policy.quotas === undefined) return;
    const statuses = quotaStatuses(policy, await parts.quotas.read(id), Date.now());
    for (const [name, value] of Object.entries(toRateLimitHeaders(statuses))) c.header(name, value);
  };

  addRoute(
    app,
    parts,
    "POST /v1/tenants/{tenant}/tools/{tool}/calls",
    {
      summary: "Calls a tool",
      description:
        "Returns the call when it has ended. With `Prefer: respond-async`, returns it at once with status 202, and it runs later. With `Accept: text/event-stream`, streams its events. A failed call has the status of its error. With `Idempotency-Key`, a repeated request returns the first call.",
      params: ToolParamsSchema,
      body: NewCallSchema,
      responses: { 200: json(CallSchema, "The call"), 202: json(CallSchema, "The call, which runs later") },
    },
    async (c, { params, body }) => {
      const { tool: toolName } = params;
      const { input, version, alias, sessionId, timeoutMs } = body;
      if (!parts.isReady())
        throw new RequestError("UNAVAILABLE", "The server is shutting down", { retryAfterSeconds: 1 });
      if (version !== undefined && alias !== undefined)
        throw new RequestError("INVALID", "Expected version or alias, got both");
      const idempotencyKey = readKey(c.req.header("idempotency-key"));
      const request: CallRequest = { toolName, input, version, alias, sessionId, timeoutMs, idempotencyKey };
      const caller: CallCaller = { tenant: c.get("tenant"), keyId: c.get("principal").keyId, signal: c.req.raw.signal };
      if (/\brespond-async\b/i.test(c.req.header("prefer") ?? "")) {
        const row = await parts.calls.enqueue(request, { tenant: caller.tenant, keyId: caller.keyId });
        c.header("location", `/v1/tenants/${caller.tenant.id}/calls/${row.id}`);
        c.header("preference-applied", "respond-async");
        return c.json(showWhole(row), 202);
      }
      if (/\btext\/event-stream\b/i.test(c.req.header("accept") ?? "")) {
        if (idempotencyKey !== undefined)
          throw new RequestError("INVALID", "Idempotency-Key: A streamed call cannot be repeated");
        return streamSSE(c, async (stream) => {
          for await (const { event, data } of parts.calls.stream(request, caller)) {
            const shown = event === "result" ? showWhole(data) : data;
            await stream.writeSSE({ event, data: JSON.stringify(shown) });
          }
        });
      }
      const row = await parts.calls.run(request, caller);
      const { status, headers } = statusOf(row);
      for (const [name, value] of Object.entries(headers)) c.header(name, value);
      await addRateHeaders(c);
      return c.json(showWhole(row), status as 200);
    },
  );
  addRoute(
    app,
    parts,
    "POST /v1/tenants/{tenant}/calls",
    {
      summary: "Makes up to 100 calls",
      description:
        "Returns the calls in the order of the request when all have ended, each with its own state. With `Prefer: respond-async`, returns them at once with status 202, and they run later.",
      params: TenantParamsSchema,
      body: BatchSchema,
      responses: {
        200: json(z.strictObject({ items: z.array(CallSchema) }), "The calls"),
        202: json(z.strictObject({ items: z.array(CallSchema) }), "The calls, which run later"),
      },
    },
    async (c, { body }) => {
      if (!parts.isReady())
        throw new RequestError("UNAVAILABLE", "The server is shutting down", { retryAfterSeconds: 1 });
      const both = body.calls.findIndex(({ version, alias }) => version !== undefined && alias !== undefined);
      if (both >= 0) throw new RequestError("INVALID", `calls.${both}: Expected version or alias, got both`);
      const keys = body.calls.flatMap(({ idempotencyKey }) => (idempotencyKey === undefined ? [] : [idempotencyKey]));
      if (new Set(keys).size !== keys.length)
        throw new RequestError("INVALID", "calls: Expected a different idempotencyKey for each call");
      const caller: CallCaller = { tenant: c.get("tenant"), keyId: c.get("principal").keyId, signal: c.req.raw.signal };
      const isAsync = /\brespond-async\b/i.test(c.req.header("prefer") ?? "");
      const rows = await Promise.all(
        body.calls.map(async ({ tool: toolName, ...call }) => {
          const request: CallRequest = { toolName, ...call, input: call.input };
          return isAsync ? await parts.calls.enqueue(request, caller) : await parts.calls.run(request, caller);
        }),
      );
      if (isAsync) c.header("preference-applied", "respond-async");
      await addRateHeaders(c);
      return c.json({ items: rows.map(showWhole) } as never, isAsync ? 202 : 200);
    },
  );
  const list = async (
    tenantId: string | undefined,
    { limit, cursor, ...filter }: z.output<typeof CallQuerySchema>,
  ): Promise<object> => {
    await parts.calls.flush();
    const { rows, next } = await listCalls(db, tenantId, { ...filter, before: cursor, limit });
    return { items: rows.map(toCallRecord), next };
  };
  const listResponses = { 200: json(pageOf(CallSchema), "A page of calls, without their logs") };
  addRoute(
    app,
    parts,
    "GET /v1/calls",
    { summary: "Lists the calls of all tenants, the newest first", query: CallQuerySchema, responses: listResponses },
    async (c, { query }) => c.json((await list(undefined, query)) as never, 200),
  );
  addRoute(
    app,
    parts,
    "GET /v1/tenants/{tenant}/running-calls",
    {
      summary: "Lists the calls of a tenant that run in this server, which have no record before they end",
      params: TenantParamsSchema,
      responses: { 200: json(z.strictObject({ items: z.array(RunningCallSchema) }), "The calls") },
    },
    (c, _input) => {
      const running = parts.box
        .listCalls({ tenantId: c.get("tenant").id })
        .filter(({ parentId }) => parentId === undefined);
      const items = running.map(({ callId, toolName, state, startedAt }) => ({
        ...{ id: callId, tool: toolName, state, startedAt },
      }));
      return c.json({ items }, 200);
    },
  );
  addRoute(
    app,
    parts,
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
    parts,
    "GET /v1/tenants/{tenant}/calls/{call}",
    {
      summary: "Returns a call with its logs",
      params: CallParamsSchema,
      responses: { 200: json(CallSchema, "The call") },
    },
    async (c, input) => {
      const row = await parts.calls.find(c.get("tenant").id, input.params.call);
      if (row === undefined) throw new RequestError("NOT_FOUND", "There is no such call");
      return c.json(showWhole(row), 200);
    },
  );
  addRoute(
    app,
    parts,
    "GET /v1/tenants/{tenant}/calls/{call}/timeline",
    {
      summary: "Returns what a call did and when",
      description:
        "The call's stages and each use of a capability, by start, and its nested calls with theirs. Empty while the call runs, and for a timeline of more than 16 MiB.",
      params: CallParamsSchema,
      responses: { 200: json(TimelineSchema, "The timeline") },
    },
    async (c, input) => {
      const row = await parts.calls.find(c.get("tenant").id, input.params.call);
      if (row === undefined) throw new RequestError("NOT_FOUND", "There is no such call");
      return c.json(timelineOf(row) as never, 200);
    },
  );
  addRoute(
    app,
    parts,
    "GET /v1/tenants/{tenant}/calls/{call}/events",
    {
      summary: "Streams the log lines of a call while it runs, and its result",
      description:
        "Server-sent events: `log`, and at last `result`. A call that runs in another process of the server shows its lines only at its end.",
      params: CallParamsSchema,
      responses: { 200: { description: "The events", content: { "text/event-stream": { schema: z.string() } } } },
    },
    async (c, { params }) => {
      const tenantId = c.get("tenant").id;
      const isKnown = async (): Promise<boolean> =>
        parts.calls.findLive(tenantId, params.call) !== undefined ||
        (await parts.calls.find(tenantId, params.call)) !== undefined;
      if (!(await isKnown())) throw new RequestError("NOT_FOUND", "There is no such call");
      const { signal } = c.req.raw;
      return streamSSE(c, async (stream) => {
        while (!(stream.aborted || signal.aborted)) {
          const live = parts.calls.findLive(tenantId, params.call);
          for await (const entry of live?.lines(signal) ?? []) {
            await stream.writeSSE({ event: "log", data: JSON.stringify(entry) });
          }
          const row = await parts.calls.find(tenantId, params.call);
          if (row !== undefined && row.ended_at !== null) {
            await stream.writeSSE({ event: "result", data: JSON.stringify(showWhole(row)) });
            return;
          }
          await stream.sleep(live === undefined ? WATCH_MS : 20);
        }
      });
    },
  );
  addRoute(
    app,
    parts,
    "POST /v1/tenants/{tenant}/calls/{call}/cancel",
    {
      summary: "Cancels a call that has not ended",
      params: CallParamsSchema,
      responses: {
        202: json(CallSchema.partial(), "The call is being cancelled"),
        409: { description: "The call has ended" },
      },
    },
    async (c, input) => {
      const { call } = input.params;
      const before = await parts.calls.cancel(c.get("tenant").id, call);
      if (before === undefined) throw new RequestError("NOT_FOUND", "There is no such call");
      if (before !== "queued" && before !== "running")
        throw new RequestError("CONFLICT", `The call has ended (${before})`);
      return c.json({ id: call }, 202);
    },
  );
}
