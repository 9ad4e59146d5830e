// Loop and router agent over the real `openai` package and a real socket: tools start during the stream, and no interruption leaves a call
// unanswered.
import OpenAI from "openai";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import {
  AgentLoop,
  type AgentOutcome,
  checkConversation,
  type Message,
  type Model,
  ToolsRouterAgent,
} from "../../../src/host/agent/index.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { openaiChat, openaiResponses } from "../../../src/host/openai/index.ts";
import { makeGlovebox } from "../../support/host-zone.ts";
import { type OpenAIServer, type Said, startOpenAIServer } from "../../support/openai-server.ts";

const USER: Message = { role: "user", content: "How much is 1 + 2?" };
const loop = new AgentLoop();
const add = (id: string, args: object = { a: 1, b: 2 }): Said => ({ type: "call", id, name: "add", arguments: args });
const text = (said: string): Said => ({ type: "text", text: said });

let glovebox: Glovebox;
let server: OpenAIServer;
let client: OpenAI;
beforeAll(async () => {
  glovebox = await makeGlovebox();
  await glovebox.addTool({ name: "add", source: "export default ({ a, b }) => a + b" });
  await glovebox.addTool({ name: "forever", source: "export default () => { for (;;); }" });
});
afterAll(() => glovebox.close());
beforeEach(async () => {
  server = await startOpenAIServer();
  client = new OpenAI({ baseURL: server.baseURL, apiKey: "test", maxRetries: 0 });
  return () => server[Symbol.asyncDispose]();
});

/** A model, and an event between the completion of the first of two calls and the end of the answer. */
const APIS: readonly (readonly [string, () => Model, RegExp])[] = [
  ["Responses", () => openaiResponses(client, { model: "test-model" }), /"c2"/],
  ["Chat Completions", () => openaiChat(client, { model: "test-model" }), /"finish_reason":"/],
];

describe.for(APIS)("over %s", ([, modelOf, isBetween]) => {
  test("starts a tool while the stream is still being read, and yields a single stream", async () => {
    const result = Promise.withResolvers<void>();
    let isHeld = false;
    server.script(
      {
        said: [add("c1"), add("c2", { a: 2, b: 2 })],
        beforeEvent: async (event) => {
          if (isHeld || !isBetween.test(JSON.stringify(event))) return;
          isHeld = true;
          await result.promise;
        },
      },
      [text("3 and 4.")],
    );
    const order: string[] = [];
    for await (const event of loop.stream({ model: modelOf(), router: glovebox, messages: [USER] })) {
      if (event.type === "tool-call") order.push(`${event.call.id} said`);
      if (event.type === "tool-result") order.push(`${event.result.callId} answered`);
      if (event.type === "tool-result") result.resolve();
      if (event.type === "outcome") order.push(`${event.status}: ${event.text}`);
    }
    // The stream continued only after the first call had an answer.
    expect(order).toEqual(["c1 said", "c1 answered", "c2 said", "c2 answered", "finished: 3 and 4."]);
  });

  test("leaves no call without an answer if the stream is cut after any event", async () => {
    for (let cutAfterEvents = 0; cutAfterEvents < 14; cutAfterEvents += 1) {
      server.script({ said: [text("Well."), add("c1"), add("c2", { a: 2, b: 2 })], deltaUnits: 64, cutAfterEvents }, [
        text("So be it."),
      ]);
      const before = server.requests.length;
      const outcome: AgentOutcome = await loop.run({ model: modelOf(), router: glovebox, messages: [USER] });
      expect(checkConversation(outcome.messages)).toEqual([]);
      const hasCalls = outcome.steps.some(({ results }) => results.length > 0);
      expect(outcome.status).toBe(hasCalls ? "finished" : "failed");
      expect(server.requests.length - before).toBe(hasCalls ? 2 : 1);
      // The rest of the first turn's script does not apply to the next round.
      if (!hasCalls) await client.chat.completions.create({ model: "x", messages: [] });
    }
    expect(server.left).toBe(0);
  });

  test("kills the tool and closes the open request when it is cancelled", async () => {
    const stop = new AbortController();
    server.script({
      said: [{ type: "call", id: "c1", name: "forever", arguments: { n: 1 } }, add("c2")],
      beforeEvent: async (event) => {
        // Until the client has disconnected.
        if (isBetween.test(JSON.stringify(event))) await server.requests[0]?.ended;
      },
    });
    let outcome: AgentOutcome | undefined;
    const stream = loop.stream({ model: modelOf(), router: glovebox, messages: [USER], signal: stop.signal });
    for await (const event of stream) {
      if (event.type === "tool-start") setTimeout(() => stop.abort(), 50);
      if (event.type === "outcome") outcome = event;
    }
    expect(outcome).toMatchObject({ status: "cancelled" });
    expect(checkConversation(outcome?.messages ?? [])).toEqual([]);
    expect(outcome?.steps[0]?.results[0]).toMatchObject({ toolName: "forever", error: { code: "CANCELLED" } });
    expect(await server.requests[0]?.ended).toBe("aborted");
  });

  test("fails the run with only the status when the provider rejects a request", async () => {
    server.script({ status: 401, body: { error: { message: "Incorrect API key provided: sk-12345" } } });
    const outcome = await loop.run({ model: modelOf(), router: glovebox, messages: [USER] });
    expect(outcome).toMatchObject({ status: "failed", error: { details: { status: 401 } } });
    expect(JSON.stringify(outcome)).not.toContain("sk-12345");
  });

  test("chooses by strict JSON, runs and answers with ToolsRouterAgent", async () => {
    const agent = new ToolsRouterAgent({ model: modelOf(), router: glovebox, backoffMs: 0 });
    server.script(
      [text('```json\n{"tool":"sum","inputs":{}}\n```')],
      [text('{"tool":"add","inputs":{"a":1,"b":2}}')],
      [text("It is 3.")],
    );
    const outcome = await agent.run("How much is 1 + 2?");
    expect(outcome).toMatchObject({
      status: "answered",
      text: "It is 3.",
      result: { output: 3 },
      attempts: { routing: 2 },
    });
    const [first, , last] = server.requests;
    expect(JSON.stringify(first?.body)).toContain('"json_schema"');
    expect(first?.body).not.toHaveProperty("tools");
    expect(last?.body).toMatchObject({ tool_choice: "none" });
  });
});
