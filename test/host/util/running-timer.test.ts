import { once } from "node:events";
import { connect, createServer } from "node:net";
import { setImmediate as nextTurn, setTimeout as pause } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { RunningTimer } from "../../../src/host/util/running-timer.ts";

/** Blocks the event loop. */
const block = (ms: number): void => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

test("fires once", async () => {
  let count = 0;
  new RunningTimer(1, () => (count += 1));
  await expect.poll(() => count).toBe(1);
  await pause(5);
  expect(count).toBe(1);
});

test.for(["before it is due", "when it is due, in the same turn"])(
  "does not fire after its disposal %s",
  async (when) => {
    let hasFired = false;
    const timer = new RunningTimer(1, () => (hasFired = true));
    if (when !== "before it is due") block(3);
    timer[Symbol.dispose]();
    timer[Symbol.dispose]();
    await pause(20);
    expect(hasFired).toBe(false);
  },
);

test("fires after a blocked host has read what came meanwhile", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const client = connect((server.address() as { port: number }).port, "127.0.0.1");
  onTestFinished(() => void client.destroy());
  const [socket] = (await once(server, "connection")) as [typeof client];
  onTestFinished(() => void socket.destroy());
  for (let round = 0; round < 20; round += 1) {
    const order: string[] = [];
    client.once("data", () => order.push("message"));
    const fired = new Promise<void>((resolve) => {
      new RunningTimer(5, () => {
        order.push("timer");
        resolve();
      });
    });
    socket.write("released");
    block(30);
    await fired;
    expect(order).toEqual(["message", "timer"]);
  }
});

test("fires on a host that is always late", async () => {
  let hasFired = false;
  new RunningTimer(5, () => (hasFired = true));
  for (let turns = 0; !hasFired; turns += 1) {
    expect(turns).toBeLessThan(20);
    block(30);
    await nextTurn();
  }
});
