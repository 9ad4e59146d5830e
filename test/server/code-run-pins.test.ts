// What durable code on a server is pinned to, on both databases: a release that compiles it in another way, or another release of the Python runtime,
// continues it with the same result, and the names in it mean the tools that they meant when it began.
import { createHash } from "node:crypto";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { Bundler } from "../../src/bundler/bundler.ts";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { createServer, type Server } from "../../src/server/index.ts";
import { apiOf } from "./support/api.ts";
import { type CodeClient, connectCodeMode } from "./support/code-mode-client.ts";
import { STORES, type TestStore, TestStores } from "./support/stores.ts";

/** What the next server has at the end of its Python runtime. */
const other = vi.hoisted(() => ({ runtime: "" }));
vi.mock("../../src/bundler/python/python-assets.ts", async (original) => {
  const real = await original<typeof import("../../src/bundler/python/python-assets.ts")>();
  const loadPythonAssets: typeof real.loadPythonAssets = async (artifacts) => {
    const assets = await real.loadPythonAssets(artifacts);
    const code = assets.code + other.runtime;
    const sha256 = createHash("sha256").update(code).digest("hex");
    return { ...assets, code, sha256, key: createHash("sha256").update(assets.key).update(sha256).digest("hex") };
  };
  return { ...real, loadPythonAssets };
});

/** Lets servers compile code as another release would: to the same program, with another text. */
function compileDifferently(): void {
  const bundle = Bundler.prototype.bundle;
  vi.spyOn(Bundler.prototype, "bundle").mockImplementation(async function (this: Bundler, ...args) {
    const built = await bundle.apply(this, args);
    const code = `${built.bundle.code}\n// compiled by another release`;
    const sha256 = createHash("sha256").update(code).digest("hex");
    return { ...built, bundle: { ...built.bundle, code, sha256 } };
  });
}

interface Run {
  readonly state: string;
  readonly output: { readonly status: string; readonly value: unknown } | null;
  readonly error: { readonly code: string; readonly details?: { readonly reason?: string } } | null;
}
type StartEntry = { readonly [name: string]: unknown };

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());
afterEach(() => void vi.restoreAllMocks());

describe.for(STORES)("durable code with %s", (kind) => {
  let store: TestStore;
  let server: Server;
  let adminKey = "";
  let key = "";
  const base = "/v1/tenants/acme";
  const start = async (): Promise<void> => {
    server = await createServer({ ...store.options, port: 0, logLevel: "silent", warmPythonProcesses: 0 });
    adminKey ||= server.adminKey ?? "";
  };
  const restart = async (): Promise<void> => {
    await server.close({ drainMs: 0 });
    await start();
  };
  const api: ReturnType<typeof apiOf> = (...args) => apiOf(server, adminKey)(...args);
  const deploy = async (name: string, value: string): Promise<void> => {
    const source = `
      export const capabilities = { kv: true };
      export default async (_, ctx) => { await ctx.kv.set("calls", ((await ctx.kv.get("calls")) ?? 0) + 1); return "${value}"; };`;
    expect((await api("POST", `${base}/tools`, { name, source, approve: true })).status).toBe(201);
  };
  const connect = (): Promise<CodeClient> => connectCodeMode(server.url, "acme", key);
  const getRun = async (id: string): Promise<Run> => (await api<Run>("GET", `${base}/runs/${id}`)).body;
  /** Starts code that waits, and returns the id of its run. */
  const begin = async (code: string, more: object = {}): Promise<string> => {
    await using client = await connect();
    const { status, run, error } = await client.run(code, more);
    expect([status, error]).toEqual(["suspended", undefined]);
    const id = run?.id ?? "";
    // On a busy machine, the type checker can have no time at first. The run waits then to be tried again, without having begun.
    await expect.poll(async () => (await client.get(id)).run?.waits.length).toBeGreaterThan(0);
    return id;
  };
  /** Ends the wait for the event `go`, and returns the run when it has ended. */
  const go = async (id: string): Promise<Run> => {
    expect((await api("POST", `${base}/runs/${id}/events`, { name: "go" })).status).toBe(200);
    return await getRun(id);
  };
  const open = () =>
    openDatabase({
      dataDir: store.options.dataDir,
      url: store.options.database,
      onError: (error) => expect.fail(String(error)),
    });
  const startOf = async (id: string): Promise<StartEntry> => {
    await using database = await open();
    const entries = database.db.selectFrom("run_entries").select("text").where("run_id", "=", id);
    const { text } = await entries.where("position", "=", 0).executeTakeFirstOrThrow();
    return JSON.parse(text) as StartEntry;
  };
  const changeStart = async (id: string, change: (entry: StartEntry) => StartEntry): Promise<void> => {
    const text = JSON.stringify(change(await startOf(id)));
    await using database = await open();
    const update = database.db.updateTable("run_entries").set({ text }).where("run_id", "=", id);
    await update.where("position", "=", 0).execute();
  };
  const storedBytes = async (): Promise<number> => {
    await using database = await open();
    const rows = await database.db.selectFrom("stored_bytes").select("bytes").where("tenant_id", "=", "acme").execute();
    return rows.reduce((sum, { bytes }) => sum + Number(bytes), 0);
  };

  beforeAll(async () => {
    store = await stores.create(kind);
    await start();
    const policy = { limits: { timeoutMs: 120_000 } };
    expect((await api("POST", "/v1/tenants", { id: "acme", policy })).status).toBe(201);
    await deploy("csv-stats", "with a dash");
    await deploy("count", "first");
    const scopes = ["calls:run", "tools:read"];
    key = (await api<{ key: string }>("POST", `${base}/keys`, { name: "k", scopes })).body.key;
  });
  afterAll(async () => {
    await server.close({ drainMs: 0 });
    await store[Symbol.asyncDispose]();
  });

  test.for(["javascript", "typescript"] as const)(
    "continues in a release that compiles it in another way, in %s",
    async (language) => {
      const code = `
        const before = await tools.count({});
        await ctx.waitFor({ event: "go" });
        const failed = await (async () => { throw new Error("late"); })().catch((error) => error.stack.split("\\n").length);
        return [before, await tools.count({}), failed > 1];`;
      const compiled = await (async () => {
        const id = await begin(code, { language });
        return { id, start: await startOf(id) };
      })();
      compileDifferently();
      await restart();
      const again = await begin(code, { language });
      expect((await startOf(again)).bundle).not.toBe(compiled.start.bundle);
      for (const id of [compiled.id, again]) {
        expect(await go(id)).toMatchObject({ state: "succeeded", output: { value: ["first", "first", true] } });
        // It is not needed any more.
        expect((await startOf(id)).code).toBeUndefined();
      }
      expect(compiled.start.code).toMatchObject({ bundle: { code: expect.stringContaining("late") } });
    },
  );

  test("counts as stored until it ends, and the API shows nothing of it", async () => {
    const before = await storedBytes();
    const id = await begin(
      `const text = "${"x".repeat(60_000)}"; await ctx.waitFor({ event: "go" }); return text.length;`,
    );
    const waiting = await storedBytes();
    // The input, the compiled code, and the source in its map.
    expect(waiting - before).toBeGreaterThan(180_000);
    const { body } = await api<{ items: readonly object[] }>("GET", `${base}/runs/${id}/journal`);
    expect(body.items[0]).toEqual({ position: 0, at: expect.any(Number), type: "start", engine: expect.any(Object) });
    expect(await go(id)).toMatchObject({ state: "succeeded", output: { value: 60_000 } });
    // The call that it has become has the input a second time.
    expect(waiting - (await storedBytes())).toBeGreaterThan(50_000);
  });

  test("undoes what it did in a release that compiles it in another way", async () => {
    const id = await begin(`
      await ctx.onRollback(async () => { await tools.count({}); });
      await ctx.waitFor({ event: "go" });`);
    const calls = async (): Promise<unknown> =>
      (await api<{ value: unknown }>("GET", `${base}/kv/count/values/calls`)).body.value ?? 0;
    const before = Number(await calls());
    compileDifferently();
    await restart();
    expect((await api("POST", `${base}/runs/${id}/cancel`)).status).toBe(202);
    expect([(await getRun(id)).state, await calls()]).toEqual(["cancelled", before + 1]);
  });

  // One database is enough: the interpreter loads for long without its caches.
  test.runIf(kind === "sqlite")(
    "in Python, it continues with another release of the runtime, but not with another Pyodide",
    async () => {
      const code = `
before = await tools.count()
await ctx.waitFor(event="go")
[before, await tools.csv_stats()]`;
      const ids = [await begin(code, { language: "python" }), await begin(code, { language: "python" })] as const;
      expect(await startOf(ids[0])).toMatchObject({ engine: { python: expect.stringMatching(/^\d/) } });
      await changeStart(ids[1], (entry) => ({ ...entry, engine: { ...(entry.engine as object), python: "0.1.0" } }));
      other.runtime = "\n// another release";
      try {
        await restart();
        expect(await go(ids[0])).toMatchObject({ state: "succeeded", output: { value: ["first", "with a dash"] } });
        const details = { reason: "engine_version", expected: { python: "0.1.0" } };
        expect(await go(ids[1])).toMatchObject({ state: "failed", error: { code: "TOOL_UNAVAILABLE", details } });
      } finally {
        other.runtime = "";
      }
    },
  );

  test("a name in it means the tool that it meant when it began", async () => {
    await deploy("plain", "plain");
    const code = `
      await ctx.waitFor({ event: "go" });
      const call = async (name) => await tools[name]({}).catch((error) => error.code);
      return [await call("csv_stats"), await call("csv-stats"), await call("plain")];`;
    const id = await begin(code);
    // Both would have the names in code that began.
    await deploy("csv_stats", "with an underscore");
    expect((await api("DELETE", `${base}/tools/plain`)).status).toBe(200);
    await deploy("pl-ain", "x");
    await deploy("-plain-".replaceAll("-", "."), "another one");
    await restart();
    expect((await go(id)).output?.value).toEqual(["with a dash", "with a dash", "TOOL_UNAVAILABLE"]);
    const { output } = await go(await begin(code));
    expect(output?.value).toEqual(["with an underscore", "with a dash", "another one"]);
    for (const name of ["csv_stats", ".plain.", "pl-ain"]) await api("DELETE", `${base}/tools/${name}`);
  });

  test("the tools that it calls run as they are live then", async () => {
    const id = await begin(`
      const before = await tools.count({});
      await ctx.waitFor({ event: "go" });
      return [before, await tools.count({})];`);
    await deploy("count", "second");
    expect((await go(id)).output?.value).toEqual(["first", "second"]);
    await deploy("count", "first");
  });

  test("code that an earlier release has begun without storing it continues if it compiles to the same", async () => {
    const code = 'await ctx.waitFor({ event: "go" }); return await tools.csv_stats({});';
    const [same, changed, damaged] = [await begin(code), await begin(code), await begin(code)];
    const bundle = "0".repeat(64);
    await changeStart(same, ({ code: _, ...entry }) => entry);
    await changeStart(changed, ({ code: _, ...entry }) => ({ ...entry, bundle }));
    await changeStart(damaged, (entry) => ({ ...entry, bundle }));
    expect(await go(same)).toMatchObject({ state: "succeeded", output: { value: "with a dash" } });
    expect(await go(changed)).toMatchObject({ error: { details: { reason: "engine_version" } } });
    expect(await go(damaged)).toMatchObject({ state: "failed", error: { code: "INTERNAL" } });
  });
});
