// Starts processes wrapped in as many layers as hold on this machine, and knows which do.
import { execFile } from "node:child_process";
import { accessSync, closeSync, constants, openSync, readFileSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { unavailable } from "../../../sandbox/contract/errors.ts";
import {
  addonPath,
  inheritedDescriptors,
  type LinkedFolder,
  nodeArguments,
  packageFolders,
  v8FlagsOf,
  workerEnvironment,
} from "../spawn/launch.ts";
import type { LaunchedProcess, ProcessListener } from "../spawn/launched-process.ts";
import { ProcessStarter } from "../spawn/process-starter.ts";
import type { SpawnCommand } from "../spawn/spawn-command.ts";
import { type LinkedFile, toCommand, type WrapperTools } from "./command.ts";
import { BUILT_IN_LAYERS, type HardeningReport, LAYER_NAMES, LAYERS, type Layer, type LayerState } from "./layers.ts";
import { createSeccompFilter } from "./seccomp.ts";

const execFileAsync = promisify(execFile);

export interface HardeningOptions {
  /** Layers without which nothing starts. */
  readonly require: readonly Layer[];
  /** Layers that are left out though they would hold. */
  readonly without: readonly Layer[];
  /** No machine code is made at run time: nothing of V8's compilers to attack, and computing takes about 7 times as long. */
  readonly jitless: boolean;
}

/** Fixed places, because PATH is whoever started the host's to set. */
const TOOL_FOLDERS = ["/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin", "/run/current-system/sw/bin"];

export function findTool(name: string): string | undefined {
  for (const folder of TOOL_FOLDERS) {
    const path = join(folder, name);
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      // Not here.
    }
  }
  return undefined;
}

/** Shared libraries that the files load, as the dynamic linker finds them; none where it cannot be asked. */
async function librariesOf(files: readonly string[]): Promise<readonly string[]> {
  const ldd = findTool("ldd");
  if (ldd === undefined) return [];
  try {
    const { stdout } = await execFileAsync(ldd, [...files], { env: {}, timeout: 10_000 });
    const paths = stdout.split("\n").flatMap((line) => /(?:=>|^)\s*(\/\S+) \(0x/.exec(line)?.[1] ?? []);
    return [...new Set(paths)];
  } catch {
    return [];
  }
}

/** Other implementations do not know the option, and fail. */
async function findGnuEnv(): Promise<string | undefined> {
  const env = findTool("env");
  if (env === undefined) return undefined;
  try {
    await execFileAsync(env, ["--ignore-signal=TERM", env], { env: {}, timeout: 5_000 });
    return env;
  } catch {
    return undefined;
  }
}

const toLinked = (path: string): LinkedFile => ({ path, real: realpathSync(path) });

/** Users that systemd sets aside for services without a name of their own (systemd.exec, DynamicUser=). */
const FIRST_UID = 61_184;
export const LAST_UID = 65_519;
/** The last of them are for programs that are no workers: upstream MCP servers. */
export const OTHER_UIDS = 1_024;
const LAST_WORKER_UID: number = LAST_UID - OTHER_UIDS;

/** Whether this user namespace has those users: in a container it may not. */
export function hasOwnUsers(): boolean {
  try {
    const map = readFileSync("/proc/self/uid_map", "utf8").trim().split("\n");
    return map.some((line) => {
      const [first = 0, , count = 0] = line.trim().split(/\s+/).map(Number);
      return first <= FIRST_UID && first + count > LAST_UID;
    });
  } catch {
    return false;
  }
}

function hasTerminal(): boolean {
  try {
    closeSync(openSync("/dev/tty", constants.O_RDONLY | constants.O_NOCTTY));
    return true;
  } catch {
    return false;
  }
}

/** What there is to work with, asked once when the host starts. */
interface Machine {
  readonly tools: WrapperTools;
  readonly isRoot: boolean;
  /** Node's own program. */
  readonly node: string;
  readonly packages: readonly LinkedFolder[];
  readonly inherited: readonly string[];
  readonly hasTerminal: boolean;
  readonly leanFiles: readonly LinkedFile[];
  readonly seccompFilter: Buffer | undefined;
}

async function surveyMachine(scriptPath: string): Promise<Machine> {
  const isLinux = process.platform === "linux";
  const isRoot = process.getuid?.() === 0;
  const find = (name: string): string | undefined => (isLinux ? findTool(name) : undefined);
  const tools: WrapperTools = {
    prlimit: find("prlimit"),
    setpriv: find("setpriv"),
    unshare: find("unshare"),
    bwrap: find("bwrap"),
    chrt: find("chrt"),
    sh: find("sh"),
    env: isLinux ? await findGnuEnv() : undefined,
  };
  const node = realpathSync(process.execPath);
  const programs = isRoot && tools.setpriv !== undefined ? [node, tools.setpriv] : [node];
  const libraries = tools.bwrap === undefined ? [] : await librariesOf([...programs, addonPath()]);
  const scripts = dirname(scriptPath);
  const packages = packageFolders();
  const leanFiles = libraries.length === 0 ? [] : [...[...libraries, ...programs, scripts].map(toLinked), ...packages];
  const seccompFilter = isLinux ? createSeccompFilter(process.arch) : undefined;
  const inherited = inheritedDescriptors();
  return { tools, isRoot, node, packages, inherited, hasTerminal: hasTerminal(), leanFiles, seccompFilter };
}

/** Layers for which this machine has what they need; whether they work is seen by starting a process. */
function possibleLayers({ tools, isRoot, leanFiles, seccompFilter }: Machine): ReadonlySet<Layer> {
  const possible = new Set<Layer>(BUILT_IN_LAYERS);
  const canBeLean = tools.bwrap !== undefined && leanFiles.length > 0;
  const has: { readonly [Name in Layer]?: boolean } = {
    "resource-limits": tools.prlimit !== undefined,
    user: isRoot && tools.setpriv !== undefined && hasOwnUsers(),
    "no-new-privileges": canBeLean || tools.setpriv !== undefined,
    "parent-death-signal": canBeLean || tools.setpriv !== undefined,
    namespaces: canBeLean || tools.unshare !== undefined,
    "lean-root": canBeLean,
    seccomp: canBeLean && seccompFilter !== undefined,
  };
  for (const layer of LAYER_NAMES) if (has[layer]) possible.add(layer);
  return possible;
}

/** What is given up, in this order, when a process does not start: the least likely to hold first. */
const FALLBACKS: readonly (readonly Layer[])[] = [
  ["seccomp"],
  ["lean-root"],
  ["namespaces", "lean-root"],
  ["user", "namespaces", "lean-root"],
  ["resource-limits", "user", "no-new-privileges", "parent-death-signal", "namespaces", "lean-root"],
];

/** bubblewrap installs the filter: without the one there is not the other. */
function without(layers: ReadonlySet<Layer>, left: readonly Layer[]): ReadonlySet<Layer> {
  return layers.difference(new Set(left.includes("lean-root") ? [...left, "seccomp"] : left));
}

/** Each set of layers that is worth a try, the strongest first. */
function candidatesOf(possible: ReadonlySet<Layer>): ReadonlySet<Layer>[] {
  const candidates = [possible];
  for (const left of FALLBACKS) {
    const fewer = without(possible, left);
    if (fewer.size < (candidates.at(-1)?.size ?? 0)) candidates.push(fewer);
  }
  return candidates;
}

export interface LauncherOptions {
  /** What is run, unless a launch says otherwise. */
  readonly script: string;
  readonly hardening: HardeningOptions;
  /** How many isolates one process may hold at one time. */
  readonly isolatesPerProcess: number;
  /** Disposed of with the launcher. */
  readonly starter?: ProcessStarter;
}

/** How a process is started. */
export interface LaunchOptions {
  readonly script?: string;
  readonly args?: readonly string[];
  readonly permission?: boolean;
  /** Limit on the data segment; for as many isolates as any process may hold, unless stated. */
  readonly dataBytes?: number;
  /** It goes last: it runs only on what time of the processor nobody else wants, from its first instruction. */
  readonly goesLast?: boolean;
  /** Soon after its start; 0 unless stated. */
  readonly niceness?: number;
}

/** What a worker may be started with, other than its kind. */
export type StartOptions = Pick<LaunchOptions, "dataBytes" | "goesLast" | "niceness">;

/**
 * Data segment of a worker, as the kernel counts it: 572 MiB of Node's own and 526 for each isolate, nearly all of them V8's
 * reservations for code (measured). A backstop that ends a runaway process before the machine; the ceiling that holds is on
 * resident memory.
 */
const NODE_DATA_MIB = 640;
const ISOLATE_DATA_MIB = 560;
export const dataLimitBytes = (isolates: number, memoryMiB: number): number =>
  (NODE_DATA_MIB + isolates * ISOLATE_DATA_MIB + memoryMiB) * 1024 * 1024;

export class Launcher implements Disposable {
  readonly #machine: Machine;
  readonly #options: HardeningOptions;
  readonly #scriptPath: string;
  readonly #isolatesPerProcess: number;
  readonly #starter: ProcessStarter;
  #candidates: readonly ReadonlySet<Layer>[];
  #nextUid = FIRST_UID + Math.floor(Math.random() * (LAST_WORKER_UID - FIRST_UID));

  private constructor(machine: Machine, { script, hardening, isolatesPerProcess, starter }: LauncherOptions) {
    this.#scriptPath = script;
    this.#machine = machine;
    this.#options = hardening;
    this.#isolatesPerProcess = isolatesPerProcess;
    this.#starter = starter ?? new ProcessStarter();
    this.#candidates = candidatesOf(without(possibleLayers(machine), hardening.without));
  }

  /** @throws {ToolError} TOOL_UNAVAILABLE when this machine has not what a required layer needs */
  static async create(options: LauncherOptions): Promise<Launcher> {
    const launcher = new Launcher(await surveyMachine(options.script), options);
    launcher.#refuseWithout();
    return launcher;
  }

  /** Whether a process can be put last, to run on idle time only. */
  get canGoLast(): boolean {
    return this.#machine.tools.chrt !== undefined;
  }

  /** The layers that processes are started with. */
  get layers(): ReadonlySet<Layer> {
    return this.#candidates[0] ?? new Set(BUILT_IN_LAYERS);
  }

  get v8Flags(): readonly string[] {
    return v8FlagsOf(this.#options);
  }

  get report(): HardeningReport {
    const { layers } = this;
    const stateOf = (layer: Layer): LayerState => {
      if (layers.has(layer)) return "holds";
      if (this.#options.without.includes(layer)) return "switched-off";
      return layer === "user" && !this.#machine.isRoot ? "not-needed" : "missing";
    };
    return Object.fromEntries(LAYER_NAMES.map((layer) => [layer, stateOf(layer)])) as HardeningReport;
  }

  /**
   * Gives up the layers that most likely kept a process from starting; false when there are none left to give up.
   * @throws {ToolError} TOOL_UNAVAILABLE when a required one would have to go
   */
  retreat(): boolean {
    if (this.#candidates.length <= 1) return false;
    this.#candidates = this.#candidates.slice(1);
    this.#refuseWithout();
    return true;
  }

  #refuseWithout(): void {
    const { report } = this;
    const missing = this.#options.require.filter(
      (layer) => report[layer] === "missing" || report[layer] === "switched-off",
    );
    if (missing.length === 0) return;
    const ways = missing.map((layer) => `${layer} (${LAYERS[layer].get})`);
    throw unavailable("unsupported", `hardening: this machine does not give what was required: ${ways.join("; ")}`, {
      details: { missing },
    });
  }

  /** Starts the script. Its one channel is the socket at descriptor 3; what it writes elsewhere is for diagnosis only. */
  launch(listener: ProcessListener, options: LaunchOptions = {}): LaunchedProcess {
    return this.#starter.start((parent) => this.#commandFor(parent, options), listener);
  }

  #commandFor(parent: "host" | "spawner", options: LaunchOptions): SpawnCommand {
    const { script = this.#scriptPath, permission = true, dataBytes, goesLast = false, niceness = 0 } = options;
    const { tools, isRoot, node, packages, inherited, leanFiles, seccompFilter } = this.#machine;
    // The spawner has nothing open that a worker could inherit.
    const args = options.args ?? (parent === "host" ? inherited : []);
    const { layers } = this;
    const cwd = dirname(script);
    const program = [node, ...nodeArguments({ script, packages, jitless: this.#options.jitless, permission }), ...args];
    const scheduled = goesLast && tools.chrt !== undefined ? [tools.chrt, "--idle", "0"] : [];
    const wrapped = toCommand(
      {
        layers,
        tools,
        isRoot,
        uid: this.#takeUid(),
        files: leanFiles,
        cwd,
        dataBytes: dataBytes ?? dataLimitBytes(this.#isolatesPerProcess, 0),
        diesWithParent: parent === "host",
      },
      program,
    );
    return {
      argv: [...scheduled, ...wrapped],
      env: workerEnvironment(),
      cwd,
      // A session of its own, so that nothing in it can reach the host's terminal. Without a terminal they share one: where the kernel
      // schedules sessions as groups (sched(7), autogroup), only within one can it let one process at once pass another.
      detached: this.#machine.hasTerminal,
      niceness: goesLast ? 0 : niceness,
      filter: layers.has("seccomp") ? seccompFilter : undefined,
    };
  }

  /** SCHED_IDLE for all threads of a process, or no more: it runs only on what time of the processor nobody else wants. */
  setIdle(pid: number, isIdle: boolean): void {
    const { chrt } = this.#machine.tools;
    if (chrt !== undefined) this.#starter.setIdle({ chrt, pid, isIdle });
  }

  #takeUid(): number {
    this.#nextUid = this.#nextUid >= LAST_WORKER_UID ? FIRST_UID : this.#nextUid + 1;
    return this.#nextUid;
  }

  /** What it has started ends no later than this. Twice is a no-op. */
  [Symbol.dispose](): void {
    this.#starter[Symbol.dispose]();
  }
}
