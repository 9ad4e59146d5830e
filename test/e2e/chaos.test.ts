// Kills the server at random moments while it runs queued calls: every call ends once, and none that may have had effects runs twice.
// GLOVEBOX_ATTACKS=all runs 20,000 calls and 50 kills; by default, there are 200 calls and 2 kills.
import { mkdtempSync, rmSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test, vi } from "vitest";
import { createClient } from "../../src/client/index.ts";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { TestStores } from "../server/support/stores.ts";
import { cliEnvironment, MAIN, NO_WARM_PROCESSES, NodeProcess } from "../support/cli-process.ts";
import { PATIENT_LIMITS } from "../support/patient-limits.ts";

const isWhole = process.env.GLOVEBOX_ATTACKS === "all";
const CALLS = isWhole ? 20_000 : 200;
const KILLS = isWhole ? 50 : 2;
const BATCH = 100;
/** Share of the calls whose tool says that it may run twice. */
const IDEMPOTENT_EVERY = 4;
const TEST_MS = isWhole ? 3_600_000 : 600_000;

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

test("with SQLite, every queued call ends once", { timeout: TEST_MS }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "glovebox-chaos-"));
  const store = await stores.create("sqlite");
  const { dataDir, database: url } = store.options;
  /** How often each call has run, as the tool itself reports it. */
  const runs = new Map<string, number>();
  const counter = createHttpServer((request, response) => {
    const id = (request.url ?? "").slice(1);
    runs.set(id, (runs.get(id) ?? 0) + 1);
    response.end("ok");
  });
  await new Promise<void>((resolve) => counter.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(counter.address() as AddressInfo).port}`;
  const args = ["serve", "--port", "0", "--log-level", "silent", "--data-dir", dataDir];
  if (url !== undefined) args.push("--database", url);
  const start = (): NodeProcess =>
    new NodeProcess([MAIN, ...args], { cwd: folder, env: { ...cliEnvironment(folder), ...NO_WARM_PROCESSES } });
  const listening = async (server: NodeProcess): Promise<string> => {
    await vi.waitFor(() => expect(server.stdout + server.stderr).toMatch(/API reference|glovebox:/), {
      timeout: 300_000,
    });
    return /Listening at (\S+)/.exec(server.stdout)?.[1] ?? expect.fail(server.stderr);
  };

  let server = start();
  const serverUrl = await listening(server);
  const key = /Admin key, shown only now: (\S+)/.exec(server.stdout)?.[1] ?? "";
  const admin = createClient({ url: serverUrl, key });
  const egress = { allow: [{ to: origin, addresses: ["127.0.0.0/8"] }] };
  await admin.createTenant({
    id: "acme",
    policy: { egress, limits: { ...PATIENT_LIMITS, maxConcurrentCalls: 32, maxQueuedCalls: 1_000 } },
  });
  const acme = admin.tenant("acme");
  const source = (hint: boolean): string => `
    export const annotations = { idempotentHint: ${hint} };
    export const capabilities = { fetch: true };
    export const limits = { timeoutMs: 300_000 };
    export default async ({ n }) => {
      await fetch("${origin}/" + n);
      return n;
    }`;
  for (const hint of [false, true])
    await acme.deploy({ name: hint ? "again" : "once", source: source(hint), approve: true, isolateLifetime: "tool" });
  for (let first = 0; first < CALLS; first += BATCH) {
    const calls = Array.from({ length: BATCH }, (_, offset) => {
      const n = first + offset;
      return { tool: n % IDEMPOTENT_EVERY === 0 ? "again" : "once", input: { n }, idempotencyKey: `n-${n}` };
    });
    await admin.request("POST", "/v1/tenants/acme/calls", { body: { calls }, headers: { prefer: "respond-async" } });
  }

  for (let kill = 0; kill < KILLS; kill += 1) {
    const before = runs.size;
    // At a random moment after some progress; at the end of the queue, after a random time.
    await vi
      .waitFor(() => expect(runs.size).toBeGreaterThan(before + Math.random() * 60), { interval: 5 })
      .catch(() => {});
    process.kill(server.pid, "SIGKILL");
    await server.exit;
    server = start();
    await listening(server);
  }

  const { dataDir: folderOfData } = store.options;
  await using database = await openDatabase({ url, dataDir: folderOfData, onError() {} });
  await vi.waitFor(
    async () => {
      const open = await database.db.selectFrom("calls").select("id").where("ended_at", "is", null).limit(5).execute();
      expect(open).toEqual([]);
    },
    { timeout: TEST_MS - 30_000, interval: 500 },
  );
  const rows = await database.db.selectFrom("calls").selectAll().execute();
  server.signal("SIGTERM");
  await server.exit;
  counter.close();

  expect(rows).toHaveLength(CALLS);
  const states = Map.groupBy(rows, ({ state }) => state);
  expect([...states.keys()].filter((state) => state !== "succeeded" && state !== "failed")).toEqual([]);
  for (const row of rows) {
    const { n } = JSON.parse(row.input ?? "{}") as { readonly n: number };
    const count = runs.get(String(n)) ?? 0;
    const shown = { n, tool: row.tool_name, state: row.state, effects: row.effects, error: row.error, count };
    if (row.state === "succeeded") expect([shown, row.effects, row.output]).toEqual([shown, "complete", String(n)]);
    if (row.tool_name === "once" || row.effects === "none") expect(count, JSON.stringify(shown)).toBeLessThanOrEqual(1);
    if (row.tool_name === "again") expect([shown, row.state]).toEqual([shown, "succeeded"]);
    // Whatever has failed says that the server has ended, and nothing else has failed.
    if (row.state === "failed") expect([shown, row.error]).toEqual([shown, expect.stringContaining("server_ended")]);
  }
  const failed = states.get("failed")?.length ?? 0;
  console.log(`${CALLS} calls, ${KILLS} kills, ${failed} calls ended by a kill, ${runs.size} ran`);
  // A kill ends at most what runs at the time.
  expect(failed).toBeLessThanOrEqual(KILLS * 32);
  rmSync(folder, { recursive: true, force: true });
  await store[Symbol.asyncDispose]();
});
