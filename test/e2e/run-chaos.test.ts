// Kills the server at random moments while durable runs wait and continue, with a new version of every tool: each run ends once, on the version with
// which it began, and does nothing twice. GLOVEBOX_SUSPENDED_RUNS sets the number of runs of each database (default: 20).
import { mkdtempSync, rmSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test, vi } from "vitest";
import { createClient, type GloveboxClient, type TenantClient } from "../../src/client/index.ts";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { STORES, TestStores } from "../server/support/stores.ts";
import { cliEnvironment, MAIN, NO_WARM_PROCESSES, NodeProcess } from "../support/cli-process.ts";
import { PATIENT_LIMITS } from "../support/patient-limits.ts";

const RUNS = Number(process.env.GLOVEBOX_SUSPENDED_RUNS ?? 20);
const TOOLS = 5;
const KILLS = 2;
const BATCH = 10;
const TEST_MS = 600_000 + RUNS * 3_000;

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

test.for(STORES)("with %s, each run ends once, on its version", { timeout: TEST_MS }, async (kind) => {
  const folder = mkdtempSync(join(tmpdir(), "glovebox-run-chaos-"));
  const store = await stores.create(kind);
  const { dataDir, database: url } = store.options;
  /** How often each run has had its effect. */
  const effects = new Map<string, number>();
  const counter = createHttpServer((request, response) => {
    const n = (request.url ?? "").slice(1);
    effects.set(n, (effects.get(n) ?? 0) + 1);
    response.end("ok");
  });
  await new Promise<void>((resolve) => counter.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(counter.address() as AddressInfo).port}`;

  let key = "";
  const args = ["serve", "--port", "0", "--log-level", "silent", "--data-dir", dataDir];
  if (url !== undefined) args.push("--database", url);
  const start = async (): Promise<{ readonly server: NodeProcess; readonly client: GloveboxClient }> => {
    const server = new NodeProcess([MAIN, ...args], {
      cwd: folder,
      env: { ...cliEnvironment(folder), ...NO_WARM_PROCESSES },
    });
    await vi.waitFor(() => expect(server.stdout + server.stderr).toMatch(/API reference|glovebox:/), {
      timeout: 300_000,
    });
    const serverUrl = /Listening at (\S+)/.exec(server.stdout)?.[1] ?? expect.fail(server.stderr);
    key ||= /Admin key, shown only now: (\S+)/.exec(server.stdout)?.[1] ?? "";
    const client = createClient({ url: serverUrl, key });
    const egress = { allow: [{ to: origin, addresses: ["127.0.0.0/8"] }] };
    if ((await client.tenants().next()).done === true)
      await client.createTenant({
        id: "acme",
        policy: { egress, limits: PATIENT_LIMITS, runs: { maxOpen: RUNS } },
      });
    return { server, client };
  };
  const restart = async (server: NodeProcess): ReturnType<typeof start> => {
    process.kill(server.pid, "SIGKILL");
    await server.exit;
    return await start();
  };
  const source = (version: number): string => `
    export const capabilities = { waitFor: true, fetch: true };
    export default async ({ n }, ctx) => {
      if (n % 3 === 0) await ctx.waitFor({ durationMs: 500 });
      const value = await ctx.waitFor({ event: "go" });
      const effect = await fetch("${origin}/" + n).then((response) => response.text()).catch(() => "lost");
      return [${version}, n, value, effect];
    };`;
  const deploy = async (acme: TenantClient, version: number): Promise<void> => {
    for (let tool = 0; tool < TOOLS; tool += 1)
      await acme.deploy({ name: `wait${tool}`, source: source(version), approve: true });
  };
  const inBatches = async (work: (n: number) => Promise<unknown>): Promise<void> => {
    for (let first = 0; first < RUNS; first += BATCH) {
      const last = Math.min(RUNS, first + BATCH);
      await Promise.all(Array.from({ length: last - first }, (_, index) => work(first + index)));
    }
  };

  let { server, client } = await start();
  await deploy(client.tenant("acme"), 1);
  const ids: string[] = [];
  await inBatches(async (n) => {
    const options = { idempotencyKey: `n-${n}`, wait: n % 2 === 0 };
    ids[n] = (await client.tenant("acme").startRun(`wait${n % TOOLS}`, { input: { n } }, options)).id;
  });
  ({ server, client } = await restart(server));
  await deploy(client.tenant("acme"), 2);
  for (let kill = 0; kill < KILLS; kill += 1) {
    const before = effects.size;
    const isMine = (n: number): boolean => n % KILLS === kill;
    await inBatches(async (n) => {
      const path = `/v1/tenants/acme/runs/${ids[n]}/events`;
      const options = { body: { name: "go", value: n }, headers: { prefer: "respond-async" } };
      if (isMine(n)) await client.request("POST", path, options);
    });
    await vi
      .waitFor(() => expect(effects.size).toBeGreaterThan(before + Math.random() * 10), {
        timeout: 20_000,
        interval: 5,
      })
      .catch(() => {});
    ({ server, client } = await restart(server));
  }

  await using database = await openDatabase({ url, dataDir, onError() {} });
  const { db } = database;
  await vi.waitFor(
    async () => {
      const open = await db.selectFrom("runs").select(["id", "state"]).where("ended_at", "is", null).limit(5).execute();
      expect(open).toEqual([]);
    },
    { timeout: TEST_MS - 60_000, interval: 500 },
  );
  const runs = await db.selectFrom("runs").selectAll().execute();
  const calls = await db.selectFrom("calls").selectAll().where("mode", "=", "run").execute();
  server.signal("SIGTERM");
  await server.exit;
  counter.close();

  const byId = new Map(runs.map((run) => [run.id, run]));
  expect([new Set(ids).size, runs.length, calls.length]).toEqual([RUNS, RUNS, RUNS]);
  let lost = 0;
  for (const [n, id] of ids.entries()) {
    const run = byId.get(id);
    const result = JSON.parse(run?.result ?? "null") as {
      readonly output?: readonly unknown[];
      readonly error?: unknown;
    };
    expect([n, run?.state, result.error]).toEqual([n, "succeeded", undefined]);
    expect(result.output?.slice(0, 3)).toEqual([1, n, n]);
    const isLost = result.output?.[3] === "lost";
    lost += isLost ? 1 : 0;
    const count = effects.get(String(n)) ?? 0;
    if (isLost) expect(count).toBeLessThanOrEqual(1);
    else expect([n, count]).toEqual([n, 1]);
    expect(calls.find((call) => call.id === id)).toMatchObject({ state: "succeeded", tool_version: 1 });
  }
  console.log(`${kind}: ${RUNS} runs, ${KILLS + 1} kills, ${lost} calls were under way at a kill`);
  rmSync(folder, { recursive: true, force: true });
  await store[Symbol.asyncDispose]();
});
