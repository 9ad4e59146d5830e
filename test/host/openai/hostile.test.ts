// Hostile provider streams, and conversations that a provider would reject.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Message, ModelEvent, ModelToolCall } from "../../../src/host/agent/model.ts";
import { NO_USAGE, type ToolResult } from "../../../src/host/contract/tool-call.ts";
import {
  ANSWER_LIMITS,
  readAnswer,
  readAnswerStream,
  toCallOutput,
  toChatMessages,
  toResponsesInput,
} from "../../../src/host/openai/index.ts";
import { toChatChunks, toResponse, toResponseEvents } from "../../support/openai-wire.ts";

async function read(events: Iterable<unknown>, api: "responses" | "chat"): Promise<ModelEvent[]> {
  async function* stream() {
    yield* events;
  }
  const all: ModelEvent[] = [];
  for await (const event of readAnswerStream(stream(), { api })) all.push(event);
  return all;
}
const callsIn = (events: readonly ModelEvent[]): readonly ModelToolCall[] => {
  const finish = events.at(-1);
  if (finish?.type !== "finish") throw new Error("Expected an end");
  return finish.message.content.flatMap((part) => (part.type === "tool-call" ? [part.call] : []));
};

describe("readAnswerStream()", () => {
  test("accepts any values as events, and ends", async () => {
    const types = [
      "response.output_item.added",
      "response.output_item.done",
      "response.function_call_arguments.delta",
      "response.function_call_arguments.done",
      "response.output_text.delta",
      "response.completed",
    ];
    const field = fc.oneof(fc.jsonValue(), fc.constantFrom("fc_0", "function_call", "message", "", -1, 1e300, 0));
    const event = fc.oneof(
      fc.jsonValue(),
      fc.record(
        {
          type: fc.constantFrom(...types),
          item: fc.oneof(
            field,
            fc.record(
              { type: field, id: field, call_id: field, name: field, arguments: field, content: field, status: field },
              { requiredKeys: [] },
            ),
          ),
          output_index: field,
          item_id: field,
          delta: field,
          arguments: field,
          response: field,
          sequence_number: field,
        },
        { requiredKeys: ["type"] },
      ),
      fc.record({
        choices: fc.oneof(
          field,
          fc.array(
            fc.record({
              index: field,
              delta: fc.oneof(
                field,
                fc.record({
                  content: field,
                  tool_calls: fc.oneof(
                    field,
                    fc.array(
                      fc.record({
                        index: field,
                        id: field,
                        function: fc.oneof(field, fc.record({ name: field, arguments: field })),
                      }),
                    ),
                  ),
                }),
              ),
              finish_reason: field,
            }),
          ),
        ),
      }),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(event, { maxLength: 12 }),
        fc.constantFrom("responses" as const, "chat" as const),
        async (events, api) => {
          const all = await read(events, api).catch((thrown: unknown) => thrown);
          if (!Array.isArray(all)) expect(all).toMatchObject({ name: "ModelResponseError" });
          else expect(all.filter(({ type }) => type === "finish")).toHaveLength(1);
        },
      ),
      { numRuns: 300 },
    );
  });

  test.for([["responses"], ["chat"]] as const)(
    "runs at most 128 calls of one answer over %s, and reports the next one",
    async ([api]) => {
      const said = Array.from({ length: 400 }, (_, index) => ({
        type: "call" as const,
        id: `c${index}`,
        name: "ping",
        arguments: {},
      }));
      const calls = callsIn(await read(api === "chat" ? toChatChunks(said) : toResponseEvents(said), api));
      expect(calls).toHaveLength(ANSWER_LIMITS.calls + 1);
      expect(calls.filter(({ problem }) => problem !== undefined).map(({ id }) => id)).toEqual(["c128"]);
    },
  );

  test.for([["responses"], ["chat"]] as const)("keeps at most 1 MiB of arguments, over %s", async ([api]) => {
    const said = [
      { type: "call" as const, id: "c", name: "ping", arguments: "x".repeat(ANSWER_LIMITS.argumentChars + 10) },
    ];
    const options = { deltaUnits: 65_536 };
    const [call] = callsIn(
      await read(api === "chat" ? toChatChunks(said, options) : toResponseEvents(said, options), api),
    );
    expect(call).toMatchObject({ problem: expect.stringMatching(/at most 1048576 characters/) });
    expect(call?.argumentsText.length).toBeLessThanOrEqual(ANSWER_LIMITS.argumentChars);
  });

  test("ends an endless text", async () => {
    function* endless() {
      for (let at = 0; ; at += 1)
        yield {
          type: "response.output_text.delta",
          item_id: "m",
          output_index: 0,
          sequence_number: at,
          delta: "x".repeat(65_536),
        };
    }
    await expect(read(endless(), "responses")).rejects.toThrow(/exceeds/);
  });

  test("drops an item that is nested too deeply", async () => {
    let item: unknown = {};
    for (let depth = 0; depth < 50_000; depth += 1) item = { a: item };
    const whole = {
      status: "completed",
      output: [
        { type: "reasoning", id: "r", deep: item },
        { type: "function_call", call_id: "c", name: "ping", arguments: "[".repeat(100_000) },
      ],
    };
    const { message, calls } = readAnswer(whole);
    expect(message.content.map(({ type }) => type)).toEqual(["tool-call"]);
    expect(calls[0]).not.toHaveProperty("arguments");
  });
});

const result = (callId: string, more: object): ToolResult =>
  ({ callId, toolName: "ping", durationMs: 1, usage: NO_USAGE, logs: [], ...more }) as unknown as ToolResult;
const callOf = (id: string, more: Partial<ModelToolCall> = {}): ModelToolCall => ({
  id,
  toolName: "ping",
  argumentsText: "{}",
  arguments: {},
  kind: "function",
  ...more,
});
const asked: Message = { role: "user", content: "go" };
const turn = (...calls: readonly ModelToolCall[]): Message => ({
  role: "assistant",
  content: calls.map((call) => ({ type: "tool-call", call })),
});
const answer = (callId: string, more: object = { success: true, output: 1 }): Message => ({
  role: "tool",
  callId,
  toolName: "ping",
  result: result(callId, more),
});

describe("an outgoing conversation", () => {
  test("has one output for each call, even if outputs are missing, repeated or misplaced", () => {
    const id = fc.constantFrom("a", "b", "c");
    const message = fc.oneof(
      fc.constant(asked),
      fc.uniqueArray(id, { minLength: 1 }).map((ids) => turn(...ids.map((each) => callOf(each)))),
      id.map((each) => answer(each)),
    );
    fc.assert(
      fc.property(fc.array(message, { maxLength: 10 }), (messages) => {
        const open: string[] = [];
        for (const item of toResponsesInput(messages)) {
          if (item.type === "function_call") open.push(String(item.call_id));
          else if (item.type === "function_call_output")
            expect(open.splice(open.indexOf(String(item.call_id)), 1)).toEqual([item.call_id]);
          else expect(open).toEqual([]);
        }
        expect(open).toEqual([]);
        let left: string[] = [];
        for (const chat of toChatMessages(messages)) {
          if (chat.role === "tool")
            expect(left.splice(left.indexOf(String(chat.tool_call_id)), 1)).toEqual([chat.tool_call_id]);
          else {
            expect(left).toEqual([]);
            left = ((chat.tool_calls ?? []) as { id: string }[]).map((each) => each.id);
          }
        }
        expect(left).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });

  test("reports a call without a result as stopped", () => {
    expect(toResponsesInput([asked, turn(callOf("a"))]).at(-1)).toEqual({
      type: "function_call_output",
      call_id: "a",
      output: expect.stringMatching(/stopped before it had a result/),
    });
    expect(toCallOutput({ id: "a", kind: "custom" }, undefined).type).toBe("custom_tool_call_output");
  });

  test("replays invalid arguments as JSON, and reasoning only if it is complete", () => {
    const provider = (item: object) => ({ type: "provider" as const, provider: "openai-responses", item });
    const broken = callOf("a", { argumentsText: "{a:", arguments: undefined });
    const messages: Message[] = [
      {
        role: "assistant",
        content: [
          provider({ type: "reasoning", id: "rs_1", summary: [], encrypted_content: "gAAA" }),
          provider({ type: "reasoning", id: "rs_2", summary: [] }),
          provider({ type: "local_shell_call", call_id: "x", id: "s" }),
          { type: "tool-call", call: broken },
          provider({ type: "reasoning", id: "rs_3", summary: [], encrypted_content: "gAAA" }),
        ],
      },
    ];
    expect(toResponsesInput(messages)).toEqual([
      { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "gAAA" },
      { type: "function_call", call_id: "a", name: "ping", arguments: '{"malformed":"{a:"}' },
      expect.objectContaining({ type: "function_call_output", call_id: "a" }),
    ]);
  });

  test("keeps provider items through a whole round", () => {
    const { message } = readAnswer(
      toResponse([
        { type: "reasoning", id: "rs_1", encrypted: "gAAA" },
        { type: "text", text: "Hm" },
        { type: "call", id: "a", name: "ping", arguments: {} },
      ]),
    );
    expect(toResponsesInput([message, answer("a")]).map(({ type, role }) => type ?? role)).toEqual([
      "reasoning",
      "assistant",
      "function_call",
      "function_call_output",
    ]);
  });

  test("replays reasoning and signatures of a chat until the next user message", () => {
    const whole = {
      choices: [
        {
          index: 0,
          message: {
            content: null,
            reasoning_content: "Hm",
            tool_calls: [
              {
                id: "a",
                function: { name: "ping", arguments: "{}" },
                extra_content: { google: { thought_signature: "sig" } },
              },
            ],
          },
          finish_reason: "tool_calls",
        },
      ],
    };
    const { message } = readAnswer(whole);
    const [first] = toChatMessages([message, answer("a")]);
    expect(first).toMatchObject({
      reasoning_content: "Hm",
      tool_calls: [{ id: "a", extra_content: { google: { thought_signature: "sig" } } }],
    });
    expect(toChatMessages([message, answer("a"), asked])[0]).not.toHaveProperty("reasoning_content");
  });
});

describe("an output", () => {
  const call = { id: "a", kind: "function" } as const;
  const image = { type: "image", data: new Uint8Array([1, 2, 3]), mimeType: "image/png" };
  test.for<[string, object, unknown]>([
    ["text as it is", { success: true, output: "hello" }, "hello"],
    ["anything else as JSON", { success: true, output: { a: [1] } }, '{"a":[1]}'],
    ["bytes as base64", { success: true, output: { b: new Uint8Array([1, 2]) } }, '{"b":"AQI="}'],
    [
      "images as images",
      { success: true, output: null, content: [image] },
      [{ type: "input_image", image_url: "data:image/png;base64,AQID", detail: "auto" }],
    ],
    [
      "files as files",
      {
        success: true,
        output: 1,
        content: [
          {
            type: "resource",
            resource: { uri: "x://a/b c.pdf", mimeType: "application/pdf", blob: new Uint8Array([1]) },
          },
        ],
      },
      [
        { type: "input_text", text: "1" },
        { type: "input_file", file_data: "data:application/pdf;base64,AQ==", filename: "b c.pdf" },
      ],
    ],
    [
      "unsupported content as a note",
      { success: true, output: null, content: [{ ...image, type: "audio", mimeType: "audio/wav" }] },
      "[audio/wav, 3 bytes: not shown]",
    ],
    [
      "no content that is for users only",
      { success: true, output: 1, content: [{ type: "text", text: "psst", annotations: { audience: ["user"] } }] },
      "1",
    ],
  ])("has %s", ([, more, expected]) => {
    expect(toCallOutput(call, result("a", more)).output).toEqual(expected);
  });

  test("is truncated with a note", () => {
    const { output } = toCallOutput(call, result("a", { success: true, output: `${"😀".repeat(100)}` }), {
      textChars: 11,
    });
    expect(output).toBe("😀😀😀😀😀… [cut: the first 11 of 200 characters]");
    const large = result("a", { success: true, output: null, content: [{ ...image, data: new Uint8Array(100) }] });
    expect(toCallOutput(call, large, { mediaBytes: 99 }).output).toBe("[image/png, 100 bytes: not shown, too large]");
  });

  test("the output of a failure contains the model's message", () => {
    const error = {
      code: "INTERNAL",
      message: "password at /etc/x",
      userMessage: "Something went wrong",
      recoverable: true,
    };
    expect(toCallOutput(call, result("a", { success: false, error })).output).not.toMatch(/password/);
  });
});
