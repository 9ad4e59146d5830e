// Which calls of a lost executor run again: those of which it has not reported that they have started, and idempotent ones.
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { defineCapability } from "../../src/host/capabilities/capability.ts";
import { connectFleet } from "../../src/host/fleet/nats-connection.ts";
import { type Fleet, openFleet } from "../support/fleet.ts";
import { ENDED, event, HostileExecutor, type Run } from "../support/hostile-executor.ts";
import { hasNatsServer } from "../support/nats-server.ts";

const STARTED = event(3, { type: "started", seq: 1 });
const AGAIN = { success: true, output: "again" };
const LOST = {
  success: false,
  error: {
    code: "SANDBOX_CRASHED",
    message: "The executor of the call was lost before the call ended",
    details: { begun: true },
  },
};

const CASES = [
  ["a call that the executor has placed, and not reported as started", "computes", [], AGAIN],
  ["a call that only computes, and that the executor has reported as started", "computes", [STARTED], LOST],
  ["an idempotent call that the executor has reported as started", "repeats", [STARTED], AGAIN],
] as const;

describe.skipIf(!hasNatsServer)("an executor that is lost", () => {
  let fleet: Fleet;
  const asked: AbortSignal[] = [];

  const open = async (id: string): Promise<HostileExecutor> => {
    const credentials = fleet.credentialsOf(id);
    const connection = await connectFleet({ urls: [fleet.nats.url], credentials, role: "executor" });
    const opened = new HostileExecutor(id, connection);
    await fleet.until(id, true);
    return opened;
  };

  beforeAll(async () => {
    const ask = defineCapability({
      name: "ask",
      inputSchema: {},
      outputSchema: {},
      handler: (_, { signal }) => {
        asked.push(signal);
        return asked.length === 1 ? new Promise(() => {}) : "answer";
      },
    });
    const host = { capabilities: [ask], limits: { maxCapabilityCalls: 1 } };
    fleet = await openFleet({ executors: ["lost", "other"], silenceMs: 2_000, host });
    await fleet.host.addTool({ name: "computes", source: "export default () => 1" });
    const idempotent = "export const annotations = { idempotentHint: true };";
    await fleet.host.addTool({ name: "repeats", source: `${idempotent} export default () => 1` });
    const source = `${idempotent} export default (_, ctx) => ctx.ask()`;
    await fleet.host.addTool({ name: "asks", source }, { grant: ["ask"] });
  });
  afterAll(async () => {
    await fleet?.[Symbol.asyncDispose]();
  });

  test.for(CASES)("%s", async ([_, toolName, reports, outcome]) => {
    const lost = await open("lost");
    const result = fleet.host.execute({ id: "c", toolName, arguments: {} }, { timeoutMs: 300_000 });
    const run = await vi.waitFor(() => {
      const [first] = lost.runs;
      if (first === undefined) throw new Error("Expected a call");
      return first;
    });
    lost.send(run, { type: "accepted", n: 1 });
    lost.send(run, { type: "placed", n: 2 });
    for (const report of reports) lost.send(run, report);
    await lost.connection.flush();
    await lost.close();
    const other = await open("other");
    const answering = setInterval(() => {
      for (const again of other.runs.splice(0)) other.send(again, event(1, ENDED), ['"again"']);
    }, 20);
    try {
      expect(await result).toMatchObject(outcome);
    } finally {
      clearInterval(answering);
      await other.close();
      await fleet.until("other", false);
    }
  });

  test("leaves no pending request to the next run of an idempotent call", async () => {
    const [lost, result] = [await open("lost"), fleet.host.execute({ id: "c", toolName: "asks" })];
    const request = event(1, { type: "capability", seq: 1, requestId: 1, name: "ask" });
    const askIn = async (executor: HostileExecutor): Promise<Run> => {
      await vi.waitFor(() => expect(executor.runs).toHaveLength(1));
      const [run] = executor.runs as [Run];
      executor.send(run, request, ["{}"]);
      return run;
    };
    await askIn(lost);
    await vi.waitFor(() => expect(asked).toHaveLength(1));
    await lost.close();
    const other = await open("other");
    const run = await askIn(other);
    await vi.waitFor(() => expect(other.answers).toHaveLength(1));
    expect(other.answers[0]?.envelope).toEqual({ ok: true, value: "answer" });
    expect(asked.map(({ aborted }) => aborted)).toEqual([true, false]);
    other.send(run, event(2, ENDED), ['"again"']);
    expect(await result).toMatchObject(AGAIN);
    await other.close();
    await fleet.until("other", false);
  });
});
