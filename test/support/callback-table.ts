// A conformance table for the functions that a host passes to Glovebox. Each is called in every way that can fail, and must end as its
// row says. Each row has a control: with a correct callback the same scenario ends "ok", so that no row passes by accident.
import { expect, test } from "vitest";
import { FAILING_CALLBACKS, inOtherRealm, toThenable } from "./failing-callbacks.ts";

/** `ok`: the tool ran and its caller got the result. `denied`: the caller got an error, and nothing ran that the callback guards. */
export type Outcome = "ok" | "denied";

// biome-ignore lint/suspicious/noExplicitAny: each row passes it where a function of another type is expected
export type Callback = (...args: any[]) => any;

export interface CallbackRow {
  /** As it is written in the options: `hooks[].validate`. */
  readonly name: string;
  /** Runs the scenario with a callback in its place. Must resolve within the callback's bound. */
  readonly run: (callback: Callback) => Promise<Outcome>;
  /** A callback that answers as it should. */
  readonly good: Callback;
  /** How the scenario ends with any of {@link MISBEHAVIOURS}: `ok` for a listener, `denied` for a guard or a source of values. */
  readonly bad: Outcome;
  /** Exceptions: misbehaviours that are a right answer of this callback, by name. */
  readonly except?: { readonly [misbehaviour: string]: Outcome };
}

const never = (): Promise<never> => new Promise(() => {});

/** Everything that a callback may do but should not. */
export const MISBEHAVIOURS: readonly (readonly [name: string, callback: Callback])[] = [
  ...FAILING_CALLBACKS,
  ["hangs", never],
  ["returns a thenable that hangs", () => toThenable(() => {})],
  ["returns undefined", () => undefined],
  ["returns a promise of undefined", async () => undefined],
  ["returns text", () => "yes"],
  ["returns a promise of text", async () => "yes"],
  ["returns a thenable of text", () => toThenable((resolve) => resolve("yes"))],
  ["returns an object of another realm", () => inOtherRealm("({ yes: true })")],
  ["returns a number", () => 1],
  ["returns a symbol", () => Symbol("yes")],
  ["returns an array", () => ["yes"]],
];

const HANGING: ReadonlySet<string> = new Set(["hangs", "returns a thenable that hangs"]);

/** Whether a callback is one of the {@link MISBEHAVIOURS} that never answer, for which its bound has to be waited for. */
export const isHanging = (callback: Callback): boolean =>
  MISBEHAVIOURS.some(([name, each]) => each === callback && HANGING.has(name));

/** Exceptions for a callback whose answer is not read: only what throws or hangs goes wrong. */
export const ANY_ANSWER: NonNullable<CallbackRow["except"]> = Object.fromEntries(
  MISBEHAVIOURS.filter(([name]) => /^returns (?!a thenable that|an object whose)/.test(name)).map(([name]) => [
    name,
    "ok",
  ]),
);

/** The longest bound of any callback is 5 s; the rest is for a busy machine. */
const WITHIN_MS = 200_000;

async function withinBound(run: Promise<Outcome>): Promise<Outcome | "no answer"> {
  const { promise, resolve } = Promise.withResolvers<"no answer">();
  const timer = setTimeout(() => resolve("no answer"), WITHIN_MS);
  try {
    return await Promise.race([run, promise]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Declares the tests of a table's rows. Rejections that nothing handles fail the run: vitest reports them.
 * @param isShared scenarios share an object that has one callback at a time, so that they run one after the other
 */
export function testCallbacks(rows: readonly CallbackRow[], { isShared = false } = {}): void {
  test.for(rows.map((row) => [row.name, row] as const))("%s admits with a good answer", async ([, { run, good }]) => {
    expect(await withinBound(run(good))).toBe("ok");
  });
  const cases = rows.flatMap((row) => MISBEHAVIOURS.map(([how, callback]) => [row.name, how, row, callback] as const));
  const timeout = WITHIN_MS + 10_000;
  const check = async ([, how, row, callback]: (typeof cases)[number]): Promise<void> => {
    expect(await withinBound(row.run(callback))).toBe(row.except?.[how] ?? row.bad);
  };
  const [waiting = [], prompt = []] = [true, false].map((isWaited) =>
    cases.filter(([, how]) => HANGING.has(how) === isWaited),
  );
  test.for(prompt)("%s that %s is safe", { timeout }, check);
  // Each waits for its callback's bound, seconds in which nothing is computed.
  (isShared ? test : test.concurrent).for(waiting)("%s that %s is safe", { timeout }, check);
}
