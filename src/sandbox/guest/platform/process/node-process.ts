// node:process: `env` is empty at first, and nothing discloses the host. Packages compare the version while they load, so it is that of the oldest
// supported Node.
import { findBuiltin, NODE_BUILTINS } from "../../../contract/node-builtins.ts";
import { useBuiltin } from "../../module-loader.ts";
import { checkFunction, invalidArgument, unsupported } from "../shared/node-error.ts";
import { createEnvironment } from "./process-env.ts";

interface Emitter {
  readonly [method: string]: (...args: unknown[]) => unknown;
}
// CommonJS modules, evaluated at first use.
declare function require(name: "../events/node-events.ts"): { readonly EventEmitter: new () => Emitter };
declare function require(name: "../streams/node-stream.ts"): typeof import("../streams/node-stream.ts");
declare const performance: { now(): number };
declare const console: {
  log(...values: unknown[]): void;
  error(...values: unknown[]): void;
  warn(...values: unknown[]): void;
};
const web = globalThis as unknown as { queueMicrotask(run: () => void): void };

/** Runs as a microtask, after the microtasks that are already queued. */
export function nextTick(run: unknown, ...args: unknown[]): void {
  checkFunction(run, "callback");
  web.queueMicrotask(() => void Reflect.apply(run, undefined, args));
}

function hrtime(previous?: readonly [number, number]): [number, number] {
  const now = performance.now();
  let seconds = Math.floor(now / 1_000);
  let nanoseconds = Math.round((now % 1_000) * 1e6);
  if (previous !== undefined) {
    if (!Array.isArray(previous)) throw invalidArgument("time", "an instance of Array", previous);
    seconds -= previous[0] ?? 0;
    nanoseconds -= previous[1] ?? 0;
    if (nanoseconds < 0) {
      seconds -= 1;
      nanoseconds += 1e9;
    }
  }
  return [seconds, nanoseconds];
}
hrtime.bigint = (): bigint => BigInt(Math.round(performance.now() * 1e6));

function emitWarning(warning: unknown, options?: unknown): void {
  const given = typeof options === "string" ? options : (options as { type?: string } | undefined)?.type;
  if (warning instanceof Error) console.warn(`${warning.name}: ${warning.message}`);
  else console.warn(`${given ?? "Warning"}: ${String(warning)}`);
}

const unsupportedFunction =
  (name: string, instead: string) =>
  (...args: unknown[]): never => {
    throw unsupported(`process.${name}(${args.filter((arg) => typeof arg === "number").join(", ")})`, instead);
  };

const NO_PROCESS = "a tool has no process to act on";
const noMemory = { rss: 0, heapTotal: 0, heapUsed: 0, external: 0, arrayBuffers: 0 };

function getBuiltinModule(id: string): unknown {
  const name = findBuiltin(id);
  const chunk = name === undefined ? undefined : NODE_BUILTINS.get(name);
  return name === undefined || chunk === undefined ? undefined : useBuiltin(chunk, name);
}

/** Has the constants only. WebAssembly packages that Emscripten has built read them from here. */
function binding(name: unknown): unknown {
  if (name !== "constants") throw unsupported(`process.binding(${String(name)})`, "Node's internals are not there");
  const constantsOf = (module: string) => (getBuiltinModule(module) as { readonly constants: object }).constants;
  return { os: constantsOf("os"), fs: constantsOf("fs"), crypto: constantsOf("crypto"), zlib: constantsOf("zlib") };
}

const process: { [name: string]: unknown } = {
  title: "glovebox",
  version: "v24.0.0",
  versions: {
    node: "24.0.0",
    ...Object.fromEntries(
      ["v8", "uv", "zlib", "brotli", "zstd", "modules", "openssl", "unicode", "icu"].map((name) => [name, ""]),
    ),
  },
  arch: "x64",
  platform: "linux",
  release: { name: "node" },
  env: createEnvironment(),
  argv: ["/node", "/tool"],
  argv0: "node",
  execArgv: [],
  execPath: "/node",
  exitCode: undefined,
  pid: 1,
  ppid: 0,
  config: { target_defaults: {}, variables: {} },
  features: {},
  allowedNodeEnvironmentFlags: new Set<string>(),
  cwd: (): string => "/",
  umask: (): number => 0o22,
  ...Object.fromEntries(["getuid", "geteuid", "getgid", "getegid"].map((name) => [name, () => 1_000])),
  getgroups: () => [1_000],
  uptime: (): number => performance.now() / 1_000,
  hrtime,
  nextTick,
  emitWarning,
  memoryUsage: Object.assign(() => ({ ...noMemory }), { rss: () => 0 }),
  cpuUsage: () => ({ user: 0, system: 0 }),
  resourceUsage: () => ({}),
  availableMemory: (): number => 0,
  constrainedMemory: (): number => 0,
  getActiveResourcesInfo: () => [],
  getBuiltinModule,
  exit: unsupportedFunction("exit", "a tool ends when it returns or throws"),
  reallyExit: unsupportedFunction("reallyExit", "a tool ends when it returns or throws"),
  abort: unsupportedFunction("abort", "a tool ends when it returns or throws"),
  kill: unsupportedFunction("kill", NO_PROCESS),
  chdir: unsupportedFunction("chdir", 'the working directory is always "/"'),
  dlopen: unsupportedFunction("dlopen", "native add-ons cannot be loaded"),
  binding,
  loadEnvFile: unsupportedFunction("loadEnvFile", "a tool has no environment; request secrets"),
};

let emitter: Emitter | undefined;
/** Nothing is ever emitted here, but packages that listen or emit find a real emitter. */
for (const name of [
  "addListener",
  "emit",
  "eventNames",
  "getMaxListeners",
  "listenerCount",
  "listeners",
  "off",
  "on",
  "once",
  "prependListener",
  "prependOnceListener",
  "rawListeners",
  "removeAllListeners",
  "removeListener",
  "setMaxListeners",
]) {
  process[name] = (...args: unknown[]): unknown => {
    emitter ??= new (require("../events/node-events.ts").EventEmitter)();
    const result = emitter[name]?.(...args);
    return result === emitter ? process : result;
  };
}

function lazily(name: string, make: () => unknown): void {
  let made: unknown;
  Object.defineProperty(process, name, {
    enumerable: true,
    configurable: true,
    get: () => {
      made ??= make();
      return made;
    },
  });
}

/** Writes lines to the log of the call. */
function outputStream(fd: number, log: (text: string) => void): unknown {
  const { Writable } = require("../streams/node-stream.ts");
  const stream = new Writable({
    decodeStrings: false,
    write(chunk: unknown, _encoding: string, done: () => void) {
      const text = typeof chunk === "string" ? chunk : new TextDecoder().decode(chunk as Uint8Array);
      log(text.replace(/\n$/, ""));
      done();
    },
  });
  return Object.assign(stream, { fd, isTTY: false, _type: "pipe" });
}
declare class TextDecoder {
  decode(bytes: Uint8Array): string;
}

lazily("stdout", () => outputStream(1, (text) => console.log("%s", text)));
lazily("stderr", () => outputStream(2, (text) => console.error("%s", text)));
lazily("stdin", () => Object.assign(require("../streams/node-stream.ts").Readable.from([]), { fd: 0, isTTY: false }));
// Packages recognize Node by this name: axios chooses its adapter by it.
Object.defineProperty(process, Symbol.toStringTag, { value: "process", writable: true });

export { process };
export const builtins = { process };
