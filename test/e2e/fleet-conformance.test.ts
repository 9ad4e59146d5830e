// The same scenarios against one server, three replicas with one Postgres, and a control plane with four executors: same results, same errors,
// same effects, logs and timelines. The first set-up is checked against what is expected, the others against the first.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { GloveboxClient } from "../../src/client/index.ts";
import { RESOURCE_SCENARIOS } from "../fleet/conformance/resource-scenarios.ts";
import { CALL_SCENARIOS, type Scenario } from "../fleet/conformance/scenarios.ts";
import { TOOLS } from "../fleet/conformance/single-calls.ts";
import { TestStores } from "../server/support/stores.ts";
import { type Deployment, type DeploymentOptions, openDeployment } from "../support/deployment.ts";
import { hasNatsServer } from "../support/nats-server.ts";

const SCENARIOS: readonly Scenario[] = [...CALL_SCENARIOS, ...RESOURCE_SCENARIOS];
const REFERENCE = "one server";
const CONFIG = { limits: { timeoutMs: 300_000, queueMs: 300_000, cpuMs: 120_000 }, maxWorkers: 4 };

const stores = new TestStores();
const target = createServer((request, response) => response.end(`got ${request.headers.authorization}`));
let origin = "";

beforeAll(async () => {
  await new Promise<void>((resolve) => target.listen(0, "127.0.0.1", resolve));
  origin = `http://127.0.0.1:${(target.address() as AddressInfo).port}`;
});
afterAll(async () => {
  target.closeAllConnections();
  target.close();
  await stores[Symbol.asyncDispose]();
});

const SET_UPS: { readonly [name: string]: () => Promise<DeploymentOptions> } = {
  [REFERENCE]: async () => ({ servers: 1 }),
  "three replicas": async () => {
    const { database = "" } = (await stores.create("postgres")).options;
    return { servers: 3, databaseOf: () => database };
  },
  "a control plane with four executors": async () => ({
    servers: 1,
    executors: ["one", "two", "three", "four"],
    // Executors on a busy machine are silent for a while, and not lost.
    config: { ...CONFIG, executorSilenceMs: 60_000 },
  }),
};

async function deployTools(client: GloveboxClient): Promise<void> {
  const limits = { timeoutMs: 300_000, memoryMiB: 64, inputBytes: 4 * 1024 * 1024, outputBytes: 8 * 1024 * 1024 };
  const egress = { allow: [{ to: "127.0.0.1", ports: [Number(new URL(origin).port)], addresses: ["127.0.0.1"] }] };
  await client.createTenant({ id: "acme", policy: { limits, egress } });
  const acme = client.tenant("acme");
  await acme.setSecret("token", { value: "s3cret-t0ken-value", hosts: [origin] });
  for (const [name, { grant: _, ...tool }] of Object.entries(TOOLS))
    await acme.deploy({ name, ...tool, approve: true });
}

/** What was seen in the first set-up. */
const reference = new Map<string, unknown>();

describe.for(Object.keys(SET_UPS))("with %s", (name) => {
  const isSkipped = name.includes("executors") && !hasNatsServer;
  let deployment: Deployment | undefined;
  let client: GloveboxClient;
  /** Statuses of the requests that change something, since the scenario has begun. */
  let statuses: string[] = [];

  beforeAll(async () => {
    if (isSkipped) return;
    deployment = await openDeployment({ config: CONFIG, ...(await SET_UPS[name]?.()) } as DeploymentOptions);
    client = deployment.client((method, { status }) => {
      if (method !== "GET") statuses.push(`${method} ${status}`);
    });
    await deployTools(client);
  });
  afterAll(async () => {
    await deployment?.[Symbol.asyncDispose]();
  });

  test.skipIf(isSkipped).for(SCENARIOS)("$what", async ({ what, run, expected }) => {
    statuses = [];
    const text = async (path: string): Promise<string> => (await (deployment as Deployment).fetch(path)).text();
    const seen = await run({ client, acme: client.tenant("acme"), origin, text });
    const outcome = { seen, statuses: [...new Set(statuses)].sort() };
    if (name === REFERENCE) reference.set(what, outcome);
    else expect(outcome).toEqual(reference.get(what));
    expect(seen).toMatchObject(expected as object);
  });
});
