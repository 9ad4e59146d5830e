// Deploying, releasing and calling tools over HTTP, on both databases.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test, vi } from "vitest";
import { createClient } from "../../src/client/index.ts";
import { PYTHON_DEFAULT_LIMITS } from "../../src/host/python/python-tool.ts";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { PYTHON_DEFAULTS } from "../../src/server/tools/requested-access.ts";
import { apiOf } from "./support/api.ts";
import { useServer } from "./support/server.ts";
import { STORES, TestStores } from "./support/stores.ts";

interface Call {
  readonly id: string;
  readonly state: string;
  readonly version: number;
  readonly output: unknown;
  readonly effects: string;
  readonly input: unknown;
  readonly error: { readonly code: string; readonly message: string } | null;
  readonly logs: readonly { readonly message: string }[];
}
interface Deployed {
  readonly version: {
    readonly tool: string;
    readonly version: number;
    readonly state: string;
    readonly limits: object;
  };
  readonly requests: { readonly added: readonly string[] };
  readonly release: { readonly versions: readonly { version: number; weight: number }[] } | null;
  readonly isKnown: boolean;
}

interface Failed {
  readonly error: { readonly code: string; readonly message: string };
}

interface Release {
  readonly versions: readonly { readonly version: number; readonly weight: number }[];
  readonly rollback: object | null;
  readonly revision: number;
}

test("the defaults of tools in Python are those of the library", () => {
  expect(PYTHON_DEFAULTS).toEqual(PYTHON_DEFAULT_LIMITS);
});

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

describe.for(STORES)("with %s", (kind) => {
  const under = useServer(stores, kind, ["acme"]);
  const { api } = under;
  const tools = "/v1/tenants/acme/tools";

  const deploy = (name: string, source: string, more: object = {}) =>
    api<Deployed>("POST", tools, { name, source, ...more });
  const call = (name: string, body: object = {}, headers = {}) =>
    api<Call>("POST", `${tools}/${name}/calls`, body, headers);
  const ended = (id: string) =>
    vi.waitFor(
      async () => {
        const { body } = await api<Call>("GET", `/v1/tenants/acme/calls/${id}`);
        expect(["succeeded", "failed", "cancelled"]).toContain(body.state);
        return body;
      },
      { interval: 20 },
    );

  test("shows what a call did and when, with its nested calls", async () => {
    await deploy("part", "export default () => 1;");
    const source = `export default async (_, ctx) => [await ctx.tools.part(), await ctx.tools.part()];
      export const capabilities = { tools: true };`;
    expect(
      (await api("PATCH", "/v1/tenants/acme", { policy: { capabilities: ["kv", "tools", "fetch"] } })).status,
    ).toBe(200);
    expect((await deploy("whole", source)).body.version.state).toBe("waiting_for_approval");
    expect((await api("POST", `${tools}/whole/versions/1/approve`)).body.state).toBe("ready");
    const live = { versions: [{ version: 1, weight: 1 }] };
    expect((await api("PUT", `${tools}/whole/releases/live`, live)).status).toBe(200);
    const { body: made } = await call("whole");
    expect([made.error, made.output]).toEqual([null, [1, 1]]);
    const path = `/v1/tenants/acme/calls/${made.id}/timeline`;
    type Nested = { readonly callId: string; readonly timeline: readonly { readonly kind: string }[] };
    interface Timeline {
      readonly spans: readonly { readonly kind: string; readonly callId?: string; readonly target?: string }[];
      readonly calls: readonly Nested[];
    }
    const { status, body } = await api<Timeline>("GET", path);
    expect(status).toBe(200);
    expect(body.spans.map(({ kind }) => kind)).toEqual(expect.arrayContaining(["validate", "execute", "output"]));
    const uses = body.spans.filter(({ kind }) => kind === "capability");
    expect(uses.map(({ target }) => target)).toEqual(["part", "part"]);
    expect(body.calls.map(({ callId }) => callId)).toEqual(uses.map(({ callId }) => callId));
    expect(body.calls[0]?.timeline.map(({ kind }) => kind)).toContain("execute");
    const { body: shown } = await api<{ readonly calls: readonly object[] }>("GET", path.replace("/timeline", ""));
    expect(shown.calls.map((nested) => Object.keys(nested))).toEqual([
      ["callId", "toolName", "durationMs", "cpuMs", "code"],
      ["callId", "toolName", "durationMs", "cpuMs", "code"],
    ]);
  });

  test("shows what a call has done so far while it runs, and for how long it waits in the queue", async () => {
    interface Timeline {
      readonly isOver: boolean;
      readonly spans: readonly {
        readonly kind: string;
        readonly name: string;
        readonly startMs: number;
        readonly durationMs: number;
        readonly isOpen?: true;
      }[];
    }
    await deploy("unending", "export default () => new Promise((end) => setTimeout(end, 600_000));");
    await deploy("quick", "export default () => 1;");
    const timelineOf = async (id: string): Promise<Timeline> =>
      (await api<Timeline>("GET", `/v1/tenants/acme/calls/${id}/timeline`)).body;
    const { body: queued } = await call("unending", {}, { prefer: "respond-async" });
    await vi.waitFor(async () => {
      const { isOver, spans } = await timelineOf(queued.id);
      expect(isOver).toBe(false);
      expect(spans.filter(({ isOpen }) => isOpen).map(({ kind }) => kind)).toEqual(["execute"]);
    });
    await api("POST", `/v1/tenants/acme/calls/${queued.id}/cancel`);
    await ended(queued.id);
    const { isOver, spans } = await timelineOf(queued.id);
    expect([isOver, spans.some(({ isOpen }) => isOpen)]).toEqual([true, false]);

    // A call that waited for a second before it began: its stages begin after that.
    const { body: quick } = await call("quick", {}, { prefer: "respond-async" });
    await ended(quick.id);
    const { database: url, dataDir } = under.store.options;
    await using database = await openDatabase({ url, dataDir, onError() {} });
    const { db } = database;
    await db
      .updateTable("calls")
      .set((of) => ({ created_at: of("started_at", "-", 1_000) as never }))
      .where("id", "=", quick.id)
      .execute();
    const [first, second] = (await timelineOf(quick.id)).spans;
    expect(first).toMatchObject({ kind: "queue", name: "queued", startMs: 0, durationMs: 1_000 });
    expect(second).toMatchObject({ kind: "validate", startMs: 1_000 });
    // One that waits now.
    await db
      .updateTable("calls")
      .set({ started_at: null, ended_at: null, state: "queued", run_at: 9e15 })
      .where("id", "=", quick.id)
      .execute();
    expect((await timelineOf(quick.id)).spans).toMatchObject([{ kind: "queue", name: "queued", isOpen: true }]);
    await db.deleteFrom("calls").where("id", "=", quick.id).execute();
    expect((await api("GET", `/v1/tenants/acme/calls/${quick.id}/timeline`)).status).toBe(404);
  });

  test("deploys a tool, calls it, and shows the call with its logs", async () => {
    expect((await deploy("add", "export default ({ a, b }) => { console.log('adding'); return a + b; }")).status).toBe(
      201,
    );
    const { status, body } = await call("add", { input: { a: 1, b: 2 } });
    expect([status, body.output, body.version, body.effects]).toEqual([200, 3, 1, "complete"]);
    const stored = await api<Call>("GET", `/v1/tenants/acme/calls/${body.id}`);
    expect(stored.body).toMatchObject({ state: "succeeded", output: 3, input: { a: 1, b: 2 } });
    expect(stored.body.logs.map(({ message }) => message)).toEqual(["adding"]);
  });

  test("does not store the same upload twice", async () => {
    const source = "export default () => 'same'";
    const first = await deploy("same", source);
    const second = await deploy("same", source);
    expect([first.status, second.status]).toEqual([201, 200]);
    expect([second.body.version.version, second.body.isKnown]).toEqual([1, true]);
    const { items } = (await api("GET", `${tools}/same/releases`)).body as { items: { revision: number }[] };
    expect(items.map(({ revision }) => revision)).toEqual([1]);
  });

  test("names a tool as the upload says, and rejects a name that no path can contain", async () => {
    const source = "export const name = 'own'; export default () => 1";
    expect((await deploy("given", source)).body.version.tool).toBe("given");
    const upload = async (body: object) => (await api<Deployed>("POST", tools, body)).body.version?.tool;
    expect(await upload({ source, defaultName: "other" })).toBe("own");
    expect(await upload({ source: "export default () => 1", defaultName: "other" })).toBe("other");
    for (const body of [{ name: "..", source }, { source: source.replace("own", "..") }])
      expect((await api("POST", tools, body)).status).toBe(422);
  });

  test("rejects a tool that does not build with its file and line, and keeps what is live", async () => {
    await deploy("solid", "export default () => 'fine'");
    const { status, body } = await deploy("solid", "export default () => {\n  return (;\n}");
    const { code, message } = (body as unknown as Failed).error;
    expect([status, code]).toEqual([422, "BUNDLE_FAILED"]);
    expect(message).toContain("tool.ts:2");
    expect((await call("solid")).body.output).toBe("fine");
  });

  test.for<[what: string, source: string, message: string]>([
    ["fails when it is loaded", "export default () => 1;\nthrow new Error('at load');", "loaded: at load"],
    [
      "has a schema that cannot be used",
      'export const inputSchema = { type: "objct" }; export default () => 1;',
      '"objct"',
    ],
  ])("rejects a tool that %s, and keeps what is live", async ([, source, expected]) => {
    await deploy("solid", "export default () => 'fine'");
    const { status, body } = await deploy("solid", source);
    const { code, message } = (body as unknown as Failed).error;
    expect([status, code]).toEqual([422, "BUNDLE_FAILED"]);
    expect(message).toContain(expected);
    expect((await call("solid")).body.output).toBe("fine");
  });

  test("says which fields hold a tool, and what an invalid field expects", async () => {
    const messageOf = async (body: object): Promise<string> =>
      ((await api<Failed>("POST", tools, body)).body as Failed).error.message;
    const fields = "Expected one of source, files and archive";
    expect(await messageOf({})).toBe(fields);
    expect(await messageOf({ source: "export default 1", files: {} })).toBe(fields);
    expect(await messageOf({ source: 3 })).toBe("source: Expected a string, got a number");
    const ends = { source: "export default () => 1" };
    expect(await messageOf({ ...ends, canaryPercent: 0 })).toBe("canaryPercent: Expected a number of more than 0");
    expect(await messageOf({ ...ends, alias: "A B" })).toMatch(/^alias: Expected 1 to 63 of a-z/);
  });

  test("deploys and tries a script if the request says so, and otherwise names the option", async () => {
    const source = "with (input) { total = a + b }\nreturn total";
    const input = { a: 1, b: 2 };
    const asModule = await deploy("sum", source);
    expect([asModule.status, (asModule.body as unknown as Failed).error.message]).toEqual([
      422,
      expect.stringContaining('mode: "script"'),
    ]);
    expect((await deploy("sum", source, { mode: "script" })).status).toBe(201);
    expect((await call("sum", { input })).body).toMatchObject({ state: "succeeded", output: 3 });
    expect((await api("GET", `${tools}/sum/versions/1/source`)).body).toEqual({
      files: { "tool.js": source },
      entry: "tool.js",
      mode: "script",
    });
    const draft = await api("POST", "/v1/tenants/acme/drafts/calls", { source, mode: "script", input });
    expect(draft.body).toMatchObject({ success: true, output: 3 });
    expect((await deploy("sum", source, { mode: "script", language: "python" })).status).toBe(422);
  });

  test("gives a canary its share, and rolls back in one request", async () => {
    await deploy("split", "export default () => 1");
    const { body } = await deploy("split", "export default () => 2", { canaryPercent: 25 });
    expect(body.release?.versions).toEqual([
      { version: 1, weight: 75 },
      { version: 2, weight: 25 },
    ]);
    expect((await call("split", { version: 2 })).body.output).toBe(2);
    const full = await deploy("split", "export default () => 3");
    expect(full.body.release?.versions).toEqual([{ version: 3, weight: 100 }]);
    expect((await call("split")).body.output).toBe(3);
    const rollback = `${tools}/split/releases/live/rollback`;
    expect((await api("POST", rollback)).body.versions).toEqual(body.release?.versions);
    expect((await api("POST", rollback)).body.versions).toEqual([{ version: 1, weight: 100 }]);
    expect((await call("split")).body.output).toBe(1);
    expect((await api("POST", rollback)).status).toBe(409);
  });

  test("rejects a release with one version twice, and one canary too many", async () => {
    await deploy("shares", "export default () => 0");
    const versions = [
      { version: 1, weight: 1 },
      { version: 1, weight: 2 },
    ];
    const twice = await api<Failed>("PUT", `${tools}/shares/releases/live`, { versions });
    expect([twice.status, (twice.body as Failed).error.message]).toEqual([
      422,
      "versions: Expected different versions",
    ]);
    for (let n = 1; n < 10; n += 1) await deploy("shares", `export default () => ${n}`, { canaryPercent: 10 });
    const last = await deploy("shares", "export default () => 10", { canaryPercent: 10 });
    expect([last.status, (last.body as unknown as Failed).error]).toEqual([
      429,
      expect.objectContaining({
        code: "QUOTA_EXCEEDED",
        message:
          "The alias runs 10 versions, which is the most. Let it run fewer versions first, or deploy without a canary",
      }),
    ]);
    const full = await deploy("shares", "export default () => 10");
    expect(full.body.release?.versions).toEqual([{ version: 11, weight: 100 }]);
  });

  test("runs an alias of its own, and rejects versions that do not exist", async () => {
    await deploy("named", "export default () => 'live'");
    await deploy("named", "export default () => 'next'", { alias: "staging" });
    expect((await call("named", { alias: "staging" })).body.output).toBe("next");
    expect((await call("named")).body.output).toBe("live");
    expect((await call("named", { alias: "none" })).status).toBe(404);
    expect((await call("named", { version: 9 })).status).toBe(404);
    const wrong = await api("PUT", `${tools}/named/releases/live`, { versions: [{ version: 9, weight: 1 }] });
    expect(wrong.status).toBe(404);
  });

  test("lets a version that requests more wait for approval, and shows the difference", async () => {
    await deploy("wants", "export default () => 'old'");
    const source =
      "export const capabilities = { kv: {} }; export default async (_, ctx) => { await ctx.kv.set('a', 1); return await ctx.kv.get('a'); }";
    const { body } = await deploy("wants", source);
    expect([body.version.state, body.requests.added, body.release]).toEqual(["waiting_for_approval", ["kv"], null]);
    expect((await call("wants")).body.output).toBe("old");
    expect((await call("wants", { version: 2 })).status).toBe(404);
    await deploy("never-live", source);
    const unreleased = await call("never-live");
    const why = 'The tool "never-live" has no live version; version 1 waits for approval';
    expect([unreleased.status, unreleased.body.error]).toEqual([404, expect.objectContaining({ message: why })]);
    expect((await api("POST", `${tools}/never-live/versions/1/approve`)).status).toBe(200);
    const approved = (await call("never-live")).body.error as { readonly message: string };
    expect(approved.message).toBe('The tool "never-live" has no live version; version 1 can be released');
    const { items } = (await api("GET", "/v1/tenants/acme/approvals")).body as {
      items: { tool: string; requests: object }[];
    };
    expect(items).toContainEqual(expect.objectContaining({ tool: "wants", requests: { added: ["kv"], removed: [] } }));
    const release = { versions: [{ version: 2, weight: 1 }] };
    expect((await api("PUT", `${tools}/wants/releases/live`, release)).status).toBe(409);
    expect((await api("POST", `${tools}/wants/versions/2/approve`)).body.state).toBe("ready");
    expect((await api("POST", `${tools}/wants/versions/2/approve`)).status).toBe(409);
    expect((await api("PUT", `${tools}/wants/releases/live`, release)).status).toBe(200);
    expect((await call("wants")).body.output).toBe(1);
    const denied = await deploy("wants", source.replace("kv: {}", "kv: {}, fetch: ['api.example.com']"));
    expect((await api("POST", `${tools}/wants/versions/${denied.body.version.version}/deny`)).body.state).toBe(
      "denied",
    );
  });

  test("lets a version wait that requests all hosts or tools instead of a list", async () => {
    const requesting = (capabilities: string) => `export const capabilities = ${capabilities}; export default () => 1`;
    await deploy("narrow", requesting("{ fetch: ['api.example.com'], tools: ['one'] }"), { approve: true });
    const { body } = await deploy("narrow", requesting("{ fetch: {}, tools: true }"));
    expect([body.version.state, body.requests.added]).toEqual(["waiting_for_approval", ["fetch:*", "tools:*"]]);
    const narrower = await deploy("narrow", requesting("{ fetch: ['api.example.com'], tools: [] }"));
    expect([narrower.body.version.state, narrower.body.requests.added]).toEqual(["ready", []]);
  });

  test("rejects limits that are not whole numbers, and rounds those of an earlier release down", async () => {
    const rejected = await deploy("whole-limits", "export default () => 1;", { limits: { timeoutMs: 25_000.5 } });
    expect(rejected).toMatchObject({
      status: 422,
      body: { error: { message: expect.stringContaining("limits.timeoutMs") } },
    });
    expect((await deploy("whole-limits", "export default () => 1;", { limits: { timeoutMs: 25_000 } })).status).toBe(
      201,
    );
    const { options } = under.store;
    await using database = await openDatabase({ url: options.database, dataDir: options.dataDir, onError() {} });
    const { settings } = await database.db
      .selectFrom("tool_versions")
      .select("settings")
      .where("tool_name", "=", "whole-limits")
      .executeTakeFirstOrThrow();
    await database.db
      .updateTable("tool_versions")
      .set({ settings: settings.replace("25000", "25000.5") })
      .where("tool_name", "=", "whole-limits")
      .execute();
    expect((await call("whole-limits")).body).toMatchObject({ state: "succeeded", output: 1 });
    expect((await api<Deployed["version"]>("GET", `${tools}/whole-limits/versions/1`)).body.limits).toEqual({
      timeoutMs: 25_000,
    });
  });

  test("lets a version that raises a limit wait, wherever the limit is set, and shows the limits", async () => {
    const old = "export default () => 'old'";
    const author = "export const limits = { memoryMiB: 16 };";
    const scopes = ["tools:deploy", "releases:write"];
    const { key } = (await api<{ key: string }>("POST", "/v1/tenants/acme/keys", { name: "deployer", scopes })).body;
    const send = async (source: string, limits?: object) => {
      const body = { name: "limited", source, ...(limits === undefined ? {} : { limits }) };
      return (await apiOf(under.server, key)<Deployed>("POST", tools, body)).body;
    };
    const first = await send(old, { timeoutMs: 1_000, memoryMiB: 32 });
    expect([first.version.state, first.version.limits]).toEqual(["ready", { timeoutMs: 1_000, memoryMiB: 32 }]);
    const raised = await send(old, { timeoutMs: 20_000, memoryMiB: 64 });
    expect([raised.version.state, raised.requests.added, raised.release]).toEqual([
      ...["waiting_for_approval", ["limits.timeoutMs=20000", "limits.memoryMiB=64"], null],
    ]);
    const { items } = (await api("GET", "/v1/tenants/acme/approvals")).body as { items: { tool: string }[] };
    const waiting = { tool: "limited", requests: { added: raised.requests.added, removed: [] } };
    expect(items).toContainEqual(expect.objectContaining(waiting));
    // A limit that is left out is the default, or that of the server.
    const { timeoutMs } = under.store.options.limits;
    expect((await send(old, { memoryMiB: 32 })).requests.added).toEqual([`limits.timeoutMs=${timeoutMs}`]);
    // The lower one of the author's and the upload's applies.
    const lower = await send(`${author} ${old}`, { timeoutMs: 1_000, memoryMiB: 128 });
    expect([lower.version.state, lower.version.limits]).toEqual(["ready", { timeoutMs: 1_000, memoryMiB: 16 }]);
    const again = await send(old, { timeoutMs: 1_000, memoryMiB: 32 });
    expect([again.version.state, again.requests.added]).toEqual(["waiting_for_approval", ["limits.memoryMiB=32"]]);
    const draft = { source: old, tool: "limited" };
    expect((await apiOf(under.server, key)("POST", "/v1/tenants/acme/drafts/calls", draft)).status).toBe(403);
  });

  test("a release that runs the same already is no change, and a rollback goes back beyond it", async () => {
    for (const value of [1, 2, 3]) await deploy("twice", `export default () => ${value}`, { alias: null });
    const path = `${tools}/twice/releases/live`;
    const set = (version: number, more: object = {}) =>
      api<Release>("PUT", path, { versions: [{ version, weight: 100 }], ...more });
    await set(1);
    await set(2);
    const [first, second] = [await set(3), await set(3)];
    expect([second.status, second.body]).toEqual([200, first.body]);
    // The same shares, written otherwise.
    expect((await api<Release>("PUT", path, { versions: [{ version: 3, weight: 1 }] })).body).toEqual(first.body);
    const entries = (await api("GET", "/v1/tenants/acme/audit?limit=200")).body.items as { target: string }[];
    expect(entries.filter(({ target }) => target === "twice:live")).toHaveLength(3);
    expect((await api<Release>("POST", `${path}/rollback`)).body.versions).toEqual([{ version: 2, weight: 100 }]);
    expect((await api<Release>("POST", `${path}/rollback`)).body.versions).toEqual([{ version: 1, weight: 100 }]);
    expect((await api("POST", `${path}/rollback`)).status).toBe(409);
  });

  test("a release keeps when it goes back by itself, until that is changed or cleared", async () => {
    for (const value of [1, 2]) await deploy("keeps", `export default () => ${value}`, { alias: null });
    const path = `${tools}/keeps/releases/live`;
    const set = async (version: number, more: object = {}) =>
      (await api<Release>("PUT", path, { versions: [{ version, weight: 100 }], ...more })).body;
    const rollback = { errorRate: 0.5, minCalls: 4 };
    expect((await set(1)).rollback).toBe(null);
    expect((await set(1, { rollback })).rollback).toEqual(rollback);
    expect((await set(2)).rollback).toEqual(rollback);
    const other = { ...rollback, minCalls: 9 };
    const changed = await set(2, { rollback: other });
    expect([changed.rollback, changed.revision]).toEqual([other, 2]);
    expect((await set(2, { rollback: null })).rollback).toBe(null);
    expect((await api<Release>("POST", `${path}/rollback`)).body.versions).toEqual([{ version: 1, weight: 100 }]);
    const tenant = createClient({ url: under.server.url, key: under.server.adminKey as string }).tenant("acme");
    const versions = [{ version: 2, weight: 1 }];
    expect((await tenant.setRelease("keeps", "live", versions, { rollback })).rollback).toEqual(rollback);
    expect((await tenant.setRelease("keeps", "live", versions)).rollback).toEqual(rollback);
    expect((await tenant.setRelease("keeps", "live", versions, { rollback: null })).rollback).toBe(null);
  });

  test("answers a failed call with the status of its error", async () => {
    await deploy("throws", "export default () => { throw new Error('no luck'); }");
    const { status, body } = await call("throws");
    expect([status, body.state, body.error?.code, body.effects]).toEqual([502, "failed", "TOOL_FAILED", "possible"]);
    expect((await call("missing")).status).toBe(404);
  });

  test("keeps no secret of an input or a log", async () => {
    await deploy(
      "leaks",
      "export default (input) => { console.log('password=hunter2hunter2'); return { apiKey: input.apiKey }; }",
    );
    const { body } = await call("leaks", { input: { apiKey: "sk-1234567890abcdef" } });
    expect(body.output).toEqual({ apiKey: "sk-1234567890abcdef" });
    const stored = await api("GET", `/v1/tenants/acme/calls/${body.id}`);
    expect(JSON.stringify(stored.body)).not.toMatch(/sk-1234567890abcdef|hunter2hunter2/);
  });

  test("runs an asynchronous call later, once, and reports it", async () => {
    await deploy("later", "export default ({ n }) => n * 2");
    const { status, body, headers } = await call("later", { input: { n: 21 } }, { prefer: "respond-async" });
    expect([status, body.state, body.effects]).toEqual([202, "queued", "none"]);
    expect(headers.get("location")).toBe(`/v1/tenants/acme/calls/${body.id}`);
    expect(await ended(body.id)).toMatchObject({ state: "succeeded", output: 42, effects: "complete", attempts: 1 });
  });

  test("returns the first call for a repeated idempotency key, and rejects the key for another request", async () => {
    await deploy("once", "export default () => Math.random()");
    const key = { "idempotency-key": `"order-${kind}"` };
    const first = await call("once", { input: {} }, key);
    const second = await call("once", { input: {} }, key);
    expect([second.body.id, second.body.output]).toEqual([first.body.id, first.body.output]);
    expect((await call("once", { input: { other: true } }, key)).status).toBe(409);
    expect((await call("once", {}, { "idempotency-key": "a b" })).status).toBe(422);
    const later = { ...key, "idempotency-key": `later-${kind}`, prefer: "respond-async" };
    const [one, two] = await Promise.all([call("once", { input: {} }, later), call("once", { input: {} }, later)]);
    expect(one.body.id).toBe(two.body.id);
    await ended(one.body.id);
  });

  test("streams log lines, chunks and the result", async () => {
    await deploy("stream", "export default async function* () { console.log('one'); yield 1; yield 2; }");
    const response = await fetch(`${under.server.url}${tools}/stream/calls`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${under.server.adminKey}`,
        "content-type": "application/json",
        accept: "text/event-stream",
      },
      body: "{}",
    });
    expect(response.headers.get("content-type")).toContain("text/event-stream");
    const events = (await response.text())
      .split("\n\n")
      .filter((text) => text !== "")
      .map((text) => ({
        event: /^event: (.+)$/m.exec(text)?.[1],
        data: JSON.parse(/^data: (.+)$/m.exec(text)?.[1] ?? "null"),
      }));
    expect(events.filter(({ event }) => event === "chunk").map(({ data }) => data)).toEqual([1, 2]);
    expect(events.some(({ event }) => event === "log")).toBe(true);
    expect(events.at(-1)).toMatchObject({ event: "result", data: { state: "succeeded" } });
  });

  test("cancels a call that runs, one that waits in no queue any more, and one whose client has left", async () => {
    await deploy("endless", "export default () => new Promise(() => { setInterval(() => {}, 1000); })");
    const { body } = await call("endless", {}, { prefer: "respond-async" });
    await vi.waitFor(async () =>
      expect((await api("GET", `/v1/tenants/acme/calls/${body.id}`)).body.state).toBe("running"),
    );
    const cancel = `/v1/tenants/acme/calls/${body.id}/cancel`;
    expect((await api("POST", cancel)).status).toBe(202);
    expect((await ended(body.id)).state).toBe("cancelled");
    expect((await api("POST", cancel)).status).toBe(409);
    const leave = new AbortController();
    const left = fetch(`${under.server.url}${tools}/endless/calls`, {
      method: "POST",
      headers: { authorization: `Bearer ${under.server.adminKey}`, "content-type": "application/json" },
      body: "{}",
      signal: leave.signal,
    });
    const open = async (): Promise<readonly Call[]> =>
      (await api<{ items: Call[] }>("GET", "/v1/tenants/acme/calls?tool=endless&state=cancelled")).body.items;
    await vi.waitFor(async () => {
      const { body: workers } = await api<{ running: { tool: string }[] }>("GET", "/v1/workers");
      expect(workers.running.map(({ tool }) => tool)).toContain("endless");
    });
    leave.abort();
    await expect(left).rejects.toThrow();
    await vi.waitFor(async () => expect((await open()).length).toBe(2));
  });

  test("denies the calls of a suspended tenant, and shows no call of one tenant to another", async () => {
    await api("POST", "/v1/tenants", { id: "beta" });
    await api("POST", "/v1/tenants/beta/tools", { name: "one", source: "export default () => 1" });
    const run = () => api<Call>("POST", "/v1/tenants/beta/tools/one/calls", {});
    const { body } = await run();
    expect((await api("GET", `/v1/tenants/acme/calls/${body.id}`)).status).toBe(404);
    await api("PATCH", "/v1/tenants/beta", { state: "suspended" });
    expect((await run()).body.error?.code).toBe("TOOL_UNAVAILABLE");
    await api("PATCH", "/v1/tenants/beta", { state: "active" });
    // The message of the change comes over the database.
    await expect.poll(async () => (await run()).status).toBe(200);
  });

  test("applies a tenant's limits to its calls", async () => {
    await api("POST", "/v1/tenants", { id: "small" });
    await api("POST", "/v1/tenants/small/tools", {
      name: "slow",
      source: "export default () => new Promise((r) => setTimeout(r, 60_000))",
    });
    await api("PATCH", "/v1/tenants/small", { policy: { limits: { timeoutMs: 1_000 } } });
    expect((await api("POST", "/v1/tenants/small/tools/slow/calls", {})).status).toBe(504);
    const { status, body } = await api("PATCH", "/v1/tenants/small", { policy: { limits: { timeoutMs: -1 } } });
    expect([status, (body.error as { message: string }).message]).toEqual([
      422,
      expect.stringContaining("policy.limits.timeoutMs"),
    ]);
  });

  test("deletes a tenant with everything that it owns", async () => {
    const marker = `marker-${kind}-7f3a9c51`;
    await api("POST", "/v1/tenants", { id: "gone" });
    await api("POST", "/v1/tenants/gone/tools", {
      name: "note",
      source: `export default (x) => { console.log("${marker}"); return x; }`,
    });
    const { body } = await api<Call>("POST", "/v1/tenants/gone/tools/note/calls", { input: { marker } });
    expect(body.output).toEqual({ marker });
    const receipt = (await api("DELETE", "/v1/tenants/gone")).body.receipt as { rows: Record<string, number> };
    expect(receipt.rows).toMatchObject({ calls: 1, tool_versions: 1, releases: 1 });
    expect((await api("GET", "/v1/tenants/gone")).status).toBe(404);
    if (kind === "sqlite") {
      const files = readdirSync(under.store.options.dataDir, { recursive: true, withFileTypes: true }).filter((entry) =>
        entry.isFile(),
      );
      const found = files.filter((entry) => readFileSync(join(entry.parentPath, entry.name)).includes(marker));
      expect(found.map(({ name }) => name)).toEqual([]);
    }
  });
});
