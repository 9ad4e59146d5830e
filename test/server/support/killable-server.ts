// A server in a process of its own, for tests that kill it.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import type { TestStore } from "./stores.ts";

const PROGRAM = fileURLToPath(new URL("./server-child.ts", import.meta.url));

export interface KillableServer {
  readonly url: string;
  /** Only of the first server of a database. */
  readonly adminKey: string;
  readonly kill: () => Promise<void>;
}

/** Starts a server that is killed at the end of the test at the latest. */
export async function startKillableServer(options: TestStore["options"]): Promise<KillableServer> {
  const child = spawn(process.execPath, [PROGRAM, JSON.stringify(options)], { stdio: ["ignore", "pipe", "inherit"] });
  const kill = async (): Promise<void> => {
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  };
  onTestFinished(kill);
  const { value } = await createInterface(child.stdout)[Symbol.asyncIterator]().next();
  return { kill, ...(JSON.parse(String(value)) as { readonly url: string; readonly adminKey: string }) };
}
