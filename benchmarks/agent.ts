// What does the agent loop add between a model and its tools? From a call's last byte on the wire to the tool's start, and from the tool's
// result to the next request: the bars are the issue's, 5 ms each.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import OpenAI from "openai";
import { AgentLoop, type Model } from "../src/host/agent/index.ts";
import { ToolRouter } from "../src/host/index.ts";
import { openaiChat, openaiResponses } from "../src/host/openai/index.ts";
import { type Said, startOpenAIServer } from "../test/support/openai-server.ts";
import { reportLatencies, times } from "./support/measure.ts";

const SAMPLES = times(400, 5);
const WARMUP = times(50, 1);

/** One conversation of two turns at a time: when each thing happened, by performance.now(). */
const at = { lastByte: 0, started: 0, answered: 0, asked: 0 };

/** A tool that takes longer than the rest of the model's stream: what follows its result waits for nothing else. */
let streamEnds: () => Promise<unknown> = async () => {};
const router = new ToolRouter();
router.register("look", {}, async () => {
  at.started = performance.now();
  await streamEnds();
  await pause(2);
  at.answered = performance.now();
  return { found: true };
});

const CALL: Said = { type: "call", id: "c1", name: "look", arguments: { query: "the weather in Basel", limit: 5 } };
const SECOND: Said = { type: "call", id: "c2", name: "nobody", arguments: { a: 1 } };
/** The event with which the first call is complete: in Chat Completions the next one's begin, or the end. */
const COMPLETES = { responses: /output_item\.done.*"c1"/, chat: /"finish_reason":"/ } as const;
await using server = await startOpenAIServer();
const client = new OpenAI({ baseURL: server.baseURL, apiKey: "none", maxRetries: 0 });

/** The least that could be between two ends of a socket: a byte to this process, and a request from it. */
const bare = createServer((request, response) => {
  at.asked = performance.now();
  request.resume();
  response.write("a");
  setImmediate(() => {
    at.lastByte = performance.now();
    response.end("b");
  });
});
await new Promise<void>((resolve) => bare.listen(0, "127.0.0.1", resolve));
const bareUrl = `http://127.0.0.1:${(bare.address() as AddressInfo).port}/`;

interface Taken {
  readonly toStartMs: number;
  readonly toRequestMs: number;
}

async function converse(model: Model, api: "responses" | "chat"): Promise<Taken> {
  const { length } = server.requests;
  streamEnds = async () => await server.requests[length]?.ended;
  server.script(
    {
      said: api === "responses" ? [CALL, SECOND] : [CALL],
      beforeEvent: (event) => {
        if (COMPLETES[api].test(JSON.stringify(event))) at.lastByte = performance.now();
      },
    },
    [{ type: "text", text: "Fine." }],
  );
  for await (const event of new AgentLoop().stream({ model, router, messages: [{ role: "user", content: "?" }] })) {
    if (event.type === "outcome" && event.status !== "finished")
      throw new Error(`Expected an end, got ${event.status}`);
  }
  at.asked = server.requests[length + 1]?.at ?? Number.NaN;
  return { toStartMs: at.started - at.lastByte, toRequestMs: at.asked - at.answered };
}

async function fetchBare(): Promise<Taken> {
  const response = await fetch(bareUrl);
  await response.text();
  const toStartMs = performance.now() - at.lastByte;
  const asking = performance.now();
  await (await fetch(bareUrl)).text();
  return { toStartMs, toRequestMs: at.asked - asking };
}

const SUBJECTS = {
  "bare socket": fetchBare,
  Responses: () => converse(openaiResponses(client, { model: "test" }), "responses"),
  "Chat Completions": () => converse(openaiChat(client, { model: "test" }), "chat"),
} as const;

const taken = new Map<string, number[]>();
for (const what of ["call complete → tool starts", "result → next request"]) {
  for (const name of Object.keys(SUBJECTS)) taken.set(`${name}: ${what}`, []);
}
for (let sample = -WARMUP; sample < SAMPLES; sample += 1) {
  for (const [name, run] of Object.entries(SUBJECTS)) {
    const { toStartMs, toRequestMs } = await run();
    if (sample < 0) continue;
    taken.get(`${name}: call complete → tool starts`)?.push(toStartMs);
    taken.get(`${name}: result → next request`)?.push(toRequestMs);
  }
}
await new Promise((resolve) => bare.close(resolve));

await reportLatencies({
  name: "agent",
  question:
    "What does the agent loop add, from a call's last byte to the tool's start, and from the result to the next request at the server?",
  taken,
  notes: [
    "Client, loop and server share one process and its event loop: the server's own work is in the figures.",
    "The tool is a host function; what a sandboxed one takes to start is in `warm` and `fresh`.",
  ],
});
