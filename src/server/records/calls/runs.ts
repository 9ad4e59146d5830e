// Reads durable runs for the API, and stores what the server adds to them: who has started one, with which idempotency key, and whether it is to
// be cancelled. What a run needs to continue is stored by the run store.
import type { RunKey, RunState, RunWait } from "../../../host/index.ts";
import type { Db } from "../../database/open-database.ts";
import { IS_CANCELLED_REQUEST } from "../../database/partial-indexes.ts";
import type { RunEntriesTable, RunRequestsTable, RunsTable } from "../../database/tables/call-tables.ts";
import { type BoundedPage, bytesOfTexts, readBoundedPage } from "../bounded-page.ts";

const OPEN = ["running", "suspended"] as const;
/** The entry of a journal with which a rollback begins. */
const ROLLBACK = '{"type":"rollback",%';
const SUMMARY = [
  ...(["tenant_id", "id", "kind", "tool_name", "tool_version", "state", "fence", "wake_at", "waits"] as const),
  ...(["created_at", "expires_at", "ended_at", "journal_length", "entries"] as const),
] as const;

/** A run without its arguments and its result, which may be long. */
export type RunSummaryRow = Pick<RunsTable, (typeof SUMMARY)[number]> & { readonly key_id: string | null };
/** A whole run. */
export type RunRow = RunsTable & { readonly key_id: string | null };

export interface RunsFilter {
  readonly kind?: RunsTable["kind"] | undefined;
  readonly tool?: string | undefined;
  readonly state?: RunState | undefined;
  /** Runs that wait for something of this kind. */
  readonly wait?: RunWait["kind"] | undefined;
  /** Id of the last run of the page before. */
  readonly before?: string | undefined;
  readonly limit: number;
}

/** Lists the runs of a tenant, the newest first. */
export async function listRuns(
  db: Db,
  tenantId: string,
  { kind, tool, state, wait, before, limit }: RunsFilter,
): Promise<readonly RunSummaryRow[]> {
  let query = db
    .selectFrom("runs")
    .leftJoin("run_requests", (join) =>
      join.onRef("run_requests.tenant_id", "=", "runs.tenant_id").onRef("run_requests.run_id", "=", "runs.id"),
    )
    .select(SUMMARY.map((column) => `runs.${column}` as const))
    .select("run_requests.key_id")
    .where("runs.tenant_id", "=", tenantId);
  if (kind !== undefined) query = query.where("runs.kind", "=", kind);
  if (tool !== undefined) query = query.where("runs.tool_name", "=", tool);
  if (state !== undefined) query = query.where("runs.state", "=", state);
  if (wait !== undefined) query = query.where("runs.waits", "like", `%"kind":"${wait}"%`);
  if (before !== undefined) query = query.where("runs.id", "<", before);
  return await query.orderBy("runs.id", "desc").limit(limit).execute();
}

/** Whether a run waits for something of this kind. Text in a wait can look like one of another kind to the database. */
export const hasWait = ({ waits }: Pick<RunsTable, "waits">, kind: RunWait["kind"]): boolean =>
  (JSON.parse(waits) as readonly RunWait[]).some((wait) => wait.kind === kind);

/** An id that a run can have. A client over MCP can name any other, for which Postgres would fail. */
const RUN_ID = /^[a-z0-9_.]{1,200}$/;

export async function findRun(db: Db, { tenantId, id }: RunKey): Promise<RunRow | undefined> {
  if (!RUN_ID.test(id)) return undefined;
  const query = db.selectFrom("runs").selectAll().where("tenant_id", "=", tenantId);
  const row = await query.where("id", "=", id).executeTakeFirst();
  if (row === undefined) return undefined;
  return { ...row, key_id: (await findRequest(db, { tenantId, id }))?.key_id ?? null };
}

type RunEntryRow = Pick<RunEntriesTable, "position" | "text" | "created_at">;

/** Returns a page of a journal, in order. @param after position of the last entry of the page before */
export async function listRunEntries(
  db: Db,
  { tenantId, id }: RunKey,
  { after, limit }: { readonly after?: number | undefined; readonly limit: number },
): Promise<BoundedPage<RunEntryRow>> {
  const all = db
    .selectFrom("run_entries")
    .select(["position", "text", "created_at"])
    .where("tenant_id", "=", tenantId)
    .where("run_id", "=", id)
    .orderBy("position");
  const read = async (last: RunEntryRow | undefined, size: number): Promise<readonly RunEntryRow[]> => {
    const from = last?.position ?? after;
    return await (from === undefined ? all : all.where("position", ">", from)).limit(size).execute();
  };
  return await readBoundedPage(limit, read, ({ text }) => bytesOfTexts(text));
}

/** Whether the journal of a run has the answer to a wait. */
export const hasAnswer = (db: Db, key: RunKey, kind: "approval" | "elicitation", wait: number): Promise<boolean> =>
  hasEntry(db, key, `{"type":"${kind === "approval" ? "decision" : "elicited"}","wait":${wait},%`);

/** Whether the functions of a run's `ctx.onRollback` run. */
export const isRollingBack = (db: Db, key: RunKey): Promise<boolean> => hasEntry(db, key, ROLLBACK);

async function hasEntry(db: Db, { tenantId, id }: RunKey, pattern: string): Promise<boolean> {
  const row = await db
    .selectFrom("run_entries")
    .select("position")
    .where("tenant_id", "=", tenantId)
    .where("run_id", "=", id)
    .where("text", "like", pattern)
    .executeTakeFirst();
  return row !== undefined;
}

/** Replaces the content of a run that has ended by what may be kept of it. */
export async function replaceContent(
  db: Db,
  { tenantId, id }: RunKey,
  content: Pick<RunsTable, "input" | "result">,
): Promise<void> {
  await db.updateTable("runs").set(content).where("tenant_id", "=", tenantId).where("id", "=", id).execute();
}

export async function replaceEntry(db: Db, { tenantId, id }: RunKey, position: number, text: string): Promise<void> {
  await db
    .updateTable("run_entries")
    .set({ text })
    .where("tenant_id", "=", tenantId)
    .where("run_id", "=", id)
    .where("position", "=", position)
    .execute();
}

export async function deleteEntries(db: Db, { tenantId, id }: RunKey): Promise<void> {
  await db.deleteFrom("run_entries").where("tenant_id", "=", tenantId).where("run_id", "=", id).execute();
}

/** Returns how many runs of a tool, or of one version of it, have not ended. */
export async function countOpenRuns(db: Db, tenantId: string, toolName: string, version?: number): Promise<number> {
  let query = db
    .selectFrom("runs")
    .select(({ fn }) => fn.countAll().as("open"))
    .where("tenant_id", "=", tenantId)
    .where("kind", "=", "tool")
    .where("tool_name", "=", toolName)
    .where("state", "in", OPEN);
  if (version !== undefined) query = query.where("tool_version", "=", String(version));
  return Number((await query.executeTakeFirstOrThrow()).open);
}

/**
 * Stores a request, or takes part in the earlier one of the same caller that has its idempotency key.
 * @returns the stored request; undefined if its key was used by another request
 */
export async function insertRequest(db: Db, row: RunRequestsTable): Promise<RunRequestsTable | undefined> {
  return await db
    .insertInto("run_requests")
    .values(row)
    .onConflict((conflict) =>
      conflict
        .columns(["tenant_id", "idempotency_key"])
        // The earlier request may fail now, and must not delete what both of them need.
        .doUpdateSet((of) => ({ created_at: of("run_requests.created_at", "+", 1) }))
        .where("run_requests.request_hash", "=", row.request_hash)
        .where("run_requests.key_id", "=", row.key_id),
    )
    .returningAll()
    .executeTakeFirst();
}

export async function findRequest(db: Db, { tenantId, id }: RunKey): Promise<RunRequestsTable | undefined> {
  const query = db.selectFrom("run_requests").selectAll().where("tenant_id", "=", tenantId);
  return await query.where("run_id", "=", id).executeTakeFirst();
}

/** Deletes a request whose run has not begun, unless another request takes part in it. */
export async function deleteRequest(db: Db, { tenant_id, run_id, created_at }: RunRequestsTable): Promise<void> {
  const query = db.deleteFrom("run_requests").where("tenant_id", "=", tenant_id).where("run_id", "=", run_id);
  await query.where("created_at", "=", created_at).execute();
}

/** Notes that a run is to be cancelled. */
export async function requestRunCancel(db: Db, { tenantId, id }: RunKey): Promise<void> {
  const query = db.updateTable("run_requests").set({ cancel_requested: 1 }).where("tenant_id", "=", tenantId);
  await query.where("run_id", "=", id).execute();
}

/** Lists runs that have not ended and are to be cancelled, the oldest first. Those that are rolled back are left to their end. */
export async function listToCancel(db: Db, limit: number): Promise<readonly (RunKey & Pick<RunsTable, "kind">)[]> {
  const rows = await db
    .selectFrom("run_requests")
    .innerJoin("runs", (join) =>
      join.onRef("runs.tenant_id", "=", "run_requests.tenant_id").onRef("runs.id", "=", "run_requests.run_id"),
    )
    .select(["runs.tenant_id", "runs.id", "runs.kind"])
    .where(IS_CANCELLED_REQUEST)
    .where("runs.state", "in", OPEN)
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom("run_entries")
            .select("run_entries.position")
            .whereRef("run_entries.tenant_id", "=", "runs.tenant_id")
            .whereRef("run_entries.run_id", "=", "runs.id")
            .where("run_entries.text", "like", ROLLBACK),
        ),
      ),
    )
    .orderBy("runs.id")
    .limit(limit)
    .execute();
  return rows.map(({ tenant_id: tenantId, id, kind }) => ({ tenantId, id, kind }));
}

/**
 * Deletes runs of a tenant that have ended before a time, up to `limit` of them, with their journals.
 * @returns how many were deleted
 */
export async function deleteOldRuns(
  db: Db,
  tenantId: string,
  { before, limit }: { readonly before: number; readonly limit: number },
): Promise<number> {
  const old = await db
    .selectFrom("runs")
    .select("id")
    .where("tenant_id", "=", tenantId)
    .where("ended_at", "<", before)
    .orderBy("id")
    .limit(limit)
    .execute();
  if (old.length === 0) return 0;
  const ids = old.map(({ id }) => id);
  await db.deleteFrom("run_requests").where("tenant_id", "=", tenantId).where("run_id", "in", ids).execute();
  await db.deleteFrom("runs").where("tenant_id", "=", tenantId).where("id", "in", ids).execute();
  return ids.length;
}
