// ctx.onRollback: keeps the functions that a durable run registers, and runs them in reverse order when the worker rolls the run back. Each step is
// reported to the host as a request, so that the run's journal has it.
import { describeValue, toGuestError, truncateText } from "../../error-text.ts";
import {
  append,
  ErrorConstructor,
  PromiseConstructor,
  ReflectApply,
  secure,
  TypeErrorConstructor,
} from "../../primordials.ts";
import { startTimer } from "../../timers.ts";

const MAX_COMPENSATIONS = 1_000;
const MAX_NAME_LENGTH = 100;
const MAX_MESSAGE_LENGTH = 500;

type Compensation = (() => unknown) & { readonly name: unknown };
const compensations: Compensation[] = [];

/** Reports a step. Resolves when the journal has it. */
export type Report = (step: object) => Promise<unknown>;

/** Registers a function. Resolves when the journal has it. @throws {TypeError} for another value, and for too many */
export function register(run: unknown, report: Report): Promise<unknown> {
  if (typeof run !== "function")
    throw new TypeErrorConstructor(
      `ctx.onRollback() expected a function, got ${truncateText(describeValue(run), 200)}`,
    );
  const index = compensations.length;
  if (index >= MAX_COMPENSATIONS)
    throw new TypeErrorConstructor(`ctx.onRollback() registers at most ${MAX_COMPENSATIONS} functions`);
  append(compensations, run as Compensation);
  const { name } = run as Compensation;
  const shown = typeof name === "string" ? truncateText(name, MAX_NAME_LENGTH) : "";
  return report({ __proto__: null, op: "register", index, name: shown });
}

/** Runs a function for a limited time. */
const runLimited = (run: Compensation, timeoutMs: number): Promise<unknown> =>
  secure(
    new PromiseConstructor((resolve, reject) => {
      startTimer("ctx.onRollback", timeoutMs, () => {
        reject(new ErrorConstructor(`The function did not end within ${timeoutMs} ms`));
      });
      void (async () => {
        try {
          await (ReflectApply(run, undefined, []) as unknown);
          resolve(undefined);
        } catch (thrown) {
          reject(thrown);
        }
      })();
    }),
  );

/** Returns why a function failed; undefined if it has not. */
async function attempt(run: Compensation, timeoutMs: number): Promise<string | undefined> {
  try {
    await runLimited(run, timeoutMs);
    return undefined;
  } catch (thrown) {
    const { name, message } = toGuestError(thrown);
    return truncateText(`${name}: ${message}`, MAX_MESSAGE_LENGTH);
  }
}

/**
 * Runs all registered functions in reverse order.
 * @param forget forgets what the run waits for, so that nothing that was started before continues
 * @param timeoutMs limit of each function
 */
export async function rollBack(report: Report, forget: () => void, timeoutMs: number): Promise<void> {
  forget();
  for (let index = compensations.length - 1; index >= 0; index -= 1) {
    await report({ __proto__: null, op: "begin", index });
    const message = await attempt(compensations[index] as Compensation, timeoutMs);
    forget();
    await report({ __proto__: null, op: "end", index, ...(message === undefined ? {} : { message }) });
  }
  await report({ __proto__: null, op: "done" });
}
