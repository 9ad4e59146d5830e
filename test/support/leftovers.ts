// Detects what a test file must not leave behind: child processes, and timers that keep the process alive.
import { readFileSync } from "node:fs";
import { childrenOf } from "./processes.ts";

function readCommand(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").trim();
  } catch {
    return ""; // It ended while we looked.
  }
}

/** Children of this process as `pid command`. esbuild's own service, which builds our artifacts, stays by its nature. */
export const childProcesses = (): readonly string[] =>
  childrenOf(process.pid)
    .map((pid) => `${pid} ${readCommand(pid)}`)
    .filter((line) => !/esbuild .*--service/.test(line));

/** Timers that keep this process alive. */
export const activeTimers = (): number => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
