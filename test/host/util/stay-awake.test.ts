import { setImmediate as nextTurn, setTimeout as pause } from "node:timers/promises";
import { expect, test, vi } from "vitest";
import { StayAwake } from "../../../src/host/util/stay-awake.ts";

/** Counts the turns that the event loop takes by itself while it waits. A sleeping loop takes none. */
async function turnsWhile(work: () => Promise<void>): Promise<number> {
  const spy = vi.spyOn(globalThis, "setImmediate");
  await work();
  const { length } = spy.mock.calls;
  spy.mockRestore();
  return length;
}

test("takes turns until the reply, and none afterwards", async () => {
  const awake = new StayAwake();
  const before = await turnsWhile(async () => {
    awake.expectReply();
    awake.recordReply();
    await nextTurn();
  });
  expect(before).toBe(1);
  expect(await turnsWhile(() => pause(5))).toBe(0);
});

test("stops by itself, and sleeps after late replies", async () => {
  const awake = new StayAwake();
  const expectLate = (): Promise<number> =>
    turnsWhile(async () => {
      awake.expectReply();
      await pause(5);
      // After a pause of the machine, the timer comes before the turn.
      await nextTurn();
    });
  for (let late = 0; late < 3; late += 1) expect(await expectLate()).toBeGreaterThan(0);
  for (let sleep = 0; sleep < 50; sleep += 1) expect(await expectLate()).toBe(0);
  expect(await expectLate()).toBeGreaterThan(0);
});
