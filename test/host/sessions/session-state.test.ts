// The end of a session while a run waits for its isolate.
import { afterEach, expect, test, vi } from "vitest";
import { OpenSessions } from "../../../src/host/sessions/session-state.ts";
import type { SessionPlacement } from "../../../src/host/workers/pool-job.ts";

afterEach(() => void vi.useRealTimers());

test("the isolate of a first run that was placed after the end of its session is ended too", async () => {
  vi.useFakeTimers({ toFake: ["Date"] });
  const ended: SessionPlacement[] = [];
  using sessions = new OpenSessions((placement) => void ended.push(placement));
  const bounds = { idleMs: 1_000, lifetimeMs: 1_000, cpuMs: 1_000, runs: 10 };
  const session = sessions.open({ id: "s", tenantId: "acme", kind: "javascript", bounds, once: true }, 1);
  const run = { signal: new AbortController().signal, context: {} };
  using _first = await session.enter(run);
  vi.setSystemTime(Date.now() + 2_000);
  await expect(session.enter(run)).rejects.toMatchObject({ details: { endedFor: "its lifetime has expired" } });
  expect(ended).toEqual([session.placement]);
  // Only now does its process take the first run, which leaves an isolate.
  session.onPlaced();
  session.onEnded(true, { cpuMs: 1 } as never, undefined);
  expect(ended).toEqual([session.placement, session.placement]);
});
