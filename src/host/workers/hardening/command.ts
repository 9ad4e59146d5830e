// The command line of a wrapped process: prlimit → bubblewrap or unshare → setpriv → the program. Pure: layers in, arguments out.
import { dirname } from "node:path";
import type { LinkedFolder } from "../spawn/launch.ts";
import type { Layer } from "./layers.ts";

/** Programs found on this machine, by absolute path. */
export interface WrapperTools {
  readonly prlimit?: string | undefined;
  readonly setpriv?: string | undefined;
  readonly unshare?: string | undefined;
  readonly bwrap?: string | undefined;
  readonly chrt?: string | undefined;
  readonly sh?: string | undefined;
  /** GNU's, which can ignore signals. */
  readonly env?: string | undefined;
}

/** Where a file is to be seen, and where it really lies. */
export type LinkedFile = LinkedFolder;

export interface Wrapping {
  readonly layers: ReadonlySet<Layer>;
  readonly tools: WrapperTools;
  readonly isRoot: boolean;
  /** The user that the process becomes, with the layer `user`; nobody else runs under it. */
  readonly uid: number;
  /** All that a lean root holds. */
  readonly files: readonly LinkedFile[];
  readonly cwd: string;
  /** Of its data segment, reservations included, in bytes. */
  readonly dataBytes: number;
  /** The kernel ends it when its parent dies: otherwise its parent looks after that when the host dies. */
  readonly diesWithParent: boolean;
}

/** Descriptor at which bubblewrap reads the seccomp program. */
export const SECCOMP_DESCRIPTOR = 4;

/** Descriptors of Node, libuv and a few dozen isolates; a worker opens nothing else. */
const MAX_DESCRIPTORS = 256;
/** Threads of Node, and one for each isolate that runs; only counted where the user is the worker's own. */
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

/** Every folder above a path, outermost first, the root left out. */
function ancestorsOf(path: string): readonly string[] {
  const parent = dirname(path);
  return parent === dirname(parent) ? [] : [...ancestorsOf(parent), parent];
}

/**
 * A root file system of exactly the files named: an empty one, with each file bound at its place. The folders on the way are
 * made first, because those that bubblewrap makes by itself are open to root only.
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

/** What setpriv needs to become another user; it gives them up, and the bounding set with them. */
const USER_CHANGE = ["CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"];

/**
 * bubblewrap's child waits for its parent before it asks to die with it: a parent killed in that moment would leave it waiting for
 * ever. So the PID namespace is made by unshare before: what is in it dies with its first process, wherever that stands.
 */
function enterLeanRoot({ layers, tools, isRoot, files, cwd }: Wrapping): readonly string[] {
  if (tools.bwrap === undefined) return [];
  const capabilities = layers.has("user") ? USER_CHANGE.flatMap((name) => ["--cap-add", name]) : [];
  return [
    tools.bwrap,
    // Root needs no user namespace; anybody else gets the others only through one.
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
    // SIGKILL to unshare kills what it started.
    "--kill-child=SIGKILL",
  ];
}

/**
 * The first process of a PID namespace ignores its own SIGSTOP, SIGKILL and crash signals (pid_namespaces(7)): a worker in that place could
 * neither end itself nor be seen to stop. So a shell is the first process. It waits for the worker, and exits with its status.
 */
function beginNamespace({ tools }: Wrapping): readonly string[] {
  return tools.sh === undefined ? [] : [tools.sh, "-c", '"$@"; exit $?', "sh"];
}

/** @param isWrapped whether a wrapper is its parent: it always dies with that */
function dropPrivileges(wrapping: Wrapping, isWrapped: boolean): readonly string[] {
  const { layers, tools, isRoot, uid, diesWithParent } = wrapping;
  if (tools.setpriv === undefined) return [];
  const changesUser = layers.has("user");
  const wanted = [
    ...(changesUser ? [`--reuid=${uid}`, `--regid=${uid}`, "--clear-groups"] : []),
    ...(layers.has("no-new-privileges") ? ["--no-new-privs"] : []),
    ...(isRoot && layers.has("no-new-privileges") ? ["--inh-caps=-all", "--bounding-set=-all"] : []),
    // Last: a change of user clears it.
    ...(layers.has("parent-death-signal") && (isWrapped || diesWithParent) ? ["--pdeathsig", "KILL"] : []),
  ];
  return wanted.length === 0 ? [] : [tools.setpriv, ...wanted];
}

/** The outermost wrapper; those inside die with it. */
function dieWithHost({ layers, tools, diesWithParent }: Wrapping): readonly string[] {
  if (!diesWithParent || tools.setpriv === undefined || !layers.has("parent-death-signal")) return [];
  return [tools.setpriv, "--pdeathsig", "KILL"];
}

/** Ends meant for the whole group are the host's to pass on: a wrapper that died of one would take its worker along. */
function ignoreSignals({ tools }: Wrapping): readonly string[] {
  return tools.env === undefined ? [] : [tools.env, "--ignore-signal=TERM,INT,HUP"];
}

/** The program and its arguments, wrapped in the layers that are asked for. */
export function toCommand(wrapping: Wrapping, program: readonly string[]): readonly string[] {
  const { layers, isRoot } = wrapping;
  const isLean = layers.has("lean-root");
  const inside = [
    ...(layers.has("namespaces") ? enterNamespaces(wrapping) : []),
    // Where bubblewrap is, it is the first process.
    ...(isLean ? enterLeanRoot(wrapping) : layers.has("namespaces") ? beginNamespace(wrapping) : []),
  ];
  // bubblewrap does all that setpriv would, except becoming another user.
  const asUser = isLean && !(isRoot && layers.has("user")) ? [] : dropPrivileges(wrapping, inside.length > 0);
  if (inside.length === 0) return [...limitResources(wrapping), ...asUser, ...program];
  const isolated = [...ignoreSignals(wrapping), ...inside];
  return [...dieWithHost(wrapping), ...limitResources(wrapping), ...isolated, ...asUser, ...program];
}
