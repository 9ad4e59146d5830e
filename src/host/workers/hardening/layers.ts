// The hardening layers around a worker process: a table of what each one stops and where it comes from.

export interface LayerRow {
  /** Attacks of a compromised process that the layer stops. */
  readonly stops: string;
  /** How to get the layer where it is missing. */
  readonly get: string;
}

/** The hardening layers of worker processes: what each one stops, and how to get it on a machine that lacks it. */
export const LAYERS = {
  "permission-model": {
    stops: "files, child processes, network and worker threads, from Node's first instruction",
    get: "comes with Node 24",
  },
  "no-native-modules": {
    stops: "node:ffi, which calls into native libraries, and node:sqlite, which opens files past the permission model",
    get: "comes with Node 24",
  },
  "v8-flags": {
    stops: "loops that outlive dispose(), and WebAssembly compilation that outlives its isolate",
    get: "comes with Node 24",
  },
  "empty-environment": { stops: "reading secrets from environment variables", get: "comes with Glovebox" },
  "resource-limits": {
    stops: "writing files, core dumps, unlimited processes and descriptors, memory beyond a last limit",
    get: "install prlimit (package util-linux)",
  },
  user: {
    stops: "signals to and files of the host's user: each worker runs as a user of its own that owns nothing",
    get: "run the host as root with setpriv installed (package util-linux), where a worker's user can read Node and Glovebox",
  },
  "no-new-privileges": {
    stops: "gaining rights by running a set-user-id program",
    get: "install setpriv (package util-linux) or bubblewrap",
  },
  "parent-death-signal": {
    stops: "outliving the host, even when stopped by a signal",
    get: "install setpriv (package util-linux) or bubblewrap",
  },
  namespaces: {
    stops: "any network, even a bug in Node's permission model; seeing or signalling other processes",
    get: "install bubblewrap or unshare (package util-linux); a host that is not root needs unprivileged user namespaces",
  },
  "lean-root": {
    stops: "every file but Node, its libraries and Glovebox's own: there are no others to open",
    get: "install bubblewrap (Debian: apt-get install bubblewrap) and ldd",
  },
  seccomp: {
    stops: "system calls that a worker does not need: sockets, tracing, mounts, namespaces, BPF, io_uring",
    get: "install bubblewrap, on x64 or arm64",
  },
} as const satisfies Record<string, LayerRow>;

/** Name of a hardening layer. */
export type Layer = keyof typeof LAYERS;
export const LAYER_NAMES: readonly Layer[] = Object.keys(LAYERS) as Layer[];

/** Layers that need no other software: they work wherever Node.js runs. */
export const BUILT_IN_LAYERS: readonly Layer[] = [
  "permission-model",
  "no-native-modules",
  "v8-flags",
  "empty-environment",
];

/**
 * State of a layer. `not-needed`: it has nothing to remove (a host without root has no root to drop).
 * `switched-off`: disabled by the host's `hardening.without`.
 */
export type LayerState = "holds" | "missing" | "not-needed" | "switched-off";

/** State of each layer on this machine, for the operator. */
export type HardeningReport = { readonly [Name in Layer]: LayerState };
