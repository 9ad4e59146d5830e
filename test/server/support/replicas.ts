// Several servers with one Postgres, for the tests of a file.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { createServer, type Server } from "../../../src/server/index.ts";
import { keepInterpreter, useKnownInterpreter } from "../../support/interpreter-cache.ts";
import { PATIENT_LIMITS } from "../../support/patient-limits.ts";
import { apiOf } from "./api.ts";
import type { TestStore, TestStores } from "./stores.ts";

export type Api = ReturnType<typeof apiOf>;

export interface ReplicasForTests {
  readonly store: TestStore;
  /** Sends requests to one of the replicas with the admin key. */
  readonly apis: readonly Api[];
  readonly servers: readonly Server[];
  /** The key that the first of them has created. */
  readonly adminKey: string;
}

/** Starts replicas before the tests, and closes them afterwards. Each has a folder of its own. */
export function useReplicas(stores: TestStores, count: number, tenants: readonly string[]): ReplicasForTests {
  let store: TestStore | undefined;
  const servers: Server[] = [];
  const folders: string[] = [];
  const apis = Array.from(
    { length: count },
    (_, index): Api =>
      (...args) => {
        const [first] = servers as [Server];
        return apiOf(servers[index] as Server, first.adminKey)(...args);
      },
  );
  beforeAll(async () => {
    store = await stores.create("postgres");
    for (let index = 0; index < count; index += 1) {
      const dataDir = mkdtempSync(join(tmpdir(), "glovebox-replica-"));
      folders.push(dataDir);
      useKnownInterpreter(join(dataDir, "cache"));
      const options = {
        ...store.options,
        dataDir,
        port: 0,
        logLevel: "silent",
        masterKey: "00".repeat(32),
        maxWorkers: 4,
        // Tools wait for what the test does next.
        limits: { ...PATIENT_LIMITS, timeoutMs: 300_000 },
      };
      servers.push(await createServer(options as never));
    }
    for (const id of tenants) expect((await (apis[0] as Api)("POST", "/v1/tenants", { id })).status).toBe(201);
  });
  afterAll(async () => {
    for (const server of servers) await server.close({ drainMs: 0 });
    for (const folder of folders) {
      keepInterpreter(join(folder, "cache"));
      rmSync(folder, { recursive: true, force: true });
    }
    await store?.[Symbol.asyncDispose]();
  });
  return {
    get store() {
      if (store === undefined) throw new Error("The replicas start before the first test");
      return store;
    },
    get adminKey() {
      return servers[0]?.adminKey ?? "";
    },
    apis,
    servers,
  };
}
