// An attack of several calls: state that one call leaves for the next, for another tenant, or for the host.
import { test } from "vitest";
import type { Capability } from "../../../src/host/capabilities/capability.ts";
import type { Placement } from "../../../src/host/config/glovebox-options.ts";
import type { CallContext, ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import type { JsonValue } from "../../../src/sandbox/contract/errors.ts";
import type { PartialLimits } from "../../../src/sandbox/contract/limits.ts";
import type { IsolateLifetime } from "../../../src/sandbox/protocol/message-fields.ts";
import { outputOf } from "../../support/host-zone.ts";
import { promptly } from "../assertions.ts";
import { openGlovebox, whileNeighboursWork } from "../support.ts";

export interface Stage {
  readonly glovebox: Glovebox;
  /** Makes one call of the tool. Default tenant: `evil`. */
  run(args?: JsonValue, context?: CallContext): Promise<ToolResult>;
  /** Makes one call and returns its output. */
  call(args?: JsonValue, context?: CallContext): Promise<JsonValue>;
  /**
   * Calls until the output is not that of a first call in its isolate, and returns it: on a busy machine, a call may run in a second process
   * of its tenant, in another isolate.
   */
  callAgain(firstOutput: JsonValue, context?: CallContext): Promise<JsonValue>;
}

export interface Play<Value> {
  /** The source of the whole tool, which is read when the tool is added. Every tenant may call it. */
  readonly source: string;
  readonly isolateLifetime?: IsolateLifetime;
  readonly placement?: Placement;
  readonly limits?: PartialLimits;
  readonly capabilities?: readonly Capability[];
  readonly play: (stage: Stage) => Promise<Value>;
  /** Checks the results. It may take any time. */
  readonly judge: (value: Value) => void;
}

/** Registers one test. The calls run while two other tenants work, under the same assertions as every attack. */
export function testPlay<Value>(name: string, options: Play<Value>): void {
  test(`${name}: has no effect`, () => promptly(() => perform(options)));
}

async function perform<Value>(options: Play<Value>): Promise<void> {
  const { isolateLifetime, placement, limits = {}, capabilities = [], play, judge } = options;
  await using glovebox = await openGlovebox({ limits, placement, capabilities });
  const grant = capabilities.map((capability) => capability.name);
  const value = await whileNeighboursWork(glovebox, limits, async () => {
    await glovebox.addTool({ name: "attack", source: options.source }, { scope: "global", grant, isolateLifetime });
    const run: Stage["run"] = (args = {}, context = {}) =>
      glovebox.execute(
        { id: "evil", toolName: "attack", arguments: args },
        { tenantId: "evil", timeoutMs: 120_000, ...context },
      );
    const call: Stage["call"] = async (args, context) => outputOf(await run(args, context));
    const callAgain: Stage["callAgain"] = async (firstOutput, context) => {
      for (;;) {
        const output = await call({}, context);
        if (output !== firstOutput) return output;
      }
    };
    return await play({ glovebox, run, call, callAgain });
  });
  judge(value);
}
