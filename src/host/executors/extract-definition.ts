// Extracts a bundle's definition by running its top level in an unused process, and creates the V8 code cache there. In a
// used process, another guest could have taken control and forged the cache.
import { type BundleCache, CODE_CACHE_FACTOR, engineKeyOf } from "../../bundler/cache/bundle-cache.ts";
import type { StackMapper } from "../../bundler/compile/source-map.ts";
import type { ToolBundle } from "../../bundler/tool-bundle.ts";
import { type ExtractedToolDefinition, ExtractedToolDefinitionSchema } from "../../sandbox/contract/definition.ts";
import type { EngineFeature } from "../../sandbox/contract/engine-features.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import type { Limits } from "../../sandbox/contract/limits.ts";
import { pack, unpack } from "../../sandbox/protocol/length-prefixed.ts";
import { NO_USAGE } from "../contract/tool-call.ts";
import { formatIssues } from "../json/format-issues.ts";
import { parseSmallJson } from "../json/parse-json.ts";
import type { Job } from "../workers/pool-job.ts";
import type { WorkerPool } from "../workers/worker-pool.ts";
import { memoryError, toGuestFailure } from "./guest-outcome.ts";
import { PlatformModuleUsage } from "./platform-module-usage.ts";
import { placementOf } from "./process-placement.ts";

export interface ExtractedDefinition {
  readonly definition: ExtractedToolDefinition;
  readonly codeCache: Uint8Array;
  readonly modules: PlatformModuleUsage;
}

/** Maximum size of a definition. A larger one would be too long for a model to read. */
const DEFINITION_BYTES = 256 * 1024;
const DEFINITION_DEPTH = 64;
const DEFINITION_VALUES = 50_000;
/**
 * Longest time in ms until the isolate is ready. It does not count as the tool's; a machine that takes longer is
 * overloaded.
 */
const START_MS = 120_000;
/** Shortest time in ms that an extraction waits for a process, whose start counts. A higher limit `queueMs` makes it longer. */
const QUEUE_MS = 30_000;
const maxCodeCacheBytes = (code: string): number => CODE_CACHE_FACTOR * code.length + 1024 * 1024;

const CODES = { invalid: "BUNDLE_FAILED", tooLarge: "BUNDLE_FAILED" } as const;

/** Parses a definition, which is untrusted. @throws {ToolError} BUNDLE_FAILED */
export function parseDefinition(text: string): ExtractedToolDefinition {
  const bounds = { bytes: DEFINITION_BYTES, depth: DEFINITION_DEPTH, values: DEFINITION_VALUES };
  const value = parseSmallJson(text, bounds, CODES, "The tool's definition");
  const parsed = ExtractedToolDefinitionSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues.slice(0, 10).map(({ path, message }) => ({ pointer: path.join("/"), message }));
  throw new ToolError("BUNDLE_FAILED", `The tool's definition: ${formatIssues(issues)}`, {
    details: { problems: issues },
  });
}

/** Unpacks a cache entry of two length-prefixed parts. Returns undefined for an invalid entry. */
function unpackDefinition(packed: Uint8Array): Omit<ExtractedDefinition, "modules"> | undefined {
  const [text, codeCache] = unpack(packed);
  if (text === undefined || codeCache === undefined) return undefined;
  try {
    return { definition: parseDefinition(Buffer.from(text).toString()), codeCache };
  } catch {
    return undefined;
  }
}

export interface DefinitionExtractorOptions {
  readonly pool: WorkerPool;
  readonly cache: BundleCache;
  /** Properties of the engine that a code cache depends on. */
  readonly engineKey: string;
}

/** The tenant that a definition is extracted for, and its limits. */
export interface ExtractionOptions {
  /** Owner that keeps the process if it has none yet. Without an owner, the process is ended. */
  readonly owner: string | undefined;
  /** Account that is charged for the run: a separate key for the tenant's builds. */
  readonly account: string;
  readonly weight: number;
  readonly limits: Limits;
  /** Engine features of the tool. Its top level runs in each of its calls, so it has the same features here. */
  readonly features: readonly EngineFeature[];
  readonly coarseTime: boolean;
}

export class DefinitionExtractor {
  readonly #options: DefinitionExtractorOptions;
  readonly #engineKey: string;

  constructor(options: DefinitionExtractorOptions) {
    this.#options = options;
    this.#engineKey = options.engineKey;
  }

  /** Includes the features, because a top level may test for them and export another definition. */
  #keyOf(features: readonly EngineFeature[]): string {
    return features.length === 0 ? this.#engineKey : engineKeyOf([this.#engineKey, ...features.toSorted()]);
  }

  /**
   * Returns the definition from the cache or by running the bundle.
   * @throws {ToolError} BUNDLE_FAILED, TOOL_FAILED, TOOL_TIMEOUT, MEMORY_LIMIT, CPU_LIMIT, SANDBOX_CRASHED, OVERLOADED
   */
  async extract(
    bundle: ToolBundle,
    stackMapper: StackMapper,
    options: ExtractionOptions,
  ): Promise<ExtractedDefinition> {
    const { cache } = this.#options;
    const key = this.#keyOf(options.features);
    const known = await cache.getCodeCache(bundle.sha256, key);
    const unpacked = known === undefined ? undefined : unpackDefinition(known);
    const modules = new PlatformModuleUsage(cache, bundle.sha256, await cache.getPlatformModules(bundle.sha256));
    if (unpacked !== undefined) return { ...unpacked, modules };
    const [text, sent = new Uint8Array(0)] = await this.#run(bundle, stackMapper, options, modules);
    // Copied, because the bytes are a view that would keep the whole frame in memory.
    const codeCache = sent.byteLength > maxCodeCacheBytes(bundle.code) ? new Uint8Array(0) : new Uint8Array(sent);
    const definition = parseDefinition(text.toString());
    await cache.setCodeCache(bundle.sha256, key, pack([text, codeCache]));
    return { definition, codeCache, modules };
  }

  /** Returns what is known of a bundle without running it: its platform modules, and its code cache if this machine has made one. */
  async find(
    bundle: Pick<ToolBundle, "sha256">,
    features: readonly EngineFeature[],
  ): Promise<Omit<ExtractedDefinition, "definition">> {
    const { cache } = this.#options;
    const known = await cache.getCodeCache(bundle.sha256, this.#keyOf(features));
    const codeCache = (known && unpackDefinition(known)?.codeCache) ?? new Uint8Array(0);
    const names = await cache.getPlatformModules(bundle.sha256);
    return { codeCache, modules: new PlatformModuleUsage(cache, bundle.sha256, names) };
  }

  #run(
    bundle: ToolBundle,
    stackMapper: StackMapper,
    options: ExtractionOptions,
    modules: PlatformModuleUsage,
  ): Promise<[text: Buffer, codeCache?: Buffer]> {
    const { owner, limits, features, coarseTime } = options;
    const { sha256, code, entry } = bundle;
    return extractDefinition(this.#options.pool, {
      entry,
      stackMapper,
      options,
      modules,
      job: {
        ...placementOf(owner ?? `extract:${sha256}`, sha256, features, limits),
        order: { type: "extract", sha256, limits, features: [...features], coarseTime },
        bundle: { sha256, code, codeCache: new Uint8Array(0), modules },
        input: "",
      },
      toolKey: sha256,
      clockRunsFrom: "placed",
    });
  }
}

/** A run that extracts a definition. */
export interface ExtractionRun {
  readonly entry: string;
  readonly stackMapper: StackMapper;
  readonly options: ExtractionOptions;
  readonly modules: Pick<PlatformModuleUsage, "add">;
  readonly job: Omit<Job, "claim" | "listener" | "memoryMiB" | "singleUse" | "fresh">;
  readonly toolKey: string;
  /** When the tool's timeout starts: when a process has taken the call, or when the isolate is ready. */
  readonly clockRunsFrom: "placed" | "started";
}

/**
 * Runs the top level in an unused process. Resolves with the parts of its output.
 * @throws {ToolError} see `DefinitionExtractor.extract`
 */
export function extractDefinition(pool: WorkerPool, run: ExtractionRun): Promise<[text: Buffer, codeCache?: Buffer]> {
  const { entry, stackMapper, options, modules, job, toolKey, clockRunsFrom } = run;
  const { owner, account, weight, limits } = options;
  const { promise, resolve, reject } = Promise.withResolvers<[Buffer, Buffer?]>();
  let timer: NodeJS.Timeout | undefined;
  const setTimeLimit = (ms: number, error: () => ToolError): void => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      // Before its cancellation, which can end it at once with an error of its own.
      reject(error());
      ticket.cancel();
    }, ms);
  };
  const queueMs = Math.max(QUEUE_MS, limits.queueMs);
  const wait = (): void => setTimeLimit(queueMs, () => overloaded(`No sandbox process was free within ${queueMs} ms`));
  const begin = (): void => setTimeLimit(limits.timeoutMs, () => timedOut(entry, limits.timeoutMs));
  const ticket = pool.run({
    ...job,
    singleUse: owner === undefined,
    claim: { account, weight, toolKey, accountLimits: limits, toolLimits: limits },
    memoryMiB: limits.memoryMiB,
    fresh: true,
    listener: {
      // Waiting for a process and starting it do not count towards the tool's timeout.
      onPlaced: () => {
        if (clockRunsFrom === "placed") begin();
        else setTimeLimit(START_MS, () => notStarted(entry));
      },
      onPutBack: wait,
      onStarted: () => {
        if (clockRunsFrom === "started") begin();
      },
      onLog() {},
      onProgress() {},
      onCapability() {},
      onEnded: (message, [text, codeCache], peakBytes) => {
        modules.add(message.usedModules ?? []);
        if (message.outcome === "output" && text !== undefined) {
          resolve(codeCache === undefined ? [text] : [text, codeCache]);
          return;
        }
        if (message.outcome === "too-large") return reject(tooLarge());
        const usage = { ...NO_USAGE, ...message.usage, peakBytes };
        reject(toGuestFailure(message, { limits, usage, text: text?.toString() ?? "", stackMapper }, entry));
      },
      onLost: ({ cause, outOfMemory }, peakBytes) =>
        reject(cause ?? (outOfMemory ? memoryError(entry, limits, peakBytes) : crashed(entry))),
      onPaused() {},
      onStuck() {},
    },
  });
  if (timer === undefined) wait();
  return promise.finally(() => clearTimeout(timer));
}

const tooLarge = (): ToolError =>
  new ToolError("BUNDLE_FAILED", `The tool's definition: expected at most ${DEFINITION_BYTES} bytes of JSON`);

function timedOut(entry: string, timeoutMs: number): ToolError {
  return new ToolError(
    "TOOL_TIMEOUT",
    `The top level of ${entry} did not finish within ${timeoutMs} ms (limits.timeoutMs) and was stopped`,
    {
      details: { timeoutMs, phase: "load" },
    },
  );
}

const notStarted = (entry: string): ToolError => overloaded(`No isolate was ready for ${entry} within ${START_MS} ms`);

const overloaded = (message: string): ToolError =>
  new ToolError("OVERLOADED", message, { details: { retryAfterMs: 1_000 } });

function crashed(entry: string): ToolError {
  return new ToolError("SANDBOX_CRASHED", `The sandbox process ended while the top level of ${entry} ran`, {
    details: { phase: "load" },
  });
}
