// `glovebox mcp` as an MCP client starts it: a real process, over stdin and stdout and over HTTP, and how it ends.
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { enterFolder, runInProcess } from "../support/cli-in-process.ts";
import { cliEnvironment, MAIN, patiently } from "../support/cli-process.ts";

let folder = "";
let leave: () => Promise<void>;

const SOURCES = {
  "noisy.ts": `
    export const description = "Says a lot";
    export const inputSchema = { type: "object", properties: { n: { type: "number" } }, required: ["n"] };
    export default ({ n }: { n: number }) => {
      console.log("not for stdout");
      console.error("nor this");
      return { twice: n * 2 };
    };`,
  "waits.ts": `
    export const durable = true;
    export const capabilities = { waitFor: true };
    export default async ({ n }, ctx) => { await ctx.waitFor({ durationMs: 3_000 }); return { twice: n * 2 }; };`,
  "spins.ts": "export default () => { console.log('spinning'); for (;;); };",
} as const;

beforeAll(async () => {
  ({ folder, leave } = await enterFolder(SOURCES));
});
afterAll(() => leave());

interface Running {
  readonly child: ChildProcessWithoutNullStreams;
  readonly exit: Promise<number | null>;
}

function start(...args: readonly string[]): Running {
  const child = spawn(process.execPath, [MAIN, ...patiently(["mcp", ...args])], {
    cwd: folder,
    env: cliEnvironment(folder),
  });
  const exit = once(child, "exit").then(([code]) => code as number | null);
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await exit;
  });
  return { child, exit };
}

const INITIALIZE = {
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "raw", version: "1" } },
};
const write = ({ child }: Running, message: object): boolean => child.stdin.write(`${JSON.stringify(message)}\n`);
const call = (id: number, name: string, args: object): object => ({
  jsonrpc: "2.0",
  id,
  method: "tools/call",
  params: { name, arguments: args },
});

describe("glovebox mcp over stdin and stdout", () => {
  test.for(["auto", "legacy"] as const)(
    "serves files and its own tools to a client with the %s protocol",
    async (mode) => {
      const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode } });
      const args = [MAIN, ...patiently(["mcp", "noisy.ts", "--tool", "run-js"])];
      const transport = new StdioClientTransport({ command: process.execPath, args, cwd: folder, stderr: "pipe" });
      onTestFinished(() => client.close());
      await client.connect(transport);
      const { tools } = await client.listTools();
      expect(tools.map(({ name }) => name)).toEqual(["noisy", "run-js"]);
      expect(await client.callTool({ name: "noisy", arguments: { n: 2 } })).toMatchObject({
        structuredContent: { twice: 4 },
      });
      const code = "6 * 7";
      expect((await client.callTool({ name: "run-js", arguments: { code } })).isError).not.toBe(true);
    },
  );

  test("writes only messages to stdout, rejects invalid ones, and ends with its stdin and all its calls", async () => {
    const running = start("noisy.ts", "spins.ts");
    const lines = createInterface({ input: running.child.stdout });
    const said: { id?: number; method?: string }[] = [];
    lines.on("line", (line) => said.push(JSON.parse(line)));
    running.child.stdin.write("this is no JSON\n");
    write(running, INITIALIZE);
    write(running, { jsonrpc: "2.0", method: "notifications/initialized" });
    write(running, { jsonrpc: "2.0", id: 2, method: "logging/setLevel", params: { level: "info" } });
    write(running, call(3, "noisy", { n: 4 }));
    await expect
      .poll(() => said.find(({ id }) => id === 3))
      .toMatchObject({
        result: { structuredContent: { twice: 8 } },
      });
    write(running, call(4, "spins", {}));
    await expect.poll(() => JSON.stringify(said.at(-1))).toContain('"data":"spinning"');
    running.child.stdin.end();
    expect(await running.exit).toBe(0);
    expect(said.some(({ id }) => id === 4)).toBe(false);
  });

  test("SIGTERM ends it, a running call with it", async () => {
    const running = start("spins.ts");
    const lines = createInterface({ input: running.child.stdout });
    write(running, INITIALIZE);
    await once(lines, "line");
    write(running, { jsonrpc: "2.0", method: "notifications/initialized" });
    write(running, { jsonrpc: "2.0", id: 2, method: "logging/setLevel", params: { level: "info" } });
    await once(lines, "line");
    write(running, call(3, "spins", {}));
    await once(lines, "line");
    running.child.kill("SIGTERM");
    expect(await running.exit).toBe(0);
  });
});

describe("glovebox mcp --http", () => {
  test("prints its address, serves there, rejects other Hosts, and ends on SIGTERM with calls running", async () => {
    const running = start("noisy.ts", "spins.ts", "--http", "0");
    const stdout = text(running.child.stdout);
    const [line] = (await once(createInterface({ input: running.child.stderr }), "line")) as [string];
    expect(line).toMatch(/^MCP at http:\/\/127\.0\.0\.1:\d+\/mcp$/);
    const url = new URL(line.slice("MCP at ".length));
    const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode: "auto" } });
    onTestFinished(() => client.close());
    await client.connect(new StreamableHTTPClientTransport(url));
    expect(await client.callTool({ name: "noisy", arguments: { n: 1 } })).toMatchObject({
      structuredContent: { twice: 2 },
    });
    const elsewhere = await fetch(url, { method: "POST", headers: { origin: "https://evil.example" } });
    expect(elsewhere.status).toBe(403);
    const spinning = client.callTool({ name: "spins" }).catch(() => "over");
    running.child.kill("SIGTERM");
    expect(await running.exit).toBe(0);
    await spinning;
    expect(await stdout).toBe("");
  });

  test("closes a connection whose headers do not arrive within 10 s", async () => {
    const running = start("noisy.ts", "--http", "0");
    const [line] = (await once(createInterface({ input: running.child.stderr }), "line")) as [string];
    const { hostname, port } = new URL(line.slice("MCP at ".length));
    const socket = connect(Number(port), hostname);
    onTestFinished(() => void socket.destroy());
    socket.write("POST /mcp HTTP/1.1\r\nhost: localhost\r\n");
    // Node's own default is 60 s, checked every 30 s: it would answer after this.
    const signal = AbortSignal.timeout(59_000);
    const [answer] = (await once(socket, "data", { signal })) as [Buffer];
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 408 /);
    await once(socket, "close", { signal });
  });

  test.for<[name: string, args: string[], message: RegExp]>([
    ["nothing to serve", [], /Expected the PATH of a tool, --tool NAME or --mcp NAME=COMMAND_OR_URL, got nothing/],
    ["a tool there is not", ["--tool", "nope"], /--tool: expected one of .*run-js.*, got "nope"/],
    ["an invalid port", ["noisy.ts", "--http", "web"], /--http: expected a port from 0 to 65535, got "web"/],
    ["a host without --http", ["noisy.ts", "--host", "0.0.0.0"], /expected --http PORT as well/],
    ["every address without a name", ["noisy.ts", "--http", "0", "--host", "0.0.0.0"], /expected --allow-host/],
    ["an input", ["noisy.ts", "--input", "{}"], /Unknown option "--input" of mcp/],
    ["a file that is not there", ["gone.ts"], /There is no file or folder "gone\.ts"/],
  ])("rejects %s", async ([, args, message]) => {
    const { code, stdout, stderr } = await runInProcess(["mcp", ...args]);
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(message);
    expect(stderr).not.toContain(folder);
  });
});

describe("glovebox mcp --runs", () => {
  const CAPABILITIES = { extensions: { "io.modelcontextprotocol/tasks": {} } };

  /** Sends a request of a client of 2026-07-28 that supports tasks. */
  async function send(url: URL, method: string, params: object): Promise<{ readonly [field: string]: unknown }> {
    const _meta = {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientInfo": { name: "raw", version: "1" },
      "io.modelcontextprotocol/clientCapabilities": CAPABILITIES,
    };
    const { name, taskId } = params as { readonly name?: string; readonly taskId?: string };
    const headers = {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": method,
      "mcp-name": name ?? taskId ?? "",
    };
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { ...params, _meta } });
    const said = await (await fetch(url, { method: "POST", headers, body })).text();
    const reply = JSON.parse(/^data: (.*)$/m.exec(said)?.[1] ?? said) as { readonly result?: object };
    return { ...reply.result };
  }

  test("a task outlives the process that runs it", async () => {
    const args = ["waits.ts", "--grant", "waitFor", "--runs", "data/runs.sqlite", "--http", "0"];
    const open = async (): Promise<{ readonly running: Running; readonly url: URL }> => {
      const running = start(...args);
      const [line] = (await once(createInterface({ input: running.child.stderr }), "line")) as [string];
      return { running, url: new URL(line.slice("MCP at ".length)) };
    };
    const first = await open();
    const task = await send(first.url, "tools/call", { name: "waits", arguments: { n: 4 } });
    expect(task).toMatchObject({ resultType: "task", status: "working" });
    first.running.child.kill("SIGKILL");
    await first.running.exit;
    const second = await open();
    await expect
      .poll(() => send(second.url, "tasks/get", { taskId: task.taskId }))
      .toMatchObject({ status: "completed", result: { structuredContent: { twice: 8 } } });
    second.running.child.kill("SIGTERM");
    expect(await second.running.exit).toBe(0);
  });

  test("rejects a file that is no store", async () => {
    const { code, stderr } = await runInProcess(["mcp", "noisy.ts", "--runs", "noisy.ts"]);
    expect(code).toBe(2);
    expect(stderr).toContain("--runs: expected a file that Glovebox has created");
  });
});
