// createGlovebox(): the composition root. Every part is made here, and handed to those that need it.
import { createHash } from "node:crypto";
import { basename, dirname, extname, resolve } from "node:path";
import { type BuiltinToolName, loadBuiltinBundles } from "../bundler/builtin-bundles.ts";
import { type BundleCache, createBundleCache, engineKeyOf } from "../bundler/bundle-cache.ts";
import { Bundler } from "../bundler/bundler.ts";
import { loadSandboxArtifacts } from "../bundler/sandbox-artifacts.ts";
import { createStackMapper } from "../bundler/source-map.ts";
import type { BundleLimits, ToolBundle, ToolSource } from "../bundler/tool-bundle.ts";
import { TOOL_NAME_PATTERN, TOOL_NAME_RULE, type ToolDefinition } from "../sandbox/definition.ts";
import {
  ENGINE_FEATURE_NAMES,
  type EngineFeature,
  isEngineFeature,
  unlimitedFeatures,
} from "../sandbox/engine-features.ts";
import { ToolError } from "../sandbox/errors.ts";
import type { CapabilityShape, CapabilityShapes } from "../sandbox/guest-protocol.ts";
import { LIMITS, type PartialLimits } from "../sandbox/limits.ts";
import { type Capability, shapeOf } from "./capabilities/capability.ts";
import { createEgress } from "./capabilities/egress.ts";
import { loadHttpClient } from "./capabilities/http-client.ts";
import { createKvCapability } from "./capabilities/kv/kv.ts";
import { MemoryKvStore } from "./capabilities/kv/kv-memory.ts";
import { SqliteKvStore } from "./capabilities/kv/kv-sqlite.ts";
import type { KvStore } from "./capabilities/kv/kv-store.ts";
import { logCapability } from "./capabilities/log.ts";
import { createToolsCapability } from "./capabilities/tools.ts";
import {
  type AddToolOptions,
  CALLS_PER_WORKER,
  type Config,
  type GloveboxOptions,
  ISOLATES_PER_WORKER,
  MAX_DRAIN_MS,
  maxWorkersPerOwner,
  NESTED_PER_WORKER,
  parseAddToolOptions,
  parseConfig,
  parseToolInput,
  type ToolInput,
  WORKER_IDLE_MS,
} from "./config.ts";
import { type Learned, Learner, type Learning } from "./executors/learn.ts";
import { createSandboxExecutor } from "./executors/sandbox.ts";
import type { SourceHealth } from "./health/source-health.ts";
import { createHostLog } from "./host-log.ts";
import { type BatchContext, ToolInvoker } from "./invoker.ts";
import { type RegisterOptions, ToolRouter, toRegisteredTool } from "./router.ts";
import { closeOnSignals } from "./shutdown.ts";
import { createTelemetry } from "./telemetry/telemetry.ts";
import type { TenantPolicy } from "./tenants.ts";
import type { ToolCall, ToolContext, ToolInvocation, ToolResult } from "./tool-call.ts";
import type { ToolStream } from "./tool-stream.ts";
import { EngineCache } from "./workers/engine-cache.ts";
import { Launcher } from "./workers/hardening/launcher.ts";
import { type HardeningReport, LAYERS } from "./workers/hardening/layers.ts";
import type { Inspector } from "./workers/inspected-isolate.ts";
import { v8FlagsOf } from "./workers/launch.ts";
import { WorkerPool } from "./workers/worker-pool.ts";

/** What `inspect` shows of a tool: it has been bundled and learned, and is not registered. */
export interface ToolInspection {
  readonly definition: ToolDefinition;
  readonly bundle: ToolBundle;
  /** Paths on this machine that it was made from, or that were looked for in vain: a change of one may change the tool. */
  readonly files: readonly string[];
  readonly codeCacheBytes: number;
  readonly bundleMs: number;
  readonly learnMs: number;
  /** Whether nothing had to be bundled. */
  readonly cached: boolean;
}

/** What first-party tools ask for, and have: which hosts a request may go to stays with `egress`. */
const BUILTIN_GRANTS: { readonly [Name in BuiltinToolName]?: readonly string[] } = {
  "http-get": ["fetch"],
  "run-js": ["stringToCode"],
};

/** A worker is told them in one message of 64 KiB, with everything else of the tool. */
const MAX_SHAPES_BYTES = 24 * 1024;

/** `{ path: "tools/add/tool.ts" }` is named after its folder when the file's own name says nothing. */
const GENERIC_FILE_NAMES = new Set(["tool", "index", "main"]);

function nameFromSource(source: ToolSource, bundle: ToolBundle): string {
  if ("source" in source) return `tool_${bundle.sha256.slice(0, 8)}`;
  const path = "path" in source ? resolve(source.path) : bundle.entry;
  const file = basename(path, extname(path));
  const name = GENERIC_FILE_NAMES.has(file) ? basename(dirname(path)) : file;
  return /[A-Za-z0-9]/.test(name) ? name.replaceAll(/[^A-Za-z0-9_.-]+/g, "-") : `tool_${bundle.sha256.slice(0, 8)}`;
}

/**
 * A running Glovebox. Dispose it (`await using`) or `close()` it: then its processes end, calls still in it get their results
 * (CANCELLED), and later ones TOOL_UNAVAILABLE.
 */
export class Glovebox implements AsyncDisposable {
  readonly router: ToolRouter;
  /** Invocations with a time of their own, one by one and in batches, over the same router. */
  readonly invoker: ToolInvoker;
  readonly #config: Config;
  readonly #bundler: Bundler;
  readonly #pool: WorkerPool;
  readonly #learner: Learner;
  readonly #launcher: Launcher;
  readonly #capabilities: ReadonlyMap<string, Capability>;
  readonly #ownStore: KvStore | undefined;
  readonly #onSignals: Disposable | undefined;
  #closed = false;

  /** @internal use {@link createGlovebox} */
  constructor(parts: {
    readonly config: Config;
    readonly router: ToolRouter;
    readonly bundler: Bundler;
    readonly pool: WorkerPool;
    readonly learner: Learner;
    readonly launcher: Launcher;
  }) {
    this.#config = parts.config;
    this.router = parts.router;
    this.invoker = new ToolInvoker(parts.router, parts.config.tools);
    this.#bundler = parts.bundler;
    this.#pool = parts.pool;
    this.#learner = parts.learner;
    this.#launcher = parts.launcher;
    const { signals, drainMs } = parts.config.shutdown;
    this.#onSignals = signals.length === 0 ? undefined : closeOnSignals(this, signals, drainMs);
    const { store } = parts.config;
    // A store of the host's own is its to close.
    this.#ownStore =
      store === "memory" ? new MemoryKvStore() : "path" in store ? new SqliteKvStore(store.path) : undefined;
    const kv = createKvCapability(this.#ownStore ?? (store as KvStore));
    const egress = createEgress((tenantId) => parts.router.tenants.of(tenantId));
    const own = [logCapability, ...egress, kv, createToolsCapability(parts.router)];
    const all = [...own, ...parts.config.capabilities];
    this.#capabilities = new Map(all.map((one) => [one.name, one]));
  }

  /** Process ids of the workers, for the operator. */
  get workerPids(): readonly number[] {
    return this.#pool.pids;
  }

  /**
   * Sources of tools and whether they can be asked: those of a tenant's and everybody's tools; without a tenant those of everybody's
   * tools and all with which something is wrong for any tenant.
   */
  health(options?: RegisterOptions): readonly SourceHealth[] {
    return this.router.health(options);
  }

  /** Definitions of the tools that a tenant may call at present: `box.router.listTools()`. Never rejects. */
  listTools(options?: RegisterOptions): Promise<readonly ToolDefinition[]> {
    return this.router.listTools(options);
  }

  /** Which layers of hardening the worker processes are wrapped in on this machine. */
  get hardening(): HardeningReport {
    return this.#launcher.report;
  }

  /**
   * Bundles a tool, learns its definition in an isolate, and registers it.
   * @throws {ToolError} PARAM_INVALID for bad options or a taken name; BUNDLE_FAILED when it cannot be built or is no tool;
   *   TOOL_FAILED, TOOL_TIMEOUT, MEMORY_LIMIT, CPU_LIMIT, SANDBOX_CRASHED when its top level throws, hangs or runs away
   */
  async addTool(tool: ToolInput, options?: AddToolOptions): Promise<ToolDefinition> {
    this.#refuseWhenClosed();
    return await this.#add(parseToolInput(tool), parseAddToolOptions(options));
  }

  /** @internal the first-party tools that the host has named, for everybody, with all that they ask for */
  async addBuiltinTools(names: readonly BuiltinToolName[], cache: BundleCache): Promise<void> {
    const bundles = await loadBuiltinBundles(names, cache);
    // One after the other: learned side by side, each would wait for a process, and all for a core.
    for (const [index, name] of names.entries()) {
      const options = { grant: [...(BUILTIN_GRANTS[name] ?? [])], isolation: "call" as const };
      await this.#add({ source: "", name }, options, bundles[index]);
    }
  }

  /** @param prebuilt what is registered in the place of the input's own source */
  async #add(
    input: ToolInput,
    { tenantId, grant, isolation, arguments: argumentOptions }: ReturnType<typeof parseAddToolOptions>,
    prebuilt?: ToolBundle,
  ): Promise<ToolDefinition> {
    const { granted, features } = this.#grants(grant, input);
    const { definition, bundle, learned } = await this.#build(input, tenantId, features, prebuilt);
    this.#refuseWhenClosed();
    const asked = Object.keys(learned.definition.capabilities ?? {});
    const denied = asked.filter((name) => !granted.has(name) && !isEngineFeature(name));
    const executor = createSandboxExecutor(
      {
        bundle,
        codeCache: learned.codeCache,
        chunks: learned.chunks,
        stackMapper: createStackMapper(bundle.sourceMap),
        isolation: isolation ?? this.#config.isolation,
        prewarm: definition.prewarm !== false,
        ownerOf: (tenant) => this.#ownerOf(tenant),
        sharesProcesses: this.#config.placement === "shared",
        sourceId: `sandbox:${definition.name}`,
        granted,
        denied,
        lacksFetch: !granted.has("fetch"),
        shapes: this.#shapesOf([...granted.keys(), ...denied], definition),
        features,
        onHandlerError: this.#config.onError,
      },
      this.#pool,
    );
    const authorLimits = learned.definition.limits;
    this.router.add(
      toRegisteredTool(definition, executor, {
        ...(tenantId === undefined ? {} : { tenantId }),
        hostLimits: input.definition?.limits,
        authorLimits,
        arguments: argumentOptions,
      }),
    );
    return definition;
  }

  /** Takes a tool out of the registry; calls that have begun go on. False when there was none. */
  removeTool(toolName: string, { tenantId }: { readonly tenantId?: string } = {}): boolean {
    return this.router.registry.remove(toolName, tenantId);
  }

  /** Bundles a tool and learns its definition, without registering it. Throws as `addTool` does. */
  async inspectTool(tool: ToolInput, options?: Pick<AddToolOptions, "tenantId" | "grant">): Promise<ToolInspection> {
    this.#refuseWhenClosed();
    const { tenantId, grant } = parseAddToolOptions(options);
    const input = parseToolInput(tool);
    const { learned, ...built } = await this.#build(input, tenantId, this.#grants(grant, input).features);
    return { ...built, codeCacheBytes: learned.codeCache.byteLength };
  }

  /** Runs one call: `box.router.execute()`. Always resolves. */
  execute(toolCall: ToolCall, context?: ToolContext): Promise<ToolResult> {
    return this.router.execute(toolCall, context);
  }

  /** Runs one call and gives its chunks as they come, its result last: `box.router.stream()`. Never rejects. */
  stream(toolCall: ToolCall, context?: ToolContext): ToolStream {
    return this.router.stream(toolCall, context);
  }

  /** Runs independent calls side by side: `box.invoker.executeBatch()`. Always resolves. */
  executeBatch(toolCalls: readonly (ToolCall | ToolInvocation)[], context?: BatchContext): Promise<ToolResult[]> {
    return this.invoker.executeBatch(toolCalls, context);
  }

  /**
   * Ends all calls, each with its result, and all processes. Twice is a no-op.
   * @param drainMs so long those that run may go on to their own end, 0 to 300,000; 0 unless stated
   */
  async close({ drainMs = 0 }: { readonly drainMs?: number } = {}): Promise<void> {
    this.#closed = true;
    if (drainMs > 0) await this.router.drain(Math.min(drainMs, MAX_DRAIN_MS));
    this.#onSignals?.[Symbol.dispose]();
    await this.router[Symbol.asyncDispose]();
    await this.#bundler[Symbol.asyncDispose]();
    await this.#pool[Symbol.asyncDispose]();
    await this.#ownStore?.[Symbol.asyncDispose]?.();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #refuseWhenClosed(): void {
    if (this.#closed) throw new ToolError("TOOL_UNAVAILABLE", "Glovebox is closed");
  }

  #ownerOf(tenantId: string): string {
    return this.#config.placement === "tenant" ? `tenant:${tenantId}` : "shared";
  }

  /** What the host grants a tool, whether it asks for it or not. */
  #grants(grant: readonly string[], { definition }: ToolInput): Grants {
    const granted = new Map<string, Capability>([[logCapability.name, logCapability]]);
    const features = new Set<EngineFeature>();
    for (const name of [...grant, ...Object.keys(definition?.capabilities ?? {})]) {
      if (isEngineFeature(name)) {
        features.add(name);
        continue;
      }
      const capability = this.#capabilities.get(name);
      if (capability === undefined) {
        const known = [...this.#capabilities.keys(), ...ENGINE_FEATURE_NAMES].join(", ");
        throw new ToolError("PARAM_INVALID", `There is no capability named "${name}" to grant; known are: ${known}`);
      }
      granted.set(name, capability);
    }
    const unlimited = unlimitedFeatures([...features]);
    if (unlimited.length > 0 && !this.#launcher.layers.has("resource-limits")) {
      throw new ToolError(
        "TOOL_UNAVAILABLE",
        `${unlimited.join(", ")} can be granted only where the operating system limits a process's memory: ${LAYERS["resource-limits"].get}`,
      );
    }
    return { granted, features: [...features] };
  }

  /** A capability that was not granted looks as it would if it had been. */
  #shapesOf(names: readonly string[], { capabilities = {} }: ToolDefinition): CapabilityShapes | undefined {
    const shapes: Record<string, CapabilityShape> = {};
    for (const name of names) {
      const capability = this.#capabilities.get(name);
      const asked = Object.hasOwn(capabilities, name) ? capabilities[name] : undefined;
      const shape = capability === undefined ? undefined : shapeOf(capability, asked);
      if (shape !== undefined) shapes[name] = shape;
    }
    if (Buffer.byteLength(JSON.stringify(shapes)) > MAX_SHAPES_BYTES) {
      throw new ToolError("PARAM_INVALID", "The capabilities of this tool have too many members together");
    }
    return Object.keys(shapes).length === 0 ? undefined : shapes;
  }

  #policyOf(tenantId: string | undefined): TenantPolicy {
    const { tenants } = this.router;
    return tenantId === undefined ? tenants.default : tenants.of(tenantId);
  }

  /** A global tool's process serves no tenant: it learns, and is ended. */
  #learningFor(tenantId: string | undefined, features: readonly EngineFeature[], isOurs: boolean): Learning {
    const owner = tenantId === undefined ? undefined : this.#ownerOf(tenantId);
    const { limits, weight, coarseTime } = this.#policyOf(tenantId);
    // What comes with Glovebox is known to end, on however busy a machine.
    const own = isOurs ? { ...limits, timeoutMs: LIMITS.timeoutMs.max, cpuMs: LIMITS.cpuMs.max } : limits;
    return { owner, account: tenantId ?? "", weight, limits: own, features, coarseTime };
  }

  /** Of those that are stated for the source and its bundle, the lowest; the bundler has defaults of its own. */
  #sizeLimits(tenantId: string | undefined, toolLimits: PartialLimits | undefined): Partial<BundleLimits> {
    const stated = [this.#config.limits, this.#policyOf(tenantId).stated, toolLimits];
    const lowest = (name: "sourceBytes" | "bundleBytes"): number =>
      Math.min(...stated.map((limits) => limits?.[name] ?? Number.POSITIVE_INFINITY));
    return { sourceBytes: lowest("sourceBytes"), outputBytes: lowest("bundleBytes") };
  }

  async #build(
    input: ToolInput,
    tenantId: string | undefined,
    features: readonly EngineFeature[],
    prebuilt?: ToolBundle,
  ): Promise<BuiltTool> {
    const { name, definition: overrides, ...source } = input;
    const { bundle, durationMs, cached, files } =
      prebuilt === undefined
        ? await this.#bundler.bundle(source, { limits: this.#sizeLimits(tenantId, overrides?.limits) })
        : { bundle: prebuilt, durationMs: 0, cached: true, files: [] };
    const bundled = performance.now();
    const learning = this.#learningFor(tenantId, features, prebuilt !== undefined);
    const learned = await this.#learner.learn(bundle, createStackMapper(bundle.sourceMap), learning).catch((thrown) => {
      // Its process was ended because all of them were.
      this.#refuseWhenClosed();
      throw thrown;
    });
    const chosen = overrides?.name ?? learned.definition.name ?? name ?? nameFromSource(source, bundle);
    if (!TOOL_NAME_PATTERN.test(chosen)) {
      throw new ToolError(
        "PARAM_INVALID",
        `Expected a tool name of ${TOOL_NAME_RULE}, got ${JSON.stringify(chosen.slice(0, 200))}`,
      );
    }
    const stated = Object.entries(overrides ?? {}).filter(([, value]) => value !== undefined);
    const definition = { ...learned.definition, ...Object.fromEntries(stated), name: chosen } as ToolDefinition;
    const learnMs = performance.now() - bundled;
    return { definition, bundle, learned, bundleMs: durationMs, learnMs, cached, files };
  }
}

interface Grants {
  readonly granted: ReadonlyMap<string, Capability>;
  readonly features: readonly EngineFeature[];
}

interface BuiltTool {
  readonly definition: ToolDefinition;
  readonly bundle: ToolBundle;
  readonly files: readonly string[];
  readonly learned: Learned;
  readonly bundleMs: number;
  readonly learnMs: number;
  readonly cached: boolean;
}

/**
 * Starts a Glovebox: a bundler, a pool of worker processes, a router.
 * @throws {ToolError} PARAM_INVALID for an option that is wrong, naming its path; INTERNAL for a broken installation
 * @example
 * ```ts
 * import { createGlovebox } from "glovebox";
 * await using box = await createGlovebox();
 * await box.addTool({ name: "double", source: "export default ({ n }) => ({ doubled: n * 2 })" });
 * const result = await box.execute({ id: "c1", toolName: "double", arguments: { n: 21 } });
 * console.log(result.success && result.output);
 * ```
 */
export function createGlovebox(options?: GloveboxOptions): Promise<Glovebox> {
  return openGlovebox(options, undefined);
}

/**
 * The same with workers whose isolates can be inspected, for a person at this host's terminal.
 * @internal
 */
export function createInspectedGlovebox(options: GloveboxOptions, inspector: Inspector): Promise<Glovebox> {
  return openGlovebox(options, inspector);
}

/** Whoever inspects may look at the isolate of the last call for as long as they like. */
const INSPECTED_IDLE_MS = 24 * 3_600_000;

async function openGlovebox(options: GloveboxOptions | undefined, inspector: Inspector | undefined): Promise<Glovebox> {
  const config = parseConfig(options);
  // Not in the middle of somebody's call.
  if (config.egress.allow.length > 0) loadHttpClient();
  const artifacts = await loadSandboxArtifacts();
  const { limits, tenants, coarseTime, egress, secrets, hardening, workers, bundler, onError, health, hooks } = config;
  const { tools, flags } = config;
  const telemetry = config.telemetry === undefined ? undefined : await createTelemetry(config.telemetry);
  const log = config.logger === undefined ? undefined : await createHostLog(config.logger);
  const { cache: cacheOptions } = config;
  const cache = createBundleCache(cacheOptions);
  const preludeSha256 = createHash("sha256").update(artifacts.preludeSource).digest("hex");
  const engineKey = engineKeyOf([...v8FlagsOf(hardening), preludeSha256]);
  const engineCacheOf = async (sha256: string, units: number): Promise<EngineCache> => {
    const known = await cache.getCodeCache(sha256, engineKey);
    return new EngineCache(units, known, (made) => void cache.setCodeCache(sha256, engineKey, made));
  };
  const [preludeCache, chunkCache] = await Promise.all([
    engineCacheOf(preludeSha256, artifacts.preludeSource.length),
    engineCacheOf(artifacts.chunks.sha256, artifacts.chunks.units),
  ]);
  const launcher = await Launcher.create({
    script: artifacts.workerPath,
    hardening,
    isolatesPerProcess: ISOLATES_PER_WORKER,
  });
  const pool = new WorkerPool(
    { ...artifacts, preludeCache, chunkCache, launcher, inspector },
    {
      ...workers,
      maxPerOwner: maxWorkersPerOwner(),
      callsPerWorker: CALLS_PER_WORKER,
      nestedPerWorker: NESTED_PER_WORKER,
      idleMs: inspector === undefined ? WORKER_IDLE_MS : INSPECTED_IDLE_MS,
    },
  );
  try {
    await pool.start();
  } catch (thrown) {
    await pool[Symbol.asyncDispose]();
    throw thrown;
  }
  const learner = new Learner({ pool, cache, engineKey });
  const router = new ToolRouter({
    limits: lowestTimeout(limits, tools?.executionTimeoutMs),
    enabled: tools?.enabled,
    flags,
    tenants,
    coarseTime,
    egress,
    secrets,
    health,
    ...{ hooks, telemetry, log },
    arguments: config.arguments,
    ...(onError === undefined ? {} : { onInternalError: onError }),
  });
  const parts = { config, router, bundler: new Bundler({ ...bundler, cache }), pool, learner, launcher };
  const box = new Glovebox(parts);
  try {
    // Without a flag, what is off stays off.
    if (tools?.enabled === true || flags !== undefined) await box.addBuiltinTools(tools?.builtinTools ?? [], cache);
  } catch (thrown) {
    await box.close();
    throw thrown;
  }
  return box;
}

const lowestTimeout = (limits: PartialLimits, timeoutMs: number | undefined): PartialLimits =>
  timeoutMs === undefined ? limits : { ...limits, timeoutMs: Math.min(timeoutMs, limits.timeoutMs ?? timeoutMs) };
