// The checker of the chaos test accepts histories that the model of a call explains, and rejects each kind of history that it does not.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { checkHistory, type Rule } from "./chaos/check-history.ts";
import type { CallView, History, Operation, ToolStep } from "./chaos/history.ts";

const view = (more: Partial<CallView> = {}): CallView => ({
  callId: "call-1",
  state: "succeeded",
  effects: "complete",
  code: null,
  output: JSON.stringify({ n: 1, run: "t1" }),
  ...more,
});
const OPEN = view({ state: "running", effects: "possible", output: null });
const FAILED = view({ state: "failed", effects: "possible", code: "SANDBOX_CRASHED", output: null });
const DENIED = view({ state: "failed", effects: "none", code: "OVERLOADED", output: null });

const submit = (invokedAt: number, more: Partial<Operation> = {}): Operation => ({
  kind: "submit",
  n: 1,
  invokedAt,
  returnedAt: invokedAt + 5,
  view: OPEN,
  ...more,
});
const read = (invokedAt: number, seen: CallView | "missing", returnedAt = invokedAt + 5): Operation => ({
  kind: "read",
  n: 1,
  invokedAt,
  returnedAt,
  ...(seen === "missing" ? { isMissing: true } : { view: seen }),
});
const call = (invokedAt: number, seen: CallView): Operation => ({
  kind: "call",
  n: 1,
  invokedAt,
  returnedAt: invokedAt + 30,
  view: seen,
});
const step = (at: number, name: "begun" | "done", token = "t1", callId = "call-1"): ToolStep => ({
  n: 1,
  callId,
  token,
  step: name,
  at,
});
const RUN = [step(10, "begun"), step(20, "done")];
const DONE = { ...view(), n: 1 };

interface Case {
  readonly operations: readonly Operation[];
  readonly steps?: readonly ToolStep[];
  readonly records?: History["records"];
  readonly isIdempotent?: boolean;
}
const check = ({ operations, steps = RUN, records = [DONE], isIdempotent = false }: Case): readonly Rule[] => [
  ...new Set(checkHistory({ operations, steps, records, isIdempotent: () => isIdempotent }).map(({ rule }) => rule)),
];

describe("a correct history", () => {
  const twice = [step(10, "begun"), step(12, "begun", "t2"), step(20, "done", "t2")];
  const second = view({ output: JSON.stringify({ n: 1, run: "t2" }) });
  test.for<readonly [string, Case]>([
    ["a call with its result", { operations: [call(0, view())] }],
    ["a call whose response is lost", { operations: [{ kind: "call", n: 1, invokedAt: 0 }] }],
    [
      "a call without response and record",
      { operations: [{ kind: "call", n: 1, invokedAt: 0 }], steps: [], records: [] },
    ],
    ["a call whose server died before the record was written", { operations: [call(0, view())], records: [] }],
    ["a queued call with reads", { operations: [submit(0), read(6, OPEN), read(40, view())] }],
    ["a repeated request", { operations: [{ kind: "submit", n: 1, invokedAt: 0 }, submit(7), read(40, view())] }],
    ["reads that overlap", { operations: [submit(0), read(30, view(), 60), read(35, OPEN, 50)] }],
    [
      "an idempotent tool that ran twice",
      { operations: [submit(0)], steps: twice, records: [{ ...second, n: 1 }], isIdempotent: true },
    ],
    [
      "a call that failed before it began",
      { operations: [call(0, DENIED)], steps: [], records: [{ ...DENIED, n: 1 }] },
    ],
    [
      "a call that was lost after it began",
      { operations: [submit(0)], steps: [step(10, "begun")], records: [{ ...FAILED, n: 1 }] },
    ],
  ])("is accepted: %s", ([, history]) => {
    expect(check(history)).toEqual([]);
  });

  test("is accepted whenever the reads of a call occur and however they overlap", () => {
    const reads = fc.array(fc.record({ at: fc.integer({ min: 1, max: 100 }), before: fc.nat(20), after: fc.nat(20) }));
    fc.assert(
      fc.property(reads, (all) => {
        // Each takes effect at one moment: before 50 the call is open, from then on it has ended.
        const operations = all.map(({ at, before, after }) =>
          read(at - before, at < 50 ? OPEN : view(), at + after + 1),
        );
        expect(check({ operations: [submit(-100), ...operations] })).toEqual([]);
      }),
    );
  });
});

describe("an incorrect history", () => {
  const other = view({ callId: "call-2" });
  test.for<readonly [Rule, string, Case]>([
    ["lost", "an accepted call without a record", { operations: [submit(0)], steps: [], records: [] }],
    ["lost", "a record that stays open", { operations: [submit(0)], steps: [], records: [{ ...OPEN, n: 1 }] }],
    [
      "lost",
      "an open record of a call without response",
      { operations: [{ kind: "submit", n: 1, invokedAt: 0 }], steps: [], records: [{ ...OPEN, n: 1 }] },
    ],
    [
      "two calls",
      "a key with two calls",
      { operations: [submit(0), submit(7, { view: { ...OPEN, callId: "call-2" } })] },
    ],
    ["two calls", "two records of one request", { operations: [call(0, view())], records: [DONE, { ...other, n: 1 }] }],
    [
      "two calls",
      "an execution under another call",
      { operations: [submit(0)], steps: [...RUN, step(30, "begun", "t2", "call-2")] },
    ],
    ["goes back", "an open call after its end", { operations: [submit(0), read(40, view()), read(50, OPEN)] }],
    ["goes back", "an accepted call that is missing", { operations: [submit(0), read(10, "missing")] }],
    ["goes back", "an ended call that is missing", { operations: [submit(0), read(40, view()), read(50, "missing")] }],
    ["value changes", "a failed call that succeeds later", { operations: [submit(0), read(30, FAILED)] }],
    [
      "value changes",
      "a result that a late execution replaces",
      {
        operations: [submit(0), read(30, view()), read(50, view({ output: JSON.stringify({ n: 1, run: "t2" }) }))],
        steps: [...RUN, step(12, "begun", "t2"), step(40, "done", "t2")],
        isIdempotent: true,
      },
    ],
    ["value changes", "a record that differs from the response", { operations: [call(0, FAILED)] }],
    [
      "value changes",
      "effects that change",
      { operations: [submit(0), read(30, { ...FAILED, effects: "none" })], steps: [], records: [{ ...FAILED, n: 1 }] },
    ],
    ["result before acceptance", "a result before the request", { operations: [read(-20, view(), -15), submit(0)] }],
    ["result before acceptance", "an execution before the request", { operations: [submit(15)] }],
    [
      "result before acceptance",
      "a record that no one requested",
      { operations: [], steps: [], records: [{ ...DENIED, n: 1 }] },
    ],
    [
      "false effects",
      "a call without effects whose tool had begun",
      { operations: [call(0, DENIED)], steps: [step(10, "begun")], records: [] },
    ],
    [
      "false effects",
      "a tool that runs after its call has ended without effects",
      { operations: [call(0, DENIED)], steps: [step(90, "begun")], records: [] },
    ],
    [
      "false effects",
      "a success with effects that are only possible",
      { operations: [call(0, view({ effects: "possible" }))], records: [] },
    ],
    ["ran twice", "a tool that began twice", { operations: [submit(0)], steps: [...RUN, step(30, "begun", "t2")] }],
    ["ran twice", "a tool that ended twice", { operations: [submit(0)], steps: [...RUN, step(30, "done", "t2")] }],
    ["unknown result", "a result that no execution has produced", { operations: [call(0, view())], steps: [] }],
    [
      "unknown result",
      "a result of an execution that has only begun",
      { operations: [call(0, view())], steps: [step(10, "begun")] },
    ],
    [
      "unknown result",
      "a result that was seen before its execution ended",
      { operations: [submit(0), read(12, view(), 15)] },
    ],
    [
      "unknown result",
      "the result of another call",
      { operations: [call(0, view({ output: JSON.stringify({ n: 2, run: "t1" }) }))], records: [] },
    ],
  ])("is rejected as %s: %s", ([rule, , history]) => {
    expect(check(history)).toContain(rule);
  });

  test("is rejected for the calls that are wrong only", () => {
    const second: Operation = { ...submit(0), n: 2, view: { ...OPEN, callId: "call-2" } };
    const violations = checkHistory({
      operations: [submit(0), second],
      steps: RUN,
      records: [DONE],
      isIdempotent: () => false,
    });
    expect(violations.map(({ rule, n }) => [rule, n])).toEqual([["lost", 2]]);
  });
});
