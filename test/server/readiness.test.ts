// Whether load balancers should send requests to a server whose database can be read and not written: a full disk, or a read-only Postgres.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, statfs, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { sql } from "kysely";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { createServer } from "../../src/server/index.ts";
import { TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

const CHILD = fileURLToPath(new URL("./support/server-child.ts", import.meta.url));
const REASON = "The server's database accepts no writes";

async function readiness(url: string): Promise<readonly [number, string | undefined]> {
  const response = await fetch(`${url}/readyz`);
  const { error } = (await response.json()) as { readonly error?: { readonly message: string } };
  return [response.status, error?.message];
}

const hasPrlimit = (() => {
  try {
    execFileSync("prlimit", ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
})();

test.skipIf(!hasPrlimit)("a server whose files cannot grow is not ready until they can", async () => {
  await using store = await stores.create("sqlite");
  const child = spawn(process.execPath, [CHILD, JSON.stringify(store.options)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(async () => {
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  });
  const { value } = await createInterface(child.stdout)[Symbol.asyncIterator]().next();
  const { url, adminKey } = JSON.parse(String(value)) as { readonly url: string; readonly adminKey: string };
  const setLargestFile = (bytes: string): void => {
    execFileSync("prlimit", ["--pid", String(child.pid), `--fsize=${bytes}:`]);
  };
  expect(await readiness(url)).toEqual([200, undefined]);
  setLargestFile("0");
  await expect.poll(() => readiness(url)).toEqual([503, REASON]);
  // It can still be read, and its process runs.
  const headers = { authorization: `Bearer ${adminKey}` };
  expect((await fetch(`${url}/v1/tenants`, { headers })).status).toBe(200);
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
  setLargestFile("unlimited");
  await expect.poll(() => readiness(url)).toEqual([200, undefined]);
});

/** Mounts a file system of this size, in MiB. Returns undefined where this user may not mount one. */
async function mountSmallDisk(sizeMiB: number): Promise<string | undefined> {
  const folder = await mkdtemp(join(tmpdir(), "glovebox-disk-"));
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${sizeMiB}m`, "tmpfs", folder], { stdio: "ignore" });
    return folder;
  } catch {
    await rm(folder, { recursive: true });
    return undefined;
  }
}

test("a server whose disk is full is not ready until there is space, although SQLite's log can still take a little", async ({
  skip,
}) => {
  const folder = await mountSmallDisk(32);
  if (folder === undefined) return skip("This user may not mount a file system");
  onTestFinished(async () => {
    execFileSync("umount", ["--lazy", folder]);
    await rm(folder, { recursive: true });
  });
  await using server = await createServer({ dataDir: folder, port: 0, logLevel: "silent" });
  expect(await readiness(server.url)).toEqual([200, undefined]);
  const { bavail, bsize } = await statfs(folder);
  const filling = join(folder, "filling");
  await writeFile(filling, new Uint8Array(bavail * bsize - 64 * 1024));
  await expect.poll(() => readiness(server.url)).toEqual([503, REASON]);
  await rm(filling);
  await expect.poll(() => readiness(server.url)).toEqual([200, undefined]);
});

test("a server whose Postgres accepts no writes is not ready until it does", async () => {
  await using store = await stores.create("postgres");
  await using server = await createServer({ ...store.options, port: 0, logLevel: "silent" });
  expect(await readiness(server.url)).toEqual([200, undefined]);
  const { options } = store;
  await using database = await openDatabase({ url: options.database, dataDir: options.dataDir, onError() {} });
  const { db } = database;
  await sql`
    create function fail() returns trigger as $$ begin raise exception 'no space left' using errcode = '53100'; end $$
    language plpgsql`.execute(db);
  await sql`create trigger full_disk before update on replicas execute function fail()`.execute(db);
  await expect.poll(() => readiness(server.url)).toEqual([503, REASON]);
  await sql`drop trigger full_disk on replicas`.execute(db);
  await expect.poll(() => readiness(server.url)).toEqual([200, undefined]);
});

test("a check that waits for the database ends, and is made once at a time", async () => {
  await using store = await stores.create("postgres");
  await using server = await createServer({ ...store.options, port: 0, logLevel: "silent" });
  const { options } = store;
  await using database = await openDatabase({ url: options.database, dataDir: options.dataDir, onError() {} });
  await database.db.transaction().execute(async (transaction) => {
    await sql`lock table tenants in access exclusive mode`.execute(transaction);
    const replies = await Promise.all(Array.from({ length: 30 }, () => readiness(server.url)));
    expect(new Set(replies.map(String))).toEqual(new Set(["503,The server cannot reach its database"]));
    const { rows } = await sql<{ count: string }>`
      select count(*) from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock' and query like 'select "id" from "tenants"%'`.execute(
      transaction,
    );
    expect(Number(rows[0]?.count)).toBe(1);
  });
  await expect.poll(() => readiness(server.url)).toEqual([200, undefined]);
});
