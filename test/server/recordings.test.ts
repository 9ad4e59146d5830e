// Recorded calls of the server: which calls its policy records, who may read and replay them, and when they are deleted. On both databases.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseRecording } from "../../src/host/index.ts";
import { deleteExpiredCalls } from "../../src/server/calls/retention.ts";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { apiOf } from "./support/api.ts";
import { useServer } from "./support/server.ts";
import { STORES, TestStores } from "./support/stores.ts";

const PRICE = (vat: string): string => `
  export const capabilities = { kv: true };
  export default async ({ n, note = "" }, { kv }) => {
    const rate = (await kv.get("rate")) ?? 2;
    await kv.set("count", n);
    return { price: n * rate, note, ticket: crypto.randomUUID()${vat} };
  };`;

interface Call {
  readonly id: string;
  readonly state: string;
  readonly createdAt: number;
  readonly isRecorded: boolean;
  readonly output: { readonly price: number };
}
interface Replay {
  readonly verdict: string;
  readonly match: string;
  readonly divergence?: { readonly actual: string };
  readonly recorded: { readonly output: unknown };
  readonly result: { readonly success: boolean; readonly output: unknown };
}
interface Rehearsal {
  readonly replayed: number;
  readonly identical: number;
  readonly different: number;
  readonly groups: readonly {
    readonly verdict: string;
    readonly summary: string;
    readonly callIds: readonly string[];
  }[];
}

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

describe.for(STORES)("with %s", (kind) => {
  const running = useServer(stores, kind, ["acme", "beta"]);
  const { api } = running;
  const base = "/v1/tenants/acme";
  const setPolicy = async (recording: object | undefined): Promise<void> => {
    const policy = recording === undefined ? {} : { recording };
    expect((await api("PATCH", base, { policy })).status).toBe(200);
  };
  const call = async (input: object, tool = "price"): Promise<Call> => {
    const { status, body } = await api<Call>("POST", `${base}/tools/${tool}/calls`, { input });
    expect(status).toBe(200);
    return body;
  };

  beforeAll(async () => {
    const deployed = await api("POST", `${base}/tools`, { name: "price", source: PRICE(""), approve: true });
    expect(deployed.status).toBe(201);
  });

  test("records nothing without a policy, and only what the policy names", async () => {
    await setPolicy(undefined);
    const plain = await call({ n: 1 });
    expect(plain.isRecorded).toBe(false);
    expect((await api("GET", `${base}/calls/${plain.id}/recording`)).status).toBe(404);
    expect((await api("POST", `${base}/calls/${plain.id}/replays`, {})).status).toBe(404);
    for (const recording of [{ tools: ["other", "pric"] }, { rate: 0 }]) {
      await setPolicy(recording);
      expect((await call({ n: 1 })).isRecorded).toBe(false);
    }
    await setPolicy({ tools: ["pri*"] });
    expect((await call({ n: 1 })).isRecorded).toBe(true);
    for (const wrong of [{ rate: 2 }, { tools: [""] }, { unknown: 1 }, { maxBytes: 1 }]) {
      expect((await api("PATCH", base, { policy: { recording: wrong } })).status).toBe(422);
    }
    const contradiction = { recording: {}, retention: { keepContent: false } };
    expect((await api("PATCH", base, { policy: contradiction })).status).toBe(422);
  });

  test("a recorded call is replayed on its version, another version and another input", async () => {
    await setPolicy({});
    const made = await call({ n: 3, note: "x".repeat(20_000) });
    const { body: recording } = await api("GET", `${base}/calls/${made.id}/recording`);
    expect(parseRecording(recording)).toMatchObject({ toolName: "price", toolVersion: "1", tenantId: "acme" });
    const { body: shown } = await api<Call>("GET", `${base}/calls/${made.id}`);
    expect([shown.isRecorded, (shown.output as { note?: string }).note?.length]).toEqual([true, 20_000]);
    expect(shown).not.toHaveProperty("recording");

    await api("PUT", `${base}/kv/price/values/rate`, { value: 50 });
    const path = `${base}/calls/${made.id}/replays`;
    const { body: same } = await api<Replay>("POST", path, {});
    expect([same.verdict, same.match, same.result.success]).toEqual(["identical", "position", true]);
    expect(same.result.output).toEqual(made.output);
    const { body: edited } = await api<Replay>("POST", path, { input: { n: 4 } });
    expect([edited.verdict, edited.divergence?.actual]).toEqual(["diverged", expect.stringContaining("count")]);
    const second = await api<{ version: { version: number } }>("POST", `${base}/tools`, {
      name: "price",
      source: PRICE(", vat: n > 2 ? 0.2 : undefined"),
      approve: true,
      alias: null,
    });
    const { version } = second.body.version;
    expect((await api<Replay>("POST", path, { version })).body.verdict).toBe("different");
    expect((await api("POST", path, { version: 99 })).status).toBe(404);
    expect((await api("POST", path, { versions: 1 })).status).toBe(422);
    await api("DELETE", `${base}/kv/price/values/rate`);
  });

  test("a call is not replayed on other code that has the number of its version, unless the request names it", async () => {
    await setPolicy({});
    const deploy = (output: string) =>
      api("POST", `${base}/tools`, { name: "again", source: `export default () => ${JSON.stringify(output)}` });
    await deploy("old");
    const { id } = await call({}, "again");
    const replays = `${base}/calls/${id}/replays`;
    expect((await api<Replay>("POST", replays, {})).body.verdict).toBe("identical");
    expect((await api("DELETE", `${base}/tools/again`)).status).toBe(200);
    await deploy("new");
    const denied = await api<{ readonly error: { readonly message: string } }>("POST", replays, {});
    expect([denied.status, denied.body.error.message]).toEqual([409, expect.stringContaining("Version 1 is another")]);
    expect((await api<Replay>("POST", replays, { version: 1 })).body.verdict).toBe("different");
  });

  test("a rehearsal reports exactly the calls that differ, of queued and streamed calls too", async () => {
    await setPolicy({});
    // By the clock of the database, which can differ from that of the test.
    const { createdAt: begun } = await call({ n: 1 });
    for (const n of [2, 1]) await call({ n });
    const queued = await fetch(`${running.server.url}${base}/tools/price/calls`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${running.server.adminKey}`,
        "content-type": "application/json",
        prefer: "respond-async",
      },
      body: JSON.stringify({ input: { n: 5 } }),
    });
    const { id } = (await queued.json()) as Call;
    await expect.poll(async () => (await api<Call>("GET", `${base}/calls/${id}`)).body.state).toBe("succeeded");
    const streamed = await fetch(`${running.server.url}${base}/tools/price/calls`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${running.server.adminKey}`,
        "content-type": "application/json",
        accept: "text/event-stream",
      },
      body: JSON.stringify({ input: { n: 6 } }),
    });
    expect(await streamed.text()).toContain("event: result");
    const { body: report } = await api<Rehearsal>("POST", `${base}/tools/price/rehearsals`, {
      version: 2,
      since: begun,
    });
    expect(report).toMatchObject({ replayed: 5, identical: 3, different: 2 });
    expect(report.groups.map(({ verdict, summary, callIds }) => [verdict, summary, callIds.length])).toEqual([
      ["different", "added /vat", 2],
    ]);
    expect(report.groups[0]?.callIds).toContain(id);
    const { body: sample } = await api<Rehearsal>("POST", `${base}/tools/price/rehearsals`, { version: 1, sample: 2 });
    expect(sample).toMatchObject({ replayed: 2, identical: 2 });
    expect((await api("POST", `${base}/tools/none/rehearsals`, { version: 1 })).status).toBe(404);
    expect((await api("POST", `${base}/tools/price/rehearsals`, { version: 1, sample: 0 })).status).toBe(422);
  });

  test("compares the chunks of streamed calls, in replays and rehearsals", async () => {
    await setPolicy({});
    const source = (chunk: string): string =>
      `export default async function* ({ n }) { for (let i = 0; i < n; i += 1) yield ${chunk}; return { n }; }`;
    const deploy = async (chunk: string): Promise<number> => {
      const body = { name: "rows", source: source(chunk), approve: true };
      const deployed = await api<{ version: { version: number } }>("POST", `${base}/tools`, body);
      return deployed.body.version.version;
    };
    await deploy("{ i }");
    const ids: string[] = [];
    for (const n of [3, 4]) {
      const streamed = await fetch(`${running.server.url}${base}/tools/rows/calls`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${running.server.adminKey}`,
          "content-type": "application/json",
          accept: "text/event-stream",
        },
        body: JSON.stringify({ input: { n } }),
      });
      const text = await streamed.text();
      expect(text.split("event: chunk").length - 1).toBe(n);
      ids.push(/call_[0-9a-z]{26}/.exec(text)?.[0] ?? "");
    }
    const version = await deploy("n === 4 && i === 1 ? { i, bad: 1 } : { i }");
    const chunks = { recorded: 4, replayed: 4, first: 1, changes: [{ path: "/1/bad", kind: "added", after: "1" }] };
    const path = `${base}/calls/${ids[1]}/replays`;
    expect((await api<Replay>("POST", path, {})).body.verdict).toBe("identical");
    expect((await api<Replay>("POST", path, { version })).body).toMatchObject({ verdict: "different", chunks });
    const { body: report } = await api<Rehearsal>("POST", `${base}/tools/rows/rehearsals`, { version });
    expect(report).toMatchObject({
      replayed: 2,
      identical: 1,
      different: 1,
      skipped: 0,
      groups: [{ verdict: "different", summary: "chunks: added /*/bad", callIds: [ids[1]], chunks }],
    });
  });

  test("needs the scope calls:replay, and no other tenant sees a recording", async () => {
    await setPolicy({});
    const made = await call({ n: 1 });
    const keyOf = async (tenant: string, scopes: readonly string[]): Promise<string> =>
      (await api<{ key: string }>("POST", `/v1/tenants/${tenant}/keys`, { name: "k", scopes })).body.key;
    const reader = apiOf(running.server, await keyOf("acme", ["calls:read", "calls:run", "tools:read"]));
    const other = apiOf(running.server, await keyOf("beta", ["calls:replay", "calls:read"]));
    const paths = [
      ["GET", "recording", undefined],
      ["POST", "replays", {}],
    ] as const;
    for (const [method, name, body] of paths) {
      expect((await reader(method, `${base}/calls/${made.id}/${name}`, body)).status).toBe(403);
      expect((await other(method, `${base}/calls/${made.id}/${name}`, body)).status).toBe(404);
      expect((await other(method, `/v1/tenants/beta/calls/${made.id}/${name}`, body)).status).toBe(404);
    }
    expect((await other("POST", "/v1/tenants/beta/tools/price/rehearsals", { version: 1 })).status).toBe(404);
  });

  test("has no value of a secret, and with redact no password", async () => {
    await api("PUT", `${base}/secrets/token`, { value: "s3cr3t-t0k3n-value-1234", hosts: ["api.example.com"] });
    const source = `export const capabilities = { secrets: ["token"] };
      export default async ({ password }, { secrets }) => ({ password, reference: await secrets.use("token"), length: password.length });`;
    const deployed = await api("POST", `${base}/tools`, { name: "secretive", source, approve: true });
    expect(deployed.status).toBe(201);
    await setPolicy({ redact: true });
    const made = await call({ password: "hunter2hunter2" }, "secretive");
    const { body } = await api("GET", `${base}/calls/${made.id}/recording`);
    const text = JSON.stringify(body);
    expect([text.includes("s3cr3t"), text.includes("hunter2")]).toEqual([false, false]);
    expect(text).toContain("password");
  });

  test("recordings end with their calls, and with their tenant", async () => {
    await setPolicy({});
    const made = await call({ n: 1 });
    await using database = await openDatabase({
      dataDir: running.store.options.dataDir,
      url: running.store.options.database,
      onError: (error) => expect.fail(String(error)),
    });
    const { db } = database;
    const rows = async (): Promise<number> => {
      const kept = db.selectFrom("call_contents").select("call_id").where("tenant_id", "=", "acme");
      return (await kept.where("kind", "=", "recording").execute()).length;
    };
    expect((await api("GET", `${base}/calls/${made.id}/recording`)).status).toBe(200);
    expect(await rows()).toBeGreaterThan(0);
    await deleteExpiredCalls(db, Date.now() + 365 * 86_400_000, (error) => expect.unreachable(String(error)));
    expect(await rows()).toBe(0);
    const late = await call({ n: 1 });
    expect((await api("GET", `${base}/calls/${late.id}/recording`)).status).toBe(200);
    expect((await api("DELETE", base)).status).toBe(200);
    expect(await rows()).toBe(0);
  });
});
