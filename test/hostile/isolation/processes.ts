// A process that has served one tenant must never serve another, neither when idle nor when slots are scarce. The bytes read show which process ran.
import { readFileSync } from "node:fs";
import { expect } from "vitest";
import { testPlay } from "./support.ts";

const TENANTS = ["a", "b", "c", "d", "e", "a", "c", "b", "d", "e"];
const INPUT = "x".repeat(3_000_000);

/** Returns the number of bytes that a process has read. */
function bytesRead(pid: number): number {
  try {
    return Number(/^rchar: (\d+)/.exec(readFileSync(`/proc/${pid}/io`, "utf8"))?.[1]);
  } catch {
    return 0;
  }
}

testPlay("a process that two tenants share", {
  isolateLifetime: "tool",
  source: "export default ({ text }) => text.length;",
  play: async ({ glovebox, call }) => {
    const served = new Map<number, Set<string>>();
    for (const tenantId of TENANTS) {
      const before = new Map(glovebox.workerPids.map((pid) => [pid, bytesRead(pid)]));
      await call({ text: INPUT }, { tenantId });
      const readers = glovebox.workerPids.filter((pid) => bytesRead(pid) - (before.get(pid) ?? 0) > INPUT.length / 2);
      for (const pid of readers) served.set(pid, (served.get(pid) ?? new Set()).add(tenantId));
    }
    return [...served.values()].map((tenants) => [...tenants]);
  },
  judge: (served) => {
    expect(new Set(served.flat())).toEqual(new Set(TENANTS));
    expect(served.filter((tenants) => tenants.length > 1)).toEqual([]);
  },
});
