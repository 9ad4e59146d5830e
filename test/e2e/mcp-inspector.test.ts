// Clients that others have written, against our server: MCP's Inspector on its command line, over both transports, and the SDK's client
// with what a hosted tool may be: ordinary, Python, without an end, cancelled.
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { serve } from "@hono/node-server";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import * as z from "zod";
import type { Glovebox } from "../../src/host/glovebox/glovebox.ts";
import { defineCapability } from "../../src/host/index.ts";
import { createMcpHandler, type McpHandler } from "../../src/host/mcp/server/index.ts";
import { cliEnvironment, MAIN, patiently } from "../support/cli-process.ts";
import { makeGlovebox, PYTHON_CACHE } from "../support/host-zone.ts";
import { descendantsOf } from "../support/process-tree.ts";

const INSPECTOR = join(
  dirname(createRequire(import.meta.url).resolve("@modelcontextprotocol/inspector/package.json")),
  "clients/launcher/build/index.js",
);
const ADD = `export const description = "Adds two numbers";
export const inputSchema = { type: "object", properties: { a: { type: "number" }, b: { type: "number" } }, required: ["a", "b"] };
export default ({ a, b }) => ({ sum: a + b });`;
const COUNT = `"""Counts words"""
from collections import Counter

def main(input):
    return dict(Counter(input["text"].split()))
`;

let folder = "";
let glovebox: Glovebox;
let handler: McpHandler;
let server: ReturnType<typeof serve>;
let url = "";
/** When a tool that beats has done so last. */
let beatAt = 0;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "glovebox-inspector-"));
  await writeFile(join(folder, "add.ts"), ADD);
  const beat = defineCapability({
    name: "beat",
    inputSchema: z.unknown(),
    outputSchema: z.unknown(),
    handler: () => {
      beatAt = performance.now();
      return null;
    },
  });
  glovebox = await makeGlovebox({
    cache: PYTHON_CACHE,
    limits: { timeoutMs: 120_000, maxCapabilityCalls: 100_000 },
    capabilities: [beat],
  });
  await glovebox.addTool({ name: "add", source: ADD });
  await glovebox.addTool({ name: "count", source: COUNT, language: "python" });
  await glovebox.addTool({
    name: "loop",
    source: "export default () => { for (;;); }",
    overrides: { limits: { timeoutMs: 300 } },
  });
  await glovebox.addTool({
    name: "beats",
    source: "export default async (input, { beat }) => { for (;;) await beat(); }",
    overrides: { capabilities: { beat: true }, limits: { timeoutMs: 300_000 } },
  });
  handler = createMcpHandler(glovebox);
  const { promise, resolve } = Promise.withResolvers<AddressInfo>();
  server = serve({ fetch: handler.fetch, port: 0, hostname: "127.0.0.1" }, resolve);
  url = `http://127.0.0.1:${(await promise).port}/mcp`;
});
afterAll(async () => {
  await handler.close();
  if ("closeAllConnections" in server) server.closeAllConnections();
  await new Promise((closed) => server.close(closed));
  await glovebox.close();
  await rm(folder, { recursive: true });
});

/** The output of the Inspector: the result of the answer. */
async function inspect(args: readonly string[], target: readonly string[]): Promise<unknown> {
  return await new Promise((resolve, reject) => {
    const env = { ...cliEnvironment(folder), PATH: process.env.PATH };
    execFile(process.execPath, [INSPECTOR, "--cli", ...target, ...args], { env }, (error, stdout, stderr) =>
      error === null ? resolve(JSON.parse(stdout)) : reject(new Error(`${stdout}\n${stderr}`, { cause: error })),
    );
  });
}

describe.for(["stdio", "http"] as const)("the Inspector's command line over %s", (transport) => {
  const target = (): readonly string[] =>
    transport === "http"
      ? [url, "--transport", "http"]
      : [process.execPath, MAIN, ...patiently(["mcp", join(folder, "add.ts")])];

  test("lists our tools", async () => {
    expect(await inspect(["--method", "tools/list"], target())).toMatchObject({
      tools: expect.arrayContaining([
        expect.objectContaining({
          name: "add",
          description: "Adds two numbers",
          inputSchema: {
            type: "object",
            properties: { a: { type: "number" }, b: { type: "number" } },
            required: ["a", "b"],
          },
        }),
      ]),
    });
  });

  test("calls one", async () => {
    const call = ["--method", "tools/call", "--tool-name", "add", "--tool-arg", "a=1", "b=2"];
    expect(await inspect(call, target())).toMatchObject({
      content: [{ type: "text", text: '{"sum":3}' }],
      structuredContent: { sum: 3 },
    });
  });
});

/** CPU time of all processes that this one has started, in hundredths of a second. */
const ticks = (): number =>
  descendantsOf(process.pid).reduce((sum, { pid }) => {
    try {
      const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
      return sum + Number(fields[11]) + Number(fields[12]);
    } catch {
      return sum;
    }
  }, 0);

describe.for(["auto", "legacy"] as const)("the SDK's client (%s)", (mode) => {
  let client: Client;
  beforeAll(async () => {
    client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode } });
    await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  });
  afterAll(async () => await client.close());

  test("calls a sandboxed tool, and a Python tool", async () => {
    const sum = await client.callTool({ name: "add", arguments: { a: 1, b: 2 } });
    expect(sum.structuredContent).toEqual({ sum: 3 });
    // Its interpreter may start without its caches.
    const counted = await client.callTool({ name: "count", arguments: { text: "a b a" } }, { timeout: 300_000 });
    expect(counted.structuredContent).toEqual({ a: 2, b: 1 });
  });

  test("receives the timeout of a loop, which stops running", async () => {
    const result = await client.callTool({ name: "loop", arguments: {} });
    expect(result.isError).toBe(true);
    expect(result._meta).toMatchObject({ "glovebox/errorCode": "TOOL_TIMEOUT" });
    const spentIn100Ms = async (): Promise<number> => {
      const before = ticks();
      await pause(100);
      return ticks() - before;
    };
    // A loop would take ten of ten, or half of them if other processes run.
    await expect.poll(spentIn100Ms, { interval: 50 }).toBeLessThan(3);
  });

  test("cancels a call in mid-run: it ends long before its own time limit", async () => {
    beatAt = 0;
    const controller = new AbortController();
    const call = client.callTool({ name: "beats", arguments: {} }, { signal: controller.signal });
    await expect.poll(() => beatAt, { interval: 5 }).toBeGreaterThan(0);
    controller.abort();
    await expect(call).rejects.toThrow();
    // It would go on for minutes; how soon it is dead is measured in benchmarks/kill.ts.
    await expect.poll(() => performance.now() - beatAt, { interval: 20 }).toBeGreaterThan(1_000);
  });
});
