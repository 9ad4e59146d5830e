// Runs as a worker process for `glovebox doctor`, attempts forbidden operations, and reports the results on the worker's socket.
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { connect, Socket } from "node:net";
import { Worker } from "node:worker_threads";
import * as z from "zod";

/** Targets that `glovebox doctor` prepares for the probe's attempts. */
export const ProbeTargetsSchema = z.strictObject({
  /** A file that the host can read. */
  file: z.string(),
  /** A file that the host could write. */
  newFile: z.string(),
  /** A port on loopback at which the host listens. */
  port: z.int(),
  hostPid: z.int(),
});
export type ProbeTargets = z.infer<typeof ProbeTargetsSchema>;

export const PROBES = [
  "read-file",
  "write-file",
  "list-root",
  "connect",
  "start-program",
  "start-thread",
  "signal-host",
  "become-root",
  "load-ffi",
  "load-sqlite",
  "read-environment",
  "who-am-i",
] as const;
export type Probe = (typeof PROBES)[number];

const MAX_EVIDENCE_LENGTH = 4_096;

/** Result of each attempt. `isDenied`: whether it failed. `evidence`: the error's code, or what the probe could read or do. */
export const ProbeReportSchema = z.record(
  z.enum(PROBES),
  z.strictObject({ isDenied: z.boolean(), evidence: z.string().max(MAX_EVIDENCE_LENGTH) }),
);
export type ProbeReport = z.infer<typeof ProbeReportSchema>;

function codeOf(thrown: unknown): string {
  const { code, name } = thrown as { readonly code?: unknown; readonly name?: unknown };
  return String(code ?? name ?? thrown);
}

function throwIf(error: Error | undefined): void {
  if (error !== undefined) throw error;
}

function tryToConnect(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => {
      socket.destroy();
      resolve(`connected to port ${port}`);
    });
    socket.on("error", reject);
  });
}

async function load(name: string): Promise<string> {
  await import(`node:${name}`);
  return "loaded";
}

/** Returns the attempts. Each returns evidence of its success, or throws. */
const attempts = ({ file, newFile, port, hostPid }: ProbeTargets): { readonly [Name in Probe]: () => unknown } => ({
  "read-file": () => `read ${readFileSync(file).length} bytes`,
  "write-file": () => {
    writeFileSync(newFile, "written from inside");
    return "wrote a file";
  },
  "list-root": () => readdirSync("/").join(" "),
  connect: () => tryToConnect(port),
  "start-program": () => {
    const { error, status } = spawnSync("/bin/sh", ["-c", "exit 7"]);
    throwIf(error);
    return `a shell ran and exited ${status}`;
  },
  "start-thread": async () => {
    await new Worker("", { eval: true }).terminate();
    return "a thread ran";
  },
  "signal-host": () => {
    process.kill(hostPid, 0);
    return `process ${hostPid} takes signals`;
  },
  "become-root": () => {
    process.setuid?.(0);
    return "became root";
  },
  "load-ffi": () => load("ffi"),
  "load-sqlite": () => load("sqlite"),
  "read-environment": () => Object.keys(process.env).join(" "),
  "who-am-i": () => `uid ${process.getuid?.()}, gid ${process.getgid?.()}`,
});

async function runProbes(targets: ProbeTargets): Promise<ProbeReport> {
  const report: Partial<ProbeReport> = {};
  for (const [probe, attempt] of Object.entries(attempts(targets))) {
    try {
      report[probe as Probe] = { isDenied: false, evidence: String(await attempt()).slice(0, MAX_EVIDENCE_LENGTH) };
    } catch (thrown) {
      report[probe as Probe] = { isDenied: true, evidence: codeOf(thrown).slice(0, MAX_EVIDENCE_LENGTH) };
    }
  }
  return report as ProbeReport;
}

/**
 * Runs all attempts and sends the report. The doctor also inspects the process from outside, so the process stays alive until it is killed
 * or the host closes the socket.
 */
export async function probe(argument: string): Promise<void> {
  const socket = new Socket({ fd: 3, readable: true, writable: true });
  socket.on("close", () => process.kill(process.pid, "SIGKILL")).resume();
  const report = await runProbes(ProbeTargetsSchema.parse(JSON.parse(argument)));
  socket.write(`${JSON.stringify(report)}\n`);
}
