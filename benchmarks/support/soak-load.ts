// The soak's load: lanes of calls, each of one tool, tenants that come and go, tools that are added and removed, worker processes that are
// killed. Keeps count of what was lost, executed twice or wrong.
import { setTimeout as pause } from "node:timers/promises";
import { createGlovebox, defineCapability, type Glovebox } from "../../src/host/index.ts";
import { signal, treeOf } from "../../test/support/process-tree.ts";
import { findFault, PATIENT_MS, SOAK_TOOLS, type SoakTool } from "./soak-tools.ts";

export const MAX_WORKERS = 24;
const LANES_OF_HEALTHY = 2;
/** A tool is added and removed, and a tenant comes and goes, this often. */
const TURNOVER_MS = 2_000;
const CACHE_BYTES = 1024 * 1024;
/** A call that has no result this long after its deadline is late. */
const LATE_AFTER_MS = 5_000;
/** A call that has no result this long after the end of the run is lost. */
const LOST_AFTER_MS = PATIENT_MS + 60_000;
/** Faults that are kept in words; all are counted. */
const KEPT_FAULTS = 50;

/** The longest time in ms that a host on a busy machine takes to notice a kill. Until then it sends calls to the process. */
const NOTICED_WITHIN_MS = 1_000;
/** Outcomes of a call whose process was killed. INTERNAL: three processes died while they were starting for it. */
const KILLED_CODES = ["SANDBOX_CRASHED", "INTERNAL"];

export interface SoakOptions {
  /** Factor of all pauses between calls: above 1 for a load that leaves cores idle. */
  readonly pace: number;
  /** Time between two kills of a random worker process. @default no kills */
  readonly killEveryMs?: number | undefined;
}

const pick = <Value>(values: readonly Value[]): Value | undefined => values[Math.floor(Math.random() * values.length)];

export class SoakLoad implements AsyncDisposable {
  readonly glovebox: Glovebox;
  readonly #options: SoakOptions;
  readonly #over = new AbortController();
  #lanes: Promise<void>[] = [];
  #latencies: number[] = [];
  #calls = 0;
  totalCalls = 0;
  late = 0;
  wrong = 0;
  /** Effects of a call that were seen more than once. */
  doubled = 0;
  kills = 0;
  /** Calls of healthy tools that a kill of their process has cost. */
  killedCalls = 0;
  #lastKillAt = Number.NEGATIVE_INFINITY;
  /** Calls without a result. */
  readonly #open = new Set<string>();
  /** How often each call that runs has had its effect. */
  readonly #effects: Map<string, number>;
  readonly codes: { [code: string]: number } = {};
  readonly faults: string[] = [];

  private constructor(glovebox: Glovebox, effects: Map<string, number>, options: SoakOptions) {
    this.glovebox = glovebox;
    this.#effects = effects;
    this.#options = options;
  }

  static async start(options: SoakOptions): Promise<SoakLoad> {
    const any = { inputSchema: {}, outputSchema: {} };
    const ping = defineCapability({ name: "ping", ...any, handler: () => null });
    const effects = new Map<string, number>();
    const reflect = defineCapability({
      name: "reflect",
      ...any,
      handler: (input, { callId }) => {
        effects.set(callId, (effects.get(callId) ?? 0) + 1);
        return input;
      },
    });
    const glovebox = await createGlovebox({
      tenancy: "multi",
      // Small enough to fill while the run warms up: from then on whatever grows is a leak.
      cache: { directory: false, memoryBytes: CACHE_BYTES },
      capabilities: [ping, reflect],
      limits: { timeoutMs: PATIENT_MS, cpuMs: PATIENT_MS, memoryMiB: 64 },
      workers: { max: MAX_WORKERS, warmProcesses: 1 },
    });
    const load = new SoakLoad(glovebox, effects, options);
    for (const tool of SOAK_TOOLS) {
      const { name, source, isolateLifetime = "call", grant = [] } = tool;
      await glovebox.addTool({ name, source }, { scope: "global", isolateLifetime, grant });
    }
    load.#lanes = [
      ...SOAK_TOOLS.flatMap((tool) =>
        Array.from({ length: tool.healthy ? LANES_OF_HEALTHY : 1 }, () => load.#callForever(tool)),
      ),
      load.#visitForever(),
      load.#renewForever(),
      load.#killForever(),
    ];
    return load;
  }

  /** Calls that got no result, once the load has been disposed. */
  get lost(): number {
    return this.#open.size;
  }

  /** Calls, and healthy tools' latencies, since it was last asked. */
  takeCounts(): { readonly calls: number; readonly latencies: readonly number[] } {
    const counts = { calls: this.#calls, latencies: this.#latencies };
    this.#calls = 0;
    this.#latencies = [];
    return counts;
  }

  #fault(text: string): void {
    if (this.faults.length < KEPT_FAULTS) this.faults.push(text);
  }

  async #call(tool: SoakTool, tenantId: string): Promise<void> {
    const callId = `${tool.name}-${this.totalCalls}`;
    this.totalCalls += 1;
    const args = { nonce: `${callId}-${Math.random()}`, text: "x".repeat(tool.textUnits ?? 10) };
    const controller = new AbortController();
    const { cancelsWithinMs, timeoutMs } = tool;
    const canceller =
      cancelsWithinMs === undefined ? undefined : setTimeout(() => controller.abort(), Math.random() * cancelsWithinMs);
    // The second timer starts with the first, because a host that waits for a core is late with its timers too.
    let late = setTimeout(() => {
      late = setTimeout(() => {
        this.late += 1;
        this.#fault(`${tool.name}: no result ${LATE_AFTER_MS} ms after its deadline`);
      }, LATE_AFTER_MS);
    }, timeoutMs);
    this.#open.add(callId);
    const call = { id: callId, toolName: tool.name, arguments: args };
    const began = performance.now();
    const result = await this.glovebox.execute(call, { tenantId, timeoutMs, signal: controller.signal });
    if (tool.healthy) this.#latencies.push(performance.now() - began);
    this.#open.delete(callId);
    clearTimeout(late);
    clearTimeout(canceller);
    // The tools that come and go differ in their number only.
    const key = `${tool.name.replace(/-\d+$/, "")} ${result.success ? "ok" : result.error.code}`;
    this.codes[key] = (this.codes[key] ?? 0) + 1;
    this.#calls += 1;
    const effects = this.#effects.get(callId) ?? 0;
    this.#effects.delete(callId);
    if (effects > 1) {
      this.doubled += 1;
      this.#fault(`${tool.name}: ${effects} effects of one call`);
    }
    if (
      tool.healthy &&
      !result.success &&
      KILLED_CODES.includes(result.error.code) &&
      this.#lastKillAt >= began - NOTICED_WITHIN_MS
    ) {
      this.killedCalls += 1;
      return;
    }
    const fault = findFault(tool, result, { ...args, callId, tenantId });
    if (fault === undefined) return;
    this.wrong += 1;
    this.#fault(fault);
  }

  /** Each tool has a tenant of its own, save that the healthy ones share one process. */
  async #callForever(tool: SoakTool): Promise<void> {
    const tenantId = tool.healthy ? "healthy" : tool.name;
    while (!this.#over.signal.aborted) {
      await this.#call(tool, tenantId);
      await pause(tool.pauseMs * this.#options.pace);
    }
  }

  /** A new tenant makes a few calls and never returns. */
  async #visitForever(): Promise<void> {
    const tools = SOAK_TOOLS.filter(({ healthy }) => healthy);
    for (let visitor = 0; !this.#over.signal.aborted; visitor += 1) {
      await Promise.all(tools.map((tool) => this.#call(tool, `visitor-${visitor}`)));
      await pause(TURNOVER_MS * this.#options.pace);
    }
  }

  /** Adds, calls and removes a new tool for a tenant that stays. */
  async #renewForever(): Promise<void> {
    const [model] = SOAK_TOOLS;
    for (let version = 0; !this.#over.signal.aborted && model !== undefined; version += 1) {
      const tool = { ...model, name: `renewed-${version}` };
      const source = `${tool.source} // version ${version}\nexport const description = "version ${version}";`;
      try {
        await this.glovebox.addTool({ name: tool.name, source }, { tenantId: "renewing" });
        await this.#call(tool, "renewing");
        this.glovebox.removeTool(tool.name, { tenantId: "renewing" });
      } catch (thrown) {
        this.wrong += 1;
        this.#fault(`${tool.name}: could not be added or removed: ${String(thrown)}`);
      }
      await pause(TURNOVER_MS * this.#options.pace);
    }
  }

  /** Kills a random process: a worker, or its wrapper. */
  async #killForever(): Promise<void> {
    const { killEveryMs } = this.#options;
    while (killEveryMs !== undefined && !this.#over.signal.aborted) {
      await pause(killEveryMs * (0.5 + Math.random()), undefined, { signal: this.#over.signal }).catch(() => undefined);
      const worker = pick(this.glovebox.workerPids);
      if (worker === undefined || !signal(pick(treeOf(worker)) ?? -1, "SIGKILL")) continue;
      this.kills += 1;
      this.#lastKillAt = performance.now();
    }
  }

  /** Waits for the calls that are under way, and ends the Glovebox. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#over.abort();
    await Promise.race([Promise.all(this.#lanes), pause(LOST_AFTER_MS, undefined, { ref: false })]);
    await this.glovebox.close();
  }
}
