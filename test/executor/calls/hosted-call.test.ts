// The messages of a call on an executor: each state is reported once, with the message that is sent next.
import { describe, expect, test, vi } from "vitest";
import { type CallReport, HostedCall } from "../../../src/executor/calls/hosted-call.ts";
import type { HostedSession } from "../../../src/executor/calls/hosted-sessions.ts";
import { type Waiting, WaitingCalls } from "../../../src/executor/calls/waiting-calls.ts";
import type { RunMessage } from "../../../src/host/fleet/protocol/control-messages.ts";
import type { Ticket } from "../../../src/host/workers/pool-job.ts";
import type { EndedMessage } from "../../../src/sandbox/protocol/worker-messages.ts";

const RUN = { token: "t", control: "c", isNested: false } as RunMessage;
const USAGE = { cpuMs: 1, heapBytes: 1, startMs: 1, executeMs: 1, logsDropped: 0 };
const ENDED: EndedMessage = {
  type: "ended",
  seq: 7,
  outcome: "output",
  phase: "execute",
  usage: USAGE,
  released: true,
};
const TICKET: Ticket = { cancel() {}, credit() {}, setPaused() {}, watchIdle() {} };

function openCall(session?: HostedSession): {
  readonly call: HostedCall;
  readonly sent: CallReport[];
  readonly waiting: Set<Waiting>;
} {
  const sent: CallReport[] = [];
  const waiting = new Set<Waiting>();
  const call = new HostedCall(
    {
      run: RUN,
      session,
      send: (_call, message) => void sent.push(message),
      onWaiting: (one) => void waiting.add(one),
      onEnd: () => {},
    },
    false,
  );
  return { call, sent, waiting };
}

describe("a call on an executor", () => {
  test("a call that ends at once sends one message, which reports that it was placed and started", () => {
    const { call, sent, waiting } = openCall();
    call.start(() => TICKET);
    call.onPlaced();
    call.onStarted();
    call.onEnded(ENDED, [], 0);
    expect(sent).toEqual([
      { type: "event", message: { ...ENDED, seq: 1 }, placedMs: expect.any(Number), isStarted: true, peakBytes: 0 },
    ]);
    for (const one of waiting) one.announce();
    expect(sent).toHaveLength(1);
  });

  test("a call that waits for its interpreter is accepted, and counts as lost if it cannot start", () => {
    const { call, sent, waiting } = openCall();
    call.accept();
    for (const one of waiting) one.announce();
    call.reject("no-bundle");
    call.reject("no-bundle");
    const lost = { begun: false, outOfMemory: false, isNotStarted: true, peakBytes: 0 };
    expect(sent).toEqual([{ type: "accepted" }, { type: "lost", ...lost }]);
  });

  test("reports each state once when it takes longer", () => {
    const { call, sent } = openCall();
    call.start(() => TICKET);
    call.announce();
    call.announce();
    call.onPlaced();
    call.announce();
    call.onStarted();
    call.announce();
    call.onLog("info", 1, "a line");
    call.onEnded(ENDED, [], 5);
    expect(sent).toEqual([
      { type: "accepted" },
      { type: "placed", placedMs: expect.any(Number) },
      { type: "event", message: { type: "started", seq: 1 } },
      { type: "event", message: { type: "log", seq: 1, level: "info", time: 1 } },
      { type: "event", message: { ...ENDED, seq: 1 }, peakBytes: 5 },
    ]);
  });

  test("a call that is lost reports its states first", () => {
    const { call, sent } = openCall();
    call.start(() => TICKET);
    call.onPlaced();
    call.onStarted();
    call.onLost({ begun: true }, 0);
    expect(sent).toEqual([
      { type: "event", message: { type: "started", seq: 1 }, placedMs: expect.any(Number) },
      { type: "lost", begun: true, outOfMemory: false, isNotStarted: false, peakBytes: 0 },
    ]);
  });

  test("a call that is placed again, because its process was lost, is reported as placed once", () => {
    const { call, sent } = openCall();
    call.start(() => TICKET);
    call.onPlaced();
    call.announce();
    call.onPlaced();
    call.announce();
    expect(sent).toEqual([{ type: "placed", placedMs: expect.any(Number) }]);
  });

  const place = { id: 1, worker: undefined, onLost: () => undefined };
  const nothing = { begun: false, outOfMemory: false, isNotStarted: false, peakBytes: 0 };

  test("a call that is cancelled before its code is there leaves the isolate of its session as it was", () => {
    const { call, sent } = openCall({ placement: place, isKept: true });
    call.accept();
    call.cancel();
    call.start(() => expect.fail("It is over"));
    call.reject("no-bundle");
    expect(sent).toEqual([
      { type: "event", message: expect.objectContaining({ type: "ended", outcome: "cancelled", kept: true }) },
    ]);
    expect(call.keepsIsolate).toBe(true);
  });

  test("a call that is cancelled in the queue of the pool leaves the isolate of its session as it was", () => {
    const { call, sent } = openCall({ placement: place, isKept: true });
    call.start(() => ({ ...TICKET, cancel: () => call.onLost({ begun: false }, 0) }));
    call.cancel();
    expect(sent).toEqual([
      { type: "event", message: expect.objectContaining({ type: "ended", outcome: "cancelled", kept: true }) },
    ]);
    expect(call.keepsIsolate).toBe(true);
  });

  test("a call that is cancelled before it has begun is lost if no isolate of a session is kept", () => {
    for (const session of [undefined, { placement: place, isKept: false }]) {
      const { call, sent } = openCall(session);
      call.cancel();
      expect(sent).toEqual([{ type: "lost", ...nothing }]);
      expect(call.keepsIsolate).toBe(false);
    }
  });

  test("a call that had begun when its process was lost does not leave the isolate of its session", () => {
    const { call } = openCall({ placement: place, isKept: true });
    call.start(() => TICKET);
    call.cancel();
    call.onLost({ begun: true }, 0);
    expect(call.keepsIsolate).toBe(false);
  });
});

test("waiting calls are announced after one to two intervals, and not when they have ended before", () => {
  vi.useFakeTimers();
  try {
    using waiting = new WaitingCalls();
    const announced: string[] = [];
    const add = (name: string): Waiting => {
      const one = { announce: () => void announced.push(name) };
      waiting.add(one);
      return one;
    };
    add("first");
    const ended = add("ended");
    vi.advanceTimersByTime(10);
    add("second");
    waiting.delete(ended);
    expect(announced).toEqual([]);
    vi.advanceTimersByTime(10);
    expect(announced).toEqual(["first"]);
    vi.advanceTimersByTime(10);
    expect(announced).toEqual(["first", "second"]);
    expect(vi.getTimerCount()).toBe(0);
  } finally {
    vi.useRealTimers();
  }
});
