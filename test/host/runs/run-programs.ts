// Programs for durable runs, and a tool that interprets them: awaits, parallel calls, timers, errors, random numbers and the clock, nested. Their output
// does not depend on real time: reads and waits are answered in order, all errors and events are alike, and where a timer takes part in a race, the
// winner is not in the output but in the argument of a call. A winner that differs when the run is repeated makes it diverge.
import fc from "fast-check";
import type { RunRecord } from "../../../src/host/runs/run-store.ts";
import type { Runs } from "../../../src/host/runs/runs.ts";

export type Step =
  | { readonly op: "step" | "wait" | "log" | "random" | "clock" | "act" | "throw"; readonly key: string }
  | { readonly op: "timer"; readonly ms: number }
  | {
      readonly op: "seq" | "all" | "race" | "any" | "timedRace" | "timedAny" | "allSettled" | "try" | "finally";
      readonly of: readonly Step[];
    };

const key = fc.constantFrom("a", "b", "c");
const { step, list } = fc.letrec<{
  step: Step;
  list: readonly Step[];
  plain: Step;
  plains: readonly Step[];
  timed: Step;
  timeds: readonly Step[];
}>((tie) => ({
  plain: fc.oneof(
    fc.record({ op: fc.constantFrom("step", "wait"), key }),
    fc.record({ op: fc.constant("throw"), key }),
  ) as fc.Arbitrary<Step>,
  plains: fc.array(tie("plain"), { minLength: 1, maxLength: 3 }),
  // None of them fails, so the winner decides nothing else.
  timed: fc.oneof(
    fc.record({ op: fc.constantFrom("step", "wait", "act"), key }),
    fc.record({ op: fc.constant("timer"), ms: fc.constantFrom(0, 1, 2) }),
  ) as fc.Arbitrary<Step>,
  timeds: fc.array(tie("timed"), { minLength: 2, maxLength: 3 }),
  step: fc.oneof(
    { maxDepth: 3, depthSize: "small" },
    fc.record({ op: fc.constantFrom("step", "wait", "wait", "log", "random", "clock", "act"), key }),
    fc.record({ op: fc.constant("timer"), ms: fc.constantFrom(0, 1, 2) }),
    fc.record({ op: fc.constant("throw"), key }),
    fc.record({ op: fc.constantFrom("race", "any"), of: tie("plains") }),
    fc.record({ op: fc.constantFrom("timedRace", "timedAny"), of: tie("timeds") }),
    fc.record({ op: fc.constantFrom("seq", "all", "allSettled", "try", "finally"), of: tie("list") }),
  ) as fc.Arbitrary<Step>,
  list: fc.array(tie("step"), { minLength: 1, maxLength: 4 }),
}));
export const programs: fc.Arbitrary<Step> = fc.oneof(
  { arbitrary: step, weight: 1 },
  { arbitrary: fc.record({ op: fc.constantFrom("seq", "all", "allSettled", "try"), of: list }), weight: 2 },
) as fc.Arbitrary<Step>;

/** Interprets a program. A random number or a time that differs when the run is repeated is another argument, so the run diverges. */
export const PROGRAM_TOOL = `
  export const capabilities = { kv: true, waitFor: true, act: true };
  export default async ({ program }, ctx) => {
    const steps = {
      step: ({ key }) => ctx.kv.get(key).then(() => "step " + key),
      wait: ({ key }) => ctx.waitFor({ event: key }),
      // Not repeatable: a call that was under way when the process died is not made again. Each has an argument of its own.
      act: () => ctx.act("act " + Math.random()).catch((error) => { if (error.code !== "EFFECTS_POSSIBLE") throw error; }).then(() => "acted"),
      log: ({ key }) => ctx.log(key),
      random: () => ctx.kv.get("random " + Math.random()).then(() => "random"),
      clock: () => ctx.kv.get("clock " + Date.now()).then(() => "clock"),
      timer: ({ ms }) => new Promise((resolve) => setTimeout(resolve, ms, "timer " + ms)),
      throw: async () => { throw new Error("thrown"); },
      seq: async ({ of }) => { const all = []; for (const one of of) all.push(await run(one)); return all; },
      try: async ({ of }) => { try { for (const one of of) await run(one); return "tried"; } catch (error) { return "caught " + (error.errors?.length ?? error.message); } },
      finally: async ({ of: [last, ...of] }) => { try { const all = []; for (const one of of) all.push(await run(one)); return all; } finally { await run(last); } },
      all: ({ of }) => Promise.all(of.map(run)),
      race: ({ of }) => Promise.race(of.map(run)),
      any: ({ of }) => Promise.any(of.map(run)),
      timedRace: ({ of }) => Promise.race(of.map(run)).then((won) => ctx.kv.get("won " + won)).then(() => "won"),
      timedAny: ({ of }) => Promise.any(of.map(run)).then((won) => ctx.kv.get("won " + won)).then(() => "won"),
      allSettled: ({ of }) => Promise.allSettled(of.map(run)).then((all) => all.map(({ status, value, reason }) => [status, value, reason?.message])),
    };
    const run = (one) => steps[one.op](one);
    return await run(program).catch((error) => ["error", error.name, error.message]);
  };`;

const MAX_SIGNALS = 100;

/** Gives a run the first event that it waits for, until it has ended. @returns undefined if its process cannot go on */
export async function driveToEnd(runs: Runs, run: RunRecord | undefined): Promise<RunRecord | undefined> {
  let current = run;
  for (let signals = 0; current?.state === "suspended" && signals < MAX_SIGNALS; signals += 1) {
    const [wait] = current.waits;
    const signal = { event: wait?.name ?? "", value: `event ${wait?.name}` };
    current = await runs.signal(current.id, signal).catch(() => undefined);
  }
  return current;
}

/** What a run has in the end, as text. */
export const endOf = (run: RunRecord | undefined): string => {
  const { result } = run ?? {};
  return JSON.stringify([run?.state, result?.success === true ? result.output : result?.error]);
};
