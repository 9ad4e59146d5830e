// Each of a hundred calls makes a hundred more: all that an outermost call may cause is counted together.
import { expect } from "vitest";
import type { NestedCall } from "../../../src/host/contract/tool-call.ts";
import { testAttack } from "../support.ts";

const fan = (next: string): string => `export default async (_, { tools }) =>
  (await Promise.allSettled(Array.from({ length: 100 }, () => tools.${next}()))).length;`;
const count = (calls: readonly NestedCall[] = []): number =>
  calls.reduce((sum, call) => sum + 1 + count(call.calls), 0);

testAttack("a bomb of calls", {
  source: fan("f1"),
  others: { f1: fan("f2"), f2: fan("f3"), f3: fan("f4"), f4: "export default () => 1" },
  features: ["tools"],
  limits: { nestedCalls: 60 },
  codes: ["TOOL_TIMEOUT", "OVERLOADED", "ok"],
  timeoutMs: 3_000,
  check: ({ calls }) => expect(count(calls)).toBeLessThanOrEqual(60),
});
