// Upgrades all servers and executors one after the other, as real processes, under a steady load of calls: no call fails. Clients go to another
// server only if theirs refuses connections, or if its /readyz says that it stops, as a load balancer does.
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, describe, expect, test, vi } from "vitest";
import type { Call } from "../../src/client/index.ts";
import { TestStores } from "../server/support/stores.ts";
import { type Deployment, type DeploymentOptions, type Member, openDeployment } from "../support/deployment.ts";
import { hasNatsServer } from "../support/nats-server.ts";
import { PATIENT_LIMITS } from "../support/patient-limits.ts";

/** How often the load balancer looks at a server, in ms. */
const CHECK_MS = 100;
/** Longer than several checks, also on a busy machine. */
const STOP_DELAY_MS = 15_000;
const CONFIG = {
  limits: PATIENT_LIMITS,
  maxWorkers: 2,
  stopDelayMs: STOP_DELAY_MS,
  // Executors on a busy machine are silent for a while, and not lost.
  executorSilenceMs: 60_000,
};
const LANES = 4;
const TOOL = `export default async ({ n, ms }) => {
  await new Promise((resolve) => setTimeout(resolve, ms));
  return n;
}`;
/** Returns how often it was called in its session, which ends with its replica. */
const COUNTER = `let count = 0;
export default async ({ ms }) => {
  await new Promise((resolve) => setTimeout(resolve, ms));
  return (count += 1);
}`;
const SESSIONS = ["a", "b"];

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());
let opened: AsyncDisposableStack | undefined;
afterEach(() => opened?.disposeAsync());

/** Knows which servers accept requests, and sends each to the next one. */
class LoadBalancer implements AsyncDisposable {
  readonly #deployment: Deployment;
  readonly #stopped = new AbortController();
  readonly #ready = new Map<Member, string>();
  readonly #checking: Promise<unknown>;
  #turn = 0;

  constructor(deployment: Deployment) {
    this.#deployment = deployment;
    for (const server of deployment.servers) this.#ready.set(server, server.url);
    this.#checking = Promise.all(deployment.servers.map((server) => this.#watch(server)));
  }

  async #watch(server: Member): Promise<void> {
    while (!this.#stopped.signal.aborted) {
      const { url } = server;
      const isReady = await fetch(`${url}/readyz`).then(
        async (response) => {
          await response.arrayBuffer();
          return response.ok;
        },
        () => false,
      );
      if (isReady) this.#ready.set(server, url);
      else this.#ready.delete(server);
      await sleep(CHECK_MS);
    }
  }

  /** Sends a request to the next server; to another one only if it refuses the connection. */
  async send(path: string, body?: object, headers: { readonly [name: string]: string } = {}): Promise<Response> {
    for (;;) {
      const urls = [...this.#ready.values()];
      if (urls.length === 0) {
        await sleep(CHECK_MS);
        continue;
      }
      const url = urls[this.#turn % urls.length];
      this.#turn += 1;
      try {
        return await fetch(`${url}${path}`, {
          ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
          headers: {
            authorization: `Bearer ${this.#deployment.adminKey}`,
            "content-type": "application/json",
            ...headers,
          },
        });
      } catch (thrown) {
        const { cause } = thrown as { readonly cause?: { readonly code?: string } };
        if (cause?.code !== "ECONNREFUSED") throw thrown;
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopped.abort();
    await this.#checking;
  }
}

const SET_UPS: readonly (readonly [string, Partial<DeploymentOptions>])[] = [
  ["three replicas", { servers: 3 }],
  ["two control planes and three executors", { servers: 2, executors: ["one", "two", "three"] }],
];

describe.for(SET_UPS)("with %s", ([, set]) => {
  test.skipIf(set.executors !== undefined && !hasNatsServer)(
    "no call fails while each process is replaced",
    async () => {
      opened = new AsyncDisposableStack();
      const { database = "" } = (await stores.create("postgres")).options;
      const options: DeploymentOptions = { servers: 1, ...set, databaseOf: () => database, config: CONFIG };
      const deployment = opened.use(await openDeployment(options));
      const admin = deployment.client();
      await admin.createTenant({ id: "acme", policy: { limits: { timeoutMs: 120_000 } } });
      await admin.tenant("acme").deploy({ name: "echo", source: TOOL });
      await admin.tenant("acme").deploy({ name: "counter", source: COUNTER, isolateLifetime: "session" });
      const balancer = opened.use(new LoadBalancer(deployment));

      let made = 0;
      let isOver = false;
      const wrong: unknown[] = [];
      const queued = new Map<string, number>();
      const lane = async (isLater: boolean): Promise<void> => {
        while (!isOver) {
          made += 1;
          const n = made;
          const input = { n, ms: Math.round(Math.random() * 500) };
          try {
            const headers: { readonly [name: string]: string } = isLater ? { prefer: "respond-async" } : {};
            const response = await balancer.send("/v1/tenants/acme/tools/echo/calls", { input }, headers);
            const call = (await response.json()) as Call;
            if (isLater && response.status === 202) queued.set(call.id, n);
            else if (response.status !== 200 || call.output !== n) wrong.push({ n, status: response.status, call });
            await sleep(isLater ? 250 : 50);
          } catch (thrown) {
            wrong.push({ n, thrown, cause: (thrown as Error).cause });
          }
        }
      };
      /** Whether a session has gone on at another server than the one before. */
      let isKept = false;
      const sessionLane = async (sessionId: string): Promise<void> => {
        let before = 0;
        while (!isOver) {
          const input = { ms: Math.round(Math.random() * 200) };
          const response = await balancer.send("/v1/tenants/acme/tools/counter/calls", { sessionId, input });
          const { output, error } = (await response.json()) as Call;
          // One more than before, or a session that has begun anew.
          if (response.status !== 200 || (output !== before + 1 && output !== 1)) wrong.push({ before, output, error });
          isKept ||= output === 4;
          before = Number(output);
          await sleep(50);
        }
      };
      const lanes = Array.from({ length: LANES }, (_, index) => lane(index === 0));
      // Sessions on executors end with these, and say so.
      if (set.executors === undefined) lanes.push(...SESSIONS.map(sessionLane));
      const codes: (number | null)[] = [];
      for (const member of [...deployment.servers, ...deployment.executors]) {
        const before = made;
        await vi.waitFor(() => expect(made).toBeGreaterThan(before + 2 * LANES));
        codes.push(await member.restart("SIGTERM"));
      }
      const before = made;
      await vi.waitFor(() => expect(made).toBeGreaterThan(before + 2 * LANES));
      isOver = true;
      await Promise.all(lanes);
      expect(wrong).toEqual([]);
      expect(codes.filter((code) => code !== 0)).toEqual([]);
      for (const [id, n] of queued) {
        await expect
          .poll(async () => await (await balancer.send(`/v1/tenants/acme/calls/${id}`)).json())
          .toMatchObject({ state: "succeeded", output: n });
      }
      expect(queued.size).toBeGreaterThan(5);
      expect(isKept).toBe(set.executors === undefined);
    },
  );
});
