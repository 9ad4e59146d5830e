// One attack, from registration to aftermath: the expected code in time, the host alive and prompt, memory bounded, other tenants
// served, nothing left running.
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { expect, test } from "vitest";
import type { Capability } from "../../src/host/capabilities/capability.ts";
import type { GloveboxOptions } from "../../src/host/config.ts";
import type { Glovebox } from "../../src/host/runtime.ts";
import type { ToolResult } from "../../src/host/tool-call.ts";
import type { EngineFeature } from "../../src/sandbox/engine-features.ts";
import { type ErrorCode, ToolError } from "../../src/sandbox/errors.ts";
import type { PartialLimits } from "../../src/sandbox/limits.ts";
import type { Isolation } from "../../src/sandbox/protocol.ts";
import { codeOf, expectPublishable, makeBox, outputOf } from "../support/host-zone.ts";
import { expectIdle } from "../support/processes.ts";
import { LATE_MS, LagMeter, MemoryWatch } from "./bar.ts";

const TIMEOUT_MS = 300;
const LIMITS = { timeoutMs: 10_000, memoryMiB: 64 };

export interface Attack {
  /** The whole tool. */
  readonly source: string;
  /** Codes that are right; `ok` is one where an attack may come to nothing. */
  readonly codes: readonly (ErrorCode | "ok")[];
  /** Wall time of the attacking call; TIMEOUT_MS unless stated. */
  readonly timeoutMs?: number;
  /** `call` unless stated. */
  readonly isolation?: Isolation;
  /** Of the whole Glovebox, its neighbours and the tool's top level included. */
  readonly limits?: PartialLimits;
  readonly capabilities?: readonly Capability[];
  /** Engine features, and capabilities of Glovebox's own, that the attacking tool has. */
  readonly features?: readonly (EngineFeature | "kv" | "tools")[];
  /** In memory unless stated. */
  readonly store?: GloveboxOptions["store"];
  /** Further tools of the attacker, by name, with the same grants. */
  readonly others?: { readonly [name: string]: string };
  /** What else must hold of the result. */
  readonly check?: (result: ToolResult) => void;
}

/** Every file has the same neighbours: they are built and learned once. */
const CACHE = { directory: join(tmpdir(), "glovebox-hostile-cache") };
/** Each of two tenants makes this many calls at least beside the attack, and goes on as long as that does. */
const NEIGHBOUR_CALLS = 3;
const NEIGHBOUR_PAUSE_MS = 25;
const SETTLING_TRIES = 5;
/** Where the top level is the attack, esbuild's process comes before it. */
const BUILD_MS = 2_000;

/** What attacks are run in: low limits, so that each ends soon. */
export function openBox(
  options: Pick<GloveboxOptions, "limits" | "placement" | "capabilities" | "store">,
): Promise<Glovebox> {
  return makeBox({ ...options, cache: CACHE, limits: { ...LIMITS, ...options.limits }, workers: { max: 6 } });
}

/** Before there is an attack: on a machine that other tests keep busy a process may take longer to start than a call has. */
async function atLast(call: () => Promise<void>): Promise<void> {
  for (let tries = 1; tries < SETTLING_TRIES; tries += 1) {
    try {
      await call();
      return;
    } catch {
      await pause(NEIGHBOUR_PAUSE_MS);
    }
  }
  await call();
}

/** Other tenants at work: one has a new isolate for each call, one a warm isolate, which counts its calls. */
class Neighbours {
  readonly #box: Glovebox;
  #warmCalls = 0;

  private constructor(box: Glovebox) {
    this.#box = box;
  }

  static async settle(box: Glovebox): Promise<Neighbours> {
    await box.addTool({ name: "neighbour", source: "export default ({ n }) => n * 2.1" });
    const warm = "let calls = 0; export default () => (calls += 1);";
    await box.addTool({ name: "counter", source: warm }, { isolation: "tool" });
    const neighbours = new Neighbours(box);
    await Promise.all([atLast(() => neighbours.callCold()), atLast(() => neighbours.callWarm())]);
    return neighbours;
  }

  async callCold(tenantId = "cold neighbour"): Promise<void> {
    const call = { id: "neighbour", toolName: "neighbour", arguments: { n: 20 } };
    expect(outputOf(await this.#box.execute(call, { tenantId }))).toBe(42);
  }

  /** A busy machine may cost it its warm isolate, and then it counts from one again; no other count can be its own. */
  async callWarm(): Promise<void> {
    this.#warmCalls += 1;
    const result = await this.#box.execute({ id: "n", toolName: "counter" }, { tenantId: "warm neighbour" });
    expect(outputOf(result)).toBeGreaterThan(0);
    expect(outputOf(result)).toBeLessThanOrEqual(this.#warmCalls);
  }

  /** Both go on calling for as long as `attack` takes, and every one of their calls succeeds. */
  async beside<Result>(attack: Promise<Result>): Promise<Result> {
    let isOver = false;
    const over = attack.finally(() => {
      isOver = true;
    });
    const goOn = async (call: () => Promise<void>): Promise<void> => {
      for (let calls = 0; calls < NEIGHBOUR_CALLS || !isOver; calls += 1) {
        await call();
        await pause(NEIGHBOUR_PAUSE_MS);
      }
    };
    const [result] = await Promise.all([over, goOn(() => this.callCold()), goOn(() => this.callWarm())]);
    return result;
  }
}

interface Strike {
  /** The attacking call's result, or the error of addTool where the attack is in the tool's top level. */
  readonly result: ToolResult | ToolError;
  readonly tookMs: number;
  /** When it had to be there. */
  readonly dueMs: number;
}

async function strike(box: Glovebox, attack: Attack): Promise<Strike> {
  const { capabilities = [], others = {}, isolation, timeoutMs = TIMEOUT_MS, limits } = attack;
  const begun = performance.now();
  try {
    const grant = [...capabilities.map(({ name }) => name), ...(attack.features ?? [])];
    for (const [name, source] of Object.entries(others))
      await box.addTool({ name, source }, { tenantId: "evil", grant });
    await box.addTool({ name: "attack", source: attack.source }, { tenantId: "evil", grant, isolation });
  } catch (thrown) {
    if (!(thrown instanceof ToolError)) throw thrown;
    const dueMs = BUILD_MS + (limits?.timeoutMs ?? LIMITS.timeoutMs) + LATE_MS;
    return { result: thrown, tookMs: performance.now() - begun, dueMs };
  }
  const called = performance.now();
  const result = await box.execute({ id: "evil", toolName: "attack" }, { tenantId: "evil", timeoutMs });
  return { result, tookMs: performance.now() - called, dueMs: timeoutMs + LATE_MS };
}

/** Runs an attack while others work, and holds the host to the bar: meanwhile, and afterwards. */
export async function besideNeighbours<Result>(
  box: Glovebox,
  limits: PartialLimits,
  attack: () => Promise<Result>,
): Promise<Result> {
  const neighbours = await Neighbours.settle(box);
  // Its process is up: all of the attack's time is the attack's.
  await atLast(() => neighbours.callCold("evil"));
  using memory = new MemoryWatch(() => box.workerPids, limits.memoryMiB ?? LIMITS.memoryMiB);
  using lag = new LagMeter();
  const result = await neighbours.beside(attack());
  await lag.expectPrompt();
  await Promise.all([neighbours.callCold(), neighbours.callWarm()]);
  await expectIdle(() => box.workerPids);
  await memory.expectBounded();
  return result;
}

/** Registers one test. */
export function testAttack(name: string, attack: Attack): void {
  test(`${name}: ${attack.codes.join(" or ")}, and the host is none the worse`, async () => {
    const { limits = {}, capabilities, store = "memory", codes, check } = attack;
    await using box = await openBox({ limits, capabilities, store });
    const { result, tookMs, dueMs } = await besideNeighbours(box, limits, () => strike(box, attack));
    const isResult = !(result instanceof ToolError);
    expect(codes, isResult ? JSON.stringify(result).slice(0, 300) : result.message).toContain(
      isResult ? codeOf(result) : result.code,
    );
    expectPublishable(isResult ? result : result.toData("attack"));
    if (isResult) check?.(result);
    expect(tookMs, "Time to the result, in ms").toBeLessThan(dueMs);
  });
}
