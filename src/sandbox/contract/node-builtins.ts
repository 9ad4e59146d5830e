// Node's built-in modules, and the chunk of the platform in which a guest finds each. The bundler lets no other name through. No
// imports but types: this file is bundled into a chunk and into the bundler's child.
import type { ChunkName } from "../protocol/platform-modules.ts";

/** What is told from npm packages of the same name by its `node:` alone. */
const PREFIX_ONLY: ReadonlySet<string> = new Set(["ffi", "sea", "sqlite", "test", "test/reporters"]);

const CHUNKS: { readonly [Name in ChunkName]?: readonly string[] } = {
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
  "node-refused": [
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
    // In Node 24 and before.
    "_stream_wrap",
    "trace_events",
    "v8",
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
  "node-zlib": ["zlib"],
};

/** Module to chunk. */
export const NODE_BUILTINS: ReadonlyMap<string, ChunkName> = new Map(
  Object.entries(CHUNKS).flatMap(([chunk, names]) => names.map((name) => [name, chunk as ChunkName] as const)),
);

/** `fs` for "fs", "node:fs" and "fs/"; undefined for what is no built-in. */
export function findBuiltin(specifier: string): string | undefined {
  const isPrefixed = specifier.startsWith("node:");
  const name = (isPrefixed ? specifier.slice("node:".length) : specifier).replace(/\/$/, "");
  if (!NODE_BUILTINS.has(name)) return undefined;
  return isPrefixed || !PREFIX_ONLY.has(name) ? name : undefined;
}

/** What bundles that follow an AsyncLocalStorage ask the chunk of async_hooks for (`bundler/await-context.ts`); no import has such a name. */
export const ACTIVATION_EXPORT = "#activation";

/** The function of the chunk of fs that takes the data files of a bundle's packages; no import has such a name either. */
export const PACKAGE_FILES_EXPORT = "#package-files";

/** The client in the place of that of the npm package `ws`, and the chunk that has it; no import has such a name either. */
export const WS_CLIENT_EXPORT = "#ws-client";
export const WS_CLIENT_CHUNK: ChunkName = "node-ws";
