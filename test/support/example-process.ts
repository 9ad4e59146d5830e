// Starts the programs of examples/ as a reader does: `node --import ./examples/from-source.ts examples/NAME.ts`, in a home of their own.
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, onTestFinished } from "vitest";
import { cliEnvironment, NodeProcess } from "./cli-process.ts";
import { keepInterpreter, useKnownInterpreter } from "./interpreter-cache.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** Longest time that a program may take on a busy machine. */
export const EXAMPLE_TIMEOUT_MS = 480_000;
/** For a test of one program: the program's own time ends first, so that the test reports what it has printed. */
export const TEST_TIMEOUT_MS = EXAMPLE_TIMEOUT_MS + 30_000;

export interface FinishedExample {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The home that the programs of one test file share. Call it at the top level of the file. */
export function useHome(): () => string {
  let home = "";
  const cache = (): string => join(home, ".cache", "glovebox");
  beforeAll(async () => {
    home = await mkdtemp(join(tmpdir(), "glovebox-examples-"));
    useKnownInterpreter(cache());
  });
  afterAll(async () => {
    keepInterpreter(cache());
    await rm(home, { recursive: true, force: true });
  });
  return () => home;
}

/** Arguments of Node for a program of examples/. */
export const exampleArgs = (path: string): readonly string[] => [
  "--import",
  "./examples/from-source.ts",
  `examples/${path}`,
];

/** Runs a program to its end, and kills it when its time or the test is over. */
export async function runExample(path: string, home: string, env: NodeJS.ProcessEnv = {}): Promise<FinishedExample> {
  const child = spawn(process.execPath, exampleArgs(path), {
    cwd: ROOT,
    env: { ...cliEnvironment(home), ...env },
    stdio: ["ignore", "pipe", "pipe"],
    timeout: EXAMPLE_TIMEOUT_MS,
    killSignal: "SIGKILL",
  });
  const exit = new Promise<number | null>((resolve) => child.on("exit", resolve));
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await exit;
  });
  const [code, stdout, stderr] = await Promise.all([exit, text(child.stdout), text(child.stderr)]);
  return { code, stdout, stderr };
}

/** Starts a program that runs until it is stopped. It is killed at the end of the test. */
export function startExample(path: string, home: string, env: NodeJS.ProcessEnv = {}): NodeProcess {
  const running = new NodeProcess(exampleArgs(path), { cwd: ROOT, env: { ...cliEnvironment(home), ...env } });
  onTestFinished(() => running[Symbol.asyncDispose]());
  return running;
}
