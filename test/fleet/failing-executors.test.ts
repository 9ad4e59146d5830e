// An executor that is connected and cannot begin calls, for example because its machine has no memory or no process ids left: its calls run on
// the others.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { connectFleet } from "../../src/host/fleet/nats-connection.ts";
import { type Fleet, openFleet } from "../support/fleet.ts";
import { ENDED, event, HostileExecutor } from "../support/hostile-executor.ts";
import { hasNatsServer } from "../support/nats-server.ts";

const NOT_STARTED = { type: "lost", begun: false, outOfMemory: false, isNotStarted: true, peakBytes: 0 };
/** How it answers a call. */
const ANSWERS = {
  "cannot start processes": [{ type: "accepted" }, NOT_STARTED],
  "cannot read code": [{ type: "rejected", reason: "no-bundle" }],
  "rejects calls": [{ type: "rejected", reason: "failed" }],
  // As one does that has not heard from its control plane for a while.
  "cancels calls by itself": [{ type: "event", message: { ...ENDED, outcome: "cancelled", phase: "load" } }],
} as const;
/** Some of them prefer the one executor, and some the other. */
const TENANTS = Array.from({ length: 20 }, (_, index) => `tenant-${index}`);

describe.skipIf(!hasNatsServer).for(Object.entries(ANSWERS))("an executor that %s", ([, answers]) => {
  let fleet: Fleet;
  const opened: HostileExecutor[] = [];
  let answering: NodeJS.Timeout | undefined;

  const open = async (id: string): Promise<HostileExecutor> => {
    const credentials = fleet.credentialsOf(id);
    const connection = await connectFleet({ urls: [fleet.nats.url], credentials, role: "executor" });
    const executor = new HostileExecutor(id, connection);
    opened.push(executor);
    await fleet.until(id, true);
    return executor;
  };

  beforeAll(async () => {
    fleet = await openFleet({ executors: ["broken", "healthy"], host: { tenancy: "multi" } });
    await fleet.host.addTool({ name: "one", source: "export default () => 1" }, { scope: "global" });
    const [broken, healthy] = [await open("broken"), await open("healthy")];

    answering = setInterval(() => {
      for (const run of broken.runs.splice(0)) {
        for (const [index, answer] of answers.entries()) broken.send(run, { ...answer, n: index + 1 });
      }
      for (const run of healthy.runs.splice(0)) healthy.send(run, event(1, ENDED), ["1"]);
    }, 10);
  });
  afterAll(async () => {
    clearInterval(answering);
    await Promise.all(opened.map((one) => one.close()));
    await fleet?.[Symbol.asyncDispose]();
  });

  test("loses no call of the tenants that prefer it", async () => {
    const results = await Promise.all(
      TENANTS.map((tenantId) =>
        fleet.host.execute({ id: tenantId, toolName: "one" }, { tenantId, timeoutMs: 300_000 }),
      ),
    );
    const failed = results.flatMap((result) => (result.success ? [] : [result.error.message]));
    expect(failed).toEqual([]);
  });

  test("loses no call that comes later", async () => {
    for (const tenantId of TENANTS) {
      const result = await fleet.host.execute({ id: tenantId, toolName: "one" }, { tenantId, timeoutMs: 300_000 });
      expect(result).toMatchObject({ success: true });
    }
  });
});
