// Supervision of real processes: the fate of a call and of the next one when a process dies, stops, or cannot be stopped.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import type { GloveboxOptions } from "../../../src/host/config/glovebox-options.ts";
import type { CallContext, ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { HostFunction } from "../../../src/host/executors/host-function.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import type { CallRecording } from "../../../src/host/recording/recording.ts";
import { PlacedJob } from "../../../src/host/workers/pool-job.ts";
import { ProcessStarter } from "../../../src/host/workers/spawn/process-starter.ts";
import { onLoopback, serve } from "../../support/egress.ts";
import { codeOf, errorOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";
import { withMoreTime } from "../../support/more-time.ts";
import { expectDead, expectIdle, isAlive } from "../../support/processes.ts";

const SLOW =
  'export default async ({ ms = 5_000 }) => { console.log("begun"); await new Promise((done) => setTimeout(done, ms)); return "done"; }';

/** A few tools are reused, so that each is built only once. */
const CACHE = mkdtempSync(join(tmpdir(), "glovebox-workers-"));
afterAll(() => rmSync(CACHE, { recursive: true, force: true }));

async function gloveboxOf(
  tools: { readonly [name: string]: string },
  options: GloveboxOptions = {},
): Promise<Glovebox> {
  const glovebox = await makeGlovebox({ cache: { directory: CACHE }, tenancy: "multi", ...options });
  onTestFinished(() => glovebox.close());
  await Promise.all(
    Object.entries(tools).map(([name, source]) => glovebox.addTool({ name, source }, { scope: "global" })),
  );
  return glovebox;
}
const run = (glovebox: Glovebox, toolName: string, context?: CallContext, args: unknown = {}): Promise<ToolResult> =>
  glovebox.execute({ id: "c1", toolName, arguments: args }, { tenantId: "acme", ...context });

/** Whether the top level of a tool ran before its call was made, which is at `at`: the call has found a warm isolate. */
const IS_WARM = "const born = Date.now(); const isWarm = ({ at }) => born < at;";

/** Runs calls, with the time at which they are made, until one of them has found a warm isolate. */
async function untilWarm(call: (args: { readonly at: number }) => Promise<ToolResult>): Promise<void> {
  await expect.poll(async () => outputOf(await call({ at: Date.now() })), { interval: 50 }).toBe(true);
}

function signalAll(glovebox: Glovebox, signal: NodeJS.Signals): readonly number[] {
  const pids = glovebox.workerPids;
  for (const pid of pids) process.kill(pid, signal);
  return pids;
}

test("a host that is blocked after it cancels a call ends neither the process nor another call in it", async () => {
  const glovebox = await gloveboxOf({ slow: SLOW }, { workers: { max: 1 } });
  const controller = new AbortController();
  let begun = 0;
  const onLog = (): void => {
    begun += 1;
  };
  const cancelled = run(glovebox, "slow", { signal: controller.signal, onLog }, { ms: 600_000 });
  const other = run(glovebox, "slow", { onLog });
  await expect.poll(() => begun).toBe(2);
  const pids = glovebox.workerPids;
  controller.abort();
  await Promise.resolve();
  // The process reports meanwhile that the call has stopped, which the host has not read when its timers are due.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2_000);
  expect(codeOf(await cancelled)).toBe("CANCELLED");
  expect(outputOf(await other)).toBe("done");
  expect(glovebox.workerPids).toEqual(pids);
});

describe("a process that has received the most bundles allowed", () => {
  test("is replaced, and no call is lost", async () => {
    const text = "x".repeat(2_000_000);
    // Its code cache has the text again, and counts too.
    const names = Array.from({ length: 10 }, (_, index) => `big_${index}`);
    const source = (name: string): string =>
      `const text = "${text}"; export default async () => "${name}" + text.length;`;
    const glovebox = await gloveboxOf({}, { workers: { warmProcesses: 0 }, limits: { timeoutMs: 60_000 } });
    for (const name of names) await glovebox.addTool({ name, source: source(name) }, { scope: "global" });
    const call = async (name: string): Promise<void> =>
      expect(outputOf(await run(glovebox, name))).toBe(name + text.length);
    await call("big_0");
    await expect.poll(() => glovebox.workerPids).toHaveLength(1);
    const [first] = glovebox.workerPids;
    for (const name of names) await call(name);
    await call("big_0");
    // Checked at once: an idle process that has grown too large is ended a second later.
    expect(glovebox.workerPids).not.toContain(first);
  });
});

describe("a tool whose top level is run ahead", () => {
  test("starts its next calls at once, each in an isolate of its own", async () => {
    const glovebox = await gloveboxOf({
      counter: `${IS_WARM} let count = 0; export default (args) => [isWarm(args), (count += 1)];`,
    });
    await expect
      .poll(async () => outputOf(await run(glovebox, "counter", {}, { at: Date.now() })), { interval: 300 })
      .toEqual([true, 1]);
  });

  test("does not run twice when its process dies before it has sent anything", async () => {
    const quiet = `${IS_WARM}
      export default (args) => new Promise((done) => setTimeout(() => done(isWarm(args)), args.ms));`;
    const glovebox = await gloveboxOf({ quiet });
    // It says nothing that could be waited for. A call that had not begun runs again: then the next one gets more time to begin.
    for (let beginsWithinMs = 100; ; beginsWithinMs *= 4) {
      await untilWarm(({ at }) => run(glovebox, "quiet", {}, { ms: 0, at }));
      const stop = new AbortController();
      let ended: ToolResult | undefined;
      const call = run(glovebox, "quiet", { signal: stop.signal }, { ms: 60_000 }).then((result) => {
        ended = result;
      });
      await expect.poll(() => glovebox.listCalls({ scope: "all" }).map(({ state }) => state)).toEqual(["running"]);
      await pause(beginsWithinMs);
      const killed = signalAll(glovebox, "SIGKILL");
      const runsAgain = (): boolean => glovebox.workerPids.some((pid) => !killed.includes(pid));
      await expect.poll(() => ended !== undefined || runsAgain()).toBe(true);
      stop.abort();
      await call;
      const error = errorOf(ended as unknown as ToolResult);
      if (error.code === "CANCELLED" && beginsWithinMs < 10_000) continue;
      expect([error.code, error.details]).toEqual(["SANDBOX_CRASHED", { begun: true }]);
      return;
    }
  });

  test("still logs its top level's output in every call", async () => {
    const glovebox = await gloveboxOf({ talker: 'console.log("top level"); export default () => 1;' });
    for (let call = 0; call < 3; call += 1) {
      const lines: string[] = [];
      await run(glovebox, "talker", { onLog: ({ message }) => lines.push(message) });
      expect(lines).toEqual(["top level"]);
    }
  });

  interface Trap {
    readonly glovebox: Glovebox;
    readonly stuckAt: number;
    readonly isWarm: boolean;
  }
  /**
   * Returns a host with a tool whose top level cannot be stopped from `stuckAt` on. The calls until then are `gapMs` apart, so that one warm
   * isolate is kept: with a second one in stock, the last call would not have another one made behind it.
   */
  async function setTrap(gapMs: number): Promise<Trap> {
    const stuckAt = Date.now() + 14 * gapMs;
    const trap = `if (Date.now() > ${stuckAt}) Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1);`;
    const glovebox = await gloveboxOf({}, { workers: { warmProcesses: 0 }, cache: false });
    const source = `${trap} ${IS_WARM} export default (args) => isWarm(args);`;
    const added = await glovebox.addTool({ name: "trap", source }, { scope: "global" }).catch(() => undefined);
    let isWarm = false;
    while (added !== undefined && Date.now() < stuckAt - 1.2 * gapMs) {
      // On a busy machine, the call may begin so late that it is in the trap itself.
      const result = await run(glovebox, "trap", { timeoutMs: 10_000 }, { at: Date.now() });
      isWarm = result.success && result.output === true;
      await pause(gapMs);
    }
    return { glovebox, stuckAt, isWarm: isWarm && Date.now() < stuckAt };
  }

  test("a warm isolate whose top level cannot be stopped costs its process, but no call", async () => {
    const ends: unknown[] = [];
    // A slow machine needs more time to make a warm isolate before the trap.
    for (const gapMs of [600, 1_200, 2_400, 2_400]) {
      const { glovebox, stuckAt, isWarm } = await setTrap(gapMs);
      const pids = glovebox.workerPids;
      await pause(Math.max(0, stuckAt - Date.now()) + 1);
      // The last isolate made before the trap; the next one is made behind it.
      const result = isWarm ? await run(glovebox, "trap", { timeoutMs: 10_000 }, { at: Date.now() }) : undefined;
      ends.push(result?.success === true ? result.output : result?.error.code);
      if (result?.success === true) {
        expect(result.output).toBe(true);
        // Polls for a state instead of a time limit, because the kernel may be slow on a busy machine.
        await expectDead(pids);
        return;
      }
      await glovebox.close();
    }
    expect(ends).toContain(true);
  });
});

describe("a process that dies", () => {
  test("fails the call in it once with SANDBOX_CRASHED, and does not affect the next call", async () => {
    const glovebox = await gloveboxOf({ slow: SLOW });
    const begun = vi.fn(() => signalAll(glovebox, "SIGKILL"));
    const error = errorOf(await run(glovebox, "slow", { onLog: begun }, { ms: 60_000 }));
    expect([error.code, error.message, error.details]).toEqual([
      "SANDBOX_CRASHED",
      "The sandbox process of the call ended before the call ended",
      { begun: true },
    ]);
    expect(begun).toHaveBeenCalledTimes(1);
    expect(outputOf(await run(glovebox, "slow", {}, { ms: 0 }))).toBe("done");
  });

  test("ends every call in it with one result", async () => {
    const glovebox = await gloveboxOf({ slow: SLOW });
    let begun = 0;
    const onLog = (): void => {
      begun += 1;
      if (begun === 5) signalAll(glovebox, "SIGKILL");
    };
    const results = await Promise.all([1, 2, 3, 4, 5].map(() => run(glovebox, "slow", { onLog }, { ms: 60_000 })));
    expect(results.map(codeOf)).toEqual(Array.from({ length: 5 }, () => "SANDBOX_CRASHED"));
  });

  test("does not affect other tenants", async () => {
    const glovebox = await gloveboxOf({ slow: SLOW });
    const { promise: begun, resolve } = Promise.withResolvers<void>();
    const other = run(glovebox, "slow", { tenantId: "other", onLog: () => resolve() }, { ms: 300 });
    await begun;
    const others = new Set(glovebox.workerPids);
    const onLog = (): void => {
      for (const pid of glovebox.workerPids) if (!others.has(pid)) process.kill(pid, "SIGKILL");
    };
    expect(codeOf(await run(glovebox, "slow", { onLog }, { ms: 60_000 }))).toBe("SANDBOX_CRASHED");
    expect(outputOf(await other)).toBe("done");
  });

  test("a process that dies while it is idle is replaced without a failed call", async () => {
    const glovebox = await gloveboxOf({ slow: SLOW });
    await run(glovebox, "slow", {}, { ms: 0 });
    const pids = signalAll(glovebox, "SIGKILL");
    await expectDead(pids);
    expect(outputOf(await run(glovebox, "slow", {}, { ms: 0 }))).toBe("done");
  });

  /** The host kills the process while its top level waits, for which a busy machine needs more time. */
  const loadingFor = (ms: number): string =>
    `console.log("loading"); await new Promise((done) => setTimeout(done, ${ms})); export default () => "ran";`;
  test("a call runs again if its process dies before the call has begun", async () => {
    await withMoreTime(50, async (ms) => {
      const glovebox = await gloveboxOf({ loading: loadingFor(ms) });
      let deaths = 0;
      const onLog = (): void => {
        deaths += 1;
        if (deaths === 1) signalAll(glovebox, "SIGKILL");
      };
      expect(outputOf(await run(glovebox, "loading", { onLog }))).toBe("ran");
      expect(deaths).toBe(2);
    });
  });

  test("a call fails if its process dies three times before the call has begun", async () => {
    await withMoreTime(50, async (ms) => {
      const glovebox = await gloveboxOf({ loading: loadingFor(ms) });
      const onLog = vi.fn(() => signalAll(glovebox, "SIGKILL"));
      expect(errorOf(await run(glovebox, "loading", { onLog }))).toMatchObject({
        code: "SANDBOX_CRASHED",
        details: { begun: false },
      });
      expect(onLog).toHaveBeenCalledTimes(3);
    });
  });

  test("a call declared idempotent runs again if its process dies", async () => {
    const glovebox = await gloveboxOf({ again: `${SLOW}; export const annotations = { idempotentHint: true };` });
    // The process is killed before the call has ended, for which a busy machine needs more time.
    await withMoreTime(20, async (ms) => {
      let begun = 0;
      const onLog = (): void => {
        begun += 1;
        if (begun === 1) signalAll(glovebox, "SIGKILL");
      };
      expect(outputOf(await run(glovebox, "again", { onLog }, { ms }))).toBe("done");
      expect(begun).toBe(2);
    });
  });

  test("a call that has timed out does not run again if its process dies, though it is declared idempotent", async () => {
    const source = `export const annotations = { idempotentHint: true };
      export default () => { console.log("begun"); return Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1); }`;
    const glovebox = await gloveboxOf({ bomb: source }, { limits: { cpuMs: 60_000 } });
    const onLog = vi.fn();
    // On a busy machine a short timeout would expire before the call begins.
    for (let timeoutMs = 500; onLog.mock.calls.length === 0 && timeoutMs < 30_000; timeoutMs *= 2) {
      expect(codeOf(await run(glovebox, "bomb", { onLog, timeoutMs }))).toBe("TOOL_TIMEOUT");
    }
    await expectIdle(() => glovebox.workerPids);
    expect(onLog).toHaveBeenCalledTimes(1);
  });

  test("leaves no answer of the host to the next run of the call", async () => {
    const requests: PromiseWithResolvers<string>[] = [];
    const second = Promise.withResolvers<void>();
    const ask = defineCapability({
      name: "ask",
      inputSchema: {},
      outputSchema: {},
      handler: (): Promise<string> => {
        const request = Promise.withResolvers<string>();
        requests.push(request);
        if (requests.length === 1) signalAll(glovebox, "SIGKILL");
        else second.resolve();
        return request.promise;
      },
    });
    const glovebox = await makeGlovebox({ tenancy: "multi", capabilities: [ask] });
    onTestFinished(() => glovebox.close());
    const source = "export const annotations = { idempotentHint: true }; export default (_, ctx) => ctx.ask();";
    await glovebox.addTool({ name: "asker", source }, { scope: "global", grant: ["ask"] });
    const result = run(glovebox, "asker");
    await second.promise;
    requests[0]?.resolve("for the first run");
    await new Promise(setImmediate);
    requests[1]?.resolve("for the second run");
    expect(outputOf(await result)).toBe("for the second run");
  });

  test("records the answers of the last run of the call only", async () => {
    const first = Promise.withResolvers<void>();
    let hooks = 0;
    const ask = defineCapability({
      name: "ask",
      inputSchema: { type: "number" },
      outputSchema: {},
      handler: async (number) => {
        // The second request of the second run: the hook of the lost run answers while it is pending.
        if (number === 2) {
          first.resolve();
          await new Promise(setImmediate);
        }
        return `answer ${number}`;
      },
    });
    const capability = async (): Promise<undefined> => {
      hooks += 1;
      if (hooks > 1) return undefined;
      signalAll(glovebox, "SIGKILL");
      await first.promise;
      return undefined;
    };
    const glovebox = await makeGlovebox({
      tenancy: "multi",
      capabilities: [ask],
      hooks: [{ name: "slow", capability }],
    });
    onTestFinished(() => glovebox.close());
    const source = `export const annotations = { idempotentHint: true };
      export default async (_, ctx) => [await ctx.ask(1), await ctx.ask(2)];`;
    await glovebox.addTool({ name: "asker", source }, { scope: "global", grant: ["ask"] });
    const recorded = Promise.withResolvers<CallRecording>();
    const result = await run(glovebox, "asker", { record: { onRecording: recorded.resolve } });
    expect(outputOf(result)).toEqual(["answer 1", "answer 2"]);
    const { requests } = await recorded.promise;
    const envelopes = requests.map(({ answer }) => JSON.parse(answer ?? "null") as unknown);
    expect(envelopes).toEqual([1, 2].map((number) => ({ ok: true, value: `answer ${number}` })));
  });

  test("opens the exchanges of fetch again in the next run of the call", async () => {
    let requests = 0;
    const server = await serve((_request, response) => {
      requests += 1;
      // The second request of each run, so that the first has used its number and its connection.
      if (requests === 2) signalAll(glovebox, "SIGKILL");
      else response.end(`answer ${requests}`);
    });
    const glovebox = await makeGlovebox({ tenancy: "multi", egress: { allow: onLoopback(server.origin) } });
    onTestFinished(() => glovebox.close());
    const source = `export const annotations = { idempotentHint: true };
      export const capabilities = { fetch: ["${server.origin}"] };
      const get = async () => await (await fetch("${server.origin}")).text();
      export default async () => [await get(), await get()];`;
    await glovebox.addTool({ name: "fetcher", source }, { scope: "global", grant: ["fetch"] });
    expect(outputOf(await run(glovebox, "fetcher"))).toEqual(["answer 3", "answer 4"]);
  });

  test("ends the nested calls of a lost run, and counts the capability calls of the next run anew", async () => {
    const ended = vi.fn();
    const begun: AbortSignal[] = [];
    const glovebox = await makeGlovebox({ tenancy: "multi", limits: { maxCapabilityCalls: 1 } });
    onTestFinished(() => glovebox.close());
    const host: HostFunction = async (_, { signal }) => {
      begun.push(signal);
      if (begun.length > 1) return "second";
      signal.addEventListener("abort", ended);
      signalAll(glovebox, "SIGKILL");
      return await new Promise(() => {});
    };
    glovebox.router.register("inner", {}, host, { scope: "global" });
    const source = `export const annotations = { idempotentHint: true };
      export const capabilities = { tools: ["inner"] }; export default (_, ctx) => ctx.tools.inner();`;
    await glovebox.addTool({ name: "outer", source }, { scope: "global", grant: ["tools"] });
    expect(outputOf(await run(glovebox, "outer"))).toBe("second");
    expect(ended).toHaveBeenCalledOnce();
  });
});

describe("a process that does not start", () => {
  /** Makes processes start late, until the test is over. */
  function startSlowly(ms: number, isSlow: () => boolean = () => true): void {
    const { start } = ProcessStarter.prototype;
    const slowly = ["/bin/sh", "-c", `sleep ${ms / 1_000}; exec "$@"`, "sh"];
    const starting = vi.spyOn(ProcessStarter.prototype, "start").mockImplementation(function (
      this: ProcessStarter,
      commandFor,
      listener,
    ) {
      const slower: typeof commandFor = (parent) => {
        const command = commandFor(parent);
        return isSlow() ? { ...command, argv: [...slowly, ...command.argv] } : command;
      };
      return start.call(this, slower, listener);
    });
    onTestFinished(() => starting.mockRestore());
  }

  test("does not count towards the timeout of a tool's top level", async () => {
    const timeoutMs = 4_000;
    startSlowly(timeoutMs + 500);
    // If it counted, every start would exceed the timeout. On a busy machine, the top level itself does so now and then.
    await vi.waitFor(async () => {
      await using glovebox = await makeGlovebox({ limits: { timeoutMs }, cache: false });
      await expect(glovebox.addTool({ name: "quick", source: "export default () => 1" })).resolves.toMatchObject({
        name: "quick",
      });
    });
  });

  test("does not count towards that timeout if an earlier process of the top level has died", async () => {
    const timeoutMs = 4_000;
    let deaths = 0;
    let glovebox: Glovebox;
    startSlowly(timeoutMs + 500, () => deaths > 0);
    const { onPlaced } = PlacedJob.prototype;
    const placing = vi.spyOn(PlacedJob.prototype, "onPlaced").mockImplementation(function (this: PlacedJob) {
      onPlaced.call(this);
      deaths += 1;
      if (deaths === 1) signalAll(glovebox, "SIGKILL");
    });
    onTestFinished(() => placing.mockRestore());
    // On a busy machine, the top level may have ended before its process is killed, or exceed its timeout.
    await vi.waitFor(async () => {
      deaths = 0;
      glovebox = await makeGlovebox({ limits: { timeoutMs }, cache: false, workers: { max: 1 } });
      try {
        const source = "await new Promise((done) => setTimeout(done, 500)); export default () => 1";
        await expect(glovebox.addTool({ name: "late", source })).resolves.toMatchObject({ name: "late" });
      } finally {
        await glovebox.close();
      }
      expect(deaths).toBe(2);
    });
  });
});

describe("a process that does not answer", () => {
  test("is ended once it is found stopped, and is replaced", async () => {
    const glovebox = await gloveboxOf({ slow: SLOW });
    let stopped: readonly number[] = [];
    const onLog = (): void => {
      stopped = signalAll(glovebox, "SIGSTOP");
    };
    // Long before the call's own deadline, which would be a TOOL_TIMEOUT.
    expect(codeOf(await run(glovebox, "slow", { onLog, timeoutMs: 200_000 }, { ms: 250_000 }))).toBe("SANDBOX_CRASHED");
    expect(outputOf(await run(glovebox, "slow", { timeoutMs: 120_000 }, { ms: 0 }))).toBe("done");
    // The process that extracted the definition was idle: no call waits for it.
    await expect.poll(() => stopped.filter(isAlive).length).toBeLessThan(stopped.length);
    expect(glovebox.workerPids.some((pid) => !stopped.includes(pid))).toBe(true);
  });
});

const UNSTOPPABLE: readonly (readonly [name: string, body: string])[] = [
  ["while (true) {}", "while (true) {}"],
  ["for (;;) await null", "for (;;) await null"],
  ["a promise that never settles", "await new Promise(() => {})"],
  ["indexOf over 2 ** 53 - 1 holes", "Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1)"],
];
/** Extra time in ms of a call that only waits and started at the same moment: it ends later, however late the machine is. */
const LATE_MS = 100_000;

describe("a tool that does not stop", () => {
  let shared: Glovebox;
  beforeAll(async () => {
    shared = await makeGlovebox({ cache: { directory: CACHE }, tenancy: "multi", health: false });
    const source = UNSTOPPABLE.map(([, body]) => `async () => { ${body}; }`).join(",");
    const bad = `export default async ({ n }) => { console.log("begun"); await [${source}][n](); }`;
    await shared.addTool({ name: "bad", source: bad }, { scope: "global" });
    await shared.addTool({ name: "good", source: "export default () => 1" }, { scope: "global" });
    await shared.addTool({ name: "waits", source: "export default () => new Promise(() => {})" }, { scope: "global" });
  });
  afterAll(() => shared.close());

  const indexOf = (body: string): number => UNSTOPPABLE.findIndex(([, other]) => other === body);

  test.for(UNSTOPPABLE)("%s: ends soon after its deadline, and none of its code runs on", async ([, body]) => {
    // The process is up, so all of the time is the tool's.
    expect(outputOf(await run(shared, "good"))).toBe(1);
    const timeoutMs = 400;
    const ended: string[] = [];
    const control = new AbortController();
    const later = { tenantId: "control", timeoutMs: timeoutMs + LATE_MS, signal: control.signal };
    const waiting = run(shared, "waits", later).then(() => ended.push("control"));
    expect(codeOf(await run(shared, "bad", { timeoutMs }, { n: indexOf(body) }))).toBe("TOOL_TIMEOUT");
    expect(ended).toEqual([]);
    control.abort();
    await waiting;
    expect(outputOf(await run(shared, "good"))).toBe(1);
    await expectIdle(() => shared.workerPids);
  });

  test.for(UNSTOPPABLE)("%s: ends at once when its caller cancels", async ([, body]) => {
    const controller = new AbortController();
    const control = new AbortController();
    const ended: string[] = [];
    let waiting: Promise<unknown> | undefined;
    const onLog = (): void => {
      const later = { tenantId: "control", timeoutMs: LATE_MS, signal: control.signal };
      waiting = run(shared, "waits", later).then(() => ended.push("control"));
      controller.abort();
    };
    const context = { signal: controller.signal, onLog, timeoutMs: 60_000 };
    expect(codeOf(await run(shared, "bad", context, { n: indexOf(body) }))).toBe("CANCELLED");
    expect(ended).toEqual([]);
    control.abort();
    await waiting;
    await expectIdle(() => shared.workerPids);
  });

  test("does not affect other calls of its process where dispose() is enough", async () => {
    const glovebox = await gloveboxOf({ bad: "export default () => { for (;;); }", slow: SLOW });
    // On a busy machine, a process can be so late that it is ended all the same, but not each time.
    await vi.waitFor(async () => {
      const neighbour = run(glovebox, "slow", { timeoutMs: 60_000 }, { ms: 700 });
      expect(codeOf(await run(glovebox, "bad", { timeoutMs: 200 }))).toBe("TOOL_TIMEOUT");
      expect(codeOf(await neighbour)).toBe("ok");
    });
  });
});

describe("many calls", () => {
  test("are served by a few processes", async () => {
    const glovebox = await gloveboxOf({ echo: "export default ({ n }) => n" }, { workers: { max: 2 } });
    const calls = Array.from({ length: 60 }, (_, n) =>
      run(glovebox, "echo", { tenantId: `t${n % 3}`, timeoutMs: 120_000 }, { n }),
    );
    expect((await Promise.all(calls)).map(outputOf)).toEqual(calls.map((_, n) => n));
    expect(glovebox.workerPids.length).toBeLessThanOrEqual(2);
  });

  test("calls that wait for a process end by their own deadline or caller, and never run", async () => {
    const glovebox = await gloveboxOf({ slow: SLOW }, { workers: { max: 1 } });
    const { promise: begun, resolve } = Promise.withResolvers<void>();
    const release = new AbortController();
    const holding = { tenantId: "holder", signal: release.signal, onLog: () => resolve(), timeoutMs: 60_000 };
    const holder = run(glovebox, "slow", holding, { ms: 50_000 });
    await begun;
    const onLog = vi.fn();
    const controller = new AbortController();
    const waiting = [
      run(glovebox, "slow", { tenantId: "late", timeoutMs: 50, onLog }),
      run(glovebox, "slow", { tenantId: "cancelled", signal: controller.signal, onLog }),
    ];
    controller.abort();
    expect((await Promise.all(waiting)).map(codeOf)).toEqual(["TOOL_TIMEOUT", "CANCELLED"]);
    release.abort();
    expect(codeOf(await holder)).toBe("CANCELLED");
    expect(outputOf(await run(glovebox, "slow", { tenantId: "late" }, { ms: 0 }))).toBe("done");
    expect(onLog).not.toHaveBeenCalled();
  });
});

describe("shutdown", () => {
  test("close() gives every call a result, including waiting ones, and leaves no process", async () => {
    const glovebox = await gloveboxOf(
      { slow: SLOW, bad: "export default () => { for (;;); }" },
      { workers: { max: 2, warmProcesses: 1 }, limits: { cpuMs: 60_000 } },
    );
    const tenants = ["a", "b", "c", "d"];
    const calls = tenants.flatMap((tenantId) => [
      run(glovebox, "slow", { tenantId, timeoutMs: 60_000 }, { ms: 50_000 }),
      run(glovebox, "bad", { tenantId, timeoutMs: 60_000 }),
    ]);
    await expect.poll(() => glovebox.workerPids.length).toBe(2);
    const pids = glovebox.workerPids;
    await glovebox.close();
    expect((await Promise.all(calls)).map(codeOf)).toEqual(calls.map(() => "CANCELLED"));
    await expectDead(pids);
    await glovebox.close();
  });

  test("close() ends a pending addTool with one ToolError", async () => {
    const glovebox = await makeGlovebox();
    const adding = glovebox.addTool({ name: "x", source: "await new Promise(() => {}); export default () => 1" });
    const failed = expect(adding).rejects.toMatchObject({
      name: "ToolError",
      code: expect.stringMatching(/CANCELLED|TOOL_UNAVAILABLE/),
    });
    await expect.poll(() => glovebox.workerPids.length).toBe(1);
    await glovebox.close();
    await failed;
  });

  test("a host that dies by SIGKILL leaves no process, not even a busy one", async () => {
    const script = fileURLToPath(new URL("../../support/host-script.ts", import.meta.url));
    const host = spawn(process.execPath, [script], { stdio: ["ignore", "pipe", "inherit"] });
    onTestFinished(() => {
      host.kill("SIGKILL");
    });
    const [line] = (await once(host.stdout, "data")) as [Buffer];
    const pids = JSON.parse(line.toString()) as number[];
    expect(pids.length).toBeGreaterThanOrEqual(2);
    expect(pids.every(isAlive)).toBe(true);
    host.kill("SIGKILL");
    await expectDead(pids);
  });
});
