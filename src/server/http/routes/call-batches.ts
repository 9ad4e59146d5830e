// The route that makes up to 100 calls with one request.
import { z } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { CallCaller, CallRequest } from "../../calls/call-request.ts";
import { inputTextOf, keepInputText } from "../../calls/input-text.ts";
import { checkStoredBytes } from "../../records/tenants/stored-bytes.ts";
import type { App, AppEnv, ServerDependencies } from "../context.ts";
import { handleFailure } from "../error-response.ts";
import { RequestError } from "../request-error.ts";
import { respondWithText } from "../responses.ts";
import { addRoute, json } from "../route.ts";
import { BatchSchema, CallSchema, RejectedCallSchema } from "../schemas/calls.ts";
import { approverOf, callerOf, checkAcceptsCalls, checkOneVersion, isAsync } from "./call-headers.ts";
import { writeWhole } from "./call-records.ts";
import { addRateHeaders, withRateHeaders } from "./rate-headers.ts";
import { TenantParamsSchema } from "./tenants.ts";

const BatchResultSchema = z.strictObject({ items: z.array(z.union([CallSchema, RejectedCallSchema])) });

type Calls = z.output<typeof BatchSchema>["calls"];

export function addCallBatchRoute(app: App, dependencies: ServerDependencies): void {
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
    async (c, { body: { calls } }) => {
      checkAcceptsCalls(dependencies);
      checkKeys(calls, c.req.header("idempotency-key"));
      const caller: CallCaller = { ...callerOf(c), signal: c.req.raw.signal };
      if (c.get("isLargeBody")) for (const { input } of calls) await keepInputText(input, c.req.raw.signal);
      const isLater = isAsync(c);
      if (isLater) await checkRoom(c, calls);
      // Before any of them begins.
      const requests = calls.map(
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
        const { body } = handleFailure(outcome.reason, c.get("requestId"), { isRead: false, onError });
        return JSON.stringify({ state: "rejected", tool: calls[index]?.tool, ...body });
      });
      if (isLater) c.header("preference-applied", "respond-async");
      await addRateHeaders(c, dependencies);
      return respondWithText(c, `{"items":[${items.join(",")}]}`, isLater ? 202 : 200);
    },
  );

  /**
   * Checks that the tenant can queue all calls, because it queues all or none: a client that repeats a rejected request must not repeat calls
   * without a key that were queued before a quota was used up.
   */
  async function checkRoom(c: Context<AppEnv>, calls: Calls): Promise<void> {
    const caller = callerOf(c);
    const inputs = calls.flatMap(({ idempotencyKey, input }) =>
      idempotencyKey === undefined ? [inputTextOf(input)] : [],
    );
    const bytes = inputs.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
    await checkStoredBytes(dependencies.database.db, caller.tenant.id, { what: "The inputs of the calls", bytes });
    if (inputs.length > 0)
      await withRateHeaders(c, dependencies, () => dependencies.calls.checkQueue(caller, inputs.length));
  }
}

/** @throws {RequestError} INVALID if the request has a key, two calls have the same one, or a call names a version and an alias */
function checkKeys(calls: Calls, requestKey: string | undefined): void {
  if (requestKey !== undefined)
    throw new RequestError("INVALID", "Idempotency-Key: A batch has a key for each call: calls.0.idempotencyKey");
  for (const [index, call] of calls.entries()) checkOneVersion(call, `calls.${index}: `);
  const keys = calls.flatMap(({ idempotencyKey }) => (idempotencyKey === undefined ? [] : [idempotencyKey]));
  if (new Set(keys).size !== keys.length)
    throw new RequestError("INVALID", "calls: Expected a different idempotencyKey for each call");
}
