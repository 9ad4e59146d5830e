// Names of the platform modules: the scripts that implement the guest's platform outside the prelude. Each is evaluated when a tool first
// uses a feature of it. No imports: this file is bundled into the prelude and into the worker, and read by the build.

/** Modules that create a member of ctx, named after its capability. Each exports `createMember(ask)`. */
export const MEMBER_MODULES = ["kv", "tools"] as const;
export type MemberModule = (typeof MEMBER_MODULES)[number];

/** All platform modules. Each is built from a file of this name below src/sandbox/guest/platform, with its imports. */
export const PLATFORM_MODULE_NAMES = [
  "dom-exception",
  "console",
  "encoding",
  "events",
  "abort",
  "atob",
  "structured-clone",
  "stream-output",
  "rollback",
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
  ...MEMBER_MODULES,
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
  "node-unsupported",
  "node-stream",
  "node-timers",
  "node-undici",
  "node-url",
  "node-util",
  "node-v8",
  "node-ws",
  "node-zlib",
  "messaging",
  "performance",
  "navigator",
  "urlpattern",
  "formatting",
  "python",
] as const;
export type PlatformModuleName = (typeof PLATFORM_MODULE_NAMES)[number];

export const isPlatformModuleName = (name: unknown): name is PlatformModuleName =>
  (PLATFORM_MODULE_NAMES as readonly unknown[]).includes(name);

/** Returns the file name of the module's script, which is in the same directory as the worker's script. */
export const platformModuleFile = (name: PlatformModuleName): string => `chunk-${name}.js`;

/** Returns the script of a platform module as text. Throws if it does not exist. */
export type ReadPlatformModule = (name: PlatformModuleName) => string;

/** File name of the worker's second script, which is in the same directory as the platform modules. */
export const ON_DEMAND_FILE = "on-demand.cjs";
