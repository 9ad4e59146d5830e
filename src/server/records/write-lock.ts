// Runs a change in a transaction, together with its audit record. Changes of the API run one after the other, also among several server
// processes: the audit log is a chain, and a change may depend on what it has read.
import { sql } from "kysely";
import type { DatabaseKind } from "../database/column-types.ts";
import type { Db } from "../database/open-database.ts";

/** Key of the advisory lock in Postgres: any number that nothing else in the database uses. */
const ADVISORY_LOCK = 7_070_001;
/** Longest time in ms that a change waits for those before it in this process: as long as Postgres lets a statement wait for the lock. */
const WAIT_MS = 30_000;

/** The end of the last change of each database. */
const lastChanges = new WeakMap<Db, Promise<void>>();

/** @throws an error as that of Postgres when a statement has waited too long for the lock, so that both are reported in the same way */
async function waitAtMost(ms: number, before: Promise<void>): Promise<void> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    const error = new Error(`The change has waited ${ms} ms for those before it`);
    reject(Object.assign(error, { code: "57014", severity: "ERROR" }));
  }, ms);
  try {
    await Promise.race([before, promise]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Runs a change of configuration (not a call) in a transaction that no other one overlaps, after those of this process that were begun before.
 * @param waitMs longest time in ms that it waits for them
 * @throws what `change` throws, or that the change has waited too long; nothing is stored then
 */
export async function changeExclusively<Value>(
  { db, kind }: { readonly db: Db; readonly kind: DatabaseKind },
  change: (transaction: Db) => Promise<Value>,
  waitMs: number = WAIT_MS,
): Promise<Value> {
  // SQLite has one connection, which a transaction holds until its end.
  if (kind === "sqlite") return await db.transaction().execute(change);
  // A transaction that waits for the lock holds a connection. Only one of a process does, so that calls and requests have the others.
  const before = lastChanges.get(db) ?? Promise.resolve();
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  lastChanges.set(
    db,
    before.then(() => ended),
  );
  try {
    await waitAtMost(waitMs, before);
    return await db.transaction().execute(async (transaction) => {
      await sql`select pg_advisory_xact_lock(${ADVISORY_LOCK})`.execute(transaction);
      return await change(transaction);
    });
  } finally {
    end();
  }
}
