// A hostile executor that lies about the cost of its calls, or keeps them: it harms neither other tenants nor later calls.
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { connectFleet } from "../../src/host/fleet/nats-connection.ts";
import type { ObjectRef } from "../../src/host/fleet/protocol/message-fields.ts";
import { type Fleet, openFleet } from "../support/fleet.ts";
import { ENDED, event, HostileExecutor, type Run } from "../support/hostile-executor.ts";
import { hasNatsServer } from "../support/nats-server.ts";

const HUGE = 9e15;

describe.skipIf(!hasNatsServer)("a hostile executor", () => {
  let fleet: Fleet;
  let evil: HostileExecutor;
  beforeAll(async () => {
    fleet = await openFleet({
      executors: ["evil"],
      silenceMs: 2_000,
      maxPayload: 65_536,
      host: { tenancy: "multi", limits: { maxConcurrentCalls: 2, cpuMs: 5_000 } },
    });
    await fleet.host.addTool({ name: "one", source: "export default () => 1" }, { scope: "global" });
    const connection = await connectFleet({
      urls: [fleet.nats.url],
      credentials: fleet.credentialsOf("evil"),
      role: "executor",
    });
    evil = new HostileExecutor("evil", connection);
    await fleet.until("evil", true);
  });
  afterAll(async () => {
    await evil?.close();
    await fleet?.[Symbol.asyncDispose]();
  });

  const takeRun = async (): Promise<Run> => {
    while (evil.runs.length === 0) await pause(10);
    return evil.runs.shift() as Run;
  };
  const call = (tenantId: string, timeoutMs = 60_000) =>
    fleet.host.execute({ id: tenantId, toolName: "one" }, { tenantId, timeoutMs });

  test("is charged no more CPU time than a call can use", async () => {
    const result = call("acme");
    evil.send(await takeRun(), event(1, { ...ENDED, usage: { ...ENDED.usage, cpuMs: HUGE } }), ["1"]);
    const { success, usage } = await result;
    expect(success).toBe(true);
    // 16 threads for the time since it was sent, or a second more than the limit.
    expect(usage.cpuMs).toBeLessThanOrEqual(6_000);
  });

  test("keeps no slots of a tenant with calls that it does not end", async () => {
    const calls = [call("beta", 2_000), call("beta", 2_000)];
    for (const run of [await takeRun(), await takeRun()]) evil.send(run, { type: "placed", n: 1 });
    for (const result of await Promise.all(calls)) expect(result).toMatchObject({ error: { code: "TOOL_TIMEOUT" } });
    const result = call("beta");
    evil.send(await takeRun(), event(1, ENDED), ["1"]);
    expect(await result).toMatchObject({ success: true });
  });

  test("receives no part of a bundle that NATS does not carry, and what it requests then", async () => {
    const source = `const text = "${"x".repeat(200_000)}"; export default () => text.length`;
    await fleet.host.addTool({ name: "large", source }, { scope: "global" });
    const result = fleet.host.execute({ id: "large", toolName: "large" }, { tenantId: "gamma", timeoutMs: 60_000 });
    const run = await takeRun();
    const { name } = run.bundle as ObjectRef;
    for (const length of [150_000, 20_000]) evil.send(run, { type: "fetch", name, from: 0, length });
    await vi.waitFor(() => expect(evil.parts.map(({ bytes }) => bytes?.length)).toEqual([undefined, 20_000]));
    evil.send(run, event(1, ENDED), ["200000"]);
    expect(await result).toMatchObject({ success: true });
  });

  test.for([{ since: HUGE }, { busy: HUGE }])("is left out if it announces %j", async (claims) => {
    evil.claims = claims;
    await fleet.until("evil", false);
    evil.claims = {};
    await fleet.until("evil", true);
  });
});
