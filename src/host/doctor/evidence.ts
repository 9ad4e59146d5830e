// What a process in a worker's place really cannot do: seen from inside (the probe tries) and from outside (the kernel tells).
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

/** How the kernel describes a process. */
export interface OutsideView {
  /** Fields of /proc/PID/status. */
  readonly status: ReadonlyMap<string, string>;
  /** Soft limits of /proc/PID/limits, by the kernel's name for them. */
  readonly limits: ReadonlyMap<string, string>;
  /** Namespaces that are not the host's own. */
  readonly ownNamespaces: readonly string[];
}

export interface DoctorEvidence {
  readonly inside: ProbeReport;
  /** The same with Node's permission model left out, as if it had been broken: what the operating system refuses by itself. */
  readonly insideWithoutNode: ProbeReport;
  readonly outside: OutsideView;
  /** Whether a process that had been stopped by a signal died with its host. */
  readonly diedWithHost: boolean;
  readonly v8Flags: readonly string[];
}

const PROBE_MS = 20_000;
const MAX_REPORT_UNITS = 64 * 1024;
const NAMESPACES = ["ipc", "mnt", "net", "pid", "user", "uts"];
const DEATH_MS = 2_000;

function readOr(path: string): string {
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

function viewFromOutside(pid: number): OutsideView {
  const status = readOr(`/proc/${pid}/status`).split("\n");
  const limits = readOr(`/proc/${pid}/limits`).split("\n").slice(1);
  return {
    status: new Map(status.map((line) => [line.split(":")[0] ?? "", line.split(":")[1]?.trim() ?? ""])),
    limits: new Map(limits.map((line) => [line.slice(0, 26).trim(), line.slice(26, 47).trim()])),
    ownNamespaces: NAMESPACES.filter((name) => namespaceOf(pid, name) !== namespaceOf("self", name)),
  };
}

interface Probed {
  readonly report: ProbeReport;
  readonly outside: OutsideView;
}

/** What an examination needs besides its launcher. */
export interface EvidenceOptions {
  readonly probePath: string;
  /** Layers that this machine does not have. */
  readonly without: readonly Layer[];
  /** Ends the examination: its processes are killed. */
  readonly signal: AbortSignal;
}

/** @throws {Error} when the probe does not answer with a report; the signal's reason after an abort */
async function runProbe(
  launcher: Launcher,
  { probePath: script, signal }: EvidenceOptions,
  targets: ProbeTargets,
  permission: boolean,
): Promise<Probed> {
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
      if (text.includes("\n") || text.length > MAX_REPORT_UNITS) break;
    }
    if (text === "") {
      await ended.promise;
      signal.throwIfAborted();
      throw new Error(`The probe said nothing: ${launched.ending?.diagnostics}`);
    }
    const outside = viewFromOutside(innermostProcess(launched.connection?.pid ?? 0));
    return { report: ProbeReportSchema.parse(JSON.parse(text)), outside };
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", kill);
    launched.kill();
  }
}

/** A zombie is dead: it only waits to be counted. */
function isAlive(pid: number): boolean {
  const stat = readOr(`/proc/${pid}/stat`);
  return stat !== "" && !/^[ZX]/.test(stat.slice(stat.lastIndexOf(")") + 2));
}

function endProcess(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It is gone already.
  }
}

const ORPHAN = fileURLToPath(new URL(`./orphan${import.meta.url.endsWith(".ts") ? ".ts" : ".js"}`, import.meta.url));

/** A host of its own is started, and killed while its worker is stopped by a signal. */
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

/** Puts up something to be read, written, connected to and signalled, and lets a probe fail at it. */
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
