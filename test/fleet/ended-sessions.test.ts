// A call that waits for an executor while the host ends its session: it gets a result, and the pool goes on with the next one.
import { expect, test, vi } from "vitest";
import { FleetSessions, type SessionCall } from "../../src/host/fleet/control/fleet-sessions.ts";
import type { SessionPlacement } from "../../src/host/workers/pool-job.ts";

interface Call extends SessionCall<Call> {
  state: SessionCall<Call>["state"];
}

test("is given up when its session is lost after the host has ended it", () => {
  const giveUpQueued = vi.fn<(call: Call, error: Error | undefined) => void>((call) => {
    call.state = "over";
  });
  const sessions = new FleetSessions<Call>({ giveUpQueued });
  const executor = { id: "e", announcement: { pool: "a" }, sessions: new Map(), send: () => {} } as never;
  const placement: SessionPlacement = { id: 1, worker: undefined, onLost: () => undefined };
  const call: Call = { job: { session: placement, order: {} }, state: "placed", session: undefined } as never;
  sessions.bind(call, executor);
  call.session?.callEnded(call, true);
  const next: Call = { job: { session: placement, order: { session: { resumes: true } } }, state: "queued" } as never;
  sessions.enter(next);
  sessions.end(placement);
  // The tenant may no longer use the pool of the executor.
  next.session?.lose("pool-denied");
  expect(giveUpQueued.mock.calls).toEqual([
    [next, expect.objectContaining({ code: "TOOL_UNAVAILABLE", details: { reason: "session_ended" } })],
  ]);
});
