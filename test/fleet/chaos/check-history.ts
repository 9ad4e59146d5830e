// Checks a history against the model of a call: a register that is absent, then open, then has one final value for ever. A history is correct if
// each operation can take effect at one moment between its invocation and its return so that the model explains everything that was seen.
import type { CallView, History, Operation, ToolStep } from "./history.ts";

export const RULES = {
  lost: "An accepted call has no final state",
  "two calls": "An idempotency key, or one request, led to several calls",
  "goes back": "A read shows an earlier state than a read before it",
  "value changes": "The final value of a call changes",
  "result before acceptance": "A result or an execution was seen before the call was requested",
  "false effects": "The record says that no line of the tool has run, and one has",
  "ran twice": "A tool that is not idempotent has run twice",
  "unknown result": "The output is not that of an execution that has reached its end",
} as const;
export type Rule = keyof typeof RULES;

export interface Violation {
  readonly rule: Rule;
  readonly n: number;
  readonly details: unknown;
}

const FINAL: ReadonlySet<string> = new Set(["succeeded", "failed", "cancelled"]);
const isFinal = (view: CallView | undefined): view is CallView => view !== undefined && FINAL.has(view.state);

/** Position of what an operation saw in the life of a call. The only legal order of positions is upwards. */
function positionOf({ view, isMissing }: Operation): number | undefined {
  if (view !== undefined) return isFinal(view) ? 2 : 1;
  return isMissing === true ? 0 : undefined;
}

const valueTextOf = ({ callId, state, effects, code, output }: CallView): string =>
  JSON.stringify({ callId, state, effects, code, output });

interface Evidence {
  readonly n: number;
  readonly operations: readonly Operation[];
  readonly steps: readonly ToolStep[];
  readonly records: readonly CallView[];
  readonly isIdempotent: boolean;
}

type Check = (evidence: Evidence) => Iterable<readonly [Rule, unknown]>;

/** Every call that was accepted ends. One whose client got its result has ended; its record is written soon, and may die with its server. */
function* checkNotLost({ operations, records }: Evidence): ReturnType<Check> {
  const accepted = operations.find(({ kind, view }) => kind === "submit" && view !== undefined);
  if (accepted !== undefined && !records.some(isFinal)) yield ["lost", { accepted, records }];
  for (const record of records) if (!isFinal(record)) yield ["lost", record];
}

function* checkOneCall({ operations, steps, records }: Evidence): ReturnType<Check> {
  const ids = new Set([
    ...operations.flatMap(({ view }) => view?.callId ?? []),
    ...[...steps, ...records].map(({ callId }) => callId),
  ]);
  if (ids.size > 1 || records.length > 1) yield ["two calls", [...ids]];
}

/**
 * A register whose positions only grow is linearizable exactly if no operation sees a lower position than one that had returned before it was
 * invoked: the others overlap, and can take effect in either order.
 */
function* checkOrder({ operations }: Evidence): ReturnType<Check> {
  const seen = operations.flatMap((operation) => {
    const position = positionOf(operation);
    return position === undefined || operation.returnedAt === undefined
      ? []
      : [{ position, invokedAt: operation.invokedAt, returnedAt: operation.returnedAt, operation }];
  });
  const byReturn = seen.toSorted((a, b) => a.returnedAt - b.returnedAt);
  const byInvocation = seen.toSorted((a, b) => a.invokedAt - b.invokedAt);
  let highest: (typeof seen)[number] | undefined;
  let next = 0;
  for (const later of byInvocation) {
    for (; next < byReturn.length; next += 1) {
      const earlier = byReturn[next] as (typeof seen)[number];
      if (earlier.returnedAt >= later.invokedAt) break;
      // A synchronous call's record is written after its response: its absence is not a step back.
      if (earlier.operation.kind === "call") continue;
      if (highest === undefined || earlier.position > highest.position) highest = earlier;
    }
    if (highest !== undefined && later.position < highest.position)
      yield ["goes back", { before: highest.operation, after: later.operation }];
  }
}

function* checkValue({ operations, records }: Evidence): ReturnType<Check> {
  const values = new Set([...operations.map(({ view }) => view), ...records].filter(isFinal).map(valueTextOf));
  if (values.size > 1) yield ["value changes", [...values]];
}

function* checkBeginning({ operations, steps, records }: Evidence): ReturnType<Check> {
  const requests = operations.filter(({ kind }) => kind !== "read");
  const first = Math.min(...requests.map(({ invokedAt }) => invokedAt));
  const early = [
    ...operations.filter(({ view, returnedAt = Number.POSITIVE_INFINITY }) => view !== undefined && returnedAt < first),
    ...steps.filter(({ at }) => at < first),
  ];
  if (early.length > 0 || (requests.length === 0 && records.length > 0)) yield ["result before acceptance", early];
}

function* checkEffects({ operations, steps, records }: Evidence): ReturnType<Check> {
  const final = [...operations.map(({ view }) => view), ...records].filter(isFinal);
  for (const view of final) {
    // Whenever it has run: also after the record was written.
    if (view.effects === "none" && steps.some(({ callId }) => callId === view.callId)) yield ["false effects", view];
    if (view.state === "succeeded" && view.effects !== "complete") yield ["false effects", view];
  }
}

function* checkRuns({ steps, isIdempotent }: Evidence): ReturnType<Check> {
  if (isIdempotent) return;
  for (const step of ["begun", "done"] as const) {
    const tokens = new Set(steps.filter((one) => one.step === step).map(({ token }) => token));
    if (tokens.size > 1) yield ["ran twice", { step, tokens: [...tokens] }];
  }
}

/** A result counts only if an execution of this call has produced it, before it was seen. */
function* checkOutput({ n, operations, steps, records }: Evidence): ReturnType<Check> {
  const seen = [
    ...operations.map(({ view, returnedAt }) => ({ view, at: returnedAt ?? Number.POSITIVE_INFINITY })),
    ...records.map((view) => ({ view, at: Number.POSITIVE_INFINITY })),
  ];
  for (const { view, at } of seen) {
    if (view?.state !== "succeeded") continue;
    const output = JSON.parse(view.output ?? "null") as { readonly n?: unknown; readonly run?: unknown } | null;
    const source = steps.find(({ step, token }) => step === "done" && token === output?.run);
    if (output?.n !== n || source === undefined || source.callId !== view.callId || source.at > at)
      yield ["unknown result", { view, source }];
  }
}

const CHECKS: readonly Check[] = [
  ...[checkNotLost, checkOneCall, checkOrder, checkValue],
  ...[checkBeginning, checkEffects, checkRuns, checkOutput],
];

/** Returns everything that the model does not explain. An empty list is a correct history. */
export function checkHistory({ operations, steps, records, isIdempotent }: History): readonly Violation[] {
  const operationsOf = Map.groupBy(operations, ({ n }) => n);
  const stepsOf = Map.groupBy(steps, ({ n }) => n);
  const recordsOf = Map.groupBy(records, ({ n }) => n);
  const numbers = new Set([...operationsOf.keys(), ...stepsOf.keys(), ...recordsOf.keys()]);
  return [...numbers].flatMap((n) => {
    const evidence: Evidence = {
      n,
      operations: operationsOf.get(n) ?? [],
      steps: stepsOf.get(n) ?? [],
      records: recordsOf.get(n) ?? [],
      isIdempotent: isIdempotent(n),
    };
    return CHECKS.flatMap((check) => [...check(evidence)].map(([rule, details]) => ({ rule, n, details })));
  });
}
