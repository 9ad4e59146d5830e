// Leases of calls, and the outcomes of calls whose process is gone. On both databases.
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { type OpenDatabase, openDatabase } from "../../src/server/database/open-database.ts";
import { type CallRow, findCall } from "../../src/server/records/calls/calls.ts";
import { useServer } from "./support/server.ts";
import { STORES, TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());
afterEach(() => void vi.useRealTimers());

interface Call {
  readonly id: string;
  readonly state: string;
  readonly error: { readonly code: string; readonly message: string } | null;
}

const ENDLESS = "export default async () => { for (;;) await new Promise((resolve) => setTimeout(resolve, 20)); }";

describe.for(STORES)("with %s", (kind) => {
  const parts = useServer(stores, kind, ["acme"]);
  const { api } = parts;
  let database: OpenDatabase;
  const calls = "/v1/tenants/acme/calls";
  const begin = (key: string) =>
    api<Call>("POST", "/v1/tenants/acme/tools/endless/calls", {}, { "idempotency-key": key });
  const rowOf = async (key: string): Promise<CallRow> =>
    await database.db.selectFrom("calls").selectAll().where("idempotency_key", "=", key).executeTakeFirstOrThrow();
  const running = async (key: string): Promise<CallRow> => {
    await vi.waitFor(async () => expect((await api("GET", `${calls}/${(await rowOf(key)).id}`)).status).toBe(200), {
      timeout: 60_000,
    });
    return await rowOf(key);
  };

  /** Cancels a call, which may only begin, until it has ended. */
  const stop = async <Answer>(id: string, answer: Promise<Answer>): Promise<Answer> => {
    let ended: { readonly answer: Answer } | undefined;
    void answer.then((given) => {
      ended = { answer: given };
    });
    return await vi.waitFor(
      async () => {
        await api("POST", `${calls}/${id}/cancel`);
        if (ended === undefined) throw new Error("The call runs");
        return ended.answer;
      },
      { timeout: 60_000 },
    );
  };

  beforeAll(async () => {
    const tool = { name: "endless", source: ENDLESS, limits: { timeoutMs: 300_000 } };
    expect((await api("POST", "/v1/tenants/acme/tools", tool)).status).toBe(201);
    const { dataDir, database: url } = parts.store.options;
    database = await openDatabase({ url, dataDir, onError() {} });
  });
  afterAll(() => database[Symbol.asyncDispose]());

  test("the lease of a direct call with an idempotency key is renewed until the call has ended", async () => {
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    const answer = begin("long");
    const { id, lease_until: first } = await running("long");
    await vi.waitFor(
      async () => {
        vi.advanceTimersByTime(60_000);
        expect((await rowOf("long")).lease_until).toBeGreaterThan(first ?? 0);
      },
      { timeout: 60_000 },
    );
    expect((await stop(id, answer)).body).toMatchObject({ id, state: "cancelled" });
    expect(await findCall(database.db, "acme", id)).toMatchObject({ state: "cancelled", lease_until: null });
  });

  test("a call that another process has ended is answered with the stored outcome", async () => {
    const answer = begin("taken");
    const { id } = await running("taken");
    await database.db.updateTable("calls").set({ lease_until: 0 }).where("id", "=", id).execute();
    await vi.waitFor(async () => expect((await rowOf("taken")).state).toBe("failed"), { timeout: 60_000 });
    const { body } = await stop(id, answer);
    expect(body).toMatchObject({ id, state: "failed", error: { code: "SANDBOX_CRASHED" } });
    expect((await begin("taken")).body).toEqual(body);
  });
});
