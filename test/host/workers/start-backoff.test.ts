// Back-off for owners whose processes fail, and quarantine of tools that may have caused it.
import { describe, expect, test, vi } from "vitest";
import { CrashQuarantine } from "../../../src/host/workers/health/crash-quarantine.ts";
import { StartBackoff } from "../../../src/host/workers/health/start-backoff.ts";
import { codeOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";

describe("StartBackoff", () => {
  test("allows three failures, then doubles the wait up to two seconds", () => {
    const backoff = new StartBackoff();
    const delays = Array.from({ length: 10 }, () => {
      backoff.recordFailure("evil", 0);
      return backoff.delayMs("evil", 0);
    });
    expect(delays).toEqual([0, 0, 0, 100, 200, 400, 800, 1_600, 2_000, 2_000]);
    expect(backoff.delayMs("evil", 1_500)).toBe(500);
    expect(backoff.delayMs("good", 0)).toBe(0);
  });

  test("forgets an owner after ten seconds without a failure", () => {
    const backoff = new StartBackoff();
    for (let ends = 0; ends < 6; ends += 1) backoff.recordFailure("evil", 0);
    backoff.recordFailure("evil", 11_000);
    expect(backoff.delayMs("evil", 11_000)).toBe(0);
  });
});

describe("CrashQuarantine", () => {
  test("releases a tool after ten successful calls, and not before", () => {
    const suspects = new CrashQuarantine();
    suspects.add("tool");
    for (let calls = 0; calls < 9; calls += 1) suspects.recordSuccess("tool");
    expect(suspects.has("tool")).toBe(true);
    suspects.recordSuccess("tool");
    expect(suspects.has("tool")).toBe(false);
  });
});

describe("a tool that has crashed its process", () => {
  test("runs alone from then on, while its tenant's other calls go on", async () => {
    await using glovebox = await makeGlovebox({ limits: { timeoutMs: 60_000 } });
    const stuck = "export default () => Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1)";
    await glovebox.addTool({ name: "stuck", source: stuck });
    await glovebox.addTool({
      name: "slow",
      source: "export default () => new Promise((done) => setTimeout(done, 900, 1))",
    });
    const call = (toolName: string, timeoutMs: number) => glovebox.execute({ id: "c", toolName }, { timeoutMs });
    const isQuarantined = async (): Promise<boolean> => {
      const poll = vi.waitFor(() => expect(glovebox.quarantinedTools).toHaveLength(1), { timeout: 1_000 });
      return await poll.then(
        () => true,
        () => false,
      );
    };
    // On a busy machine a call may time out before its code runs, and then it ends no process.
    do expect(codeOf(await call("stuck", 150))).toBe("TOOL_TIMEOUT");
    while (!(await isQuarantined()));
    const [first, bad, second] = await Promise.all([call("slow", 60_000), call("stuck", 150), call("slow", 60_000)]);
    expect([outputOf(first), codeOf(bad), outputOf(second)]).toEqual([1, "TOOL_TIMEOUT", 1]);
  });
});
