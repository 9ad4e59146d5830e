// Tests the servers that the authors of MCP publish, through a Glovebox: over stdio, and one over HTTP.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CallContext, ToolCall, ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import type { UpstreamServerOptions } from "../../../src/host/mcp/client/mcp-options.ts";
import { freePort } from "../../support/free-port.ts";
import { codeOf, errorOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";

const scriptOf = (name: string): string =>
  fileURLToPath(new URL(`../../../node_modules/@modelcontextprotocol/server-${name}/dist/index.js`, import.meta.url));
const official = (name: string, ...args: string[]) => ({
  command: process.execPath,
  args: [scriptOf(name), ...args],
  // A program starts slowly on a busy machine.
  connectTimeoutMs: 120_000,
});

let glovebox: Glovebox;
let folder: string;
let http: ChildProcess;
const messages: string[] = [];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "glovebox-official-"));
  await writeFile(join(folder, "note.txt"), "line 1\nline 2\n");
  const port = await freePort();
  const env = { ...process.env, PORT: String(port) };
  http = spawn(process.execPath, [scriptOf("everything"), "streamableHttp"], {
    env,
    stdio: ["ignore", "ignore", "pipe"],
  });
  await once(http.stderr ?? http, "data");
  const hooks: Partial<UpstreamServerOptions> = {
    onElicitation: ({ message }) => {
      messages.push(message);
      return { action: "decline" };
    },
    onSampling: () => ({
      role: "assistant",
      content: { type: "text", text: "A sampled answer" },
      model: "of-the-host",
    }),
  };
  // The servers write files as the host's user.
  const sandbox = { without: ["user"] } as const;
  glovebox = await makeGlovebox({
    mcp: {
      servers: {
        everything: official("everything"),
        hooked: { ...official("everything"), ...hooks },
        web: { url: `http://127.0.0.1:${port}/mcp` },
        files: { ...official("filesystem", folder), sandbox },
        memory: { ...official("memory"), sandbox, env: { MEMORY_FILE_PATH: join(folder, "memory.jsonl") } },
        thinking: official("sequential-thinking"),
      },
    },
  });
});
afterAll(async () => {
  await glovebox.close();
  http.kill("SIGKILL");
  await rm(folder, { recursive: true });
});

let calls = 0;
function call(toolName: string, input: ToolCall["arguments"] = {}, context: CallContext = {}): Promise<ToolResult> {
  calls += 1;
  return glovebox.execute({ id: `call-${calls}`, toolName, arguments: input }, context);
}
const statusOf = (name: string): ReturnType<Glovebox["mcp"]["servers"]>[number] | undefined =>
  glovebox.mcp.servers().find(({ server }) => server === name);

describe("the official servers", () => {
  test("list their tools, except for those that can only be called as a task", async () => {
    const tools = await glovebox.listTools();
    expect(
      glovebox.mcp
        .servers()
        .map(({ server, tools: count, omittedTools, listIssue }) => [server, count, omittedTools, listIssue]),
    ).toEqual([
      [
        "everything",
        12,
        [
          {
            toolName: "simulate-research-query",
            problem: "The tool can only be called as a task, which is not supported",
          },
        ],
        undefined,
      ],
      [
        "hooked",
        expect.any(Number),
        [
          {
            toolName: "simulate-research-query",
            problem: "The tool can only be called as a task, which is not supported",
          },
        ],
        undefined,
      ],
      [
        "web",
        12,
        [
          {
            toolName: "simulate-research-query",
            problem: "The tool can only be called as a task, which is not supported",
          },
        ],
        undefined,
      ],
      ["files", 14, [], undefined],
      ["memory", 9, [], undefined],
      ["thinking", 1, [], undefined],
    ]);
    expect(tools.find(({ name }) => name === "everything__get-sum")?.inputSchema).toMatchObject({
      required: ["a", "b"],
    });
  });

  test.for(["everything", "web"])(
    "everything: returns text, values, images, links and annotated content: %s",
    async (server) => {
      expect(outputOf(await call(`${server}__echo`, { message: "hé" }))).toBe("Echo: hé");
      expect(outputOf(await call(`${server}__get-sum`, { a: 2, b: 40 }))).toBe("The sum of 2 and 40 is 42.");
      expect(outputOf(await call(`${server}__get-structured-content`, { location: "Chicago" }))).toMatchObject({
        conditions: expect.any(String),
        temperature: expect.any(Number),
      });
      const image = await call(`${server}__get-tiny-image`);
      const parts =
        (image as { readonly content?: readonly { readonly type: string; readonly data?: Uint8Array }[] }).content ??
        [];
      expect(parts.find(({ type }) => type === "image")?.data?.subarray(0, 4)).toEqual(
        new Uint8Array([0x89, 0x50, 0x4e, 0x47]),
      );
      expect(await call(`${server}__get-resource-links`, { count: 2 })).toMatchObject({
        content: expect.arrayContaining([expect.objectContaining({ type: "resource_link" })]),
      });
      expect(await call(`${server}__get-annotated-message`, { messageType: "error" })).toMatchObject({
        content: [{ type: "text", annotations: { priority: 1, audience: ["user", "assistant"] } }],
      });
    },
  );

  test.for(["everything", "web"])("everything: reports progress: %s", async (server) => {
    const progress: { readonly progress: number; readonly total?: number | undefined }[] = [];
    const result = await call(
      `${server}__trigger-long-running-operation`,
      { duration: 0.4, steps: 4 },
      {
        onProgress: (each) => progress.push(each),
      },
    );
    expect(outputOf(result)).toMatch(/^Long running operation completed/);
    expect(progress.map(({ progress: at, total }) => [at, total])).toEqual([1, 2, 3, 4].map((at) => [at, 4]));
  });

  test.for(["everything", "web"])("everything: does not receive invalid arguments: %s", async (server) => {
    expect(codeOf(await call(`${server}__get-sum`, { a: "two", b: 40 }))).toBe("PARAM_INVALID");
  });

  test("everything: has no access to the host's environment", async () => {
    const environment = JSON.parse(String(outputOf(await call("everything__get-env")))) as object;
    // The shell that starts it sets PWD.
    expect(
      Object.keys(environment)
        .filter((name) => name !== "PWD")
        .sort(),
    ).toEqual(["HOME", "PATH"]);
  });

  test("everything: its requests are answered by the hooks, and their tools are missing without hooks", async () => {
    const sampled = await call("hooked__trigger-sampling-request", { prompt: "Hi", maxTokens: 10 });
    expect(String(outputOf(sampled))).toContain("A sampled answer");
    expect(String(outputOf(await call("hooked__trigger-elicitation-request")))).toMatch(/declined/i);
    expect(messages).toHaveLength(1);
    expect(codeOf(await call("everything__trigger-sampling-request", { prompt: "Hi" }))).toBe("TOOL_UNAVAILABLE");
  });

  test("filesystem: reads and writes in its folder, and fails elsewhere with a reason", async () => {
    expect(outputOf(await call("files__read_text_file", { path: join(folder, "note.txt") }))).toEqual({
      content: "line 1\nline 2\n",
    });
    const written = await call("files__write_file", { path: join(folder, "new.txt"), content: "new" });
    expect(written.success).toBe(true);
    expect(await readFile(join(folder, "new.txt"), "utf8")).toBe("new");
    const error = errorOf(await call("files__read_text_file", { path: "/etc/passwd" }));
    expect(error).toMatchObject({
      code: "TOOL_FAILED",
      message: expect.stringContaining("outside allowed directories"),
    });
  });

  test("memory: keeps data over a restart", async () => {
    const entities = [{ name: "Ada", entityType: "person", observations: ["wrote the first program"] }];
    expect((await call("memory__create_entities", { entities })).success).toBe(true);
    process.kill(statusOf("memory")?.pid ?? Number.NaN, "SIGKILL");
    await expect.poll(() => statusOf("memory")?.state).not.toBe("connected");
    expect(outputOf(await call("memory__search_nodes", { query: "program" }))).toMatchObject({ entities });
    expect(statusOf("memory")?.connections).toBe(2);
  });

  test("sequential-thinking: accepts consecutive thoughts", async () => {
    for (const thoughtNumber of [1, 2]) {
      const thought = {
        thought: `${thoughtNumber}`,
        thoughtNumber,
        totalThoughts: 2,
        nextThoughtNeeded: thoughtNumber < 2,
      };
      expect(outputOf(await call("thinking__sequentialthinking", thought))).toMatchObject({
        thoughtHistoryLength: thoughtNumber,
      });
    }
  });

  test("everything: killed during a call fails that call only, and the next call connects again", async () => {
    const bystander = call("web__trigger-long-running-operation", { duration: 0.6, steps: 2 });
    const cut = call("everything__trigger-long-running-operation", { duration: 30, steps: 1 });
    await expect.poll(() => statusOf("everything")?.state).toBe("connected");
    const before = statusOf("everything")?.pid ?? Number.NaN;
    // The server has received the call when it answers a later one.
    expect(outputOf(await call("everything__echo", { message: "after it" }))).toBe("Echo: after it");
    process.kill(before, "SIGKILL");
    expect(errorOf(await cut)).toMatchObject({
      code: "TOOL_UNAVAILABLE",
      message: 'The MCP server "everything" disconnected while "trigger-long-running-operation" ran',
    });
    expect(outputOf(await call("everything__echo", { message: "back" }))).toBe("Echo: back");
    expect(statusOf("everything")?.pid).not.toBe(before);
    expect(outputOf(await bystander)).toMatch(/completed/);
    expect(statusOf("web")).toMatchObject({ state: "connected", connections: 1 });
  });
});
