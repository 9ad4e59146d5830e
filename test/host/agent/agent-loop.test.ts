// AgentLoop: for any behavior of the model and the tools, every call has one answer, and a run has one stream of events and one outcome.
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import {
  type AgentEvent,
  AgentLoop,
  type AgentOutcome,
  afterFailedSteps,
  allOf,
  anyOf,
  checkConversation,
  type Message,
  type Model,
  whenCalled,
  whenSucceeded,
} from "../../../src/host/agent/index.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { ToolRouter } from "../../../src/host/routing/tool-router.ts";
import { ToolError } from "../../../src/sandbox/contract/errors.ts";
import { expectPublishable, makeGlovebox } from "../../support/host-zone.ts";
import {
  call,
  callEvent,
  finish,
  type ScriptedTurn,
  says,
  scriptModel,
  textEvent,
} from "../../support/scripted-model.ts";

const USER: Message = { role: "user", content: "How much is 1 + 2?" };
const loop = new AgentLoop();

let glovebox: Glovebox;
beforeAll(async () => {
  glovebox = await makeGlovebox();
  const add = "export default ({ a, b }, ctx) => { ctx.log('adding'); ctx.progress({ progress: 1 }); return a + b; }";
  await glovebox.addTool({ name: "add", source: add });
  await glovebox.addTool({ name: "boom", source: "export default () => { throw new Error('no') }" });
  await glovebox.addTool({ name: "forever", source: "export default () => { for (;;); }" });
});
afterAll(() => glovebox.close());

function routerOf(tools: { readonly [name: string]: (input: never, context: never) => unknown }): ToolRouter {
  const router = new ToolRouter();
  for (const [name, handler] of Object.entries(tools)) router.register(name, {}, handler as () => unknown);
  return router;
}

interface Told {
  readonly events: readonly AgentEvent[];
  readonly outcome: AgentOutcome;
}
async function collect(stream: AsyncIterable<AgentEvent>): Promise<Told> {
  const events: AgentEvent[] = [];
  for await (const event of stream) events.push(event);
  const last = events.pop();
  if (last?.type !== "outcome") throw new Error(`Expected the outcome last, got ${last?.type}`);
  return { events, outcome: last };
}

const answersOf = (messages: readonly Message[]): readonly string[] =>
  messages.flatMap((message) => {
    if (message.role !== "tool") return [];
    const { result } = message;
    return [`${message.callId}: ${result.success ? JSON.stringify(result.output) : result.error.code}`];
  });

/** Checks that a provider accepts the conversation of an outcome. */
function expectWhole({ messages, status }: AgentOutcome): void {
  if (status !== "paused") expect(checkConversation(messages)).toEqual([]);
}

describe("AgentLoop.executeSingleTurn()", () => {
  test("answers a call with a sandboxed tool's result", async () => {
    const made = call("c1", "add", { a: 1, b: 2 });
    const messages: Message[] = [USER, { role: "assistant", content: [{ type: "tool-call", call: made }] }];
    const { updatedMessages, shouldContinue } = await loop.executeSingleTurn(messages, made, glovebox);
    expect(messages).toHaveLength(2);
    expect(answersOf(updatedMessages)).toEqual(["c1: 3"]);
    expect(updatedMessages.slice(0, 2)).toEqual(messages);
    expect(shouldContinue).toBe(true);
  });

  test("adds a call that is not in the conversation", async () => {
    const { updatedMessages } = await loop.executeSingleTurn(
      [USER],
      { id: "c1", toolName: "add", arguments: { a: 1, b: 2 } },
      glovebox.router,
    );
    expect(updatedMessages.map(({ role }) => role)).toEqual(["user", "assistant", "tool"]);
    expect(checkConversation(updatedMessages)).toEqual([]);
  });

  test.for([
    ["boom", {}, "TOOL_FAILED"],
    ["nobody", {}, "TOOL_UNAVAILABLE"],
    ["add", "{", "PARAM_INVALID"],
  ] as const)("continues when %s fails", async ([toolName, args, code]) => {
    const turn = await loop.executeSingleTurn([USER], call("c1", toolName, args), glovebox);
    expect(turn.shouldContinue).toBe(true);
    expect(answersOf(turn.updatedMessages)).toEqual([`c1: ${code}`]);
  });

  test("does not continue while another call of the turn has no answer, or if the call was cancelled", async () => {
    const [a, b] = [call("a", "add", { a: 1, b: 1 }), call("b", "add", { a: 2, b: 2 })];
    const content = [a, b].map((made) => ({ type: "tool-call", call: made }) as const);
    const first = await loop.executeSingleTurn(
      [USER, { role: "assistant", content }],
      { id: "a", toolName: "add" },
      glovebox,
    );
    expect(first.shouldContinue).toBe(false);
    const second = await loop.executeSingleTurn(first.updatedMessages, b, glovebox);
    expect(second.shouldContinue).toBe(true);
    expect(answersOf(second.updatedMessages)).toEqual(["a: 2", "b: 4"]);
    const cancelled = await loop.executeSingleTurn([USER], a, glovebox, { signal: AbortSignal.abort() });
    expect(cancelled).toMatchObject({ shouldContinue: false });
    expect(answersOf(cancelled.updatedMessages)).toEqual(["a: CANCELLED"]);
  });

  test.for([[undefined], [null], [{}], ["add"], [{ id: 1, toolName: "add" }]])(
    "answers %j, which is not a call",
    async ([made]) => {
      const turn = await loop.executeSingleTurn([USER], made as never, glovebox);
      expect(answersOf(turn.updatedMessages)).toEqual([expect.stringMatching(/PARAM_INVALID$/)]);
      expect(checkConversation(turn.updatedMessages)).toEqual([]);
    },
  );
});

describe("AgentLoop.run()", () => {
  test("runs a conversation of two turns with a sandboxed tool", async () => {
    const { model, requests } = scriptModel(says("Let me see. ", call("c1", "add", { a: 1, b: 2 })), says("It is 3."));
    const outcome = await loop.run({ model, router: glovebox, messages: [USER] });
    expect(outcome).toMatchObject({
      status: "finished",
      reason: "stop",
      text: "It is 3.",
      usage: { inputTokens: 20, outputTokens: 10 },
    });
    expect(outcome.messages.map(({ role }) => role)).toEqual(["user", "assistant", "tool", "assistant"]);
    expect(answersOf(outcome.messages)).toEqual(["c1: 3"]);
    expect(requests[0]?.tools.map(({ name }) => name)).toEqual(["add", "boom", "forever"]);
    expect(requests[1]?.messages).toEqual(outcome.messages.slice(0, 3));
    expect(outcome.steps.map(({ results }) => results.length)).toEqual([1, 0]);
  });

  test("yields one stream of events, with the outcome last", async () => {
    const { model } = scriptModel(says("One ", "moment.", call("c1", "add", { a: 1, b: 2 })), says("3"));
    const { events, outcome } = await collect(loop.stream({ model, router: glovebox, messages: [USER] }));
    const types = events.map(({ type }) => type);
    expect(types.filter((type) => type !== "tool-progress" && type !== "tool-log")).toEqual([
      ...["step-start", "text-delta", "text-delta", "tool-call", "tool-start", "tool-result", "step-end"],
      ...["step-start", "text-delta", "step-end"],
    ]);
    expect(events).toContainEqual(
      expect.objectContaining({ type: "tool-log", callId: "c1", toolName: "add", step: 1 }),
    );
    expect(events).toContainEqual(expect.objectContaining({ type: "tool-progress", progress: { progress: 1 } }));
    expect(outcome).toMatchObject({ status: "finished", text: "3" });
  });

  test("starts a tool while the model is still streaming, and requests the next turn when both are done", async () => {
    const order: string[] = [];
    const started = Promise.withResolvers<void>();
    const router = routerOf({
      slow: () => {
        order.push("tool starts");
        started.resolve();
        return 1;
      },
    });
    const { model } = scriptModel(
      async function* () {
        yield callEvent(call("c1", "slow"));
        await started.promise;
        order.push("model goes on");
        yield textEvent("and so on");
        order.push("model ends");
        yield finish([call("c1", "slow"), "and so on"]);
      },
      () => {
        order.push("next request");
        return says("done");
      },
    );
    expect(await loop.run({ model, router, messages: [USER] })).toMatchObject({ status: "finished", text: "done" });
    expect(order).toEqual(["tool starts", "model goes on", "model ends", "next request"]);
  });

  test("respects maxParallelTools, and orders answers like their calls", async () => {
    let running = 0;
    let most = 0;
    const router = routerOf({
      work: async ({ n }: { readonly n: number }) => {
        running += 1;
        most = Math.max(most, running);
        // Later calls finish earlier.
        for (let turn = 0; turn < 20 - n; turn += 1) await new Promise(setImmediate);
        running -= 1;
        return n;
      },
    });
    const calls = Array.from({ length: 9 }, (_, n) => call(`c${n}`, "work", { n }));
    const { model } = scriptModel(says(...calls), says("ok"));
    const outcome = await loop.run({ model, router, messages: [USER], maxParallelTools: 3 });
    expect(most).toBe(3);
    expect(answersOf(outcome.messages)).toEqual(calls.map((_, n) => `c${n}: ${n}`));
  });

  test("continues when tools fail, and reports it to the model", async () => {
    const { model, requests } = scriptModel(
      says(call("a", "boom"), call("b", "nobody"), call("c", "add", "not JSON"), call("d", "add", { a: 1, b: 1 })),
      says("Some failed."),
    );
    const outcome = await loop.run({ model, router: glovebox, messages: [USER] });
    expect(outcome).toMatchObject({ status: "finished", text: "Some failed." });
    expect(answersOf(requests[1]?.messages ?? [])).toEqual([
      ...["a: TOOL_FAILED", "b: TOOL_UNAVAILABLE", "c: PARAM_INVALID", "d: 2"],
    ]);
  });

  test("does not run a tool that is not offered", async () => {
    const { model, requests } = scriptModel(says(call("a", "boom"), call("b", "add", { a: 1, b: 1 })), says("ok"));
    const outcome = await loop.run({ model, router: glovebox, messages: [USER], tools: ["add"] });
    expect(requests[0]?.tools.map(({ name }) => name)).toEqual(["add"]);
    expect(answersOf(outcome.messages)).toEqual(["a: TOOL_UNAVAILABLE", "b: 2"]);
  });

  test("passes on the argument options, and does not turn numbers into null", async () => {
    const router = routerOf({ echo: (input) => input });
    const made = { ...call("b", "echo", '{"n":1e999}'), arguments: JSON.parse('{"n":1e999}') as unknown };
    const { model } = scriptModel(says(call("a", "echo", "{n: 1,}"), made), says("ok"));
    const outcome = await loop.run({ model, router, messages: [USER], context: { arguments: { repair: true } } });
    expect(answersOf(outcome.messages)).toEqual(['a: {"n":1}', "b: PARAM_INVALID"]);
    expect(outcome.steps[0]?.results[0]).toMatchObject({ coercions: [{ kind: "repaired" }] });
  });

  test("offers and runs tools that slow feature flags enable", async () => {
    const flags = async (_flag: string, { toolName }: { readonly toolName: string }): Promise<boolean> =>
      toolName === "on";
    const router = new ToolRouter({ flags });
    for (const name of ["on", "off"]) router.register(name, {}, () => name);
    const { model, requests } = scriptModel(says(call("a", "on"), call("b", "off")), says("ok"));
    const outcome = await loop.run({ model, router, messages: [USER] });
    expect(requests[0]?.tools.map(({ name }) => name)).toEqual(["on"]);
    expect(answersOf(outcome.messages)).toEqual(['a: "on"', "b: TOOL_UNAVAILABLE"]);
  });

  test("ends at maxSteps with an answer to every call", async () => {
    const { model, requests } = scriptModel(...Array.from({ length: 5 }, (_, n) => says(call(`c${n}`, "boom"))));
    const outcome = await loop.run({ model, router: glovebox, messages: [USER], maxSteps: 3 });
    expect(outcome).toMatchObject({ status: "finished", reason: "max-steps" });
    expect(requests).toHaveLength(3);
    expectWhole(outcome);
  });

  test.for([
    ["whenCalled", whenCalled("boom"), 1],
    ["whenSucceeded for a tool that fails", whenSucceeded("boom"), 4],
    ["afterFailedSteps", afterFailedSteps(2), 2],
    ["anyOf", anyOf(whenSucceeded("boom"), afterFailedSteps(3)), 3],
    ["allOf", allOf(whenCalled("boom"), ({ stepCount }) => stepCount === 2), 2],
  ] as const)("stops for %s", async ([, stopWhen, steps]) => {
    const { model, requests } = scriptModel(...Array.from({ length: 4 }, () => says(call("c", "boom"))));
    const outcome = await loop.run({ model, router: glovebox, messages: [USER], stopWhen, maxSteps: 4 });
    expect(requests).toHaveLength(steps);
    expect(outcome).toMatchObject({ status: "finished", reason: steps === 4 ? "max-steps" : "stop-condition" });
    expectWhole(outcome);
  });

  test("repeats toolChoice in the first turn only, so that a model that must call can end", async () => {
    const { model, requests } = scriptModel(says(call("c", "boom")), says("ok"));
    await loop.run({ model, router: glovebox, messages: [USER], toolChoice: "required", maxParallelTools: 1 });
    expect(requests.map(({ toolChoice }) => toolChoice)).toEqual(["required", undefined]);
    expect(requests.map(({ parallelToolCalls }) => parallelToolCalls)).toEqual([false, false]);
  });

  test("shows the model the messages of prepareMessages, and keeps the whole conversation", async () => {
    const { model, requests } = scriptModel(says(call("c", "boom")), says("ok"));
    const prepareMessages = (messages: readonly Message[]): readonly Message[] => messages.slice(-2);
    const outcome = await loop.run({ model, router: glovebox, messages: [USER, USER, USER], prepareMessages });
    expect(requests.map(({ messages }) => messages.length)).toEqual([2, 2]);
    expect(outcome.messages).toHaveLength(6);
  });

  test("mends a given conversation, and does not run its unanswered calls", async () => {
    const { model, requests } = scriptModel(says("ok"));
    const left: Message = { role: "assistant", content: [{ type: "tool-call", call: call("old", "add") }] };
    expectWhole(await loop.run({ model, router: glovebox, messages: [USER, left, USER] }));
    expect(answersOf(requests[0]?.messages ?? [])).toEqual(["old: CANCELLED"]);
  });

  test.for([
    ["model", { model: undefined }],
    ["router", { router: {} }],
    ["maxSteps", { maxSteps: 0 }],
    ["maxParallelTools", { maxParallelTools: 11 }],
    ["stopWhen", { stopWhen: 5 }],
    ["messages", { messages: undefined }],
    ["signingKey", { signingKey: "short" }],
    ["context.signal", { context: { signal: AbortSignal.abort() } }],
  ] as const)("rejects an invalid %s by its name", async ([name, wrong]) => {
    const options = { model: scriptModel().model, router: glovebox, messages: [USER], ...wrong } as never;
    await expect(loop.run(options)).rejects.toThrow(name);
    const { outcome } = await collect(loop.stream(options));
    expect(outcome).toMatchObject({ status: "failed", error: { code: "PARAM_INVALID" } });
  });
});

describe("a model's stream", () => {
  const secret = "sk-secret-of-ours at /root/key";
  const dies = (...events: readonly unknown[]): ScriptedTurn =>
    async function* () {
      yield* events;
      throw new Error(secret);
    };

  test("fails the run if it breaks off before any content, and does not disclose the cause", async () => {
    const errors: ToolError[] = [];
    const { model } = scriptModel(dies());
    const { events, outcome } = await collect(
      loop.stream({ model, router: glovebox, messages: [USER], onError: (error) => errors.push(error) }),
    );
    expect(outcome).toMatchObject({ status: "failed", error: { code: "INTERNAL" } });
    expectPublishable(outcome);
    expect(JSON.stringify([events, outcome])).not.toContain("secret");
    expect(errors[0]?.cause).toMatchObject({ message: secret });
  });

  test("keeps its text if it breaks off in the middle", async () => {
    const { model } = scriptModel(dies(textEvent("It was ")));
    expect(await loop.run({ model, router: glovebox, messages: [USER] })).toMatchObject({
      status: "failed",
      text: "It was ",
    });
  });

  test.for([
    ["dies", dies(textEvent("So: "), callEvent(call("c1", "add", { a: 1, b: 2 })))],
    ["ends without finish", [textEvent("So: "), callEvent(call("c1", "add", { a: 1, b: 2 }))]],
  ] as const)("a call that is complete when the stream %s has an answer, and the model continues", async ([, turn]) => {
    const { model, requests } = scriptModel(turn, says("3"));
    const { events, outcome } = await collect(loop.stream({ model, router: glovebox, messages: [USER] }));
    expect(events.map(({ type }) => type)).toContain("error");
    expect(outcome).toMatchObject({ status: "finished", text: "3" });
    expect(answersOf(requests[1]?.messages ?? [])).toEqual(["c1: 3"]);
    expectWhole(outcome);
  });

  test("discloses only the HTTP status of its error", async () => {
    const model: Model = () => {
      throw Object.assign(new Error(secret), { status: 429 });
    };
    const outcome = await loop.run({ model, router: glovebox, messages: [USER] });
    expect(outcome).toMatchObject({
      status: "failed",
      error: { message: "The model failed with status 429", details: { status: 429 } },
    });
  });

  test("runs and answers calls with the same id under unique ids", async () => {
    const ran: unknown[] = [];
    const router = routerOf({ note: (input) => ran.push(input) });
    const [a, b] = [call("call_0", "note", { n: 1 }), call("call_0", "note", { n: 2 })];
    const { model } = scriptModel(says(a, b), says(call("call_0", "note", { n: 3 })), says("ok"));
    const outcome = await loop.run({ model, router, messages: [USER] });
    expect(ran).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }]);
    expect(answersOf(outcome.messages)).toEqual(["call_0: 1", "call_0_2: 2", "call_0_3: 3"]);
    expectWhole(outcome);
  });

  test("runs a repeated call once", async () => {
    const ran: unknown[] = [];
    const router = routerOf({ note: (input) => ran.push(input) });
    const made = call("c1", "note", { n: 1 });
    const { model } = scriptModel([callEvent(made), callEvent(made), finish([made, made])], says("ok"));
    const outcome = await loop.run({ model, router, messages: [USER] });
    expect(ran).toHaveLength(1);
    expectWhole(outcome);
  });

  test("answers all calls if its message has additional calls or lacks streamed ones", async () => {
    const { model } = scriptModel(
      [callEvent(call("a", "add", { a: 1, b: 1 })), finish(["text", call("b", "add", { a: 2, b: 2 })])],
      says("ok"),
    );
    const outcome = await loop.run({ model, router: glovebox, messages: [USER] });
    expect(answersOf(outcome.messages).toSorted()).toEqual(["a: 2", "b: 4"]);
    expectWhole(outcome);
  });

  test("answers a call that has a problem with the problem", async () => {
    const { model } = scriptModel(says({ ...call("a", "add"), problem: "Expected JSON, got none" }), says("ok"));
    const outcome = await loop.run({ model, router: glovebox, messages: [USER] });
    expect(outcome.steps[0]?.results[0]).toMatchObject({
      error: { code: "PARAM_INVALID", message: "Expected JSON, got none" },
    });
  });

  test("ends at its finish event, and is read to its end", async () => {
    let isRead = false;
    const { model } = scriptModel(function* () {
      yield* says("ok");
      yield textEvent("more");
      isRead = true;
    });
    expect(await loop.run({ model, router: glovebox, messages: [USER] })).toMatchObject({
      status: "finished",
      text: "ok",
    });
    await new Promise(setImmediate);
    expect(isRead).toBe(true);
  });

  test("runs at most 128 calls", async () => {
    const calls = Array.from({ length: 1_000 }, (_, n) => call(`c${n}`, "note", { n }));
    const { model } = scriptModel(says(...calls), says("ok"));
    const outcome = await loop.run({ model, router: routerOf({ note: () => 1 }), messages: [USER] });
    expect(outcome.steps[0]?.results).toHaveLength(128);
    expectWhole(outcome);
  });

  const anyCall = fc.record(
    {
      id: fc.oneof(fc.constantFrom("a", "b", ""), fc.anything()),
      toolName: fc.oneof(fc.constantFrom("note", "no"), fc.anything()),
      argumentsText: fc.oneof(fc.constantFrom("{}", "{"), fc.anything()),
      problem: fc.anything(),
    },
    { requiredKeys: [] },
  );
  const anyPart = fc.oneof(
    fc.record({ type: fc.constant("tool-call"), call: fc.oneof(anyCall, fc.anything()) }),
    fc.record({ type: fc.constant("text"), text: fc.oneof(fc.string(), fc.anything()) }),
    fc.anything(),
  );
  const anyEvent = fc.oneof(
    fc.record({ type: fc.constant("tool-call"), call: fc.oneof(anyCall, fc.anything()) }),
    fc.record({ type: fc.constant("text-delta"), text: fc.oneof(fc.string(), fc.anything()) }),
    fc.record({
      type: fc.constant("finish"),
      message: fc.record({ content: fc.oneof(fc.array(anyPart), fc.anything()) }),
      reason: fc.anything(),
      usage: fc.anything(),
    }),
    fc.anything(),
  );
  test("leaves no call without exactly one answer, for any events", async () => {
    const router = routerOf({ note: () => 1 });
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(anyEvent, { maxLength: 8 }), { maxLength: 3 }), async (turns) => {
        const { model } = scriptModel(...turns, says("ok"));
        const { events, outcome } = await collect(loop.stream({ model, router, messages: [USER] }));
        expectWhole(outcome);
        const called = events.flatMap((event) => (event.type === "tool-call" ? [event.call.id] : []));
        const answered = events.flatMap((event) => (event.type === "tool-result" ? [event.result.callId] : []));
        expect(answered.toSorted()).toEqual(called.toSorted());
        expect(new Set(called).size).toBe(called.length);
      }),
      { numRuns: 300 },
    );
  });
});

describe("cancellation", () => {
  test("kills running tools, and leaves no call without an answer", async () => {
    const stop = new AbortController();
    const { model } = scriptModel(says(call("a", "forever"), call("b", "add", { a: 1, b: 2 })));
    let outcome: AgentOutcome | undefined;
    for await (const event of loop.stream({ model, router: glovebox, messages: [USER], signal: stop.signal })) {
      if (event.type === "tool-result" && event.result.callId === "b") stop.abort();
      if (event.type === "outcome") outcome = event;
    }
    expect(outcome).toMatchObject({ status: "cancelled" });
    expect(answersOf(outcome?.messages ?? [])).toEqual(["a: CANCELLED", "b: 3"]);
    expectWhole(outcome as AgentOutcome);
  });

  test("is not delayed by a model that ignores the signal", async () => {
    const stop = new AbortController();
    const model: Model = async function* () {
      yield textEvent("Well");
      stop.abort();
      await new Promise(() => {});
    };
    const outcome = await loop.run({ model, router: glovebox, messages: [USER], signal: stop.signal });
    expect(outcome).toMatchObject({ status: "cancelled", text: "Well" });
  });

  test("does not call the model if it precedes the run", async () => {
    const { model, requests } = scriptModel(says("no"));
    const outcome = await loop.run({ model, router: glovebox, messages: [USER], signal: AbortSignal.abort() });
    expect(outcome).toMatchObject({ status: "cancelled", messages: [USER] });
    expect(requests).toHaveLength(0);
  });

  test("results from leaving the stream early, which waits until the tool has been killed", async () => {
    const { model, requests } = scriptModel(says(call("a", "forever")));
    const stream = loop.stream({ model, router: glovebox, messages: [USER] });
    for await (const event of stream) if (event.type === "tool-start") break;
    expect(requests[0]?.signal.aborted).toBe(true);
    expect(await stream.next()).toEqual({ done: true, value: undefined });
  });
});

describe("back-pressure", () => {
  test("a reader that pauses delays the model's stream, and receives all of it in the end", async () => {
    let said = 0;
    const { model } = scriptModel(function* () {
      for (; said < 5_000; said += 1) yield textEvent("x");
      yield finish(["x".repeat(5_000)]);
    });
    const stream = loop.stream({ model, router: glovebox, messages: [USER] });
    await stream.next();
    for (let turn = 0; turn < 100; turn += 1) await new Promise(setImmediate);
    expect(said).toBeGreaterThan(0);
    expect(said).toBeLessThan(300);
    const { events, outcome } = await collect(stream);
    expect(events.filter(({ type }) => type === "text-delta")).toHaveLength(5_000);
    expect(outcome).toMatchObject({ status: "finished" });
  });
});

test("an exception of a host's wrapper around a router fails the call", async () => {
  const router = new ToolRouter();
  router.register("note", {}, () => 1);
  onTestFinished(() => router[Symbol.asyncDispose]());
  const wrapped = {
    execute: () => Promise.reject(new ToolError("QUOTA_EXCEEDED", "no more today")),
    stream: router.stream.bind(router),
    getRegisteredTools: router.getRegisteredTools.bind(router),
    digestOf: router.digestOf.bind(router),
  };
  const { model } = scriptModel(says(call("a", "note")), says("ok"));
  const outcome = await loop.run({ model, router: wrapped, messages: [USER] });
  expect(answersOf(outcome.messages)).toEqual(["a: QUOTA_EXCEEDED"]);
});
