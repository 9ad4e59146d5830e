// Lists stored calls page by page, and searches them.
import { type SelectQueryBuilder, sql } from "kysely";
import type { Db } from "../../database/open-database.ts";
import type { DatabaseSchema } from "../../database/schema.ts";
import type { StoredCallState } from "../../database/tables/call-tables.ts";
import { rootOf } from "../../ids.ts";
import { bytesOfTexts, readBoundedPage } from "../bounded-page.ts";
import { Slices } from "../slices.ts";
import type { CallRow } from "./calls.ts";

export interface CallFilter {
  readonly tool?: string | undefined;
  readonly version?: number | undefined;
  readonly state?: StoredCallState | undefined;
  /** Least time in ms from acceptance to the result. */
  readonly minMs?: number | undefined;
  /** Text that the input, output, error or logs contain. Large inputs and outputs, which have a table of their own, are not searched. */
  readonly text?: string | undefined;
  /** Whether calls that other calls made are listed too. @default false */
  readonly nested?: boolean | undefined;
  /** The call that made the listed ones. */
  readonly parent?: string | undefined;
  /** Id of the last call of the page before. */
  readonly before?: string | undefined;
  readonly limit: number;
}

/** Calls that one page of a filtered list looks at: a filter that matches nothing must not read the whole table. */
const MAX_SEARCHED = 20_000;

export interface CallPage {
  readonly rows: readonly CallRow[];
  /**
   * Id from which the next page continues; null on the last one. A page can have fewer calls than `limit` and not be
   * the last: of a filtered list, or of long calls.
   */
  readonly next: string | null;
}

/** Returns whether a list is a search, which may have to read many calls for few results. */
export const isSearch = ({ tool, version, state, minMs, text }: CallFilter): boolean =>
  [tool, version, state, minMs, text].some((value) => value !== undefined);

/** All columns of a call but its logs and its timeline. */
// biome-ignore format: several columns in a line
const LISTED = [
  "id", "tenant_id", "tool_name", "tool_version", "alias", "mode", "state", "effects", "key_id", "session_id",
  "idempotency_key", "request_hash", "timeout_ms", "input", "output", "content", "error", "usage", "calls",
  "created_at", "started_at", "ended_at", "run_at", "lease_owner", "lease_until", "fence", "attempts",
  "cancel_requested", "parent_id", "root_id", "approval_id",
] as const;

/** Lists the newest calls first. Ids sort by time. @param tenantId default: all tenants */
export async function listCalls(db: Db, tenantId: string | undefined, filter: CallFilter): Promise<CallPage> {
  const { nested = false, parent, before, limit } = filter;
  // Logs and timelines are not shown in lists, and can have most of the bytes of a call.
  let query = db
    .selectFrom("calls")
    .select(LISTED)
    .select([sql<null>`null`.as("logs"), sql<null>`null`.as("timeline")])
    .orderBy("id", "desc");
  if (tenantId !== undefined) query = query.where("tenant_id", "=", tenantId);
  // The index by root begins with the id of the outermost call, which is the beginning of the id of each call below it.
  if (parent !== undefined) query = query.where("root_id", "=", rootOf(parent)).where("parent_id", "=", parent);
  else if (!nested) query = query.where("parent_id", "is", null);
  if (isSearch(filter)) return await searchCalls(query, filter);
  const read = async (last: CallRow | undefined, count: number): Promise<readonly CallRow[]> => {
    const cursor = last?.id ?? before;
    const rest = cursor === undefined ? query : query.where("id", "<", cursor);
    return await rest.limit(count).execute();
  };
  const { rows, hasMore } = await readBoundedPage(limit, read, bytesOfCall);
  return { rows, next: hasMore ? (rows.at(-1)?.id ?? null) : null };
}

const bytesOfCall = ({ input, output, error, calls }: CallRow): number => bytesOfTexts(input, output, error, calls);

type CallQuery = SelectQueryBuilder<DatabaseSchema, "calls", CallRow>;

/** Reads a page of a filtered list in slices, so that the event loop is free between them. */
async function searchCalls(all: CallQuery, { before, limit, ...filter }: CallFilter): Promise<CallPage> {
  const slices = new Slices();
  let cursor: string | undefined;
  let searched = 0;
  /** Returns the next calls that match. If there are fewer than `count`, `cursor` is where the search has ended. */
  const read = async (last: CallRow | undefined, count: number): Promise<readonly CallRow[]> => {
    const found: CallRow[] = [];
    cursor = last?.id ?? before;
    for (;;) {
      const query = cursor === undefined ? all : all.where("id", "<", cursor);
      const size = Math.min(slices.size, MAX_SEARCHED - searched);
      // The oldest call of this slice; undefined if it reaches the end of the list.
      const oldest = await query
        .clearSelect()
        .select("id")
        .offset(size - 1)
        .limit(1)
        .executeTakeFirst();
      const slice = oldest === undefined ? query : query.where("id", ">=", oldest.id);
      found.push(
        ...(await matching(slice, filter)
          .limit(count - found.length)
          .execute()),
      );
      await slices.next();
      if (found.length === count) return found;
      searched += size;
      cursor = oldest?.id;
      if (cursor === undefined || searched >= MAX_SEARCHED) return found;
    }
  };
  const { rows, hasMore } = await readBoundedPage(limit, read, bytesOfCall);
  return { rows, next: (hasMore ? rows.at(-1)?.id : cursor) ?? null };
}

function matching(
  all: CallQuery,
  { tool, version, state, minMs, text }: Omit<CallFilter, "before" | "limit">,
): CallQuery {
  let query = all;
  if (tool !== undefined) query = query.where("tool_name", "=", tool);
  if (version !== undefined) query = query.where("tool_version", "=", version);
  if (state !== undefined) query = query.where("state", "=", state);
  if (minMs !== undefined) query = query.where(sql<boolean>`ended_at - created_at >= ${minMs}`);
  if (text === undefined) return query;
  // `!` escapes, because a backslash means something else in each database.
  const pattern = `%${text.toLowerCase().replaceAll(/[!%_]/g, "!$&")}%`;
  const matches = ["input", "output", "error", "logs"].map(
    (column) => sql<boolean>`lower(${sql.ref(column)}) like ${pattern} escape '!'`,
  );
  return query.where((of) => of.or(matches));
}
