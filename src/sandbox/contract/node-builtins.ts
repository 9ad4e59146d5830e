// Table of Node's built-in modules and the platform module that provides each of them to a guest. The bundler rejects other names.
// Type imports only: this file is bundled into a platform module and into the bundler's child process.
import type { PlatformModuleName } from "../protocol/platform-modules.ts";

/** Modules that need the prefix `node:`. Without it the name refers to an npm package. */
const PREFIX_ONLY: ReadonlySet<string> = new Set(["ffi", "sea", "sqlite", "test", "test/reporters"]);

const CHUNKS: { readonly [Name in PlatformModuleName]?: readonly string[] } = {
  "node-async-hooks": ["async_hooks", "diagnostics_channel"],
  "node-assert": ["assert", "assert/strict"],
  "node-buffer": ["buffer", "string_decoder"],
  "node-crypto": ["crypto"],
  "node-events": ["events"],
  "node-fs": ["fs", "fs/promises"],
  "node-http": [
    "http",
    "https",
    "_http_agent",
    "_http_client",
    "_http_common",
    "_http_incoming",
    "_http_outgoing",
    "_http_server",
  ],
  "node-os": ["os", "constants", "tty", "perf_hooks", "module", "console"],
  "node-path": ["path", "path/posix", "path/win32"],
  "node-process": ["process"],
  "node-unsupported": [
    "child_process",
    "cluster",
    "dgram",
    "dns",
    "dns/promises",
    "domain",
    "ffi",
    "http2",
    "inspector",
    "inspector/promises",
    "net",
    "repl",
    "sea",
    "sqlite",
    "test",
    "test/reporters",
    "tls",
    "_tls_common",
    "_tls_wrap",
    // In Node 24 and earlier.
    "_stream_wrap",
    "trace_events",
    "vm",
    "wasi",
    "worker_threads",
  ],
  "node-stream": [
    "stream",
    "stream/consumers",
    "stream/promises",
    "stream/web",
    "_stream_duplex",
    "_stream_passthrough",
    "_stream_readable",
    "_stream_transform",
    "_stream_writable",
    "readline",
    "readline/promises",
  ],
  "node-timers": ["timers", "timers/promises"],
  "node-url": ["url", "querystring", "punycode"],
  "node-util": ["util", "util/types", "sys"],
  "node-v8": ["v8"],
  "node-zlib": ["zlib"],
};

/** Maps the name of a built-in module to its platform module. */
export const NODE_BUILTINS: ReadonlyMap<string, PlatformModuleName> = new Map(
  Object.entries(CHUNKS).flatMap(([chunk, names]) => names.map((name) => [name, chunk as PlatformModuleName] as const)),
);

/** Returns the name of a built-in module: `fs` for "fs", "node:fs" and "fs/". Returns undefined for other specifiers. */
export function findBuiltin(specifier: string): string | undefined {
  const isPrefixed = specifier.startsWith("node:");
  const name = (isPrefixed ? specifier.slice("node:".length) : specifier).replace(/\/$/, "");
  if (!NODE_BUILTINS.has(name)) return undefined;
  return isPrefixed || !PREFIX_ONLY.has(name) ? name : undefined;
}

/**
 * Export of the async_hooks module that bundles use to propagate an AsyncLocalStorage
 * (`bundler/compile/transforms/await-context.ts`). An import cannot have this name.
 */
export const ACTIVATION_EXPORT = "#activation";

/** Export of the fs module that receives the data files of a bundle's packages. An import cannot have this name. */
export const PACKAGE_FILES_EXPORT = "#package-files";

/** Export that replaces the WebSocket client of the npm package `ws`, and its platform module. An import cannot have this name. */
export const WS_CLIENT_EXPORT = "#ws-client";
export const WS_CLIENT_CHUNK: PlatformModuleName = "node-ws";

/** Export that replaces the connections of the npm package `undici`, and its platform module. An import cannot have this name. */
export const UNDICI_CLIENT_EXPORT = "#undici-client";
export const UNDICI_CLIENT_CHUNK: PlatformModuleName = "node-undici";
