// Tests BuildProcesses: which builds share a process, and when processes end.
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { toBuildRequest } from "../../src/bundler/bundle-tool.ts";
import type { BuildRequest } from "../../src/bundler/compile/child/build-messages.ts";
import { BuildProcesses } from "../../src/bundler/compile/child/build-processes.ts";
import { locateTool } from "../../src/bundler/locate/tool-location.ts";
import { DEFAULT_BUNDLE_LIMITS } from "../../src/bundler/tool-bundle.ts";
import { descendants, failureOf, REPOSITORY } from "./workbench.ts";

/** Of builds, and of processes that wait for the next one: more than a busy machine needs for several builds. */
const PATIENT_MS = 200_000;
const before = new Set(descendants());
const children = (): readonly number[] => descendants().filter((pid) => !before.has(pid));

function request(source: string): BuildRequest {
  const options = { root: REPOSITORY, limits: { ...DEFAULT_BUNDLE_LIMITS, timeoutMs: PATIENT_MS } };
  return toBuildRequest(locateTool({ source }, options, options.limits), options);
}

afterEach(async () => {
  await expect.poll(children).toEqual([]);
});

describe("BuildProcesses", () => {
  test("builds again in the process of an owner", async () => {
    await using processes = new BuildProcesses({ maxIdle: 2, idleMs: PATIENT_MS });
    const first = await processes.run(request("export default 1"), "a");
    const running = children();
    const second = await processes.run(request("export default 2"), "a");
    expect([first.isFirst, second.isFirst]).toEqual([true, false]);
    expect(running).toHaveLength(2);
    expect(children()).toEqual(running);
    expect(second.response).toMatchObject({ ok: true, code: expect.stringContaining("2") });
  });

  test("finds the dynamic code of each tool that is built in one process", async () => {
    await using processes = new BuildProcesses({ maxIdle: 2, idleMs: PATIENT_MS });
    const found: (readonly string[])[] = [];
    for (const source of ["eval('1')", "1", "eval('1')", "eval('2')"]) {
      const { response } = await processes.run(request(`export default ${source}`), "a");
      found.push(response.ok ? response.dynamicCode : ["no response"]);
    }
    expect(found.map(({ length }) => length)).toEqual([1, 0, 1, 1]);
  });

  test("uses no process of another owner, and none twice without an owner", async () => {
    await using processes = new BuildProcesses({ maxIdle: 4, idleMs: PATIENT_MS });
    for (const owner of ["a", "b", undefined, undefined]) {
      expect((await processes.run(request("export default 1"), owner)).isFirst).toBe(true);
    }
    expect(children()).toHaveLength(4);
  });

  test("ends a process after a failed build", async () => {
    await using processes = new BuildProcesses({ maxIdle: 2, idleMs: PATIENT_MS });
    expect((await processes.run(request("export default ("), "a")).response.ok).toBe(false);
    expect((await processes.run(request("export default 1"), "a")).isFirst).toBe(true);
  });

  test("builds in a new process if the owner's has died", async () => {
    await using processes = new BuildProcesses({ maxIdle: 2, idleMs: PATIENT_MS });
    await processes.run(request("export default 1"), "a");
    for (const pid of children()) process.kill(pid, "SIGKILL");
    const again = await processes.run(request("export default 2"), "a");
    expect(again).toMatchObject({ isFirst: true, response: { ok: true } });
  });

  test("keeps a limited number of processes, and ends those of an owner on request", async () => {
    await using processes = new BuildProcesses({ maxIdle: 2, idleMs: PATIENT_MS });
    for (const owner of ["a", "b", "c"]) await processes.run(request("export default 1"), owner);
    await expect.poll(() => children().length).toBe(4);
    expect((await processes.run(request("export default 2"), "b")).isFirst).toBe(false);
    await processes.endOwner("b");
    expect(children()).toHaveLength(2);
    expect((await processes.run(request("export default 3"), "c")).isFirst).toBe(false);
  });

  test("ends an aborted build's process", async () => {
    await using processes = new BuildProcesses({ maxIdle: 2, idleMs: PATIENT_MS });
    await processes.run(request("export default 1"), "a");
    const controller = new AbortController();
    const hanging = `export default ${"(a=".repeat(30_000)}1${")=>1".repeat(30_000)}`;
    const building = failureOf(processes.run(request(hanging), "a", controller.signal));
    await sleep(50);
    controller.abort();
    expect((await building).code).toBe("CANCELLED");
    expect(children()).toEqual([]);
  });
});
