// Calls of upstream tools that become tasks (extension io.modelcontextprotocol/tasks, SEP-2663): a Glovebox as the client of another Glovebox,
// whose durable runs are the tasks.
import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { CallContext, ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { createMcpHandler, type McpHandler } from "../../../src/host/mcp/server/http/handler.ts";
import { MemoryRunStore } from "../../../src/host/runs/memory-run-store.ts";
import { createRuns, type Runs } from "../../../src/host/runs/runs.ts";
import type { JsonValue } from "../../../src/sandbox/contract/errors.ts";
import { codeOf, errorOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";
import { startScriptedServer } from "../../support/mcp-http.ts";

const FORM = `{ type: "object", required: ["size"],
  properties: { size: { type: "integer" }, color: { type: "string", default: "red" } } }`;
const TOOLS = {
  twice: `export const capabilities = { waitFor: true };
    export default async ({ n }, ctx) => { await ctx.waitFor({ durationMs: 300 }); return { twice: n * 2 }; };`,
  order: `export const capabilities = { elicit: true, waitFor: true };
    export default async (_, ctx) => (await ctx.elicit({ message: "Which size?", requestedSchema: ${FORM} }));`,
  fails: `export const capabilities = { waitFor: true };
    export default async (_, ctx) => { await ctx.waitFor({ durationMs: 1 }); throw new Error("The disk is full"); };`,
  never: `export const durable = true; export const capabilities = { waitFor: true };
    export default async (_, ctx) => { await ctx.waitFor({ event: "never" }); };`,
  busy: `export const capabilities = { waitFor: true };
    export default async () => { await new Promise((resolve) => setTimeout(resolve, 600_000)); };`,
  nested: `export const capabilities = { waitFor: true };
    export default async ({ text }, ctx) => { await ctx.waitFor({ durationMs: 1 }); return text; };`,
};

let upstream: Glovebox;
let runs: Runs;
let handler: McpHandler;
let server: ReturnType<typeof serve>;
let url: string;
let glovebox: Glovebox;
const asked: unknown[] = [];
/** Methods of the requests to the upstream server. */
const methods: string[] = [];

beforeAll(async () => {
  upstream = await makeGlovebox();
  for (const [name, source] of Object.entries(TOOLS)) {
    const grant = ["elicit", "waitFor"].filter((one) => source.includes(`${one}: true`));
    await upstream.addTool({ name, source }, { grant });
  }
  runs = createRuns(upstream, { store: new MemoryRunStore(), pollMs: 100 });
  handler = createMcpHandler(upstream, { runs });
  const { promise, resolve } = Promise.withResolvers<AddressInfo>();
  const fetch = (request: Request): Promise<Response> => {
    methods.push(request.headers.get("mcp-method") ?? "");
    return handler.fetch(request);
  };
  server = serve({ fetch, port: 0, hostname: "127.0.0.1" }, resolve);
  url = `http://127.0.0.1:${(await promise).port}/mcp`;
  glovebox = await makeGlovebox({
    mcp: {
      servers: {
        s: {
          url,
          onElicitation: async (request, { toolName, callId }) => {
            asked.push({ request, toolName, callId });
            return { action: "accept", content: { size: 3 } };
          },
        },
        mute: { url },
        failing: {
          url,
          onElicitation: () => {
            throw new Error("no one is here");
          },
        },
      },
    },
  });
});
afterAll(async () => {
  await glovebox.close();
  await handler.close();
  await runs.close();
  (server as unknown as { closeAllConnections(): void }).closeAllConnections();
  await new Promise((closed) => server.close(closed));
  await upstream.close();
});

let calls = 0;
function call(toolName: string, args: JsonValue = {}, context?: CallContext): Promise<ToolResult> {
  calls += 1;
  return glovebox.execute({ id: `c${calls}`, toolName, arguments: args }, context);
}
const statesOf = async (toolName: string): Promise<string[]> =>
  (await runs.list()).filter((run) => run.toolName === toolName).map(({ state }) => state);

test("returns the result of the task, and reports that the task goes on", async () => {
  const progress: number[] = [];
  const result = await call("s__twice", { n: 21 }, { onProgress: (one) => progress.push(one.progress) });
  expect(outputOf(result)).toEqual({ twice: 42 });
  expect(progress).toEqual([...progress].sort((a, b) => a - b));
  expect(outputOf(await call("s__nested", { text: "as text" }))).toBe("as text");
});

test("answers a task's questions with the host's hook, and fills in defaults", async () => {
  expect(outputOf(await call("s__order"))).toEqual({ action: "accept", content: { size: 3, color: "red" } });
  expect(asked).toMatchObject([{ request: { message: "Which size?" }, toolName: "order", callId: `c${calls}` }]);
});

test("ends a task whose question cannot be answered", async () => {
  expect(errorOf(await call("mute__order"))).toMatchObject({ code: "CAPABILITY_DENIED", details: { server: "mute" } });
  const failed = errorOf(await call("failing__order"));
  expect(failed).toMatchObject({ code: "TOOL_FAILED", message: expect.stringContaining("could not be answered") });
  expect(failed.message).not.toContain("no one is here");
  await expect.poll(async () => (await statesOf("order")).sort()).toEqual(["cancelled", "cancelled", "succeeded"]);
});

test("fails as the tool fails", async () => {
  expect(errorOf(await call("s__fails"))).toMatchObject({
    code: "TOOL_FAILED",
    message: expect.stringContaining("The disk is full"),
  });
});

test("cancels the task when its caller cancels the call, and when the call times out", async () => {
  const controller = new AbortController();
  methods.length = 0;
  const running = call("s__never", {}, { signal: controller.signal });
  await expect.poll(() => methods).toContain("tasks/get");
  controller.abort();
  expect(codeOf(await running)).toBe("CANCELLED");
  await expect.poll(() => statesOf("never")).toEqual(["cancelled"]);
  expect(errorOf(await call("s__never", {}, { timeoutMs: 10_000 }))).toMatchObject({ code: "TOOL_TIMEOUT" });
  await expect.poll(() => statesOf("never")).toEqual(["cancelled", "cancelled"]);
});

test("ends a task whose id its caller has not received", async () => {
  const controller = new AbortController();
  const running = call("s__busy", {}, { signal: controller.signal });
  await expect.poll(() => statesOf("busy")).toEqual(["running"]);
  controller.abort();
  expect(codeOf(await running)).toBe("CANCELLED");
  await expect.poll(() => statesOf("busy")).toEqual(["cancelled"]);
});

test("a task that another client has cancelled has failed", async () => {
  const running = call("s__never");
  await expect.poll(() => statesOf("never")).toContain("suspended");
  const [run] = (await runs.list({ state: "suspended" })).filter(({ toolName }) => toolName === "never");
  await runs.cancel(String(run?.id));
  expect(errorOf(await running)).toMatchObject({ code: "TOOL_FAILED", message: expect.stringContaining("cancelled") });
});

test("ends with its server while it waits for the next poll, and does not connect again", async () => {
  const methods: string[] = [];
  await using slow = await startScriptedServer(({ method = "" }) => {
    methods.push(method);
    const cache = { resultType: "complete", ttlMs: 3_600_000, cacheScope: "private" };
    if (method === "server/discover")
      return { ...cache, supportedVersions: ["2026-07-28"], capabilities: { tools: {} } };
    if (method === "tools/list") return { ...cache, tools: [{ name: "t", inputSchema: { type: "object" } }] };
    const now = new Date(0).toISOString();
    const task = { taskId: "t", status: "working", createdAt: now, lastUpdatedAt: now, ttlMs: null };
    if (method === "tools/call") return { resultType: "task", ...task, pollIntervalMs: 1 };
    return { resultType: "complete", ...task, pollIntervalMs: 10_000, statusMessage: "half" };
  });
  glovebox.mcp.addServer("slow", { url: slow.url, protocol: "2026-07-28" });
  const { promise: polled, resolve: onProgress } = Promise.withResolvers<unknown>();
  const running = call("slow__t", {}, { onProgress, timeoutMs: 60_000 });
  await polled;
  await glovebox.mcp.removeServer("slow");
  methods.length = 0;
  expect(codeOf(await running)).toBe("CANCELLED");
  expect(methods).toEqual([]);
});
