// Stores schedules: when a tool is called, in which time zone, and what happens to runs that overlap or were missed.
import { ToolError } from "../../host/index.ts";
import type { Db } from "../database/open-database.ts";
import type { SchedulesTable } from "../database/schema.ts";
import { checkStoredBytes } from "./stored-bytes.ts";

export interface ScheduleRecord {
  readonly id: string;
  readonly name: string;
  readonly tool: string;
  readonly alias: string;
  readonly input: unknown;
  readonly cron: string;
  readonly timeZone: string;
  readonly overlap: SchedulesTable["overlap"];
  readonly catchUp: SchedulesTable["catch_up"];
  readonly state: SchedulesTable["state"];
  readonly nextAt: number | null;
  readonly lastAt: number | null;
  readonly lastCallId: string | null;
  readonly skipped: number;
  readonly createdBy: string;
  readonly createdAt: number;
  readonly updatedAt: number;
}

export const toSchedule = (row: SchedulesTable): ScheduleRecord => ({
  ...{ id: row.id, name: row.name, tool: row.tool_name, alias: row.alias, input: JSON.parse(row.input) },
  ...{ cron: row.cron, timeZone: row.time_zone, overlap: row.overlap, catchUp: row.catch_up, state: row.state },
  ...{ nextAt: row.next_at, lastAt: row.last_at, lastCallId: row.last_call_id, skipped: row.skipped },
  ...{ createdBy: row.created_by, createdAt: row.created_at, updatedAt: row.updated_at },
});

export async function listSchedules(db: Db, tenantId: string): Promise<readonly ScheduleRecord[]> {
  const rows = await db.selectFrom("schedules").selectAll().where("tenant_id", "=", tenantId).orderBy("name").execute();
  return rows.map(toSchedule);
}

export async function findSchedule(db: Db, tenantId: string, id: string): Promise<SchedulesTable | undefined> {
  return await db
    .selectFrom("schedules")
    .selectAll()
    .where("tenant_id", "=", tenantId)
    .where("id", "=", id)
    .executeTakeFirst();
}

const checkInput = (db: Db, tenantId: string, input: string, knownBytes: number): Promise<void> =>
  checkStoredBytes(db, tenantId, {
    what: "The input of the schedule",
    bytes: Buffer.byteLength(input) - knownBytes,
  });

/** @throws {ToolError} NAME_TAKEN; QUOTA_EXCEEDED if the tenant may not store its input */
export async function insertSchedule(db: Db, row: SchedulesTable): Promise<ScheduleRecord> {
  const known = await db
    .selectFrom("schedules")
    .select("id")
    .where("tenant_id", "=", row.tenant_id)
    .where("name", "=", row.name)
    .executeTakeFirst();
  if (known !== undefined)
    throw new ToolError("NAME_TAKEN", `The tenant has a schedule named ${JSON.stringify(row.name)}`);
  await checkInput(db, row.tenant_id, row.input, 0);
  await db.insertInto("schedules").values(row).execute();
  return toSchedule(row);
}

/** @throws {ToolError} QUOTA_EXCEEDED if the tenant may not store its input */
export async function updateSchedule(db: Db, row: SchedulesTable): Promise<ScheduleRecord> {
  const known = await findSchedule(db, row.tenant_id, row.id);
  await checkInput(db, row.tenant_id, row.input, Buffer.byteLength(known?.input ?? ""));
  const changed = { ...row, updated_at: Date.now() };
  const { id, tenant_id: tenantId, ...changes } = changed;
  await db.updateTable("schedules").set(changes).where("tenant_id", "=", tenantId).where("id", "=", id).execute();
  return toSchedule(changed);
}

/** Deletes a schedule. Returns false if there is none. */
export async function deleteSchedule(db: Db, tenantId: string, id: string): Promise<boolean> {
  const { numDeletedRows } = await db
    .deleteFrom("schedules")
    .where("tenant_id", "=", tenantId)
    .where("id", "=", id)
    .executeTakeFirst();
  return numDeletedRows > 0n;
}

/** Returns schedules whose next run is due, the earliest first. */
export async function findDueSchedules(db: Db, now: number, limit: number): Promise<readonly SchedulesTable[]> {
  return await db
    .selectFrom("schedules")
    .selectAll()
    .where("state", "=", "active")
    .where("next_at", "<=", now)
    .orderBy("next_at")
    .limit(limit)
    .execute();
}

/** Moves a schedule on from a run that is due. Returns false if another server has done so. */
export async function advanceSchedule(
  db: Db,
  { id, next_at: dueAt }: SchedulesTable,
  changes: Pick<SchedulesTable, "next_at" | "last_at" | "last_call_id" | "skipped">,
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable("schedules")
    .set(changes)
    .where("id", "=", id)
    .where("state", "=", "active")
    .where("next_at", "=", dueAt)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}
