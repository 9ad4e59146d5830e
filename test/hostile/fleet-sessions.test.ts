// A hostile executor with sessions: it can lie about the state of those that it was given, and neither end, read nor continue others.
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { type RunningExecutor, startExecutor } from "../../src/executor/index.ts";
import { connectFleet } from "../../src/host/fleet/nats-connection.ts";
import type { SessionEnding } from "../../src/host/fleet/protocol/executor-messages.ts";
import { controlSubject } from "../../src/host/fleet/protocol/subjects.ts";
import { encodeFrame } from "../../src/host/fleet/protocol/wire.ts";
import type { ToolResult } from "../../src/host/index.ts";
import { type Fleet, openFleet } from "../support/fleet.ts";
import { ENDED, event, HostileExecutor, type Run } from "../support/hostile-executor.ts";
import { hasNatsServer } from "../support/nats-server.ts";

const HOSTILE = ["evil", "evil-2"];
const COUNTER = "let count = 0; export default () => (count += 1);";
const KEPT = { ...ENDED, kept: true };

describe.skipIf(!hasNatsServer)("a hostile executor with sessions", () => {
  let fleet: Fleet;
  let good: RunningExecutor;
  const evils: HostileExecutor[] = [];
  const folder = mkdtempSync(join(tmpdir(), "glovebox-hostile-sessions-"));

  const call = (tenantId: string, sessionId?: string): Promise<ToolResult> =>
    fleet.host.execute(
      { id: "call", toolName: "counter", arguments: {} },
      { tenantId, ...(sessionId === undefined ? {} : { sessionId }) },
    );
  /** Calls a tool in a session, whose call the hostile executor gets. */
  const lure = async (
    by: HostileExecutor,
    sessionId?: string,
  ): Promise<{ readonly run: Run; readonly result: Promise<ToolResult> }> => {
    const before = by.runs.length;
    const result = call(by.id, sessionId);
    await vi.waitFor(() => expect(by.runs.length).toBeGreaterThan(before));
    return { run: by.runs.at(-1) as Run, result };
  };
  /** Runs a call of a session with an output that it has made up. Returns the name of its isolate. */
  const keep = async (by: HostileExecutor, sessionId: string): Promise<string> => {
    const { run, result } = await lure(by, sessionId);
    by.send(run, event(1, KEPT), ['"mine"']);
    expect(await result).toMatchObject({ success: true, output: "mine" });
    return run.session?.id ?? "";
  };
  const say = (by: HostileExecutor, run: Run, sessions: readonly SessionEnding[]): void =>
    by.connection.publish(controlSubject(run.control, by.id), encodeFrame({ type: "sessions-ended", sessions }));

  beforeAll(async () => {
    const tenants = {
      victim: {},
      ...Object.fromEntries(HOSTILE.map((id) => [id, { pools: [id] }])),
      // Its calls wait for an executor for a short time only.
      impatient: { pools: ["evil"], limits: { queueMs: 1_500 } },
    };
    fleet = await openFleet({
      executors: ["good", ...HOSTILE],
      poolOf: (id) => (id === "good" ? "default" : id),
      host: { tenancy: "multi", tenants, workers: { max: 4 } },
      // A call that an executor does not acknowledge within half of it is sent again.
      silenceMs: 60_000,
    });
    await fleet.host.addTool({ name: "counter", source: COUNTER }, { scope: "global", isolateLifetime: "session" });
    const { nats, credentialsOf } = fleet;
    good = await startExecutor({
      url: nats.url,
      credentials: credentialsOf("good"),
      cacheDir: folder,
      workers: { max: 2 },
    });
    for (const id of HOSTILE) {
      const connection = await connectFleet({ urls: [nats.url], credentials: credentialsOf(id), role: "executor" });
      evils.push(new HostileExecutor(id, connection));
    }
    for (const id of ["good", ...HOSTILE]) await fleet.until(id, true);
  });
  afterEach(async () => {
    for (const tenantId of ["victim", ...HOSTILE]) await fleet.host.closeSessions({ tenantId });
  });
  afterAll(async () => {
    await Promise.all(evils.map((evil) => evil.close()));
    await good?.[Symbol.asyncDispose]();
    await fleet?.[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  test("gets no calls of sessions if it does not say that it keeps them, and they do not run on the host", async () => {
    const [evil] = evils as [HostileExecutor];
    // For a minute, its pool may be about to get another executor.
    const code = expect.stringMatching(/^(?:OVERLOADED|TOOL_UNAVAILABLE)$/);
    const message = expect.stringMatching(/^No executor of the pool evil (?:that keeps|keeps) sessions/);
    expect(await call("impatient", "s")).toMatchObject({ success: false, error: { code, message } });
    expect(evil.runs).toEqual([]);
    const { run, result } = await lure(evil);
    evil.send(run, event(1, ENDED), ["1"]);
    expect(await result).toMatchObject({ success: true });
    for (const one of evils) one.languages = '{"hasSessions":true}';
  });

  test("returns false results for its own sessions, and each isolate has a name that nobody else knows", async () => {
    const [evil] = evils as [HostileExecutor];
    const names = [await keep(evil, "s"), await keep(evil, "t")];
    const { run, result } = await lure(evil, "s");
    expect(run.session).toEqual({ id: names[0], once: false, resumes: true });
    evil.send(run, event(1, KEPT), ['"false"']);
    expect(await result).toMatchObject({ output: "false" });
    expect(new Set(names).size).toBe(2);
    expect(await call("victim", "s")).toMatchObject({ output: 1 });
  });

  test("ends no session of another executor", async () => {
    const [evil, other] = evils as [HostileExecutor, HostileExecutor];
    expect(await call("victim", "s")).toMatchObject({ output: 1 });
    const name = await keep(other, "s");
    await keep(evil, "s");
    const [run] = evil.runs as [Run];
    const guessed = randomBytes(16).toString("base64url");
    say(evil, run, [
      [name, "memory"],
      [guessed, "other"],
    ]);
    // On behalf of the other one, which NATS denies.
    const forged = encodeFrame({ type: "sessions-ended", sessions: [[name, "memory"]] });
    evil.connection.publish(controlSubject(run.control, other.id), forged);
    await vi.waitFor(() => expect(evil.denied).toContain(controlSubject(run.control, other.id)));
    const { run: next, result } = await lure(other, "s");
    expect(next.session).toMatchObject({ id: name, resumes: true });
    other.send(next, event(1, KEPT), ["2"]);
    expect(await result).toMatchObject({ success: true });
    expect(await call("victim", "s")).toMatchObject({ output: 2 });
  });

  test("says that its own session has ended, and a later call begins a new one with another name", async () => {
    const [evil] = evils as [HostileExecutor];
    const name = await keep(evil, "s");
    say(evil, evil.runs.at(-1) as Run, [[name, "memory"]]);
    await vi.waitFor(() => expect(fleet.host.listSessions({ tenantId: "evil" })).toEqual([]));
    const { run, result } = await lure(evil, "s");
    expect(run.session).toEqual({ id: expect.not.stringContaining(name), once: false });
    evil.send(run, event(1, KEPT), ["1"]);
    expect(await result).toMatchObject({ success: true });
  });

  test("loses the session when it says that it does not have the isolate, or that the call was lost", async () => {
    const [evil] = evils as [HostileExecutor];
    const name = await keep(evil, "s");
    const { run, result } = await lure(evil, "s");
    evil.send(run, { type: "rejected", n: 1, reason: "no-session" });
    expect(await result).toMatchObject({ error: { details: { reason: "session_ended" } } });
    await vi.waitFor(() => expect(evil.endedSessions).toContain(name));
    await keep(evil, "s");
    const { run: second, result: lost } = await lure(evil, "s");
    const nothing = { begun: false, outOfMemory: false, isNotStarted: false, peakBytes: 0 };
    evil.send(second, { type: "lost", n: 1, ...nothing });
    // The call may have changed the state: nothing of the session continues.
    expect(await lost).toMatchObject({ error: { code: "SANDBOX_CRASHED", details: { begun: false } } });
    const { run: third, result: anew } = await lure(evil, "s");
    expect(third.session?.resumes).toBeUndefined();
    expect(third.session?.id).not.toBe(second.session?.id);
    evil.send(third, event(1, KEPT), ["1"]);
    expect(await anew).toMatchObject({ success: true });
  });

  test("gets nothing by claims about a session for a call that has none", async () => {
    const [evil] = evils as [HostileExecutor];
    const { run, result } = await lure(evil);
    expect(run.session).toBeUndefined();
    evil.send(run, event(1, KEPT), ["1"]);
    expect(await result).toMatchObject({ success: true, output: 1 });
    expect(fleet.host.listSessions({ tenantId: "evil" })).toEqual([]);
    const before = evil.runs.length;
    const rejected = call("evil");
    for (let times = 1; times <= 3; times += 1) {
      await vi.waitFor(() => expect(evil.runs.length).toBe(before + times));
      evil.send(evil.runs.at(-1) as Run, { type: "rejected", n: 1, reason: "no-session" });
    }
    expect(await rejected).toMatchObject({ error: { code: "OVERLOADED" } });
  });
});
