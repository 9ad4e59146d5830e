// The unfinished timeline of a call that runs on an executor: its stages follow each other although the tool reports nothing.
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { type Fleet, openFleet } from "../support/fleet.ts";
import { hasNatsServer } from "../support/nats-server.ts";

describe.skipIf(!hasNatsServer)("a call that runs on an executor", () => {
  let fleet: Fleet;
  beforeAll(async () => {
    fleet = await openFleet({ executors: ["one"] });
    await fleet.start("one");
    await fleet.host.addTool({ name: "waits", source: "export default () => new Promise(() => {});" });
    await fleet.host.addTool({ name: "loops", source: "export default () => { for (;;); };" });
  });
  afterAll(async () => {
    await fleet?.[Symbol.asyncDispose]();
  });

  test.for(["waits", "loops"])(
    "%s: its start has ended once the tool runs, although it logs nothing",
    async (toolName) => {
      const controller = new AbortController();
      const result = fleet.host.execute({ id: toolName, toolName }, { signal: controller.signal, timeline: true });
      onTestFinished(async () => {
        controller.abort();
        await result;
      });
      const stages = (): readonly (readonly [string, boolean])[] =>
        fleet.host.getTimeline(toolName)?.spans.map(({ kind, isOpen = false }) => [kind, isOpen] as const) ?? [];
      await expect
        .poll(() => stages().slice(-3), { timeout: 60_000 })
        .toEqual([
          ["queue", false],
          ["start", false],
          ["execute", true],
        ]);
    },
  );
});
