// Streams of calls that wait for an approval: what the generator does when its client leaves.
import { afterAll, expect, test } from "vitest";
import { AwaitedCalls } from "../../src/server/calls/awaited-calls.ts";
import type { CallCaller } from "../../src/server/calls/call-request.ts";
import { LiveCalls } from "../../src/server/calls/live-calls.ts";
import { StreamedCalls } from "../../src/server/calls/streamed-calls.ts";
import { WatchedCalls } from "../../src/server/calls/watched-calls.ts";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { findCall, insertCalls } from "../../src/server/records/calls.ts";
import { TenantPolicySchema } from "../../src/server/records/tenant-policy.ts";
import { insertTenant } from "../../src/server/records/tenants.ts";
import { LocalBus } from "../../src/server/replicas/bus.ts";
import { ReplicaRequests } from "../../src/server/replicas/requests.ts";
import { endedRow } from "./support/call-row.ts";
import { TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

test("a stream ends when its client leaves during the approval, and leaves the call as it is", async () => {
  await using store = await stores.create("sqlite");
  await using database = await openDatabase({ url: undefined, dataDir: store.options.dataDir, onError() {} });
  const { db } = database;
  const tenant = await insertTenant(db, { id: "acme", name: "acme", policy: TenantPolicySchema.parse({}) });
  const waiting = endedRow(Date.now(), {
    ...{ state: "waiting_for_approval", mode: "async", effects: "none", approval_id: "approval_1" },
    ...{ output: null, started_at: null, ended_at: null, attempts: 0 },
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
    awaited: new AwaitedCalls({
      ...{ database, watched, onError },
      cancel: async (_, id) => cancelled.push(id),
    }),
    clock: database.clock,
  });
  const client = new AbortController();
  const caller: CallCaller = { tenant, keyId: "key_1", signal: client.signal };
  const events = streamed.stream({ toolName: "common", input: {} }, caller);
  expect((await events.next()).value).toMatchObject({ event: "started" });
  expect((await events.next()).value).toEqual({
    ...{ event: "approval", data: { approvalId: "approval_1", callId: waiting.id } },
  });
  const next = events.next();
  client.abort();
  expect(await next).toEqual({ done: true, value: undefined });
  expect([errors, cancelled]).toEqual([[], []]);
  expect(await findCall(db, "acme", waiting.id)).toMatchObject({ state: "waiting_for_approval", ended_at: null });
});
