// Calls that are cancelled before their executor has begun them: they keep neither a slot nor the isolate of their session.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import * as z from "zod";
import { type RunningExecutor, startExecutor } from "../../src/executor/index.ts";
import { defineCapability } from "../../src/host/index.ts";
import { type Fleet, openFleet } from "../support/fleet.ts";
import { hasNatsServer } from "../support/nats-server.ts";

const GATED = "export const capabilities = { gate: true }; export default async (_, ctx) => await ctx.gate({});";

describe.skipIf(!hasNatsServer)("calls that are cancelled before they begin", () => {
  const folder = mkdtempSync(join(tmpdir(), "glovebox-fleet-cancelled-"));
  /** Let the calls of "gated" go on. */
  const gates: (() => void)[] = [];
  let fleet: Fleet;
  let executor: RunningExecutor;

  beforeAll(async () => {
    const gate = defineCapability({
      name: "gate",
      inputSchema: z.object({}),
      outputSchema: z.string(),
      handler: () => new Promise<string>((resolve) => gates.push(() => resolve("passed"))),
    });
    fleet = await openFleet({
      executors: ["a"],
      host: { tenancy: "multi", tenants: () => ({}), workers: { max: 1 }, capabilities: [gate] },
    });
    const { nats, credentialsOf } = fleet;
    const options = { slots: 4, workers: { max: 1 }, cacheDir: join(folder, "a") };
    executor = await startExecutor({ url: nats.url, credentials: credentialsOf("a"), ...options });
    await fleet.until("a", true);
    await fleet.host.addTool({ name: "gated", source: GATED }, { scope: "global", grant: ["gate"] });
  });
  afterAll(async () => {
    await executor?.[Symbol.asyncDispose]();
    await fleet?.[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  const call = (tenantId: string, signal?: AbortSignal) =>
    fleet.host.execute({ id: tenantId, toolName: "gated", arguments: {} }, { tenantId, signal });

  test("a call that waits for a process of its executor frees its slot", async () => {
    const running = call("acme");
    await vi.waitFor(() => expect(gates).toHaveLength(1));
    const controller = new AbortController();
    const waiting = call("beta", controller.signal);
    await vi.waitFor(() => expect(executor.busy).toBe(2));
    controller.abort();
    expect(await waiting).toMatchObject({ success: false, error: { code: "CANCELLED" } });
    await vi.waitFor(() => expect(executor.busy).toBe(1));
    gates.shift()?.();
    expect(await running).toMatchObject({ success: true, output: "passed" });
    await vi.waitFor(() => expect(executor.busy).toBe(0));
  });

  test("a session outlives a run that is cancelled while its executor loads the code", async () => {
    // Again, if the executor was faster and had begun the run, which ends the session.
    await vi.waitFor(async () => {
      const session = await fleet.host.openSession({ tenantId: "acme" });
      expect(await session.run("globalThis.kept = 1")).toMatchObject({ success: true });
      const controller = new AbortController();
      const cancelled = session.run("await new Promise(() => {})", { signal: controller.signal });
      while (executor.busy === 0) await setImmediate();
      controller.abort();
      const next = session.run("kept");
      expect(await cancelled).toMatchObject({ success: false, error: { code: "CANCELLED" } });
      expect(await next).toMatchObject({ success: true, output: 1 });
      await vi.waitFor(() => expect(executor.busy).toBe(0));
      expect(await session.run("kept + 1")).toMatchObject({ success: true, output: 2 });
      await session.close();
    });
    await vi.waitFor(() => expect(executor.sessions).toBe(0));
  });
});
