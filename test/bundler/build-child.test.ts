// Tests the child process of a build: it starts without the environment of the host, and it is killed together with all processes that it started.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { build, descendants, failureOf, groupMembers, REPOSITORY } from "./workbench.ts";

/** Takes esbuild longer than any test. It is created as text, because it is too long for a command line. */
const HANGING_TEXT = '"export default " + "(a=".repeat(30_000) + "1" + ")=>1".repeat(30_000)';
const HANGING = `export default ${"(a=".repeat(30_000)}1${")=>1".repeat(30_000)}`;

const before = new Set(descendants());
const children = (): readonly number[] => descendants().filter((pid) => !before.has(pid));

async function until<Value>(get: () => Value | undefined): Promise<Value> {
  const deadline = performance.now() + 200_000;
  for (;;) {
    const value = get();
    if (value !== undefined) return value;
    if (performance.now() > deadline) throw new Error("Expected it to happen within 200 s");
    await sleep(10);
  }
}

/** Waits until both the child and its esbuild process run. */
async function bothRunning(): Promise<readonly number[]> {
  return await until(() => (children().length >= 2 ? children() : undefined));
}

afterEach(() => {
  expect(children()).toEqual([]);
});

describe("runBuild()", () => {
  test("leaves no process when a build succeeds or fails", async () => {
    await build({ source: "export default 1" });
    expect(children()).toEqual([]);
    await failureOf(build({ source: "export default (" }));
    expect(children()).toEqual([]);
  });

  test("kills the child and esbuild after the time limit", async () => {
    // A busy machine may need longer than the limit to start both.
    for (let timeoutMs = 1_500, hasStarted = false; !hasStarted; timeoutMs *= 4) {
      expect(timeoutMs).toBeLessThan(100_000);
      const building = failureOf(build({ source: HANGING }, { limits: { timeoutMs } }));
      let isOver = false;
      void building.then(() => (isOver = true));
      hasStarted = await until(() => (children().length >= 2 ? true : isOver ? false : undefined));
      const error = await building;
      expect(children()).toEqual([]);
      expect(error.code).toBe("BUNDLE_FAILED");
      expect(error.message).toBe(`Build timed out; the limit timeoutMs is ${timeoutMs} ms`);
    }
  });

  test("kills them when the caller aborts", async () => {
    const controller = new AbortController();
    const building = failureOf(build({ source: HANGING }, { signal: controller.signal }));
    await bothRunning();
    controller.abort();
    expect((await building).code).toBe("CANCELLED");
    expect(children()).toEqual([]);
  });

  test("starts nothing if the caller has already aborted", async () => {
    const error = await failureOf(build({ source: HANGING }, { signal: AbortSignal.abort() }));
    expect(error.code).toBe("CANCELLED");
  });

  test("starts the child without the environment of the host in its own process group", async () => {
    process.env.GLOVEBOX_TEST_SECRET = "hush";
    const controller = new AbortController();
    const building = failureOf(build({ source: HANGING }, { signal: controller.signal }));
    for (const pid of await bothRunning()) {
      expect(readFileSync(`/proc/${pid}/environ`, "utf8")).not.toContain("hush");
      expect(readFileSync(`/proc/${pid}/environ`, "utf8")).not.toContain("PATH=");
    }
    delete process.env.GLOVEBOX_TEST_SECRET;
    controller.abort();
    await building;
  });

  test("reports a child that dies", async () => {
    const building = failureOf(build({ source: HANGING }));
    const [child] = await bothRunning();
    process.kill(child ?? 0, "SIGKILL");
    expect((await building).message).toBe("The process of the bundler exited before it had built this source");
  });

  test("ends the child and esbuild when the parent is killed", async () => {
    const script = `
      import { bundleTool } from ${JSON.stringify(`${REPOSITORY}/src/bundler/bundle-tool.ts`)};
      import { DEFAULT_BUNDLE_LIMITS as limits } from ${JSON.stringify(`${REPOSITORY}/src/bundler/tool-bundle.ts`)};
      await bundleTool({ source: ${HANGING_TEXT} }, { limits: { ...limits, timeoutMs: 60_000 } });`;
    const parent = spawn(process.execPath, ["--input-type=module", "-e", script], { stdio: "ignore" });
    const grandchildren = await until(() => {
      const found = children().filter((pid) => pid !== parent.pid);
      return found.length >= 2 ? found : undefined;
    });
    const group = Math.min(...grandchildren);
    expect(groupMembers(group)).toHaveLength(2);
    parent.kill("SIGKILL");
    await once(parent, "exit");
    await until(() => (groupMembers(group).length === 0 ? true : undefined));
  });
});
