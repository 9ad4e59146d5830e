// The guest's platform beyond the prelude, as scripts of their own: each is evaluated when a tool first touches what is in it. No
// imports: this file is bundled into the prelude, into the worker and read by the build.

/** Those that make a member of ctx, by the name of its capability: each exports `createMember(ask)`. */
export const MEMBER_CHUNKS = ["kv", "tools"] as const;
export type MemberChunk = (typeof MEMBER_CHUNKS)[number];

/** A file each, src/sandbox/guest/platform/NAME.ts, with all that is imported there. */
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

/** Its script, beside the worker's. */
export const chunkFile = (name: ChunkName): string => `chunk-${name}.js`;

/** Gives a chunk's script as text; throws where there is none. */
export type ReadChunk = (name: ChunkName) => string;
