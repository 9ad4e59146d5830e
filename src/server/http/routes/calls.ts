// Routes that make calls, at once, later or streamed, and cancel them.
import { z } from "@hono/zod-openapi";
import type { Context } from "hono";
import { ToolError, toHttpStatus, toRetryAfterSeconds } from "../../../host/index.ts";
import type { CallCaller, CallRequest } from "../../calls/call-request.ts";
import { inputTextOf, keepInputText } from "../../calls/input-text.ts";
import { toRateLimitHeaders } from "../../quotas/quota-status.ts";
import type { CallRow } from "../../records/calls.ts";
import { checkStoredBytes } from "../../records/stored-bytes.ts";
import type { App, AppEnv, ServerDependencies } from "../context.ts";
import { respondWithEvents } from "../event-response.ts";
import { answerFailure, notFound, RequestError } from "../problem.ts";
import { addRoute, json } from "../route.ts";
import { BatchSchema, CallSchema, NewCallSchema, RejectedCallSchema } from "../schemas/calls.ts";
import { approverOf, isAsync, prefersEvents, readKey } from "./call-headers.ts";
import { CallParamsSchema, respondWithText, writeWhole } from "./call-records.ts";
import { TenantParamsSchema } from "./tenants.ts";
import { ToolParamsSchema } from "./versions.ts";

const BatchResultSchema = z.strictObject({ items: z.array(z.union([CallSchema, RejectedCallSchema])) });

const CANCELLABLE: ReadonlySet<CallRow["state"]> = new Set(["waiting_for_approval", "queued", "running"]);

/** Returns the status of a call that has ended: 200, or what its error stands for. */
function statusOf(row: CallRow): { readonly status: number; readonly headers: { readonly [name: string]: string } } {
  if (row.error === null) return { status: 200, headers: {} };
  const error = JSON.parse(row.error) as Parameters<typeof toHttpStatus>[0];
  const seconds = toRetryAfterSeconds(error);
  return { status: toHttpStatus(error), headers: seconds === undefined ? {} : { "retry-after": String(seconds) } };
}

const acceptsEvents = (c: Context<AppEnv>): boolean => !isAsync(c) && prefersEvents(c.req.header("accept"));

function showApproval(c: Context<AppEnv>, { state, approval_id }: CallRow): void {
  if (state === "waiting_for_approval" && approval_id !== null) c.header("glovebox-approval", approval_id);
}

export function addCallRoutes(app: App, dependencies: ServerDependencies): void {
  const callerOf = (c: Context<AppEnv>): CallCaller => ({ tenant: c.get("tenant"), keyId: c.get("principal").keyId });
  /** Returns headers that say what is left of the limits of the key and the tenant. */
  const rateHeadersOf = async (c: Context<AppEnv>): Promise<{ readonly [name: string]: string }> => {
    const { ofTenant, ofKey } = await dependencies.quotaChecks.read(callerOf(c));
    const rate = c.get("keyRate");
    // The tenant's have the same names.
    const ofCaller = ofKey.map((status) => ({ ...status, name: `key:${status.name}` }));
    return toRateLimitHeaders([...(rate === undefined ? [] : [rate]), ...ofCaller, ...ofTenant]);
  };
  const addRateHeaders = async (c: Context<AppEnv>): Promise<void> => {
    for (const [name, value] of Object.entries(await rateHeadersOf(c))) c.header(name, value);
  };
  /** Adds the headers to the error of a request that a limit rejects, too. */
  const withRateHeaders = async <Value>(c: Context<AppEnv>, run: () => Promise<Value>): Promise<Value> => {
    try {
      return await run();
    } catch (thrown) {
      if (Error.isError(thrown) && thrown instanceof ToolError && thrown.code === "QUOTA_EXCEEDED")
        c.set("rateHeaders", await rateHeadersOf(c));
      throw thrown;
    }
  };

  addRoute(
    app,
    dependencies,
    "POST /v1/tenants/{tenant}/tools/{tool}/calls",
    {
      summary: "Calls a tool",
      description:
        "Returns the call when it has ended. With `Prefer: respond-async`, returns it at once with status 202, and it runs later. With `Accept: text/event-stream`, streams its events: `started`, `approval`, `log`, `progress`, `chunk`, and at last `result`, or `error` if the server failed. A failed call has the status of its error. With `Idempotency-Key`, a repeated request returns the first call. A call that needs an approval is returned with status 202, the state `waiting_for_approval` and its `approvalId`, and runs when it was approved.",
      streams: acceptsEvents,
      params: ToolParamsSchema,
      body: NewCallSchema,
      responses: {
        200: json(CallSchema, "The call"),
        202: json(CallSchema, "The call, which runs later, or when it was approved"),
      },
    },
    async (c, { params, body }) => {
      const { tool: toolName } = params;
      const { input, version, alias, sessionId, timeoutMs } = body;
      const approvedBy = approverOf(c, body.approve);
      if (!dependencies.acceptsCalls())
        throw new RequestError("UNAVAILABLE", "The server is shutting down", { retryAfterSeconds: 1 });
      if (version !== undefined && alias !== undefined)
        throw new RequestError("INVALID", "Expected version or alias, got both");
      const idempotencyKey = readKey(c.req.header("idempotency-key"));
      const request: CallRequest = {
        toolName,
        input,
        version,
        alias,
        sessionId,
        timeoutMs,
        idempotencyKey,
        approvedBy,
      };
      const caller: CallCaller = { ...callerOf(c), signal: c.req.raw.signal };
      if (c.get("isLargeBody")) await keepInputText(input, c.req.raw.signal);
      if (isAsync(c)) {
        const row = await withRateHeaders(c, () => dependencies.calls.enqueue(request, callerOf(c)));
        await addRateHeaders(c);
        c.header("location", `/v1/tenants/${caller.tenant.id}/calls/${row.id}`);
        c.header("preference-applied", "respond-async");
        showApproval(c, row);
        return respondWithText(c, writeWhole(row), 202);
      }
      if (acceptsEvents(c)) {
        if (idempotencyKey !== undefined)
          throw new RequestError("INVALID", "Idempotency-Key: A streamed call cannot be repeated");
        const signal = AbortSignal.any([c.req.raw.signal, c.get("stream").signal]);
        return respondWithEvents(c, dependencies, async (stream) => {
          for await (const { event, data } of dependencies.calls.stream(request, { ...caller, signal })) {
            // The call waits for a person, and runs later whether or not its client is there.
            if (event === "approval") c.get("stream").limitTime();
            await stream.writeSSE({ event, data: event === "result" ? writeWhole(data) : JSON.stringify(data) });
          }
        });
      }
      const row = await withRateHeaders(c, () => dependencies.calls.run(request, caller));
      if (row.ended_at === null) {
        // It waits for an approval, and runs later.
        c.header("location", `/v1/tenants/${caller.tenant.id}/calls/${row.id}`);
        showApproval(c, row);
        return respondWithText(c, writeWhole(row), 202);
      }
      const { status, headers } = statusOf(row);
      for (const [name, value] of Object.entries(headers)) c.header(name, value);
      await addRateHeaders(c);
      return respondWithText(c, writeWhole(row), status as 200);
    },
  );
  addRoute(
    app,
    dependencies,
    "POST /v1/tenants/{tenant}/calls",
    {
      summary: "Makes up to 100 calls",
      description:
        "Returns the calls in the order of the request when all have ended, each with its own state. A call that is rejected, such as one whose `idempotencyKey` is in use, has the state `rejected` and an error, and the others go on. With `Prefer: respond-async`, returns them at once with status 202, and they run later.",
      params: TenantParamsSchema,
      body: BatchSchema,
      responses: {
        200: json(BatchResultSchema, "The calls"),
        202: json(BatchResultSchema, "The calls, which run later"),
      },
    },
    async (c, { body }) => {
      if (!dependencies.acceptsCalls())
        throw new RequestError("UNAVAILABLE", "The server is shutting down", { retryAfterSeconds: 1 });
      if (c.req.header("idempotency-key") !== undefined)
        throw new RequestError("INVALID", "Idempotency-Key: A batch has a key for each call: calls.0.idempotencyKey");
      const both = body.calls.findIndex(({ version, alias }) => version !== undefined && alias !== undefined);
      if (both >= 0) throw new RequestError("INVALID", `calls.${both}: Expected version or alias, got both`);
      const keys = body.calls.flatMap(({ idempotencyKey }) => (idempotencyKey === undefined ? [] : [idempotencyKey]));
      if (new Set(keys).size !== keys.length)
        throw new RequestError("INVALID", "calls: Expected a different idempotencyKey for each call");
      const caller: CallCaller = { ...callerOf(c), signal: c.req.raw.signal };
      if (c.get("isLargeBody")) for (const { input } of body.calls) await keepInputText(input, c.req.raw.signal);
      const isLater = isAsync(c);
      if (isLater) {
        // All or none: a client that repeats a rejected request must not repeat calls without a key that were queued before a quota was used up.
        const inputs = body.calls.flatMap(({ idempotencyKey, input }) =>
          idempotencyKey === undefined ? [inputTextOf(input)] : [],
        );
        const bytes = inputs.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
        await checkStoredBytes(dependencies.database.db, caller.tenant.id, { what: "The inputs of the calls", bytes });
        if (inputs.length > 0) await withRateHeaders(c, () => dependencies.calls.checkQueue(caller, inputs.length));
      }
      // Before any of them begins.
      const requests = body.calls.map(
        ({ tool: toolName, approve, ...call }): CallRequest => ({
          toolName,
          ...call,
          input: call.input,
          approvedBy: approverOf(c, approve),
        }),
      );
      const outcomes = await Promise.allSettled(
        requests.map((request) =>
          isLater ? dependencies.calls.enqueue(request, caller) : dependencies.calls.run(request, caller),
        ),
      );
      const items = outcomes.map((outcome, index) => {
        if (outcome.status === "fulfilled") return writeWhole(outcome.value);
        const { onError } = dependencies;
        const { body: problem } = answerFailure(outcome.reason, c.get("requestId"), { isRead: false, onError });
        return JSON.stringify({ state: "rejected", tool: body.calls[index]?.tool, ...problem });
      });
      if (isLater) c.header("preference-applied", "respond-async");
      await addRateHeaders(c);
      return respondWithText(c, `{"items":[${items.join(",")}]}`, isLater ? 202 : 200);
    },
  );
  addRoute(
    app,
    dependencies,
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
      const before = await dependencies.calls.cancel(c.get("tenant"), call);
      if (before === undefined) throw notFound("call", call);
      if (!CANCELLABLE.has(before)) throw new RequestError("CONFLICT", `The call has ended (${before})`);
      return c.json({ id: call }, 202);
    },
  );
}
