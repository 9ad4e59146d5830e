// The embedded store: what holds for every store, and what it promises beyond: durable, safe for several processes, off the event loop.
import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
// biome-ignore lint/correctness/noUnresolvedImports: Biome does not know this one of Node's modules
import { DatabaseSync } from "node:sqlite";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { SqliteKvStore } from "../../../src/host/capabilities/kv/kv-sqlite.ts";
import { LagMeter } from "../../hostile/assertions.ts";
import { json, newSpace, testKvStore } from "./kv-store-conformance.ts";

let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "glovebox-kv-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

let files = 0;
const newPath = (): string => {
  files += 1;
  return join(folder, `made/for/it/${files}.sqlite`);
};
function open(path: string): SqliteKvStore {
  const store = new SqliteKvStore(path);
  onTestFinished(() => store[Symbol.asyncDispose]());
  return store;
}
const textOf = async (store: SqliteKvStore, space: ReturnType<typeof newSpace>, key: string): Promise<string> =>
  Buffer.from((await store.get(space, key))?.data ?? []).toString();

testKvStore("SqliteKvStore", async () => new SqliteKvStore(newPath()));

describe("SqliteKvStore", () => {
  test("opens its file on the first request, readable for its owner only", async () => {
    const path = newPath();
    const store = open(path);
    await expect(stat(path)).rejects.toThrow("ENOENT");
    await store.set(newSpace(), "k", json(1));
    expect([(await stat(path)).mode & 0o777, (await stat(join(path, ".."))).mode & 0o777]).toEqual([0o600, 0o700]);
  });

  test("has its entries when it is opened again", async () => {
    const path = newPath();
    const space = newSpace();
    const first = open(path);
    await first.set(space, "k", json("kept"));
    await first[Symbol.asyncDispose]();
    expect(await textOf(open(path), space, "k")).toBe('"kept"');
  });

  test("completes requests from before it is closed, and rejects later ones", async () => {
    const path = newPath();
    const space = newSpace();
    const store = open(path);
    const writes = Array.from({ length: 600 }, (_, index) => store.set(space, `k${index}`, json(index)));
    await store[Symbol.asyncDispose]();
    await store[Symbol.asyncDispose]();
    expect((await Promise.all(writes)).every(({ status }) => status === "stored")).toBe(true);
    await expect(store.get(space, "k1")).rejects.toThrow("The kv store is closed");
    expect(await open(path).usage(space)).toMatchObject({ keys: 600 });
  });

  test("is safe for two stores on one file that count up the same number", async () => {
    const path = newPath();
    const space = newSpace();
    const stores = [open(path), open(path)];
    const countUp = async (store: SqliteKvStore): Promise<void> => {
      const entry = await store.get(space, "n");
      const n = entry === undefined ? 0 : Number(Buffer.from(entry.data).toString());
      const { status } = await store.set(space, "n", json(n + 1, { ifVersion: entry?.version ?? null }));
      if (status !== "stored") await countUp(store);
    };
    const each = async (store: SqliteKvStore): Promise<void> => {
      for (let times = 0; times < 50; times += 1) await countUp(store);
    };
    await Promise.all(stores.map(each));
    expect(await textOf(stores[0] as SqliteKvStore, space, "n")).toBe("100");
  });

  test("keeps confirmed writes when its process is killed", async () => {
    const path = newPath();
    const child = fork(new URL("./kv-writer-script.ts", import.meta.url), [path], { execArgv: [] });
    let last = -1;
    child.on("message", (stored) => {
      last = Number(stored);
      if (last >= 200) child.kill("SIGKILL");
    });
    await once(child, "exit");
    const space = { tenantId: "acme", tool: "tenant/writer" };
    const store = open(path);
    expect(last).toBeGreaterThanOrEqual(200);
    expect((await store.usage(space)).keys).toBeGreaterThan(last);
    expect(await textOf(store, space, `k${last}`)).toBe(String(last));
  });

  test("does not block the event loop while another process locks the file", async () => {
    const path = newPath();
    const space = newSpace();
    const store = open(path);
    await store.set(space, "k", json(1));
    const other = new DatabaseSync(path);
    other.exec("BEGIN IMMEDIATE");
    const waiting = store.set(space, "k", json(2));
    using lag = new LagMeter();
    await pause(150);
    await lag.expectPrompt();
    other.exec("COMMIT");
    other.close();
    expect((await waiting).status).toBe("stored");
  });

  test("rejects when its file cannot be used, and works when it can again", async () => {
    const path = newPath();
    const store = open(path);
    await rm(join(folder, "made"), { recursive: true, force: true });
    await writeFile(join(folder, "made"), "a file where the folder should be");
    await expect(store.set(newSpace(), "k", json(1))).rejects.toThrow("The thread of the kv store ended");
    await rm(join(folder, "made"));
    expect((await store.set(newSpace(), "k", json(1))).status).toBe("stored");
  });

  test("rejects a file of a later version of Glovebox", async () => {
    const path = join(folder, "later.sqlite");
    const other = new DatabaseSync(path);
    other.exec("PRAGMA user_version = 7");
    other.close();
    const thrown = await open(path)
      .get(newSpace(), "k")
      .catch((reason: Error) => reason);
    expect(String((thrown as Error).cause)).toContain("The kv file has format 7, but this version supports up to 1");
  });

  /** Returns the texts that occur in the store's files, including its log and index. */
  const findInFiles = async (path: string, texts: readonly string[]): Promise<string[]> => {
    const names = (await readdir(dirname(path))).filter((name) => name.startsWith(basename(path)));
    const files = await Promise.all(names.map((name) => readFile(join(dirname(path), name))));
    return texts.filter((text) => files.some((file) => file.includes(text)));
  };

  test.for([8, 200, 5_000, 300_000])(
    "leaves nothing of a deleted tenant in its files: values of %i bytes",
    async (length) => {
      const path = newPath();
      const store = open(path);
      const text = (name: string): string => `${name}-`.repeat(Math.ceil(length / (name.length + 1)));
      const value = (name: string) => json(0, { kind: "bytes", data: Buffer.from(text(name)) });
      const [own, other] = [
        { tenantId: "leaver-tenant", tool: "tenant/leaver-tool" },
        { tenantId: "stayer-tenant", tool: "tenant/t" },
      ];
      for (let index = 0; index < 40; index += 1) {
        await store.set(own, `leaver-key-${index}-${"k".repeat(index * 20)}`, value("leaver-value"));
        await store.set(other, `stayer-key-${index}`, value("stayer-value"));
      }
      await store.set(own, "leaver-key-0-", value("leaver-second"));
      await store.set(own, "leaver-overwritten", value("leaver-before"));
      await store.set(own, "leaver-overwritten", json(1));
      await store.set(own, "leaver-deleted", value("leaver-removed"));
      await store.delete(own, "leaver-deleted");
      await store.set(own, "leaver-expired", value("leaver-late"));
      await store.set(own, "leaver-expired", json(0, { data: Buffer.from("leaver-end"), expiresAt: Date.now() + 1 }));
      expect(await findInFiles(path, ["leaver", "stayer-value"])).toEqual(["leaver", "stayer-value"]);
      await store.deleteTenant(own.tenantId);
      expect(await findInFiles(path, ["leaver", "stayer-value", "stayer-tenant"])).toEqual([
        "stayer-value",
        "stayer-tenant",
      ]);
      expect((await store.usage(other)).keys).toBe(40);
      await store[Symbol.asyncDispose]();
      expect(await findInFiles(path, ["leaver"])).toEqual([]);
    },
  );

  test("leaves nothing of a tenant whose values were deleted without secure_delete", async () => {
    const path = newPath();
    const first = open(path);
    const space = { tenantId: "leaver-tenant", tool: "tenant/t" };
    await first.set(space, "k", json("leaver-value".repeat(1_000)));
    await first[Symbol.asyncDispose]();
    const old = new DatabaseSync(path);
    old.exec("PRAGMA secure_delete = OFF; DELETE FROM entries; UPDATE spaces SET keys = 0, bytes = 0");
    old.close();
    expect(await findInFiles(path, ["leaver-value"])).toEqual(["leaver-value"]);
    expect(await open(path).deleteTenant("leaver-tenant")).toEqual({ keys: 0, bytes: 0 });
    expect(await findInFiles(path, ["leaver"])).toEqual([]);
  });

  test("rejects a deletion whose log cannot be emptied, and finishes it when it is repeated", async () => {
    const path = newPath();
    const store = open(path);
    const space = { tenantId: "leaver-tenant", tool: "tenant/t" };
    await store.set(space, "k", json("leaver-value"));
    const reader = new DatabaseSync(path);
    reader.exec("BEGIN");
    reader.prepare("SELECT count(*) FROM entries").get();
    await expect(store.deleteTenant("leaver-tenant")).rejects.toThrow();
    reader.exec("COMMIT");
    reader.close();
    await store.deleteTenant("leaver-tenant");
    expect(await findInFiles(path, ["leaver"])).toEqual([]);
  });

  test("stores and returns large values a few at a time, each for its request", async () => {
    const space = newSpace();
    const store = open(newPath());
    const indexes = Array.from({ length: 60 }, (_, index) => index);
    // Made before the measurement, which is about the store.
    const values = indexes.map((index) => Buffer.alloc(700_000, String(index % 10)));
    using lag = new LagMeter();
    await Promise.all(values.map((data, index) => store.set(space, `k${index}`, json(0, { kind: "bytes", data }))));
    const answers = await Promise.all([
      ...indexes.map((index) => store.get(space, `k${index}`)),
      store.list(space, { prefix: "", limit: 100, bytes: 3e6 }),
      store.usage(space),
    ]);
    await lag.expectPrompt();
    for (const [index, value] of values.entries()) {
      const { data = [] } = answers[index] as { readonly data?: Uint8Array };
      expect(Buffer.compare(Buffer.from(data), value)).toBe(0);
    }
    expect(answers.slice(60)).toMatchObject([{ entries: { length: 4 }, more: true }, { keys: 60 }]);
  });

  test("lists 20,000 keys in pages without blocking", async () => {
    const space = newSpace();
    const store = open(newPath());
    const total = 20_000;
    for (let done = 0; done < total; done += 5_000) {
      const keys = Array.from({ length: 5_000 }, (_, index) => `k${String(done + index).padStart(6, "0")}`);
      await Promise.all(keys.map((key) => store.set(space, key, json(1))));
    }
    let seen = 0;
    for (let after: string | undefined, more = true; more; ) {
      const page = await store.list(space, { prefix: "k", limit: 1_000, bytes: 1e6, after });
      seen += page.entries.length;
      more = page.more;
      after = page.entries.at(-1)?.key;
    }
    expect([seen, await store.usage(space)]).toEqual([total, { keys: total, bytes: 8 * total }]);
  });
});
