// Tests hostile upstream servers whose calls become tasks (extension io.modelcontextprotocol/tasks): each call has one result, the host polls
// within its own limits, and the task is ended where the call ends first.
import type { ServerResponse } from "node:http";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { CallContext, ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { codeOf, errorOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";
import { type HttpServer, type RpcRequest, startScriptedServer } from "../../support/mcp-http.ts";

type Json = { readonly [name: string]: unknown };

/** Answers to tools/call and to the polls of its task, the first of which has the number 1. */
interface Attack {
  readonly created?: Json;
  readonly poll: (count: number, taskId: string) => Json | undefined;
  /** Sent instead of an answer. */
  readonly raw?: (count: number, rpc: RpcRequest, response: ServerResponse) => boolean;
  /** Number of deliveries of answers whose connection is lost. */
  readonly lostUpdates?: number;
}

const task = (more: Json = {}): Json => ({
  taskId: "t",
  status: "working",
  pollIntervalMs: 1,
  ttlMs: null,
  createdAt: "2026-01-01T00:00:00Z",
  lastUpdatedAt: "2026-01-01T00:00:00Z",
  ...more,
});
const text = (said: string): Json => ({ content: [{ type: "text", text: said }] });
const done = (said: string): Json => task({ status: "completed", result: text(said) });
const form = (message: string): Json => ({
  method: "elicitation/create",
  params: { message, requestedSchema: { type: "object", properties: { p: { type: "string" } } } },
});
const asks = (inputRequests: unknown): Json => task({ status: "input_required", inputRequests });
const events = (messages: readonly unknown[], rpc: RpcRequest, result: Json): string =>
  [...messages, { jsonrpc: "2.0", id: rpc.id, result: { resultType: "complete", ...result } }]
    .map((message) => `data: ${JSON.stringify(message)}\n\n`)
    .join("");

const ATTACKS: { readonly [name: string]: Attack } = {
  good: { poll: () => done("good") },
  "never ends": { poll: () => task() },
  "changes its id": { poll: (count) => (count === 1 ? task() : task({ taskId: "u", status: "completed" })) },
  "has an unknown status": { poll: () => task({ status: "paused" }) },
  "has no id": { created: { status: "working" }, poll: () => undefined },
  "has a long id": { created: task({ taskId: "t".repeat(100_000) }), poll: () => undefined },
  "has an id of half a character": { created: task({ taskId: "\ud800" }), poll: () => undefined },
  "has an id of control characters": {
    created: task({ taskId: "t\r\nx-evil: 1\u0000" }),
    poll: (_, taskId) => ({ ...done("good"), taskId }),
  },
  "is polled at once": { created: task({ pollIntervalMs: -5 }), poll: (count) => (count < 4 ? task() : done("good")) },
  "is never to be polled": { created: task({ pollIntervalMs: Number.MAX_VALUE }), poll: () => done("good") },
  "has an interval that is no number": {
    created: task({ pollIntervalMs: "soon", ttlMs: "long" }),
    poll: () => done("good"),
  },
  "has a short life": { created: task({ ttlMs: 1 }), poll: () => task({ ttlMs: 1 }) },
  "is completed without a result": { poll: () => task({ status: "completed" }) },
  "is created as completed": {
    created: { ...done("early"), resultType: "task" },
    poll: () => done("polled"),
  },
  "has a task as its result": {
    poll: () => task({ status: "completed", result: { resultType: "task", taskId: "t" } }),
  },
  "has failed without an error": { poll: () => task({ status: "failed" }) },
  "has failed with a long error": {
    poll: () => task({ status: "failed", error: { code: -32_000, message: "x\u202e".repeat(500_000) } }),
  },
  "ends, and works again": { poll: (count) => (count === 1 ? done("first") : task()) },
  "has two results": { poll: (count) => done(count === 1 ? "first" : "second") },
  "is answered twice": {
    poll: () => undefined,
    raw: (_, rpc, response) => {
      const again = { jsonrpc: "2.0", id: rpc.id, result: { resultType: "complete", ...done("first") } };
      response.setHeader("content-type", "text/event-stream");
      response.end(events([again], rpc, done("second")));
      return true;
    },
  },
  "floods notifications": {
    poll: () => undefined,
    raw: (_, rpc, response) => {
      const flood = Array.from({ length: 5_000 }, (_one, index) => ({
        jsonrpc: "2.0",
        method: "notifications/tasks",
        params: task({ statusMessage: `${index}${"x".repeat(100)}` }),
      }));
      response.setHeader("content-type", "text/event-stream");
      response.end(events(flood, rpc, done("good")));
      return true;
    },
  },
  "asks without end": { poll: (count) => asks({ [`k${count}`]: form("Password?") }) },
  "asks a thousand questions": {
    poll: () => asks(Object.fromEntries(Array.from({ length: 1_000 }, (_, n) => [`k${n}`, form("Password?")]))),
  },
  "asks the same again": {
    poll: (count) => (count < 4 ? asks({ k: form(count === 1 ? "Password?" : "Again?") }) : done("good")),
  },
  "asks while it cannot be reached": {
    poll: (count) => (count === 1 || updates.length <= 2 ? asks({ k: form("Password?") }) : done("good")),
    lostUpdates: 2,
  },
  "asks and is never reached again": { poll: () => asks({ k: form("Password?") }), lostUpdates: 1_000 },
  "asks with a key of a prototype": { poll: () => asks(JSON.parse('{"__proto__":{"method":"roots/list"}}')) },
  "asks with a method of a prototype": { poll: () => asks({ constructor: { method: "constructor" } }) },
  "asks for what is no question": { poll: () => asks({ k: { method: "tools/call", params: {} } }) },
  "asks for what no one can see": { poll: () => asks({ k: form("") }) },
  "asks a text": { poll: () => asks("k") },
  "asks for many values": { poll: () => asks({ k: { ...form("?"), x: Array(20_000).fill(0) } }) },
  "wants another round": { poll: () => ({ resultType: "input_required", inputRequests: { k: form("Hidden?") } }) },
};

let glovebox: Glovebox;
let server: HttpServer;
const polls = new Map<string, number>();
const cancelled: string[] = [];
const updates: unknown[] = [];
const shown: string[] = [];
/** The attack of the call that runs. A task has no name of its own. */
let current = "good";

beforeAll(async () => {
  server = await startScriptedServer((rpc, response) => {
    const { method, params = {} } = rpc;
    const attack = ATTACKS[current];
    const taskId = String(params.taskId);
    if (method === "server/discover")
      return {
        resultType: "complete",
        supportedVersions: ["2026-07-28"],
        capabilities: { tools: {} },
        ttlMs: 0,
        cacheScope: "private",
      };
    if (method === "tools/list")
      return {
        resultType: "complete",
        ttlMs: 3_600_000,
        cacheScope: "private",
        tools: [{ name: "attack", inputSchema: { type: "object" } }],
      };
    if (method === "tools/call") return { resultType: "task", ...(attack?.created ?? task()) };
    if (method === "tasks/cancel") cancelled.push(taskId);
    if (method === "tasks/update") {
      updates.push(params.inputResponses);
      if (updates.length <= (attack?.lostUpdates ?? 0)) {
        response.destroy();
        return undefined;
      }
    }
    if (method !== "tasks/get") return { resultType: "complete" };
    const count = (polls.get(current) ?? 0) + 1;
    polls.set(current, count);
    if (attack?.raw?.(count, rpc, response) === true) return undefined;
    return { resultType: "complete", ...attack?.poll(count, taskId) };
  });
  glovebox = await makeGlovebox({
    mcp: {
      servers: {
        s: {
          url: server.url,
          protocol: "2026-07-28",
          roots: [{ uri: "file:///given" }],
          onElicitation: ({ message }) => {
            shown.push(message);
            return { action: "accept", content: { p: "secret" } };
          },
        },
      },
    },
  });
});
afterAll(async () => {
  await glovebox.close();
  await server[Symbol.asyncDispose]();
});

/** Time limit in ms of calls that must not end by it on a busy machine. */
const SLOW_MS = 120_000;
let calls = 0;
async function attackWith(name: string, context?: CallContext): Promise<ToolResult> {
  for (const list of [cancelled, updates, shown]) list.length = 0;
  current = name;
  calls += 1;
  return await glovebox.execute({ id: `c${calls}`, toolName: "s__attack", arguments: {} }, context);
}

test.for([
  ["changes its id", "OUTPUT_INVALID"],
  ["has an unknown status", "OUTPUT_INVALID"],
  ["has no id", "OUTPUT_INVALID"],
  ["has a long id", "OUTPUT_INVALID"],
  ["has an id of half a character", "OUTPUT_INVALID"],
  ["has an id of control characters", "ok"],
  ["has an interval that is no number", "ok"],
  ["has a short life", "TOOL_TIMEOUT"],
  ["is completed without a result", "OUTPUT_INVALID"],
  ["has a task as its result", "OUTPUT_INVALID"],
  ["has failed without an error", "OUTPUT_INVALID"],
  ["floods notifications", "ok"],
  ["asks without end", "OUTPUT_INVALID"],
  ["asks a thousand questions", "OUTPUT_INVALID"],
  ["asks with a key of a prototype", "OUTPUT_INVALID"],
  ["asks with a method of a prototype", "CAPABILITY_DENIED"],
  ["asks for what is no question", "CAPABILITY_DENIED"],
  ["asks for what no one can see", "OUTPUT_INVALID"],
  ["asks a text", "OUTPUT_INVALID"],
  ["asks for many values", "OUTPUT_INVALID"],
  ["wants another round", "OUTPUT_INVALID"],
] as const)("a task that %s has one result, and the next call works", async ([name, code]) => {
  // Only the task that ends by the time limit gets the default.
  const context = code === "TOOL_TIMEOUT" ? {} : { timeoutMs: SLOW_MS };
  const result = await attackWith(name, context);
  expect(codeOf(result)).toBe(code);
  if (!result.success) expect(result.error.message.length).toBeLessThan(4_096);
  expect(shown.length).toBeLessThanOrEqual(16);
  expect(codeOf(await attackWith("good", { timeoutMs: SLOW_MS }))).toBe("ok");
});

test("a task that never ends is polled within the host's limits, and ended with the call", async () => {
  const result = await attackWith("never ends", { timeoutMs: 2_000 });
  expect(codeOf(result)).toBe("TOOL_TIMEOUT");
  // Not more often than every 250 ms, although the server says 1 ms.
  expect(polls.get("never ends") ?? 0).toBeLessThanOrEqual(9);
  await expect.poll(() => cancelled).toEqual(["t"]);
});

test("a poll interval is bounded in both directions", async () => {
  const begun = performance.now();
  expect(outputOf(await attackWith("is polled at once"))).toBe("good");
  expect(performance.now() - begun).toBeGreaterThan(4 * 250 - 50);
  // The call's own timeout ends the wait.
  expect(codeOf(await attackWith("is never to be polled", { timeoutMs: 500 }))).toBe("TOOL_TIMEOUT");
  expect(polls.get("is never to be polled")).toBeUndefined();
});

test("the first result of a poll counts, and nothing after it", async () => {
  for (const name of ["ends, and works again", "has two results", "is answered twice"]) {
    expect(outputOf(await attackWith(name))).toBe("first");
    expect(polls.get(name)).toBe(1);
  }
  expect(outputOf(await attackWith("is created as completed"))).toBe("polled");
});

test("the error of a failed task is bounded and visible", async () => {
  const error = errorOf(await attackWith("has failed with a long error"));
  expect(error).toMatchObject({ code: "TOOL_UNAVAILABLE", details: { code: -32_000 } });
  expect(error.message.length).toBeLessThan(4_096);
  expect(error.message).not.toContain("\u202e");
});

test("a question is shown once, whatever is asked under its key later", async () => {
  expect(outputOf(await attackWith("asks the same again"))).toBe("good");
  expect(shown).toEqual(["Password?"]);
  expect(updates).toEqual([{ k: { action: "accept", content: { p: "secret" } } }]);
});

test("answers that an outage kept from the server are sent again, and not asked for again", async () => {
  expect(outputOf(await attackWith("asks while it cannot be reached"))).toBe("good");
  expect(shown).toEqual(["Password?"]);
  expect(updates).toEqual(Array(3).fill({ k: { action: "accept", content: { p: "secret" } } }));
});

test("a call ends if its answers cannot be delivered", async () => {
  expect(codeOf(await attackWith("asks and is never reached again"))).toBe("TOOL_UNAVAILABLE");
  expect([shown.length, updates.length]).toEqual([1, 4]);
});
