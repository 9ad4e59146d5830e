// A server for the tests of one store: started before them with its tenants, and closed after them.
import { afterAll, beforeAll, expect } from "vitest";
import { createServer, type Server } from "../../../src/server/index.ts";
import { apiOf } from "./api.ts";
import type { StoreKind, TestStore, TestStores } from "./stores.ts";

export interface ServerForTests {
  readonly store: TestStore;
  readonly server: Server;
  /** Sends requests with the admin key. */
  readonly api: ReturnType<typeof apiOf>;
}

export function useServer(stores: TestStores, kind: StoreKind, tenants: readonly string[]): ServerForTests {
  let opened: { readonly store: TestStore; readonly server: Server } | undefined;
  const parts = (): { readonly store: TestStore; readonly server: Server } => {
    if (opened === undefined) throw new Error("The server starts before the first test");
    return opened;
  };
  const api: ServerForTests["api"] = (...args) => apiOf(parts().server)(...args);
  beforeAll(async () => {
    const store = await stores.create(kind);
    opened = { store, server: await createServer({ ...store.options, port: 0, logLevel: "silent" }) };
    for (const id of tenants) expect((await api("POST", "/v1/tenants", { id })).status).toBe(201);
  });
  afterAll(async () => {
    const { store, server } = parts();
    await server.close({ drainMs: 0 });
    await store[Symbol.asyncDispose]();
  });
  return {
    get store() {
      return parts().store;
    },
    get server() {
      return parts().server;
    },
    api,
  };
}
