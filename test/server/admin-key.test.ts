// The first admin key: it is created when the server can show it, and only if there is no valid one.
import { createServer as createTcpServer } from "node:net";
import { afterAll, describe, expect, test } from "vitest";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { createServer } from "../../src/server/index.ts";
import { apiOf } from "./support/api.ts";
import { STORES, TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

describe.for(STORES)("with %s", (kind) => {
  test("a start that cannot listen creates no key, and the next one shows it", async () => {
    await using store = await stores.create(kind);
    const options = { ...store.options, logLevel: "silent" } as const;
    const occupant = createTcpServer();
    await new Promise<void>((resolve) => occupant.listen(0, "127.0.0.1", resolve));
    const { port } = occupant.address() as { port: number };
    await expect(createServer({ ...options, port })).rejects.toThrow(`Port ${port} of 127.0.0.1 is in use`);
    await new Promise((resolve) => occupant.close(resolve));

    await using server = await createServer({ ...options, port });
    expect((await apiOf(server)("GET", "/v1/keys")).status).toBe(200);
  });

  test("a key that is expired or revoked does not count, and a valid one does", async () => {
    await using store = await stores.create(kind);
    const options = { ...store.options, logLevel: "silent", port: 0 } as const;
    const first = await createServer(options);
    const send = apiOf(first);
    const { body } = await send<{ items: { id: string }[] }>("GET", "/v1/keys");
    const scopes = ["keys:read", "keys:write"];
    const last = await send<{ id: string }>("POST", "/v1/keys", { name: "last", scopes, expiresInDays: 1 });
    expect((await send("DELETE", `/v1/keys/${body.items[0]?.id}`)).status).toBe(200);
    await first.close({ drainMs: 0 });

    const second = await createServer(options);
    expect(second.adminKey).toBeUndefined();
    await second.close({ drainMs: 0 });

    {
      const { dataDir, database: url } = store.options;
      await using database = await openDatabase({ url, dataDir, onError() {} });
      await database.db
        .updateTable("api_keys")
        .set({ expires_at: Date.now() - 1 })
        .where("id", "=", last.body.id)
        .execute();
    }
    await using third = await createServer(options);
    expect((await apiOf(third)("GET", "/v1/keys")).status).toBe(200);
  });
});
