// Who may act for a tenant at a replica that gets calls of others: the same keys as at the one that got the request.
import { afterAll, beforeAll, expect, test } from "vitest";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { createId } from "../../src/server/ids.ts";
import type { AnswerMessage } from "../../src/server/replicas/peers/messages.ts";
import { PeerClient, PeerExchange } from "../../src/server/replicas/peers/peer-client.ts";
import { MasterKey } from "../../src/server/secrets/master-key.ts";
import { type Api, useReplicas } from "./support/replicas.ts";
import { TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());
const replicas = useReplicas(stores, 1, ["acme", "beta"]);
const [api] = replicas.apis as [Api];

beforeAll(async () => {
  const tool = { name: "one", source: "export default () => 1;", approve: true, isolateLifetime: "session" };
  expect((await api("POST", "/v1/tenants/acme/tools", tool)).status).toBe(201);
});

const withDatabase = async <Value>(use: (database: Awaited<ReturnType<typeof openDatabase>>) => Promise<Value>) => {
  await using database = await openDatabase({ url: replicas.store.options.database, dataDir: "", onError() {} });
  return await use(database);
};

/** Passes a call of a key on to the replica, and returns its last message. */
const passOn = async (keyId: string, tenantId = "acme"): Promise<AnswerMessage | undefined> =>
  await withDatabase(async ({ db, clock }) => {
    const { id: replicaId } = await db.selectFrom("replicas").select("id").executeTakeFirstOrThrow();
    using client = new PeerClient({ masterKey: new MasterKey(Buffer.alloc(32)), clock, replicaId: "other" });
    const exchange = await client.open(
      { replicaId, url: replicas.servers[0]?.url ?? "" },
      new AbortController().signal,
    );
    if (!(exchange instanceof PeerExchange)) throw new Error(`The replica answers ${JSON.stringify(exchange)}`);
    using _ = exchange;
    const call = { type: "call", at: clock.now(), mode: "sync", callId: createId("call"), tenantId, keyId } as const;
    for await (const { message } of exchange.call({ ...call, toolName: "one", sessionId: "s" }, ["{}"])) {
      if (message.type === "alive") continue;
      exchange.finish();
      return message;
    }
    return undefined;
  });

const createKey = async (path: string): Promise<string> => {
  const { status, body } = await api<{ id: string }>("POST", path, { name: "k", scopes: ["calls:run"] });
  expect(status).toBe(201);
  return body.id;
};

test.for([
  ["a key of the platform", "/v1/keys"],
  ["a key of the tenant", "/v1/tenants/acme/keys"],
] as const)("runs a call of %s", async ([, path]) => {
  expect(await passOn(await createKey(path))).toMatchObject({ type: "result", row: { state: "succeeded" } });
});

test("runs a call of a user, whom the other replica has verified", async () => {
  expect(await passOn("jwt:user")).toMatchObject({ type: "result", row: { state: "succeeded" } });
});

test("declines calls of a key that was revoked, has expired or belongs to another tenant", async () => {
  const [revoked, expired] = [await createKey("/v1/tenants/acme/keys"), await createKey("/v1/tenants/acme/keys")];
  expect((await api("DELETE", `/v1/tenants/acme/keys/${revoked}`)).status).toBe(200);
  await withDatabase(({ db, clock }) =>
    db.updateTable("api_keys").set({ expires_at: clock.now() }).where("id", "=", expired).execute(),
  );
  const others = await createKey("/v1/tenants/beta/keys");
  for (const keyId of [revoked, expired, others, createId("key")])
    expect([keyId, await passOn(keyId)]).toEqual([keyId, { type: "declined", reason: "key_revoked" }]);
});

test("declines calls of a tenant that does not exist", async () => {
  const platform = await createKey("/v1/keys");
  for (const keyId of [platform, createId("key"), "jwt:user"])
    expect(await passOn(keyId, "none")).toEqual({ type: "declined", reason: "no_tenant" });
  // Postgres would reject it.
  expect(await passOn(platform, "a\0")).toEqual({ type: "declined", reason: "key_revoked" });
});
