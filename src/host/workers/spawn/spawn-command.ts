// Starts one command as a child of the current process: the host or its spawner.
import { type ChildProcess, spawn } from "node:child_process";
import { Socket } from "node:net";
import { setPriority } from "node:os";

/** A process to start. */
export interface SpawnCommand {
  readonly argv: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<NodeJS.ProcessEnv>;
  /** Starts the process in a session of its own. */
  readonly detached: boolean;
  /** Niceness, set shortly after the start. */
  readonly niceness: number;
  /** Content for descriptor 4, which the process reads to its end. */
  readonly filter: Uint8Array | undefined;
}

/** How a process ended. All fields are empty if the end was not observed. */
export interface Ending {
  readonly code: number | null;
  readonly signal: string | null;
  /** Last output on stderr, for the operator. */
  readonly diagnostics: string;
}

export interface Started {
  readonly child: ChildProcess;
  readonly pid: number;
  /** Channel at the child's descriptor 3. */
  readonly socket: Socket;
  readonly ended: Promise<Ending>;
}

const DIAGNOSTICS_LENGTH = 4_096;
/** Longest time in ms to read stderr after the process has exited. */
const STDERR_MS = 100;

/** Starts the command. Returns undefined if the operating system provides no process or no descriptors. */
export function spawnCommand({ argv, cwd, env, detached, niceness, filter }: SpawnCommand): Started | undefined {
  const [program = "", ...args] = argv;
  const child = trySpawn(() =>
    spawn(program, args, {
      cwd,
      env,
      detached,
      stdio: ["ignore", "ignore", "pipe", "pipe", ...(filter === undefined ? [] : (["pipe"] as const))],
    }),
  );
  // A failed spawn has no streams, contrary to its type.
  const socket: unknown = (child?.stdio as ChildProcess["stdio"] | undefined)?.[3];
  if (child?.pid === undefined || !(socket instanceof Socket)) return undefined;
  sendFilter(child, filter);
  setNiceness(child.pid, niceness);
  return { child, pid: child.pid, socket, ended: endOf(child) };
}

function trySpawn(start: () => ChildProcess): ChildProcess | undefined {
  try {
    // A failed spawn may emit this event. Without a listener it would end the host.
    return start().on("error", () => {});
  } catch {
    return undefined;
  }
}

/** Sends the seccomp program, which bubblewrap reads to its end before it starts anything. */
function sendFilter(child: ChildProcess, filter: Uint8Array | undefined): void {
  const pipe = child.stdio[4];
  if (filter === undefined || pipe === null || pipe === undefined || !("end" in pipe)) return;
  pipe.on("error", () => {});
  pipe.end(filter);
}

function setNiceness(pid: number, niceness: number): void {
  if (niceness === 0) return;
  try {
    setPriority(pid, niceness);
  } catch {
    // The process has ended, or the right is missing: it then runs at normal priority.
  }
}

async function endOf(child: ChildProcess): Promise<Ending> {
  let diagnostics = "";
  const { promise: drained, resolve } = Promise.withResolvers<void>();
  child.stderr
    ?.setEncoding("utf8")
    .on("data", (text: string) => {
      diagnostics = (diagnostics + text).slice(-DIAGNOSTICS_LENGTH);
    })
    .on("error", () => {})
    .once("close", resolve);
  const { promise: exit, resolve: onExit } = Promise.withResolvers<Omit<Ending, "diagnostics">>();
  child.once("exit", (code, signal) => {
    setTimeout(resolve, STDERR_MS).unref();
    onExit({ code, signal });
  });
  const exitStatus = await exit;
  await drained;
  return { ...exitStatus, diagnostics };
}
