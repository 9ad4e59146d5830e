// One attack, from registration to aftermath: the expected code, the host alive and prompt, other tenants served, nothing left running.
import { tmpdir } from "node:os";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { expect, test } from "vitest";
import type { Capability } from "../../src/host/capabilities/capability.ts";
import type { Glovebox } from "../../src/host/runtime.ts";
import type { ToolResult } from "../../src/host/tool-call.ts";
import type { EngineFeature } from "../../src/sandbox/engine-features.ts";
import { type ErrorCode, ToolError } from "../../src/sandbox/errors.ts";
import type { PartialLimits } from "../../src/sandbox/limits.ts";
import { codeOf, expectPublishable, makeBox, outputOf } from "../support/host-zone.ts";
import { expectIdle } from "../support/processes.ts";

export interface Attack {
  /** The whole tool. */
  readonly source: string;
  /** Codes that are right; `ok` is one where an attack may come to nothing. */
  readonly codes: readonly (ErrorCode | "ok")[];
  /** Wall time of the attacking call; 800 ms unless stated. */
  readonly timeoutMs?: number;
  /** Of the whole Glovebox, its neighbours and the tool's top level included. */
  readonly limits?: PartialLimits;
  readonly capabilities?: readonly Capability[];
  /** Engine features that the attacking tool has. */
  readonly features?: readonly EngineFeature[];
  /** What else must hold of the result. */
  readonly check?: (result: ToolResult) => void;
}

/** Nobody else in this process may wait longer than this for the event loop. */
export const MAX_LAG_MS = 500;

/** The longest that the event loop was held up, in ms. */
export function meterLag(): () => Promise<number> {
  const histogram = monitorEventLoopDelay({ resolution: 5 });
  histogram.enable();
  return async () => {
    // The meter is a timer: what has just been held up is counted at its next turn.
    await pause(20);
    histogram.disable();
    return histogram.max / 1e6;
  };
}

const NEIGHBOUR = { id: "neighbour", toolName: "neighbour", arguments: { n: 20 } };
const callNeighbour = (box: Glovebox): Promise<ToolResult> => box.execute(NEIGHBOUR, { tenantId: "neighbour" });
/** Every file has the same neighbour: it is built and learned once. */
const CACHE = { directory: join(tmpdir(), "glovebox-hostile-cache") };

/** The attacking call's result, or the error of addTool where the attack is in the tool's top level. */
async function strike(box: Glovebox, attack: Attack): Promise<ToolResult | ToolError> {
  try {
    const grant = [...(attack.capabilities ?? []).map(({ name }) => name), ...(attack.features ?? [])];
    await box.addTool({ name: "attack", source: attack.source }, { tenantId: "evil", grant });
  } catch (thrown) {
    if (thrown instanceof ToolError) return thrown;
    throw thrown;
  }
  const { timeoutMs = 800 } = attack;
  return await box.execute({ id: "evil", toolName: "attack" }, { tenantId: "evil", timeoutMs });
}

/** Registers one test. An attack's limits are low unless stated, so that each attack ends soon. */
export function testAttack(name: string, attack: Attack): void {
  test(`${name}: ${attack.codes.join(" or ")}, and the host is none the worse`, async () => {
    const limits = { timeoutMs: 10_000, memoryMiB: 64, ...attack.limits };
    await using box = await makeBox({ cache: CACHE, limits, capabilities: attack.capabilities });
    await box.addTool({ name: "neighbour", source: "export default ({ n }) => n * 2.1" });
    expect(outputOf(await callNeighbour(box))).toBe(42);
    const lag = meterLag();
    const [result, meanwhile] = await Promise.all([strike(box, attack), callNeighbour(box)]);
    const lagMs = await lag();
    const code = result instanceof ToolError ? result.code : codeOf(result);
    expect(attack.codes, result instanceof ToolError ? result.message : JSON.stringify(result).slice(0, 300)).toContain(
      code,
    );
    expectPublishable(result instanceof ToolError ? result.toData("attack") : result);
    if (!(result instanceof ToolError)) attack.check?.(result);
    expect([outputOf(meanwhile), outputOf(await callNeighbour(box))]).toEqual([42, 42]);
    expect(lagMs).toBeLessThan(MAX_LAG_MS);
    await expectIdle(() => box.workerPids);
  });
}
