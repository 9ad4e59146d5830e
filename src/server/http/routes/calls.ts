// Routes that make calls, at once, later or streamed, and cancel them.
import type { Context } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { toHttpStatus, toRetryAfterSeconds } from "../../../host/index.ts";
import type { CallCaller, CallRequest } from "../../calls/call-request.ts";
import { keepInputText } from "../../calls/input-text.ts";
import type { CallRow } from "../../records/calls/calls.ts";
import type { App, AppEnv, ServerDependencies } from "../context.ts";
import { notFound, RequestError } from "../request-error.ts";
import { respondWithEvents, respondWithJson, respondWithText } from "../responses.ts";
import { addRoute, json } from "../route.ts";
import { CallSchema, NewCallSchema } from "../schemas/calls.ts";
import {
  approverOf,
  callerOf,
  checkAcceptsCalls,
  checkOneVersion,
  isAsync,
  prefersEvents,
  readKey,
} from "./call-headers.ts";
import { CallParamsSchema, writeWhole } from "./call-records.ts";
import { addRateHeaders, withRateHeaders } from "./rate-headers.ts";
import { ToolParamsSchema } from "./versions.ts";

const CANCELLABLE: ReadonlySet<CallRow["state"]> = new Set(["waiting_for_approval", "queued", "running"]);

/** Returns the status of a call that has ended: 200, or what its error stands for. */
function statusOf(row: CallRow): {
  readonly status: ContentfulStatusCode;
  readonly headers: { readonly [name: string]: string };
} {
  if (row.error === null) return { status: 200, headers: {} };
  const error = JSON.parse(row.error) as Parameters<typeof toHttpStatus>[0];
  const seconds = toRetryAfterSeconds(error);
  const status = toHttpStatus(error) as ContentfulStatusCode;
  return { status, headers: seconds === undefined ? {} : { "retry-after": String(seconds) } };
}

const acceptsEvents = (c: Context<AppEnv>): boolean => !isAsync(c) && prefersEvents(c.req.header("accept"));

/** Responds with a call that runs later, or when it was approved. */
function respondWithOpenCall(c: Context<AppEnv>, row: CallRow): Response {
  c.header("location", `/v1/tenants/${c.get("tenant").id}/calls/${row.id}`);
  if (row.state === "waiting_for_approval" && row.approval_id !== null) c.header("glovebox-approval", row.approval_id);
  return respondWithText(c, writeWhole(row), 202);
}

export function addCallRoutes(app: App, dependencies: ServerDependencies): void {
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
      const { approve, ...call } = body;
      const approvedBy = approverOf(c, approve);
      checkAcceptsCalls(dependencies);
      checkOneVersion(call);
      const idempotencyKey = readKey(c.req.header("idempotency-key"));
      const request: CallRequest = { ...call, input: call.input, toolName: params.tool, idempotencyKey, approvedBy };
      if (c.get("isLargeBody")) await keepInputText(call.input, c.req.raw.signal);
      if (isAsync(c)) return await queue(c, request);
      if (acceptsEvents(c)) return stream(c, request);
      return await run(c, request);
    },
  );

  /** Responds with the call at once, and lets it run later. */
  async function queue(c: Context<AppEnv>, request: CallRequest): Promise<Response> {
    const row = await withRateHeaders(c, dependencies, () => dependencies.calls.enqueue(request, callerOf(c)));
    await addRateHeaders(c, dependencies);
    c.header("preference-applied", "respond-async");
    return respondWithOpenCall(c, row);
  }

  /** Responds with the events of the call. */
  function stream(c: Context<AppEnv>, request: CallRequest): Response {
    if (request.idempotencyKey !== undefined)
      throw new RequestError("INVALID", "Idempotency-Key: A streamed call cannot be repeated");
    const signal = AbortSignal.any([c.req.raw.signal, c.get("stream").signal]);
    return respondWithEvents(c, dependencies, async (events) => {
      for await (const { event, data } of dependencies.calls.stream(request, { ...callerOf(c), signal })) {
        // The call waits for a person, and runs later whether or not its client is there.
        if (event === "approval") c.get("stream").limitTime();
        await events.writeSSE({ event, data: event === "result" ? writeWhole(data) : JSON.stringify(data) });
      }
    });
  }

  /** Responds with the call when it has ended, or when it waits for an approval. */
  async function run(c: Context<AppEnv>, request: CallRequest): Promise<Response> {
    const caller: CallCaller = { ...callerOf(c), signal: c.req.raw.signal };
    const row = await withRateHeaders(c, dependencies, () => dependencies.calls.run(request, caller));
    if (row.ended_at === null) return respondWithOpenCall(c, row);
    const { status, headers } = statusOf(row);
    for (const [name, value] of Object.entries(headers)) c.header(name, value);
    await addRateHeaders(c, dependencies);
    return respondWithText(c, writeWhole(row), status);
  }

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
      return respondWithJson(c, { id: call }, 202);
    },
  );
}
