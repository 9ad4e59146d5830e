// The credentials of a fleet: each executor has an id and a pool, which NATS and the executor itself enforce.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { USERS_FILE, writeCredentials } from "../../src/executor/credentials.ts";
import { startExecutor } from "../../src/executor/index.ts";
import { readCredentials } from "../../src/host/fleet/nats-connection.ts";
import { hasNatsServer, startNatsServer } from "../support/nats-server.ts";

const root = mkdtempSync(join(tmpdir(), "glovebox-credentials-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const newFolder = (): string => mkdtempSync(join(root, "folder-"));

describe("credentials of executors", () => {
  test("hold the pool, and NATS lets an executor announce itself in no other", async () => {
    const folder = newFolder();
    await writeCredentials(folder, ["a"]);
    const { executors } = await writeCredentials(folder, ["b"], "eu");
    expect(executors).toEqual([
      { id: "a", pool: "default" },
      { id: "b", pool: "eu" },
    ]);
    const users = readFileSync(join(folder, USERS_FILE), "utf8");
    expect(users.match(/"glovebox\.alive\.[^"]+"/g)?.sort()).toEqual([
      '"glovebox.alive.*.*"',
      '"glovebox.alive.default.a"',
      '"glovebox.alive.eu.b"',
    ]);
    expect(await readCredentials(join(folder, "b.json"), "executor")).toMatchObject({ id: "b", pool: "eu" });
  });

  test("credentials of a file without a pool are of the default pool", async () => {
    const folder = newFolder();
    await writeCredentials(folder, ["a"]);
    const path = join(folder, "a.json");
    const { pool: _, ...old } = JSON.parse(readFileSync(path, "utf8")) as { readonly pool: string };
    writeFileSync(path, JSON.stringify(old));
    expect((await writeCredentials(folder, [])).executors).toEqual([{ id: "a", pool: "default" }]);
    expect(await readCredentials(path, "executor")).toMatchObject({ id: "a", pool: "default" });
  });

  test.for(["", "EU", "a.b", "*", ">", "_local", "x".repeat(64)])("need the name of a pool, not %j", async (pool) => {
    await expect(writeCredentials(newFolder(), ["a"], pool)).rejects.toMatchObject({ code: "PARAM_INVALID" });
  });

  test("credentials are not moved to another pool silently", async () => {
    const folder = newFolder();
    await writeCredentials(folder, ["a"], "eu");
    await expect(writeCredentials(folder, ["b", "a"], "us")).rejects.toThrow(
      'The executor a has credentials of the pool "eu". To move it to "us", delete a.json first',
    );
    expect((await writeCredentials(folder, ["a"], "eu")).executors).toEqual([{ id: "a", pool: "eu" }]);
  });
});

test.skipIf(!hasNatsServer)("an executor does not start for another pool than that of its credentials", async () => {
  const folder = newFolder();
  await writeCredentials(folder, ["a"], "eu");
  await using nats = await startNatsServer({ users: join(folder, USERS_FILE) });
  const options = { url: nats.url, credentials: join(folder, "a.json"), cacheDir: join(folder, "cache") };
  await expect(startExecutor({ ...options, pool: "us" })).rejects.toThrow(
    'The credentials of a are for the pool "eu", not "us". "glovebox executor credentials --pool us" creates some for it',
  );
  await using executor = await startExecutor(options);
  expect(executor).toMatchObject({ id: "a", pool: "eu" });
});
