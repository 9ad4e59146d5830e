// Where other replicas reach one: as configured, or found out from the addresses of the machine.
import { afterAll, expect, test } from "vitest";
import { readEnvironment } from "../../src/server/config/environment.ts";
import { parseServerOptions } from "../../src/server/config/server-options.ts";
import { findOwnUrl } from "../../src/server/replicas/peers/own-url.ts";
import { TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

test.for([
  [{ host: "10.0.0.7" }, "http://10.0.0.7:7070"],
  [{ host: "localhost" }, "http://localhost:7070"],
  [{ host: "fd00::7" }, "http://[fd00::7]:7070"],
  [{ host: "0.0.0.0", replicaUrl: "https://one.internal" }, "https://one.internal"],
  [{ host: "127.0.0.1", replicaUrl: "http://[fd00::7]:8080/" }, "http://[fd00::7]:8080"],
  // With SQLite, there are no other replicas.
  [{ host: "10.0.0.7", database: undefined }, undefined],
] as const)("%j is reached at %s", async ([config, url]) => {
  expect(await findOwnUrl({ database: "postgres://db/x", replicaUrl: undefined, ...config }, 7_070)).toBe(url);
});

test("a server that listens on all addresses is reached at the one from which it connects to Postgres", async () => {
  await using store = await stores.create("postgres");
  const { database } = store.options;
  for (const host of ["0.0.0.0", "::"])
    expect(await findOwnUrl({ host, database, replicaUrl: undefined }, 7_071)).toBe("http://127.0.0.1:7071");
});

test("a URL of a replica is an origin", () => {
  const parse = (replicaUrl: unknown) => parseServerOptions({ replicaUrl }).replicaUrl;
  for (const url of ["http://10.0.0.7:7070", "https://one.internal", "http://[fd00::7]:7070", "http://one:80/"])
    expect(parse(url)).toBe(url);
  for (const url of [
    "10.0.0.7:7070",
    "ftp://one",
    "http://one/path",
    "http://user:secret@one",
    "http://one?x",
    "http://",
    7,
  ])
    expect(() => parse(url)).toThrow("replicaUrl");
  expect(readEnvironment({ GLOVEBOX_REPLICA_URL: "http://one:1" })).toEqual({ replicaUrl: "http://one:1" });
});
