// Durable runs as tasks of the MCP server (SEP-2663), as they are on the wire: who finds a task, what its answers must be, and what clients without
// the extension receive. The scenarios of the conformance suite cover the rest.
import { PassThrough } from "node:stream";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { createMcpHandler, type McpHandler } from "../../../src/host/mcp/server/http/handler.ts";
import { serveMcpStdio } from "../../../src/host/mcp/server/stdio.ts";
import { MemoryRunStore } from "../../../src/host/runs/memory-run-store.ts";
import { createRuns, type Runs } from "../../../src/host/runs/runs.ts";
import { makeGlovebox } from "../../support/host-zone.ts";
import { initializeRequest, legacyRequest } from "../../support/mcp-raw-client.ts";

const URL_HERE = "http://localhost/mcp";
const TASKS = { extensions: { "io.modelcontextprotocol/tasks": {} } };
const FORM = `{ type: "object", properties: { size: { type: "integer" } }, required: ["size"] }`;

let glovebox: Glovebox;
let runs: Runs;
let handler: McpHandler;

interface Reply {
  readonly result?: { readonly [field: string]: unknown };
  readonly error?: { readonly code: number; readonly message: string };
}

async function read(response: Response): Promise<Reply> {
  const text = await response.text();
  const data = /^data: (.*)$/m.exec(text)?.[1] ?? text;
  return JSON.parse(data) as Reply;
}

/** Sends a request of a client of 2026-07-28. @param subject the caller */
async function send(method: string, params: object, capabilities: object = TASKS, subject = "ada"): Promise<Reply> {
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": { name: "raw", version: "1" },
    "io.modelcontextprotocol/clientCapabilities": capabilities,
  };
  const { name, taskId } = params as { readonly name?: string; readonly taskId?: string };
  const headers = {
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": method,
    "mcp-name": name ?? taskId ?? "",
    "x-subject": subject,
  };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { ...params, _meta } });
  return await read(await handler.fetch(new Request(URL_HERE, { method: "POST", headers, body })));
}
const call = (name: string, capabilities?: object, args: object = {}): Promise<Reply> =>
  send("tools/call", { name, arguments: args }, capabilities);
const get = async (taskId: unknown): Promise<NonNullable<Reply["result"]>> =>
  (await send("tasks/get", { taskId })).result ?? {};
const statusOf = async (taskId: unknown): Promise<unknown> => (await get(taskId)).status;
const POLL = { interval: 100 } as const;

beforeAll(async () => {
  glovebox = await makeGlovebox();
  runs = createRuns(glovebox, { store: new MemoryRunStore(), pollMs: 100 });
  handler = createMcpHandler(glovebox, {
    runs,
    auth: {
      authenticate: async ({ headers }) => ({
        subject: headers.get("x-subject") ?? "nobody",
        scopes: [],
        expiresAt: 1e11,
        claims: {},
      }),
      serveMetadata: () => undefined,
    },
  });
  const tools = {
    size: `export const capabilities = { elicit: true, waitFor: true };
      export default async (_, ctx) => (await ctx.elicit({ message: "Which size?", requestedSchema: ${FORM} })).content.size;`,
    long: `export const capabilities = { waitFor: true }; export const durable = true;
      export default async (_, ctx) => { await ctx.waitFor({ event: "never" }); };`,
    busy: `export const capabilities = { waitFor: true };
      export default async () => { await new Promise((resolve) => setTimeout(resolve, 60_000)); };`,
    fast: `export const capabilities = { waitFor: true }; export default ({ n }) => ({ n });`,
  };
  for (const [name, source] of Object.entries(tools)) {
    await glovebox.addTool(
      { name, source },
      { grant: ["elicit", "waitFor"].filter((one) => source.includes(`${one}: true`)) },
    );
  }
});
afterAll(async () => {
  await handler.close();
  await runs.close();
  await glovebox.close();
});

test("a task is found by the caller that has started it, and by no other", async () => {
  const { result } = await call("long");
  expect(result).toMatchObject({ resultType: "task", status: "working", pollIntervalMs: 1_000 });
  const taskId = result?.taskId;
  expect(await statusOf(taskId)).toBe("working");
  for (const method of ["tasks/get", "tasks/update", "tasks/cancel"]) {
    expect((await send(method, { taskId }, TASKS, "eve")).error?.code).toBe(-32_602);
    expect((await send(method, { taskId: `${String(taskId)}x` })).error?.code).toBe(-32_602);
    for (const wrong of [{ taskId: 5 }, { taskId: "" }, { taskId: "x".repeat(257) }, {}]) {
      const { error } = await send(method, wrong);
      expect(error?.code).toBe(-32_602);
      expect(error?.message).toContain("taskId: Expected the id of a task: a string of 1 to 256 characters");
    }
  }
  expect(await statusOf(taskId)).toBe("working");
  expect((await send("tasks/cancel", { taskId })).result).toMatchObject({ resultType: "complete" });
  await expect.poll(() => statusOf(taskId), POLL).toBe("cancelled");
});

test("an answer must match its form, and has an effect once", async () => {
  const { result } = await call("size");
  const taskId = result?.taskId;
  await expect.poll(() => statusOf(taskId), POLL).toBe("input_required");
  const { inputRequests } = (await get(taskId)) as { readonly inputRequests: { readonly [key: string]: object } };
  const [key = ""] = Object.keys(inputRequests);
  expect(inputRequests[key]).toMatchObject({ method: "elicitation/create", params: { message: "Which size?" } });
  const update = (answer: unknown): Promise<Reply> =>
    send("tasks/update", { taskId, inputResponses: { [key]: answer } });
  expect((await update({ action: "accept", content: { size: "L" } })).error?.code).toBe(-32_602);
  expect((await update({ action: "accept", content: { size: 3 } })).result).toMatchObject({ resultType: "complete" });
  await expect.poll(() => statusOf(taskId), POLL).toBe("completed");
  await update({ action: "accept", content: { size: 4 } });
  expect((await get(taskId)).result).toMatchObject({ content: [{ type: "text", text: "3" }] });
});

test("a task that is under way is cancelled", async () => {
  const { result } = await call("busy");
  expect(result?.status).toBe("working");
  await send("tasks/cancel", { taskId: result?.taskId });
  await expect.poll(() => statusOf(result?.taskId), POLL).toBe("cancelled");
});

test("clients without the extension receive results, and an error where a tool needs a task", async () => {
  expect((await call("fast", {}, { n: 1 })).result).toMatchObject({
    resultType: "complete",
    structuredContent: { n: 1 },
  });
  expect((await call("long", {})).error?.code).toBe(-32_021);
  expect((await send("tasks/get", { taskId: "none" }, {})).error?.code).toBe(-32_021);
  const task = (await call("fast", TASKS, { n: 2 })).result?.taskId;
  await expect.poll(() => statusOf(task), POLL).toBe("completed");
  expect((await get(task)).result).toMatchObject({ structuredContent: { n: 2 } });
  const headers = { "x-subject": "ada" };
  const begun = await handler.fetch(new Request(URL_HERE, { method: "POST", ...initializeRequest(headers) }));
  await begun.text();
  const session = { ...headers, "mcp-session-id": begun.headers.get("mcp-session-id") ?? "" };
  const legacy = legacyRequest("tasks/get", { taskId: task }, session);
  const reply = await read(await handler.fetch(new Request(URL_HERE, { method: "POST", ...legacy })));
  expect(reply.error?.code).toBe(-32_601);
});

test("rejects runs that are none", async () => {
  for (const wrong of [{}, true, { begin() {} }])
    expect(() => createMcpHandler(glovebox, { runs: wrong as never })).toThrow("options.runs");
});

/** Returns a request for notifications about tasks. */
const toListen = (notifications: object, capabilities: object): object => ({
  jsonrpc: "2.0",
  id: "l1",
  method: "subscriptions/listen",
  params: {
    notifications,
    _meta: {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientInfo": { name: "raw", version: "1" },
      "io.modelcontextprotocol/clientCapabilities": capabilities,
    },
  },
});
const MISSING = {
  jsonrpc: "2.0",
  id: "l1",
  error: { code: -32_021, message: expect.any(String), data: { requiredCapabilities: TASKS } },
};
const ACKNOWLEDGED = "notifications/subscriptions/acknowledged";

async function listen(notifications: object, capabilities: object = TASKS): Promise<Response> {
  const headers = {
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
    "x-subject": "ada",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "subscriptions/listen",
  };
  const body = JSON.stringify(toListen(notifications, capabilities));
  return await handler.fetch(new Request(URL_HERE, { method: "POST", headers, body }));
}

test("a client that requests notifications about tasks needs the extension, and is told to poll", async () => {
  for (const taskIds of [["t"], [], "t", null]) {
    const rejected = await listen({ toolsListChanged: true, taskIds }, {});
    expect([rejected.status, await rejected.json()]).toEqual([400, MISSING]);
  }
  expect((await listen({ taskIds: ["t"] }, { extensions: { other: {} } })).status).toBe(400);
  const { result } = await call("long");
  // The acknowledgement has no taskIds, and without anything else to send, the stream ends.
  const accepted = await listen({ taskIds: [result?.taskId] });
  expect(accepted.status).toBe(200);
  const events = [...(await accepted.text()).matchAll(/^data: (.*)$/gm)].map(([, data = ""]) => JSON.parse(data));
  expect(events).toMatchObject([
    { method: ACKNOWLEDGED, params: { notifications: {} } },
    { id: "l1", result: {} },
  ]);
  expect(events[0]?.params.notifications).toEqual({});
  await send("tasks/cancel", { taskId: result?.taskId });
  // Other subscriptions need no extension.
  const other = await listen({ toolsListChanged: true }, {});
  expect(other.status).toBe(200);
  await other.body?.cancel();
});

test("the same holds over stdio", async () => {
  const [stdin, stdout] = [new PassThrough(), new PassThrough()];
  await using _server = serveMcpStdio(glovebox, { runs, stdin, stdout });
  let text = "";
  stdout.on("data", (part: Buffer) => {
    text += part;
  });
  const messages = (): unknown[] =>
    text
      .split("\n")
      .filter(Boolean)
      .map((line) => JSON.parse(line) as unknown);
  stdin.write(`${JSON.stringify(toListen({ taskIds: ["t"] }, {}))}\n`);
  await expect.poll(messages, POLL).toEqual([MISSING]);
  stdin.write(`${JSON.stringify(toListen({ taskIds: ["t"], toolsListChanged: true }, TASKS))}\n`);
  await expect.poll(() => messages().slice(1), POLL).toMatchObject([{ method: ACKNOWLEDGED }]);
  const [, acknowledged] = messages() as { readonly params: { readonly notifications: object } }[];
  expect(acknowledged?.params.notifications).toEqual({ toolsListChanged: true });
});
