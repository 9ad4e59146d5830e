// The page of the fleet in a real browser, with a real NATS server: empty, with pools, versions and lost executors, and an executor of the
// command line that an operator drains.
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { Fleet } from "../../src/client/index.ts";
import { USERS_FILE, writeCredentials } from "../../src/executor/credentials.ts";
import { connectFleet, type FleetConnection } from "../../src/host/fleet/nats-connection.ts";
import type { Announcement } from "../../src/host/fleet/protocol/executor-messages.ts";
import { aliveSubject, type ExecutorIdentity } from "../../src/host/fleet/protocol/subjects.ts";
import { encodeFrame, FLEET_PROTOCOL_VERSION } from "../../src/host/fleet/protocol/wire.ts";
import { CliProcess } from "../support/cli-process.ts";
import { hasNatsServer, type NatsServer, startNatsServer } from "../support/nats-server.ts";
import { PATIENT_LIMITS } from "../support/patient-limits.ts";
import { findViolations } from "./axe.ts";
import { type ConsoleUnderTest, openBrowser, openConsole, type Visit, visit } from "./browser.ts";

/** An executor that only announces itself, so that a fleet of many machines needs one process. */
class Announcer implements AsyncDisposable {
  readonly #connection: FleetConnection;
  readonly #announcement: Announcement;
  readonly #timer: NodeJS.Timeout;

  constructor(connection: FleetConnection, announcement: Partial<Announcement>) {
    this.#connection = connection;
    this.#announcement = {
      type: "alive",
      protocol: FLEET_PROTOCOL_VERSION,
      key: randomBytes(16).toString("base64url"),
      version: "0.1.0",
      since: Date.now() - 7_500_000,
      slots: 32,
      busy: 0,
      isDraining: false,
      ...announcement,
    };
    this.#announce();
    this.#timer = setInterval(() => this.#announce(), 500);
  }

  #announce(): void {
    const subject = aliveSubject(this.#connection.executor as ExecutorIdentity);
    this.#connection.publish(subject, encodeFrame(this.#announcement));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    await this.#connection[Symbol.asyncDispose]();
  }
}

/** The pool of each is what its id begins with. */
const MACHINES: { readonly [id: string]: Partial<Announcement> } = {
  "eu-1": { busy: 9 },
  "eu-2": { busy: 27 },
  "eu-3": { busy: 32, version: "0.0.9" },
  "gpu-1": { slots: 4, busy: 4 },
  "gpu-2": { slots: 4, busy: 1, isDraining: true, version: "0.0.9" },
};
const WAITS = `export const capabilities = { kv: true };
export default async (_, { kv }) => {
  while ((await kv.get("go")) === undefined) await new Promise((resolve) => setTimeout(resolve, 250));
  return "done";
};`;

// Calls wait while browsers open the page several times.
const WAITS_LIMITS = { ...PATIENT_LIMITS, timeoutMs: 300_000 };

describe.skipIf(!hasNatsServer)("the page of the fleet", () => {
  const folder = mkdtempSync(join(tmpdir(), "glovebox-fleet-page-"));
  const credentials = (id: string): string => join(folder, "credentials", `${id}.json`);
  let browser: Browser;
  let under: ConsoleUnderTest;
  let nats: NatsServer;
  const announcers = new AsyncDisposableStack();

  const announce = async (id: string, announcement: Partial<Announcement>): Promise<Announcer> => {
    const connection = await connectFleet({ urls: [nats.url], credentials: credentials(id), role: "executor" });
    return new Announcer(connection, announcement);
  };
  const open = async (key = under.key): Promise<Visit> => {
    const visited = await visit(browser, under, key);
    onTestFinished(() => visited.context.close());
    return visited;
  };

  beforeAll(async () => {
    const written = join(folder, "credentials");
    await writeCredentials(written, ["executor-1", "lost-1", "evil-1"]);
    for (const id of Object.keys(MACHINES)) await writeCredentials(written, [id], id.slice(0, -2));
    nats = await startNatsServer({ users: join(folder, "credentials", USERS_FILE) });
    const natsOptions = { natsUrl: nats.url, natsCredentials: credentials("control-plane"), executorSilenceMs: 10_000 };
    [browser, under] = await Promise.all([openBrowser(), openConsole({ ...natsOptions, limits: WAITS_LIMITS })]);
    const policy = { pools: ["batch"] };
    for (const tenant of [{ id: "acme" }, { id: "globex", policy }]) {
      expect((await under.api("POST", "/v1/tenants", tenant)).status).toBe(201);
      const tool = { name: "waits", source: WAITS, approve: true };
      expect((await under.api("POST", `/v1/tenants/${tenant.id}/tools`, tool)).status).toBe(201);
    }
  });
  afterAll(async () => {
    await announcers.disposeAsync();
    await browser?.close();
    await under?.[Symbol.asyncDispose]();
    await nats?.[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Checks what the page shows on a wide and a narrow screen, in both themes. */
  const check = async (name: string, ready: string | RegExp): Promise<void> => {
    const { page, go, problems } = await open();
    await go("/fleet");
    await page.locator("main").getByText(ready).first().waitFor();
    expect(await findViolations(page, name)).toEqual([]);
    expect(problems).toEqual([]);
  };
  const startCall = async (tenant: string): Promise<string> => {
    const path = `/v1/tenants/${tenant}/tools/waits/calls`;
    const { status, body } = await under.api<{ id: string }>("POST", path, {}, { prefer: "respond-async" });
    expect(status).toBe(202);
    return body.id;
  };

  test("is found by the palette, and says how to start an executor while there is none", async () => {
    const { page } = await open();
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: /Page, tool/ }).fill("fleet");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "No executor is connected" }).waitFor();
    expect(new URL(page.url()).pathname).toBe("/console/fleet");
    await page.getByText("npx glovebox executor --nats nats://127.0.0.1:4222").waitFor();
    await page.getByRole("row").filter({ hasText: "local" }).getByText("live").waitFor();
    await check("fleet-none", "No executor is connected");
  });

  test("shows pools with their load, executors that differ in version, a lost one, and calls that wait", async () => {
    for (const [id, announcement] of Object.entries(MACHINES)) announcers.use(await announce(id, announcement));
    await (await announce("lost-1", { busy: 3 }))[Symbol.asyncDispose]();
    await startCall("globex");
    const { page, go } = await open();
    await go("/fleet");
    await page.getByText("4 of 6 processes run version 0.1.0; 2 run older ones.").waitFor();
    const pools = page.getByRole("region", { name: "Pools" });
    await pools.getByRole("row", { name: /^eu 68 of 96 slots 70.8 % 3 0 0 –$/ }).waitFor();
    await pools.getByRole("row", { name: /^gpu 4 of 4 slots 100 % 1 1 0 –$/ }).waitFor();
    await pools.getByRole("row", { name: /^batch no executor accepts calls 0 0 1 \d/ }).waitFor();
    const executors = page.getByRole("region", { name: "Executors" });
    await executors.getByRole("row", { name: /^eu-3 eu live 0\.0\.9 older javascript 32 of 32 slots/ }).waitFor();
    await executors.getByRole("row", { name: /^gpu-2 gpu draining 0\.0\.9 older javascript 1 of 4 slots/ }).waitFor();
    const lost = executors.getByRole("row", { name: /^lost-1 default silent/ });
    await lost.getByText("It has ended, is frozen, or cannot reach NATS").waitFor();
    expect(await lost.getByRole("button", { name: "Drain" }).count()).toBe(0);

    await pools.getByRole("link", { name: "gpu" }).click();
    await executors.getByRole("row", { name: /^gpu-1/ }).waitFor();
    expect(await executors.getByRole("row", { name: /^eu-/ }).count()).toBe(0);
    await page.getByLabel("State").selectOption("silent");
    await page.getByText("No executor matches these filters").waitFor();
    expect(new URL(page.url()).search).toBe("?pool=gpu&state=silent");
    await page.getByRole("link", { name: "Show all" }).click();
    await lost.waitFor();
    await check("fleet", "lost-1");
  });

  test("an operator drains an executor, which finishes its call and ends", async () => {
    const flags = ["--credentials", credentials("executor-1"), "--max-workers", "2"];
    await using executor = new CliProcess(["executor", "--nats", nats.url, ...flags], folder);
    await executor.says("stdout", /is ready/);
    const id = await startCall("acme");
    const { page, go, problems } = await open();
    await go("/fleet?find=executor-1");
    const row = page.getByRole("region", { name: "Executors" }).getByRole("row", { name: /^executor-1/ });
    await row.getByText("1 of 32 slots").waitFor();
    await row.getByRole("button", { name: "Drain" }).click();
    const dialog = page.getByRole("dialog", { name: "Drain the executor executor-1?" });
    await dialog.getByText(/finishes the 1 that it runs/).waitFor();
    await dialog.getByRole("button", { name: "Keep" }).click();
    await row.getByRole("button", { name: "Drain" }).click();
    await dialog.getByRole("button", { name: "Drain the executor" }).click();
    await row.getByText("draining").waitFor();
    expect(await row.getByRole("button", { name: "Drain" }).count()).toBe(0);
    expect((await under.api("PUT", "/v1/tenants/acme/kv/waits/values/go", { value: true })).status).toBe(200);
    expect(await executor.exit).toBe(0);
    await page.getByText("Drained and ended: executor-1").waitFor();
    await page.getByText("No executor matches these filters").waitFor();
    await expect
      .poll(async () => (await under.api("GET", `/v1/tenants/acme/calls/${id}`)).body)
      .toMatchObject({ state: "succeeded", output: "done" });
    const { body } = await under.api<{ items: object[] }>("GET", "/v1/audit");
    expect(body.items).toContainEqual(
      expect.objectContaining({ action: "executor.drain_requested", target: "executor-1" }),
    );
    expect(problems).toEqual([]);
  });

  test("says what failed, and shows what it has", async () => {
    const { page, go } = await open();
    const body = { error: { code: "UNAVAILABLE", message: "The server is shutting down", requestId: "request_1" } };
    await page.route("**/v1/fleet", (route) => route.fulfill({ status: 503, json: body }));
    await go("/fleet");
    await page.getByRole("alert").getByText("The server is shutting down").waitFor();
    await page.unroute("**/v1/fleet");
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByText("lost-1").waitFor();
    expect(await page.getByRole("alert").count()).toBe(0);
  });

  test("shows what a hostile executor says of itself as text", async () => {
    const version = '<img src="x" onerror="globalThis.stolen = 1">';
    await using _evil = await announce("evil-1", { version });
    const { page, go, problems } = await open();
    await go("/fleet?find=evil-1");
    await page.getByText(version).waitFor();
    expect(await page.locator("main img").count()).toBe(0);
    expect(await page.evaluate("globalThis.stolen")).toBeUndefined();
    expect(problems).toEqual([]);
  });

  test("is only for operators, and lets only those drain who may", async () => {
    const keyOf = async (path: string, scopes: readonly string[]): Promise<string> =>
      (await under.api<{ key: string }>("POST", path, { name: "test", scopes })).body.key;
    const tenant = await open(await keyOf("/v1/tenants/acme/keys", ["calls:read", "usage:read"]));
    await tenant.page.getByRole("link", { name: "Overview" }).waitFor();
    expect(await tenant.page.getByRole("link", { name: "Fleet" }).count()).toBe(0);
    await tenant.go("/fleet");
    await tenant.page.getByText("There is no such page").waitFor();
    const reader = await open(await keyOf("/v1/keys", ["metrics:read", "tenants:read"]));
    await reader.page.getByRole("link", { name: "Fleet" }).click();
    await reader.page.getByText("Draining needs a key with the scope fleet:write.").waitFor();
    expect(await reader.page.getByRole("button", { name: "Drain" }).count()).toBe(0);
    const { executors } = (await under.api<Fleet>("GET", "/v1/fleet")).body;
    expect(executors.filter(({ id, state }) => id in MACHINES && state === "live")).toHaveLength(4);
  });
});
