// Shared parts of the chaos tests: many tenants with tools that identify the call they answer, a load of calls, and a record of each call.
import { setTimeout as pause } from "node:timers/promises";
import { onTestFinished } from "vitest";
import { defineCapability } from "../../src/host/capabilities/capability.ts";
import type { GloveboxOptions } from "../../src/host/config/glovebox-options.ts";
import type { ToolResult } from "../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../src/host/glovebox/glovebox.ts";
import { codeOf, makeGlovebox } from "./host-zone.ts";
import { signal, treeOf } from "./process-tree.ts";

/** Answers with its own payload and with what the runtime says of the call: the two must agree, and with the caller. */
const echo = (body: string, hint = ""): string => `${hint}
  export default async ({ payload, ms }, ctx) => {
    const { callId, tenantId } = ctx;
    ${body}
    await new Promise((done) => setTimeout(done, ms));
    return { payload, callId, tenantId };
  };`;
const MARK = "await ctx.mark({ payload });";
const IDEMPOTENT = "export const annotations = { idempotentHint: true };";

interface ChaosTool {
  readonly name: string;
  readonly isolateLifetime: "call" | "tool";
  readonly source: string;
  /** Leaves a mark by a capability: an effect that can be counted. */
  readonly marks?: boolean;
  readonly idempotent?: boolean;
}

const TOOLS: readonly ChaosTool[] = [
  { name: "echo", isolateLifetime: "call", source: echo("") },
  { name: "warm-echo", isolateLifetime: "tool", source: echo("") },
  { name: "mark", isolateLifetime: "call", source: echo(MARK), marks: true },
  { name: "warm-mark", isolateLifetime: "tool", source: echo(MARK), marks: true },
  { name: "mark-again", isolateLifetime: "call", source: echo(MARK, IDEMPOTENT), marks: true, idempotent: true },
  { name: "warm-mark-again", isolateLifetime: "tool", source: echo(MARK, IDEMPOTENT), marks: true, idempotent: true },
];

export const TENANTS: readonly string[] = Array.from({ length: 20 }, (_, n) => `tenant-${n}`);

/** One call and its outcome. */
interface CallRecord {
  readonly tool: ChaosTool;
  readonly tenantId: string;
  readonly payload: string;
  results: number;
  /** Executions that reached the capability. */
  effects: number;
}

/** Collects violations. An empty list is a passed test. */
export class Ledger {
  readonly #calls = new Map<string, CallRecord>();
  #settled = 0;
  readonly wrong: string[] = [];
  readonly codes: { [code: string]: number } = {};
  longestMs = 0;

  open(callId: string, tool: ChaosTool, tenantId: string): CallRecord {
    const record = { tool, tenantId, payload: `${tenantId}/${callId}/${Math.random()}`, results: 0, effects: 0 };
    this.#calls.set(callId, record);
    return record;
  }

  get size(): number {
    return this.#calls.size;
  }

  /** Results so far. */
  get settled(): number {
    return this.#settled;
  }

  mark(callId: string, tenantId: string, payload: unknown): void {
    const record = this.#calls.get(callId);
    if (record === undefined) this.wrong.push(`An effect of a call that was never made: ${callId}`);
    else if (record.tenantId !== tenantId || record.payload !== payload) {
      this.wrong.push(`An effect of ${callId} with another call's data`);
    } else record.effects += 1;
  }

  settle(callId: string, result: ToolResult, durationMs: number): void {
    const record = this.#calls.get(callId);
    if (record === undefined) return;
    record.results += 1;
    this.#settled += 1;
    this.longestMs = Math.max(this.longestMs, durationMs);
    const code = codeOf(result);
    this.codes[code] = (this.codes[code] ?? 0) + 1;
    if (result.callId !== callId) this.wrong.push(`${callId} was answered with the result of ${result.callId}`);
    const { payload, tenantId } = record;
    const expected = JSON.stringify({ payload, callId, tenantId });
    if (result.success && JSON.stringify(result.output) !== expected) {
      this.wrong.push(`${callId}: expected ${expected}, got ${JSON.stringify(result.output).slice(0, 200)}`);
    }
    if (result.success && record.tool.marks && record.effects === 0) {
      this.wrong.push(`${callId} succeeded, and its effect was never seen`);
    }
  }

  /** Calls that got no result or several, and effects that were seen more often than their tool allows. */
  close(): readonly string[] {
    for (const [callId, { tool, results, effects }] of this.#calls) {
      if (results !== 1) this.wrong.push(`${callId} got ${results} results`);
      // Three tries in all, of which each may have come as far as the effect.
      if (effects > (tool.idempotent ? 3 : 1))
        this.wrong.push(`${callId} of ${tool.name} had its effect ${effects} times`);
    }
    return this.wrong;
  }
}

/** Time between two looks at how many calls have ended. */
const LOOK_MS = 5;
/** The longest that a timer can wait. */
const NEVER_MS = 2 ** 31 - 1;

export interface Load {
  readonly calls: number;
  /** Calls of each tenant that are under way at one time. */
  readonly inFlight: number;
  readonly timeoutMs: number;
  /** A call without a result this long after its deadline, in ms, is a violation. */
  readonly lateMs?: number;
}

/**
 * Calls `onLate` when an answer is late. Its timers are of the thread that has to answer: one that waits for a processor delays both alike, and
 * the second timer is started by the first, as the answer follows from the deadline.
 */
function watchDeadline(timeoutMs: number, lateMs: number, onLate: () => void): Disposable {
  let timer = setTimeout(() => {
    timer = setTimeout(onLate, lateMs);
  }, timeoutMs);
  return { [Symbol.dispose]: () => clearTimeout(timer) };
}

/** A Glovebox with all the tools, and the ledger that their capability writes to. */
export async function openChaos(
  options: GloveboxOptions,
): Promise<{ readonly glovebox: Glovebox; readonly ledger: Ledger }> {
  const ledger = new Ledger();
  const mark = defineCapability({
    name: "mark",
    inputSchema: {},
    outputSchema: {},
    handler: (input, { callId, tenantId }) => {
      ledger.mark(callId, tenantId, (input as { readonly payload?: unknown }).payload);
      return null;
    },
  });
  const glovebox = await makeGlovebox({ ...options, tenancy: "multi", capabilities: [mark] });
  onTestFinished(() => glovebox.close());
  for (const { name, source, isolateLifetime, marks } of TOOLS) {
    await glovebox.addTool(
      { name, source },
      { scope: "global", isolateLifetime, ...(marks ? { grant: ["mark"] } : {}) },
    );
  }
  return { glovebox, ledger };
}

/** Makes the calls, tenants side by side; resolves when each has its result. */
export async function runLoad(glovebox: Glovebox, ledger: Ledger, load: Load): Promise<void> {
  const { lateMs = Number.POSITIVE_INFINITY } = load;
  let made = 0;
  const lane = async (tenantId: string, offset: number): Promise<void> => {
    for (let turn = offset; made < load.calls; turn += 1) {
      made += 1;
      const callId = `call-${made}`;
      const tool = TOOLS[turn % TOOLS.length] as ChaosTool;
      const { payload } = ledger.open(callId, tool, tenantId);
      const began = performance.now();
      const call = { id: callId, toolName: tool.name, arguments: { payload, ms: turn % 4 } };
      using _deadline = watchDeadline(load.timeoutMs, Math.min(lateMs, NEVER_MS), () =>
        ledger.wrong.push(`${callId} of ${tool.name} had no result ${lateMs} ms after its deadline`),
      );
      const result = await glovebox.execute(call, { tenantId, timeoutMs: load.timeoutMs });
      ledger.settle(callId, result, performance.now() - began);
    }
  };
  const lanes = TENANTS.flatMap((tenantId, n) =>
    Array.from({ length: load.inFlight }, (_, offset) => lane(tenantId, n + offset)),
  );
  await Promise.all(lanes);
}

const pick = <Value>(values: readonly Value[]): Value | undefined => values[Math.floor(Math.random() * values.length)];

/**
 * Does something to a random worker, or to what runs beneath it if it is a wrapper, each time that a number of further calls have ended; counts
 * how often.
 */
export async function torment(
  glovebox: Glovebox,
  ledger: Ledger,
  everyCalls: number,
  hurt: (pids: readonly number[]) => boolean,
  over: AbortSignal,
): Promise<number> {
  let count = 0;
  for (let next = everyCalls; !over.aborted; ) {
    await pause(LOOK_MS);
    if (ledger.settled < next) continue;
    next += everyCalls;
    const worker = pick(glovebox.workerPids);
    if (worker !== undefined && hurt(treeOf(worker))) count += 1;
  }
  return count;
}

/** One process of the tree. A worker may die and leave its wrapper, and a wrapper may die and leave its worker. */
export const killOne = (pids: readonly number[]): boolean => signal(pick(pids) ?? -1, "SIGKILL");
export const stopAll = (pids: readonly number[]): boolean => pids.map((pid) => signal(pid, "SIGSTOP")).includes(true);
/** Stopped, and running again a moment later. */
export function stopBriefly(pids: readonly number[], ms: number): boolean {
  const stopped = stopAll(pids);
  setTimeout(() => {
    for (const pid of pids) signal(pid, "SIGCONT");
  }, ms);
  return stopped;
}
