// node:os and other small modules that describe the machine. They return harmless constants, never information on the host.
import { findBuiltin, NODE_BUILTINS } from "../../../contract/node-builtins.ts";
import { useBuiltin } from "../../module-loader.ts";
import { Console } from "../console/console-class.ts";
import { cryptoConstants } from "../crypto/node-crypto-constants.ts";
import { globalMember } from "../shared/global-member.ts";
import { checkString, nodeError, unsupported } from "../shared/node-error.ts";
import { addUnsupported } from "../shared/unsupported-members.ts";
import { dlopen, errno, fsConstants, gcConstants, priority, signals } from "./os-constants.ts";

declare const performance: { now(): number };

/** One processor and this memory are the same on every host. Programs divide by them. */
const MEMORY_BYTES = 1024 ** 3;

const os = {
  EOL: "\n",
  devNull: "/dev/null",
  arch: (): string => "x64",
  availableParallelism: (): number => 1,
  constants: { UV_UDP_REUSEADDR: 4, dlopen, errno, signals, priority },
  cpus: (): object[] => [{ model: "", speed: 0, times: { user: 0, nice: 0, sys: 0, idle: 0, irq: 0 } }],
  endianness: (): string => "LE",
  freemem: (): number => MEMORY_BYTES,
  getPriority: (): number => 0,
  homedir: (): string => "/",
  hostname: (): string => "sandbox",
  loadavg: (): number[] => [0, 0, 0],
  machine: (): string => "x86_64",
  networkInterfaces: (): object => ({}),
  platform: (): string => "linux",
  release: (): string => "",
  setPriority: (): void => {},
  tmpdir: (): string => "/tmp",
  totalmem: (): number => MEMORY_BYTES,
  type: (): string => "Linux",
  uptime: (): number => performance.now() / 1_000,
  userInfo: (): object => ({ uid: 1_000, gid: 1_000, username: "tool", homedir: "/", shell: null }),
  version: (): string => "",
};

const unsupportedClass = (what: string, instead: string) =>
  class {
    constructor() {
      throw unsupported(what, instead);
    }
  };

const NO_TERMINAL = "a tool has no terminal";
const tty = {
  isatty: (): boolean => false,
  ReadStream: unsupportedClass("tty.ReadStream", NO_TERMINAL),
  WriteStream: unsupportedClass("tty.WriteStream", NO_TERMINAL),
};

const web = globalThis as unknown as { readonly [name: string]: unknown };

/** The platform's own classes, where it has them. */
const perfHooks = Object.defineProperties(
  {
    constants: gcConstants,
    monitorEventLoopDelay: () => {
      throw unsupported("perf_hooks.monitorEventLoopDelay()", "a tool's event loop is not measured");
    },
    eventLoopUtilization: () => ({ idle: 0, active: 0, utilization: 0 }),
    timerify: (run: unknown): unknown => run,
  },
  Object.fromEntries(
    [
      "performance",
      "Performance",
      "PerformanceEntry",
      "PerformanceMark",
      "PerformanceMeasure",
      "PerformanceObserver",
      "PerformanceObserverEntryList",
    ].map((name) => [name, globalMember(name)]),
  ),
);

interface FileSystem {
  existsSync(path: string): boolean;
  readFileSync(path: string, encoding: "utf8"): string;
}

/** Returns the folder of a module, given its path or its file: URL. */
function folderOf(from: unknown): string {
  const path = String(from).replace(/^file:\/\//, "");
  return decodeURI(path.slice(0, path.lastIndexOf("/") + 1));
}

/** Loads built-ins by name, and JSON files of the bundle's packages by relative path. All other modules are bundled. */
function createRequire(from?: unknown): (id: string) => unknown {
  const fs = (): FileSystem => useBuiltin("node-fs", "fs") as FileSystem;
  const notFound = (id: string): Error =>
    nodeError(
      Error,
      "MODULE_NOT_FOUND",
      `Cannot find module '${id}': modules are bundled at build time; use import or require() with a constant path`,
    );
  const findFile = (id: string): string | undefined => {
    const path = `${folderOf(from)}${id}`;
    return /^\.\.?\//.test(id) && fs().existsSync(path) ? path : undefined;
  };
  const require = (id: string): unknown => {
    checkString(id, "id");
    const file = id.endsWith(".json") ? findFile(id) : undefined;
    if (file !== undefined) return JSON.parse(fs().readFileSync(file, "utf8")) as unknown;
    const name = findBuiltin(id);
    const chunk = name === undefined ? undefined : NODE_BUILTINS.get(name);
    if (name === undefined || chunk === undefined) throw notFound(id);
    return useBuiltin(chunk, name);
  };
  const resolve = (id: string): string => {
    if (findBuiltin(id) !== undefined) return id;
    const file = findFile(id);
    if (file === undefined) throw notFound(id);
    return file;
  };
  return Object.assign(require, { resolve, cache: {}, extensions: {}, main: undefined });
}

const COMPILE_CACHE_STATUS = { FAILED: 0, ENABLED: 1, ALREADY_ENABLED: 2, DISABLED: 3 } as const;

class Module {
  exports: unknown = {};
  readonly id: string;
  constructor(id = "") {
    this.id = id;
  }
  static readonly builtinModules = [...NODE_BUILTINS.keys()];
  static readonly createRequire = createRequire;
  static readonly Module: typeof Module = Module;
  static isBuiltin(id: string): boolean {
    return findBuiltin(id) !== undefined;
  }
  static syncBuiltinESMExports(): void {}
  // For the speed and the stack traces of Node. Programs call these while they load.
  static readonly constants = { compileCacheStatus: COMPILE_CACHE_STATUS };
  static enableCompileCache(): object {
    return { status: COMPILE_CACHE_STATUS.DISABLED };
  }
  static flushCompileCache(): void {}
  static getCompileCacheDir(): undefined {
    return undefined;
  }
  static setSourceMapsSupport(): void {}
  static getSourceMapsSupport(): object {
    return { enabled: false, nodeModules: false, generatedCode: false };
  }
  static findSourceMap(): undefined {
    return undefined;
  }
  static register(): never {
    throw unsupported("module.register()", "modules are bundled at build time");
  }
  static _load(): never {
    throw unsupported("module._load()", "modules are bundled at build time");
  }
}

const console = (): object => web.console as object;
const consoleModule = Object.defineProperties(
  { Console },
  Object.fromEntries(
    [
      "assert",
      "clear",
      "count",
      "countReset",
      "debug",
      "dir",
      "dirxml",
      "error",
      "group",
      "groupCollapsed",
      "groupEnd",
      "info",
      "log",
      "table",
      "time",
      "timeEnd",
      "timeLog",
      "trace",
      "warn",
    ].map((name) => [name, { enumerable: true, get: () => Reflect.get(console(), name) as unknown }]),
  ),
);

addUnsupported(
  perfHooks,
  "perf_hooks",
  "use performance.now() and user timing",
  "PerformanceResourceTiming createHistogram createSlidingWindowHistogram importHistogram",
);
addUnsupported(
  Module,
  "module",
  "modules are bundled at build time",
  "SourceMap findPackageJSON registerHooks runMain stripTypeScriptTypes wrap",
);
addUnsupported(
  consoleModule,
  "console",
  "the sandbox does not support it",
  "context createTask profile profileEnd timeStamp",
);

export const builtins = {
  os,
  tty,
  constants: { ...dlopen, ...errno, ...priority, ...signals, ...fsConstants, ...cryptoConstants },
  perf_hooks: perfHooks,
  module: Module,
  console: consoleModule,
};
