// Collects what a process in place of a worker cannot do: a probe reports from the inside, /proc from the outside.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { type ProbeReport, ProbeReportSchema, type ProbeTargets } from "../../sandbox/worker/probe.ts";
import type { Launcher } from "../workers/hardening/launcher.ts";
import type { Layer } from "../workers/hardening/layers.ts";
import { innermostProcess } from "../workers/health/process-meter.ts";

/** The kernel's view of a process. */
export interface OutsideView {
  /** Fields of /proc/PID/status. */
  readonly status: ReadonlyMap<string, string>;
  /** Soft limits of /proc/PID/limits, by the kernel's names. */
  readonly limits: ReadonlyMap<string, string>;
  /** Namespaces that differ from the host's. */
  readonly ownNamespaces: readonly string[];
}

export interface DoctorEvidence {
  readonly inside: ProbeReport;
  /** The same without Node's permission model, as if it had been bypassed: what the operating system alone denies. */
  readonly insideWithoutNode: ProbeReport;
  readonly outside: OutsideView;
  /** Whether a process stopped by SIGSTOP died together with its host. */
  readonly diedWithHost: boolean;
  readonly v8Flags: readonly string[];
}

/** Longest time in ms of a probe, on a busy machine: it includes the start of a process. */
const PROBE_MS = 60_000;
const MAX_REPORT_LENGTH = 64 * 1024;
const NAMESPACES = ["ipc", "mnt", "net", "pid", "user", "uts"];
/** Longest time in ms until a killed process is gone: the kernel needs a core for it. */
const DEATH_MS = 30_000;

function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

function namespaceOf(pid: number | "self", name: string): string {
  try {
    return readlinkSync(`/proc/${pid}/ns/${name}`);
  } catch {
    return "";
  }
}

function readOutsideView(pid: number): OutsideView {
  const status = readOrEmpty(`/proc/${pid}/status`).split("\n");
  const limits = readOrEmpty(`/proc/${pid}/limits`).split("\n").slice(1);
  return {
    status: new Map(status.map((line) => [line.split(":")[0] ?? "", line.split(":")[1]?.trim() ?? ""])),
    limits: new Map(limits.map((line) => [line.slice(0, 26).trim(), line.slice(26, 47).trim()])),
    ownNamespaces: NAMESPACES.filter((name) => namespaceOf(pid, name) !== namespaceOf("self", name)),
  };
}

interface ProbeResult {
  readonly report: ProbeReport;
  readonly outside: OutsideView;
}

/** Options of an examination. */
export interface EvidenceOptions {
  readonly probePath: string;
  /** Layers that this machine does not have. */
  readonly without: readonly Layer[];
  /** Ends the examination and kills its processes. */
  readonly signal: AbortSignal;
}

/** @throws {Error} if the probe sends no valid report; the signal's reason after an abort */
async function runProbe(
  launcher: Launcher,
  { probePath: script, signal }: EvidenceOptions,
  targets: ProbeTargets,
  permission: boolean,
): Promise<ProbeResult> {
  signal.throwIfAborted();
  const connected = Promise.withResolvers<Socket | undefined>();
  const ended = Promise.withResolvers<void>();
  const launched = launcher.launch(
    {
      onConnected: (socket) => connected.resolve(socket.on("error", () => {})),
      onExit: () => {
        connected.resolve(undefined);
        ended.resolve();
      },
      onClose: () => {},
    },
    { script, args: [JSON.stringify(targets)], permission },
  );
  const kill = (): void => launched.kill();
  const timer = setTimeout(kill, PROBE_MS);
  signal.addEventListener("abort", kill);
  try {
    let text = "";
    for await (const chunk of ((await connected.promise) ?? []) as AsyncIterable<Buffer>) {
      text += chunk.toString();
      if (text.includes("\n") || text.length > MAX_REPORT_LENGTH) break;
    }
    if (text === "") {
      await ended.promise;
      signal.throwIfAborted();
      throw new Error(`The probe sent no report: ${launched.ending?.diagnostics}`);
    }
    const outside = readOutsideView(innermostProcess(launched.connection?.pid ?? 0));
    return { report: ProbeReportSchema.parse(JSON.parse(text)), outside };
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", kill);
    launched.kill();
  }
}

/** Returns whether a process is alive. A zombie has died and only waits to be reaped. */
function isAlive(pid: number): boolean {
  const stat = readOrEmpty(`/proc/${pid}/stat`);
  return stat !== "" && !/^[ZX]/.test(stat.slice(stat.lastIndexOf(")") + 2));
}

function endProcess(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // The process has already ended.
  }
}

const ORPHAN = fileURLToPath(new URL(`./orphan${import.meta.url.endsWith(".ts") ? ".ts" : ".js"}`, import.meta.url));

/** Starts a separate host and kills it while its worker process is stopped. Returns whether the worker process dies too. */
async function diesWithHost(
  { without, signal }: EvidenceOptions,
  targets: ProbeTargets,
  parent: "host" | "spawner",
): Promise<boolean> {
  signal.throwIfAborted();
  const host = spawn(process.execPath, [ORPHAN, JSON.stringify(without), JSON.stringify(targets), parent], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  const kill = (): void => void host.kill("SIGKILL");
  const timer = setTimeout(kill, PROBE_MS);
  signal.addEventListener("abort", kill);
  const [line] = (await Promise.race([once(host.stdout, "data"), once(host, "exit")])) as [unknown];
  clearTimeout(timer);
  signal.removeEventListener("abort", kill);
  const pid = Number.parseInt(String(line), 10);
  host.kill("SIGKILL");
  if (!Buffer.isBuffer(line) || !Number.isInteger(pid)) return false;
  for (const until = performance.now() + DEATH_MS; performance.now() < until; await pause(10)) {
    if (!isAlive(pid)) return true;
  }
  endProcess(pid);
  return false;
}

/** Provides a file, a port and a process as targets, and runs the probe, whose attempts to reach them should fail. */
export async function collectEvidence(launcher: Launcher, options: EvidenceOptions): Promise<DoctorEvidence> {
  const folder = mkdtempSync(join(tmpdir(), "glovebox-doctor-"));
  const server = createServer((socket) => socket.destroy()).listen(0, "127.0.0.1");
  try {
    await once(server, "listening");
    const file = join(folder, "readable");
    writeFileSync(file, "something of the host's");
    const { port } = server.address() as AddressInfo;
    const targets = { file, newFile: join(folder, "new"), port, hostPid: process.pid };
    const { report, outside } = await runProbe(launcher, options, targets, true);
    const bare = await runProbe(launcher, options, targets, false);
    const diedWithHost =
      (await diesWithHost(options, targets, "host")) && (await diesWithHost(options, targets, "spawner"));
    return { inside: report, insideWithoutNode: bare.report, outside, diedWithHost, v8Flags: launcher.v8Flags };
  } finally {
    server.close();
    rmSync(folder, { recursive: true, force: true });
  }
}
