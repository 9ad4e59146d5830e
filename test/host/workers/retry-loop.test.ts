// A host that retries rejected calls in a loop: its timers fire, its signal handlers run, and SIGTERM ends it.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";

const SCRIPT = fileURLToPath(new URL("../../support/retry-loop-script.ts", import.meta.url));

const LOOPS: readonly (readonly [attempt: string, state: "open" | "closed" | "full"])[] = [
  ["execute", "closed"],
  ["execute", "full"],
  ["stream", "closed"],
  ["stream", "full"],
  ["executeBatch", "closed"],
  ["executeBatch", "full"],
  ["emptyBatch", "open"],
  ["invocation", "closed"],
  ["unknownTool", "open"],
  ["wrongContext", "open"],
  ["wrongBatch", "open"],
  ["wrongInvocation", "open"],
  ["cancelled", "open"],
  ["cancelledInvocation", "open"],
  ["rejectingRouter", "open"],
  ["session", "closed"],
  ["wrongRun", "open"],
  ["addTool", "closed"],
  ["inspectTool", "closed"],
  ["openSession", "closed"],
  ["wrongSession", "open"],
  ["closeSession", "open"],
  ["closeSessions", "open"],
  ["listTools", "open"],
  ["close", "open"],
  ["createGlovebox", "open"],
  ["removeServer", "open"],
  ["runsStart", "open"],
  ["runsBegin", "open"],
  ["runsResume", "open"],
  ["runsSignal", "open"],
  ["runsDeliver", "open"],
  ["signalUnknownRun", "open"],
  ["deliverToUnknownRun", "open"],
  ["wrongStart", "open"],
  ["wrongRunId", "open"],
  ["wrongJournal", "open"],
  ["wrongList", "open"],
  ["wrongCancel", "open"],
  ["wrongClose", "open"],
  ["suspendedTenant", "open"],
  ["rateLimit", "open"],
  ["guardedRequest", "open"],
  ["openTool", "open"],
  ["wrongTurn", "open"],
  ["deniedTurn", "open"],
  ["turnToApprove", "open"],
  ["typeCheck", "open"],
];

test("a loop of calls that are rejected at once lets timers and signals run, and SIGTERM ends the host", async () => {
  const args = ["--no-node-snapshot", SCRIPT, JSON.stringify(LOOPS)];
  const host = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void host.kill("SIGKILL"));
  const exit = once(host, "exit") as Promise<[number | null, NodeJS.Signals | null]>;
  const said: string[] = [];
  createInterface({ input: host.stdout }).on("line", (line) => said.push(line));
  // A loop that starves the event loop would miss the first of these.
  const all = LOOPS.map(([attempt, state]) => `${attempt} ${state}`);
  await expect.poll(() => said).toEqual(all);
  host.kill("SIGTERM");
  expect(await exit).toEqual([null, "SIGTERM"]);
});
