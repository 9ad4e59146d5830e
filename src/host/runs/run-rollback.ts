// Compensation of a durable run: the steps that the guest reports when it registers and runs the functions of ctx.onRollback, and the report in
// the run's result.
import * as z from "zod";
import { parseRequest } from "./run-wait.ts";

const index = z.int().min(0).max(1_000);

/** A step as the guest reports it: untrusted. */
export const RollbackStepSchema = z.discriminatedUnion("op", [
  z.strictObject({ op: z.literal("register"), index, name: z.string().max(200) }),
  z.strictObject({ op: z.literal("begin"), index }),
  /** `message`: why the function failed. */
  z.strictObject({ op: z.literal("end"), index, message: z.string().max(1_000).optional() }),
  /** All functions have run. */
  z.strictObject({ op: z.literal("done") }),
]);
export type RollbackStep = z.infer<typeof RollbackStepSchema>;

const InputSchema = z.strictObject({ rollback: RollbackStepSchema });

/** Returns the step in the input of a request; undefined if it has none. */
export function parseRollbackStep(text: string): RollbackStep | undefined {
  if (!text.startsWith('{"rollback":')) return undefined;
  return InputSchema.safeParse(parseRequest(text)).data?.rollback;
}

/** A function that a run registered with `ctx.onRollback`, and what became of it. `details.rollback` of a failed run has them all. */
export interface RunCompensation {
  /** Order of registration, from 0. The functions run in reverse order. */
  readonly index: number;
  /** Name of the function. */
  readonly name: string;
  /** `failed`: it threw, exceeded its time, or did not end; its effects are possible. `not_run`: the run could not be continued that far. */
  readonly state: "succeeded" | "failed" | "not_run";
  /** Why it failed. */
  readonly message?: string;
}

/** Returns the functions in the order in which they ran. */
export function toCompensations(steps: Iterable<RollbackStep>): readonly RunCompensation[] {
  const found = new Map<number, RunCompensation>();
  for (const step of steps) {
    if (step.op === "done") continue;
    const known = found.get(step.index);
    if (step.op === "register") found.set(step.index, { index: step.index, name: step.name, state: "not_run" });
    else if (known !== undefined && step.op === "begin")
      found.set(step.index, { ...known, state: "failed", message: "The function did not end" });
    else if (known !== undefined && step.op === "end") {
      const { message } = step;
      const { index: position, name } = known;
      found.set(step.index, {
        index: position,
        name,
        state: message === undefined ? "succeeded" : "failed",
        ...(message === undefined ? {} : { message }),
      });
    }
  }
  return [...found.values()].sort((a, b) => b.index - a.index);
}
