// Streams of calls: what the generator does when its client leaves while the call waits for an approval, and when the call fails.
import { sql } from "kysely";
import { afterAll, describe, expect, test } from "vitest";
import type { CallCaller } from "../../src/server/calls/call-request.ts";
import { AwaitedCalls } from "../../src/server/calls/running/awaited-calls.ts";
import { LiveCalls } from "../../src/server/calls/running/live-calls.ts";
import { StreamedCalls } from "../../src/server/calls/running/streamed-calls.ts";
import { WatchedCalls } from "../../src/server/calls/running/watched-calls.ts";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { createServer } from "../../src/server/index.ts";
import { findCall, insertCalls } from "../../src/server/records/calls/calls.ts";
import { TenantPolicySchema } from "../../src/server/records/tenants/tenant-policy.ts";
import { insertTenant } from "../../src/server/records/tenants/tenants.ts";
import { LocalBus } from "../../src/server/replicas/bus.ts";
import { ReplicaRequests } from "../../src/server/replicas/requests.ts";
import { apiOf } from "./support/api.ts";
import { endedRow } from "./support/call-row.ts";
import { STORES, TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

test("a stream ends when its client leaves during the approval, and leaves the call as it is", async () => {
  await using store = await stores.create("sqlite");
  await using database = await openDatabase({ url: undefined, dataDir: store.options.dataDir, onError() {} });
  const { db } = database;
  const tenant = await insertTenant(db, { id: "acme", name: "acme", policy: TenantPolicySchema.parse({}) });
  const waiting = endedRow(Date.now(), {
    state: "waiting_for_approval",
    mode: "async",
    effects: "none",
    approval_id: "approval_1",
    output: null,
    started_at: null,
    ended_at: null,
    attempts: 0,
  });
  await insertCalls(db, [waiting]);
  const errors: unknown[] = [];
  const onError = (error: unknown): void => void errors.push(error);
  const cancelled: string[] = [];
  const bus = new LocalBus(onError, "1.0.0");
  using requests = new ReplicaRequests(bus);
  await using watched = new WatchedCalls({
    db,
    bus,
    requests,
    live: new LiveCalls(),
    timelineOf: () => undefined,
    onError,
  });
  const streamed = new StreamedCalls({
    direct: { run: async () => ({ waiting }) },
    awaited: new AwaitedCalls({ database, watched, onError, cancel: async (_, id) => cancelled.push(id) }),
    clock: database.clock,
  });
  const client = new AbortController();
  const caller: CallCaller = { tenant, keyId: "key_1", signal: client.signal };
  const events = streamed.stream({ toolName: "common", input: {} }, caller);
  expect((await events.next()).value).toMatchObject({ event: "started" });
  expect((await events.next()).value).toEqual({
    event: "approval",
    data: { approvalId: "approval_1", callId: waiting.id },
  });
  const next = events.next();
  client.abort();
  expect(await next).toEqual({ done: true, value: undefined });
  expect([errors, cancelled]).toEqual([[], []]);
  expect(await findCall(db, "acme", waiting.id)).toMatchObject({ state: "waiting_for_approval", ended_at: null });
});

test("the error of a call that fails while its client reads an earlier event follows the events, and is handled", async () => {
  await using store = await stores.create("sqlite");
  await using database = await openDatabase({ url: undefined, dataDir: store.options.dataDir, onError() {} });
  const tenant = await insertTenant(database.db, { id: "acme", name: "acme", policy: TenantPolicySchema.parse({}) });
  const failure = new Error("The database is away");
  const streamed = new StreamedCalls({
    direct: { run: () => Promise.reject(failure) },
    awaited: { stream: () => Promise.reject(new Error("No call waits")) } as unknown as AwaitedCalls,
    clock: database.clock,
  });
  const events = streamed.stream({ toolName: "common", input: {} }, { tenant, keyId: "key_1" });
  expect((await events.next()).value).toMatchObject({ event: "started" });
  // Vitest fails if a rejection is not handled by then.
  await new Promise((resolve) => setImmediate(resolve));
  await expect(events.next()).rejects.toBe(failure);
});

describe.for(STORES)("with %s", (kind) => {
  test("the events of a call that cannot be read any more end with an error, and the server reports its cause", async () => {
    await using store = await stores.create(kind);
    await using server = await createServer({ ...store.options, port: 0, logLevel: "silent" });
    const api = apiOf(server);
    await api("POST", "/v1/tenants", { id: "acme" });
    const source = "export const annotations = { destructiveHint: true }; export default () => 1;";
    await api("POST", "/v1/tenants/acme/tools", { name: "wait", source, approve: true });
    const { status, body } = await api("POST", "/v1/tenants/acme/tools/wait/calls", { input: {} });
    expect([status, body.state]).toEqual([202, "waiting_for_approval"]);
    const response = await fetch(`${server.url}/v1/tenants/acme/calls/${body.id}/events`, {
      headers: { authorization: `Bearer ${server.adminKey}` },
    });
    expect(response.status).toBe(200);
    const { database: url, dataDir } = store.options;
    await using database = await openDatabase({ url, dataDir, onError() {} });
    await sql`alter table calls rename to away`.execute(database.db);
    const [, data] = /^event: error\ndata: (.*)\n\n$/.exec(await response.text()) ?? [];
    const requestId = response.headers.get("x-request-id");
    expect(JSON.parse(data ?? "null")).toEqual({
      status: 500,
      error: {
        code: "INTERNAL",
        message: `The server failed. Its operator finds the cause in the log by the request id ${requestId}`,
        docs: "docs/reference/errors/INTERNAL.md",
        requestId,
      },
    });
    await sql`alter table away rename to calls`.execute(database.db);
  });
});
