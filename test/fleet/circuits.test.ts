// The circuit of a tool whose executors or their worker processes end.
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { ToolResult } from "../../src/host/index.ts";
import type { CliProcess } from "../support/cli-process.ts";
import { type Fleet, openFleet } from "../support/fleet.ts";
import { hasNatsServer } from "../support/nats-server.ts";
import { descendantsOf, signal } from "../support/process-tree.ts";

const LONG = { tenantId: "acme", timeoutMs: 300_000 };
const WAITS =
  "export default ({ waits = true }) => { console.log('begun'); return waits ? new Promise((resolve) => setTimeout(resolve, 280_000)) : 'done' }";
const CRASHED = {
  success: false,
  error: { code: "SANDBOX_CRASHED", details: { begun: true } },
};

describe.skipIf(!hasNatsServer)("circuits of tools on executors", () => {
  let fleet: Fleet;
  let first: CliProcess;

  /** Starts calls and resolves when all have begun. */
  const begin = async (toolName: string, count: number): Promise<readonly Promise<ToolResult>[]> => {
    let begun = 0;
    const calls = Array.from({ length: count }, (_, n) =>
      fleet.host.execute({ id: `c${n}`, toolName }, { ...LONG, onLog: () => (begun += 1) }),
    );
    await vi.waitFor(() => expect(begun).toBe(count));
    return calls;
  };
  const callOnce = (toolName: string): Promise<ToolResult> =>
    fleet.host.execute({ id: "once", toolName, arguments: { waits: false } }, LONG);

  beforeAll(async () => {
    fleet = await openFleet({
      executors: ["first", "second"],
      silenceMs: 5_000,
      host: { tenancy: "multi", tenants: { acme: {} }, health: { failures: 5, openMs: 300_000 } },
    });
    for (const name of ["waits", "kills"]) await fleet.host.addTool({ name, source: WAITS }, { scope: "global" });
    first = await fleet.start("first");
  });
  afterAll(async () => {
    await fleet?.[Symbol.asyncDispose]();
  });

  test("a tool whose executor's worker processes end again and again is not called any more", async () => {
    for (let n = 0; n < 5; n += 1) {
      const calls = await begin("kills", 2);
      for (const { pid } of descendantsOf(first.pid)) signal(pid, "SIGKILL");
      for (const result of await Promise.all(calls)) expect(result).toMatchObject(CRASHED);
    }
    expect(await callOnce("kills")).toMatchObject({ error: { code: "TOOL_UNAVAILABLE" } });
    expect(await callOnce("waits")).toMatchObject({ success: true, output: "done" });
  });

  test("the loss of an executor counts once, however many calls it ends", async () => {
    const calls = await begin("waits", 6);
    await fleet.start("second");
    first.signal("SIGKILL");
    for (const result of await Promise.all(calls))
      expect(result).toMatchObject({
        error: { ...CRASHED.error, message: "The executor of the call was lost before the call ended" },
      });
    expect(await callOnce("waits")).toMatchObject({ success: true, output: "done" });
  });
});
