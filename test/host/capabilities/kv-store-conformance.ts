// Behaviour of every KvStore. The test of each implementation runs it.
import { setTimeout as pause } from "node:timers/promises";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type {
  KvDeletion,
  KvListOptions,
  KvQuota,
  KvSetOutcome,
  KvSpace,
  KvStore,
  KvTenantEntry,
  KvWrite,
} from "../../../src/host/capabilities/kv/kv-store.ts";

const AMPLE: KvQuota = { keys: 1_000_000, bytes: 1e9 };

export const json = (value: unknown, options: Partial<KvWrite> = {}): KvWrite => ({
  kind: "json",
  data: Buffer.from(JSON.stringify(value)),
  quota: AMPLE,
  ...options,
});

let spaces = 0;
export function newSpace(): KvSpace {
  spaces += 1;
  return { tenantId: "acme", tool: `tenant/tool-${spaces}` };
}

const ALL: KvListOptions = { prefix: "", limit: 1_000, bytes: 1e9 };
const versionOf = (outcome: KvSetOutcome): string => {
  if (outcome.status !== "stored") throw new Error(`Expected it to be stored, got ${outcome.status}`);
  return outcome.version;
};

const STRANGE_KEYS = [
  "__proto__",
  "constructor",
  "a\0b",
  "\0",
  "a'; DROP TABLE entries;--",
  "%",
  "_",
  "*",
  " ",
  "é",
  "e\u0301",
  "😀",
  "\uffff",
  "x".repeat(1_024),
];

/** @param make called once; the suite disposes of what it gives */
export function testKvStore(name: string, make: () => Promise<KvStore>): void {
  describe(name, () => {
    let store: KvStore;
    beforeAll(async () => {
      store = await make();
    });
    afterAll(async () => {
      await store[Symbol.asyncDispose]?.();
    });
    const keysOf = async (space: KvSpace, options: Partial<KvListOptions> = {}): Promise<string[]> =>
      (await store.list(space, { ...ALL, ...options })).entries.map(({ key }) => key);
    const fill = async (space: KvSpace, keys: readonly string[]): Promise<void> => {
      // Few at once: a database has a limited number of connections, and a limited time to wait for one.
      for (let start = 0; start < keys.length; start += 20) {
        await Promise.all(keys.slice(start, start + 20).map((key) => store.set(space, key, json(key))));
      }
    };

    test("returns a stored value unchanged until it is overwritten or deleted", async () => {
      const space = newSpace();
      expect(await store.get(space, "a")).toBeUndefined();
      const version = versionOf(await store.set(space, "a", json({ n: 1 })));
      const entry = await store.get(space, "a");
      expect({ ...entry, data: Buffer.from(entry?.data ?? []).toString() }).toEqual({
        key: "a",
        kind: "json",
        data: '{"n":1}',
        version,
      });
      const bytes = Uint8Array.from({ length: 256 }, (_, index) => index);
      await store.set(space, "a", json(0, { kind: "bytes", data: bytes }));
      expect(await store.get(space, "a")).toMatchObject({ kind: "bytes" });
      expect(Uint8Array.from((await store.get(space, "a"))?.data ?? [])).toEqual(bytes);
      expect(await store.delete(space, "a")).toEqual({ status: "deleted" });
      expect(await store.delete(space, "a")).toEqual({ status: "missing" });
      expect(await store.get(space, "a")).toBeUndefined();
    });

    test.for([0, 1, 70_000, 1_000_000])("keeps values of %i bytes", async (length) => {
      const space = newSpace();
      const data = Buffer.alloc(length, "ab");
      await store.set(space, "k", json(0, { kind: "bytes", data }));
      expect(Buffer.compare(Buffer.from((await store.get(space, "k"))?.data ?? []), data)).toBe(0);
    });

    test("is not affected by later changes of the given data", async () => {
      const space = newSpace();
      const data = Buffer.from("1");
      await store.set(space, "k", json(0, { data }));
      data[0] = 50;
      expect(Buffer.from((await store.get(space, "k"))?.data ?? []).toString()).toBe("1");
    });

    test("tells any two keys apart, and orders them by code points", async () => {
      const space = newSpace();
      await fill(space, STRANGE_KEYS);
      const ordered = STRANGE_KEYS.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
      expect(await keysOf(space)).toEqual(ordered);
      for (const key of STRANGE_KEYS) expect((await store.get(space, key))?.key).toBe(key);
      // In UTF-16 it would be the other way round.
      expect(ordered.indexOf("\uffff")).toBeLessThan(ordered.indexOf("😀"));
    });

    test("tells any two spaces apart", async () => {
      const names: readonly KvSpace[] = [
        { tenantId: "a", tool: "tenant/b" },
        { tenantId: "a", tool: "global/b" },
        { tenantId: 'a","tenant/b', tool: "" },
        { tenantId: "\ud800", tool: "tenant/b" },
        { tenantId: "\ufffd", tool: "tenant/b" },
        { tenantId: "a\0", tool: "tenant/b" },
        { tenantId: "__proto__", tool: "tenant/b" },
      ];
      for (const [index, space] of names.entries()) await store.set(space, "k", json(index));
      for (const [index, space] of names.entries()) {
        expect(Buffer.from((await store.get(space, "k"))?.data ?? []).toString()).toBe(String(index));
        expect(await store.usage(space)).toEqual({ keys: 1, bytes: 2 });
      }
    });

    test("lists by prefix in pages, each beginning after the last key of the one before", async () => {
      const space = newSpace();
      const keys = Array.from({ length: 25 }, (_, index) => `user/${String(index).padStart(2, "0")}`);
      await fill(space, ["use", "user", ...keys, "user0", "usf", "😀"]);
      const seen: string[] = [];
      for (let after: string | undefined; ; ) {
        const page = await store.list(space, { ...ALL, prefix: "user/", limit: 10, after });
        seen.push(...page.entries.map(({ key }) => key));
        after = page.entries.at(-1)?.key;
        if (!page.more) break;
      }
      expect(seen).toEqual(keys);
      expect(await keysOf(space, { prefix: "user", after: "user/24" })).toEqual(["user0"]);
      expect(await keysOf(space, { prefix: "user/", after: "a" })).toEqual(keys);
      expect(await keysOf(space, { prefix: "user/", after: "z" })).toEqual([]);
      expect(await keysOf(space, { prefix: "😀" })).toEqual(["😀"]);
    });

    test("ends a page where its bytes do, with one entry at least, and says whether there are more", async () => {
      const space = newSpace();
      await fill(space, ["a", "b", "c"]);
      const list = (bytes: number, limit = 10) => store.list(space, { ...ALL, bytes, limit });
      expect(await list(1)).toMatchObject({ entries: [{ key: "a" }], more: true });
      expect(await list(8)).toMatchObject({ entries: [{ key: "a" }, { key: "b" }], more: true });
      expect(await list(12)).toMatchObject({ more: false });
      expect(await list(100, 3)).toMatchObject({ more: false });
      expect(await list(100, 2)).toMatchObject({ more: true });
    });

    test("compares versions: a write or a deletion with another one does nothing", async () => {
      const space = newSpace();
      const set = (value: unknown, ifVersion: string | null): Promise<KvSetOutcome> =>
        store.set(space, "k", json(value, { ifVersion }));
      expect(await set(1, "1")).toEqual({ status: "conflict", version: null });
      const first = versionOf(await set(1, null));
      expect(await set(2, null)).toEqual({ status: "conflict", version: first });
      const second = versionOf(await set(2, first));
      expect(second).not.toBe(first);
      expect(await set(3, first)).toEqual({ status: "conflict", version: second });
      expect(await store.delete(space, "k", first)).toEqual({ status: "conflict" });
      expect(await store.delete(space, "k", second)).toEqual({ status: "deleted" });
      expect(await store.delete(space, "k", second)).toEqual({ status: "missing" });
      expect([first, second]).not.toContain(versionOf(await set(4, null)));
    });

    test("lets one of many writers with the same version win", async () => {
      const space = newSpace();
      const version = versionOf(await store.set(space, "n", json(0)));
      const outcomes = await Promise.all(
        Array.from({ length: 50 }, (_, index) => store.set(space, "n", json(index, { ifVersion: version }))),
      );
      expect(outcomes.filter(({ status }) => status === "stored")).toHaveLength(1);
    });

    test("treats an expired entry as missing", async () => {
      const space = newSpace();
      const expiresAt = Date.now() + 50;
      const version = versionOf(await store.set(space, "k", json(1, { expiresAt })));
      const later = versionOf(await store.set(space, "later", json(1, { expiresAt: Date.now() + 3_600_000 })));
      expect(await store.get(space, "later")).toMatchObject({ version: later, expiresAt: expect.any(Number) });
      await pause(expiresAt + 20 - Date.now());
      expect(await store.get(space, "k")).toBeUndefined();
      expect(await keysOf(space)).toEqual(["later"]);
      expect(await store.delete(space, "k")).toEqual({ status: "missing" });
      expect(await store.set(space, "k", json(2, { ifVersion: version }))).toMatchObject({ status: "conflict" });
      expect(await store.set(space, "k", json(2, { ifVersion: null }))).toMatchObject({ status: "stored" });
      expect(await store.get(space, "k")).not.toHaveProperty("expiresAt");
    });

    test("rejects writes that would exceed the quota, but not writes that do not increase the usage", async () => {
      const space = newSpace();
      const set = (key: string, text: string, quota: Partial<KvQuota>): Promise<KvSetOutcome> =>
        store.set(space, key, json(0, { data: Buffer.from(text), quota: { ...AMPLE, ...quota } }));
      await set("é", "12345", {});
      expect(await store.usage(space)).toEqual({ keys: 1, bytes: 7 });
      expect(await set("b", "1", { keys: 1 })).toEqual({ status: "full", exceeded: "keys", needed: 2 });
      expect(await set("b", "1234", { bytes: 11 })).toEqual({ status: "full", exceeded: "bytes", needed: 12 });
      expect(await set("b", "1234", { bytes: 12 })).toMatchObject({ status: "stored" });
      expect(await set("b", "12345", { bytes: 12 })).toEqual({ status: "full", exceeded: "bytes", needed: 13 });
      expect(await set("b", "4321", { keys: 0, bytes: 0 })).toMatchObject({ status: "stored" });
      expect(await set("b", "1", { bytes: 0 })).toMatchObject({ status: "stored" });
      expect(await store.usage(space)).toEqual({ keys: 2, bytes: 9 });
      await store.delete(space, "é");
      await store.delete(space, "b");
      expect(await store.usage(space)).toEqual({ keys: 0, bytes: 0 });
    });

    test("removes expired entries to make room", async () => {
      const quota = { keys: 3, bytes: 1_000 };
      /** Fills a space with entries that expire, and tries longer ones if they have expired before it was seen to be full. */
      const fill = async (lifetimeMs: number): Promise<{ space: KvSpace; expiresAt: number }> => {
        const space = newSpace();
        const expiresAt = Date.now() + lifetimeMs;
        for (const key of ["own", "a", "b"]) await store.set(space, key, json(1, { quota, expiresAt }));
        const outcome = await store.set(space, "c", json(1, { quota }));
        if (outcome.status === "stored" && Date.now() >= expiresAt) return fill(4 * lifetimeMs);
        expect(outcome).toMatchObject({ status: "full", exceeded: "keys" });
        return { space, expiresAt };
      };
      const { space, expiresAt } = await fill(50);
      await pause(expiresAt + 20 - Date.now());
      for (const key of ["own", "c", "d"]) {
        expect(await store.set(space, key, json(1, { quota }))).toMatchObject({ status: "stored" });
      }
      expect(await store.set(space, "e", json(1, { quota }))).toMatchObject({ status: "full", exceeded: "keys" });
      expect(await store.usage(space)).toEqual({ keys: 3, bytes: 8 });
    });

    test("enforces the quota for concurrent writes", async () => {
      const space = newSpace();
      const quota = { keys: 10, bytes: 1_000 };
      const writes = Array.from({ length: 100 }, (_, index) => store.set(space, `k${index}`, json(1, { quota })));
      const stored = (await Promise.all(writes)).filter(({ status }) => status === "stored");
      const { entries } = await store.list(space, ALL);
      const bytes = entries.reduce((sum, { key, data }) => sum + Buffer.byteLength(key) + data.byteLength, 0);
      expect([stored.length, entries.length, await store.usage(space)]).toEqual([10, 10, { keys: 10, bytes }]);
    });

    const STRANGE_TENANTS = [
      "gone",
      'gone",',
      "gone\\",
      '["gone"',
      "",
      "\ud800",
      "\ufffd",
      "a\0",
      "__proto__",
      "%",
      "gone-",
    ];
    const iterate = (tenantId: string): AsyncIterable<KvTenantEntry> => {
      if (store.entries === undefined) throw new Error("Expected a store with entries()");
      return store.entries(tenantId);
    };
    const entriesOf = async (tenantId: string): Promise<KvTenantEntry[]> => {
      const entries: KvTenantEntry[] = [];
      for await (const entry of iterate(tenantId)) entries.push(entry);
      return entries;
    };
    const deleteTenant = async (tenantId: string): Promise<KvDeletion | undefined> =>
      await store.deleteTenant?.(tenantId);

    test("exports all entries of a tenant in all of its spaces, and of no other tenant", async () => {
      for (const tenantId of STRANGE_TENANTS) {
        for (const tool of ["tenant/a", "global/a", "tenant/b"]) {
          await store.set({ tenantId, tool }, "k", json(tenantId));
        }
      }
      const own = { tenantId: "many", tool: "tenant/a" };
      const keys = Array.from({ length: 250 }, (_, index) => `k${String(index).padStart(3, "0")}`);
      await fill(own, keys);
      await store.set(own, "over", json(1, { expiresAt: Date.now() + 1 }));
      await pause(20);
      expect((await entriesOf("many")).map(({ key }) => key).toSorted()).toEqual(keys);
      for (const tenantId of STRANGE_TENANTS) {
        const found = (await entriesOf(tenantId)).map(({ tool, key, data }) => [
          tool,
          key,
          Buffer.from(data).toString(),
        ]);
        expect(found.toSorted()).toEqual(
          ["global/a", "tenant/a", "tenant/b"].map((tool) => [tool, "k", JSON.stringify(tenantId)]),
        );
      }
      expect(await entriesOf("nobody")).toEqual([]);
      for (const tenantId of [...STRANGE_TENANTS, "many"]) await deleteTenant(tenantId);
    });

    test("an export can be stopped early, and continues during writes", async () => {
      const space = { tenantId: "left", tool: "tenant/a" };
      await fill(space, ["a", "b", "c"]);
      for await (const { key } of iterate("left")) {
        expect(key).toBe("a");
        await store.set(space, "d", json(1));
        break;
      }
      expect(await entriesOf("left")).toHaveLength(4);
      await deleteTenant("left");
    });

    test("deletes all entries of a tenant and none of another", async () => {
      const write = async (tenantId: string): Promise<void> => {
        await store.set({ tenantId, tool: "tenant/a" }, "k", json("1234"));
        await store.set({ tenantId, tool: "global/a" }, "é", json("12"));
      };
      for (const tenantId of STRANGE_TENANTS) await write(tenantId);
      let left = STRANGE_TENANTS.length;
      for (const tenantId of STRANGE_TENANTS) {
        expect(await deleteTenant(tenantId)).toEqual({ keys: 2, bytes: 13 });
        expect(await deleteTenant(tenantId)).toEqual({ keys: 0, bytes: 0 });
        expect(await store.get({ tenantId, tool: "tenant/a" }, "k")).toBeUndefined();
        expect(await store.usage({ tenantId, tool: "tenant/a" })).toEqual({ keys: 0, bytes: 0 });
        left -= 1;
        const others = await Promise.all(STRANGE_TENANTS.map(entriesOf));
        expect(others.filter((entries) => entries.length === 2)).toHaveLength(left);
      }
      await write("gone");
      expect(await entriesOf("gone")).toHaveLength(2);
      await deleteTenant("gone");
    });

    test("answers requests during a deletion", async () => {
      const space = newSpace();
      await store.set({ tenantId: "busy", tool: "tenant/a" }, "k", json(1));
      const [first, deleted, second] = await Promise.all([
        store.set(space, "a", json(1)),
        deleteTenant("busy"),
        store.set(space, "b", json(1)),
      ]);
      expect([first.status, deleted, second.status]).toEqual(["stored", { keys: 1, bytes: 2 }, "stored"]);
      expect(await keysOf(space)).toEqual(["a", "b"]);
    });

    test("agrees with a Map after any sequence of operations", async () => {
      const key = fc.constantFrom("a", "b", "ab", "\0", "😀", "\uffff");
      const step = fc.oneof(
        fc.record({ op: fc.constant("set" as const), key, text: fc.string({ unit: "grapheme", maxLength: 5 }) }),
        fc.record({ op: fc.constant("delete" as const), key }),
      );
      await fc.assert(
        fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
          const space = newSpace();
          const model = new Map<string, string>();
          for (const one of steps) {
            if (one.op === "set") {
              model.set(one.key, one.text);
              await store.set(space, one.key, json(0, { data: Buffer.from(one.text) }));
            } else {
              const { status } = await store.delete(space, one.key);
              expect(status === "deleted").toBe(model.delete(one.key));
            }
          }
          const { entries } = await store.list(space, ALL);
          expect(new Map(entries.map((entry) => [entry.key, Buffer.from(entry.data).toString()]))).toEqual(model);
          let bytes = 0;
          for (const [name, text] of model) bytes += Buffer.byteLength(name) + Buffer.byteLength(text);
          expect(await store.usage(space)).toEqual({ keys: model.size, bytes });
        }),
        { numRuns: 40 },
      );
    });
  });
}
