// Tests JobPlacement: which process of its owner a short or a long call gets.
import { describe, expect, onTestFinished, test } from "vitest";
import { LinkedList } from "../../../src/host/util/linked-list.ts";
import { CrashQuarantine } from "../../../src/host/workers/health/crash-quarantine.ts";
import { type Job, PlacedJob } from "../../../src/host/workers/pool-job.ts";
import type { WorkerProcess } from "../../../src/host/workers/process/worker-process.ts";
import { JobPlacement } from "../../../src/host/workers/scheduling/job-placement.ts";
import type { Pace } from "../../../src/host/workers/scheduling/tool-pace.ts";
import type { GrowthNeed, WorkerManager } from "../../../src/host/workers/worker-manager.ts";
import { DEFAULT_LIMITS } from "../../../src/sandbox/contract/limits.ts";
import { TOOL_PROFILE } from "../../support/tool-profile.ts";

/** What a placement reads of a process. */
type Process = Pick<
  WorkerProcess,
  | "owner"
  | "kind"
  | "callCount"
  | "activeCalls"
  | "newCalls"
  | "window"
  | "unproven"
  | "cpuRate"
  | "runsOnMainThread"
  | "isExclusive"
  | "lastShortAt"
>;

const newProcess = (fields: Partial<Process> = {}): WorkerProcess =>
  ({
    owner: "acme",
    kind: "plain",
    callCount: 0,
    activeCalls: 0,
    newCalls: 0,
    window: 4,
    unproven: 0,
    cpuRate: 0,
    runsOnMainThread: false,
    isExclusive: false,
    lastShortAt: Number.NEGATIVE_INFINITY,
    ...fields,
  }) as WorkerProcess;

const job = {
  owner: "acme",
  claim: { account: "acme", weight: 1, toolKey: "tool", accountLimits: DEFAULT_LIMITS, toolLimits: DEFAULT_LIMITS },
  order: { type: "call", tool: TOOL_PROFILE, callId: "c", tenantId: "acme" },
  memoryMiB: 64,
} as unknown as Job;
const placedJob = (pace: Pace, fields: Partial<Job> = {}): PlacedJob =>
  new PlacedJob({ ...job, ...fields }, pace, { cancel() {}, onPause() {}, onEnded() {}, onLost() {}, onStuck() {} });

interface Situation {
  readonly own: readonly WorkerProcess[];
  /** Process that the owner may get in addition. */
  readonly spare?: WorkerProcess;
  /** Whether the owner gets it only if a call waits for it. */
  readonly isPastShare?: boolean;
  /** Whether it has a process that takes calls again. Default: if it has one that takes calls now. */
  readonly hasLasting?: boolean;
}

/** Returns a function that places one call. */
function openPlacement({
  own,
  spare,
  isPastShare = false,
  hasLasting = own.length > 0,
}: Situation): (pace: Pace, fields?: Partial<Job>) => WorkerProcess | undefined {
  const manager = {
    max: 16,
    maxPerOwner: 2,
    usableBy: () => [...own],
    makeRoomFor: () => true,
    hasLastingProcess: () => hasLasting,
    mayGrow: (_owner: string, { isWaitedFor }: GrowthNeed) => spare !== undefined && (isWaitedFor || !isPastShare),
    takeNew: () => spare,
    priorities: { mayRunLowPriority: () => true, setBackground() {}, isThrottled: () => false },
  } as unknown as WorkerManager;
  const placed = new Map<WorkerProcess, LinkedList<PlacedJob>>();
  for (const worker of own) {
    const jobs = new LinkedList<PlacedJob>();
    for (let n = 0; n < worker.unproven; n += 1)
      jobs.add(Object.assign(placedJob("long"), { placedAt: performance.now() }));
    placed.set(worker, jobs);
  }
  const sources = { manager, quarantine: new CrashQuarantine(), placed, onWaitEnd() {} };
  const placement = new JobPlacement({ callsPerWorker: 8, nestedPerWorker: 0 }, sources);
  onTestFinished(() => placement[Symbol.dispose]());
  return (pace, fields) => placement.workerFor(placedJob(pace, fields), false, 1);
}

const recently = (msAgo = 0): Partial<Process> => ({ lastShortAt: performance.now() - msAgo });

describe("Placement", () => {
  test("leaves the process of the latest short calls to them when long calls begin", () => {
    const [other, home] = [newProcess(recently(2_000)), newProcess(recently())];
    for (const own of [
      [other, home],
      [home, other],
    ]) {
      const place = openPlacement({ own });
      expect(place("long")).toBe(other);
      expect(place("short")).toBe(home);
    }
  });

  test.for([false, true])(
    "starts a process for a long call rather than use that one (past its share: %s)",
    (isPastShare) => {
      const [home, spare] = [newProcess(recently()), newProcess()];
      expect(openPlacement({ own: [home], spare, isPastShare })("long")).toBe(spare);
      expect(openPlacement({ own: [home] })("long")).toBe(home);
    },
  );

  test("remembers that process for ten seconds", () => {
    const [idle, spare] = [newProcess(recently(11_000)), newProcess()];
    expect(openPlacement({ own: [idle], spare })("long")).toBe(idle);
  });

  test("keeps long calls together, and short calls away from them", () => {
    const [looping, home] = [newProcess({ callCount: 2, activeCalls: 2, unproven: 2 }), newProcess(recently())];
    const place = openPlacement({ own: [home, looping] });
    expect(place("long")).toBe(looping);
    expect(place("short")).toBe(home);
    // The owner has short calls, and a tool that is called for the first time may loop too.
    expect(place("unknown")).toBe(looping);
  });

  test("gives a call that runs alone a further process if no call of its tool runs", () => {
    const alone = { callCount: 1, activeCalls: 1, newCalls: 0, unproven: 1, isExclusive: true } as const;
    const spare = newProcess();
    const other = { exclusive: true, claim: { ...job.claim, toolKey: "other" } };
    for (const own of [[newProcess(alone)], [newProcess(alone), newProcess(alone)]]) {
      const place = openPlacement({ own, spare, isPastShare: true });
      for (const pace of ["unknown", "long", "short"] as const) {
        expect(place(pace, other)).toBe(spare);
        // A short tool may also use the rest of its owner's processes.
        const mayGrow = pace === "short" && own.length === 1;
        expect(place(pace, { exclusive: true })).toBe(mayGrow ? spare : undefined);
      }
    }
    // The third process is for other tools.
    const idle = newProcess();
    const place = openPlacement({ own: [newProcess(alone), newProcess(alone), idle], isPastShare: true });
    expect(place("unknown", { exclusive: true })).toBeUndefined();
    expect(place("unknown", other)).toBe(idle);
  });

  test("gives a call that shares its process a further one if each process has a call that runs alone", () => {
    const alone = { callCount: 1, activeCalls: 1, newCalls: 0, unproven: 1, isExclusive: true } as const;
    const [own, spare] = [[newProcess(alone), newProcess(alone)], newProcess()];
    expect(openPlacement({ own, spare, isPastShare: true })("unknown")).toBe(spare);
    const shared = newProcess({ callCount: 1, activeCalls: 1, newCalls: 1, unproven: 1 });
    expect(openPlacement({ own: [...own, shared], spare, isPastShare: true })("unknown")).toBe(shared);
  });

  test("gives a call a process past its owner's share if all that the owner has take no calls any more", () => {
    const spare = newProcess();
    for (const pace of ["unknown", "long", "short"] as const)
      expect(openPlacement({ own: [], spare, isPastShare: true })(pace)).toBe(spare);
    // One that is free again soon is waited for.
    expect(openPlacement({ own: [], spare, isPastShare: true, hasLasting: true })("unknown")).toBeUndefined();
  });
});
