// ToolInvoker: invocations of an application into results, one at a time or in batches, over any ToolRouter. Never a throw.
import { AsyncLocalStorage } from "node:async_hooks";
import { randomUUID } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import * as z from "zod";
import { ToolError, toToolError } from "../../sandbox/contract/errors.ts";
import { describeKind, isPlainObject, strictObject } from "../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../config/option-errors.ts";
import type { ToolCall, ToolContext, ToolInvocation, ToolResult } from "../contract/tool-call.ts";
import { type ResultMetadata, toFailure } from "../pipeline/normalize.ts";
import { readExplicitContext } from "../pipeline/read-context.ts";
import { checkKeys, describe, invalid, readFields } from "../pipeline/read-fields.ts";
import { type Tenancy, tenancyOf } from "../tenants/tenancy.ts";
import { type ConcurrencySlot, TenantConcurrencyLimiter } from "../tenants/tenant-concurrency.ts";
import { deferFailure } from "../util/defer-failure.ts";
import { PendingByKey } from "../util/pending-by-key.ts";
import type { OpenCalls, TrackedCall } from "./open-calls.ts";
import { readNames } from "./read-call.ts";
import { ToolRouter } from "./tool-router.ts";

export const MAX_CONCURRENT_TOOLS = 10;

export interface BatchContext extends ToolContext {
  /** Calls of this batch that run at one time, a whole number from 1 to 10. Default: 4. */
  readonly maxConcurrency?: number | undefined;
}

export interface ToolInvokerOptions {
  /** Calls of one tenant that run at one time, over all its batches and invocations, 1 to 10; Default: 10. */
  readonly maxConcurrentTools?: number | undefined;
}

const InvokerOptionsSchema = strictObject({
  maxConcurrentTools: z.int().min(1).max(MAX_CONCURRENT_TOOLS).default(MAX_CONCURRENT_TOOLS),
});

/** Each gets its result: more would hold the host up with reading them. */
const MAX_BATCH = 10_000;
const BATCH_CONCURRENCY = 4;
/** So long a batch may keep the event loop to itself. */
const TURN_MS = 4;

/** The place of the call that code runs in, if an invoker has begun one. */
const places = new AsyncLocalStorage<{
  readonly invoker: ToolInvoker;
  readonly tenantId: string;
  readonly place: ConcurrencySlot;
}>();

/** What an invocation says, read once. */
interface Reading {
  readonly started: number;
  readonly callId: string;
  readonly toolName: string;
  readonly asked:
    | {
        readonly toolCall: ToolCall;
        readonly context: ToolContext;
        readonly timeoutMs: number | undefined;
        /** Whose calls it waits with. */
        readonly tenantId: string;
      }
    | { readonly error: ToolError };
}

/** Calls of a batch take turns with those of others. */
type Batch = object;

export class ToolInvoker {
  readonly #router: Pick<ToolRouter, "execute">;
  /** Undefined for an object of the host's own in the place of a router. */
  readonly #tenancy: Tenancy | undefined;
  readonly #places: TenantConcurrencyLimiter;
  /** Undefined for an object with an `execute` of its own. */
  readonly #tracking: { readonly router: ToolRouter; readonly calls: OpenCalls } | undefined;
  /** Invocations without a result yet, by tenant. */
  readonly #unfinished = new PendingByKey();

  /** @throws {ToolError} PARAM_INVALID for a router without `execute`, or an option that is wrong, naming its path */
  constructor(router: Pick<ToolRouter, "execute">, options: ToolInvokerOptions = {}) {
    if (typeof (router as Partial<ToolRouter> | null | undefined)?.execute !== "function") {
      throw new ToolError("PARAM_INVALID", `router: expected a ToolRouter, got ${describeKind(router)}`);
    }
    const { maxConcurrentTools } = parseOptions(InvokerOptionsSchema, options, "options");
    this.#router = router;
    this.#tenancy = tenancyOf(router);
    this.#tracking = trackingOf(router);
    this.#places = new TenantConcurrencyLimiter(maxConcurrentTools);
  }

  /**
   * Runs one invocation. Always resolves. Its time begins when it does: while its tenant has as many running as may, it waits, until
   * then or until its `context.signal` aborts.
   */
  async execute(invocation: ToolInvocation): Promise<ToolResult> {
    const reading = readInvocation(invocation, {}, this.#tenancy);
    const accepted = this.#accept(reading);
    return await this.#finishing(reading, this.#run(reading, {}, accepted));
  }

  /**
   * Runs independent invocations side by side; results come in their order, failures beside successes. Always resolves.
   *
   * Each has its own time, which begins when it does: waiting for a place costs none, and is ended by `signal`, with CANCELLED. What
   * an invocation's own context states goes before the batch's, but for the tenant: in a batch with a `tenantId` all are that tenant's.
   * A value that is no array counts as a batch of one. For a context with an unknown key or a wrong value, each result is PARAM_INVALID;
   * for more than 10,000 invocations, there is one result, PARAM_INVALID.
   */
  async executeBatch(
    invocations: readonly (ToolCall | ToolInvocation)[],
    options?: BatchContext,
  ): Promise<ToolResult[]> {
    const { readings, lanes } = readBatch(invocations, options, this.#tenancy);
    const batch: Batch = {};
    // All of them are accepted now, though most have to wait.
    const accepted = readings.map((reading) => this.#accept(reading));
    const finish = readings.map((reading) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      void this.#finishing(reading, promise);
      return resolve;
    });
    const results: ToolResult[] = new Array(readings.length);
    let next = 0;
    let turnBegan = performance.now();
    const lane = async (): Promise<void> => {
      while (next < readings.length) {
        const index = next;
        next += 1;
        results[index] = await this.#run(readings[index] as Reading, batch, accepted[index]);
        finish[index]?.();
        // Calls that wait for nothing would keep everything else waiting.
        if (performance.now() - turnBegan < TURN_MS) continue;
        await nextTurn();
        turnBegan = performance.now();
      }
    };
    await Promise.all(Array.from({ length: Math.min(lanes, readings.length) }, lane));
    // Nothing has taken a turn of the event loop: a loop of empty batches would keep it to itself, as one of rejected calls would.
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
   * Resolves when the tenant's invocations that wait or run at present have their results: for when its calls are denied, so that none of a
   * batch comes later.
   * @internal
   */
  settled(tenantId: string): Promise<void> {
    return this.#unfinished.settled(tenantId);
  }

  async #run({ asked, ...facts }: Reading, batch: Batch, accepted: TrackedCall | undefined): Promise<ToolResult> {
    if ("error" in asked) return await failLater(facts, asked.error);
    const { toolCall, context, timeoutMs, tenantId } = asked;
    const { signal } = context;
    const isOver = signal?.aborted === true || accepted?.cancelled !== undefined;
    const place = isOver ? undefined : await this.#enter(tenantId, batch, signal, accepted);
    if (place === undefined) {
      if (accepted !== undefined) this.#tracking?.calls.end(accepted);
      const message = `The call of ${facts.toolName} was cancelled by its caller`;
      return await failLater(facts, accepted?.cancelled ?? new ToolError("CANCELLED", message));
    }
    try {
      return await places.run({ invoker: this, tenantId, place }, () =>
        this.#tracking === undefined
          ? this.#router.execute(toolCall, context, timeoutMs)
          : this.#tracking.router.executeAccepted(toolCall, context, timeoutMs, accepted),
      );
    } catch (thrown) {
      // A router does not reject; whatever a host puts in the place of one may.
      return await failLater(facts, toToolError(thrown));
    } finally {
      place.release();
    }
  }

  #enter(
    tenantId: string,
    batch: Batch,
    signal: AbortSignal | undefined,
    accepted: TrackedCall | undefined,
  ): ConcurrencySlot | Promise<ConcurrencySlot | undefined> {
    const around = places.getStore();
    const isNested = around?.invoker === this && around.tenantId === tenantId;
    return this.#places.acquire({
      ...{ tenantId, batch, parent: isNested ? around.place : undefined },
      get signal() {
        return accepted === undefined ? signal : accepted.signalWith(signal);
      },
    });
  }
}

/** A router whose `execute` is its own: one that a host has wrapped is called as the host has it. */
function trackingOf(
  router: Pick<ToolRouter, "execute">,
): { readonly router: ToolRouter; readonly calls: OpenCalls } | undefined {
  const isOwn = router instanceof ToolRouter && router.execute === ToolRouter.prototype.execute;
  return isOwn ? { router, calls: router.calls } : undefined;
}
/** As the router's own failures, in a later turn of the event loop. */
const failLater = (facts: ResultMetadata, error: ToolError): Promise<ToolResult> =>
  deferFailure(
    () => toFailure(facts, error),
    () => true,
  );

/** @throws {ToolError} PARAM_INVALID */
function checkConcurrency(wanted: unknown): number {
  if (wanted === undefined) return BATCH_CONCURRENCY;
  if (Number.isInteger(wanted) && (wanted as number) >= 1 && (wanted as number) <= MAX_CONCURRENT_TOOLS) {
    return wanted as number;
  }
  throw invalid("context.maxConcurrency", `a whole number from 1 to ${MAX_CONCURRENT_TOOLS}`, describe(wanted));
}

function readBatch(
  invocations: unknown,
  options: unknown,
  tenancy: Tenancy | undefined,
): { readonly readings: readonly Reading[]; readonly lanes: number } {
  const started = performance.now();
  const failed = (value: unknown, error: ToolError): Reading => ({ started, ...readNames(value), asked: { error } });
  let list: readonly unknown[];
  try {
    list = readFields("invocations", () => (Array.isArray(invocations) ? copyList(invocations) : [invocations]));
  } catch (thrown) {
    return { readings: [failed(undefined, toToolError(thrown))], lanes: 1 };
  }
  try {
    const around = readExplicitContext(options, true);
    const lanes = readFields("context", () =>
      checkConcurrency((options as { readonly maxConcurrency?: unknown } | undefined)?.maxConcurrency),
    );
    return { readings: list.map((value) => readInvocation(value, around, tenancy)), lanes };
  } catch (thrown) {
    const error = toToolError(thrown);
    return { readings: list.map((value) => failed(value, error)), lanes: 1 };
  }
}

/** @throws {ToolError} PARAM_INVALID */
function copyList(invocations: readonly unknown[]): readonly unknown[] {
  const { length } = invocations;
  if (length > MAX_BATCH) {
    throw invalid("invocations", `at most ${MAX_BATCH} in one batch`, `${length}; make several batches of them`);
  }
  return Array.from({ length }, (_, index) => readItem(invocations, index));
}

/** One that cannot be had is no call, and the others are. */
function readItem(invocations: readonly unknown[], index: number): unknown {
  try {
    return invocations[index];
  } catch {
    return undefined;
  }
}

/** In the place of an id, where the router decides by itself. No tenant's id is empty. */
const NO_TENANT = "";
const FIELDS = ["id", "toolName", "arguments", "argumentsText", "timeoutMs", "context"];
const EXPECTED = "an object { toolName, arguments, id?, timeoutMs?, context? }";

/** Each field once; what is in them the router reads. */
function readInvocation(value: unknown, around: ToolContext, tenancy: Tenancy | undefined): Reading {
  const started = performance.now();
  try {
    if (!isPlainObject(value)) throw invalid("invocation", EXPECTED, describe(value));
    const { call, timeoutMs, context } = readFields("invocation", () => {
      checkKeys(value, "invocation", FIELDS);
      const { id = randomUUID(), toolName, arguments: args, argumentsText, timeoutMs, context } = value;
      const text = argumentsText === undefined ? {} : { argumentsText };
      return { call: { id, toolName, arguments: args, ...text }, timeoutMs, context };
    });
    const toolCall = call as ToolCall;
    const merged = merge(around, readExplicitContext(context));
    const tenantId = tenancy?.tenantOf(merged.tenantId, "context.tenantId") ?? merged.tenantId ?? NO_TENANT;
    const asked = { toolCall, context: merged, timeoutMs: timeoutMs as number, tenantId };
    return { started, ...readNames(toolCall), asked };
  } catch (thrown) {
    return { started, ...readNames(value), asked: { error: toToolError(thrown) } };
  }
}

/** @throws {ToolError} PARAM_INVALID for an invocation that names another tenant than its batch */
function merge(around: ToolContext, own: ToolContext): ToolContext {
  const { tenantId, signal, timeoutMs } = around;
  if (tenantId !== undefined && own.tenantId !== undefined && own.tenantId !== tenantId) {
    throw invalid("invocation.context.tenantId", "that of its batch", "another one");
  }
  const stated = Object.fromEntries(Object.entries(own).filter(([, value]) => value !== undefined));
  const merged: ToolContext = { ...around, ...stated };
  const lowestMs = Math.min(timeoutMs ?? Number.POSITIVE_INFINITY, own.timeoutMs ?? Number.POSITIVE_INFINITY);
  return {
    ...merged,
    ...(Number.isFinite(lowestMs) ? { timeoutMs: lowestMs } : {}),
    ...(signal !== undefined && own.signal !== undefined ? { signal: AbortSignal.any([signal, own.signal]) } : {}),
  };
}
