// Starts processes wrapped in the strongest hardening layers that work on this machine, and reports which do.
import { closeSync, constants, openSync, readFileSync, realpathSync } from "node:fs";
import { dirname } from "node:path";
import { unavailable } from "../../../sandbox/contract/errors.ts";
import {
  addonPath,
  inheritedDescriptors,
  nodeArguments,
  packageFolders,
  type ResolvedFolder,
  v8FlagsOf,
  workerEnvironment,
} from "../spawn/launch.ts";
import type { LaunchedProcess, ProcessListener } from "../spawn/launched-process.ts";
import { ProcessStarter } from "../spawn/process-starter.ts";
import type { SpawnCommand } from "../spawn/spawn-command.ts";
import { type LinkedFile, toCommand, type WrapperTools } from "./command.ts";
import { BUILT_IN_LAYERS, type HardeningReport, LAYER_NAMES, LAYERS, type Layer, type LayerState } from "./layers.ts";
import { createSeccompFilter } from "./seccomp.ts";
import { findTool, type ProgramSurvey, surveyPrograms } from "./system-tools.ts";

export interface HardeningOptions {
  /** Layers without which no process starts. */
  readonly require: readonly Layer[];
  /** Layers that are disabled even where they would work. */
  readonly without: readonly Layer[];
  /** Disables machine code generation: no JIT compilers to attack, but computation takes about 7 times as long. */
  readonly jitless: boolean;
}

const toLinked = (path: string): LinkedFile => ({ path, real: realpathSync(path) });

/** Users that systemd reserves for services without a fixed user (systemd.exec, DynamicUser=). */
const FIRST_UID = 61_184;
export const LAST_UID = 65_519;
/** The last of them are for other programs: upstream MCP servers. */
export const OTHER_UIDS = 1_024;
const LAST_WORKER_UID: number = LAST_UID - OTHER_UIDS;

/** Returns whether these users exist in the current user namespace. They may not in a container. */
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

/** Properties of the machine, determined once when the host starts. */
interface Machine {
  readonly tools: WrapperTools;
  readonly isRoot: boolean;
  /** Path of the Node.js executable. */
  readonly node: string;
  readonly packages: readonly ResolvedFolder[];
  readonly inherited: readonly string[];
  readonly hasTerminal: boolean;
  readonly leanFiles: readonly LinkedFile[];
  readonly seccompFilter: Buffer | undefined;
}

/** Complete surveys of this process, by their files: a process with several Gloveboxes runs no program again. */
const surveys = new Map<string, ProgramSurvey>();

async function surveyOnce(files: readonly string[]): Promise<ProgramSurvey> {
  const key = files.join("\n");
  const survey = surveys.get(key) ?? (await surveyPrograms(files));
  if (survey.env !== undefined && survey.libraries.length > 0) surveys.set(key, survey);
  return survey;
}

async function surveyMachine(scriptPath: string): Promise<Machine> {
  const isLinux = process.platform === "linux";
  const isRoot = process.getuid?.() === 0;
  const find = (name: string): string | undefined => (isLinux ? findTool(name) : undefined);
  const node = realpathSync(process.execPath);
  const [bwrap, setpriv] = [find("bwrap"), find("setpriv")];
  const programs = isRoot && setpriv !== undefined ? [node, setpriv] : [node];
  const { env, libraries } = isLinux
    ? await surveyOnce(bwrap === undefined ? [] : [...programs, addonPath()])
    : { env: undefined, libraries: [] };
  const tools: WrapperTools = {
    prlimit: find("prlimit"),
    setpriv,
    unshare: find("unshare"),
    bwrap,
    chrt: find("chrt"),
    sh: find("sh"),
    env,
  };
  const scripts = dirname(scriptPath);
  const packages = packageFolders();
  const leanFiles = libraries.length === 0 ? [] : [...[...libraries, ...programs, scripts].map(toLinked), ...packages];
  const seccompFilter = isLinux ? createSeccompFilter(process.arch) : undefined;
  const inherited = inheritedDescriptors();
  return { tools, isRoot, node, packages, inherited, hasTerminal: hasTerminal(), leanFiles, seccompFilter };
}

/** Returns the layers whose requirements are met. Only starting a process shows whether they work. */
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

/** Layers to drop, in this order, when a process does not start: the least likely to work first. */
const FALLBACKS: readonly (readonly Layer[])[] = [
  ["seccomp"],
  ["lean-root"],
  ["namespaces", "lean-root"],
  ["user", "namespaces", "lean-root"],
  ["resource-limits", "user", "no-new-privileges", "parent-death-signal", "namespaces", "lean-root"],
];

/** Removes layers. bubblewrap installs the seccomp filter, so that goes together with `lean-root`. */
function without(layers: ReadonlySet<Layer>, removed: readonly Layer[]): ReadonlySet<Layer> {
  return layers.difference(new Set(removed.includes("lean-root") ? [...removed, "seccomp"] : removed));
}

/** Returns each set of layers to try, strongest first. */
function candidatesOf(possible: ReadonlySet<Layer>): ReadonlySet<Layer>[] {
  const candidates = [possible];
  for (const removed of FALLBACKS) {
    const fewer = without(possible, removed);
    if (fewer.size < (candidates.at(-1)?.size ?? 0)) candidates.push(fewer);
  }
  return candidates;
}

export interface LauncherOptions {
  /** Script to run, unless a launch names another one. */
  readonly script: string;
  readonly hardening: HardeningOptions;
  /** Maximum number of isolates in one process at once. */
  readonly isolatesPerProcess: number;
  /** Disposed together with the launcher. */
  readonly starter?: ProcessStarter | undefined;
}

/** How a process is started. */
export interface LaunchOptions {
  readonly script?: string;
  readonly args?: readonly string[];
  readonly permission?: boolean;
  /** Limit on the data segment in bytes. Default: enough for the most isolates in one process. */
  readonly dataBytes?: number;
  /** Runs only on CPU time that no other process wants, from its first instruction. */
  readonly idlePriority?: boolean;
  /**
   * Niceness, set shortly after the start.
   * @default 0
   */
  readonly niceness?: number;
}

/** Start options of a worker, other than its kind. */
export type StartOptions = Pick<LaunchOptions, "dataBytes" | "idlePriority" | "niceness">;

/**
 * Size of a worker's data segment, as the kernel counts it: 572 MiB for Node and 526 MiB for each isolate, nearly all
 * of it reserved by V8 for code (measured). This limit only ends a runaway process before the machine fails; the
 * effective limit is on resident memory.
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

  /** @throws {ToolError} TOOL_UNAVAILABLE when this machine lacks what a required layer needs */
  static async create(options: LauncherOptions): Promise<Launcher> {
    const launcher = new Launcher(await surveyMachine(options.script), options);
    launcher.#checkRequiredLayers();
    return launcher;
  }

  /** Whether processes can run on idle CPU time only. */
  get supportsIdlePriority(): boolean {
    return this.#machine.tools.chrt !== undefined;
  }

  /** Layers that processes are started with. */
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
   * Drops the layers that most likely kept a process from starting. Returns false if none are left to drop.
   * @throws {ToolError} TOOL_UNAVAILABLE when a required layer would be dropped
   */
  dropLayers(): boolean {
    if (this.#candidates.length <= 1) return false;
    this.#candidates = this.#candidates.slice(1);
    this.#checkRequiredLayers();
    return true;
  }

  #checkRequiredLayers(): void {
    const { report } = this;
    const missing = this.#options.require.filter(
      (layer) => report[layer] === "missing" || report[layer] === "switched-off",
    );
    if (missing.length === 0) return;
    const missingLayers = missing.map((layer) => `${layer} (${LAYERS[layer].get})`);
    throw unavailable("unsupported", `hardening.require: this machine does not support ${missingLayers.join("; ")}`, {
      details: { missing },
    });
  }

  /** Starts the script. Its only channel is the socket at descriptor 3. Other output is for diagnosis only. */
  launch(listener: ProcessListener, options: LaunchOptions = {}): LaunchedProcess {
    return this.#starter.start((parent) => this.#commandFor(parent, options), listener);
  }

  #commandFor(parent: "host" | "spawner", options: LaunchOptions): SpawnCommand {
    const { script = this.#scriptPath, permission = true, dataBytes, idlePriority = false, niceness = 0 } = options;
    const { tools, isRoot, node, packages, inherited, leanFiles, seccompFilter } = this.#machine;
    // The spawner has no open descriptors that a worker could inherit.
    const args = options.args ?? (parent === "host" ? inherited : []);
    const { layers } = this;
    const cwd = dirname(script);
    const program = [node, ...nodeArguments({ script, packages, jitless: this.#options.jitless, permission }), ...args];
    const scheduled = idlePriority && tools.chrt !== undefined ? [tools.chrt, "--idle", "0"] : [];
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
      // With a terminal, each worker gets its own session, so that it cannot access the host's terminal. Otherwise
      // workers share a session: where the kernel schedules sessions as groups (sched(7), autogroup), a process
      // preempts another at once only within a session.
      detached: this.#machine.hasTerminal,
      niceness: idlePriority ? 0 : niceness,
      filter: layers.has("seccomp") ? seccompFilter : undefined,
    };
  }

  /**
   * Sets or ends SCHED_IDLE for all threads of a process. With it, they run only on CPU time that no other process
   * wants.
   */
  setIdle(pid: number, isIdle: boolean): void {
    const { chrt } = this.#machine.tools;
    if (chrt !== undefined) this.#starter.setIdle({ chrt, pid, isIdle });
  }

  #takeUid(): number {
    this.#nextUid = this.#nextUid >= LAST_WORKER_UID ? FIRST_UID : this.#nextUid + 1;
    return this.#nextUid;
  }

  /** Ends everything that it has started. Calling it twice is a no-op. */
  [Symbol.dispose](): void {
    this.#starter[Symbol.dispose]();
  }
}
