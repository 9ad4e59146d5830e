// Suspends, resumes and deletes tenants. The state is in memory, so a host that restarts must suspend its tenants again.
import * as z from "zod";
import type { Bundler } from "../../bundler/bundler.ts";
import { tenantOwner } from "../../bundler/cache/artifact-owners.ts";
import type { BundleCache } from "../../bundler/cache/bundle-cache.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { strictObject } from "../../sandbox/contract/plain-object.ts";
import type { KvDeletion, KvStore } from "../capabilities/kv/kv-store.ts";
import { readDeletion } from "../capabilities/kv/store-answers.ts";
import type { Placement } from "../config/glovebox-options.ts";
import { parseOptions } from "../config/option-errors.ts";
import type { SecondaryToolLists } from "../glovebox/secondary-tool-lists.ts";
import type { McpManager } from "../mcp/client/manager.ts";
import type { RegisteredTool } from "../routing/registry.ts";
import type { ToolInvoker } from "../routing/tool-invoker.ts";
import type { ToolRouter } from "../routing/tool-router.ts";
import type { RunStores } from "../runs/run-stores.ts";
import type { Sessions } from "../sessions/sessions.ts";
import { runCallback } from "../util/host-callback.ts";
import type { PendingByKey } from "../util/pending-by-key.ts";
import type { CallPool } from "../workers/call-pool.ts";
import type { TenantWork } from "./tenant-work.ts";

/** What `deleteTenant()` removed. All numbers are 0 for a tenant that owned nothing. */
export interface TenantDeletion {
  readonly tenantId: string;
  /** Number of running calls that were ended, including nested calls and runs of sessions. */
  readonly calls: number;
  /** Number of sessions, including those of tools. */
  readonly sessions: number;
  /** Number of the tenant's own tools. Tools of all tenants stay. */
  readonly tools: number;
  /** Stored values, also those of tools of all tenants: number of keys, and bytes of keys and values. */
  readonly values: KvDeletion;
  /** Cached bundles, code caches and lists of platform modules, in memory and on disk. */
  readonly artifacts: {
    readonly count: number;
    readonly bytes: number;
    /** Hashes of artifacts that stay because other tenants or tools of all tenants use them. */
    readonly shared: number;
  };
  /** Number of worker processes that were ended or, with `placement: "shared"`, that end after the other tenants' calls. */
  readonly workers: number;
  /** Number of circuit breakers of the tenant that were removed. */
  readonly healthRecords: number;
  /** Number of upstream MCP servers of this tenant alone, and of its own connections to shared ones. */
  readonly mcp: { readonly servers: number; readonly connections: number };
  /** Number of counters of rate limits and quotas. */
  readonly quotaCounters: number;
  /** Number of durable runs and agents' journals. */
  readonly runs: number;
}

/** Options of {@link Glovebox.suspendTenant}. */
export interface SuspendOptions {
  /** Whether running calls finish, or end with CANCELLED. @default "finish" */
  readonly calls?: "finish" | "cancel" | undefined;
}

const SuspendSchema = strictObject({ calls: z.enum(["finish", "cancel"]).default("finish") });

/** Timeout in ms. Long, because a store may have to copy its file. */
const STORE_TIMEOUT_MS = 300_000;

export interface TenantLifecycleDependencies {
  readonly router: ToolRouter;
  readonly sessionRouter: ToolRouter;
  /** Other lists of tools, such as those of code modes. */
  readonly secondaryToolLists: Pick<SecondaryToolLists, "routers" | "deleteTenant">;
  readonly invoker: ToolInvoker;
  readonly sessions: Sessions;
  readonly mcp: McpManager;
  readonly pool: Pick<CallPool, "endOwner" | "deleteTenant">;
  readonly cache: BundleCache;
  readonly bundler: Pick<Bundler, "endOwner">;
  readonly store: KvStore;
  readonly runStores: RunStores;
  /** Pending store operations of calls, by tenant. */
  readonly kvPending: PendingByKey;
  /** Aborts when Glovebox closes. */
  readonly closing: AbortSignal;
  readonly work: TenantWork;
  readonly placement: Placement;
  readonly ownerOf: (tenantId: string) => string;
  /** Returns whether a tool that is registered for all tenants belongs to this one. In single tenancy, tools that the host added do. */
  readonly isOwnGlobal: (tool: RegisteredTool) => boolean;
}

export class TenantLifecycle {
  readonly #dependencies: TenantLifecycleDependencies;
  readonly #deletions = new Map<string, Promise<TenantDeletion>>();

  constructor(dependencies: TenantLifecycleDependencies) {
    this.#dependencies = dependencies;
  }

  /** @throws {ToolError} PARAM_INVALID, TOOL_UNAVAILABLE while the tenant is being deleted, as a rejection */
  async suspend(tenantId: string, options: unknown = {}): Promise<number> {
    const { calls } = parseOptions(SuspendSchema, options, "options");
    const { tenantStates } = this.#dependencies.router;
    tenantStates.checkAdding(tenantId);
    tenantStates.set(tenantId, "suspended");
    if (calls === "finish") return 0;
    return await this.#endCalls(tenantId, "suspended");
  }

  /** @throws {ToolError} TOOL_UNAVAILABLE while the tenant is being deleted */
  resume(tenantId: string): boolean {
    const { tenantStates } = this.#dependencies.router;
    const state = tenantStates.stateOf(tenantId);
    if (state === "deleting") tenantStates.checkAdding(tenantId);
    tenantStates.set(tenantId, undefined);
    return state !== undefined;
  }

  delete(tenantId: string): Promise<TenantDeletion> {
    const known = this.#deletions.get(tenantId);
    if (known !== undefined) return known;
    const deletion = this.#delete(tenantId).finally(() => this.#deletions.delete(tenantId));
    this.#deletions.set(tenantId, deletion);
    return deletion;
  }

  async #delete(tenantId: string): Promise<TenantDeletion> {
    const { store, router } = this.#dependencies;
    // Checked before anything is removed, because a partial deletion would look complete.
    if (typeof store.deleteTenant !== "function") {
      const missing =
        "this KvStore has no deleteTenant(), so the tenant's values cannot be removed; nothing was removed";
      throw new ToolError("PARAM_INVALID", `createGlovebox options.kv: ${missing}`);
    }
    router.tenantStates.set(tenantId, "deleting");
    try {
      const receipt = await this.#removeAll(tenantId);
      router.tenantStates.set(tenantId, undefined);
      return receipt;
    } catch (thrown) {
      router.tenantStates.set(tenantId, "failed");
      throw thrown;
    }
  }

  async #removeAll(tenantId: string): Promise<TenantDeletion> {
    const { router, sessionRouter, sessions, mcp, pool, cache, bundler, work, invoker, placement } = this.#dependencies;
    // What is being added now must not be, even if it is ready before the last call has ended.
    const working = work.cancel(tenantId);
    const ending = this.#endCalls(tenantId, "deleted");
    const closed = await sessions.closeAll(tenantId);
    const calls = await ending;
    await invoker.settled(tenantId);
    await working;
    // A session may have been opening meanwhile.
    const late = await sessions.closeAll(tenantId);
    const before = this.#toolsOf(tenantId).length;
    const upstream = await mcp.deleteTenant(tenantId);
    const healthRecords = router.forgetHealth(tenantId) + sessionRouter.forgetHealth(tenantId);
    for (const { definition, tenantId: owner } of this.#toolsOf(tenantId)) router.remove(definition.name, owner);
    router.tenants.invalidate(tenantId);
    this.#dependencies.secondaryToolLists.deleteTenant(tenantId);
    const workers = pool.endOwner(this.#dependencies.ownerOf(tenantId), placement === "shared");
    pool.deleteTenant?.(tenantId);
    const runs = await this.#deleteRuns(tenantId);
    const values = await this.#deleteValues(tenantId);
    const quotaCounters = await router.tenantStates.quotas.deleteTenant(tenantId);
    await bundler.endOwner(tenantOwner(tenantId));
    const { artifacts, bytes, sharedHashes } = await this.#deleteArtifacts(cache, tenantId);
    return {
      tenantId,
      calls,
      sessions: closed + late,
      tools: before,
      values,
      artifacts: { count: artifacts, bytes, shared: sharedHashes },
      workers,
      healthRecords,
      mcp: upstream,
      quotaCounters,
      runs,
    };
  }

  #toolsOf(tenantId: string): readonly RegisteredTool[] {
    const { router, isOwnGlobal } = this.#dependencies;
    return router.registry.list(tenantId).filter((tool) => tool.tenantId === tenantId || isOwnGlobal(tool));
  }

  async #endCalls(tenantId: string, how: "suspended" | "deleted"): Promise<number> {
    const { router, sessionRouter, secondaryToolLists } = this.#dependencies;
    const message = `The call was cancelled because its tenant was ${how}`;
    const reason = new ToolError("CANCELLED", message, { details: { reason: `tenant_${how}` } });
    const routers = [router, sessionRouter, ...secondaryToolLists.routers];
    const ended = await Promise.all(routers.map((one) => one.endCalls(tenantId, reason)));
    return ended.reduce((sum, count) => sum + count, 0);
  }

  async #deleteRuns(tenantId: string): Promise<number> {
    try {
      return await this.#dependencies.runStores.deleteTenant(tenantId, this.#dependencies.closing);
    } catch (cause) {
      throw incomplete("a store of durable runs failed", cause);
    }
  }

  async #deleteValues(tenantId: string): Promise<KvDeletion> {
    const { store, kvPending, closing: signal } = this.#dependencies;
    const bounds = { timeoutMs: STORE_TIMEOUT_MS, signal };
    // A cancelled call has its result before the store has finished the call's writes.
    const settled = await runCallback(() => kvPending.settled(tenantId), bounds);
    if ("failed" in settled) throw incomplete("the kv store did not finish what was written before", settled.cause);
    const outcome = await runCallback(() => store.deleteTenant?.(tenantId), bounds);
    let cause: unknown = "failed" in outcome ? outcome.cause : undefined;
    if ("answer" in outcome) {
      try {
        return readDeletion(outcome.answer);
      } catch (thrown) {
        cause = thrown;
      }
    }
    const why = "failed" in outcome ? outcome.failed : "returned an invalid answer";
    throw incomplete(`the kv store ${why}`, cause);
  }

  async #deleteArtifacts(cache: BundleCache, tenantId: string): ReturnType<BundleCache["deleteOwner"]> {
    try {
      return await cache.deleteOwner(tenantOwner(tenantId));
    } catch (cause) {
      throw incomplete("a file of the cache could not be removed", cause);
    }
  }
}

const incomplete = (why: string, cause: unknown): ToolError =>
  new ToolError("INTERNAL", `The tenant was not deleted as a whole: ${why}. Its calls are denied; delete it again`, {
    cause,
    details: { reason: "deletion_incomplete" },
  });
