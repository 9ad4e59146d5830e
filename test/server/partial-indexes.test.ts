// Queries that a server repeats all the time, or for each page of the console: with SQLite, each of them uses an index of the few rows that it is
// about, and does not read the whole table.

import { join } from "node:path";
import { type CompiledQuery, Kysely } from "kysely";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createGlovebox } from "../../src/host/index.ts";
import { SQLITE_FILE } from "../../src/server/config/data-files.ts";
import { type Db, openDatabase } from "../../src/server/database/open-database.ts";
import type { DatabaseSchema } from "../../src/server/database/schema.ts";
import { createSqliteDialect, openSqlite } from "../../src/server/database/sqlite-dialect.ts";
import { findOverdue } from "../../src/server/records/calls/approvals.ts";
import {
  claimCalls,
  countQueued,
  findExpired,
  listWaitingTenants,
} from "../../src/server/records/calls/call-claims.ts";
import { listRecorded } from "../../src/server/records/calls/call-contents.ts";
import { findQueued } from "../../src/server/records/calls/queued-calls.ts";
import { listToCancel } from "../../src/server/records/calls/runs.ts";
import { claimDeliveries, deleteOldDeliveries } from "../../src/server/records/events/webhooks.ts";
import { readOverview } from "../../src/server/records/reports/overview.ts";
import { readProblems } from "../../src/server/records/reports/problems.ts";
import { listWaiting } from "../../src/server/records/tools/tool-versions.ts";
import { DatabaseRunStore } from "../../src/server/runs/database-run-store.ts";
import { TestStores } from "./support/stores.ts";

const stores = new TestStores();
const queries: CompiledQuery[] = [];
let database: ReturnType<typeof openSqlite>;
let db: Db;

beforeAll(async () => {
  const { dataDir } = (await stores.create("sqlite")).options;
  await using _migrated = await openDatabase({ url: undefined, dataDir, onError() {} });
  database = openSqlite(join(dataDir, SQLITE_FILE));
  db = new Kysely<DatabaseSchema>({
    dialect: createSqliteDialect(database),
    log: ({ query }) => {
      queries.push(query);
    },
  });
});
afterAll(async () => {
  await db.destroy();
  await stores[Symbol.asyncDispose]();
});

/** Returns how SQLite runs the queries of a function, as text. */
async function planOf(run: () => Promise<unknown>): Promise<string> {
  queries.length = 0;
  await run();
  return queries
    .splice(0)
    .flatMap(({ sql, parameters }) => database.prepare(`explain query plan ${sql}`).all(...(parameters as [])))
    .map(({ detail }) => String(detail))
    .join("\n");
}

const WHOLE_TABLE = /^SCAN (calls|deliveries|approvals|runs|run_requests|tool_versions)$/m;
const NOW = 1_800_000_000_000;
const SQLITE = { kind: "sqlite" } as const;
const OVERVIEW = { from: NOW - 1, until: NOW, buckets: 1 };
const DUE = { kind: "tool", perTenant: 1, limit: 1 };

test.for([
  ["claim calls", "calls_open", () => claimCalls({ db, ...SQLITE }, 1, { owner: "a", until: NOW, now: NOW })],
  [
    "claim calls of some tenants",
    "calls_queued",
    () =>
      claimCalls({ db, ...SQLITE }, 9, {
        owner: "a",
        until: NOW,
        now: NOW,
        tenants: new Map([
          ["acme", 2],
          ["beta", 1],
        ]),
      }),
  ],
  ["list tenants with queued calls", "calls_queued", () => listWaitingTenants(db, { now: NOW, after: "", limit: 9 })],
  ["count queued calls up to a limit", "calls_queued", () => countQueued(db, "acme", 9)],
  ["find calls whose process is gone", "calls_open", () => findExpired(db, NOW)],
  ["find queued calls", "calls_open", () => findQueued(db, { dueBefore: NOW, after: undefined, limit: 1 })],
  ["count queued calls of all tenants", "calls_open", () => readOverview(db, OVERVIEW)],
  ["count queued calls of a tenant", "calls_queued", () => readOverview(db, { ...OVERVIEW, tenantId: "acme" })],
  [
    "list recorded calls",
    "calls_recorded",
    () => listRecorded(db, { tenantId: "acme", toolName: "tool", since: 0, limit: 1 }),
  ],
  [
    "claim deliveries",
    "deliveries_open",
    () => claimDeliveries({ db, ...SQLITE }, { limit: 1, until: NOW, except: [], now: NOW }),
  ],
  ["find old deliveries", "deliveries_ended", () => deleteOldDeliveries(db, "acme", { before: NOW, limit: 1 })],
  ["find approvals whose time is over", "approvals_pending", () => findOverdue(db, NOW)],
  ["find runs that are due", "runs_open", () => new DatabaseRunStore({ db, ...SQLITE }).due(NOW, DUE)],
  ["list runs to cancel", "run_requests_cancelled", () => listToCancel(db, 1)],
  ["list versions that wait", "tool_versions_waiting", () => listWaiting(db, "acme", 1)],
] as const)("to %s, SQLite uses the index %s", async ([, index, run]) => {
  const plan = await planOf(run);
  expect(plan).toMatch(new RegExp(` ${index}\\b`));
  expect(plan).not.toMatch(WHOLE_TABLE);
});

test("to find problems, SQLite reads no whole table", async () => {
  await using glovebox = await createGlovebox({ workers: { warmProcesses: 0 } });
  const overview = await readOverview(db, OVERVIEW);
  const plan = await planOf(() => readProblems({ db, tenantId: undefined, now: NOW }, glovebox, overview));
  for (const index of ["tool_versions_waiting", "runs_open"]) expect(plan).toContain(` ${index}`);
  expect(plan).not.toMatch(WHOLE_TABLE);
});
