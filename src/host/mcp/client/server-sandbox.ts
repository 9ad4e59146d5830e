// What an upstream server's program is wrapped in. Unlike a worker it is somebody's own program, which needs its files and the network: it
// keeps those, and loses the host's environment, user and processes, and any way to outlive the host.
import { execFile } from "node:child_process";
import { accessSync, constants, statSync } from "node:fs";
import { delimiter, isAbsolute, join, resolve } from "node:path";
import { promisify } from "node:util";
import * as z from "zod";
import { type ToolError, unavailable } from "../../../sandbox/contract/errors.ts";
import { strictObject } from "../../../sandbox/contract/plain-object.ts";
import { findTool, hasOwnUsers, LAST_UID, OTHER_UIDS } from "../../workers/hardening/launcher.ts";
import { LAYERS, type Layer } from "../../workers/hardening/layers.ts";

const execFileAsync = promisify(execFile);

/** Those of a worker's layers that a program of somebody else's can live with. */
const SERVER_LAYERS = [
  "resource-limits",
  "user",
  "no-new-privileges",
  "parent-death-signal",
  "namespaces",
] as const satisfies readonly Layer[];
export type ServerLayer = (typeof SERVER_LAYERS)[number];

/** What the operating system takes from a server's process. */
export interface ServerSandbox {
  /** Layers without which it is not started. */
  readonly require?: readonly ServerLayer[] | undefined;
  /**
   * Layers that are left out. Without `user` it runs as the host's user: for a server that is to write that user's files. A host that is
   * not root has no other user to give.
   */
  readonly without?: readonly ServerLayer[] | undefined;
  /** Whether it has a network; true unless stated. False needs `namespaces`. */
  readonly network?: boolean | undefined;
  /** Of memory that is a process's own and writable, for each of its processes, 64 to 1,048,576; 4,096 unless stated. */
  readonly memoryMiB?: number | undefined;
  /** Open at one time, for each of its processes, 16 to 65,536; 4,096 unless stated. */
  readonly descriptors?: number | undefined;
  /** Processes and threads at one time, with a user of its own, 1 to 65,536; 512 unless stated. */
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
  message: "Expected true where namespaces are left out",
});
export type ServerSandboxConfig = z.infer<typeof ServerSandboxSchema>;

let nextUid = Math.floor(Math.random() * OTHER_UIDS);
/** One after the other; none of them is a worker's. */
function takeUid(): number {
  nextUid = (nextUid + 1) % OTHER_UIDS;
  return LAST_UID - nextUid;
}

/**
 * The first process of its namespace: it has no signals but its parent's, and is to collect what others leave behind. So that is a shell,
 * which waits for the program and ends as that did.
 */
const INIT = '"$@"; exit $?';

interface Tools {
  readonly prlimit: string | undefined;
  readonly setpriv: string | undefined;
  readonly unshare: string | undefined;
  readonly shell: string | undefined;
}

/** As a server is to be started. */
export interface ServerCommand {
  readonly argv: readonly string[];
  readonly layers: ReadonlySet<ServerLayer>;
  /** A user of its own that nobody else has; undefined where it has the host's. */
  readonly uid: number | undefined;
}

function possibleLayers(tools: Tools): ReadonlySet<ServerLayer> {
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

interface Wrapping {
  readonly tools: Tools;
  readonly layers: ReadonlySet<ServerLayer>;
  readonly config: ServerSandboxConfig;
  readonly uid: number;
}

function wrap({ tools, layers, config, uid }: Wrapping, program: readonly string[]): readonly string[] {
  const { prlimit = "", setpriv = "", unshare = "", shell = "" } = tools;
  const dies = layers.has("parent-death-signal");
  const hasUser = layers.has("user");
  const dropped = [
    ...(hasUser ? [`--reuid=${uid}`, `--regid=${uid}`, "--clear-groups"] : []),
    ...(hasUser ? ["--inh-caps=-all", "--bounding-set=-all"] : []),
    ...(layers.has("no-new-privileges") ? ["--no-new-privs"] : []),
    // Once more: a change of user clears it.
    ...(dies ? ["--pdeathsig", "KILL"] : []),
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
    ...(dies ? [setpriv, "--pdeathsig", "KILL"] : []),
    ...(layers.has("resource-limits") ? [prlimit, ...limits] : []),
    ...(layers.has("namespaces") ? [unshare, ...spaces] : []),
    ...(dropped.length > 0 ? [setpriv, ...dropped] : []),
    ...(layers.has("namespaces") ? [shell, "-c", INIT, "server"] : []),
    ...program,
  ];
}

/** What is given up, in this order, where a process does not start with all of it. */
const FALLBACKS: readonly (readonly ServerLayer[])[] = [
  [],
  ["namespaces"],
  ["user", "namespaces"],
  ["user", "namespaces", "resource-limits"],
  SERVER_LAYERS,
];
const PROBE_MS = 5_000;
/** Whether this machine starts a process so: a machine does not change its mind. By the wrapper's words, without the user's number. */
const probed = new Map<string, Promise<boolean>>();

function holds(wrapping: Wrapping): Promise<boolean> {
  if (wrapping.layers.size === 0) return Promise.resolve(true);
  const [program = "", ...args] = wrap(wrapping, [wrapping.tools.shell ?? "/bin/sh", "-c", ":"]);
  const key = [wrapping.config.network, ...wrapping.layers].join();
  let known = probed.get(key);
  if (known === undefined) {
    const options = { env: {}, cwd: "/", timeout: PROBE_MS };
    known = execFileAsync(program, args, options).then(
      () => true,
      () => false,
    );
    probed.set(key, known);
  }
  return known;
}

/** An absolute path. @throws {ToolError} TOOL_UNAVAILABLE where there is no such program */
function findProgram(command: string, path: string, cwd: string): string {
  const isPath = command.includes("/");
  const places = isPath
    ? [isAbsolute(command) ? command : resolve(cwd, command)]
    : path.split(delimiter).flatMap((folder) => (folder === "" ? [] : [join(folder, command)]));
  const found = places.find((place) => {
    try {
      accessSync(place, constants.X_OK);
      return statSync(place).isFile();
    } catch {
      return false;
    }
  });
  if (found !== undefined) return resolve(cwd, found);
  throw unavailable("unsupported", isPath ? "Its command is no program" : "Its command is no program on its PATH");
}

export interface ServerProgram {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
  /** Where a command without a folder is looked for. */
  readonly path: string;
}

/**
 * The program in as many layers as hold on this machine.
 * @throws {ToolError} TOOL_UNAVAILABLE, as a rejection: there is no such program, or a required layer does not hold
 */
export async function toServerCommand(
  { command, args, cwd, path }: ServerProgram,
  config: ServerSandboxConfig,
): Promise<ServerCommand> {
  const program = [findProgram(command, path, cwd), ...args];
  const find = (name: string): string | undefined => (process.platform === "linux" ? findTool(name) : undefined);
  const tools = { prlimit: find("prlimit"), setpriv: find("setpriv"), unshare: find("unshare"), shell: find("sh") };
  const wanted = possibleLayers(tools).difference(new Set(config.without));
  const needed: readonly ServerLayer[] = config.network ? config.require : [...config.require, "namespaces"];
  const uid = takeUid();
  for (const left of FALLBACKS) {
    const layers = wanted.difference(new Set<ServerLayer>(left));
    const wrapping = { tools, layers, config, uid };
    const missing = needed.filter((layer) => !layers.has(layer) && !(layer === "user" && process.getuid?.() !== 0));
    if (missing.length > 0) throw refusal(missing);
    if (!(await holds(wrapping))) continue;
    return { argv: wrap(wrapping, program), layers, uid: layers.has("user") ? uid : undefined };
  }
  throw refusal(needed);
}

function refusal(missing: readonly ServerLayer[]): ToolError {
  const ways = missing.map((layer) => `${layer} (${LAYERS[layer].get})`);
  return unavailable("unsupported", `sandbox: this machine does not give what was required: ${ways.join("; ")}`, {
    details: { missing },
  });
}
