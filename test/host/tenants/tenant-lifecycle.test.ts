// A tenant's life: suspended, resumed, exported and deleted, with real processes, stores and folders.
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { MemoryKvStore } from "../../../src/host/capabilities/kv/kv-memory.ts";
import type { KvStore } from "../../../src/host/capabilities/kv/kv-store.ts";
import type { GloveboxOptions } from "../../../src/host/config/glovebox-options.ts";
import type { ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { codeOf, errorOf, failureOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";

const ACME = { tenantId: "acme" } as const;
const BETA = { tenantId: "beta" } as const;
const SLEEP = "export default () => { console.log('on'); return new Promise((done) => setTimeout(done, 60_000)); }";
const KEEP = `export default async ({ key, value }, ctx) => {
  if (value !== undefined) await ctx.kv.set(key, value);
  return (await ctx.kv.get(key)) ?? null;
}`;

async function folder(): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), "glovebox-tenant-"));
  onTestFinished(() => rm(made, { recursive: true, force: true }));
  return made;
}

async function gloveboxOf(options: GloveboxOptions = {}): Promise<Glovebox> {
  const glovebox = await makeGlovebox({ tenancy: "multi", limits: { timeoutMs: 60_000, cpuMs: 60_000 }, ...options });
  onTestFinished(() => glovebox.close());
  return glovebox;
}

const call = (
  glovebox: Glovebox,
  toolName: string,
  args: unknown,
  tenantId = "acme",
  onLog?: () => void,
): Promise<ToolResult> =>
  glovebox.execute({ id: `${toolName}-call`, toolName, arguments: args }, { tenantId, timeoutMs: 60_000, onLog });

/** Waits for a state, however slow the machine is. */
async function until(isSo: () => boolean): Promise<void> {
  for (const end = Date.now() + 200_000; !isSo(); await pause(5)) {
    if (Date.now() > end) throw new Error("It did not come to be");
  }
}

const linesOf = async (glovebox: Glovebox, tenantId?: string): Promise<Record<string, unknown>[]> => {
  const lines: Record<string, unknown>[] = [];
  for await (const text of glovebox.exportTenant(tenantId)) {
    expect([text.endsWith("\n"), text.split("\n")]).toEqual([true, [expect.any(String), ""]]);
    lines.push(JSON.parse(text) as Record<string, unknown>);
  }
  return lines;
};

describe("suspendTenant", () => {
  test("denies calls before anything else, with the reason, until the tenant is resumed; others go on", async () => {
    const glovebox = await gloveboxOf();
    for (const tenantId of ["acme", "beta"]) glovebox.router.register("add", {}, () => 1, { tenantId });
    await glovebox.suspendTenant("acme");
    for (const result of [
      await call(glovebox, "add", {}),
      await call(glovebox, "none", {}),
      await glovebox.execute(undefined as never, ACME),
      (await glovebox.executeBatch([{ toolName: "add" }], ACME))[0] as ToolResult,
    ]) {
      const { code, details } = errorOf(result);
      expect([code, details]).toEqual(["TOOL_UNAVAILABLE", { reason: "tenant_suspended" }]);
    }
    expect((await failureOf(glovebox.openSession(ACME))).details).toEqual({ reason: "tenant_suspended" });
    expect(codeOf(await call(glovebox, "add", {}, "beta"))).toBe("ok");
    expect([glovebox.resumeTenant("acme"), glovebox.resumeTenant("acme")]).toEqual([true, false]);
    expect(codeOf(await call(glovebox, "add", {}))).toBe("ok");
  });

  test("lets running calls finish with their nested calls, and denies runs of open sessions", async () => {
    const glovebox = await gloveboxOf();
    const gate = Promise.withResolvers<void>();
    let begun = false;
    glovebox.router.register(
      "wait",
      {},
      () => {
        begun = true;
        return gate.promise.then(() => "waited");
      },
      ACME,
    );
    glovebox.router.register("add", {}, () => 1, ACME);
    const source = "export default async (_, ctx) => [await ctx.tools.wait({}), await ctx.tools.add({})]";
    await glovebox.addTool({ name: "outer", source }, { ...ACME, grant: ["tools"] });
    await using session = await glovebox.openSession(ACME);
    const running = call(glovebox, "outer", {});
    await until(() => begun);
    expect(await glovebox.suspendTenant("acme")).toBe(0);
    gate.resolve();
    expect(outputOf(await running)).toEqual(["waited", 1]);
    expect(errorOf(await session.run("1")).details).toEqual({ reason: "tenant_suspended" });
    glovebox.resumeTenant("acme");
    expect(codeOf(await session.run("1"))).toBe("ok");
  });

  test('with calls: "cancel" ends running calls, nested ones included, each with one result', async () => {
    const glovebox = await gloveboxOf();
    await glovebox.addTool({ name: "sleep", source: SLEEP }, ACME);
    await glovebox.addTool({ name: "sleep", source: SLEEP }, BETA);
    const source = "export default async (_, ctx) => ctx.tools.sleep({})";
    await glovebox.addTool({ name: "outer", source }, { ...ACME, grant: ["tools"] });
    let [results, begun] = [0, 0];
    const onLog = (): void => {
      begun += 1;
    };
    const running = ["outer", "sleep"].map(async (name) => {
      const result = await call(glovebox, name, {}, "acme", onLog);
      results += 1;
      return result;
    });
    const stop = new AbortController();
    const other = glovebox.execute({ id: "o", toolName: "sleep" }, { ...BETA, signal: stop.signal, onLog });
    await until(() => begun === 3);
    expect(await glovebox.suspendTenant("acme", { calls: "cancel" })).toBeGreaterThanOrEqual(2);
    await until(() => results === 2);
    const details = { reason: "tenant_suspended" };
    for (const result of await Promise.all(running))
      expect(errorOf(result)).toMatchObject({ code: "CANCELLED", details });
    stop.abort();
    expect(errorOf(await other).details).toBeUndefined();
  });

  test("rejects invalid tenants and options", async () => {
    const glovebox = await gloveboxOf();
    for (const [tenantId, options, path] of [
      [undefined, {}, "tenantId"],
      ["", {}, "tenantId"],
      [{ tenantId: "acme" }, {}, "tenantId"],
      ["acme", { calls: "stop" }, "options.calls"],
      ["acme", { call: "cancel" }, "options.call"],
    ] as const) {
      const error = await failureOf(glovebox.suspendTenant(tenantId as never, options as never));
      expect([error.code, error.message.startsWith(path)]).toEqual(["PARAM_INVALID", true]);
    }
    expect(codeOf(await glovebox.execute({ id: "c", toolName: "none" }, ACME))).toBe("TOOL_UNAVAILABLE");
    expect(errorOf(await glovebox.execute({ id: "c", toolName: "none" }, ACME)).details?.reason).not.toBe(
      "tenant_suspended",
    );
  });
});

describe("deleteTenant", () => {
  test("ends calls and sessions, removes tools, values, processes and artifacts, and says what it removed", async () => {
    const [cache, data] = [await folder(), await folder()];
    const path = join(data, "kv.sqlite");
    const glovebox = await gloveboxOf({
      cache: { directory: cache },
      kv: { path },
      quotas: { calls: { month: 1_000 } },
    });
    const source = (name: string): string => `/* only-of-${name} */ ${KEEP}`;
    await glovebox.addTool({ name: "own", source: source("acme") }, { ...ACME, grant: ["kv"] });
    await glovebox.addTool({ name: "same", source: KEEP }, { ...ACME, grant: ["kv"] });
    await glovebox.addTool({ name: "same", source: KEEP }, { ...BETA, grant: ["kv"] });
    await glovebox.addTool({ name: "all", source: source("all") }, { grant: ["kv"], scope: "global" });
    await glovebox.addTool({ name: "sleep", source: SLEEP }, ACME);
    for (const tenantId of ["acme", "beta"]) {
      for (const toolName of ["same", "all"]) {
        await call(glovebox, toolName, { key: `key-of-${tenantId}`, value: `value-of-${tenantId}` }, tenantId);
      }
    }
    await call(glovebox, "own", { key: "k", value: "value-of-acme" });
    const session = await glovebox.openSession(ACME);
    expect(outputOf(await session.run("'cell-of-acme'.length"))).toBe(12);
    let begun = 0;
    const onLog = (): void => {
      begun += 1;
    };
    const running = call(glovebox, "sleep", {}, "acme", onLog);
    const inSession = session.run("console.log('on'); await new Promise(() => {})", { onLog });
    await until(() => begun === 2);
    const pids = glovebox.workerPids;

    const [receipt, same] = await Promise.all([glovebox.deleteTenant("acme"), glovebox.deleteTenant("acme")]);
    expect(same).toBe(receipt);
    expect(receipt).toMatchObject({
      tenantId: "acme",
      calls: 2,
      sessions: 1,
      tools: 3,
      values: { keys: 3 },
      mcp: { servers: 0, connections: 0 },
      quotaCounters: 1,
    });
    expect(receipt.values.bytes).toBeGreaterThan(30);
    expect(receipt.workers).toBeGreaterThanOrEqual(1);
    expect(receipt.artifacts.count).toBeGreaterThanOrEqual(3);
    expect(receipt.artifacts.bytes).toBeGreaterThan(1_000);
    expect(receipt.artifacts.shared).toBeGreaterThanOrEqual(1);
    for (const result of [await running, await inSession]) expect(codeOf(result)).toBe("CANCELLED");
    expect(glovebox.workerPids.length).toBeLessThan(pids.length);
    expect(session.isOver).toBe(true);

    const texts = async (directory: string): Promise<string> =>
      (await Promise.all((await readdir(directory)).map((name) => readFile(join(directory, name), "latin1")))).join();
    const left = await texts(cache);
    expect([left.includes("only-of-acme"), left.includes("cell-of-acme")]).toEqual([false, false]);
    expect(left).toContain("only-of-all");
    const stored = await texts(data);
    expect([stored.includes("of-acme"), stored.includes("acme"), stored.includes("value-of-beta")]).toEqual([
      false,
      false,
      true,
    ]);

    // As a tenant that was never seen.
    expect((await glovebox.listTools(ACME)).map(({ name }) => name)).toEqual(["all"]);
    expect(outputOf(await call(glovebox, "all", { key: "key-of-acme" }))).toBeNull();
    expect(outputOf(await call(glovebox, "same", { key: "key-of-beta" }, "beta"))).toBe("value-of-beta");
    await glovebox.addTool({ name: "own", source: source("acme") }, { ...ACME, grant: ["kv"] });
    expect(outputOf(await call(glovebox, "own", { key: "k" }))).toBeNull();
    await glovebox.deleteTenant("acme");
    expect(await glovebox.deleteTenant("acme")).toMatchObject({
      calls: 0,
      sessions: 0,
      tools: 0,
      values: { keys: 0, bytes: 0 },
      workers: 0,
      quotaCounters: 0,
      artifacts: { count: 0, bytes: 0, shared: 0 },
    });
  });

  test("finds artifacts of an earlier process, also of tools that were removed there", async () => {
    const directory = await folder();
    const options = { cache: { directory } } as const;
    const first = await gloveboxOf(options);
    await first.addTool({ name: "own", source: "/* only-of-acme */ export default () => 1" }, ACME);
    first.removeTool("own", ACME);
    await first.close();
    const glovebox = await gloveboxOf(options);
    expect((await glovebox.deleteTenant("acme")).artifacts.count).toBeGreaterThanOrEqual(2);
    expect((await readdir(directory)).filter((name) => name.endsWith(".owner"))).toEqual([]);
    for (const name of await readdir(directory)) {
      expect(await readFile(join(directory, name), "latin1")).not.toContain("only-of-acme");
    }
  });

  test("denies calls, tools and sessions while it goes on, and ends what was being added", async () => {
    const gate = Promise.withResolvers<void>();
    const memory = new MemoryKvStore();
    const store: KvStore = {
      get: (...args) => memory.get(...args),
      set: (...args) => memory.set(...args),
      delete: (...args) => memory.delete(...args),
      list: (...args) => memory.list(...args),
      usage: (...args) => memory.usage(...args),
      entries: (tenantId) => memory.entries(tenantId),
      deleteTenant: async (tenantId) => {
        await gate.promise;
        return await memory.deleteTenant(tenantId);
      },
    };
    // Without a cache, so that the tool is not added in the same turn.
    const glovebox = await gloveboxOf({ kv: store, cache: false });
    glovebox.router.register("add", {}, () => 1, ACME);
    const adding = glovebox.addTool({ name: "late", source: "export default () => 1" }, ACME);
    const batch = glovebox.executeBatch(
      Array.from({ length: 200 }, () => ({ toolName: "add" })),
      ACME,
    );
    const deleting = glovebox.deleteTenant("acme");
    expect((await failureOf(adding)).details).toEqual({ reason: "tenant_deleted" });
    expect(new Set((await batch).map(codeOf)).isSubsetOf(new Set(["ok", "CANCELLED", "TOOL_UNAVAILABLE"]))).toBe(true);
    const denied = { reason: "tenant_deleted" };
    expect(errorOf(await call(glovebox, "add", {})).details).toEqual(denied);
    expect((await failureOf(glovebox.openSession(ACME))).details).toEqual(denied);
    expect((await failureOf(glovebox.addTool({ source: "export default 1" }, ACME))).details).toEqual(denied);
    expect((await failureOf(glovebox.suspendTenant("acme"))).details).toEqual(denied);
    expect(() => glovebox.exportTenant("acme")).toThrow("This tenant is being deleted");
    gate.resolve();
    await deleting;
    expect(await glovebox.listTools(ACME)).toEqual([]);
    expect(errorOf(await call(glovebox, "add", {})).details?.reason).not.toBe("tenant_deleted");
  });

  test("removes nothing if the host's store cannot delete a tenant", async () => {
    const memory = new MemoryKvStore();
    const store: KvStore = {
      get: (...args) => memory.get(...args),
      set: (...args) => memory.set(...args),
      delete: (...args) => memory.delete(...args),
      list: (...args) => memory.list(...args),
      usage: (...args) => memory.usage(...args),
    };
    const glovebox = await gloveboxOf({ kv: store });
    glovebox.router.register("add", {}, () => 1, ACME);
    const error = await failureOf(glovebox.deleteTenant("acme"));
    expect([error.code, error.message]).toEqual(["PARAM_INVALID", expect.stringContaining("has no deleteTenant()")]);
    expect(codeOf(await call(glovebox, "add", {}))).toBe("ok");
    expect(() => glovebox.exportTenant("acme")).toThrow("has no entries()");
  });

  test.for<[string, () => unknown]>([
    ["rejects", () => Promise.reject(new Error("disk is gone"))],
    ["answers with nothing", () => undefined],
    ["answers with another form", () => ({ keys: -1, bytes: 0 })],
  ])("a store that %s keeps the tenant's calls denied until deleteTenant is repeated", async ([, answer]) => {
    const memory = new MemoryKvStore();
    let fails = true;
    const store = Object.assign(Object.create(memory) as MemoryKvStore, {
      get: memory.get.bind(memory),
      set: memory.set.bind(memory),
      delete: memory.delete.bind(memory),
      list: memory.list.bind(memory),
      usage: memory.usage.bind(memory),
      deleteTenant: (tenantId: string) => (fails ? answer() : memory.deleteTenant(tenantId)),
    });
    const glovebox = await gloveboxOf({ kv: store as never });
    glovebox.router.register("add", {}, () => 1, ACME);
    const error = await failureOf(glovebox.deleteTenant("acme"));
    expect([error.code, error.details]).toEqual(["INTERNAL", { reason: "deletion_incomplete" }]);
    expect(errorOf(await call(glovebox, "add", {})).details).toEqual({ reason: "tenant_deleted" });
    fails = false;
    await glovebox.deleteTenant("acme");
    glovebox.router.register("add", {}, () => 1, ACME);
    expect(codeOf(await call(glovebox, "add", {}))).toBe("ok");
  });

  test("ends processes of this tenant only, whatever ids others have", async () => {
    const glovebox = await gloveboxOf({ workers: { max: 6, warmProcesses: 0 } });
    const ids = ["a", "a python 128 ", 'a"', "a ", '"a" x'];
    for (const tenantId of ids) await glovebox.addTool({ name: "one", source: "export default () => 1" }, { tenantId });
    for (const tenantId of ids) expect(codeOf(await call(glovebox, "one", {}, tenantId))).toBe("ok");
    const before = glovebox.workerPids.length;
    const { workers } = await glovebox.deleteTenant("a");
    expect([workers, glovebox.workerPids.length]).toEqual([1, before - 1]);
    for (const tenantId of ids.slice(1)) expect(codeOf(await call(glovebox, "one", {}, tenantId))).toBe("ok");
  });

  test("removes MCP servers for this tenant alone, and takes it from those for others", async () => {
    const glovebox = await gloveboxOf();
    const command = { command: process.execPath, args: ["-e", ""] };
    glovebox.mcp.addServer("own", { ...command, tenants: ["acme"] });
    glovebox.mcp.addServer("both", { ...command, tenants: ["acme", "beta"] });
    glovebox.mcp.addServer("every", { ...command, scope: "global" });
    expect((await glovebox.deleteTenant("acme")).mcp).toEqual({ servers: 1, connections: 0 });
    expect(glovebox.mcp.servers().map(({ server }) => server)).toEqual(["both", "every"]);
    expect((await glovebox.deleteTenant("beta")).mcp).toEqual({ servers: 1, connections: 0 });
    expect(glovebox.mcp.servers().map(({ server }) => server)).toEqual(["every"]);
  });

  test("ends what the tenant left in processes that tenants share, and no other tenant's call", async () => {
    const glovebox = await gloveboxOf({ placement: "shared", workers: { max: 2, warmProcesses: 0 } });
    const counter = "let n = 0; export default () => { n += 1; return n; }";
    await glovebox.addTool({ name: "count", source: counter }, { ...ACME, isolateLifetime: "tool" });
    await glovebox.addTool({ name: "sleep", source: SLEEP.replace("60_000", "1_500") }, BETA);
    await call(glovebox, "count", {});
    let begun = false;
    const other = call(glovebox, "sleep", {}, "beta", () => {
      begun = true;
    });
    await until(() => begun);
    expect((await glovebox.deleteTenant("acme")).workers).toBeGreaterThanOrEqual(1);
    expect(codeOf(await other)).toBe("ok");
    await glovebox.addTool({ name: "count", source: counter }, { ...ACME, isolateLifetime: "tool" });
    expect(outputOf(await call(glovebox, "count", {}))).toBe(1);
  });

  test('with tenancy: "single" removes the tools of the only tenant, and rejects a tenant id', async () => {
    const glovebox = await gloveboxOf({ tenancy: "single", tools: { enabled: true, builtinTools: ["run-js"] } });
    await glovebox.addTool({ name: "own", source: "export default () => 1" });
    expect((await failureOf(glovebox.deleteTenant("acme"))).message).toContain('tenancy: "multi"');
    expect((await glovebox.deleteTenant()).tools).toBe(1);
    expect((await glovebox.listTools()).map(({ name }) => name)).toEqual(["run-js"]);
  });
});

describe("exportTenant", () => {
  test("gives the policy without secrets, tools with their code, sessions and values, and counts", async () => {
    const glovebox = await gloveboxOf({
      tenants: {
        acme: {
          limits: { timeoutMs: 60_000 },
          egress: { allow: ["api.example.com"] },
          secrets: { KEY: { value: "very-secret-value", hosts: ["https://api.example.com"] } },
          rateLimit: { calls: 1_000, per: "second" },
          quotas: { calls: { day: 1_000 } },
        },
      },
    });
    const source = `/* author's own words */ ${KEEP}`;
    await glovebox.addTool({ name: "own", source }, { ...ACME, grant: ["kv"], isolateLifetime: "tool" });
    await glovebox.addTool({ name: "own", source: `/* of-beta */ ${KEEP}` }, { ...BETA, grant: ["kv"] });
    glovebox.router.register("host", { description: "of the host" }, () => 1, ACME);
    await call(glovebox, "own", { key: "a", value: { n: [1, "x\n"] } });
    await call(glovebox, "own", { key: "b", value: "value-of-beta" }, "beta");
    await using session = await glovebox.openSession({ ...ACME, id: "s-1" });
    await session.run("1");
    const lines = await linesOf(glovebox, "acme");
    expect(lines.map(({ type }) => type)).toEqual(["tenant", "tool", "tool", "session", "value", "end"]);
    const [tenant, host, own, one, value, end] = lines;
    expect(tenant).toMatchObject({
      tenantId: "acme",
      policy: { limits: { timeoutMs: 60_000 }, secrets: { KEY: { hosts: [expect.anything()] } } },
    });
    expect(host).toMatchObject({ name: "host", source: "host", definition: { description: "of the host" } });
    expect(own).toMatchObject({
      name: "own",
      language: "javascript",
      options: { grant: ["kv"], isolateLifetime: "tool" },
    });
    const { code, sourceMap } = (own as { readonly bundle: { readonly code: string; readonly sourceMap: string } })
      .bundle;
    expect([code.includes("kv"), sourceMap.includes("author's own words")]).toEqual([true, true]);
    expect(one).toMatchObject({ id: "s-1", kind: "javascript", runs: 1 });
    expect(value).toMatchObject({ scope: "tenant", tool: "own", key: "a", json: '{"n":[1,"x\\n"]}' });
    expect(end).toEqual({ type: "end", counts: { tools: 2, sessions: 1, runs: 0, values: 1, valueBytes: 15 } });
    const text = JSON.stringify(lines);
    expect([text.includes("very-secret-value"), text.includes("of-beta")]).toEqual([false, false]);
  });

  test.for(["shared", "tenant"] as const)(
    "an export with several pools has all that the tenant owns, wherever it runs: placement %s",
    async (placement) => {
      const pools = ["eu", "us", "default"];
      const glovebox = await gloveboxOf({
        placement,
        tenants: { acme: { pools }, beta: {} },
        workers: { max: 3, warmProcesses: 1 },
      });
      const lifetimes = ["call", "tool", "session"] as const;
      for (const isolateLifetime of lifetimes) {
        const tool = { name: `keep-${isolateLifetime}`, source: `/* ${isolateLifetime} */ ${KEEP}` };
        await glovebox.addTool(tool, { ...ACME, grant: ["kv"], isolateLifetime });
      }
      const keys = Array.from({ length: 8 }, (_, index) => `key-${index}`);
      const calls = lifetimes.flatMap((lifetime) =>
        keys.map((key) => ({ toolName: `keep-${lifetime}`, arguments: { key, value: key } })),
      );
      const results = await glovebox.executeBatch(calls, { ...ACME, sessionId: "s" });
      expect(new Set(results.map(codeOf))).toEqual(new Set(["ok"]));
      await using _open = await glovebox.openSession({ ...ACME, id: "opened" });
      const lines = await linesOf(glovebox, "acme");
      const of = (type: string) => lines.filter((line) => line.type === type);
      expect(of("tenant")).toMatchObject([{ policy: { pools } }]);
      expect(of("tool").map(({ name }) => name)).toEqual(["keep-call", "keep-session", "keep-tool"]);
      expect(of("session")).toHaveLength(2);
      const values = of("value").map(({ tool, key, json }) => `${tool} ${key} ${json}`);
      expect(values.sort()).toEqual(
        calls.map(({ toolName, arguments: { key } }) => `${toolName} ${key} "${key}"`).sort(),
      );
      expect(of("end")).toMatchObject([{ counts: { tools: 3, sessions: 2, values: 24 } }]);
    },
  );

  test("reads values on demand, and releases the store when the reader leaves early", async () => {
    const memory = new MemoryKvStore();
    let [asked, returned] = [0, 0];
    const entries = (tenantId: string) => {
      const inner = memory.entries(tenantId);
      return {
        [Symbol.asyncIterator]: () => ({
          next: () => {
            asked += 1;
            return inner.next();
          },
          return: async () => {
            returned += 1;
            return await inner.return();
          },
        }),
      };
    };
    const store = Object.assign(new MemoryKvStore(), { entries });
    for (let index = 0; index < 100; index += 1) {
      const data = Buffer.from(String(index));
      await memory.set({ ...ACME, tool: "tenant/t" }, `k${index}`, {
        kind: "json",
        data,
        quota: { keys: 1e6, bytes: 1e9 },
      });
    }
    const glovebox = await gloveboxOf({ kv: store });
    let lines = 0;
    for await (const _line of glovebox.exportTenant("acme")) {
      lines += 1;
      if (lines === 4) break;
    }
    expect([asked, returned]).toEqual([3, 1]);
    // Deleting the tenant ends a running export.
    const going = glovebox.exportTenant("acme");
    await going.next();
    await going.next();
    await glovebox.deleteTenant("acme");
    const error = await failureOf(Promise.resolve(going.next()));
    expect([error.code, error.details]).toEqual(["TOOL_UNAVAILABLE", { reason: "tenant_deleted" }]);
    expect(returned).toBe(2);
  });

  test.for<[string, unknown]>([
    ["an entry of another form", { key: 1 }],
    ["an entry without a tool", { key: "k", kind: "json", data: Buffer.from("1"), version: "1" }],
    ["no result at all", undefined],
  ])("fails where the host's store gives %s", async ([, value]) => {
    const answer = value === undefined ? undefined : { done: false, value };
    const entries = () => ({ [Symbol.asyncIterator]: () => ({ next: async () => answer }) });
    const glovebox = await gloveboxOf({ kv: Object.assign(new MemoryKvStore(), { entries }) as never });
    const reading = (async () => {
      for await (const _line of glovebox.exportTenant("acme"));
    })();
    expect((await failureOf(reading)).code).toBe("INTERNAL");
  });

  test("keeps to its lines whatever a tool has stored under whatever key", async () => {
    const glovebox = await gloveboxOf();
    const source = `export default async (_, ctx) => {
      await ctx.kv.set("a\\n{\\"type\\":\\"end\\"}\\u2028", { "__proto__": 1, text: "\\n\\r\\u2028" });
      await ctx.kv.set("bytes", new Uint8Array([0, 10, 255]));
      await ctx.kv.set("late", 1, { ttlMs: 3_600_000 });
    }`;
    await glovebox.addTool({ name: "put", source }, { ...ACME, grant: ["kv"] });
    expect(codeOf(await call(glovebox, "put", {}))).toBe("ok");
    const values = (await linesOf(glovebox, "acme")).filter(({ type }) => type === "value");
    expect(values.map(({ key }) => key)).toEqual(['a\n{"type":"end"}\u2028', "bytes", "late"]);
    expect(values[1]).toMatchObject({ base64: Buffer.from([0, 10, 255]).toString("base64") });
    expect(Date.parse(String(values[2]?.expiresAt))).toBeGreaterThan(Date.now());
  });
});
