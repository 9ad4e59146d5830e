// Learns a bundle's definition by running its top level in an isolate of a process in which nothing has run before, and has the
// V8 code cache made there. A process that had run other guests could be one that a guest has taken over: its cache would be poison.
import { type BundleCache, CODE_CACHE_FACTOR, engineKeyOf } from "../../bundler/cache/bundle-cache.ts";
import type { StackMapper } from "../../bundler/compile/source-map.ts";
import type { ToolBundle } from "../../bundler/tool-bundle.ts";
import { type LearnedDefinition, LearnedDefinitionSchema } from "../../sandbox/contract/definition.ts";
import type { EngineFeature } from "../../sandbox/contract/engine-features.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import type { Limits } from "../../sandbox/contract/limits.ts";
import { pack, unpack } from "../../sandbox/protocol/length-prefixed.ts";
import { NO_USAGE } from "../contract/tool-call.ts";
import { formatIssues } from "../json/format-issues.ts";
import { parseSmallJson } from "../json/parse-json.ts";
import type { Job, WorkerPool } from "../workers/worker-pool.ts";
import { PlatformModuleUsage } from "./platform-module-usage.ts";
import { memoryError, placementOf, toGuestFailure } from "./sandbox.ts";

export interface Learned {
  readonly definition: LearnedDefinition;
  readonly codeCache: Uint8Array;
  readonly chunks: PlatformModuleUsage;
}

/** A definition is what a model reads: a quarter of a MiB is more than any model should. */
const DEFINITION_BYTES = 256 * 1024;
const DEFINITION_DEPTH = 64;
const DEFINITION_VALUES = 50_000;
/** What an isolate needs to be ready is ours to wait for; a machine on which it takes this long has more to do than it can. */
const START_MS = 120_000;
/** A machine on which no process is free for this long has more to do than it can. */
const QUEUE_MS = 30_000;
const maxCodeCacheBytes = (code: string): number => CODE_CACHE_FACTOR * code.length + 1024 * 1024;

const CODES = { invalid: "BUNDLE_FAILED", tooLarge: "BUNDLE_FAILED" } as const;

/** @throws {ToolError} BUNDLE_FAILED */
export function parseDefinition(text: string): LearnedDefinition {
  const bounds = { bytes: DEFINITION_BYTES, depth: DEFINITION_DEPTH, values: DEFINITION_VALUES };
  const value = parseSmallJson(text, bounds, CODES, "The tool's definition");
  const parsed = LearnedDefinitionSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.slice(0, 10).map(({ path, message }) => ({ pointer: path.join("/"), message }));
  throw new ToolError("BUNDLE_FAILED", `The tool's definition: ${formatIssues(problems)}`, { details: { problems } });
}

/** Both are one entry of the cache, packed. */
function unpackLearned(packed: Uint8Array): Omit<Learned, "chunks"> | undefined {
  const [text, codeCache] = unpack(packed);
  if (text === undefined || codeCache === undefined) return undefined;
  try {
    return { definition: parseDefinition(Buffer.from(text).toString()), codeCache };
  } catch {
    return undefined;
  }
}

export interface LearnerOptions {
  readonly pool: WorkerPool;
  readonly cache: BundleCache;
  /** What a code cache depends on besides its bundle. */
  readonly engineKey: string;
}

/** For whom a bundle is learned, and with what. */
export interface ExtractionOptions {
  /** Whose process the learning one becomes, if it has none yet; without one the process is ended. */
  readonly owner: string | undefined;
  /** Who pays for it, and how much it may cost. */
  readonly account: string;
  readonly weight: number;
  readonly limits: Limits;
  /** As the tool's calls will have them: its top level runs in each of those too. */
  readonly features: readonly EngineFeature[];
  readonly coarseTime: boolean;
}

export class Learner {
  readonly #options: LearnerOptions;
  readonly #engineKey: string;

  constructor(options: LearnerOptions) {
    this.#options = options;
    this.#engineKey = options.engineKey;
  }

  /** A top level may ask what there is, and state another definition where it finds it. */
  #keyOf(features: readonly EngineFeature[]): string {
    return features.length === 0 ? this.#engineKey : engineKeyOf([this.#engineKey, ...features.toSorted()]);
  }

  /** @throws {ToolError} BUNDLE_FAILED, TOOL_FAILED, TOOL_TIMEOUT, MEMORY_LIMIT, CPU_LIMIT, SANDBOX_CRASHED, OVERLOADED */
  async learn(bundle: ToolBundle, stackMapper: StackMapper, learning: ExtractionOptions): Promise<Learned> {
    const { cache } = this.#options;
    const key = this.#keyOf(learning.features);
    const known = await cache.getCodeCache(bundle.sha256, key);
    const unpacked = known === undefined ? undefined : unpackLearned(known);
    const chunks = new PlatformModuleUsage(cache, bundle.sha256, await cache.getChunks(bundle.sha256));
    if (unpacked !== undefined) return { ...unpacked, chunks };
    const [text, sent = new Uint8Array(0)] = await this.#run(bundle, stackMapper, learning, chunks);
    // A copy: what has come is a part of its frame, and would keep all of it for as long as the tool is known.
    const codeCache = sent.byteLength > maxCodeCacheBytes(bundle.code) ? new Uint8Array(0) : new Uint8Array(sent);
    const definition = parseDefinition(text.toString());
    await cache.setCodeCache(bundle.sha256, key, pack([text, codeCache]));
    return { definition, codeCache, chunks };
  }

  #run(
    bundle: ToolBundle,
    stackMapper: StackMapper,
    learning: ExtractionOptions,
    chunks: PlatformModuleUsage,
  ): Promise<[text: Buffer, codeCache?: Buffer]> {
    const { owner, limits, features, coarseTime } = learning;
    const { sha256, code, entry } = bundle;
    return extractDefinition(this.#options.pool, {
      ...{ entry, stackMapper, learning, chunks },
      job: {
        ...placementOf(owner ?? `learn:${sha256}`, sha256, features, limits),
        order: { type: "learn", sha256, limits, features: [...features], coarseTime },
        bundle: { sha256, code, codeCache: new Uint8Array(0), chunks },
        input: "",
      },
      lane: sha256,
      clockRunsFrom: "placed",
    });
  }
}

/** A run that learns a tool's definition. */
export interface LearningRun {
  readonly entry: string;
  readonly stackMapper: StackMapper;
  readonly learning: ExtractionOptions;
  readonly chunks: Pick<PlatformModuleUsage, "add">;
  readonly job: Omit<Job, "claim" | "listener" | "memoryMiB" | "singleUse" | "fresh">;
  readonly lane: string;
  /** The tool's own time begins when its process has it, or when its isolate is ready for it. */
  readonly clockRunsFrom: "placed" | "started";
}

/**
 * In a process in which nothing has run before: resolves with the parts of the output.
 * @throws {ToolError} as `Learner.learn` does
 */
export function extractDefinition(pool: WorkerPool, run: LearningRun): Promise<[text: Buffer, codeCache?: Buffer]> {
  const { entry, stackMapper, learning, chunks, job, lane, clockRunsFrom } = run;
  const { owner, account, weight, limits } = learning;
  const { promise, resolve, reject } = Promise.withResolvers<[Buffer, Buffer?]>();
  let timer: NodeJS.Timeout | undefined;
  const within = (ms: number, error: () => ToolError): void => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      ticket.cancel();
      reject(error());
    }, ms);
  };
  const begin = (): void => within(limits.timeoutMs, () => tooSlow(entry, limits.timeoutMs));
  const ticket = pool.run({
    ...job,
    singleUse: owner === undefined,
    claim: { account, weight, lane, accountLimits: limits, laneLimits: limits },
    memoryMiB: limits.memoryMiB,
    fresh: true,
    listener: {
      // The clock runs only while the tool does: the wait for a process, and its start, are not the tool's.
      onPlaced: () => {
        if (clockRunsFrom === "placed") begin();
        else within(START_MS, () => notStarted(entry));
      },
      onStarted: () => {
        if (clockRunsFrom === "started") begin();
      },
      onLog() {},
      onProgress() {},
      onCapability() {},
      onEnded: (message, [text, codeCache], peakBytes) => {
        chunks.add(message.touched ?? []);
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
      onHeld() {},
      onStuck() {},
    },
  });
  if (timer === undefined) {
    within(QUEUE_MS, () => overloaded(`No sandbox process was free within ${QUEUE_MS} ms`));
  }
  return promise.finally(() => clearTimeout(timer));
}

const tooLarge = (): ToolError =>
  new ToolError("BUNDLE_FAILED", `The tool's definition: expected at most ${DEFINITION_BYTES} bytes of JSON`);

function tooSlow(entry: string, timeoutMs: number): ToolError {
  return new ToolError(
    "TOOL_TIMEOUT",
    `The top level of ${entry} did not finish within ${timeoutMs} ms and was stopped`,
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
