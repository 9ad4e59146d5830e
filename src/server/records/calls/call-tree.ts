// Reads the calls below a call: what a tree shows of them, and their timelines. Their logs and timelines can have a thousand times the bytes of
// the rest, so these are read in parts of a few MiB.
import { sql } from "kysely";
import type { OpenDatabase } from "../../database/open-database.ts";
import { PAGE_BYTES } from "../bounded-page.ts";
import { Slices } from "../slices.ts";
import { MAX_TIMELINE_LENGTH } from "./call-contents.ts";
import type { CallRow } from "./calls.ts";

const IDS_PER_QUERY = 500;

interface Sized {
  readonly id: string;
  readonly bytes: number;
}

/** Divides rows into parts that one query may read: of at most {@link PAGE_BYTES}, unless a single row has more. */
function* partsOf(rows: readonly Sized[]): Generator<readonly string[]> {
  let part: string[] = [];
  let bytes = 0;
  for (const row of rows) {
    if (part.length === IDS_PER_QUERY || (part.length > 0 && bytes + row.bytes > PAGE_BYTES)) {
      yield part;
      part = [];
      bytes = 0;
    }
    part.push(row.id);
    bytes += row.bytes;
  }
  if (part.length > 0) yield part;
}

const SHOWN = [
  ...(["id", "parent_id", "tool_name", "tool_version", "state", "effects"] as const),
  ...(["created_at", "started_at", "ended_at", "usage"] as const),
] as const;

/** A call as a tree shows it. */
export interface TreeCall extends Pick<CallRow, (typeof SHOWN)[number]> {
  readonly errorCode: string | null;
  readonly logLines: number;
}

/** Returns a call of a client, if it has a row, and up to `limit` calls below it, at any depth. */
export async function listTree(
  { db, kind }: Pick<OpenDatabase, "db" | "kind">,
  { tenantId, rootId }: { readonly tenantId: string; readonly rootId: string },
  limit: number,
): Promise<readonly TreeCall[]> {
  const slices = new Slices();
  const calls = db.selectFrom("calls").where("tenant_id", "=", tenantId);
  const sized = calls
    .select(SHOWN)
    .select(sql<number>`coalesce(octet_length(logs), 0) + coalesce(octet_length(error), 0)`.as("bytes"));
  const rows = await sized.where("id", "=", rootId).execute();
  const nested = sized.where("root_id", "=", rootId).orderBy("id");
  for (let left = limit, after = ""; left > 0; ) {
    const size = Math.min(left, slices.size);
    const slice = await nested.where("id", ">", after).limit(size).execute();
    rows.push(...slice);
    left -= slice.length;
    after = slice.at(-1)?.id ?? after;
    if (slice.length < size) break;
    await slices.next();
  }
  const lines = kind === "postgres" ? sql`json_array_length(logs::json)` : sql`json_array_length(logs)`;
  const facts = new Map<string, Pick<TreeCall, "errorCode" | "logLines">>();
  for (const ids of partsOf(rows.filter(({ bytes }) => bytes > 0))) {
    const part = await calls
      .select(["id", "error"])
      .select(sql<number | null>`case when logs like '[%' then ${lines} end`.as("lines"))
      .where("id", "in", ids)
      .execute();
    for (const { id, error, lines: logLines } of part) {
      const errorCode = error === null ? null : (JSON.parse(error) as { readonly code: string }).code;
      facts.set(id, { errorCode, logLines: logLines ?? 0 });
    }
    await slices.next();
  }
  return rows.map(({ bytes: _, ...row }) => ({ ...row, ...(facts.get(row.id) ?? { errorCode: null, logLines: 0 }) }));
}

/** Returns the timelines of calls, in their order, as JSON text: as many as have {@link MAX_TIMELINE_LENGTH} bytes together. */
export async function listTimelines(
  { db }: Pick<OpenDatabase, "db">,
  tenantId: string,
  ids: readonly string[],
): Promise<readonly Pick<CallRow, "id" | "timeline">[]> {
  const slices = new Slices();
  const calls = db
    .selectFrom("calls")
    .leftJoin("call_contents", (join) =>
      join.onRef("call_contents.call_id", "=", "calls.id").on("call_contents.kind", "=", "timeline"),
    )
    .where("calls.tenant_id", "=", tenantId);
  const bytes = new Map<string, number>();
  for (let start = 0; start < ids.length; start += IDS_PER_QUERY) {
    const part = await calls
      .select("calls.id")
      .select(sql<number>`coalesce(octet_length(calls.timeline), octet_length(call_contents.text), 0)`.as("bytes"))
      .where("calls.id", "in", ids.slice(start, start + IDS_PER_QUERY))
      .execute();
    for (const row of part) bytes.set(row.id, row.bytes);
    await slices.next();
  }
  let left = MAX_TIMELINE_LENGTH;
  const kept: Sized[] = [];
  for (const id of ids) {
    const size = bytes.get(id) ?? 0;
    left -= size;
    if (left < 0) break;
    if (size > 0) kept.push({ id, bytes: size });
  }
  const timelines: Pick<CallRow, "id" | "timeline">[] = [];
  for (const part of partsOf(kept)) {
    const rows = await calls
      .select("calls.id")
      .select(sql<string | null>`coalesce(calls.timeline, call_contents.text)`.as("timeline"))
      .where("calls.id", "in", part)
      .execute();
    timelines.push(...rows);
    await slices.next();
  }
  return timelines;
}
