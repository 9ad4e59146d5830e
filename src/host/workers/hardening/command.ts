// Builds the command line of a wrapped process: prlimit → bubblewrap or unshare → setpriv → the program. A pure
// function of the layers.
import { dirname } from "node:path";
import type { ResolvedFolder } from "../spawn/launch.ts";
import type { Layer } from "./layers.ts";

/** Absolute paths of programs found on this machine. */
export interface WrapperTools {
  readonly prlimit?: string | undefined;
  readonly setpriv?: string | undefined;
  readonly unshare?: string | undefined;
  readonly bwrap?: string | undefined;
  readonly chrt?: string | undefined;
  readonly sh?: string | undefined;
  /** GNU env, which can ignore signals. */
  readonly env?: string | undefined;
}

/** A file's path in the sandbox, and its real path. */
export type LinkedFile = ResolvedFolder;

export interface Wrapping {
  readonly layers: ReadonlySet<Layer>;
  readonly tools: WrapperTools;
  readonly isRoot: boolean;
  /** User that the process runs as, with the layer `user`. No other process runs as this user. */
  readonly uid: number;
  /** Every file in a lean root. */
  readonly files: readonly LinkedFile[];
  readonly cwd: string;
  /** Limit on the data segment in bytes, reservations included. */
  readonly dataBytes: number;
  /** The kernel ends the process when its parent dies. Otherwise the parent ends it when the host dies. */
  readonly diesWithParent: boolean;
}

/** Descriptor at which bubblewrap reads the seccomp program. */
export const SECCOMP_DESCRIPTOR = 4;

/** Enough for Node, libuv and a few dozen isolates. A worker opens nothing else. */
const MAX_DESCRIPTORS = 256;
/**
 * Threads of Node and one for each running isolate. Limited only with a user of its own, since the kernel counts by
 * user.
 */
const MAX_THREADS = 256;

function limitResources({ layers, tools, dataBytes }: Wrapping): readonly string[] {
  if (!layers.has("resource-limits") || tools.prlimit === undefined) return [];
  return [
    tools.prlimit,
    "--core=0",
    "--fsize=0",
    "--memlock=0",
    "--msgqueue=0",
    `--nofile=${MAX_DESCRIPTORS}`,
    `--data=${dataBytes}`,
    ...(layers.has("user") ? [`--nproc=${MAX_THREADS}`] : []),
  ];
}

/** Returns every folder above a path, outermost first, without the root. */
function ancestorsOf(path: string): readonly string[] {
  const parent = dirname(path);
  return parent === dirname(parent) ? [] : [...ancestorsOf(parent), parent];
}

/**
 * Binds exactly the named files into an empty root file system. Parent folders are made first, because folders that
 * bubblewrap makes by itself are accessible to root only.
 */
function bindFiles(files: readonly LinkedFile[]): readonly string[] {
  const folders = new Set(files.flatMap(({ path, real }) => [...ancestorsOf(real), ...ancestorsOf(path)]));
  return [
    ...[...folders].flatMap((folder) => ["--perms", "0755", "--dir", folder]),
    ...files.flatMap(({ path, real }) => [
      "--ro-bind",
      real,
      real,
      ...(path === real ? [] : ["--symlink", real, path]),
    ]),
  ];
}

/** Capabilities that setpriv needs to change the user. It drops them afterwards, with the bounding set. */
const USER_CHANGE = ["CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"];

/**
 * Wraps with bubblewrap. Its child waits for its parent before it requests to die with it, so a parent killed in that
 * moment would leave it waiting forever. Therefore unshare makes the PID namespace before: its processes die with its
 * first process at any time.
 *
 * With a host that is root, bubblewrap runs as root too, and setpriv changes the user inside: another user could not bind what is below
 * /root. prlimit comes before, since setting a limit on another user's process takes a capability that containers often lack.
 */
function enterLeanRoot({ layers, tools, isRoot, files, cwd }: Wrapping): readonly string[] {
  if (tools.bwrap === undefined) return [];
  const capabilities = layers.has("user") ? USER_CHANGE.flatMap((name) => ["--cap-add", name]) : [];
  return [
    tools.bwrap,
    // Root needs no user namespace. Other users get the other namespaces only through one.
    ...(isRoot ? [] : ["--unshare-user"]),
    ...(tools.unshare === undefined ? ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"] : []),
    "--unshare-cgroup-try",
    "--die-with-parent",
    "--cap-drop",
    "ALL",
    ...capabilities,
    ...bindFiles(files),
    "--chdir",
    cwd,
    ...(layers.has("seccomp") ? ["--seccomp", String(SECCOMP_DESCRIPTOR)] : []),
  ];
}

function enterNamespaces({ tools, isRoot }: Wrapping): readonly string[] {
  if (tools.unshare === undefined) return [];
  const user = isRoot ? [] : ["--user", "--map-current-user"];
  return [
    tools.unshare,
    ...user,
    "--ipc",
    "--pid",
    "--net",
    "--uts",
    "--mount",
    "--fork",
    // SIGKILL to unshare also kills what it started.
    "--kill-child=SIGKILL",
  ];
}

/**
 * Adds a shell as the first process of the PID namespace. That process ignores its own SIGSTOP, SIGKILL and crash
 * signals (pid_namespaces(7)), so a worker in its place could neither end itself nor be seen to stop. The shell waits
 * for the worker and exits with its status.
 */
function beginNamespace({ tools }: Wrapping): readonly string[] {
  return tools.sh === undefined ? [] : [tools.sh, "-c", '"$@"; exit $?', "sh"];
}

/** @param isWrapped whether its parent is a wrapper; it then always dies with the wrapper */
function dropPrivileges(wrapping: Wrapping, isWrapped: boolean): readonly string[] {
  const { layers, tools, isRoot, uid, diesWithParent } = wrapping;
  if (tools.setpriv === undefined) return [];
  const changesUser = layers.has("user");
  const wanted = [
    ...(changesUser ? [`--reuid=${uid}`, `--regid=${uid}`, "--clear-groups"] : []),
    ...(layers.has("no-new-privileges") ? ["--no-new-privs"] : []),
    ...(isRoot && layers.has("no-new-privileges") ? ["--inh-caps=-all", "--bounding-set=-all"] : []),
    // Last, because a change of user clears it.
    ...(layers.has("parent-death-signal") && (isWrapped || diesWithParent) ? ["--pdeathsig", "KILL"] : []),
  ];
  return wanted.length === 0 ? [] : [tools.setpriv, ...wanted];
}

/** Lets the outermost wrapper die with the host. The inner ones die with it. */
function dieWithHost({ layers, tools, diesWithParent }: Wrapping): readonly string[] {
  if (!diesWithParent || tools.setpriv === undefined || !layers.has("parent-death-signal")) return [];
  return [tools.setpriv, "--pdeathsig", "KILL"];
}

/**
 * Ignores signals to the whole process group, which the host handles: a wrapper that died of one would end its worker.
 */
function ignoreSignals({ tools }: Wrapping): readonly string[] {
  return tools.env === undefined ? [] : [tools.env, "--ignore-signal=TERM,INT,HUP"];
}

/** Returns the command line of the program, wrapped in the requested layers. */
export function toCommand(wrapping: Wrapping, program: readonly string[]): readonly string[] {
  const { layers, isRoot } = wrapping;
  const isLean = layers.has("lean-root");
  const inside = [
    ...(layers.has("namespaces") ? enterNamespaces(wrapping) : []),
    // With bubblewrap, that is the first process.
    ...(isLean ? enterLeanRoot(wrapping) : layers.has("namespaces") ? beginNamespace(wrapping) : []),
  ];
  // bubblewrap does everything that setpriv would, except change the user.
  const asUser = isLean && !(isRoot && layers.has("user")) ? [] : dropPrivileges(wrapping, inside.length > 0);
  if (inside.length === 0) return [...limitResources(wrapping), ...asUser, ...program];
  const isolated = [...ignoreSignals(wrapping), ...inside];
  return [...dieWithHost(wrapping), ...limitResources(wrapping), ...isolated, ...asUser, ...program];
}
