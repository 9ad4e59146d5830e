// Runs one attack from registration to aftermath: the expected code in time, the host responsive, memory bounded, other tenants
// served, no process left.
import { readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, expect, test, vi } from "vitest";
import type { Capability } from "../../src/host/capabilities/capability.ts";
import type { GloveboxOptions } from "../../src/host/config/glovebox-options.ts";
import type { ToolResult } from "../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../src/host/glovebox/glovebox.ts";
import type { TenantOptions } from "../../src/host/tenants/tenant-policies.ts";
import type { EngineFeature } from "../../src/sandbox/contract/engine-features.ts";
import { type ErrorCode, ToolError } from "../../src/sandbox/contract/errors.ts";
import type { PartialLimits } from "../../src/sandbox/contract/limits.ts";
import type { IsolateLifetime } from "../../src/sandbox/protocol/message-fields.ts";
import { sampleAttacks } from "../support/attack-sample.ts";
import { codeOf, expectPublishable, makeGlovebox, outputOf } from "../support/host-zone.ts";
import { expectIdle, isAlive } from "../support/processes.ts";
import { DEATH_MS, expectInTime, LATE_MS, LagMeter, MemoryWatch, promptly } from "./assertions.ts";

const TIMEOUT_MS = 300;
/** Timeout in ms of an attack that ends by itself, and of the neighbours' calls. It is generous because the duration depends on the machine. */
const ENDING_TIMEOUT_MS = 120_000;
const LIMITS = { timeoutMs: ENDING_TIMEOUT_MS, memoryMiB: 64 };
/** The limit of the attacker can be lower, but not higher. */
const MAX_LIMITS = { timeoutMs: ENDING_TIMEOUT_MS, memoryMiB: 256 };

export interface Attack {
  /** The source of the whole tool. */
  readonly source: string;
  /** Accepted error codes. `ok` means that the attack may have no effect. */
  readonly codes: readonly (ErrorCode | "ok")[];
  /** Wall time of the attacking call. Default: TIMEOUT_MS where a timeout is one of `codes`. */
  readonly timeoutMs?: number;
  /** @default "call" */
  readonly isolateLifetime?: IsolateLifetime;
  /** Limits of the attacker, which also apply to the top level of its tool. */
  readonly limits?: PartialLimits;
  readonly capabilities?: readonly Capability[];
  /** Engine features and built-in capabilities that the attacking tool has. */
  readonly features?: readonly (EngineFeature | "kv" | "tools")[];
  /** Default: in memory. */
  readonly kv?: GloveboxOptions["kv"];
  /** Further tools of the attacker, by name, with the same grants. */
  readonly others?: { readonly [name: string]: string };
  /** Checks the result further. */
  readonly check?: (result: ToolResult) => void;
}

/** All attacks of a file share their neighbours, which are built once. */
const CACHE = { directory: join(tmpdir(), "glovebox-hostile-cache") };
/** Lowest number of calls that each of two tenants makes during the attack. They continue until the attack ends. */
const NEIGHBOUR_CALLS = 3;
const NEIGHBOUR_PAUSE_MS = 50;
const SETTLING_TRIES = 5;
const CLEARING = { timeout: DEATH_MS, interval: 5 };
/** Where the top level is the attack, esbuild's process starts first. */
const BUILD_MS = 5_000;

/** Limits of the attacks. They are low, so that each attack ends soon. */
export function openGlovebox(
  options: Pick<GloveboxOptions, "limits" | "placement" | "capabilities" | "kv" | "tenants">,
): Promise<Glovebox> {
  return makeGlovebox({
    ...options,
    tenancy: "multi",
    cache: CACHE,
    limits: { ...LIMITS, ...options.limits },
    workers: { max: 6 },
  });
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

/** Two other tenants at work: one has a new isolate for each call, the other a warm isolate, which counts its calls. */
class Neighbours {
  readonly #glovebox: Glovebox;
  #warmCalls = 0;

  private constructor(glovebox: Glovebox) {
    this.#glovebox = glovebox;
  }

  static async settle(glovebox: Glovebox): Promise<Neighbours> {
    await glovebox.addTool({ name: "neighbour", source: "export default ({ n }) => n * 2.1" }, { scope: "global" });
    const warm = "let calls = 0; export default () => (calls += 1);";
    await glovebox.addTool({ name: "counter", source: warm }, { scope: "global", isolateLifetime: "tool" });
    const neighbours = new Neighbours(glovebox);
    await Promise.all([atLast(() => neighbours.callCold()), atLast(() => neighbours.callWarm())]);
    return neighbours;
  }

  async callCold(tenantId = "cold neighbour"): Promise<void> {
    const call = { id: "neighbour", toolName: "neighbour", arguments: { n: 20 } };
    expect(outputOf(await this.#glovebox.execute(call, { tenantId }))).toBe(42);
  }

  /** A busy machine may cost it its warm isolate, and then it counts from one again; no other count can be its own. */
  async callWarm(): Promise<void> {
    this.#warmCalls += 1;
    const result = await this.#glovebox.execute({ id: "n", toolName: "counter" }, { tenantId: "warm neighbour" });
    expect(outputOf(result)).toBeGreaterThan(0);
    expect(outputOf(result)).toBeLessThanOrEqual(this.#warmCalls);
  }

  /** Both tenants make calls until `attack` ends, and every one of their calls must succeed. */
  async whileWorking<Result>(attack: Promise<Result>): Promise<Result> {
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

/** A Glovebox instance with neighbours. Each attack runs as a separate tenant in a separate process. */
class Arena implements AsyncDisposable {
  readonly glovebox: Glovebox;
  readonly neighbours: Neighbours;
  readonly #attackers: Map<string, TenantOptions>;
  #attacks = 0;

  private constructor(glovebox: Glovebox, neighbours: Neighbours, attackers: Map<string, TenantOptions>) {
    this.glovebox = glovebox;
    this.neighbours = neighbours;
    this.#attackers = attackers;
  }

  static async open({ capabilities, kv = "memory" }: Pick<Attack, "capabilities" | "kv">): Promise<Arena> {
    const attackers = new Map<string, TenantOptions>();
    const anybody: TenantOptions = { limits: LIMITS };
    const tenants = (tenantId: string): TenantOptions => attackers.get(tenantId) ?? anybody;
    const glovebox = await openGlovebox({ limits: MAX_LIMITS, ...(capabilities && { capabilities }), kv, tenants });
    try {
      return new Arena(glovebox, await Neighbours.settle(glovebox), attackers);
    } catch (thrown) {
      await glovebox.close();
      throw thrown;
    }
  }

  /** A tenant that has no limits yet. */
  newTenant(): string {
    this.#attacks += 1;
    return `evil ${this.#attacks}`;
  }

  limit(tenantId: string, limits: PartialLimits): void {
    this.#attackers.set(tenantId, { limits: { ...LIMITS, ...limits } });
  }

  /** Ends the processes that were not there before: the next attack finds what this one found. */
  async clear(before: ReadonlySet<number>): Promise<void> {
    const pids = this.glovebox.workerPids.filter((pid) => !before.has(pid));
    for (const pid of pids.filter(isAlive)) process.kill(pid, "SIGKILL");
    await vi.waitFor(() => expect(this.glovebox.workerPids.filter((pid) => pids.includes(pid))).toEqual([]), CLEARING);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.glovebox.close();
  }
}

/** The one that a file's attacks share, from the first of them to the file's end: a glovebox and its neighbours take longer than an attack. */
let shared: Promise<Arena> | undefined;

function sharedArena(): Promise<Arena> {
  const opening = shared ?? Arena.open({});
  shared = opening;
  opening.catch(() => {
    if (shared === opening) shared = undefined;
  });
  return opening;
}

async function closeSharedArena(): Promise<void> {
  const open = shared;
  shared = undefined;
  const arena = await open?.catch(() => undefined);
  await arena?.[Symbol.asyncDispose]();
}

interface Strike {
  /** The attacking call's result, or the error of addTool where the attack is in the tool's top level. */
  readonly result: ToolResult | ToolError;
  readonly tookMs: number;
  /** When it had to be there. */
  readonly dueMs: number;
}

async function strike(glovebox: Glovebox, tenantId: string, attack: Attack): Promise<Strike> {
  const { capabilities = [], others = {}, isolateLifetime, limits, codes } = attack;
  const timeoutMs = attack.timeoutMs ?? (codes.includes("TOOL_TIMEOUT") ? TIMEOUT_MS : ENDING_TIMEOUT_MS);
  const begun = performance.now();
  try {
    const grant = [...capabilities.map(({ name }) => name), ...(attack.features ?? [])];
    for (const [name, source] of Object.entries(others)) await glovebox.addTool({ name, source }, { tenantId, grant });
    await glovebox.addTool({ defaultName: "attack", source: attack.source }, { tenantId, grant, isolateLifetime });
  } catch (thrown) {
    if (!(thrown instanceof ToolError)) throw thrown;
    const dueMs = BUILD_MS + (limits?.timeoutMs ?? LIMITS.timeoutMs) + LATE_MS;
    return { result: thrown, tookMs: performance.now() - begun, dueMs };
  }
  const called = performance.now();
  const result = await glovebox.execute({ id: "evil", toolName: "attack" }, { tenantId, timeoutMs });
  return { result, tookMs: performance.now() - called, dueMs: timeoutMs + LATE_MS };
}

interface AttackSetting {
  readonly glovebox: Glovebox;
  readonly neighbours: Neighbours;
  /** The attacking tenant. */
  readonly tenantId: string;
  readonly memoryMiB: number;
}

async function whileOthersWork<Result>(
  { glovebox, neighbours, tenantId, memoryMiB }: AttackSetting,
  attack: () => Promise<Result>,
): Promise<Result> {
  // The process has started, so that the measured time is only that of the attack.
  await atLast(() => neighbours.callCold(tenantId));
  using memory = new MemoryWatch(() => glovebox.workerPids, memoryMiB);
  using lag = new LagMeter();
  const result = await neighbours.whileWorking(attack());
  await lag.expectPrompt();
  await Promise.all([neighbours.callCold(), neighbours.callWarm()]);
  await expectIdle(() => glovebox.workerPids, DEATH_MS);
  await memory.expectBounded();
  return result;
}

/** Runs an attack as the tenant `evil` while other tenants work, and asserts that the host stays responsive during and after it. */
export async function whileNeighboursWork<Result>(
  glovebox: Glovebox,
  limits: PartialLimits,
  attack: () => Promise<Result>,
): Promise<Result> {
  const neighbours = await Neighbours.settle(glovebox);
  const setting = { glovebox, neighbours, tenantId: "evil", memoryMiB: limits.memoryMiB ?? LIMITS.memoryMiB };
  return await whileOthersWork(setting, attack);
}

async function testIn(arena: Arena, attack: Attack): Promise<void> {
  const { limits = {}, codes, check } = attack;
  const { glovebox, neighbours } = arena;
  const tenantId = arena.newTenant();
  const setting = { glovebox, neighbours, tenantId, memoryMiB: limits.memoryMiB ?? LIMITS.memoryMiB };
  const before = new Set(glovebox.workerPids);
  try {
    const { result, tookMs, dueMs } = await whileOthersWork(setting, () => {
      arena.limit(tenantId, limits);
      return strike(glovebox, tenantId, attack);
    });
    const isResult = !(result instanceof ToolError);
    expect(codes, isResult ? JSON.stringify(result).slice(0, 300) : result.message).toContain(
      isResult ? codeOf(result) : result.code,
    );
    expectPublishable(isResult ? result : result.toData("attack"));
    if (isResult) check?.(result);
    expectInTime(tookMs, dueMs);
  } finally {
    await arena.clear(before);
  }
}

/** Registers one test. */
export function testAttack(name: string, attack: Attack): void {
  test(`${name}: ${attack.codes.join(" or ")}, and the host is not affected`, async () => {
    await promptly(async () => {
      if (attack.capabilities === undefined && attack.kv === undefined) {
        await testIn(await sharedArena(), attack);
        return;
      }
      await using arena = await Arena.open(attack);
      await testIn(arena, attack);
    });
  });
  afterAll(closeSharedArena);
}

/** Registers the attacks of a folder, one per file, so that they share a Glovebox instance. Runs a sample, or all with GLOVEBOX_ATTACKS=all. */
export async function registerAttacks(folder: URL, share?: number): Promise<void> {
  const names = readdirSync(folder).filter((name) => /^(?!support\.).*(?<!\.test)\.ts$/.test(name));
  for (const name of sampleAttacks(names.sort(), 0, share)) await import(/* @vite-ignore */ new URL(name, folder).href);
}
