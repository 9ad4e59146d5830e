// Two processes with the credentials of one executor: a second one is rejected, and a restarted one replaces the first.
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { ToolResult } from "../../src/host/index.ts";
import { CliProcess } from "../support/cli-process.ts";
import { type Fleet, openFleet } from "../support/fleet.ts";
import { hasNatsServer } from "../support/nats-server.ts";

describe.skipIf(!hasNatsServer)("two executors with the same credentials", () => {
  let fleet: Fleet;
  let first: CliProcess;
  const errors: string[] = [];
  const call = (ms: number, context: object = {}): Promise<ToolResult> =>
    fleet.host.execute({ id: "c", toolName: "waits", arguments: { ms } }, { timeoutMs: 300_000, ...context });
  const sinceOf = (): number | undefined => fleet.host.fleet.executors.find(({ id }) => id === "a")?.since;

  beforeAll(async () => {
    const onError = (error: unknown): void => void errors.push((error as Error).message);
    fleet = await openFleet({ executors: ["a"], silenceMs: 30_000, host: { onError } });
    const source =
      "export default ({ ms }) => { console.log('begun'); return new Promise((resolve) => setTimeout(resolve, ms, 'waited')); }";
    await fleet.host.addTool({ name: "waits", source });
    first = await fleet.start("a");
  });
  afterAll(async () => {
    await fleet?.[Symbol.asyncDispose]();
  });

  test("the second one ends and says why, and the calls of the first one go on", async () => {
    const since = sinceOf();
    const begun = Promise.withResolvers<void>();
    const result = call(4_000, { onLog: () => begun.resolve() });
    await begun.promise;
    await using second = new CliProcess(
      ["executor", "--nats", fleet.nats.url, "--credentials", fleet.credentialsOf("a")],
      process.env.HOME ?? "/",
    );
    await second.says("stderr", /another process is connected as the executor a, so this one ends/);
    expect(await second.exit).toBe(1);
    expect(await result).toMatchObject({ success: true, output: "waited" });
    expect(sinceOf()).toBe(since);
    expect(errors).toEqual([expect.stringContaining("A second process announces itself as the executor a")]);
    expect(await call(0)).toMatchObject({ success: true, output: "waited" });
  });

  test("one that is restarted after a crash is accepted long before the first one counts as silent", async () => {
    const since = sinceOf();
    const begun = Promise.withResolvers<void>();
    const lost = call(200_000, { onLog: () => begun.resolve() });
    await begun.promise;
    first.signal("SIGKILL");
    await first.exit;
    await fleet.start("a");
    await vi.waitFor(() => expect(sinceOf()).toBeGreaterThan(since as number));
    expect(await lost).toMatchObject({ error: { code: "SANDBOX_CRASHED" } });
    expect(await call(0)).toMatchObject({ success: true, output: "waited" });
    expect(fleet.host.fleet.lost).toEqual([]);
    expect(errors).toHaveLength(1);
  });
});
