// Recordings and replays: what a recording contains, how a replay matches it, and how a changed tool, input or recording is reported.
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import * as z from "zod";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import type { CallContext } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { type CallRecording, parseRecording } from "../../../src/host/recording/recording.ts";
import { redactRecording } from "../../../src/host/recording/redact-recording.ts";
import type { ReplayOptions } from "../../../src/host/recording/replay-call.ts";
import { errorOf, failureOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";
import { withMoreTime } from "../../support/more-time.ts";

const TOOL = `
  export const capabilities = { look: true, kv: true };
  export default async ({ names, extra = 0 }, ctx) => {
    const found = await Promise.all(names.map((name) => ctx.look({ name, why: "test" })));
    for (let n = 0; n < extra; n += 1) found.push(await ctx.look({ name: "extra" + n }));
    return { found, at: Date.now(), random: Math.random() };
  };`;

let glovebox: Glovebox;
let looked: string[] = [];
/** Called for the request that gets no answer. */
let onNever = (): void => {};
beforeAll(async () => {
  const look = defineCapability({
    name: "look",
    description: "Looks something up",
    inputSchema: z.strictObject({ name: z.string(), why: z.string().optional() }),
    outputSchema: z.unknown(),
    handler: async ({ name }, { redact }) => {
      looked.push(name);
      if (name === "missing") throw new Error("no");
      if (name === "never") {
        onNever();
        return await new Promise<never>(() => {});
      }
      if (name === "secret") {
        redact("token", "s3cr3t-t0k3n-value");
        return "s3cr3t-t0k3n-value";
      }
      return `${name} ${Math.random()}`;
    },
  });
  glovebox = await makeGlovebox({ capabilities: [look] });
});
afterAll(() => glovebox.close());

let tools = 0;
async function addTool(source = TOOL): Promise<string> {
  tools += 1;
  await glovebox.addTool({ name: `tool${tools}`, source }, { grant: ["look", "kv"] });
  return `tool${tools}`;
}

interface Recorded {
  readonly toolName: string;
  readonly recording: CallRecording;
}

async function record(args: unknown, source?: string, more: Partial<CallContext> = {}): Promise<Recorded> {
  const toolName = await addTool(source);
  let recording: CallRecording | undefined;
  const options = { onRecording: (made: CallRecording) => (recording = made), maxBytes: more.record?.maxBytes };
  await glovebox.execute({ id: "c", toolName, arguments: args }, { ...more, record: options });
  looked = [];
  return { toolName, recording: recording as CallRecording };
}

const change = async (toolName: string, source: string): Promise<unknown> =>
  await glovebox.updateTool({ name: toolName, source }, { grant: ["look", "kv"] });

const replay = async (recording: unknown, options?: ReplayOptions) => await glovebox.replay(recording, options);

describe("a replay on the recorded version", () => {
  test("has the recorded output and calls no handler", async () => {
    const { recording } = await record({ names: ["a", "b", "c"] });
    const replayed = await replay(recording);
    expect([replayed.verdict, replayed.match, looked]).toEqual(["identical", "position", []]);
    expect(JSON.stringify(outputOf(replayed.result))).toBe((recording.outcome as { output: string }).output);
  });

  test("repeats errors of the tool, of capabilities and of limits", async () => {
    const broken = await record({}, `export default async () => { throw new TypeError("broken"); };`);
    expect(await replay(broken.recording)).toMatchObject({ verdict: "identical" });
    const failed = await record({ names: ["a", "missing"] });
    expect(failed.recording.outcome).toMatchObject({ error: { code: "TOOL_FAILED" } });
    expect(await replay(failed.recording)).toMatchObject({ verdict: "identical" });
    const hanging = `
      export const capabilities = { look: true };
      export default async (input, ctx) => { await ctx.look({ name: "a" }); await new Promise(() => {}); };`;
    // The tool hangs when its time is over.
    await withMoreTime(300, async (timeoutMs) => {
      const stopped = await record({}, hanging, { timeoutMs });
      expect(stopped.recording.outcome).toMatchObject({ error: { code: "TOOL_TIMEOUT" } });
      expect(await replay(stopped.recording)).toMatchObject({ verdict: "identical" });
    });
  });

  test("repeats calls of warm isolates, whose top level ran earlier", async () => {
    const source = `
      const top = [Math.random(), Date.now(), crypto.randomUUID()];
      export default async () => [top, Math.random(), Date.now()];`;
    const toolName = await addTool(source);
    const recordings: CallRecording[] = [];
    for (let times = 0; times < 8; times += 1) {
      await glovebox.execute({ id: "c", toolName }, { record: { onRecording: (made) => recordings.push(made) } });
      // Lets a warm isolate be made for the next call. The test holds without one, too.
      await new Promise((resolve) => setTimeout(resolve, 30));
    }
    expect(new Set(recordings.map(({ start }) => start.seed)).size).toBe(8);
    for (const recording of recordings) expect((await replay(recording)).verdict).toBe("identical");
  });

  test("repeats streams, bytes and log lines", async () => {
    const source = `
      export default async function* ({ n, data }, ctx) {
        for (let i = 0; i < n; i += 1) { await ctx.log("line " + i); yield [i, Math.random(), data.length]; }
      }`;
    const toolName = await addTool(source);
    let recording: CallRecording | undefined;
    const call = { id: "c", toolName, arguments: { n: 600, data: new Uint8Array([1, 2, 3]) } };
    for await (const item of glovebox.stream(call, { record: { onRecording: (made) => (recording = made) } })) {
      if (item.type === "result") expect(item.success).toBe(true);
    }
    const replayed = await replay(JSON.parse(JSON.stringify(recording)));
    expect([replayed.verdict, replayed.result.logs.length]).toEqual(["identical", 600]);
  });

  test("does not need time for the recorded timers", async () => {
    const source = `export default async () => { await new Promise((resolve) => setTimeout(resolve, 1_500)); return Date.now(); };`;
    const { recording } = await record({}, source);
    // A replay that needed the time would take it each time.
    await vi.waitFor(async () => {
      const { verdict, result } = await replay(recording);
      expect(verdict).toBe("identical");
      expect(result.usage.executeMs).toBeLessThan(1_400);
    });
  });

  test("presents the recorded call, tenant and limits to the tool", async () => {
    const source = `
      export const capabilities = { look: true };
      export const limits = { maxCapabilityCalls: 2 };
      export default async (input, ctx) => {
        const results = await Promise.allSettled([1, 2, 3].map((n) => ctx.look({ name: "n" + n })));
        return [ctx.callId, ctx.tenantId, results.map(({ status, reason }) => reason?.message ?? status)];
      };`;
    const toolName = await addTool(source);

    let recording: CallRecording | undefined;
    await glovebox.execute({ id: "c", toolName }, { record: { onRecording: (made) => (recording = made) } });
    await glovebox.updateTool({ name: toolName, source }, { grant: [] });
    expect(await replay(recording)).toMatchObject({ verdict: "identical" });
  });
});

describe("a replay on another version", () => {
  test("finds answers by name and arguments, in any order", async () => {
    const { toolName, recording } = await record({ names: ["a", "b", "c"] });
    await change(
      toolName,
      `
      export const capabilities = { look: true };
      export default async ({ names }, ctx) => {
        const found = [];
        for (const name of names.toReversed()) found.unshift(await ctx.look({ why: "test", name }));
        return found;
      };`,
    );
    const replayed = await replay(recording);
    const { found } = JSON.parse((recording.outcome as { output: string }).output);
    expect([replayed.verdict, replayed.match, outputOf(replayed.result), looked]).toEqual([
      "different",
      "arguments",
      found,
      [],
    ]);
  });

  test("is identical if the change does not affect the call", async () => {
    const { toolName, recording } = await record({ names: ["a", "b"] });
    await change(toolName, `${TOOL}\n// A comment.\nexport const unused = 1;`);
    expect(await replay(recording)).toMatchObject({ verdict: "identical", match: "position" });
  });

  test("diverges at a request that was not recorded", async () => {
    const { toolName, recording } = await record({ names: ["a"] });
    await change(toolName, TOOL.replace("extra = 0", "extra = 1"));
    const { verdict, divergence, result } = await replay(recording);
    expect([verdict, divergence, errorOf(result).code]).toEqual([
      "diverged",
      { position: 2, expected: "one of the 1 recorded requests to look", actual: 'look({"name":"extra0"})' },
      "REPLAY_DIVERGED",
    ]);
    expect(await replay(recording, { match: "position" })).toMatchObject({ divergence: { position: 2 } });
  });

  test("reports an error that the recording does not have as failed", async () => {
    const { toolName, recording } = await record({ names: ["a"] });
    await change(toolName, `export default async () => { throw new Error("new"); };`);
    expect(await replay(recording)).toMatchObject({ verdict: "failed" });
  });

  test("is different if an error of another class, or with another code, has the recorded message", async () => {
    const source = (error: string): string => `export default () => { throw ${error}; };`;
    const { toolName, recording } = await record(
      {},
      source(`Object.assign(new TypeError("broken"), { code: "E_ONE" })`),
    );
    expect(recording.outcome).toEqual({
      error: { code: "TOOL_FAILED", message: "broken", details: { errorName: "TypeError", errorCode: "E_ONE" } },
    });
    const outcomes: [string, string][] = [
      [`Object.assign(new TypeError("broken"), { code: "E_ONE" })`, "identical"],
      [`Object.assign(new RangeError("broken"), { code: "E_ONE" })`, "different"],
      [`Object.assign(new TypeError("broken"), { code: "E_TWO" })`, "different"],
      [`new TypeError("broken")`, "different"],
    ];
    for (const [error, verdict] of outcomes) {
      await change(toolName, source(error));
      expect((await replay(recording)).verdict).toBe(verdict);
    }
    const { code, message } = (recording.outcome as { error: { code: string; message: string } }).error;
    const old = { ...recording, outcome: { error: { code, message } } };
    expect((await replay(old)).verdict).toBe("identical");
  });

  test("runs with an edited input", async () => {
    const { recording } = await record({ names: ["a", "b"] });
    const replayed = await replay(recording, { arguments: { names: ["b"] } });
    expect([replayed.verdict, replayed.match]).toEqual(["different", "arguments"]);
    const missing = await replay(recording, { arguments: { names: ["z"] } });
    expect(missing.verdict).toBe("diverged");
  });

  test("keeps the recorded latencies, so that races end as they did", async () => {
    const race = (comment: string): string => `
      export const capabilities = { look: true };
      ${comment}
      export default async (input, ctx) => {
        const late = new Promise((resolve) => setTimeout(resolve, 5_000, "late"));
        return await Promise.race([late, ctx.look({ name: "a" })]);
      };`;
    const { toolName, recording } = await record({}, race(""));
    await change(toolName, race("// Changed."));
    expect(await replay(recording, { match: "arguments" })).toMatchObject({ verdict: "identical" });
  });
});

describe("a request that the recorded call ended without an answer to", () => {
  test("is missing in a version that does not make it, also if all else is the same", async () => {
    const source = (last: string): string => `
      export const capabilities = { look: true };
      export default async (input, ctx) => {
        const found = await ctx.look({ name: "a" });
        ${last}
        return found;
      };`;
    const notify =
      'ctx.look({ name: "never", why: "notify" }).catch(() => {}); ctx.look({ name: "never" }).catch(() => {});';
    const { toolName, recording } = await record({}, source(notify));
    expect(recording.requests).toHaveLength(3);
    expect(await replay(recording)).toMatchObject({ verdict: "identical", match: "position" });
    await change(toolName, source(`${notify} // Changed.`));
    expect(await replay(recording)).toMatchObject({ verdict: "identical", match: "position" });
    await change(toolName, source(""));
    const missing = ['look({"name":"never","why":"notify"})', 'look({"name":"never"})'];
    for (const match of ["auto", "position", "arguments"] as const)
      expect(await replay(recording, { match })).toMatchObject({ verdict: "different", missing });
    const awaited = await record({}, source('await ctx.look({ name: "b" });'));
    await change(awaited.toolName, source(""));
    expect(await replay(awaited.recording)).toMatchObject({ verdict: "different", missing: ['look({"name":"b"})'] });
  });

  const race = (comment: string, timeoutMs = 60): string => `
    export const capabilities = { look: true };
    ${comment}
    export default async (input, ctx) => {
      const late = new Promise((resolve) => setTimeout(resolve, ${timeoutMs}, "late"));
      return await Promise.race([late, ctx.look({ name: "never" })]);
    };`;

  test("does not hold up the timers of another version", async () => {
    const { toolName, recording } = await record({}, race(""));
    expect(recording).toMatchObject({ outcome: { output: '"late"' }, requests: [{ id: 1 }] });
    await change(toolName, race("// Changed.", 61));
    const options = { match: "arguments", timeoutMs: 60_000 } as const;
    expect(await replay(recording, options)).toMatchObject({ verdict: "identical", match: "arguments" });
  });

  test("is a divergence if another version waits for it only", async () => {
    const { toolName, recording } = await record({}, race(""));
    const only = `
      export const capabilities = { look: true };
      export default async (input, ctx) => await ctx.look({ name: "never" });`;
    await change(toolName, only);
    const divergence = { expected: "the end of the call", actual: "the guest waits for answer 1" };
    expect(await replay(recording, { match: "arguments" })).toMatchObject({ verdict: "diverged", divergence });
  });

  test("ends a call of another version as the recorded call, if that was stopped", async () => {
    const wait = (comment: string): string => `
      export const capabilities = { look: true };
      ${comment}
      export default async (input, ctx) => await ctx.look({ name: "never" });`;
    const toolName = await addTool(wait(""));
    let recording: CallRecording | undefined;
    const stop = new AbortController();
    onNever = () => stop.abort();
    const context = { record: { onRecording: (made: CallRecording) => (recording = made) }, signal: stop.signal };
    await glovebox.execute({ id: "c", toolName }, context);
    onNever = () => {};
    expect(recording).toMatchObject({ outcome: { error: { code: "CANCELLED" } } });
    await change(toolName, wait("// Changed."));
    expect(await replay(recording, { match: "arguments" })).toMatchObject({ verdict: "identical" });
  });

  test("stays open in a replay if the call was stopped before the host had read it", async () => {
    const twice = `
      export const capabilities = { look: true };
      export default async (input, ctx) => await Promise.all([ctx.look({ name: "never" }), ctx.look({ name: "never" })]);`;
    const toolName = await addTool(twice);
    let recording: CallRecording | undefined;
    const stop = new AbortController();
    onNever = () => stop.abort();
    const context = { record: { onRecording: (made: CallRecording) => (recording = made) }, signal: stop.signal };
    await glovebox.execute({ id: "c", toolName }, context);
    onNever = () => {};
    // As if the second request had still been on its way.
    const { requests = [], ...rest } = recording ?? {};
    const stopped = { ...rest, requests: requests.slice(0, 1) };
    expect(await replay(stopped)).toMatchObject({ verdict: "identical", match: "position" });
    // Another version asks for something that was not recorded.
    await change(toolName, twice.replace("[ctx", "/* Changed. */ [ctx"));
    expect(await replay(stopped)).toMatchObject({ verdict: "diverged" });
  });

  test("comes after the recorded turns if it was on its way", async () => {
    const { toolName, recording } = await record({}, race(""));
    const answer = JSON.stringify({ ok: true, value: "too late" });
    const answered = { ...recording, requests: recording.requests.map((request) => ({ ...request, answer })) };
    await change(toolName, race("// Changed."));
    expect(await replay(answered, { match: "arguments" })).toMatchObject({ verdict: "identical" });
    await change(toolName, race("", 600_000));
    expect(await replay(answered, { match: "arguments" })).toMatchObject({ outcome: { output: '"too late"' } });
  });
});

describe("a recording", () => {
  test("is plain JSON that the parser accepts", async () => {
    const { recording } = await record({ names: ["a"] });
    expect(parseRecording(JSON.parse(JSON.stringify(recording)))).toEqual(recording);
    expect(recording).toMatchObject({
      format: "glovebox-recording",
      version: 1,
      callId: "c",
      input: { text: '{"names":["a"]}' },
      requests: [{ id: 1, name: "look", input: '{"name":"a","why":"test"}' }],
    });
    expect(recording.turns.map(([kind]) => kind)).toEqual(["load", "call", "answer"]);
  });

  test("has no secrets, and its replay has the same redacted output", async () => {
    const { recording } = await record({ names: ["secret"] });
    expect(JSON.stringify(recording)).not.toContain("s3cr3t-t0k3n-value");
    expect(await replay(recording)).toMatchObject({ verdict: "identical" });
  });

  test("has no value that its redactor replaces, and is replayed with the same redactor", async () => {
    const toolName = await addTool(`
      export const capabilities = { look: true };
      export default async (_input, ctx) => {
        const password = crypto.randomUUID();
        return { password, found: await ctx.look({ name: "mail", why: "for someone@example.com" }) };
      };`);
    const upperCase = (value: unknown): unknown => JSON.parse(JSON.stringify(value).replaceAll("for ", "FOR "));
    for (const redact of [redactRecording, upperCase]) {
      const made: CallRecording[] = [];
      const call = { id: "c", toolName, arguments: {} };
      outputOf(await glovebox.execute(call, { record: { redact, onRecording: (recording) => made.push(recording) } }));
      const stored = parseRecording(JSON.parse(JSON.stringify(made[0])));
      expect(stored).toMatchObject({ redacted: true, requests: [{ input: expect.stringMatching(/FOR|redacted/i) }] });
      for (const match of ["position", "arguments"] as const) {
        const options = redact === redactRecording ? { match } : { match, redact };
        expect(await glovebox.replay(stored, options), match).toMatchObject({ verdict: "identical" });
      }
    }
  });

  test("is marked as incomplete if it becomes too large", async () => {
    const record2 = { onRecording: () => {}, maxBytes: 1_024 };
    const { recording } = await record({ names: Array.from({ length: 50 }, (_, n) => `name ${n}`) }, TOOL, {
      record: record2,
    });
    expect([recording.incomplete, recording.requests, recording.turns]).toEqual(["too_large", [], []]);
    expect(JSON.stringify(recording).length).toBeLessThan(4_000);
    expect(await failureOf(glovebox.replay(recording))).toMatchObject({ code: "PARAM_INVALID" });
  });

  test.for<[string, (recording: Record<string, unknown>) => unknown]>([
    ["nothing", () => undefined],
    ["text", () => "{}"],
    ["an unknown key", (recording) => ({ ...recording, more: 1 })],
    ["another format version", (recording) => ({ ...recording, version: 2 })],
    ["an unknown turn", (recording) => ({ ...recording, turns: [["sleep", 1]] })],
    ["a turn with text", (recording) => ({ ...recording, turns: [["timer", 1, "1"]] })],
    ["a hash that is none", (recording) => ({ ...recording, bundle: "../x" })],
    ["an input that is not JSON", (recording) => ({ ...recording, input: { text: "{" } })],
    [
      "limits beyond the maximum",
      (recording) => ({ ...recording, profile: { ...(recording.profile as object), limits: {} } }),
    ],
  ])("is rejected if it is invalid: %s", async ([, damage]) => {
    const { recording } = await record({ names: [] });
    expect(await failureOf(glovebox.replay(damage(recording as never)))).toMatchObject({ code: "PARAM_INVALID" });
  });

  test("diverges if its turns or answers were changed, and never hangs", async () => {
    const { recording } = await record({ names: ["a", "b"] });
    const { turns, requests } = recording;
    const damaged = [
      { ...recording, turns: turns.slice(0, 2) },
      { ...recording, turns: [...turns.slice(0, 2), ["timer", 5, 77] as const] },
      { ...recording, turns: [...turns, ["credit", 5, 1] as const, ["job", 9, 3] as const] },
      { ...recording, requests: requests.slice(1) },
      { ...recording, requests: requests.map((request) => ({ ...request, name: "kv" })) },
    ];
    for (const one of damaged) expect((await replay(one)).verdict).toBe("diverged");
  });

  test("is not made of calls in a session, and not together with a seed", async () => {
    const toolName = await addTool();
    const record2 = { onRecording: () => {} };
    const call = { id: "c", toolName, arguments: { names: [] } };
    const both = await glovebox.execute(call, { record: record2, deterministic: { seed: "s" } });
    expect(errorOf(both).code).toBe("PARAM_INVALID");
    const wrong = await glovebox.execute(call, { record: { maxBytes: 5 } } as unknown as CallContext);
    expect(errorOf(wrong).code).toBe("PARAM_INVALID");
    const forged = await glovebox.execute(call, { replay: { recording: {} } } as unknown as CallContext);
    expect(errorOf(forged).code).toBe("PARAM_INVALID");
  });

  test("does not run a function of the host", async () => {
    const { recording } = await record({ names: [] });
    let ran = 0;
    glovebox.router.register("on-host", {}, () => {
      ran += 1;
      return ran;
    });
    const { verdict, result } = await glovebox.replay({ ...recording, toolName: "on-host" });
    expect([verdict, errorOf(result).code, ran]).toEqual(["failed", "PARAM_INVALID", 0]);
  });

  test("a recording of another tenant is rejected", async () => {
    const { recording } = await record({ names: [] });
    const other = { ...recording, tenantId: "other" };
    expect(await failureOf(glovebox.replay(other))).toMatchObject({ code: "PARAM_INVALID" });
  });
});

describe("a recorded guest", () => {
  test("has a clock that stands still while its code runs", async () => {
    const source = `export default async () => {
      const started = [Date.now(), performance.now()];
      for (let n = 0; n < 3_000_000; n += 1) Math.sqrt(n);
      return [Date.now() - started[0], performance.now() - started[1]];
    };`;
    const { recording } = await record({}, source);
    expect(recording.outcome).toMatchObject({ output: "[0,0]" });
  });

  test("cannot forge entries of its recording", async () => {
    const source = `export default async (input, ctx) => {
      const names = ["turns", "ended", "answer"];
      const tried = [];
      for (const name of names) tried.push(typeof globalThis[name], typeof ctx[name]);
      await ctx.log('["answer",1,1]');
      return tried;
    };`;
    const { recording } = await record({}, source);
    expect(recording.turns.map(([kind]) => kind)).toEqual(["load", "call", "answer"]);
    expect(recording.requests).toEqual([]);
  });

  test("exhausts no host memory with turns: they are dropped at a limit", async () => {
    const source = `export default async () => {
      for (let n = 0; n < 3_000; n += 1) await new Promise((resolve) => setImmediate(resolve));
      return 1;
    };`;
    const { recording } = await record({}, source, { record: { onRecording: () => {}, maxBytes: 20_000 } });
    expect([recording.incomplete, recording.turns]).toEqual(["too_large", []]);
  });
});
