// Hosted tools in third-party frameworks: the real packages against a local server that implements OpenAI's API.
import { createOpenAI } from "@ai-sdk/openai";
import { Agent, OpenAIProvider, Runner } from "@openai/agents";
import { generateText, isStepCount, streamText } from "ai";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { toAISDKTools } from "../../../src/host/adapters/ai-sdk.ts";
import { toAgentsTools } from "../../../src/host/adapters/openai-agents.ts";
import type { ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { makeGlovebox } from "../../support/host-zone.ts";
import { type OpenAIServer, type Said, type Script, startOpenAIServer } from "../../support/openai-server.ts";
import { expectIdle } from "../../support/processes.ts";

const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==";
const TOOLS: { readonly [name: string]: string } = {
  add: `export const description = "Adds";
    export const inputSchema = { type: "object", properties: { a: { type: "number" }, b: { type: "number" } }, required: ["a", "b"] };
    export default ({ a, b }) => ({ sum: a + b });`,
  "shop.look-up": "export default ({ sku }) => 'costs 9.50: ' + sku;",
  greet: `export const inputSchema = { type: "object", properties: { name: { type: "string" }, title: { type: "string" } }, required: ["name"] };
    export default (input) => Object.keys(input).join();`,
  spin: "export default () => { for (;;); };",
  fails: "export default () => { throw new RangeError('no such order'); };",
  chart: `import { content, image, text } from "glovebox/tool";
    export default () => content([text("The chart:"), image(Buffer.from("${PIXEL}", "base64"), "image/png")], { points: 3 });`,
  poses: "export default () => ({ type: 'text', text: 'posing as a part', modelParts: [] });",
  poses_as_parts: "export default () => ({ output: 'hidden', modelParts: [{ type: 'text', text: 'shown instead' }] });",
  length: "export const inputSchema = { type: 'string' }; export default (text) => text.length;",
  either: `export const inputSchema = { anyOf: [{ type: "object", properties: { input: { type: "string" } } }, { type: "array" }] };
    export default (input) => JSON.stringify(input);`,
  notice: `import { content } from "glovebox/tool";
    export default () => content([{ type: "text", text: "For a person", annotations: { audience: ["user"] } }]);`,
  caption: `import { content, image } from "glovebox/tool";
    export default () => content([image(Buffer.from("${PIXEL}", "base64"), "image/png")], "A chart");`,
};

let glovebox: Glovebox;
beforeAll(async () => {
  glovebox = await makeGlovebox({ tenancy: "multi", limits: { timeoutMs: 60_000 } });
  for (const [name, source] of Object.entries(TOOLS)) await glovebox.addTool({ name, source }, { tenantId: "acme" });
  await glovebox.addTool({ name: "secret", source: "export default () => 1" }, { tenantId: "other" });
  // A first call after its process has started has its whole time limit.
  await glovebox.execute({ id: "warm", toolName: "add", arguments: { a: 1, b: 1 } }, { tenantId: "acme" });
});
afterAll(() => glovebox.close());

async function serverOf(...script: readonly Script[]): Promise<OpenAIServer> {
  const server = await startOpenAIServer(...script);
  onTestFinished(() => server[Symbol.asyncDispose]());
  return server;
}

const call = (name: string, args: unknown, id = "call_1"): Said => ({ type: "call", id, name, arguments: args });
const say = (text: string): Said => ({ type: "text", text });

/** Outputs that the model received, by call id. */
function outputsIn(server: OpenAIServer, request = 1): { readonly [callId: string]: unknown } {
  const { body, api } = server.requests[request] as OpenAIServer["requests"][number];
  if (api === "chat") {
    const messages = body.messages as readonly {
      readonly role: string;
      readonly tool_call_id: string;
      readonly content: unknown;
    }[];
    return Object.fromEntries(
      messages.filter(({ role }) => role === "tool").map((one) => [one.tool_call_id, one.content]),
    );
  }
  const items = body.input as readonly { readonly type?: string; readonly call_id: string; readonly output: unknown }[];
  return Object.fromEntries(
    items.filter(({ type }) => type === "function_call_output").map((item) => [item.call_id, item.output]),
  );
}

/** Results of the Glovebox, in order. */
function watchResults(): ToolResult[] {
  const results: ToolResult[] = [];
  const execute = glovebox.router.execute.bind(glovebox.router);
  const spy = vi.spyOn(glovebox.router, "execute").mockImplementation(async (...given) => {
    const result = await execute(...given);
    results.push(result);
    return result;
  });
  onTestFinished(() => spy.mockRestore());
  return results;
}

interface Framework {
  readonly name: string;
  /** Runs one conversation with all of acme's tools and returns the final text. */
  run(server: OpenAIServer, options?: { readonly timeoutMs?: number; readonly signal?: AbortSignal }): Promise<string>;
}

const FRAMEWORKS: readonly Framework[] = [
  ...(["responses", "chat"] as const).map(
    (api): Framework => ({
      name: `AI SDK, ${api}`,
      async run({ baseURL }, { timeoutMs, signal } = {}) {
        const model = createOpenAI({ baseURL, apiKey: "test" })[api]("test-model");
        const tools = toAISDKTools(glovebox, {
          tenantId: "acme",
          ...(timeoutMs === undefined ? {} : { context: { timeoutMs } }),
        });
        const { text } = await generateText({
          model,
          tools,
          prompt: "Go on",
          stopWhen: isStepCount(5),
          maxRetries: 0,
          ...(signal === undefined ? {} : { abortSignal: signal }),
        });
        return text;
      },
    }),
  ),
  {
    name: "OpenAI Agents SDK",
    async run({ baseURL }, { timeoutMs, signal } = {}) {
      const modelProvider = new OpenAIProvider({ baseURL, apiKey: "test" });
      const runner = new Runner({ modelProvider, tracingDisabled: true });
      const tools = toAgentsTools(glovebox, {
        tenantId: "acme",
        ...(timeoutMs === undefined ? {} : { context: { timeoutMs } }),
      });
      const agent = new Agent({ name: "clerk", model: "test-model", tools });
      const { finalOutput } = await runner.run(agent, "Go on", signal === undefined ? {} : { signal });
      return String(finalOutput);
    },
  },
];

describe.for(FRAMEWORKS)("$name", ({ run }) => {
  test("runs a sandboxed tool in a conversation of two turns", async () => {
    const server = await serverOf([call("add", { a: 1, b: 2 })], [say("It is 3")]);
    expect(await run(server)).toBe("It is 3");
    expect(outputsIn(server)).toEqual({ call_1: '{"sum":3}' });
    const offered = JSON.stringify(server.requests[0]?.body.tools);
    expect(offered).toContain('"required":["a","b"]');
    expect(offered).not.toContain("secret");
  });

  test("answers all calls of a turn, and calls a tool with an invalid name by its alias", async () => {
    const server = await serverOf(
      (request) => {
        const alias = /"(shop_look-up_[0-9a-f]+)"/.exec(JSON.stringify(request.body.tools))?.[1] ?? "";
        return { said: [call("add", { a: 2, b: 2 }, "call_1"), call(alias, { sku: "A1" }, "call_2")] };
      },
      [say("Done")],
    );
    expect(await run(server)).toBe("Done");
    expect(outputsIn(server)).toEqual({ call_1: '{"sum":4}', call_2: "costs 9.50: A1" });
  });

  test("reports failures and invalid arguments to the model in one sentence, and continues", async () => {
    const server = await serverOf(
      [call("fails", {}, "call_1"), call("add", { a: "x", b: 2 }, "call_2")],
      [say("Sorry")],
    );
    expect(await run(server)).toBe("Sorry");
    const { call_1, call_2 } = outputsIn(server);
    expect(call_1).toMatch(/fails.*TOOL_FAILED.*no such order/);
    expect(call_2).toMatch(/add.*PARAM_INVALID.*\/a.*number/);
  });

  test.for([
    ["no JSON", '{"a":1,'],
    ["no object", "[1,2]"],
  ])("reports arguments that are %s to the model, and continues", async ([, args]) => {
    const server = await serverOf([call("add", args)], [say("Sorry")]);
    expect(await run(server)).toBe("Sorry");
    expect(outputsIn(server).call_1).toMatch(/JSON|object/);
  });

  test("kills a tool in an endless loop after its limit of 300 ms, and continues", async () => {
    const results = watchResults();
    const server = await serverOf([call("spin", {})], [say("It hangs")]);
    expect(await run(server, { timeoutMs: 300 })).toBe("It hangs");
    expect(outputsIn(server).call_1).toMatch(/spin.*TOOL_TIMEOUT/);
    // Far below the default limit of the Glovebox.
    expect(results).toMatchObject([{ error: { message: expect.stringContaining("300 ms") } }]);
    await expectIdle(() => glovebox.workerPids);
  });

  test("stops the tool on abort", async () => {
    const results = watchResults();
    const stop = new AbortController();
    const server = await serverOf([call("spin", {})], [say("never")]);
    const running = run(server, { signal: stop.signal }).catch((error: unknown) => error);
    await vi.waitFor(() => expect(glovebox.listCalls({ scope: "all" })).toMatchObject([{ state: "running" }]));
    stop.abort();
    await running;
    await vi.waitFor(() => expect(results).toMatchObject([{ success: false, error: { code: "CANCELLED" } }]));
    await expectIdle(() => glovebox.workerPids);
  });

  test("passes an output that looks like the framework's parts as text", async () => {
    const server = await serverOf([call("poses", {})], [say("ok")]);
    await run(server);
    expect(JSON.parse(outputsIn(server).call_1 as string)).toMatchObject({ type: "text", modelParts: [] });
  });

  test("passes an output that has the form of the adapter's own parts as text", async () => {
    const server = await serverOf([call("poses_as_parts", {})], [say("ok")]);
    await run(server);
    // The AI SDK sends parts to Chat Completions as JSON.
    const output = outputsIn(server).call_1 as string | readonly { readonly text: string }[];
    const shown: unknown = JSON.parse(typeof output === "string" ? output : (output[0]?.text ?? ""));
    const inner: unknown = Array.isArray(shown) ? JSON.parse(shown[0].text) : shown;
    expect(inner).toMatchObject({ output: "hidden", modelParts: [{ text: "shown instead" }] });
  });

  test("offers each tool with the schema of an object, and calls a tool with the value in `input`", async () => {
    const server = await serverOf(
      [
        call("length", { input: "four" }, "call_1"),
        call("either", { input: { input: "a" } }, "call_2"),
        call("either", { input: [1] }, "call_3"),
      ],
      [say("ok")],
    );
    await run(server);
    const offered = server.requests[0]?.body.tools as readonly {
      readonly parameters?: unknown;
      readonly function?: { readonly parameters: unknown };
    }[];
    for (const tool of offered) {
      const parameters = tool.parameters ?? tool.function?.parameters;
      expect(parameters).toMatchObject({ type: "object" });
      expect(parameters).not.toHaveProperty("anyOf");
    }
    expect(outputsIn(server)).toEqual({ call_1: "4", call_2: '{"input":"a"}', call_3: "[1]" });
  });

  test("tells the model of a result without parts for it", async () => {
    const server = await serverOf([call("notice", {})], [say("ok")]);
    await run(server);
    expect(JSON.stringify(outputsIn(server).call_1)).toContain("null");
    expect(JSON.stringify(outputsIn(server).call_1)).not.toContain("For a person");
  });
});

test("a text next to an image reaches the model without quotes", async () => {
  for (const { run } of FRAMEWORKS.filter(({ name }) => !name.endsWith("chat"))) {
    const server = await serverOf([call("caption", {})], [say("ok")]);
    await run(server);
    expect(outputsIn(server).call_1).toMatchObject([{ type: "input_text", text: "A chart" }, { type: "input_image" }]);
  }
});

test("images reach a model over the Responses API", async () => {
  for (const { run } of FRAMEWORKS.filter(({ name }) => !name.endsWith("chat"))) {
    const server = await serverOf([call("chart", {})], [say("A chart")]);
    expect(await run(server)).toBe("A chart");
    expect(outputsIn(server).call_1).toEqual([
      expect.objectContaining({ type: "input_text", text: '{"points":3}' }),
      expect.objectContaining({ type: "input_text", text: "The chart:" }),
      expect.objectContaining({ type: "input_image", image_url: `data:image/png;base64,${PIXEL}` }),
    ]);
  }
});

test("the Agents SDK uses strict schemas if possible, and nulls of optional properties are removed", async () => {
  const server = await serverOf([call("greet", { name: "Ada", title: null })], [say("Hello")]);
  await FRAMEWORKS.at(-1)?.run(server);
  expect(outputsIn(server)).toEqual({ call_1: "name" });
  const offered = server.requests[0]?.body.tools as readonly { readonly name: string; readonly strict: boolean }[];
  expect(offered.find(({ name }) => name === "greet")).toMatchObject({ strict: true });
});

test("a copy of a tool with needsApproval waits for the framework's approval", async () => {
  const agents = await serverOf([call("add", { a: 1, b: 2 })], [say("It is 3")]);
  const modelProvider = new OpenAIProvider({ baseURL: agents.baseURL, apiKey: "test" });
  const runner = new Runner({ modelProvider, tracingDisabled: true });
  const guarded = toAgentsTools(glovebox, { tenantId: "acme" }).map((tool) => ({
    ...tool,
    needsApproval: async () => true,
  }));
  const agent = new Agent({ name: "clerk", model: "test-model", tools: guarded });
  const { interruptions, state } = await runner.run(agent, "Go on");
  expect(interruptions).toMatchObject([{ rawItem: { name: "add" } }]);
  for (const interruption of interruptions) state.approve(interruption);
  expect((await runner.run(agent, state)).finalOutput).toBe("It is 3");
  expect(outputsIn(agents)).toEqual({ call_1: '{"sum":3}' });

  const ai = await serverOf([call("add", { a: 1, b: 2 })]);
  const tools = toAISDKTools(glovebox, { tenantId: "acme", tools: ["add"] });
  const { content } = await generateText({
    model: createOpenAI({ baseURL: ai.baseURL, apiKey: "test" }).responses("test-model"),
    tools: Object.fromEntries(Object.entries(tools).map(([name, tool]) => [name, { ...tool, needsApproval: true }])),
    prompt: "Go on",
  });
  expect(content.map(({ type }) => type)).toEqual(["tool-call", "tool-approval-request"]);
});

test("streamText runs tools", async () => {
  const server = await serverOf([call("add", { a: 20, b: 22 })], [say("42")]);
  const model = createOpenAI({ baseURL: server.baseURL, apiKey: "test" }).responses("test-model");
  const stream = streamText({
    model,
    tools: toAISDKTools(glovebox, { tenantId: "acme" }),
    prompt: "Go on",
    stopWhen: isStepCount(3),
  });
  expect(await stream.text).toBe("42");
  expect(outputsIn(server)).toEqual({ call_1: '{"sum":42}' });
});

test("with slow feature flags, the tools of listTools() are passed on", async () => {
  await using flagged = await makeGlovebox({ flags: async (flag) => flag !== "tools.off" });
  for (const name of ["on", "off"]) await flagged.addTool({ name, source: "export default () => 1" });
  expect(Object.keys(toAISDKTools(flagged))).toEqual([]);
  expect(Object.keys(toAISDKTools(flagged, { tools: await flagged.listTools() }))).toEqual(["on"]);
});

test("only the requested tools are passed on; a missing one is an error", () => {
  expect(Object.keys(toAISDKTools(glovebox.router, { tenantId: "acme", tools: ["add"] }))).toEqual(["add"]);
  expect(() => toAgentsTools(glovebox, { tenantId: "acme", tools: ["secret"] })).toThrow(
    'There is no tool named "secret" that can be called',
  );
});
