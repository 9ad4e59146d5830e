// Stores schedules: when a tool is called, in which time zone, and what happens to runs that overlap or were missed.
import { sql } from "kysely";
import { ToolError } from "../../../host/index.ts";
import type { Db } from "../../database/open-database.ts";
import type { SchedulesTable } from "../../database/tables/event-tables.ts";
import { checkStoredBytes } from "../tenants/stored-bytes.ts";

export interface ScheduleRecord {
  readonly id: string;
  readonly name: string;
  readonly tool: string;
  readonly alias: string;
  readonly input: unknown;
  /** Whether a list leaves the input out, because it is large. */
  readonly omitted: boolean;
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

/** Longest input in bytes that a list has. A tenant can have a thousand schedules with inputs of several MiB. */
const LISTED_BYTES = 16_384;

/** The columns of a schedule without its input, which can be large. */
const WITHOUT_INPUT = [
  ...(["id", "tenant_id", "name", "tool_name", "alias", "cron", "time_zone", "overlap", "catch_up", "state"] as const),
  ...(["created_by", "next_at", "last_at", "last_call_id", "skipped", "created_at", "updated_at"] as const),
] as const;

/** A schedule whose next run is due, without its input. */
export type DueSchedule = Omit<SchedulesTable, "input">;

export const toSchedule = (row: DueSchedule & { readonly input: string | null }): ScheduleRecord => ({
  id: row.id,
  name: row.name,
  tool: row.tool_name,
  alias: row.alias,
  input: row.input === null ? null : JSON.parse(row.input),
  omitted: row.input === null,
  cron: row.cron,
  timeZone: row.time_zone,
  overlap: row.overlap,
  catchUp: row.catch_up,
  state: row.state,
  nextAt: row.next_at,
  lastAt: row.last_at,
  lastCallId: row.last_call_id,
  skipped: row.skipped,
  createdBy: row.created_by,
  createdAt: row.created_at,
  updatedAt: row.updated_at,
});

/** Lists the schedules of a tenant by name, without large inputs. */
export async function listSchedules(db: Db, tenantId: string): Promise<readonly ScheduleRecord[]> {
  const rows = await db
    .selectFrom("schedules")
    .select(WITHOUT_INPUT)
    .select(sql<string | null>`case when octet_length(input) <= ${sql.lit(LISTED_BYTES)} then input end`.as("input"))
    .where("tenant_id", "=", tenantId)
    .orderBy("name")
    .execute();
  return rows.map(toSchedule);
}

export async function countSchedules(db: Db, tenantId: string): Promise<number> {
  const query = db.selectFrom("schedules").select(({ fn }) => fn.countAll().as("count"));
  return Number((await query.where("tenant_id", "=", tenantId).executeTakeFirstOrThrow()).count);
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

/** What a client changes of a schedule. The other columns are the scheduler's, which may change them at the same time. */
export type ScheduleChanges = Pick<
  SchedulesTable,
  "cron" | "time_zone" | "alias" | "overlap" | "catch_up" | "state" | "input"
> &
  /** Default: the next run stays as it is, also if the scheduler computes it at the same time. */
  Partial<Pick<SchedulesTable, "next_at">>;

/**
 * @param row the schedule as it was read
 * @throws {ToolError} QUOTA_EXCEEDED if the tenant may not store its input
 */
export async function updateSchedule(
  db: Db,
  { tenant_id: tenantId, id, input }: SchedulesTable,
  changes: ScheduleChanges,
): Promise<ScheduleRecord> {
  await checkInput(db, tenantId, changes.input, Buffer.byteLength(input));
  const changed = await db
    .updateTable("schedules")
    .set({ ...changes, updated_at: Date.now() })
    .where("tenant_id", "=", tenantId)
    .where("id", "=", id)
    .returningAll()
    .executeTakeFirstOrThrow();
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

/** Returns schedules whose next run is due, the earliest first. @param except ids of schedules that are left out */
export async function findDueSchedules(
  db: Db,
  now: number,
  { limit, except }: { readonly limit: number; readonly except: readonly string[] },
): Promise<readonly DueSchedule[]> {
  let query = db
    .selectFrom("schedules")
    .select(WITHOUT_INPUT)
    .where("state", "=", "active")
    .where("next_at", "<=", now)
    .orderBy("next_at")
    .limit(limit);
  if (except.length > 0) query = query.where("id", "not in", except);
  return await query.execute();
}

/** Moves a schedule on from a run that is due. Returns false if another server has done so. */
export async function advanceSchedule(
  db: Db,
  { id, next_at: dueAt }: DueSchedule,
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
