// A host that retries in a loop whatever is rejected at once: its timers fire, and a signal ends it.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";

const SCRIPT = fileURLToPath(new URL("../support/retry-loop-script.ts", import.meta.url));

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
];

test.for(LOOPS)("a loop of %s on a Glovebox that is %s lets timers and signals through", async ([attempt, state]) => {
  const args = ["--no-node-snapshot", SCRIPT, attempt, state];
  const host = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void host.kill("SIGKILL"));
  const exit = once(host, "exit") as Promise<[number | null, NodeJS.Signals | null]>;
  for await (const line of createInterface({ input: host.stdout })) {
    expect(line).toBe("timer");
    host.kill("SIGTERM");
  }
  expect(await exit).toEqual([null, "SIGTERM"]);
});
