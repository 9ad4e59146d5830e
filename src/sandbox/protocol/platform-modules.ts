// Names of the platform modules: the scripts that implement the guest's platform outside the prelude. Each is evaluated when a tool first
// uses a feature of it. No imports: this file is bundled into the prelude and into the worker, and read by the build.

/** Modules that create a member of ctx, named after its capability. Each exports `createMember(ask)`. */
export const MEMBER_CHUNKS = ["kv", "tools"] as const;
export type MemberChunk = (typeof MEMBER_CHUNKS)[number];

/** All platform modules. Each is built from src/sandbox/guest/platform/NAME.ts with its imports. */
export const CHUNK_NAMES = [
  "dom-exception",
  "console",
  "encoding",
  "events",
  "abort",
  "atob",
  "structured-clone",
  "stream-output",
  "url",
  "url-parser",
  "idna",
  "streams",
  "blob",
  "fetch",
  "websocket",
  "event-source",
  "encoding-streams",
  "compression",
  "worker-codec",
  "zlib-codecs",
  "legacy-encodings",
  "crypto",
  "crypto-native",
  "crypto-derive",
  ...MEMBER_CHUNKS,
  "inspect",
  "node-assert",
  "node-async-hooks",
  "node-buffer",
  "node-crypto",
  "node-events",
  "node-fs",
  "node-http",
  "node-os",
  "node-path",
  "node-process",
  "node-refused",
  "node-stream",
  "node-timers",
  "node-url",
  "node-util",
  "node-ws",
  "node-zlib",
  "messaging",
  "performance",
  "navigator",
  "urlpattern",
  "formatting",
  "python",
] as const;
export type ChunkName = (typeof CHUNK_NAMES)[number];

export const isChunkName = (name: unknown): name is ChunkName => (CHUNK_NAMES as readonly unknown[]).includes(name);

/** Returns the file name of the module's script, which is in the same directory as the worker's script. */
export const chunkFile = (name: ChunkName): string => `chunk-${name}.js`;

/** Returns the script of a platform module as text. Throws if it does not exist. */
export type ReadChunk = (name: ChunkName) => string;
