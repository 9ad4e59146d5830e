// Calls that tools make of other tools: each is a call with a record of its own, on both databases.
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { useServer } from "./support/server.ts";
import { STORES, TestStores } from "./support/stores.ts";

interface Call {
  readonly id: string;
  readonly state: string;
  readonly tool: string;
  readonly parentId: string | null;
  readonly rootId: string | null;
  readonly mode: string;
  readonly output: unknown;
  readonly error: { readonly code: string } | null;
}
interface TreeCall extends Call {
  readonly depth: number;
  readonly code: string | null;
  readonly cpuMs: number | null;
}
interface List<Item> {
  readonly items: readonly Item[];
}

const OUTER = `export default async ({ n = 2 }, { tools }) => {
  console.log("outer");
  const all = [];
  for (let index = 0; index < n; index += 1) all.push(await tools.middle({ index }));
  return all;
};
export const capabilities = { tools: true };`;
const MIDDLE = `export default async ({ index }, { tools }) => {
  console.log("middle", index);
  if (index === 7) throw new Error("no seven");
  return await tools.inner({ index, password: "hunter2hunter2" });
};
export const capabilities = { tools: true };`;
const INNER = "export default ({ index }) => { console.log('inner'); return index * 10; }";
const WAITS = `export default async () => { console.log("waits"); await new Promise((resolve) => setTimeout(resolve, 60_000)); }`;

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

describe.for(STORES)("with %s", (kind) => {
  const under = useServer(stores, kind, ["acme", "beta"]);
  const { api } = under;
  const base = "/v1/tenants/acme";

  beforeAll(async () => {
    for (const [name, source] of Object.entries({ outer: OUTER, middle: MIDDLE, inner: INNER, waits: WAITS })) {
      expect((await api("POST", `${base}/tools`, { name, source, approve: true })).status).toBe(201);
    }
    const holder = WAITS.replace("async () =>", "async (_, { tools }) =>").replace(
      /await new.*\)\);/s,
      "await tools.waits({});",
    );
    const source = `${holder}\nexport const capabilities = { tools: true };`;
    expect((await api("POST", `${base}/tools`, { name: "holder", source, approve: true })).status).toBe(201);
  });
  test("each nested call has id, caller, version, input, output, logs, usage, effects and timeline", async () => {
    const { body: root } = await api<Call>("POST", `${base}/tools/outer/calls`, { input: {} });
    expect(root).toMatchObject({ state: "succeeded", output: [0, 10], parentId: null, rootId: null });
    const { body: inner } = await api<Call & { keyId: string }>("GET", `${base}/calls/${root.id}.2.1`);
    expect(inner).toMatchObject({
      id: `${root.id}.2.1`,
      tool: "inner",
      version: 1,
      mode: "nested",
      state: "succeeded",
      effects: "complete",
      parentId: `${root.id}.2`,
      rootId: root.id,
      output: 10,
      logs: [{ message: "inner" }],
      usage: { cpuMs: expect.any(Number), inputBytes: expect.any(Number) },
    });
    // The input is stored without its secrets, as that of any call.
    expect(JSON.stringify(inner)).not.toContain("hunter2hunter2");
    expect(inner.keyId).toBe((await api<{ keyId: string }>("GET", "/v1/me")).body.keyId);
    const timeline = await api<{ spans: readonly { kind: string }[]; calls: readonly { timeline: unknown[] }[] }>(
      ...(["GET", `${base}/calls/${root.id}.2/timeline`] as const),
    );
    expect(timeline.body.spans.map((span) => span.kind)).toContain("execute");
    expect(timeline.body.calls).toMatchObject([{ callId: `${root.id}.2.1`, timeline: expect.any(Array) }]);
  });

  test("the tree has every call below a call, each before those that it made", async () => {
    const { body: root } = await api<Call>("POST", `${base}/tools/outer/calls`, { input: { n: 11 } });
    expect(root.state).toBe("failed");
    const { body } = await api<List<TreeCall>>("GET", `${base}/calls/${root.id}/tree`);
    const expected = Array.from({ length: 8 }, (_, index) => [
      [`${root.id}.${index + 1}`, 1, index === 7 ? "TOOL_FAILED" : "ok"],
      ...(index === 7 ? [] : [[`${root.id}.${index + 1}.1`, 2, "ok"]]),
    ]).flat();
    expect(body.items.map(({ id, depth, code }) => [id, depth, code])).toEqual([
      [root.id, 0, "TOOL_FAILED"],
      ...expected,
    ]);
    const below = await api<List<TreeCall>>("GET", `${base}/calls/${root.id}.3/tree`);
    expect(below.body.items.map(({ id, depth }) => [id, depth])).toEqual([
      [`${root.id}.3`, 0],
      [`${root.id}.3.1`, 1],
    ]);
  });

  test("calls that a draft makes have records below it, although the draft has none", async () => {
    const source = OUTER.replace("n = 2", "n = 1");
    const { body: draft } = await api<{ callId: string; output: unknown }>("POST", `${base}/drafts/calls`, { source });
    expect(draft.output).toEqual([0]);
    const { body } = await api<List<TreeCall>>("GET", `${base}/calls/${draft.callId}/tree`);
    expect(body.items.map(({ id, tool, state }) => [id, tool, state])).toEqual([
      [`${draft.callId}.1`, "middle", "succeeded"],
      [`${draft.callId}.1.1`, "inner", "succeeded"],
    ]);
    expect((await api("GET", `${base}/calls/${draft.callId}`)).status).toBe(404);
    const audit = await api<List<{ action: string; details: { callId?: string } }>>("GET", `${base}/audit`);
    expect(audit.body.items.find(({ action }) => action === "draft.ran")?.details.callId).toBe(draft.callId);
  });

  test("lists show calls of clients, and nested ones on request", async () => {
    const { body: root } = await api<Call>("POST", `${base}/tools/outer/calls`, { input: {} });
    const ids = async (query: string): Promise<readonly string[]> =>
      (await api<List<Call>>("GET", `${base}/calls?${query}`)).body.items.map(({ id }) => id);
    expect((await ids("limit=200")).some((id) => id.includes("."))).toBe(false);
    expect(await ids("limit=200&nested=true")).toContain(`${root.id}.1.1`);
    expect(await ids("tool=inner")).toEqual([]);
    expect(await ids("tool=inner&nested=true&limit=1")).toEqual([`${root.id}.2.1`]);
    expect((await ids(`parent=${root.id}`)).toSorted()).toEqual([`${root.id}.1`, `${root.id}.2`]);
  });

  test("usage counts nested calls by their tool, and webhooks receive calls of clients only", async () => {
    const events = ["call.succeeded"];
    const hook = { url: "https://example.com/hook", events };
    const { body: webhook } = await api<{ id: string }>("POST", `${base}/webhooks`, hook);
    const used = async (): Promise<number> => {
      const { body } = await api<List<{ tool: string; calls: number }>>("GET", `${base}/usage`);
      return body.items.filter(({ tool }) => tool === "inner").reduce((sum, { calls }) => sum + calls, 0);
    };
    const before = await used();
    const { body: root } = await api<Call>("POST", `${base}/tools/outer/calls`, { input: { n: 3 } });
    await api("GET", `${base}/calls/${root.id}`);
    expect(await used()).toBe(before + 3);
    const deliveries = await api<List<{ body: { data: { id: string } } }>>(
      ...(["GET", `${base}/webhooks/${webhook.id}/deliveries`] as const),
    );
    expect(deliveries.body.items).toHaveLength(1);
    await api("DELETE", `${base}/webhooks/${webhook.id}`);
  });

  test("an asynchronous call stores the calls that it made before its own end", async () => {
    const { body } = await api<Call>("POST", `${base}/tools/outer/calls`, { input: {} }, { prefer: "respond-async" });
    await vi.waitFor(
      async () => {
        const { body: row } = await api<Call>("GET", `${base}/calls/${body.id}`);
        expect(row.state).toBe("succeeded");
        expect((await api<List<TreeCall>>("GET", `${base}/calls/${body.id}/tree`)).body.items).toHaveLength(5);
      },
      { interval: 20 },
    );
  });

  test("a nested call that runs is in the tree, streams its log, and can be cancelled by itself", async () => {
    const { body: root } = await api<Call>("POST", `${base}/tools/holder/calls`, {}, { prefer: "respond-async" });
    const nested = `${root.id}.1`;
    await vi.waitFor(
      async () => {
        const { body } = await api<List<TreeCall>>("GET", `${base}/calls/${root.id}/tree`);
        expect(body.items.map(({ id, state, code }) => [id, state, code])).toEqual([
          [root.id, "running", null],
          [nested, "running", null],
        ]);
      },
      { interval: 20 },
    );
    const response = await fetch(`${under.server.url}${base}/calls/${nested}/events`, {
      headers: { authorization: `Bearer ${under.server.adminKey}` },
    });
    let events = "";
    let isCancelled = false;
    for await (const text of (response.body as ReadableStream<Uint8Array<ArrayBuffer>>).pipeThrough(
      new TextDecoderStream(),
    )) {
      events += text;
      // It is cancelled once it has written its line.
      if (isCancelled || !events.includes('"waits"')) continue;
      isCancelled = true;
      expect((await api("POST", `${base}/calls/${nested}/cancel`)).status).toBe(202);
    }
    expect(events).toMatch(/event: log\ndata: .*"waits"[\s\S]*event: result\ndata: .*"state":"cancelled"/);
    await vi.waitFor(
      async () => expect((await api<Call>("GET", `${base}/calls/${root.id}`)).body.state).toBe("failed"),
      { interval: 20 },
    );
  });

  test("a client that reconnects to the events of a call gets the lines that it has missed", async () => {
    const source = `export default async () => {
      for (let index = 0; index < 5; index += 1) console.log("line", index);
      await new Promise((resolve) => setTimeout(resolve, 60_000));
    };`;
    await api("POST", `${base}/tools`, { name: "lines", source });
    const { body: root } = await api<Call>("POST", `${base}/tools/lines/calls`, {}, { prefer: "respond-async" });
    const read = async (headers: { readonly [name: string]: string }, until: string): Promise<string> => {
      const response = await fetch(`${under.server.url}${base}/calls/${root.id}/events`, {
        headers: { authorization: `Bearer ${under.server.adminKey}`, ...headers },
      });
      let text = "";
      const decoder = new TextDecoder();
      for await (const bytes of response.body as unknown as AsyncIterable<Uint8Array>) {
        text += decoder.decode(bytes, { stream: true });
        if (text.includes(until)) break;
      }
      return text;
    };
    expect(await read({}, "line 4")).toContain("line 0");
    const rest = await read({ "last-event-id": "2" }, "line 4");
    expect([rest.includes("line 2"), rest.includes("line 3")]).toEqual([false, true]);
    expect(await read({ "last-event-id": "nonsense" }, "line 4")).toContain("line 0");
    expect((await api("POST", `${base}/calls/${root.id}/cancel`)).status).toBe(202);
  });

  test("another tenant has no part of a tree, and odd ids are no calls", async () => {
    const { body: root } = await api<Call>("POST", `${base}/tools/outer/calls`, { input: {} });
    const paths = ["", "/tree", "/timeline", "/events"];
    for (const path of paths) {
      expect((await api("GET", `/v1/tenants/beta/calls/${root.id}.1${path}`)).status).toBe(404);
      expect((await api("GET", `/v1/tenants/beta/calls/${root.id}${path}`)).status).toBe(404);
      for (const id of [`${root.id}.9`, `${root.id}.1.1.1`]) {
        expect((await api("GET", `${base}/calls/${id}${path}`)).status).toBe(404);
      }
      for (const id of [`${root.id}.`, `${root.id}.x`, `${root.id}..1`, `${root.id}.1%00`, `${root.id}.1234567`]) {
        expect((await api("GET", `${base}/calls/${id}${path}`)).status).toBe(422);
      }
    }
    expect((await api("POST", `/v1/tenants/beta/calls/${root.id}.1/cancel`)).status).toBe(404);
  });
});
