// Routes of durable runs: start, list and read them, give them what they wait for, and cancel them.

import { z } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { RunSignal } from "../../../host/index.ts";
import { findRun, hasWait, listRunEntries, listRuns } from "../../records/calls/runs.ts";
import { AliasSchema } from "../../records/tools/releases.ts";
import { showEntry, showRun, showSummary } from "../../runs/run-content.ts";
import type { ShownRun } from "../../runs/run-service.ts";
import type { App, AppEnv, ServerDependencies } from "../context.ts";
import { nextCursor, toPage } from "../pages.ts";
import { notFound, RequestError } from "../request-error.ts";
import { respondWithJson } from "../responses.ts";
import { addRoute, json } from "../route.ts";
import { DecisionSchema } from "../schemas/calls.ts";
import { IdSchema, idPageQuery, numberPageQuery, pageOf, ToolNameParamSchema } from "../schemas/common.ts";
import { RUN_KINDS, RUN_STATES, RUN_WAIT_KINDS, RunEntrySchema, RunSchema, RunSummarySchema } from "../schemas/runs.ts";
import { LineSchema } from "../schemas/text.ts";
import { approverOf, callerOf, checkAcceptsCalls, checkOneVersion, isAsync, readKey } from "./call-headers.ts";
import { TenantParamsSchema } from "./tenants.ts";

const RunParamsSchema = TenantParamsSchema.extend({ run: IdSchema });
const WaitParamsSchema = RunParamsSchema.extend({ wait: z.coerce.number().int().min(1) });
const RunQuerySchema = idPageQuery("call").extend({
  kind: z.enum(RUN_KINDS).optional(),
  tool: ToolNameParamSchema.optional(),
  state: z.enum(RUN_STATES).optional(),
  wait: z.enum(RUN_WAIT_KINDS).optional().openapi({ description: "Runs that wait for something of this kind" }),
});
const EntryQuerySchema = numberPageQuery();
const JsonSchema = z.any().describe("Any JSON value");

export const NewRunSchema = z
  .strictObject({
    tool: ToolNameParamSchema,
    input: JsonSchema.optional(),
    version: z.int().min(1).optional().describe("Default: the version that a call would run now. The run stays on it"),
    alias: AliasSchema.optional(),
    approve: z
      .boolean()
      .optional()
      .describe("Approves the run, if the tool needs an approval. Needs the scope calls:approve"),
  })
  .openapi("NewRun");
export const RunEventSchema = z
  .strictObject({ name: LineSchema.min(1).max(200), value: JsonSchema.optional() })
  .openapi("RunEvent");
export const RunAnswerSchema = z
  .strictObject({
    action: z.enum(["accept", "decline", "cancel"]),
    content: JsonSchema.optional().describe("With `accept`: what the person has filled in, which matches the form"),
  })
  .openapi("RunAnswer");

export function addRunRoutes(app: App, dependencies: ServerDependencies): void {
  const { runs, database } = dependencies;
  const { db } = database;

  /** Answers with a run when it waits or has ended; with `Prefer: respond-async` at once. */
  const respond = async (c: Context<AppEnv>, id: string, settled: Promise<ShownRun>): Promise<Response> => {
    const tenantId = c.get("tenant").id;
    c.header("location", `/v1/tenants/${tenantId}/runs/${id}`);
    if (isAsync(c)) {
      c.header("preference-applied", "respond-async");
      settled.catch((thrown) => dependencies.onError(thrown, c.get("requestId")));
      const row = await findRun(db, { tenantId, id });
      if (row === undefined) throw notFound("run", id);
      return respondWithJson(c, showRun(row), 202);
    }
    const { row, result } = await settled;
    return respondWithJson(c, showRun(row, result));
  };
  const answer = async (c: Context<AppEnv>, id: string, signal: RunSignal): Promise<Response> => {
    checkAcceptsCalls(dependencies);
    const answered = await runs.answer(c.get("tenant"), id, signal, c.get("actor"));
    if (answered === undefined) throw notFound("run", id);
    return await respond(c, id, answered.settled);
  };
  const shown = {
    200: json(RunSchema, "The run, which waits or has ended"),
    202: json(RunSchema, "The run, with `Prefer: respond-async`"),
  };
  const answered = { ...shown, 409: { description: "The run has ended, or does not wait for this" } };

  addRoute(
    app,
    dependencies,
    "POST /v1/tenants/{tenant}/runs",
    {
      summary: "Starts a durable run of a tool",
      description:
        "Returns the run when it waits or has ended; with `Prefer: respond-async` at once. With `Idempotency-Key`, a repeated request returns the first run. The run stays on the version with which it begins, and continues by itself.",
      params: TenantParamsSchema,
      body: NewRunSchema,
      responses: shown,
    },
    async (c, { body }) => {
      checkAcceptsCalls(dependencies);
      const { tool: toolName, input, version, alias, approve } = body;
      checkOneVersion(body);
      const { id, settled } = await runs.begin(
        {
          toolName,
          input,
          version,
          alias,
          approvedBy: approverOf(c, approve),
          idempotencyKey: readKey(c.req.header("idempotency-key")),
        },
        callerOf(c),
      );
      return await respond(c, id, settled);
    },
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/runs",
    {
      summary: "Lists the durable runs of a tenant, the newest first",
      description: "With a filter, a page can have fewer items than `limit` although another one follows.",
      params: TenantParamsSchema,
      query: RunQuerySchema,
      responses: { 200: json(pageOf(RunSummarySchema), "A page of runs, without their arguments and outcomes") },
    },
    async (c, { query: { limit, cursor, ...filter } }) => {
      const { wait } = filter;
      const rows = await listRuns(db, c.get("tenant").id, { ...filter, before: cursor, limit: limit + 1 });
      const page = toPage(rows, limit);
      const items = page.rows.filter((row) => wait === undefined || hasWait(row, wait)).map(showSummary);
      return respondWithJson(c, { items, next: nextCursor(page, ({ id }) => id) });
    },
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/runs/{run}",
    {
      summary: "Returns a run: its state, what it waits for, and its outcome",
      params: RunParamsSchema,
      responses: { 200: json(RunSchema, "The run") },
    },
    async (c, { params }) => {
      const row = await findRun(db, { tenantId: c.get("tenant").id, id: params.run });
      if (row === undefined) throw notFound("run", params.run);
      return respondWithJson(c, showRun(row));
    },
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/runs/{run}/journal",
    {
      summary: "Returns the journal of a run, in order and without secrets",
      description:
        "A tenant that does not keep contents (`retention.keepContent: false`) has no journals of runs that have ended.",
      params: RunParamsSchema,
      query: EntryQuerySchema,
      responses: {
        200: json(pageOf(RunEntrySchema), "A page of entries"),
      },
    },
    async (c, { params, query: { limit, cursor } }) => {
      const key = { tenantId: c.get("tenant").id, id: params.run };
      if ((await findRun(db, key)) === undefined) throw notFound("run", key.id);
      const page = await listRunEntries(db, key, { after: cursor, limit });
      return respondWithJson(c, {
        items: page.rows.map(showEntry),
        next: nextCursor(page, ({ position }) => String(position)),
      });
    },
  );
  addRoute(
    app,
    dependencies,
    "POST /v1/tenants/{tenant}/runs/{run}/events",
    {
      summary: "Gives a run an event, and continues it",
      description: "An event that no wait needs yet is kept for the first wait of its name.",
      params: RunParamsSchema,
      body: RunEventSchema,
      responses: answered,
    },
    async (c, { params, body }) => await answer(c, params.run, { event: body.name, value: body.value }),
  );
  for (const decision of ["approve", "deny"] as const) {
    addRoute(
      app,
      dependencies,
      `POST /v1/tenants/{tenant}/runs/{run}/waits/{wait}/${decision}`,
      {
        summary: decision === "approve" ? "Approves what a run waits for" : "Denies what a run waits for",
        description: "Continues the run, whose tool receives the decision with its reason.",
        params: WaitParamsSchema,
        body: DecisionSchema,
        responses: answered,
      },
      async (c, { params, body: { reason } }) =>
        await answer(c, params.run, { approval: params.wait, approved: decision === "approve", reason }),
    );
  }
  addRoute(
    app,
    dependencies,
    "POST /v1/tenants/{tenant}/runs/{run}/waits/{wait}/answer",
    {
      summary: "Answers an elicitation that a run waits for, and continues the run",
      params: WaitParamsSchema,
      body: RunAnswerSchema,
      responses: answered,
    },
    async (c, { params, body }) => await answer(c, params.run, { elicitation: params.wait, ...body }),
  );
  addRoute(
    app,
    dependencies,
    "POST /v1/tenants/{tenant}/runs/{run}/cancel",
    {
      summary: "Cancels a run that has not ended",
      params: RunParamsSchema,
      responses: {
        202: json(RunSchema, "The run, which ends at once or as soon as its process sees the request"),
        409: { description: "The run has ended" },
      },
    },
    async (c, { params }) => {
      const before = await runs.cancel(c.get("tenant"), params.run, c.get("actor"));
      if (before === undefined) throw notFound("run", params.run);
      if (before !== "running" && before !== "suspended")
        throw new RequestError("CONFLICT", `The run has ended (${before})`);
      const row = await findRun(db, { tenantId: c.get("tenant").id, id: params.run });
      if (row === undefined) throw notFound("run", params.run);
      return respondWithJson(c, showRun(row), 202);
    },
  );
}
