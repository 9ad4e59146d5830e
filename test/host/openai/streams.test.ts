// Answers as providers send them: the same calls even if events are missing, repeated, out of order or cut off.
import fc from "fast-check";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ModelEvent } from "../../../src/host/agent/model.ts";
import { readAnswer, readAnswerStream, toOpenAITools } from "../../../src/host/openai/index.ts";
import type { ToolDefinition } from "../../../src/sandbox/contract/definition.ts";
import { ANSWERS, type AnswerCase, call } from "../../fixtures/openai/answers.ts";
import { type OpenAIServer, startOpenAIServer } from "../../support/openai-server.ts";
import { type Json, toChatChunks, toResponseEvents } from "../../support/openai-wire.ts";

const object = (properties: object, required: readonly string[]) => ({ type: "object", properties, required }) as never;
const DEFINITIONS: readonly ToolDefinition[] = [
  { name: "add", description: "", inputSchema: object({ a: { type: "number" }, b: { type: "number" } }, ["a"]) },
  { name: "crm.find", description: "", inputSchema: object({ name: { type: "string" } }, ["name"]) },
  { name: "write", description: "", inputSchema: object({ text: { type: "string" } }, ["text"]) },
  { name: "ping", description: "", inputSchema: { type: "object" } },
];
const TOOLS = {
  responses: toOpenAITools(DEFINITIONS, { api: "responses", custom: ["write"] }),
  chat: toOpenAITools(DEFINITIONS, { api: "chat", custom: ["write"] }),
};

async function read(events: readonly unknown[], api: "responses" | "chat"): Promise<ModelEvent[]> {
  async function* stream() {
    yield* events;
  }
  let made = 0;
  const createId = () => {
    made += 1;
    return `made_${made}`;
  };
  const all: ModelEvent[] = [];
  for await (const event of readAnswerStream(stream(), { api, tools: TOOLS[api], createId })) all.push(event);
  return all;
}

const callsOf = (events: readonly ModelEvent[]) =>
  events.flatMap((event) => (event.type === "tool-call" ? [event.call] : []));

function expectCase({ calls: expected, text = "", reason }: AnswerCase, events: readonly ModelEvent[]): void {
  const finish = events.at(-1);
  if (finish?.type !== "finish") throw new Error("Expected an end");
  const inMessage = finish.message.content.flatMap((part) => (part.type === "tool-call" ? [part.call] : []));
  expect(inMessage).toHaveLength(expected.length);
  for (const [index, { problem, kind = "function", ...fields }] of expected.entries()) {
    expect(inMessage[index]).toMatchObject({
      kind,
      ...("arguments" in fields && fields.arguments === undefined ? { toolName: fields.toolName } : fields),
    });
    if (problem === undefined) expect(inMessage[index]?.problem).toBeUndefined();
    else expect(inMessage[index]?.problem).toMatch(problem);
    if ("arguments" in fields && fields.arguments === undefined)
      expect(inMessage[index]).not.toHaveProperty("arguments");
  }
  expect(new Set(inMessage.map(({ id }) => id)).size).toBe(inMessage.length);
  const said = finish.message.content.map((part) => (part.type === "text" ? part.text : "")).join("");
  expect(said).toBe(text);
  if (reason !== undefined) expect(finish.reason).toBe(reason);
}

describe("readAnswerStream() and readAnswer()", () => {
  test.for(ANSWERS.map((each) => [`${each.api}: ${each.name}`, each] as const))("%s", async ([, each]) => {
    if (each.whole !== undefined) {
      const { message, reason, calls } = readAnswer(each.whole, TOOLS[each.api], { createId: () => "made" });
      expect(calls).toHaveLength(each.calls.length);
      expectCase(each, [{ type: "finish", message, reason }]);
      return;
    }
    const events = await read(each.events ?? [], each.api);
    expectCase(each, events);
    // Each call and each text is yielded once, as it arrives.
    const finish = events.at(-1);
    const content = finish?.type === "finish" ? finish.message.content : [];
    expect(callsOf(events)).toHaveLength(content.filter(({ type }) => type === "tool-call").length);
    expect(events.map((event) => (event.type === "text-delta" ? event.text : "")).join("")).toBe(each.text ?? "");
  });

  test("resolves the alias of a tool", () => {
    expect(TOOLS.responses.notes.map(({ alias }) => alias)).toContain(TOOLS.chat.names.wireNameOf("crm.find").name);
  });

  test("yields a call at the end of its item, before the answer ends", async () => {
    const events = toResponseEvents([call("c1", "add", { a: 1 }), { type: "text", text: "more" }]);
    const done = events.findIndex(({ type }) => type === "response.output_item.done");
    let given = 0;
    async function* stream() {
      for (const [index, event] of events.entries()) {
        if (index === done + 1) given = seen;
        yield event;
      }
    }
    let seen = 0;
    for await (const event of readAnswerStream(stream(), { api: "responses", tools: TOOLS.responses })) {
      if (event.type === "tool-call") seen += 1;
    }
    expect(given).toBe(1);
  });
});

describe("any order that preserves the order within each item", () => {
  const args = fc.dictionary(fc.string({ maxLength: 5 }), fc.oneof(fc.integer(), fc.string({ maxLength: 8 })), {
    maxKeys: 3,
  });
  const calls = fc.array(args, { minLength: 1, maxLength: 4 });
  const toSaid = (all: readonly object[]) => all.map((each, index) => call(`c${index}`, "ping", each));
  const expectSame = async (events: readonly Json[], api: "responses" | "chat", all: readonly object[]) => {
    const finish = (await read(events, api)).at(-1);
    const content = finish?.type === "finish" ? finish.message.content : [];
    const found = content.flatMap((part) => (part.type === "tool-call" ? [part.call] : []));
    expect(found.map(({ id, arguments: given }) => [id, given])).toEqual(
      all.map((each, index) => [`c${index}`, JSON.parse(JSON.stringify(each))]),
    );
  };
  /** One merge of several lists, each in its own order. */
  const merge = (lists: Json[][], picks: readonly number[]): Json[] => {
    const left = lists.map((list) => [...list]);
    const merged: Json[] = [];
    for (let step = 0; left.some((list) => list.length > 0); step += 1) {
      const open = left.filter((list) => list.length > 0);
      const next = open[(picks[step % picks.length] ?? 0) % open.length]?.shift();
      if (next !== undefined) merged.push(next);
    }
    return merged;
  };
  const picks = fc.array(fc.nat(7), { minLength: 1, maxLength: 40 });

  test("yields the same calls for the Responses API", async () => {
    await fc.assert(
      fc.asyncProperty(calls, picks, fc.integer({ min: 1, max: 9 }), async (all, order, deltaUnits) => {
        const events = toResponseEvents(toSaid(all), { deltaUnits });
        const lists = all.map((_, index) => events.filter((event) => event.output_index === index));
        const rest = events.filter((event) => !("output_index" in event));
        await expectSame([...rest.slice(0, 2), ...merge(lists, order), ...rest.slice(2)], "responses", all);
      }),
      { numRuns: 100 },
    );
  });

  test("yields the same calls for Chat Completions", async () => {
    await fc.assert(
      fc.asyncProperty(calls, picks, fc.integer({ min: 1, max: 9 }), async (all, order, deltaUnits) => {
        const chunks = toChatChunks(toSaid(all), { deltaUnits });
        const indexOf = (event: Json) =>
          ((event.choices as { delta?: { tool_calls?: { index: number }[] } }[])[0]?.delta?.tool_calls ?? [])[0]?.index;
        const lists = all.map((_, index) => chunks.filter((event) => indexOf(event) === index));
        const rest = chunks.filter((event) => indexOf(event) === undefined);
        await expectSame([...rest.slice(0, 1), ...merge(lists, order), ...rest.slice(1)], "chat", all);
      }),
      { numRuns: 100 },
    );
  });
});

describe("through the real client", () => {
  let server: OpenAIServer;
  let client: OpenAI;
  beforeAll(async () => {
    server = await startOpenAIServer();
    client = new OpenAI({ baseURL: server.baseURL, apiKey: "test", maxRetries: 0 });
  });
  afterAll(() => server[Symbol.asyncDispose]());
  const request = { model: "m", stream: true } as const;
  const open = async (api: "responses" | "chat"): Promise<AsyncIterable<unknown>> =>
    api === "chat"
      ? await client.chat.completions.create({ ...request, messages: [] })
      : await client.responses.create({ ...request, input: "hi" });
  const said = [
    { type: "text", text: "grüße 👋" },
    call("c1", "add", { a: 1, b: 2 }),
    call("c2", "ping", { note: "naïve – “x” 👩‍👩‍👧" }),
  ] as const;

  test.for([["responses"], ["chat"]] as const)(
    "yields the same calls over %s for any chunks of bytes",
    async ([api]) => {
      await fc.assert(
        fc.asyncProperty(
          fc.integer({ min: 1, max: 200 }),
          fc.integer({ min: 1, max: 20 }),
          async (chunkBytes, deltaUnits) => {
            server.script({ said, chunkBytes: chunkBytes < 20 ? chunkBytes + 20 : chunkBytes, deltaUnits });
            const events: ModelEvent[] = [];
            for await (const event of readAnswerStream(await open(api), { api, tools: TOOLS[api] })) events.push(event);
            expect(callsOf(events).map((each) => each.arguments)).toEqual([
              { a: 1, b: 2 },
              { note: "naïve – “x” 👩‍👩‍👧" },
            ]);
            expect(events.map((event) => (event.type === "text-delta" ? event.text : "")).join("")).toBe("grüße 👋");
          },
        ),
        { numRuns: 6 },
      );
    },
  );

  test("rejects after the complete calls if the socket is cut", async () => {
    const events = toResponseEvents(said);
    const second = events.findLastIndex(({ type }) => type === "response.output_item.added");
    server.script({ said, cutAfterEvents: second + 2 });
    const told: ModelEvent[] = [];
    const reading = (async () => {
      for await (const event of readAnswerStream(await open("responses"), { api: "responses", tools: TOOLS.responses }))
        told.push(event);
    })();
    await expect(reading).rejects.toThrow();
    expect(callsOf(told).map(({ id }) => id)).toEqual(["c1"]);
  });

  test("rejects with the provider's reason if the answer failed", async () => {
    server.script({
      events: [
        {
          type: "response.failed",
          response: { status: "failed", error: { code: "server_error", message: "Try later" } },
        },
      ],
    });
    const reading = (async () => {
      for await (const _ of readAnswerStream(await open("responses"), { api: "responses" }));
    })();
    await expect(reading).rejects.toMatchObject({
      name: "ModelResponseError",
      code: "server_error",
      message: expect.stringContaining("Try later"),
    });
  });
});
