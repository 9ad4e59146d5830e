// One command started as a child of this very process: of the host, or of its spawner.
import { type ChildProcess, spawn } from "node:child_process";
import { Socket } from "node:net";
import { setPriority } from "node:os";

/** A process as it is to be started. */
export interface SpawnCommand {
  readonly argv: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<NodeJS.ProcessEnv>;
  /** In a session of its own. */
  readonly detached: boolean;
  /** Soon after its first instruction. */
  readonly niceness: number;
  /** What is to be read at descriptor 4, to its end. */
  readonly filter: Uint8Array | undefined;
}

/** How a process ended; of one that was lost sight of nothing is known. */
export interface Ending {
  readonly code: number | null;
  readonly signal: string | null;
  /** The last of what it wrote to stderr, for the operator. */
  readonly diagnostics: string;
}

export interface Started {
  readonly child: ChildProcess;
  readonly pid: number;
  /** Its one channel: its descriptor 3. */
  readonly socket: Socket;
  readonly ended: Promise<Ending>;
}

const DIAGNOSTICS_UNITS = 4_096;
/** From a process's exit to the end of what it has written to stderr. */
const STDERR_MS = 100;

/** Undefined when the operating system gives no process, or no descriptors for one. */
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
  // A spawn that failed has no streams, though its type says so.
  const socket: unknown = (child?.stdio as ChildProcess["stdio"] | undefined)?.[3];
  if (child?.pid === undefined || !(socket instanceof Socket)) return undefined;
  sendFilter(child, filter);
  setNiceness(child.pid, niceness);
  return { child, pid: child.pid, socket, ended: endOf(child) };
}

function trySpawn(start: () => ChildProcess): ChildProcess | undefined {
  try {
    // A spawn that fails may say so by this event, and without a listener it would end whoever started it.
    return start().on("error", () => {});
  } catch {
    return undefined;
  }
}

/** bubblewrap reads the program to its end before it starts anything. */
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
    // It has ended, or the right is missing: it then runs like any other.
  }
}

async function endOf(child: ChildProcess): Promise<Ending> {
  let diagnostics = "";
  const { promise: isHeardOut, resolve } = Promise.withResolvers<void>();
  child.stderr
    ?.setEncoding("utf8")
    .on("data", (text: string) => {
      diagnostics = (diagnostics + text).slice(-DIAGNOSTICS_UNITS);
    })
    .on("error", () => {})
    .once("close", resolve);
  const { promise: exit, resolve: onExit } = Promise.withResolvers<Omit<Ending, "diagnostics">>();
  child.once("exit", (code, signal) => {
    setTimeout(resolve, STDERR_MS).unref();
    onExit({ code, signal });
  });
  const how = await exit;
  await isHeardOut;
  return { ...how, diagnostics };
}
