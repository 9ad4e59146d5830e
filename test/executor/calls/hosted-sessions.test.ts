// The sessions on an executor: a call finds its isolate only in the session that it names, and sessions that nobody holds end.
import { beforeEach, expect, test } from "vitest";
import { type HostedSession, HostedSessions } from "../../../src/executor/calls/hosted-sessions.ts";
import type { RunMessage } from "../../../src/host/fleet/protocol/control-messages.ts";
import { MAX_FLEET_SESSIONS } from "../../../src/host/fleet/protocol/message-fields.ts";
import type { SessionPlacement } from "../../../src/host/workers/pool-job.ts";

let now = 0;
let ended: SessionPlacement[] = [];
let reported: unknown[] = [];
let sessions: HostedSessions;

beforeEach(() => {
  [now, ended, reported] = [0, [], []];
  sessions = new HostedSessions({
    endSession: (placement) => void ended.push(placement),
    onEnded: (control, gone) => void reported.push([control, gone]),
    now: () => now,
  });
});

interface Wanted {
  readonly resumes?: true;
  readonly control?: string;
  readonly tenantId?: string;
}
const runOf = (id: string, { control = "c", tenantId = "acme", ...session }: Wanted = {}): RunMessage =>
  ({ control, tenantId, session: { id, once: false, ...session } }) as RunMessage;
const open = (id: string, wanted?: Wanted): HostedSession => {
  const entered = sessions.enter(runOf(id, wanted));
  if (typeof entered === "string") throw new Error(entered);
  return entered;
};
/** Opens a session, whose first call leaves its isolate. */
const keep = (id: string, wanted?: Wanted): HostedSession => {
  const session = open(id, wanted);
  sessions.leave(session, true);
  return session;
};

test("a later call gets the isolate that the first one has left", () => {
  const first = keep("s");
  expect(sessions.enter(runOf("s", { resumes: true }))).toBe(first);
  expect(first.isKept).toBe(true);
});

test.for<readonly [what: string, wanted: Wanted]>([
  ["of another control plane", { resumes: true, control: "other" }],
  ["of another tenant", { resumes: true, tenantId: "beta" }],
  ["that expects no isolate", {}],
])("a call %s does not get the isolate of a session", ([, wanted]) => {
  keep("s");
  expect(sessions.enter(runOf("s", wanted))).toBe("no-session");
});

test("a call that expects an isolate gets no empty one", () => {
  expect(sessions.enter(runOf("s", { resumes: true }))).toBe("no-session");
  expect(sessions.size).toBe(0);
});

test("a session runs one call at a time", () => {
  keep("s");
  const second = open("s", { resumes: true });
  expect(sessions.enter(runOf("s", { resumes: true }))).toBe("no-session");
  sessions.leave(second, true);
  expect(sessions.enter(runOf("s", { resumes: true }))).toBe(second);
});

test("a call that does not leave its isolate ends the session", () => {
  const session = open("s");
  sessions.leave(session, false);
  expect([sessions.size, ended]).toEqual([0, [session.placement]]);
  expect(sessions.enter(runOf("s", { resumes: true }))).toBe("no-session");
});

test("a session that ends while its call runs is disposed when the call has ended, although it leaves its isolate", () => {
  const session = open("s");
  sessions.end("s");
  expect([sessions.size, ended]).toEqual([0, []]);
  sessions.leave(session, true);
  expect([sessions.size, ended]).toEqual([0, [session.placement]]);
});

test("the control plane learns once that the process of an idle session has ended, and why", () => {
  const { placement } = keep("s");
  placement.onLost("memory");
  placement.onLost("memory");
  keep("t", { control: "d" }).placement.onLost("hung");
  expect(reported).toEqual([
    ["c", [["s", "memory"]]],
    ["d", [["t", "other"]]],
  ]);
  // The outcome of a running call tells it.
  open("u").placement.onLost(undefined);
  expect([sessions.size, reported.length]).toEqual([0, 2]);
});

test("sessions that their control plane does not name end, and it learns which of those that it names are not here", () => {
  const gone = keep("gone");
  keep("kept");
  keep("foreign", { control: "d" });
  sessions.hold("c", ["kept", "lost"]);
  expect(ended).toEqual([gone.placement]);
  expect([sessions.size, reported]).toEqual([2, [["c", [["lost", "other"]]]]]);
});

test("sessions that their control plane has not named for a while end", () => {
  keep("held");
  const orphan = keep("orphan", { control: "d" });
  now = 10_000;
  sessions.hold("c", ["held"]);
  now = 15_000;
  sessions.endOrphans(15_000);
  expect([sessions.size, ended]).toEqual([1, [orphan.placement]]);
  now = 25_000;
  sessions.endOrphans(15_000);
  expect(sessions.size).toBe(0);
});

test("a deleted tenant has no sessions left", () => {
  keep("s");
  keep("t", { tenantId: "beta" });
  sessions.endTenant("acme");
  expect(sessions.size).toBe(1);
});

test("the number of sessions is limited, and those that are open continue", () => {
  for (let index = 0; index < MAX_FLEET_SESSIONS; index += 1) keep(`s-${index}`);
  expect(sessions.enter(runOf("more"))).toBe("full");
  expect(sessions.enter(runOf("s-0", { resumes: true }))).toMatchObject({ isKept: true });
});
