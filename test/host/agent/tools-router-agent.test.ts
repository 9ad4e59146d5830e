// ToolsRouterAgent: one tool for one request. Choosing, correcting, running and answering are bounded, and texts for users disclose
// nothing.
import { getEventListeners } from "node:events";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  type Model,
  type ModelRequest,
  ToolsRouterAgent,
  type ToolsRouterEvent,
  type ToolsRouterOptions,
  type ToolsRouterOutcome,
} from "../../../src/host/agent/index.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { ToolRouter } from "../../../src/host/routing/tool-router.ts";
import type { ToolOrigin } from "../../../src/sandbox/contract/definition.ts";
import { type ErrorCode, ToolError } from "../../../src/sandbox/contract/errors.ts";
import { expectPublishable, makeGlovebox } from "../../support/host-zone.ts";
import { call, finish, type ScriptedTurn, says, scriptModel, textEvent } from "../../support/scripted-model.ts";
import { makeCatalog } from "../../support/tool-catalog.ts";

let glovebox: Glovebox;
beforeAll(async () => {
  glovebox = await makeGlovebox();
  const inputSchema = {
    type: "object",
    properties: { a: { type: "number" }, b: { type: "number" } },
    required: ["a", "b"],
  };
  const definition = { description: "Adds two numbers", inputSchema };
  await glovebox.addTool({ name: "add", source: "export default ({ a, b }) => a + b", overrides: definition });
  const rows = "export default async function* ({ n }) { for (let i = 0; i < n; i += 1) yield { row: i } }";
  await glovebox.addTool({ name: "rows", source: rows });
  await glovebox.addTool({ name: "forever", source: "export default () => { for (;;); }" });
});
afterAll(() => glovebox.close());

const choose = (tool: string, inputs: unknown = {}): ScriptedTurn => says(JSON.stringify({ tool, inputs }));
const ADD = choose("add", { a: 1, b: 2 });
const DONE = says("It is ", "3.");

function agentOf(...turns: readonly ScriptedTurn[]): {
  readonly agent: ToolsRouterAgent;
  readonly requests: readonly ModelRequest[];
} {
  const { model, requests } = scriptModel(...turns);
  return { agent: new ToolsRouterAgent({ model, router: glovebox, backoffMs: 0 }), requests };
}

async function collect(
  stream: AsyncIterable<ToolsRouterEvent>,
): Promise<{ readonly events: readonly ToolsRouterEvent[]; readonly outcome: ToolsRouterOutcome }> {
  const events: ToolsRouterEvent[] = [];
  for await (const event of stream) events.push(event);
  const last = events.pop();
  if (last?.type !== "outcome") throw new Error(`Expected the outcome last, got ${last?.type}`);
  return { events, outcome: last };
}
const typesOf = (events: readonly ToolsRouterEvent[]): readonly string[] => events.map(({ type }) => type);
const systemOf = (request: ModelRequest | undefined): string => {
  const first = request?.messages[0];
  return first?.role === "system" ? first.content : "";
};

/** A host function that fails the given number of times, then succeeds. */
function flaky(
  failures: number,
  code: ErrorCode = "TOOL_FAILED",
  annotations = {},
  origin?: ToolOrigin,
): { router: ToolRouter; ran: () => number } {
  const router = new ToolRouter();
  let ran = 0;
  router.register("work", { annotations, origin }, () => {
    ran += 1;
    if (ran <= failures) throw new ToolError(code, "at /root/secret: sk-12345");
    return "done";
  });
  return { router, ran: () => ran };
}

describe("ToolsRouterAgent", () => {
  test("chooses, runs and answers, and emits events", async () => {
    const { agent, requests } = agentOf(ADD, DONE);
    const { events, outcome } = await collect(agent.stream("How much is 1 + 2?"));
    expect(typesOf(events)).toEqual(["decision", "tool-start", "tool-result", "text-delta", "text-delta"]);
    expect(outcome).toMatchObject({
      status: "answered",
      text: "It is 3.",
      decision: { tool: "add", inputs: { a: 1, b: 2 } },
      result: { success: true, output: 3 },
      attempts: { routing: 1, tool: 1 },
      usage: { inputTokens: 20, outputTokens: 10 },
    });
    const [routing, answering] = requests;
    expect(systemOf(routing)).toContain('"name":"add"');
    expect(routing).toMatchObject({
      tools: [],
      responseSchema: { schema: { properties: { tool: { enum: ["add", "forever", "rows", "none"] } } } },
    });
    expect(answering?.messages.map(({ role }) => role)).toEqual(["system", "user", "assistant", "tool"]);
    expect(answering).toMatchObject({ toolChoice: "none", tools: [{ name: "add" }] });
  });

  test("accepts a conversation as a request, and a tool call as a decision", async () => {
    const { agent } = agentOf(says(call("x", "add", { a: 2, b: 3 })), says("5"));
    const outcome = await agent.run([
      { role: "system", content: "be brief" },
      { role: "user", content: "2 + 3?" },
    ]);
    expect(outcome).toMatchObject({ status: "answered", result: { output: 5 } });
  });

  test("emits chunks as they arrive; run() returns them as the output", async () => {
    const streamed = agentOf(choose("rows", { n: 3 }), says("ok"));
    const { events } = await collect(streamed.agent.stream("rows"));
    expect(events.flatMap((event) => (event.type === "tool-chunk" ? [event.value] : []))).toEqual([
      { row: 0 },
      { row: 1 },
      { row: 2 },
    ]);
    expect(streamed.requests[1]?.messages.at(-1)).toMatchObject({
      result: { output: [{ row: 0 }, { row: 1 }, { row: 2 }] },
    });
    const { agent } = agentOf(choose("rows", { n: 2 }), says("ok"));
    expect(await agent.run("rows")).toMatchObject({ result: { output: [{ row: 0 }, { row: 1 }] } });
  });

  test("answers from the first chunks of a large output", async () => {
    const router = new ToolRouter();
    router.register("flood", {}, async function* () {
      for (let index = 0; index < 200; index += 1) yield index % 2 === 0 ? "x".repeat(1_000) : new Uint8Array(1_000);
    });
    const { agent, requests } = agentOf(choose("flood"), says("ok"));
    const { events } = await collect(agent.stream("flood", { router }));
    expect(events.filter(({ type }) => type === "tool-chunk")).toHaveLength(200);
    const last = requests[1]?.messages.at(-1);
    expect(last?.role === "tool" && last.result.success && last.result.output).toHaveLength(56);
  });

  test("answers without a tool if none fits", async () => {
    const { agent, requests } = agentOf(choose("none"), says("I have no tool for that."));
    expect(await agent.run("Bake a cake")).toMatchObject({ status: "none", text: "I have no tool for that." });
    expect(requests[1]).toMatchObject({ tools: [] });
  });

  test("does not call the model to choose if there are no tools", async () => {
    const { agent, requests } = agentOf(says("Sorry."));
    expect(await agent.run("Anything", { tools: [] })).toMatchObject({ status: "none", attempts: { routing: 0 } });
    expect(requests).toHaveLength(1);
  });

  test("does not request an answer if it is turned off", async () => {
    const { agent, requests } = agentOf(ADD, choose("none"));
    expect(await agent.run("1 + 2", { answer: false })).toMatchObject({
      status: "answered",
      text: "",
      result: { output: 3 },
    });
    expect(await agent.run("cake", { answer: false })).toMatchObject({
      status: "none",
      text: expect.stringMatching(/None of my tools/),
    });
    expect(requests).toHaveLength(2);
  });

  test("passes the host's instructions to the model, and lets a request override them", async () => {
    const { agent, requests } = agentOf(ADD, DONE);
    await agent.run("1 + 2", {
      instructions: "Answer in rhymes.",
      tools: ({ name }) => name === "add",
      responseSchema: false,
    });
    for (const request of requests) expect(systemOf(request)).toContain("Answer in rhymes.");
    expect(systemOf(requests[0])).not.toContain("forever");
    expect(requests[0]).not.toHaveProperty("responseSchema");
  });
});

describe("choosing", () => {
  test("is retried twice, with the problem shown to the model", async () => {
    const { agent, requests } = agentOf(says("I'd use add."), choose("sum", {}), ADD, DONE);
    const { events, outcome } = await collect(agent.stream("1 + 2"));
    expect(outcome).toMatchObject({ status: "answered", attempts: { routing: 3, tool: 1 } });
    expect(typesOf(events).slice(0, 3)).toEqual(["retry", "retry", "decision"]);
    expect(JSON.stringify(requests[1]?.messages)).toContain("no JSON object");
    expect(requests[2]?.messages.at(-1)).toMatchObject({
      content: expect.stringContaining('There is no tool named \\"sum\\"'.replaceAll("\\", "")),
    });
  });

  test("discloses nothing in the fallback after the last attempt", async () => {
    const { agent, requests } = agentOf(...Array.from({ length: 5 }, () => says("sk-12345 /root/x")));
    const outcome = await agent.run("1 + 2");
    expect(requests).toHaveLength(3);
    expect(outcome).toMatchObject({ status: "failed", stage: "routing", attempts: { routing: 3, tool: 0 } });
    expect(outcome.text).toMatch(/could not work out/);
    expect(outcome.text).not.toMatch(/sk-|root|JSON/);
    expectPublishable(outcome);
  });

  test("calls a failed model again; only the operator receives the cause", async () => {
    const errors: ToolError[] = [];
    const broken: ScriptedTurn = () => {
      throw new Error("sk-12345");
    };
    const { agent } = agentOf(broken, ADD, DONE);
    const outcome = await agent.run("1 + 2", { onError: (error) => errors.push(error) });
    expect(outcome).toMatchObject({ status: "answered", attempts: { routing: 2 } });
    expect(errors).toHaveLength(1);
    const failed = await agentOf(broken, broken, broken).agent.run("1 + 2");
    expect(failed).toMatchObject({ status: "failed", stage: "routing", error: { code: "INTERNAL" } });
    expect(JSON.stringify(failed)).not.toContain("sk-");
  });

  test.for([
    [401, 1],
    [429, 3],
    [500, 3],
  ] as const)("a model that fails with status %d is called %d times", async ([status, times]) => {
    let asked = 0;
    const model: Model = () => {
      asked += 1;
      throw Object.assign(new Error("no"), { status });
    };
    expect(await agentOf().agent.run("x", { model })).toMatchObject({
      status: "failed",
      error: { details: { status } },
    });
    expect(asked).toBe(times);
  });

  test("shows invalid inputs to the model, which corrects them", async () => {
    const { agent, requests } = agentOf(choose("add", { a: 1, b: "two" }), ADD, DONE);
    const outcome = await agent.run("1 + 2");
    expect(outcome).toMatchObject({ status: "answered", attempts: { routing: 2, tool: 2 } });
    expect(requests[1]?.messages.at(-1)).toMatchObject({ content: expect.stringContaining("/b") });
  });

  test("prunes inputs that the schema does not name, and reports it in the result", async () => {
    const { agent } = agentOf(choose("add", { a: 1, b: 2, unit: "m" }), DONE);
    expect(await agent.run("1 + 2")).toMatchObject({
      status: "answered",
      decision: { inputs: { unit: "m" } },
      result: { output: 3, coercions: [{ kind: "pruned", pointer: "/unit" }] },
    });
    const strict = agentOf(choose("add", { a: 1, b: 2, unit: "m" }), ADD, DONE);
    const outcome = await strict.agent.run("1 + 2", { arguments: { unknownKeys: "reject" } });
    expect(outcome).toMatchObject({ status: "answered", attempts: { routing: 2, tool: 2 } });
  });

  test("requests more precise wording if inputs stay invalid", async () => {
    const { agent } = agentOf(...Array.from({ length: 5 }, () => choose("add", { a: "x" })));
    expect(await agent.run("add")).toMatchObject({
      status: "failed",
      stage: "tool",
      attempts: { routing: 3, tool: 3 },
      error: { code: "PARAM_INVALID" },
      text: expect.stringContaining("more precisely"),
    });
  });

  test("does not choose a tool that the filter excludes", async () => {
    const { agent } = agentOf(choose("forever"), choose("forever"), choose("forever"));
    expect(await agent.run("loop", { tools: ["add"] })).toMatchObject({
      status: "failed",
      stage: "routing",
      attempts: { tool: 0 },
    });
  });

  test("does not offer a tool named none, and offers the others", async () => {
    const router = new ToolRouter();
    router.register("none", {}, () => "never");
    router.register("one", {}, () => 1);
    const { agent, requests } = agentOf(choose("one"), says("1"));
    expect(await agent.run("one", { router })).toMatchObject({ status: "answered", result: { output: 1 } });
    expect(systemOf(requests[0])).not.toContain('"name":"none"');
  });

  test("waits 0.7 s times the attempt before a retry", async () => {
    const { model } = scriptModel(says("?"), says("?"), ADD, DONE);
    const stop = new AbortController();
    const delays: number[] = [];
    for await (const event of new ToolsRouterAgent({ model, router: glovebox }).stream("1 + 2", {
      signal: stop.signal,
    })) {
      if (event.type !== "retry") continue;
      delays.push(event.delayMs);
      if (delays.length === 2) stop.abort();
    }
    expect(delays).toEqual([700, 1_400]);
  });
});

describe("a tool that fails", () => {
  const work = (options: ToolsRouterOptions): Promise<ToolsRouterOutcome> => {
    const { agent } = agentOf(choose("work"), says("Done."));
    return agent.run("work", options);
  };

  test("is run once more", async () => {
    const { router, ran } = flaky(1);
    expect(await work({ router })).toMatchObject({ status: "answered", attempts: { routing: 1, tool: 2 } });
    expect(ran()).toBe(2);
  });

  test.for([
    [5, "TOOL_FAILED", {}, 2],
    [5, "CAPABILITY_DENIED", {}, 1],
    [5, "QUOTA_EXCEEDED", {}, 1],
    [5, "TOOL_FAILED", { destructiveHint: true }, 1],
    [5, "TOOL_FAILED", { destructiveHint: true, idempotentHint: true }, 2],
  ] as const)(
    "a tool that fails %d times with %s and %j is run %4$d times",
    async ([failures, code, annotations, runs]) => {
      const { router, ran } = flaky(failures, code, annotations);
      const outcome = await work({ router });
      expect(ran()).toBe(runs);
      expect(outcome).toMatchObject({ status: "failed", stage: "tool", error: { code }, decision: { tool: "work" } });
      expect(outcome.text).toMatch(/^[^/]*work[^/]*\.$/);
      expect(outcome.text).not.toContain("sk-");
    },
  );

  test.for([
    [false, 1],
    [true, 2],
  ] as const)("is run again as an upstream server says only if it is trusted: %s", async ([isTrusted, runs]) => {
    const origin = { server: "bank", toolName: "work", isTrusted };
    const { router, ran } = flaky(5, "TOOL_FAILED", { destructiveHint: true, idempotentHint: true }, origin);
    expect(await work({ router })).toMatchObject({ status: "failed", attempts: { tool: runs } });
    expect(ran()).toBe(runs);
  });

  test("is reported by the host's fallback if there is one", async () => {
    const seen: unknown[] = [];
    const fallback = (...given: readonly unknown[]): string => {
      seen.push(given);
      return "Ask Ada.";
    };
    expect(await work({ router: flaky(9).router, fallback })).toMatchObject({ text: "Ask Ada." });
    expect(seen).toEqual([["tool", expect.objectContaining({ code: "TOOL_FAILED" })]]);
    const broken = (): never => {
      throw new Error("no");
    };
    expect((await work({ router: flaky(9).router, fallback: broken })).text).toContain("work failed");
  });

  test("keeps the result if the model fails to answer", async () => {
    const cut: ScriptedTurn = () => [textEvent("It i")];
    const { agent } = agentOf(ADD, cut);
    expect(await agent.run("1 + 2")).toMatchObject({
      status: "answered",
      result: { output: 3 },
      error: { code: "INTERNAL" },
      text: expect.stringContaining("could not describe the result"),
    });
  });
});

describe("cancellation", () => {
  test("kills the tool", async () => {
    const stop = new AbortController();
    const { agent } = agentOf(choose("forever"));
    const outcomes: ToolsRouterOutcome[] = [];
    for await (const event of agent.stream("loop", { signal: stop.signal })) {
      if (event.type === "tool-start") stop.abort();
      if (event.type === "outcome") outcomes.push(event);
    }
    expect(outcomes).toMatchObject([{ status: "cancelled" }]);
  });

  test("ends a wait between two attempts, and leaves no listener behind", async () => {
    const stop = new AbortController();
    const { agent } = agentOf(says("?"), ADD);
    const events: string[] = [];
    for await (const event of agent.stream("x", { signal: stop.signal, backoffMs: 60_000 })) {
      events.push(event.type === "outcome" ? event.status : event.type);
      if (event.type === "retry") stop.abort();
    }
    expect(events).toEqual(["retry", "cancelled"]);
    expect(getEventListeners(stop.signal, "abort")).toEqual([]);
  });

  test("results from leaving the stream", async () => {
    let signal: AbortSignal | undefined;
    const model: Model = async function* (request) {
      signal = request.signal;
      yield textEvent("{");
      await new Promise(() => {});
      yield finish([]);
    };
    const stream = new ToolsRouterAgent({ model, router: glovebox }).stream("x");
    const first = stream.next();
    await new Promise(setImmediate);
    await stream.return();
    expect(signal?.aborted).toBe(true);
    expect(await first).toMatchObject({ value: { type: "outcome", status: "cancelled" } });
  });
});

describe("a large catalog", () => {
  test("is narrowed to maxTools by the request, with one index", async () => {
    const router = new ToolRouter();
    const { definitions, cases } = makeCatalog();
    for (const { name, ...definition } of definitions) router.register(name, definition, () => name);
    const chosen = cases[321] ?? { request: "", toolName: "" };
    const { agent, requests } = agentOf(choose(chosen.toolName), says("ok"), choose("none"), says("no"));
    const { events, outcome } = await collect(agent.stream(chosen.request, { router }));
    expect(events[0]).toMatchObject({ type: "candidates", total: 1_000 });
    expect(events[0]).toHaveProperty("toolNames.length", 20);
    expect(outcome).toMatchObject({ status: "answered", result: { output: chosen.toolName } });
    expect(systemOf(requests[0])).toContain(`"name":"${chosen.toolName}"`);
    expect(systemOf(requests[0]).length).toBeLessThan(20_000);
    // A request without matches is shown some tools anyway.
    const lost = await collect(agent.stream("xyzzy", { router, maxTools: 5 }));
    expect(lost.events[0]).toHaveProperty("toolNames.length", 5);
  });
});

test.for([
  ["model", { model: 5 }],
  ["maxTools", { maxTools: 0 }],
  ["routingRetries", { routingRetries: -1 }],
  ["backoffMs", { backoffMs: Number.NaN }],
  ["router", { router: null }],
  ["arguments.unknownKeys", { arguments: { unknownKeys: "eat" } }],
] as const)("rejects an invalid %s by its name", async ([name, wrong]) => {
  const { agent } = agentOf();
  await expect(agent.run("x", wrong as never)).rejects.toThrow(name);
  expect((await collect(agent.stream("x", wrong as never))).outcome).toMatchObject({
    status: "failed",
    error: { code: "PARAM_INVALID" },
  });
});
test("rejects an invalid request", async () => {
  await expect(agentOf().agent.run(5 as never)).rejects.toThrow("request");
});
