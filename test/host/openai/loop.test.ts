// Whole conversations over both APIs, with the real `openai` package, a local server and a real sandbox.
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AgentLoop } from "../../../src/host/agent/loop/agent-loop.ts";
import { createGlovebox } from "../../../src/host/glovebox/create-glovebox.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import {
  openaiChat,
  openaiResponses,
  readAnswer,
  toCallOutput,
  toOpenAITools,
} from "../../../src/host/openai/index.ts";
import { type OpenAIServer, type RecordedRequest, type Said, startOpenAIServer } from "../../support/openai-server.ts";

const integers = { type: "object", properties: { a: { type: "integer" }, b: { type: "integer" } }, required: ["a"] };
let glovebox: Glovebox;
let server: OpenAIServer;
let client: OpenAI;

beforeAll(async () => {
  glovebox = await createGlovebox({ cache: false, limits: { timeoutMs: 120_000, cpuMs: 120_000 } });
  const tools: readonly (readonly [name: string, source: string, inputSchema?: object])[] = [
    ["math.add", "export default ({ a, b = 10 }) => a + b", integers],
    ["spin", "export default () => { for (;;); }"],
  ];
  for (const [name, source, inputSchema = { type: "object" }] of tools) {
    await glovebox.addTool({ name, source, overrides: { description: name, inputSchema: inputSchema as never } });
  }
  server = await startOpenAIServer();
  client = new OpenAI({ baseURL: server.baseURL, apiKey: "test", maxRetries: 0 });
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await glovebox.close();
});

const APIS = {
  responses: {
    model: (stream: boolean) => openaiResponses(client, { model: "test-model", stream }),
    outputsOf: ({ body }: RecordedRequest) =>
      (body.input as { type: string; call_id: string; output: string }[])
        .filter(({ type }) => type === "function_call_output")
        .map(({ call_id, output }) => [call_id, output]),
  },
  chat: {
    model: (stream: boolean) => openaiChat(client, { model: "test-model", stream }),
    outputsOf: ({ body }: RecordedRequest) =>
      (body.messages as { role: string; tool_call_id: string; content: string }[])
        .filter(({ role }) => role === "tool")
        .map(({ tool_call_id, content }) => [tool_call_id, content]),
  },
} as const;

const wireNameOf = (request: RecordedRequest): string => {
  const [tool] = request.body.tools as { name?: string; function?: { name: string } }[];
  return tool?.name ?? tool?.function?.name ?? "";
};

/** A turn that calls the first tool by the name that it was given. */
const callFirst =
  (calls: readonly (readonly [id: string, args: unknown])[]) =>
  (request: RecordedRequest): readonly Said[] => [
    { type: "text", text: "One moment." },
    ...calls.map(([id, args]) => ({ type: "call" as const, id, name: wireNameOf(request), arguments: args })),
  ];

describe.for([
  ["responses", true],
  ["responses", false],
  ["chat", true],
  ["chat", false],
] as const)("a model over %s, streaming: %s", ([api, stream]) => {
  const { model, outputsOf } = APIS[api];

  test("makes parallel calls of a sandboxed tool, receives the results, and answers", async () => {
    server.script(
      callFirst([
        ["c1", { a: 1, b: 2 }],
        ["c2", '{"a":5,"b":null}'],
        ["c3", '{"a":'],
      ]),
      [{ type: "text", text: "3 and 15" }],
    );
    const outcome = await new AgentLoop({ model: model(stream), router: glovebox }).run({
      messages: [
        { role: "system", content: "Add." },
        { role: "user", content: "1+2, 5+10?" },
      ],
    });
    expect(outcome).toMatchObject({ status: "finished", reason: "stop", text: "3 and 15" });
    expect(outcome.usage).toEqual({ inputTokens: 80, outputTokens: 40 });
    const last = server.requests.at(-1);
    if (last === undefined) throw new Error("Expected a request");
    expect(outputsOf(last)).toEqual([
      ["c1", "3"],
      ["c2", "15"],
      [
        "c3",
        expect.stringMatching(/^The tool "math\.add" failed with PARAM_INVALID: .*invalid JSON.*call it again\.$/),
      ],
    ]);
    expect(wireNameOf(last)).toMatch(/^math_add_[0-9a-f]{8}$/);
    expect(last.body).toMatchObject(api === "responses" ? { store: false, stream } : { stream });
  });

  test("continues after a tool in an endless loop is killed", async () => {
    // The same call with more time than its test has: the conversation does not wait for it.
    const stop = new AbortController();
    let isOver = false;
    const control = glovebox
      .execute({ id: "control", toolName: "spin", arguments: {} }, { timeoutMs: 120_000, signal: stop.signal })
      .finally(() => {
        isOver = true;
      });
    server.script([{ type: "call", id: "c1", name: "spin", arguments: {} }], [{ type: "text", text: "It hung." }]);
    const outcome = await new AgentLoop({ model: model(stream), router: glovebox, context: { timeoutMs: 300 } }).run({
      messages: [{ role: "user", content: "spin" }],
    });
    expect(outcome).toMatchObject({ status: "finished", text: "It hung." });
    const answer = outcome.messages.find(({ role }) => role === "tool");
    if (answer?.role !== "tool" || answer.result.success) throw new Error("Expected a failed result");
    expect(answer.result.error.code).toBe("TOOL_TIMEOUT");
    // The process was killed, so it does not delay the next call.
    const next = await glovebox.execute({ id: "x", toolName: "math.add", arguments: { a: 1, b: 1 } });
    expect(next).toMatchObject({ success: true, output: 2 });
    expect(answer.result.durationMs).toBeGreaterThanOrEqual(290);
    expect(isOver).toBe(false);
    stop.abort();
    expect(await control).toMatchObject({ success: false, error: { code: "CANCELLED" } });
  });

  test("ends soon after its signal aborts", async () => {
    const { promise: asked, resolve } = Promise.withResolvers<void>();
    server.script({
      said: [{ type: "text", text: "never told to its end" }],
      beforeEvent: (_, index) => (index < 2 ? resolve() : new Promise(() => {})),
    });
    const stop = new AbortController();
    const reading = (async () => {
      const events: string[] = [];
      const request = { messages: [{ role: "user", content: "hi" }] as const, tools: [], signal: stop.signal };
      for await (const event of model(stream)(request)) events.push(event.type);
      return events;
    })();
    if (!stream) {
      expect(await reading).toEqual(["text-delta", "finish"]);
      return;
    }
    await asked;
    stop.abort(new Error("enough"));
    await expect(reading).rejects.toThrow(/enough|aborted/);
    expect(await server.requests.at(-1)?.ended).toBe("aborted");
  });
});

describe("a host's own loop", () => {
  test("needs toOpenAITools(), readAnswer() and toCallOutput()", async () => {
    server.script(callFirst([["c1", { a: 20, b: 22 }]]), [{ type: "text", text: "42" }]);
    const tools = toOpenAITools(glovebox.router.getRegisteredTools(), { api: "responses" });
    const input: OpenAI.Responses.ResponseInputItem[] = [{ role: "user", content: "20 + 22?" }];
    for (;;) {
      const response = await client.responses.create({ model: "m", input, tools: tools.tools });
      input.push(...(response.output as OpenAI.Responses.ResponseInputItem[]));
      const { calls } = readAnswer(response, tools);
      if (calls.length === 0) {
        expect(response.output_text).toBe("42");
        break;
      }
      for (const call of calls) {
        const result = await glovebox.execute({ id: call.id, toolName: call.toolName, arguments: call.arguments });
        input.push(toCallOutput(call, result) as unknown as OpenAI.Responses.ResponseInputItem);
      }
    }
    expect(input.at(-1)).toMatchObject({ content: [{ text: "42" }] });
    expect(server.requests.at(-1)?.body.input).toContainEqual({
      type: "function_call_output",
      call_id: "c1",
      output: "42",
    });
  });
});
