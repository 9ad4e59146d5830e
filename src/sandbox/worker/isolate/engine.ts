// Scripts and resources that all isolates of a worker share: the prelude, the platform modules, bundles, and V8's code caches of them.
import ivm from "isolated-vm";
import {
  PLATFORM_MODULE_NAMES,
  type PlatformModuleName,
  type ReadPlatformModule,
} from "../../protocol/platform-modules.ts";
import type { GuestCrypto } from "../crypto/guest-crypto.ts";
import { NativeJobQueue } from "../crypto/native-job-queue.ts";

/** V8's code cache of a script, stored outside of all isolates. */
export interface CodeCache {
  readonly byteLength: number;
  readonly external: ivm.ExternalCopy<ArrayBuffer>;
}

/** Returns the class that runs the cryptography of guests. Its first call may take 30 ms. */
export type LoadCrypto = () => typeof GuestCrypto;

/** Scripts and resources that all isolates of a worker share. */
export interface Engine {
  readonly preludeSource: string;
  /** Undefined if the prelude has no code cache yet. */
  readonly preludeCache: CodeCache | undefined;
  readonly modules: PlatformModules;
  readonly jobQueue: NativeJobQueue;
  readonly loadCrypto: LoadCrypto;
  /** Files of the Python interpreter by name. Empty unless the process runs Python. */
  readonly assets: Map<string, Uint8Array>;
}

const NO_BYTES = new Uint8Array(0);

/** Loads the scripts of the platform modules, each at most once, and holds their code caches. */
export class PlatformModules {
  readonly #read: ReadPlatformModule;
  readonly #sources = new Map<PlatformModuleName, string>();
  readonly #bytes: readonly Uint8Array[];
  /** Made from the bytes on the first use of a module: to copy those of all takes a tenth of the CPU time of a worker's start. */
  readonly #caches = new Map<PlatformModuleName, CodeCache | undefined>();

  /** @param caches trusted code caches in the order of PLATFORM_MODULE_NAMES, from `createModuleCaches`; an empty array for a module without one */
  constructor(read: ReadPlatformModule, caches: readonly Uint8Array[] = []) {
    this.#read = read;
    this.#bytes = caches;
  }

  /** @throws {Error} if the script cannot be read */
  source(name: PlatformModuleName): string {
    const source = this.#sources.get(name) ?? this.#read(name);
    this.#sources.set(name, source);
    return source;
  }

  cache(name: PlatformModuleName): CodeCache | undefined {
    if (!this.#caches.has(name))
      this.#caches.set(name, toCodeCache(this.#bytes[PLATFORM_MODULE_NAMES.indexOf(name)] ?? NO_BYTES));
    return this.#caches.get(name);
  }
}

export interface EngineSources {
  readonly preludeSource: string;
  /** Result of `createPreludeCache`, or empty. */
  readonly preludeCache: Uint8Array;
  readonly readPlatformModule: ReadPlatformModule;
  readonly loadCrypto: LoadCrypto;
  /** Result of `createModuleCaches`, in the order of PLATFORM_MODULE_NAMES. */
  readonly moduleCaches?: readonly Uint8Array[];
}

export function createEngine(sources: EngineSources): Engine {
  const { preludeSource, preludeCache, readPlatformModule, loadCrypto, moduleCaches } = sources;
  return {
    preludeSource,
    preludeCache: toCodeCache(preludeCache),
    modules: new PlatformModules(readPlatformModule, moduleCaches),
    jobQueue: new NativeJobQueue(),
    loadCrypto,
    assets: new Map(),
  };
}

/** Copies the cache into memory that V8 can read from any thread. Returns undefined if it is empty. */
function toCodeCache(bytes: Uint8Array): CodeCache | undefined {
  if (bytes.byteLength === 0) return undefined;
  return { byteLength: bytes.byteLength, external: new ivm.ExternalCopy(new Uint8Array(bytes).buffer) };
}

/** A bundle with its code cache. */
export interface LoadableBundle {
  readonly sha256: string;
  readonly code: string;
  readonly codeCache: CodeCache | undefined;
  /** Platform modules that the bundle's isolates have used so far. They are compiled in advance for the next isolates. */
  readonly modules: Set<PlatformModuleName>;
}

export function createLoadableBundle(
  sha256: string,
  code: string,
  codeCache: Uint8Array,
  modules: Set<PlatformModuleName> = new Set(),
): LoadableBundle {
  return { sha256, code, codeCache: toCodeCache(codeCache), modules };
}

/** Options of a script that is compiled with its code cache, if it has one. */
export const scriptOptions = (
  filename: string,
  cache: CodeCache | undefined,
): { readonly filename: string; readonly cachedData?: ivm.ExternalCopy<ArrayBuffer> } => ({
  filename,
  ...(cache === undefined ? {} : { cachedData: cache.external }),
});
