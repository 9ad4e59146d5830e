// Detects unhandled rejections. Outside of tests each of them ends the process.
import { setImmediate as turn } from "node:timers/promises";
import { onTestFinished } from "vitest";

/** Collects unhandled rejections from here to the end of the test; the returned function waits two turns and returns those so far. */
export function watchRejections(): () => Promise<readonly unknown[]> {
  const rejections: unknown[] = [];
  const listener = (reason: unknown): void => {
    rejections.push(reason);
  };
  process.on("unhandledRejection", listener);
  onTestFinished(() => {
    process.off("unhandledRejection", listener);
  });
  return async () => {
    await turn();
    await turn();
    return rejections;
  };
}
