// Runs around every test file: the file starts with Node's own fetch classes, polls give a busy machine time, and when the file is over, no
// child process of ours and no timer may be left.
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, vi } from "vitest";
import { activeTimers, childProcesses } from "./support/leftovers.ts";

/** How long a poll waits. The default of Vitest is one second, which is too short on a busy machine. */
const POLL_MS = 200_000;
vi.setConfig({ expect: { poll: { timeout: POLL_MS } } });
const { waitFor } = vi;
vi.waitFor = (callback, options) =>
  waitFor(callback, typeof options === "number" ? options : { timeout: POLL_MS, ...options });

// Files share processes, and a server of `@hono/node-server` replaces the global Request and Response.
const kept = globalThis as { nativeFetchClasses?: Pick<typeof globalThis, "Request" | "Response"> };
kept.nativeFetchClasses ??= { Request, Response };
Object.assign(globalThis, kept.nativeFetchClasses);

const timersBefore = activeTimers();

/** Returns what is left. Waits a moment, because a killed process ends shortly after its owner has released it. */
async function settle(read: () => readonly string[], patienceMs: number): Promise<readonly string[]> {
  const deadline = performance.now() + patienceMs;
  for (;;) {
    const left = read();
    if (left.length === 0 || performance.now() > deadline) return left;
    // A timer that is not counted, because it does not keep the process alive.
    await sleep(10, undefined, { ref: false });
  }
}

function leftTimers(): readonly string[] {
  const count = activeTimers() - timersBefore;
  return count > 0 ? [`${count} timers`] : [];
}

// Registered first, so it runs last: after the file has closed what it opened.
afterAll(async () => {
  const left = [...(await settle(childProcesses, 200_000)), ...(await settle(leftTimers, 100_000))];
  if (left.length > 0) throw new Error(`Expected the tests to leave nothing behind, got:\n${left.join("\n")}`);
});
