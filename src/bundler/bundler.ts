// The Bundler: adds a cache to bundleTool, shares identical concurrent builds, reuses build processes, and shares them fairly.
import * as z from "zod";
import { ToolError } from "../sandbox/contract/errors.ts";
import { plainObject } from "../sandbox/contract/plain-object.ts";
import { type BuiltBundle, type BundleOptions, buildLocated, toBuildRequest } from "./bundle-tool.ts";
import type { BundleCache } from "./cache/bundle-cache.ts";
import { cacheKeyOf, isFresh, ownedKeyOf } from "./cache/bundle-freshness.ts";
import { BuildProcesses } from "./compile/child/build-processes.ts";
import { BuildSlots } from "./compile/child/build-slots.ts";
import { locateTool, type ToolLocation } from "./locate/tool-location.ts";
import type { CellLanguage } from "./tool-bundle.ts";
import { type BundleLimits, DEFAULT_BUNDLE_LIMITS, type ToolBundle, type ToolSource } from "./tool-bundle.ts";

export interface BundlerOptions {
  readonly cache: BundleCache;
  /** Folder above which no package is looked up. */
  readonly root?: string | undefined;
  /** The `node_modules` folder that packages come from. @default those next to the tool and above it, up to `root` */
  readonly packagesDir?: string | undefined;
  /** Folders in which packages that the store links to may lie. @default none: linked packages are rejected */
  readonly linkedPackages?: readonly string[] | undefined;
  readonly allowPackages?: readonly string[] | undefined;
  readonly limits?: { readonly [Name in keyof BundleLimits]?: BundleLimits[Name] | undefined } | undefined;
  /** Maximum number of concurrent builds. One owner has at most all but one of them. @default 3 */
  readonly maxConcurrentBuilds?: number | undefined;
}

export const BundleLimitsSchema = plainObject(
  z
    .strictObject({
      sourceBytes: z
        .int()
        .min(1)
        .max(64 * 1024 * 1024),
      packageBytes: z
        .int()
        .min(0)
        .max(256 * 1024 * 1024),
      files: z.int().min(1).max(50_000),
      outputBytes: z
        .int()
        .min(1)
        .max(64 * 1024 * 1024),
      timeoutMs: z.int().min(1).max(300_000),
      memoryMiB: z.int().min(128).max(8_192),
    })
    .partial(),
);

const OptionsSchema = z.strictObject({
  cache: z.custom<BundleCache>((value) => typeof value === "object" && value !== null, "Expected a BundleCache"),
  root: z.string().min(1).optional(),
  packagesDir: z.string().min(1).optional(),
  linkedPackages: z.array(z.string().min(1)).optional(),
  allowPackages: z.array(z.string().min(1)).optional(),
  limits: BundleLimitsSchema.default({}),
  maxConcurrentBuilds: z.int().min(1).max(64).default(3),
});

export interface BundleOutcome {
  readonly bundle: ToolBundle;
  /** True when the bundle came from the cache. */
  readonly cached: boolean;
  readonly durationMs: number;
  /** Paths of the files that the bundle was built from, and paths that were looked up and missing. Watch all of them for changes. */
  readonly files: readonly string[];
}

/** A bundle, and the write to the cache, which never rejects. */
interface StoredBundle {
  readonly built: BuiltBundle;
  readonly stored: Promise<void>;
}

/** A build that one or more callers wait for. It stops when the last of them has gone. */
interface SharedBuild {
  readonly result: Promise<StoredBundle>;
  readonly stop: AbortController;
  waiting: number;
}

/** A build to run. `key` identifies it for all owners, `ownedKey` for its own. */
interface BuildJob {
  readonly key: string;
  readonly ownedKey: string;
  readonly owner: string | undefined;
  readonly location: ToolLocation;
  readonly options: Omit<BundleOptions, "signal">;
}

export interface BundleCallOptions {
  readonly signal?: AbortSignal | undefined;
  /** Limits for this build. They can only lower the limits of the bundler. */
  readonly limits?: Partial<BundleLimits>;
  /** Language of a session cell. The source is then the text of that cell, in memory. */
  readonly cell?: CellLanguage | undefined;
  /** Owner of the bundle. The bundle stays in the cache until its last owner is deleted. */
  readonly owner?: string | undefined;
  /** Receives the write of a new bundle to the cache. `bundle()` then does not wait for it. */
  readonly onStoring?: ((stored: Promise<void>) => void) | undefined;
}

function lowerLimits(limits: BundleLimits, others: Partial<BundleLimits>): BundleLimits {
  const lowest = { ...limits };
  for (const [name, value] of Object.entries(others) as [keyof BundleLimits, number | undefined][]) {
    if (value !== undefined) lowest[name] = Math.min(lowest[name], value);
  }
  return lowest;
}

function cancelled(reason: unknown): ToolError {
  return new ToolError("CANCELLED", "The build was cancelled", { cause: reason });
}

export class Bundler {
  readonly #cache: BundleCache;
  readonly #options: Omit<BundleOptions, "signal">;
  readonly #slots: BuildSlots;
  readonly #processes: BuildProcesses;
  readonly #shared = new Map<string, SharedBuild>();
  #isDisposed = false;

  /** @param processes the processes of its builds, which are closed with the bundler */
  constructor(options: BundlerOptions, processes?: BuildProcesses) {
    const { cache, limits, maxConcurrentBuilds, ...policy } = OptionsSchema.parse(options);
    const given = Object.fromEntries(Object.entries(limits).filter(([, limit]) => limit !== undefined));
    this.#cache = cache;
    this.#options = { ...policy, limits: { ...DEFAULT_BUNDLE_LIMITS, ...given } };
    this.#slots = new BuildSlots(maxConcurrentBuilds);
    this.#processes = processes ?? new BuildProcesses({ maxIdle: maxConcurrentBuilds });
  }

  /**
   * Returns the bundle of a source: from the cache if no file that it was built from has changed, otherwise from a new build.
   * @throws {ToolError} BUNDLE_FAILED, CANCELLED
   */
  async bundle(
    source: ToolSource,
    { signal, limits = {}, cell, owner, onStoring }: BundleCallOptions = {},
  ): Promise<BundleOutcome> {
    const startedAt = performance.now();
    this.#throwIfStopped(signal);
    const options = { ...this.#options, limits: lowerLimits(this.#options.limits, limits), cell };
    const location = locateTool(source, options, options.limits);
    const key = cacheKeyOf(toBuildRequest(location, options));
    // The owner is recorded first, so that no artifact exists without one.
    if (owner !== undefined) await this.#cache.claim(owner, key);
    const ownedKey = owner === undefined ? key : ownedKeyOf(key, owner);
    const known = (await this.#findFresh(key)) ?? (ownedKey === key ? undefined : await this.#findFresh(ownedKey));
    this.#throwIfStopped(signal);
    const { built, stored } =
      known === undefined
        ? await this.#join({ key, ownedKey, owner, location, options }, signal)
        : { built: known, stored: undefined };
    if (stored !== undefined && onStoring !== undefined) onStoring(stored);
    else await stored;
    const { bundle, dependencies, absent } = built;
    if (owner !== undefined) await this.#cache.claim(owner, bundle.sha256);
    const files = [...dependencies.map(({ path }) => path), ...absent];
    return { bundle, cached: known !== undefined, durationMs: performance.now() - startedAt, files };
  }

  /** Ends the processes that wait for builds of an owner. */
  async endOwner(owner: string): Promise<void> {
    await this.#processes.endOwner(owner);
  }

  /** Kills running builds. Callers that wait for them receive CANCELLED. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isDisposed = true;
    const builds = [...this.#shared.values()];
    for (const { stop } of builds) stop.abort();
    await Promise.allSettled(builds.map(({ result }) => result));
    await this.#processes[Symbol.asyncDispose]();
  }

  async #findFresh(key: string): Promise<BuiltBundle | undefined> {
    const known = await this.#cache.get(key);
    return known !== undefined && isFresh(known) ? known : undefined;
  }

  #throwIfStopped(signal: AbortSignal | undefined): void {
    if (signal?.aborted) throw cancelled(signal.reason);
    if (this.#isDisposed) throw new ToolError("CANCELLED", "The bundler has been disposed");
  }

  async #join(job: BuildJob, signal: AbortSignal | undefined): Promise<StoredBundle> {
    // Per owner: only the owner's processes may have built it.
    const { ownedKey: key } = job;
    const build = this.#shared.get(key) ?? this.#start(job);
    build.waiting += 1;
    try {
      if (signal === undefined) return await build.result;
      return await this.#raceAbort(build.result, signal);
    } finally {
      build.waiting -= 1;
      if (build.waiting === 0) {
        build.stop.abort();
        // A new caller must not join a build that is being stopped.
        if (this.#shared.get(key) === build) this.#shared.delete(key);
      }
    }
  }

  async #raceAbort<Result>(result: Promise<Result>, signal: AbortSignal): Promise<Result> {
    const { promise: aborted, reject } = Promise.withResolvers<never>();
    const onAbort = (): void => reject(cancelled(signal.reason));
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      return await Promise.race([result, aborted]);
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
  }

  #start(job: BuildJob): SharedBuild {
    const { ownedKey: key } = job;
    const stop = new AbortController();
    const result = this.#build(job, stop.signal);
    const build: SharedBuild = { result, stop, waiting: 0 };
    this.#shared.set(key, build);
    const removeShared = (): void => {
      if (this.#shared.get(key) === build) this.#shared.delete(key);
    };
    result.then(removeShared, removeShared);
    return build;
  }

  async #build({ key, ownedKey, owner, location, options }: BuildJob, signal: AbortSignal): Promise<StoredBundle> {
    using _slot = await this.#slots.acquire(owner, signal);
    let isFirst = true;
    const built = await buildLocated(location, { ...options, signal }, async (request) => {
      const run = await this.#processes.run(request, owner, signal);
      isFirst = run.isFirst;
      return run.response;
    });
    if (!isFirst && owner !== undefined) await this.#cache.claim(owner, ownedKey);
    return { built, stored: this.#cache.set(isFirst ? key : ownedKey, built) };
  }
}
