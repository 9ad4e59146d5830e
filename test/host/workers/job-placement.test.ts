// Tests JobPlacement: which process of its owner a short or a long call gets.
import { describe, expect, onTestFinished, test } from "vitest";
import { LinkedList } from "../../../src/host/util/linked-list.ts";
import { CrashQuarantine } from "../../../src/host/workers/health/crash-quarantine.ts";
import { JobPlacement } from "../../../src/host/workers/job-placement.ts";
import { type Job, PlacedJob } from "../../../src/host/workers/pool-job.ts";
import type { Pace } from "../../../src/host/workers/scheduling/tool-pace.ts";
import type { WorkerManager } from "../../../src/host/workers/worker-manager.ts";
import type { WorkerProcess } from "../../../src/host/workers/worker-process.ts";
import { DEFAULT_LIMITS } from "../../../src/sandbox/contract/limits.ts";
import { TOOL_PROFILE } from "../../support/tool-profile.ts";

/** What a placement reads of a process. */
type Process = Pick<
  WorkerProcess,
  "load" | "busy" | "newCalls" | "window" | "unproven" | "cpuRate" | "runsOnMainThread" | "isExclusive" | "lastShortAt"
>;

const newProcess = (fields: Partial<Process> = {}): WorkerProcess =>
  ({
    ...{ load: 0, busy: 0, newCalls: 0, window: 4, unproven: 0, cpuRate: 0 },
    ...{ runsOnMainThread: false, isExclusive: false, lastShortAt: Number.NEGATIVE_INFINITY },
    ...fields,
  }) as WorkerProcess;

const job = {
  owner: "acme",
  claim: { account: "acme", weight: 1, toolKey: "tool", accountLimits: DEFAULT_LIMITS, toolLimits: DEFAULT_LIMITS },
  order: { type: "call", tool: TOOL_PROFILE, callId: "c", tenantId: "acme" },
  memoryMiB: 64,
} as unknown as Job;
const placedJob = (pace: Pace): PlacedJob =>
  new PlacedJob(job, pace, { cancel() {}, onRest() {}, onEnded() {}, onLost() {}, onStuck() {} });

interface Situation {
  readonly own: readonly WorkerProcess[];
  /** Process that the owner may get in addition. */
  readonly spare?: WorkerProcess;
  /** Whether the owner gets it only if a call waits for it. */
  readonly isPastShare?: boolean;
}

/** Returns a function that places one call. */
function openPlacement({ own, spare, isPastShare = false }: Situation): (pace: Pace) => WorkerProcess | undefined {
  const manager = {
    maxPerOwner: 2,
    usableBy: () => [...own],
    makeRoomFor: () => true,
    mayGrow: (_owner: string, isWaitedFor: boolean) => spare !== undefined && (isWaitedFor || !isPastShare),
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
  return (pace) => placement.workerFor(placedJob(pace), false, 1);
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
    const [looping, home] = [newProcess({ load: 2, busy: 2, unproven: 2 }), newProcess(recently())];
    const place = openPlacement({ own: [home, looping] });
    expect(place("long")).toBe(looping);
    expect(place("short")).toBe(home);
    // The owner has short calls, and a tool that is called for the first time may loop too.
    expect(place("unknown")).toBe(looping);
  });
});
