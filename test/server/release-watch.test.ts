// The automatic rollback of a release decides on the calls of all servers: of two replicas, and of a server before and after a restart.
import { afterAll, describe, expect, test } from "vitest";
import { createServer, type Server } from "../../src/server/index.ts";
import { apiOf } from "./support/api.ts";
import { STORES, TestStores } from "./support/stores.ts";

interface Releases {
  readonly items: readonly { readonly alias: string; readonly versions: readonly { readonly version: number }[] }[];
}

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

/** Returns the versions that the release runs. */
const runs = async (api: ReturnType<typeof apiOf>): Promise<readonly number[] | undefined> => {
  const { body } = await api<Releases>("GET", "/v1/tenants/acme/tools/flaky/releases");
  return body.items.find(({ alias }) => alias === "live")?.versions.map(({ version }) => version);
};

describe.for(STORES)("with %s", (kind) => {
  test("a version is rolled back that has failed often enough at two servers together", async () => {
    await using store = await stores.create(kind);
    const servers: Server[] = [];
    const start = async (): Promise<Server> => {
      const options = { ...store.options, port: 0, logLevel: "silent", masterKey: "00".repeat(32) } as const;
      const server = await createServer(options);
      servers.push(server);
      return server;
    };
    try {
      const first = await start();
      const adminKey = first.adminKey as string;
      const api = apiOf(first);
      await api("POST", "/v1/tenants", { id: "acme" });
      for (const source of ["export default () => 'good'", "export default () => { throw new Error('bad') }"])
        expect((await api("POST", "/v1/tenants/acme/tools", { name: "flaky", source })).status).toBe(201);
      const path = "/v1/tenants/acme/tools/flaky/releases/live";
      await api("PUT", path, { versions: [{ version: 1, weight: 100 }] });
      const rollback = { errorRate: 0.5, minCalls: 6 };
      await api("PUT", path, { versions: [{ version: 2, weight: 100 }], rollback });
      const fail = async (server: Server): Promise<void> => {
        for (let count = 0; count < 3; count += 1)
          await apiOf(server, adminKey)("POST", "/v1/tenants/acme/tools/flaky/calls", {});
      };
      await fail(first);
      expect(await runs(api)).toEqual([2]);
      // A file of SQLite belongs to one server.
      if (kind === "sqlite") await first.close();
      const second = await start();
      await fail(second);
      const own = apiOf(second, adminKey);
      await expect.poll(() => runs(own)).toEqual([1]);
      const { body } = await own<{ items: { action: string; details: object }[] }>("GET", "/v1/tenants/acme/audit");
      expect(body.items.find(({ action }) => action === "release.rolled_back")).toMatchObject({
        details: { failedVersion: 2, calls: 6, faults: 6 },
      });
    } finally {
      for (const server of servers) await server.close({ drainMs: 0 });
    }
  });
});
