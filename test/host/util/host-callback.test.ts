// Callbacks of the host: every kind of failure becomes an outcome, never an unhandled rejection.
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { notifySafely, runCallback } from "../../../src/host/util/host-callback.ts";
import {
  CALLBACK_ERROR_MESSAGE,
  FAILING_CALLBACKS,
  inOtherRealm,
  toThenable,
} from "../../support/failing-callbacks.ts";
import { watchRejections } from "../../support/unhandled-rejections.ts";

test.for(FAILING_CALLBACKS)("a callback that %s is a failure with its cause", async ([, run]) => {
  const outcome = await runCallback(run, { timeoutMs: 10_000 });
  expect(outcome).toMatchObject({ failed: "threw", cause: { message: CALLBACK_ERROR_MESSAGE } });
});

test.for(FAILING_CALLBACKS)("a listener that %s is ignored", async ([, run]) => {
  const unhandled = watchRejections();
  notifySafely(run);
  expect(await unhandled()).toEqual([]);
});

test("an answer that is not a promise is returned synchronously", () => {
  expect(runCallback(() => 7, { timeoutMs: 0 })).toEqual({ answer: 7 });
});

test.for([
  ["a promise", () => Promise.resolve(7)],
  ["a promise of another realm", () => inOtherRealm("Promise.resolve(7)")],
  ["a thenable", () => toThenable((resolve) => resolve(7))],
] as const)("waits for the answer of %s", async ([, run]) => {
  expect(await runCallback(run, { timeoutMs: 10_000 })).toEqual({ answer: 7 });
});

test("a callback that never answers times out", async () => {
  const outcome = await runCallback(() => new Promise(() => {}), { timeoutMs: 5 });
  expect(outcome).toEqual({ failed: "timed out", cause: undefined });
});

test("a rejection after the timeout is handled", async () => {
  const { promise, reject } = Promise.withResolvers<never>();
  expect(await runCallback(() => promise, { timeoutMs: 1 })).toMatchObject({ failed: "timed out" });
  reject(new Error("late"));
  await nextTurn();
});

test("an abort ends the wait with the signal's reason", async () => {
  const controller = new AbortController();
  const reason = new Error("the caller has left");
  const waiting = runCallback(() => new Promise(() => {}), { timeoutMs: 10_000, signal: controller.signal });
  controller.abort(reason);
  expect(await waiting).toEqual({ failed: "aborted", cause: reason });
});
