// Routes of schedules: create, list, change and delete.

import { z } from "@hono/zod-openapi";
import type { SchedulesTable } from "../../database/tables/event-tables.ts";
import { createId } from "../../ids.ts";
import { appendAudit } from "../../records/audit/audit.ts";
import {
  countSchedules,
  deleteSchedule,
  findSchedule,
  insertSchedule,
  listSchedules,
  type ScheduleChanges,
  type ScheduleRecord,
  toSchedule,
  updateSchedule,
} from "../../records/events/schedules.ts";
import { AliasSchema } from "../../records/tools/releases.ts";
import { changeExclusively } from "../../records/write-lock.ts";
import { findCronError, nextRunAfter } from "../../schedules/cron.ts";
import type { App, ServerDependencies } from "../context.ts";
import { checkIfMatch, EtagSchema, respondWithEtag, withEtag } from "../entity-tag.ts";
import { notFound, RequestError } from "../request-error.ts";
import { respondWithJson } from "../responses.ts";
import { addRoute, json } from "../route.ts";
import { IdSchema, OkSchema, pageOf, TimeSchema, ToolNameParamSchema } from "../schemas/common.ts";
import { LineSchema } from "../schemas/text.ts";
import { changeAudited } from "./audited-change.ts";
import { checkToolExists } from "./check-tool.ts";
import { TenantParamsSchema } from "./tenants.ts";

const ScheduleParamsSchema = TenantParamsSchema.extend({ schedule: IdSchema });
const NameSchema = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/, { error: "Expected 1 to 128 of A-Z a-z 0-9 _ . -" });
const MAX_SCHEDULES = 1_000;

const changeable = {
  cron: LineSchema.min(1).max(200).describe("Five fields, six with seconds first, or @daily and the like"),
  timeZone: LineSchema.min(1).max(64).describe("Name of the IANA database, such as Europe/Berlin"),
  input: z.any().describe("Input of the calls"),
  alias: AliasSchema,
  overlap: z.enum(["skip", "queue"]).describe("Whether a run starts before the one before it has ended"),
  catchUp: z.enum(["none", "latest", "all"]).describe("Which runs start that were missed while no server ran"),
  state: z.enum(["active", "paused"]),
};
const NewScheduleSchema = z
  .strictObject({
    name: NameSchema,
    tool: ToolNameParamSchema,
    ...changeable,
    timeZone: changeable.timeZone.default("UTC"),
    input: z.any().default({}),
    alias: AliasSchema.default("live"),
    overlap: changeable.overlap.default("skip"),
    catchUp: changeable.catchUp.default("latest"),
    state: changeable.state.default("active"),
  })
  .openapi("NewSchedule");
const ScheduleChangesSchema = z.strictObject(changeable).partial().openapi("ScheduleChanges");
export const ScheduleSchema = z
  .strictObject({
    id: z.string(),
    name: z.string(),
    tool: z.string(),
    etag: EtagSchema.nullable().describe("Entity tag, for `If-Match`; null if the input is left out"),
    ...changeable,
    alias: z.string(),
    omitted: z.boolean().describe("Whether a list leaves the input out, because it is large. Then it is null"),
    nextAt: TimeSchema.nullable(),
    lastAt: TimeSchema.nullable(),
    lastCallId: z.string().nullable(),
    skipped: z.int().describe("Runs that were skipped because the one before had not ended"),
    createdBy: z.string(),
    createdAt: TimeSchema,
    updatedAt: TimeSchema,
  })
  .openapi("Schedule");

const show = (schedule: ScheduleRecord) =>
  schedule.omitted
    ? { ...schedule, etag: null }
    : withEtag(schedule, ["cron", "timeZone", "input", "alias", "overlap", "catchUp", "state"]);

function checkCron(times: { readonly cron: string; readonly timeZone: string }): void {
  const message = findCronError(times);
  if (message !== undefined) throw new RequestError("INVALID", message);
}

function toRow(
  body: z.output<typeof NewScheduleSchema>,
  { tenantId, createdBy, now }: { readonly tenantId: string; readonly createdBy: string; readonly now: number },
): SchedulesTable {
  return {
    id: createId("schedule", now),
    tenant_id: tenantId,
    name: body.name,
    tool_name: body.tool,
    alias: body.alias,
    input: JSON.stringify(body.input),
    cron: body.cron,
    time_zone: body.timeZone,
    overlap: body.overlap,
    catch_up: body.catchUp,
    state: body.state,
    created_by: createdBy,
    next_at: nextRunAfter(body, now),
    last_at: null,
    last_call_id: null,
    skipped: 0,
    created_at: now,
    updated_at: now,
  };
}

/** @throws {RequestError} INVALID for times that do not exist */
function toChanges(row: SchedulesTable, body: z.output<typeof ScheduleChangesSchema>, now: number): ScheduleChanges {
  const times = { cron: body.cron ?? row.cron, timeZone: body.timeZone ?? row.time_zone };
  checkCron(times);
  const state = body.state ?? row.state;
  // A run that is due at this moment starts, unless the change concerns when runs start.
  const keepsTimes = times.cron === row.cron && times.timeZone === row.time_zone && state === row.state;
  return {
    cron: times.cron,
    time_zone: times.timeZone,
    alias: body.alias ?? row.alias,
    overlap: body.overlap ?? row.overlap,
    catch_up: body.catchUp ?? row.catch_up,
    state,
    ...(keepsTimes ? {} : { next_at: nextRunAfter(times, now) }),
    input: body.input === undefined ? row.input : JSON.stringify(body.input),
  };
}

export function addScheduleRoutes(app: App, dependencies: ServerDependencies): void {
  const { database } = dependencies;

  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/schedules",
    {
      summary: "Lists the schedules of a tenant",
      description:
        "Inputs of more than 16 KiB are left out (`omitted`). A single schedule is shown with its whole input.",
      params: TenantParamsSchema,
      responses: { 200: json(pageOf(ScheduleSchema), "The schedules") },
    },
    async (c, _input) =>
      respondWithJson(c, { items: (await listSchedules(database.db, c.get("tenant").id)).map(show), next: null }),
  );
  addRoute(
    app,
    dependencies,
    "POST /v1/tenants/{tenant}/schedules",
    {
      summary: "Creates a schedule, which calls a tool at certain times",
      description:
        "Its calls are queued like those with `Prefer: respond-async`, with the id of the schedule as the key.",
      params: TenantParamsSchema,
      body: NewScheduleSchema,
      responses: { 201: json(ScheduleSchema, "The schedule"), 409: { description: "The name is taken" } },
    },
    async (c, { body }) => {
      checkCron(body);
      const tenantId = c.get("tenant").id;
      const now = dependencies.database.clock.now();
      const row = toRow(body, { tenantId, createdBy: c.get("principal").keyId, now });
      const created = await changeExclusively(database, async (transaction) => {
        await checkToolExists(transaction, tenantId, body.tool);
        if ((await countSchedules(transaction, tenantId)) >= MAX_SCHEDULES)
          throw new RequestError("INVALID", `A tenant can have at most ${MAX_SCHEDULES} schedules`);
        const schedule = await insertSchedule(transaction, row);
        const { name, tool, cron, timeZone } = schedule;
        await appendAudit(transaction, {
          actor: c.get("actor"),
          tenantId,
          action: "schedule.created",
          target: row.id,
          details: { name, tool, cron, timeZone },
        });
        return schedule;
      });
      return respondWithEtag(c, show(created), 201);
    },
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/schedules/{schedule}",
    {
      summary: "Returns a schedule",
      params: ScheduleParamsSchema,
      responses: { 200: json(ScheduleSchema, "The schedule") },
    },
    async (c, { params }) => {
      const row = await findSchedule(database.db, c.get("tenant").id, params.schedule);
      if (row === undefined) throw notFound("schedule", params.schedule);
      return respondWithEtag(c, show(toSchedule(row)));
    },
  );
  addRoute(
    app,
    dependencies,
    "PATCH /v1/tenants/{tenant}/schedules/{schedule}",
    {
      summary: "Changes, pauses or resumes a schedule",
      description:
        "A change of the times or the state computes the next run from now on: runs that a paused schedule would have had do not start.",
      params: ScheduleParamsSchema,
      body: ScheduleChangesSchema,
      isConditional: true,
      responses: { 200: json(ScheduleSchema, "The schedule") },
    },
    async (c, { params, body }) => {
      const tenantId = c.get("tenant").id;
      const changed = await changeExclusively(database, async (transaction) => {
        const row = await findSchedule(transaction, tenantId, params.schedule);
        if (row === undefined) return undefined;
        checkIfMatch(c, show(toSchedule(row)).etag ?? undefined);
        const changes = toChanges(row, body, dependencies.database.clock.now());
        const { input: _input, ...details } = body;
        await appendAudit(transaction, {
          actor: c.get("actor"),
          tenantId,
          action: "schedule.changed",
          target: row.id,
          details,
        });
        return await updateSchedule(transaction, row, changes);
      });
      if (changed === undefined) throw notFound("schedule", params.schedule);
      return respondWithEtag(c, show(changed));
    },
  );
  addRoute(
    app,
    dependencies,
    "DELETE /v1/tenants/{tenant}/schedules/{schedule}",
    {
      summary: "Deletes a schedule. Its calls remain",
      params: ScheduleParamsSchema,
      responses: { 200: json(OkSchema, "Deleted") },
    },
    async (c, { params }) => {
      const entry = { action: "schedule.deleted", target: params.schedule, details: {} };
      const isDeleted = await changeAudited(c, dependencies, entry, (transaction) =>
        deleteSchedule(transaction, c.get("tenant").id, params.schedule),
      );
      if (!isDeleted) throw notFound("schedule", params.schedule);
      return respondWithJson(c, { ok: true });
    },
  );
}
