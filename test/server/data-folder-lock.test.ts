// One server for each data folder with SQLite: a second one waits for the end of the first, and does not start beside it.
import { afterAll, expect, test } from "vitest";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { createServer, type Server } from "../../src/server/index.ts";
import { countReplicas } from "../../src/server/replicas/liveness.ts";
import { apiOf } from "./support/api.ts";
import { type TestStore, TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

const start = ({ options }: TestStore): Promise<Server> =>
  createServer({ ...options, port: 0, logLevel: "silent", drainMs: 0 });

test("a server does not start on the data folder of another one", async () => {
  await using store = await stores.create("sqlite");
  await using first = await start(store);
  const { dataDir } = store.options;
  await expect(start(store)).rejects.toMatchObject({
    code: "PARAM_INVALID",
    message: `options.dataDir: Another server uses ${JSON.stringify(dataDir)}. With SQLite, each server needs a data folder of its own. Stop the other one, or choose another folder`,
  });
  const api = apiOf(first, first.adminKey);
  expect((await api("POST", "/v1/tenants", { id: "acme" })).status).toBe(201);
  // What reads the database beside a server, such as a backup, is not denied.
  await using _ = await openDatabase({ dataDir, url: undefined, migrates: false, onError() {} });
});

test("a server starts on the data folder of another one as soon as that has ended", async () => {
  await using store = await stores.create("sqlite");
  const first = await start(store);
  const second = start(store);
  await first.close();
  await using server = await second;
  expect((await fetch(`${server.url}/readyz`)).status).toBe(200);
});

test("tells how many servers use a Postgres database", async () => {
  await using store = await stores.create("postgres");
  const { dataDir, database: url } = store.options;
  const server = await start(store);
  await using database = await openDatabase({ dataDir, url, onError() {} });
  expect(await countReplicas(database.db)).toBe(1);
  await server.close();
  expect(await countReplicas(database.db)).toBe(0);
});
