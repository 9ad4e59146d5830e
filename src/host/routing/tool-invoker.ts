// ToolInvoker: runs invocations on a ToolRouter, one at a time or in batches, and always returns results instead of throwing.
import { AsyncLocalStorage } from "node:async_hooks";
import { setImmediate as nextTurn } from "node:timers/promises";
import * as z from "zod";
import { ToolError, toToolError } from "../../sandbox/contract/errors.ts";
import { describeKind, strictObject } from "../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../config/option-errors.ts";
import type { ToolCall, ToolInvocation, ToolResult } from "../contract/tool-call.ts";
import { type ResultMetadata, toFailure } from "../pipeline/normalize.ts";
import { type Tenancy, tenancyOf } from "../tenants/tenancy.ts";
import { type ConcurrencySlot, TenantConcurrencyLimiter } from "../tenants/tenant-concurrency.ts";
import { deferFailure } from "../util/defer-failure.ts";
import { PendingByKey } from "../util/pending-by-key.ts";
import type { OpenCalls, TrackedCall } from "./open-calls.ts";
import { type BatchContext, MAX_CONCURRENT_TOOLS, type Reading, readBatch, readInvocation } from "./read-batch.ts";
import { ToolRouter } from "./tool-router.ts";

/** Options of a {@link ToolInvoker}. */
export interface ToolInvokerOptions {
  /** Number of calls of one tenant that run at the same time, over all batches and invocations, 1 to 10. @default 10 */
  readonly maxConcurrentTools?: number | undefined;
}

const InvokerOptionsSchema = strictObject({
  maxConcurrentTools: z.int().min(1).max(MAX_CONCURRENT_TOOLS).default(MAX_CONCURRENT_TOOLS),
});

/** Longest time in ms that a batch uses the event loop before it yields. */
const SLICE_MS = 4;

/** The concurrency slot of the call that the current code runs in, if an invoker started one. */
const currentSlot = new AsyncLocalStorage<{
  readonly invoker: ToolInvoker;
  readonly tenantId: string;
  readonly slot: ConcurrencySlot;
}>();

/** Identity of a batch, so that batches share a tenant's slots evenly. */
type Batch = object;

/**
 * Runs single calls and batches through a router, and limits how many calls of a tenant run at the same time.
 * @example
 * ```ts
 * import { ToolInvoker, ToolRouter } from "glovebox";
 * import * as z from "zod";
 *
 * await using router = new ToolRouter();
 * const inputSchema = z.object({ n: z.number() });
 * router.register("double", { description: "Doubles a number", inputSchema }, ({ n }) => n * 2);
 * const invoker = new ToolInvoker(router, { maxConcurrentTools: 4 });
 * const calls = [1, 2, 3].map((n) => ({ id: `c${n}`, toolName: "double", arguments: { n } }));
 * const results = await invoker.executeBatch(calls);
 * console.log(results.map((result) => result.success && result.output)); // [ 2, 4, 6 ]
 * ```
 */
export class ToolInvoker {
  readonly #router: Pick<ToolRouter, "execute">;
  /** Undefined if the host passed its own object as router. */
  readonly #tenancy: Tenancy | undefined;
  readonly #slots: TenantConcurrencyLimiter;
  /** Undefined for an object with its own `execute`. */
  readonly #tracking: { readonly router: ToolRouter; readonly calls: OpenCalls } | undefined;
  /** Invocations without a result yet, by tenant. */
  readonly #unfinished = new PendingByKey();

  /** @throws {ToolError} PARAM_INVALID for a router without `execute`, or an invalid option, naming its path */
  constructor(router: Pick<ToolRouter, "execute">, options: ToolInvokerOptions = {}) {
    if (typeof (router as Partial<ToolRouter> | null | undefined)?.execute !== "function") {
      throw new ToolError("PARAM_INVALID", `router: expected a ToolRouter, got ${describeKind(router)}`);
    }
    const { maxConcurrentTools } = parseOptions(InvokerOptionsSchema, options, "options");
    this.#router = router;
    this.#tenancy = tenancyOf(router);
    this.#tracking = trackingOf(router);
    this.#slots = new TenantConcurrencyLimiter(maxConcurrentTools);
  }

  /**
   * Runs one invocation. Always resolves. While the tenant has `maxConcurrentTools` calls running, the invocation waits, until its
   * `context.signal` aborts at the latest. Its timeout starts when it runs.
   */
  async execute(invocation: ToolInvocation): Promise<ToolResult> {
    const reading = readInvocation(invocation, {}, this.#tenancy);
    const accepted = this.#accept(reading);
    return await this.#finishing(reading, this.#run(reading, {}, accepted));
  }

  /**
   * Runs independent invocations in parallel and returns their results in the same order, failures included. Always resolves.
   *
   * The timeout of an invocation starts when it runs; the wait for a slot is ended by `signal` only, with CANCELLED. The context of an
   * invocation takes precedence over that of the batch, except for the tenant: all invocations of a batch with a `tenantId` belong to that
   * tenant. A value that is not an array counts as a batch of one. If the context has an unknown key or an invalid value, each result is
   * PARAM_INVALID; for more than 10,000 invocations there is a single result, PARAM_INVALID.
   */
  async executeBatch(
    invocations: readonly (ToolCall | ToolInvocation)[],
    options?: BatchContext,
  ): Promise<ToolResult[]> {
    const { readings, concurrency } = readBatch(invocations, options, this.#tenancy);
    const batch: Batch = {};
    // All are accepted now, although most have to wait.
    const accepted = readings.map((reading) => this.#accept(reading));
    const finish = readings.map((reading) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      void this.#finishing(reading, promise);
      return resolve;
    });
    const results: ToolResult[] = new Array(readings.length);
    let next = 0;
    let turnBegan = performance.now();
    const runNext = async (): Promise<void> => {
      while (next < readings.length) {
        const index = next;
        next += 1;
        results[index] = await this.#run(readings[index] as Reading, batch, accepted[index]);
        finish[index]?.();
        // Yields, because calls that never wait would block the event loop.
        if (performance.now() - turnBegan < SLICE_MS) continue;
        await nextTurn();
        turnBegan = performance.now();
      }
    };
    await Promise.all(Array.from({ length: Math.min(concurrency, readings.length) }, runNext));
    // An empty batch resolves in a later turn of the event loop, because a loop of empty batches would otherwise block it.
    if (results.length === 0) await nextTurn();
    return results;
  }

  #accept({ asked, callId, toolName, started }: Reading): TrackedCall | undefined {
    if ("error" in asked) return undefined;
    const { tenantId, context } = asked;
    const { sessionId } = context;
    return this.#tracking?.calls.begin({ callId, toolName, tenantId, sessionId, started, state: "queued" });
  }

  #finishing<Value>({ asked }: Reading, promise: Promise<Value>): Promise<Value> {
    return "error" in asked ? promise : this.#unfinished.track(asked.tenantId, promise);
  }

  /**
   * Resolves when all present invocations of the tenant have their results. Used once the tenant's calls are denied, so that no call of a
   * batch starts later.
   * @internal
   */
  settled(tenantId: string): Promise<void> {
    return this.#unfinished.settled(tenantId);
  }

  async #run({ asked, ...facts }: Reading, batch: Batch, accepted: TrackedCall | undefined): Promise<ToolResult> {
    if ("error" in asked) return await failLater(facts, asked.error);
    const { toolCall, context, timeoutMs, tenantId, issue } = asked;
    if (issue !== undefined) {
      if (this.#tracking === undefined) return await failLater(facts, issue);
      return await this.#tracking.router.executeAccepted(toolCall, context, undefined, accepted, issue);
    }
    const { signal } = context;
    const hasEnded = signal?.aborted === true || accepted?.cancelled !== undefined;
    const slot = hasEnded ? undefined : await this.#enter(tenantId, batch, signal, accepted);
    if (slot === undefined) {
      if (accepted !== undefined) this.#tracking?.calls.end(accepted);
      const message = `The call of ${facts.toolName} was cancelled by its caller`;
      return await failLater(facts, accepted?.cancelled ?? new ToolError("CANCELLED", message));
    }
    try {
      return await currentSlot.run({ invoker: this, tenantId, slot }, () =>
        this.#tracking === undefined
          ? this.#router.execute(toolCall, context, timeoutMs)
          : this.#tracking.router.executeAccepted(toolCall, context, timeoutMs, accepted),
      );
    } catch (thrown) {
      // A ToolRouter does not reject, but a host's own object may.
      return await failLater(facts, toToolError(thrown));
    } finally {
      slot.release();
    }
  }

  #enter(
    tenantId: string,
    batch: Batch,
    signal: AbortSignal | undefined,
    accepted: TrackedCall | undefined,
  ): ConcurrencySlot | Promise<ConcurrencySlot | undefined> {
    const around = currentSlot.getStore();
    const isNested = around?.invoker === this && around.tenantId === tenantId;
    return this.#slots.acquire({
      tenantId,
      batch,
      parent: isNested ? around.slot : undefined,
      get signal() {
        return accepted === undefined ? signal : accepted.signalWith(signal);
      },
    });
  }
}

/** Returns the router if it is a ToolRouter with its original `execute`. A router that the host wrapped is called through its `execute`. */
function trackingOf(
  router: Pick<ToolRouter, "execute">,
): { readonly router: ToolRouter; readonly calls: OpenCalls } | undefined {
  const isOwn = router instanceof ToolRouter && router.execute === ToolRouter.prototype.execute;
  return isOwn ? { router, calls: router.calls } : undefined;
}

/** Returns a failure in a later turn of the event loop, as the router does. */
const failLater = (facts: ResultMetadata, error: ToolError): Promise<ToolResult> =>
  deferFailure(
    () => toFailure(facts, error),
    () => true,
  );
