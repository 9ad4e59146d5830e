import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type OpenAIServer, type Said, startOpenAIServer } from "./openai-server.ts";

const said: readonly Said[] = [
  { type: "text", text: "Let me add these – grüße 👋" },
  { type: "call", id: "call_1", name: "add", arguments: { a: 1, b: 2 } },
  { type: "call", id: "call_2", name: "note", arguments: "free text", custom: true },
];

describe("The local OpenAI server", () => {
  let server: OpenAIServer;
  let client: OpenAI;
  beforeAll(async () => {
    server = await startOpenAIServer();
    client = new OpenAI({ baseURL: server.baseURL, apiKey: "test", maxRetries: 0 });
  });
  afterAll(() => server[Symbol.asyncDispose]());

  test("answers the Responses API in one piece and as a stream that the client's own helper puts together", async () => {
    server.script(said, { said, chunkBytes: 7 });
    const whole = await client.responses.create({ model: "m", input: "hi" });
    expect(whole.output_text).toBe("Let me add these – grüße 👋");
    const stream = client.responses.stream({ model: "m", input: "hi" });
    expect((await stream.finalResponse()).output.map((item) => item.type)).toEqual(
      whole.output.map((item) => item.type),
    );
    expect(server.requests.at(-1)).toMatchObject({ api: "responses", body: { model: "m", input: "hi", stream: true } });
  });

  test("answers Chat Completions in one piece and as a stream that the client's own helper puts together", async () => {
    server.script(said, { said, chunkBytes: 3 });
    const messages = [{ role: "user" as const, content: "hi" }];
    const whole = await client.chat.completions.create({ model: "m", messages });
    expect(whole.choices[0]?.message.tool_calls?.[0]).toMatchObject({
      id: "call_1",
      function: { arguments: '{"a":1,"b":2}' },
    });
    const calls: unknown[] = [];
    const stream = await client.chat.completions.create({ model: "m", messages, stream: true });
    for await (const chunk of stream) calls.push(...(chunk.choices[0]?.delta.tool_calls ?? []));
    expect(calls.length).toBeGreaterThan(2);
    expect(await server.requests.at(-1)?.ended).toBe("whole");
  });

  test("cuts a stream off in its middle, and sees a client that goes away", async () => {
    server.script(
      { said, cutAfterEvents: 4 },
      { said, beforeEvent: (_, index) => (index < 3 ? undefined : new Promise(() => {})) },
    );
    const read = async (): Promise<number> => {
      let count = 0;
      for await (const _ of await client.responses.create({ model: "m", input: "hi", stream: true })) count += 1;
      return count;
    };
    await expect(read()).rejects.toThrow();
    const stop = new AbortController();
    const stream = await client.responses.create({ model: "m", input: "hi", stream: true }, { signal: stop.signal });
    for await (const event of stream) if (event.type === "response.output_item.added") stop.abort();
    expect(await server.requests.at(-1)?.ended).toBe("aborted");
  });

  test("answers with a failure, and past the end of its script", async () => {
    server.script({ status: 429, body: { error: { message: "Slow down", type: "rate_limit" } } });
    await expect(client.responses.create({ model: "m", input: "hi" })).rejects.toThrow(/Slow down/);
    await expect(client.responses.create({ model: "m", input: "hi" })).rejects.toThrow(/no more turns/);
    expect(server.left).toBe(0);
  });
});
