// Isolates the process of an upstream server's program. Unlike a worker it is third-party code that needs files and the network, which it
// keeps. It has no access to the host's environment, user and processes, and cannot outlive the host.
import { execFile } from "node:child_process";
import { accessSync, constants, statSync } from "node:fs";
import { delimiter, isAbsolute, join, resolve } from "node:path";
import { promisify } from "node:util";
import * as z from "zod";
import { type ToolError, unavailable } from "../../../sandbox/contract/errors.ts";
import { strictObject } from "../../../sandbox/contract/plain-object.ts";
import { hasOwnUsers } from "../../workers/hardening/launcher.ts";
import { LAYERS, type Layer } from "../../workers/hardening/layers.ts";
import { findTool } from "../../workers/hardening/system-tools.ts";
import { releaseUid, takeUid } from "./server-users.ts";

const execFileAsync = promisify(execFile);

/** The isolation layers of worker processes under which third-party programs still work. */
const SERVER_LAYERS = [
  "resource-limits",
  "user",
  "no-new-privileges",
  "parent-death-signal",
  "namespaces",
] as const satisfies readonly Layer[];
/** A hardening layer under which the program of an upstream server can run. */
export type ServerLayer = (typeof SERVER_LAYERS)[number];

/** Process isolation and resource limits of an upstream server's program. */
export interface ServerSandbox {
  /**
   * Layers that must be available on this machine. Without one of them, the program is not started.
   * @default []
   */
  readonly require?: readonly ServerLayer[] | undefined;
  /**
   * Layers that are not applied. Without `user`, the program runs as the host's user and can write that user's files. The layer `user` is
   * available only if the host runs as root.
   * @default []
   */
  readonly without?: readonly ServerLayer[] | undefined;
  /**
   * Whether the program has network access. `false` requires the layer `namespaces`.
   * @default true
   */
  readonly network?: boolean | undefined;
  /**
   * Limit in MiB on the private writable memory of each of its processes, 64 to 1,048,576.
   * @default 4_096
   */
  readonly memoryMiB?: number | undefined;
  /**
   * Limit on the open file descriptors of each of its processes, 16 to 65,536.
   * @default 4_096
   */
  readonly descriptors?: number | undefined;
  /**
   * Limit on the number of its processes and threads, 1 to 65,536. Applies with the layer `user` only.
   * @default 512
   */
  readonly processes?: number | undefined;
}

const layers = z.array(z.enum(SERVER_LAYERS)).default([]);
export const ServerSandboxSchema = strictObject({
  require: layers,
  without: layers,
  network: z.boolean().default(true),
  memoryMiB: z.int().min(64).max(1_048_576).default(4_096),
  descriptors: z.int().min(16).max(65_536).default(4_096),
  processes: z.int().min(1).max(65_536).default(512),
}).refine(({ network, without }) => network || !without.includes("namespaces"), {
  path: ["network"],
  message: 'Expected true, because network: false requires "namespaces"',
});
export type ServerSandboxConfig = z.infer<typeof ServerSandboxSchema>;

/**
 * Script of the first process in a PID namespace. That process must reap orphans, and ignores signals from its namespace for which it has
 * no handler. Programs are not written for that, so a shell takes the role: it waits for the program and exits with the same code.
 */
const INIT = '"$@"; exit $?';

interface Tools {
  readonly prlimit: string | undefined;
  readonly setpriv: string | undefined;
  readonly unshare: string | undefined;
  readonly shell: string | undefined;
}

/** The command that starts a server's program in its isolation layers. */
export interface ServerCommand {
  readonly argv: readonly string[];
  readonly layers: ReadonlySet<ServerLayer>;
  /** User id that no other process has, until `releaseUid` gives it back; undefined if the program runs as the host's user. */
  readonly uid: number | undefined;
}

/** Returns the layers whose tools this machine has. Whether they work is probed later. */
function availableLayers(tools: Tools): ReadonlySet<ServerLayer> {
  const isRoot = process.getuid?.() === 0;
  const has: { readonly [Name in ServerLayer]: boolean } = {
    "resource-limits": tools.prlimit !== undefined,
    user: isRoot && tools.setpriv !== undefined && hasOwnUsers(),
    "no-new-privileges": tools.setpriv !== undefined,
    "parent-death-signal": tools.setpriv !== undefined,
    namespaces: tools.unshare !== undefined && tools.shell !== undefined,
  };
  return new Set(SERVER_LAYERS.filter((layer) => has[layer]));
}

interface SandboxPlan {
  readonly tools: Tools;
  readonly layers: ReadonlySet<ServerLayer>;
  readonly config: ServerSandboxConfig;
  /** Set with the layer `user`. */
  readonly uid: number | undefined;
}

function wrap({ tools, layers, config, uid }: SandboxPlan, program: readonly string[]): readonly string[] {
  const { prlimit = "", setpriv = "", unshare = "", shell = "" } = tools;
  const hasDeathSignal = layers.has("parent-death-signal");
  const hasUser = layers.has("user");
  const privileges = [
    ...(hasUser ? [`--reuid=${uid}`, `--regid=${uid}`, "--clear-groups"] : []),
    ...(hasUser ? ["--inh-caps=-all", "--bounding-set=-all"] : []),
    ...(layers.has("no-new-privileges") ? ["--no-new-privs"] : []),
    // Set again, because a change of user clears the signal.
    ...(hasDeathSignal ? ["--pdeathsig", "KILL"] : []),
  ];
  const limits = [
    "--core=0",
    `--nofile=${config.descriptors}`,
    `--data=${config.memoryMiB * 1024 * 1024}`,
    ...(hasUser ? [`--nproc=${config.processes}`] : []),
  ];
  const spaces = [
    ...(process.getuid?.() === 0 ? [] : ["--user", "--map-current-user"]),
    ...["--pid", "--mount-proc", ...(config.network ? [] : ["--net"]), "--fork", "--kill-child=SIGKILL"],
  ];
  return [
    ...(hasDeathSignal ? [setpriv, "--pdeathsig", "KILL"] : []),
    ...(layers.has("resource-limits") ? [prlimit, ...limits] : []),
    ...(layers.has("namespaces") ? [unshare, ...spaces] : []),
    ...(privileges.length > 0 ? [setpriv, ...privileges] : []),
    ...(layers.has("namespaces") ? [shell, "-c", INIT, "server"] : []),
    ...program,
  ];
}

/** Sets of layers to omit, tried in this order until a process starts. */
const FALLBACKS: readonly (readonly ServerLayer[])[] = [
  [],
  ["namespaces"],
  ["user", "namespaces"],
  ["user", "namespaces", "resource-limits"],
  SERVER_LAYERS,
];
const PROBE_MS = 5_000;
/** Cached probe results by network option and layers. They do not change while the host runs. */
const probed = new Map<string, Promise<boolean>>();
/** Errors of a machine that is short of something. They do not say what it can do. */
const SHORTAGES: ReadonlySet<unknown> = new Set(["EAGAIN", "EMFILE", "ENFILE", "ENOMEM"]);
/** The same errors as the tools print them. */
const SHORTAGE_TEXT = /Resource temporarily unavailable|Cannot allocate memory|Too many open files/;

interface ProbeFailure {
  /** Exit code, or the name of a system error. */
  readonly code?: unknown;
  /** Whether the time limit has ended it. */
  readonly killed?: unknown;
  readonly signal?: unknown;
  readonly stderr?: unknown;
}

/**
 * Returns whether a process starts on this machine with the layers of a plan.
 * @throws {ToolError} TOOL_UNAVAILABLE, as a rejection, if the machine is too busy to tell. The result is not kept then: programs would run without
 * layers that the machine has
 */
function probe(plan: SandboxPlan): Promise<boolean> {
  if (plan.layers.size === 0) return Promise.resolve(true);
  const [program = "", ...args] = wrap(plan, [plan.tools.shell ?? "/bin/sh", "-c", ":"]);
  const key = [plan.config.network, ...plan.layers].join();
  const known = probed.get(key);
  if (known !== undefined) return known;
  const result = execFileAsync(program, args, { env: {}, cwd: "/", timeout: PROBE_MS }).then(
    () => true,
    ({ code, killed, signal, stderr }: ProbeFailure) => {
      const isLate = killed === true;
      // The kernel sends SIGKILL where memory is short. Other signals are those of a filter of system calls, which stays.
      const isShort = signal === "SIGKILL" || SHORTAGES.has(code) || SHORTAGE_TEXT.test(String(stderr));
      if (!isLate && !isShort) return false;
      probed.delete(key);
      const reason = isLate ? `got no answer within ${PROBE_MS} ms` : "this machine is short of memory or processes";
      throw unavailable("upstream_unavailable", `sandbox: the layers of this machine could not be tried: ${reason}`);
    },
  );
  probed.set(key, result);
  return result;
}

/** Returns the absolute path of a program. @throws {ToolError} TOOL_UNAVAILABLE if the program does not exist */
function findProgram(command: string, path: string, cwd: string): string {
  const isPath = command.includes("/");
  const candidates = isPath
    ? [isAbsolute(command) ? command : resolve(cwd, command)]
    : path.split(delimiter).flatMap((folder) => (folder === "" ? [] : [join(folder, command)]));
  const found = candidates.find((candidate) => {
    try {
      accessSync(candidate, constants.X_OK);
      return statSync(candidate).isFile();
    } catch {
      return false;
    }
  });
  if (found !== undefined) return resolve(cwd, found);
  throw unavailable(
    "unsupported",
    isPath ? "The command is not an executable file" : "The command was not found on the PATH",
  );
}

export interface ServerProgram {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
  /** The `PATH` on which a command without a folder is searched. */
  readonly path: string;
}

/**
 * Returns the command that starts a program with as many isolation layers as work on this machine.
 * @throws {ToolError} TOOL_UNAVAILABLE, as a rejection, if the program does not exist or a required layer does not work
 */
export async function toServerCommand(
  { command, args, cwd, path }: ServerProgram,
  config: ServerSandboxConfig,
): Promise<ServerCommand> {
  const program = [findProgram(command, path, cwd), ...args];
  const find = (name: string): string | undefined => (process.platform === "linux" ? findTool(name) : undefined);
  const tools = { prlimit: find("prlimit"), setpriv: find("setpriv"), unshare: find("unshare"), shell: find("sh") };
  const wanted = availableLayers(tools).difference(new Set(config.without));
  const required: readonly ServerLayer[] = config.network ? config.require : [...config.require, "namespaces"];
  const uid = wanted.has("user") ? takeUid() : undefined;
  let isUsed = false;
  try {
    for (const omitted of FALLBACKS) {
      const layers = wanted.difference(new Set<ServerLayer>(omitted));
      const plan = { tools, layers, config, uid };
      const missing = required.filter((layer) => !layers.has(layer) && !(layer === "user" && process.getuid?.() !== 0));
      if (missing.length > 0) throw missingLayersError(missing);
      if (!(await probe(plan))) continue;
      isUsed = layers.has("user");
      return { argv: wrap(plan, program), layers, uid: isUsed ? uid : undefined };
    }
    throw missingLayersError(required);
  } finally {
    if (uid !== undefined && !isUsed) releaseUid(uid);
  }
}

function missingLayersError(missing: readonly ServerLayer[]): ToolError {
  const hints = missing.map((layer) => `${layer} (${LAYERS[layer].get})`);
  return unavailable("unsupported", `sandbox: required layers are not available on this machine: ${hints.join("; ")}`, {
    details: { missing },
  });
}
