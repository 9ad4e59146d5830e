// Arguments of "glovebox/openai": an unknown key, a wrong type, or a promise is an error that names its path. Responses of a
// provider are read leniently.
import { describe, expect, test } from "vitest";
import {
  openaiChat,
  openaiResponses,
  readAnswer,
  readAnswerStream,
  ToolNames,
  toCallOutput,
  toChatMessages,
  toOpenAITools,
  toResponsesInput,
  toStrictSchema,
  toToolMessage,
} from "../../../src/host/openai/index.ts";
import { ToolRouter } from "../../../src/host/routing/tool-router.ts";
import { FAILING_CALLBACKS } from "../../support/failing-callbacks.ts";
import { expectStrict, failureOfAction } from "../../support/strict-options.ts";

const router = new ToolRouter();
router.register("ask", { inputSchema: { type: "object", properties: {} } }, () => 1);
const definitions = router.getRegisteredTools();
const create = async (): Promise<never> => Promise.reject(new Error("no request is made"));
const client = { responses: { create }, chat: { completions: { create } } } as never;

const TOOL_OPTIONS: readonly (readonly [object, string])[] = [
  [{ strict: true }, "strict: "],
  [{ strict: "yes" }, "strict: "],
  [{ custom: "ask" }, "custom: "],
  [{ customs: [] }, 'customs: Unknown option. Did you mean "custom"?'],
  [{ namespaces: ["crm"] }, "namespaces: "],
  [{ namespaces: new Map([["crm", "x"]]) }, "namespaces: "],
  [{ toolSearch: "yes" }, "toolSearch: "],
];

describe("toOpenAITools()", () => {
  test("rejects invalid options", async () => {
    await expectStrict(
      (options) => toOpenAITools(definitions, options as never),
      [
        [{}, "options.api: "],
        [{ api: "assistants" }, "options.api: "],
        ...TOOL_OPTIONS.map(([options, message]) => [{ api: "responses", ...options }, `options.${message}`] as const),
      ],
    );
  });

  test.for([undefined, Promise.resolve(definitions), [Promise.resolve(definitions[0])], ["ask"], router.listTools()])(
    "rejects %s for definitions",
    async (given) => {
      const error = await failureOfAction(() => toOpenAITools(given as never, { api: "responses" }));
      expect(error).toMatchObject({ code: "PARAM_INVALID", message: expect.stringMatching(/^definitions/) });
    },
  );
});

describe.for<[string, (given: unknown, options: unknown) => unknown]>([
  ["openaiResponses()", (given, options) => openaiResponses(given as never, options as never)],
  ["openaiChat()", (given, options) => openaiChat(given as never, options as never)],
])("%s", ([name, toModel]) => {
  test("rejects invalid options before any request", async () => {
    const more =
      name === "openaiChat()" ? [[{ encryptedReasoning: true }, "encryptedReasoning: Unknown option"] as const] : [];
    const bad: readonly (readonly [object, string])[] = [
      [{ model: "" }, "model: "],
      [{ model: undefined }, "model: "],
      [{ stream: "no" }, "stream: "],
      [{ temperature: 0 }, "temperature: Unknown option"],
      [{ body: Promise.resolve({}) }, "body: Expected a plain object"],
      [{ output: { textChar: 5 } }, 'output.textChar: Unknown option. Did you mean "textChars"?'],
      [{ output: { textChars: -1 } }, "output.textChars: "],
      [{ tools: { api: "chat" } }, "tools.api: Unknown option"],
      ...TOOL_OPTIONS.map(([tools, message]) => [{ tools }, `tools.${message}`] as const),
      ...more,
    ];
    await expectStrict(
      (options) => toModel(client, options),
      bad.map(([options, message]) => [{ model: "gpt-5", ...options }, `options.${message}`]),
    );
  });

  test.for([undefined, null, {}, Promise.resolve(client), { responses: {}, chat: {} }])(
    "rejects %s for a client",
    async (given) => {
      const error = await failureOfAction(() => toModel(given, { model: "gpt-5" }));
      expect(error).toMatchObject({
        code: "PARAM_INVALID",
        message: expect.stringMatching(/^client: Expected an OpenAI client/),
      });
    },
  );
});

describe("a model", () => {
  test("ends when its signal aborts, even if the client ignores the signal", async () => {
    const silent = { responses: { create: () => new Promise(() => {}) } } as never;
    const stop = new AbortController();
    const request = { messages: [], tools: definitions, signal: stop.signal };
    const next = openaiResponses(silent, { model: "gpt-5" })(request)[Symbol.asyncIterator]().next();
    stop.abort(new Error("stopped"));
    await expect(next).rejects.toThrow("stopped");
  });
});

describe("readAnswer() and readAnswerStream()", () => {
  const RESPONSE = { output: [{ type: "function_call", name: "ask", arguments: "{}" }], status: "completed" };
  async function* stream(): AsyncGenerator<unknown> {
    yield { type: "response.completed", response: RESPONSE };
  }

  test("reject invalid options synchronously", async () => {
    const bad = [
      [{ createID: () => "x" }, 'options.createID: Unknown option. Did you mean "createId"?'],
      [{ createId: "x" }, "options.createId: Expected a function"],
    ] as const;
    await expectStrict((options) => readAnswer(RESPONSE, undefined, options as never), bad);
    await expectStrict(
      (options) => readAnswerStream(stream(), options as never),
      [
        ...bad.map(([options, message]) => [{ api: "responses", ...options }, message] as const),
        [{ api: "x" }, "options.api: "],
        [{ api: "chat", tools: {} }, "options.tools: Expected a value returned by toOpenAITools()"],
      ],
    );
  });

  test.for<[string, () => unknown]>([
    ["a promise for a response", () => readAnswer(Promise.resolve(RESPONSE))],
    ["a promise that rejects for a response", () => readAnswer(Promise.reject(new Error("later")))],
    ["nothing for a response", () => readAnswer(null)],
    ["text for a response", () => readAnswer("{}")],
    ["a number for a response", () => readAnswer(5)],
    ["a list of definitions for tools", () => readAnswer(RESPONSE, definitions as never)],
    ["a promise for a stream", () => readAnswerStream(Promise.resolve(stream()) as never, { api: "responses" })],
    ["a list for a stream", () => readAnswerStream([] as never, { api: "responses" })],
  ])("reject %s", async ([, action]) => {
    expect(await failureOfAction(action)).toMatchObject({ code: "PARAM_INVALID" });
  });

  test.for<readonly [string, () => unknown]>([
    ...FAILING_CALLBACKS,
    ["returns a promise", async () => "id"],
    ["returns nothing", () => undefined],
    ["returns an empty text", () => ""],
    ["returns a text that is too long", () => "x".repeat(257)],
  ])("use a random id if createId %s", ([, createId]) => {
    const { calls } = readAnswer(RESPONSE, undefined, { createId: createId as never });
    expect(calls).toMatchObject([{ toolName: "ask", id: expect.stringMatching(/^call_[0-9a-f]{32}$/) }]);
  });
});

describe("messages and outputs", () => {
  const result = { success: true, output: 1 } as never;
  const tools = toOpenAITools(definitions, { api: "responses" });

  test.for<[string, () => unknown, RegExp]>([
    ["a promise for messages", () => toChatMessages(Promise.resolve([]) as never), /^messages: Expected an array/],
    [
      "one message for a list",
      () => toResponsesInput({ role: "user", content: "x" } as never),
      /^messages: Expected an array/,
    ],
    [
      "a promise among messages",
      () => toResponsesInput([Promise.resolve({})] as never),
      /^messages\[0\]: Expected a message/,
    ],
    ["an unknown role", () => toChatMessages([{ role: "admin", content: "x" }] as never), /^messages\[0\]\.role: /],
    [
      "a promise as the result of a message",
      () => toChatMessages([{ role: "tool", callId: "c", toolName: "ask", result: Promise.resolve(result) }] as never),
      /^messages\[0\]\.result: Expected a ToolResult, got a Promise/,
    ],
    ["invalid content", () => toChatMessages([{ role: "user", content: 5 }] as never), /^messages\[0\]\.content: /],
    [
      "definitions for tools",
      () => toChatMessages([], definitions as never),
      /^tools: Expected a value returned by toOpenAITools/,
    ],
    ["an unknown limit", () => toResponsesInput([], tools, { text: 5 } as never), /^limits\.text: Unknown option/],
    [
      "a promise for limits",
      () => toChatMessages([], tools, Promise.resolve({}) as never),
      /^limits: Expected a plain object/,
    ],
    [
      "a call without an id",
      () => toCallOutput({ kind: "function" } as never, result),
      /^call: Expected a call with an id/,
    ],
    [
      "a promise for a call",
      () => toToolMessage(Promise.resolve({ id: "c" }) as never, result),
      /^call: Expected a call/,
    ],
    [
      "a wrong limit of an output",
      () => toToolMessage({ id: "c" }, result, { textChars: "5" } as never),
      /^limits\.textChars: /,
    ],
    ["a promise for a schema", () => toStrictSchema(Promise.resolve({}) as never), /^schema: .*got a Promise$/],
    ["a list for a schema", () => toStrictSchema([] as never), /^schema: .*got an array$/],
    ["a text for names", () => new ToolNames("ask"), /^toolNames: Expected an iterable of strings/],
    ["a promise for names", () => new ToolNames(Promise.resolve(["ask"]) as never), /^toolNames: Expected/],
    ["numbers for namespaces", () => new ToolNames([], [5] as never), /^namespaces: Expected/],
  ])("reject %s", async ([, action, message]) => {
    expect(await failureOfAction(action)).toMatchObject({
      code: "PARAM_INVALID",
      message: expect.stringMatching(message),
    });
  });
});

describe.for<[string, (result: unknown) => unknown]>([
  ["toCallOutput()", (result) => toCallOutput({ id: "c", kind: "function" }, result as never)],
  ["toToolMessage()", (result) => toToolMessage({ id: "c" }, result as never)],
])("%s", ([, convert]) => {
  // The model would read that a tool has failed, which may have succeeded.
  test.for<readonly [string, unknown]>([
    ["a promise", router.execute({ id: "c", toolName: "ask" })],
    ["null", null],
    ["the output", 1],
    ["an object without success", { output: 1 }],
    ["a list", [{ success: true, output: 1 }]],
  ])("rejects %s as result", async ([, result]) => {
    const error = await failureOfAction(() => convert(result));
    expect(error).toMatchObject({
      code: "PARAM_INVALID",
      message: expect.stringMatching(/^result: Expected a ToolResult, got /),
    });
  });
});
