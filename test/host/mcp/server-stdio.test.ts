// Tests the MCP server over stdio in a real process whose host callbacks fail. The process survives invalid messages.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test } from "vitest";
import { FAILING_CALLBACKS } from "../../support/failing-callbacks.ts";
import { initializeRequest, legacyRequest } from "../../support/mcp-raw-client.ts";

const SCRIPT = fileURLToPath(new URL("../../support/mcp-stdio-script.ts", import.meta.url));

function start(callback: string, index: number) {
  const child = spawn(process.execPath, [SCRIPT, callback, String(index)], { stdio: ["pipe", "pipe", "pipe"] });
  const exit = once(child, "exit").then(([code]) => code as number | null);
  let stderr = "";
  child.stderr.on("data", (text: Buffer) => {
    stderr += text;
  });
  const messages: { readonly id?: unknown; readonly result?: unknown; readonly error?: unknown }[] = [];
  createInterface({ input: child.stdout }).on("line", (line) => messages.push(JSON.parse(line)));
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await exit;
  });
  const next = async (count: number) => {
    await expect.poll(() => (child.exitCode === null ? messages.length : stderr)).toBe(count);
    return messages[count - 1];
  };
  const write = (text: string): void => void child.stdin.write(`${text}\n`);
  return { child, exit, next, write };
}

describe.for(FAILING_CALLBACKS.map(([name], index) => [name, index] as const))("serveMcpStdio()", ([name, index]) => {
  test(`answers after invalid messages with an onError that ${name}`, async () => {
    const { child, exit, next, write } = start("onError", index);
    write("this is not JSON");
    write('{"jsonrpc":"1.0"}');
    write(`[${initializeRequest().body}]`);
    write(initializeRequest().body);
    expect(await next(1)).toMatchObject({ id: 1, result: { protocolVersion: "2025-11-25" } });
    write('{"jsonrpc":"2.0","id":99,"result":{}}');
    write("nor this");
    write(legacyRequest("ping").body);
    expect(await next(2)).toMatchObject({ id: 1, result: {} });
    child.stdin.end();
    expect(await exit).toBe(0);
  });

  test(`answers each request with an internal error with a register that ${name}`, async () => {
    const { child, exit, next, write } = start("register", index);
    for (let count = 1; count <= 2; count += 1) {
      write(initializeRequest().body);
      expect(await next(count)).toEqual({
        jsonrpc: "2.0",
        id: 1,
        error: { code: -32_603, message: "Internal server error" },
      });
    }
    child.stdin.end();
    expect(await exit).toBe(0);
  });
});
