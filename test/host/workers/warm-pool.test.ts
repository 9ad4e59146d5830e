// WarmPool: which processes that end before they are ready stop its refill.
import { expect, test } from "vitest";
import type { WorkerProcess } from "../../../src/host/workers/process/worker-process.ts";
import type { ProcessRoom } from "../../../src/host/workers/scheduling/process-eviction.ts";
import { WarmPool } from "../../../src/host/workers/scheduling/warm-pool.ts";
import type { PythonSources } from "../../../src/host/workers/spawn/python-setup.ts";

const ENDED = { isReady: false, isPythonReady: false };

test.for(["plain", "python"] as const)(
  "starts %s processes again after three made room for others, and not after three that failed",
  (kind) => {
    const started: (string | undefined)[] = [];
    using pool = new WarmPool({
      workers: new Set(),
      room: { hasMemoryFor: () => true, excessBytes: () => 0 } as unknown as ProcessRoom,
      options: { max: 4, warmProcesses: kind === "plain" ? 1 : 0, warmPythonProcesses: kind === "python" ? 1 : 0 },
      python: () => ({ snapshot: { bytes: new Uint8Array(1) } }) as unknown as PythonSources,
      mayStart: () => true,
      start: (need) => started.push(need.kind ?? "plain"),
    });
    for (let n = 0; n < 3; n += 1) pool.recordDeath({ ...ENDED, kind, endReason: "room" } as WorkerProcess);
    pool.refill();
    expect(started).toEqual([kind]);
    for (let n = 0; n < 3; n += 1) pool.recordDeath({ ...ENDED, kind, endReason: undefined } as WorkerProcess);
    pool.refill();
    expect(started).toEqual([kind]);
  },
);
