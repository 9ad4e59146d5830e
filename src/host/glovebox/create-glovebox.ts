// createGlovebox(): creates every part of a Glovebox and passes each its dependencies.
import { loadSandboxArtifacts } from "../../bundler/artifacts/sandbox-artifacts.ts";
import { Bundler } from "../../bundler/bundler.ts";
import { ownerOfTool } from "../../bundler/cache/artifact-owners.ts";
import { type BundleCache, createBundleCache } from "../../bundler/cache/bundle-cache.ts";
import type { ToolSource } from "../../bundler/tool-bundle.ts";
import { ToolError, unavailable } from "../../sandbox/contract/errors.ts";
import type { PartialLimits } from "../../sandbox/contract/limits.ts";
import { loadHttpClient } from "../capabilities/fetch/http-client.ts";
import { checkConfiguredPaths } from "../config/configured-paths.ts";
import type { GloveboxOptions } from "../config/glovebox-options.ts";
import {
  CALLS_PER_WORKER,
  type Config,
  ISOLATES_PER_WORKER,
  maxWorkersPerOwner,
  NESTED_PER_WORKER,
  parseConfig,
  WORKER_IDLE_MS,
} from "../config/options.ts";
import { DefinitionExtractor } from "../executors/extract-definition.ts";
import { createHostLog, type HostLog } from "../observability/operator-log.ts";
import { createTelemetry, type Telemetry } from "../observability/telemetry/telemetry.ts";
import { PythonDefinitionExtractor } from "../python/extract-python-definition.ts";
import { loadPythonRuntime } from "../python/load-runtime.ts";
import { PythonHost } from "../python/python-host.ts";
import { ToolRouter } from "../routing/tool-router.ts";
import { MemoryQuotaStore } from "../tenants/quotas/memory-quota-store.ts";
import { TenantQuotas } from "../tenants/quotas/tenant-quotas.ts";
import { TenantStates } from "../tenants/tenant-states.ts";
import { deferFailure } from "../util/defer-failure.ts";
import { notifySafely } from "../util/host-callback.ts";
import { oldNodeMessage } from "../util/node-version.ts";
import type { CallPool } from "../workers/call-pool.ts";
import type { Inspector } from "../workers/process/inspected-isolate.ts";
import { startWorkers } from "../workers/spawn/start-workers.ts";
import type { WorkerPool, WorkerPoolOptions } from "../workers/worker-pool.ts";
import { Glovebox } from "./glovebox.ts";

/** Keeps the worker process of the last call alive, so that its isolate can be inspected for up to a day. */
const INSPECTED_IDLE_MS = 24 * 3_600_000;

/**
 * Starts a Glovebox: a bundler, a pool of worker processes and a router.
 * @throws {ToolError} as a rejection: PARAM_INVALID for an invalid option, with its path; TOOL_UNAVAILABLE on Node.js before 24, or if the
 *   machine lacks a layer that `hardening` requires; INTERNAL for a broken installation
 * @example
 * ```ts
 * import { createGlovebox } from "glovebox";
 * await using glovebox = await createGlovebox();
 * await glovebox.addTool({ name: "double", source: "export default ({ n }) => ({ doubled: n * 2 })" });
 * const result = await glovebox.execute({ id: "c1", toolName: "double", arguments: { n: 21 } });
 * console.log(result.success && result.output);
 * ```
 */
export function createGlovebox(options?: GloveboxOptions): Promise<Glovebox> {
  return deferFailure(() => openGlovebox(options, undefined));
}

/**
 * Creates a Glovebox whose worker processes accept a debugger, for a developer at the host's terminal.
 * @internal
 */
export function createInspectedGlovebox(options: GloveboxOptions, inspector: Inspector): Promise<Glovebox> {
  return openGlovebox(options, inspector);
}

/**
 * Creates a Glovebox for one tool: its build runs while the first worker process starts, and `addTool` finds the bundle in the cache.
 * @internal
 */
export function createGloveboxFor(source: ToolSource, options: GloveboxOptions, tenantId?: string): Promise<Glovebox> {
  return openGlovebox(options, undefined, (bundler) => {
    // If the build fails, `addTool` reports it.
    bundler.bundle(source, { owner: ownerOfTool(tenantId) }).catch(() => undefined);
  });
}

async function openGlovebox(
  options: GloveboxOptions | undefined,
  inspector: Inspector | undefined,
  prepare?: (bundler: Bundler) => void,
): Promise<Glovebox> {
  const config = await readConfig(options);
  // Loaded now, so that it does not delay a tenant's first call.
  if (config.egress.allow.length > 0) loadHttpClient();
  const artifacts = await loadSandboxArtifacts();
  const telemetry = config.telemetry === undefined ? undefined : await createTelemetry(config.telemetry);
  const log = config.logger === undefined ? undefined : await createHostLog(config.logger);
  const cache = await openCache(config, log);
  // What is open is closed again if a later step fails. After the last of them, the Glovebox closes it.
  await using opened = new AsyncDisposableStack();
  const bundler = opened.use(new Bundler({ ...config.bundler, cache }));
  prepare?.(bundler);
  const started = await startWorkers({
    artifacts,
    cache,
    hardening: config.hardening,
    inspector,
    isolatesPerProcess: ISOLATES_PER_WORKER,
    pool: poolOptions(config, inspector !== undefined),
  });
  const { launcher, engineKey } = started;
  const local = opened.use(started.workers);
  const pool = await openPool(config, local, log);
  const glovebox = new Glovebox({
    config,
    ...createRouters(config, telemetry, log),
    python: new PythonHost({
      extractor: new PythonDefinitionExtractor(local, cache),
      loadRuntime: async () => {
        const { coarseTime, python } = config;
        const runtime = await loadPythonRuntime({
          artifacts,
          pool: local,
          cache,
          engineKey,
          coarseTime,
          packages: python.packages,
        });
        pool.preparePython?.(runtime.environment);
        return runtime;
      },
    }),
    bundler,
    pool,
    cache,
    // Code caches are made on this machine: V8 trusts them, and an executor is not trusted.
    extractor: new DefinitionExtractor({ pool: local, cache, engineKey }),
    launcher,
    log,
  });
  opened.move();
  await addConfiguredTools(glovebox, config, cache);
  return glovebox;
}

/** Returns the options with their defaults, after a check of the version of Node and of the paths that they name. */
async function readConfig(options: GloveboxOptions | undefined): Promise<Config> {
  const oldNode = oldNodeMessage();
  if (oldNode !== undefined) throw unavailable("unsupported", oldNode);
  const config = parseConfig(options);
  const { kv } = config;
  const storePath = typeof kv === "object" && "path" in kv ? kv.path : undefined;
  await checkConfiguredPaths({
    bundler: config.bundler,
    python: config.python,
    // The default file is checked only when a tool uses it: most hosts do not need it.
    storePath: options?.kv === undefined ? undefined : storePath,
  });
  return config;
}

/** Opens the cache of bundles. One that cannot be written is reported, and kept in memory. */
async function openCache({ cache: options, onError }: Config, log: HostLog | undefined): Promise<BundleCache> {
  const cache = createBundleCache(options);
  const issue = await cache.findIssue();
  if (issue === undefined) return cache;
  const message = `The cache folder (options.cache.directory) cannot be used: ${issue}. Builds are kept in memory only`;
  const warning = new ToolError("INTERNAL", message);
  log?.warned("cache.unusable", warning);
  if (onError !== undefined) notifySafely(onError, warning);
  else if (log === undefined) process.emitWarning(message, { type: "GloveboxWarning" });
  return cache;
}

function poolOptions({ workers }: Config, isInspected: boolean): WorkerPoolOptions {
  return {
    ...workers,
    maxPerOwner: maxWorkersPerOwner(),
    callsPerWorker: CALLS_PER_WORKER,
    nestedPerWorker: NESTED_PER_WORKER,
    idleMs: isInspected ? INSPECTED_IDLE_MS : WORKER_IDLE_MS,
  };
}

/** Returns the routers of tools, of sessions and of tool lists. They share the tenants' policies. */
function createRouters(config: Config, telemetry: Telemetry | undefined, log: HostLog | undefined) {
  const { limits, tenancy, tenants, tenantCache, coarseTime, egress, secrets, health, hooks, onError } = config;
  const { tools, flags } = config;
  const routing = {
    limits: lowestTimeout(limits, tools?.executionTimeoutMs),
    tenancy,
    tenants,
    tenantCache,
    coarseTime,
    egress,
    secrets,
    health,
    hooks,
    telemetry,
    log,
    arguments: config.arguments,
    rateLimit: config.rateLimit,
    quotas: config.quotas,
    tenantStates: new TenantStates(new TenantQuotas({ store: config.quotaStore ?? new MemoryQuotaStore(), onError })),
    ...(onError === undefined ? {} : { onInternalError: onError }),
  };
  const router = new ToolRouter({ ...routing, enabled: tools?.enabled, flags });
  // Calls of this router name the tenant of their session.
  const sessionRouter = new ToolRouter({ ...routing, tenancy: "multi" }, router.tenants);
  const openRouter = (): ToolRouter => new ToolRouter(routing, router.tenants);
  return { router, sessionRouter, openRouter };
}

/** Adds the MCP servers and the first-party tools of the options. Closes the Glovebox if one of them cannot be added. */
async function addConfiguredTools(glovebox: Glovebox, config: Config, cache: BundleCache): Promise<void> {
  const { mcp, tools, flags } = config;
  try {
    for (const [name, server] of Object.entries(mcp.servers)) {
      glovebox.mcp.add(name, server, `options.mcp.servers.${name}`);
    }
    // If neither is set, no first-party tool could become enabled.
    if (tools?.enabled === true || flags !== undefined)
      await glovebox.addBuiltinTools(tools?.builtinTools ?? [], cache);
  } catch (thrown) {
    await glovebox.close();
    throw thrown;
  }
}

/** Returns what runs the calls: the worker processes of this machine, or executors. */
async function openPool(
  { executors, workers, onError }: Config,
  local: WorkerPool,
  log: HostLog | undefined,
): Promise<CallPool> {
  if (executors === undefined) return local;
  const { openFleet } = await import("../fleet/open-fleet.ts");
  return await openFleet(executors, {
    local,
    maxQueued: workers.maxQueued,
    onError: (error) => onError !== undefined && notifySafely(onError, error),
    onEvent: (event) => {
      if (executors.onEvent === undefined) log?.fleetChanged(event);
      else notifySafely(executors.onEvent, event);
    },
  });
}

const lowestTimeout = (limits: PartialLimits, timeoutMs: number | undefined): PartialLimits =>
  timeoutMs === undefined ? limits : { ...limits, timeoutMs: Math.min(timeoutMs, limits.timeoutMs ?? timeoutMs) };
