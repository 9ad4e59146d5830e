// The soak's load: lanes of calls, each of one tool, tenants that come and go, tools that are added and removed. Keeps count of what
// was lost or wrong.
import { setTimeout as pause } from "node:timers/promises";
import { createGlovebox, defineCapability, type Glovebox } from "../../src/host/index.ts";
import { findFault, SOAK_TOOLS, type SoakTool } from "./soak-tools.ts";

export const MAX_WORKERS = 24;
const LANES_OF_HEALTHY = 2;
/** A tool is added and removed, and a tenant comes and goes, this often. */
const TURNOVER_MS = 2_000;
const CACHE_BYTES = 1024 * 1024;
/** A call that has no result this long after its deadline is lost. */
const LOST_AFTER_MS = 5_000;
/** Faults that are kept in words; all are counted. */
const KEPT_FAULTS = 50;

export class SoakLoad implements AsyncDisposable {
  readonly box: Glovebox;
  readonly #over = new AbortController();
  #lanes: Promise<void>[] = [];
  #latencies: number[] = [];
  #calls = 0;
  totalCalls = 0;
  lost = 0;
  wrong = 0;
  readonly codes: { [code: string]: number } = {};
  readonly faults: string[] = [];

  private constructor(box: Glovebox) {
    this.box = box;
  }

  static async start(): Promise<SoakLoad> {
    const any = { inputSchema: {}, outputSchema: {} };
    const ping = defineCapability({ name: "ping", ...any, handler: () => null });
    const reflect = defineCapability({ name: "reflect", ...any, handler: (input) => input });
    const box = await createGlovebox({
      tenancy: "multi",
      // Small enough to fill while the run warms up: from then on whatever grows is a leak.
      cache: { directory: false, memoryBytes: CACHE_BYTES },
      capabilities: [ping, reflect],
      limits: { timeoutMs: 20_000, memoryMiB: 64 },
      workers: { max: MAX_WORKERS, warmProcesses: 1 },
    });
    const load = new SoakLoad(box);
    for (const tool of SOAK_TOOLS) {
      const { name, source, isolateLifetime = "call", grant = [] } = tool;
      await box.addTool({ name, source }, { scope: "global", isolateLifetime, grant });
    }
    load.#lanes = [
      ...SOAK_TOOLS.flatMap((tool) =>
        Array.from({ length: tool.healthy ? LANES_OF_HEALTHY : 1 }, () => load.#callForever(tool)),
      ),
      load.#visitForever(),
      load.#renewForever(),
    ];
    return load;
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
    const lost = setTimeout(() => {
      this.lost += 1;
      this.#fault(`${tool.name}: no result ${LOST_AFTER_MS} ms after its deadline`);
    }, timeoutMs + LOST_AFTER_MS);
    const call = { id: callId, toolName: tool.name, arguments: args };
    const began = performance.now();
    const result = await this.box.execute(call, { tenantId, timeoutMs, signal: controller.signal });
    if (tool.healthy) this.#latencies.push(performance.now() - began);
    clearTimeout(lost);
    clearTimeout(canceller);
    // The tools that come and go differ in their number only.
    const key = `${tool.name.replace(/-\d+$/, "")} ${result.success ? "ok" : result.error.code}`;
    this.codes[key] = (this.codes[key] ?? 0) + 1;
    this.#calls += 1;
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
      await pause(tool.pauseMs);
    }
  }

  /** A new tenant makes a few calls and never returns. */
  async #visitForever(): Promise<void> {
    const tools = SOAK_TOOLS.filter(({ healthy }) => healthy);
    for (let visitor = 0; !this.#over.signal.aborted; visitor += 1) {
      await Promise.all(tools.map((tool) => this.#call(tool, `visitor-${visitor}`)));
      await pause(TURNOVER_MS);
    }
  }

  /** Adds, calls and removes a new tool for a tenant that stays. */
  async #renewForever(): Promise<void> {
    const [model] = SOAK_TOOLS;
    for (let version = 0; !this.#over.signal.aborted && model !== undefined; version += 1) {
      const tool = { ...model, name: `renewed-${version}` };
      const source = `${tool.source} // version ${version}\nexport const description = "version ${version}";`;
      try {
        await this.box.addTool({ name: tool.name, source }, { tenantId: "renewing" });
        await this.#call(tool, "renewing");
        this.box.removeTool(tool.name, { tenantId: "renewing" });
      } catch (thrown) {
        this.wrong += 1;
        this.#fault(`${tool.name}: could not be added or removed: ${String(thrown)}`);
      }
      await pause(TURNOVER_MS);
    }
  }

  /** Waits for the calls that are under way, and ends the Glovebox. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#over.abort();
    await Promise.all(this.#lanes);
    await this.box.close();
  }
}
