// A host whose event loop is late: its executors go on with its calls and sessions.
import { afterEach, expect, test, vi } from "vitest";
import { ExecutorDirectory } from "../../src/host/fleet/control/executor-directory.ts";
import type { FleetConnection, FleetMessage } from "../../src/host/fleet/nats-connection.ts";
import { ALL_ALIVE, aliveSubject } from "../../src/host/fleet/protocol/subjects.ts";
import { decodeFrame, encodeFrame, FLEET_PROTOCOL_VERSION } from "../../src/host/fleet/protocol/wire.ts";

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

test("names its sessions to their executor every two seconds, however late it is", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  let now = 0;
  vi.spyOn(performance, "now").mockImplementation(() => now);
  const subscribed = new Map<string, (message: FleetMessage) => void>();
  const types: unknown[] = [];
  const connection = {
    subscribe: (subject: string, onMessage: (message: FleetMessage) => void) => {
      subscribed.set(subject, onMessage);
      return () => {};
    },
    publish: (_subject: string, data: Uint8Array) => {
      types.push((decodeFrame(Buffer.from(data)).message as { readonly type: unknown }).type);
    },
    [Symbol.asyncDispose]: async () => {},
  } as unknown as FleetConnection;
  await using directory = new ExecutorDirectory({
    connection,
    silenceMs: 60_000,
    onChange() {},
    onError: (error) => expect.fail(String(error)),
    onEvent() {},
  });
  const alive = { type: "alive", protocol: FLEET_PROTOCOL_VERSION, key: "k".repeat(22), version: "0", since: 0 };
  const data = encodeFrame({ ...alive, slots: 1, busy: 0, isDraining: false }, ['{"hasSessions":true}']);
  const subject = aliveSubject({ id: "one", pool: "default" });
  subscribed.get(ALL_ALIVE)?.({ subject, data, hasHeaders: false } as never);
  const query = { pools: ["default"], needs: { session: true }, failedOn: new Set<string>() };
  const [executor] = directory.available(query as never, false);
  executor?.sessions.set("s", { token: "s", lose() {}, retire() {}, reportEnded() {} });
  for (let tick = 0; tick < 6; tick += 1) {
    now += 2_000;
    vi.advanceTimersByTime(250);
  }
  expect(types).toEqual(Array.from({ length: 6 }, () => "hold-sessions"));
});
