// glovebox dev --inspect, as Chrome DevTools use it: a real process, a real WebSocket, a breakpoint in TypeScript.
import { writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { runInProcess } from "../support/cli-in-process.ts";
import { CliProcess } from "../support/cli-process.ts";
import { DevToolsClient } from "../support/devtools-client.ts";

const INSPECT_MS = 600_000;

const TOOL = `import { double } from "./double.ts";

interface Input {
  readonly n: number;
}

const factor: number = 3;
export default async ({ n }: Input) => {
  const first = double(n);
  await null;
  const second = first * factor;
  console.log("almost there");
  return { second };
};
`;
const DOUBLE = `export function double(n: number): number {
  const twice = n * 2;
  return twice;
}
`;

let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "glovebox-inspect-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, "tool.ts"), TOOL);
  writeFileSync(join(folder, "double.ts"), DOUBLE);
});

async function startDev(...args: string[]): Promise<{ readonly dev: CliProcess; readonly url: string }> {
  const dev = new CliProcess(["dev", "tool.ts", "--input", '{"n":7}', ...args], folder);
  onTestFinished(() => dev[Symbol.asyncDispose]());
  const [, url = ""] = await dev.says("stderr", /DevTools can attach at (ws:\S+)/);
  return { dev, url };
}

test("--inspect-brk waits, stops at the tool's first line, at a breakpoint in TypeScript, and steps; clocks stand still", {
  timeout: INSPECT_MS,
}, async () => {
  // Both limits are below the time that it will be held, and far above the rest of its time.
  const { dev, url } = await startDev("--inspect-brk=0", "--timeout-ms", "15000", "--cpu-ms", "15000");
  await dev.says("stderr", /tool\.ts\n/);
  // The call has begun, and waits for us: none of its time passes.
  await pause(8_000);
  await using client = await DevToolsClient.connect(url);
  await client.send("Runtime.enable");
  await client.send("Debugger.enable");
  await client.send("Runtime.runIfWaitingForDebugger");

  const atStart = await client.paused();
  expect(client.placeOf(atStart)).toBe("tool.ts:1");
  expect(client.script?.map.sourcesContent).toContain(TOOL);

  await client.breakAt("double.ts", 3);
  await client.send("Debugger.resume");
  const atBreakpoint = await client.paused();
  expect(client.placeOf(atBreakpoint)).toBe("double.ts:3");
  expect(atBreakpoint.callFrames.map(({ functionName }) => functionName)[0]).toBe("double");
  expect(await client.locals(atBreakpoint)).toEqual({ n: 7, twice: 14 });
  const { result } = await client.send("Debugger.evaluateOnCallFrame", {
    callFrameId: atBreakpoint.callFrames[0]?.callFrameId,
    expression: "twice + n",
  });
  expect(result).toMatchObject({ value: 21 });
  await pause(8_000);

  await client.send("Debugger.stepOut");
  const after = await client.paused();
  expect(client.placeOf(after)).toBe("tool.ts:10");
  await client.breakAt("tool.ts", 12);
  await client.send("Debugger.resume");
  expect(client.placeOf(await client.paused())).toBe("tool.ts:12");
  await client.send("Debugger.stepOver");
  expect(client.placeOf(await client.paused())).toBe("tool.ts:13");
  await client.send("Debugger.resume");
  await dev.says("stdout", /^\{"second":42\}\n/);
  await dev.says("stderr", /almost there/);
  expect(await client.event("Runtime.consoleAPICalled")).toMatchObject({ args: [{ value: "almost there" }] });

  dev.signal("SIGINT");
  expect(await dev.exit).toBe(0);
});

test("--inspect runs at once; breakpoints hold for the next runs and can be taken away; a detached client leaves nothing behind", {
  timeout: INSPECT_MS,
}, async () => {
  const { dev, url } = await startDev("--inspect=0", "--timeout-ms", "60000");
  await dev.says("stdout", /^\{"second":42\}\n/);
  await dev.says("stderr", /Waiting for changes\n/);
  const first = await DevToolsClient.connect(url);
  await first.send("Runtime.enable");
  await first.send("Debugger.enable");
  // The isolate of the call that is over is still there to be looked at.
  const { result } = await first.send("Runtime.evaluate", { expression: "typeof globalThis.require" });
  expect(result).toMatchObject({ value: "undefined" });
  const breakpointId = await first.breakAt("tool.ts", 11);

  writeFileSync(join(folder, "double.ts"), DOUBLE.replace("n * 2", "2 * n"));
  await first.event("Runtime.executionContextsCleared");
  const paused = await first.paused();
  expect(first.placeOf(paused)).toBe("tool.ts:11");
  expect(paused.hitBreakpoints).toEqual([breakpointId]);
  expect(await first.locals(paused)).toMatchObject({ n: 7, first: 14 });
  await first.send("Debugger.removeBreakpoint", { breakpointId });
  await first.send("Debugger.resume");
  await dev.says("stdout", /^\{"second":42\}\n/);
  await dev.says("stderr", /Waiting for changes\n/);

  writeFileSync(join(folder, "double.ts"), DOUBLE.replace("n * 2", "n * 4"));
  await dev.says("stdout", /^\{"second":84\}\n/);
  await dev.says("stderr", /Waiting for changes\n/);

  // Who leaves while the tool stands at a breakpoint lets it go.
  await first.breakAt("tool.ts", 11);
  writeFileSync(join(folder, "double.ts"), DOUBLE.replace("n * 2", "n * 6"));
  await first.paused();
  await first[Symbol.asyncDispose]();
  await dev.says("stdout", /^\{"second":126\}\n/);
  await dev.says("stderr", /Waiting for changes\n/);

  // A change stops what stands at a breakpoint.
  await using second = await DevToolsClient.connect(url);
  await second.send("Debugger.enable");
  await second.breakAt("tool.ts", 11);
  writeFileSync(join(folder, "double.ts"), DOUBLE.replace("n * 2", "n * 8"));
  await second.paused();
  writeFileSync(join(folder, "double.ts"), DOUBLE.replace("n * 2", "n * 10"));
  await second.paused();
  await second.send("Debugger.resume");
  await dev.says("stdout", /^\{"second":210\}\n/);
});

test("a tool that loops is stopped by its deadline, though a client is attached", { timeout: INSPECT_MS }, async () => {
  // The time of the call includes the start of its process, which takes more than a second on a busy machine. The tool does not loop all
  // the rest of it, because that is CPU time of other tests.
  const waits = "await new Promise((done) => setTimeout(done, 15_000));";
  writeFileSync(join(folder, "tool.ts"), `export default async () => {\n  ${waits}\n  for (;;);\n};\n`);
  const { dev, url } = await startDev("--inspect-brk=0", "--timeout-ms", "20000", "--cpu-ms", "60000");
  await using client = await DevToolsClient.connect(url);
  await client.send("Debugger.enable");
  await client.send("Runtime.runIfWaitingForDebugger");
  await client.paused();
  await client.send("Debugger.resume");
  await dev.says("stderr", /TOOL_TIMEOUT: .* did not finish within 20000 ms/);
});

/** A request as a browser would send it, with headers that fetch would not take. */
function get(url: string, headers: { readonly [name: string]: string }): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    request(url, { headers }, (response) => {
      let body = "";
      response.setEncoding("utf8").on("data", (text: string) => {
        body += text;
      });
      response.on("end", () => resolve({ status: response.statusCode ?? 0, body }));
    })
      .on("error", reject)
      .end();
  });
}

describe("the door for DevTools", () => {
  test("lists its target, and rejects connections that a web page could have opened", {
    timeout: INSPECT_MS,
  }, async () => {
    const { url } = await startDev("--inspect=0");
    const http = url.replace("ws:", "http:").replace(/\/[^/]+$/, "");
    const { body } = await get(`${http}/json/list`, {});
    expect(JSON.parse(body)).toMatchObject([{ type: "node", title: "tool.ts", webSocketDebuggerUrl: url }]);
    expect(JSON.parse((await get(`${http}/json/version`, {})).body)).toMatchObject({ "Protocol-Version": "1.3" });
    expect(url).toMatch(/^ws:\/\/127\.0\.0\.1:\d+\/[0-9a-f]{8}-[0-9a-f-]{27}$/);

    for (const host of ["evil.example", "127.0.0.1.evil.example:80", "localhost.evil.example"]) {
      expect((await get(`${http}/json/list`, { Host: host })).status, host).not.toBe(200);
      await expect(DevToolsClient.connect(url, { Host: host }), host).rejects.toThrow();
    }
    for (const origin of ["https://evil.example", "http://localhost:3000", "null"]) {
      await expect(DevToolsClient.connect(url, { Origin: origin }), origin).rejects.toThrow("403");
      expect((await get(`${http}/json`, { Origin: origin })).status).toBe(403);
    }
    for (const path of ["/", "/json", "/00000000-0000-0000-0000-000000000000", `${new URL(url).pathname}x`]) {
      await expect(DevToolsClient.connect(`${http.replace("http", "ws")}${path}`), path).rejects.toThrow("404");
    }
    await using client = await DevToolsClient.connect(url, { Origin: "devtools://devtools" });
    await expect(DevToolsClient.connect(url)).rejects.toThrow("409");
    expect(client.isOpen).toBe(true);
  });

  test("an invalid protocol message has no effect", { timeout: INSPECT_MS }, async () => {
    const { dev, url } = await startDev("--inspect=0");
    await dev.says("stdout", /^\{"second":42\}\n/);
    await dev.says("stderr", /Waiting for changes\n/);
    await using client = await DevToolsClient.connect(url);
    for (const text of [
      "",
      "null",
      "[]",
      "{",
      '{"id":"x"}',
      '{"id":-1,"method":"Debugger.enable"}',
      '{"id":2000000000,"method":"x"}',
    ]) {
      client.sendText(text);
    }
    await expect(client.send("No.such")).rejects.toThrow("'No.such' wasn't found");
    await client.send("Runtime.enable");
    const { result } = await client.send("Runtime.evaluate", { expression: "1 + 1" });
    expect(result).toMatchObject({ value: 2 });
  });

  test("an isolate whose code goes on after the result stays open for the client", {
    timeout: INSPECT_MS,
  }, async () => {
    const source = `let steps = 0;
      function goOn() {
        steps += 1;
        if (steps < 100) Promise.resolve().then(goOn);
        else for (const end = Date.now() + 200; Date.now() < end;);
      }
      export default () => { goOn(); return { second: 42 }; };`;
    writeFileSync(join(folder, "tool.ts"), source);
    const { dev, url } = await startDev("--inspect=0");
    await dev.says("stdout", /^\{"second":42\}\n/);
    await dev.says("stderr", /Waiting for changes\n/);
    await using client = await DevToolsClient.connect(url);
    await client.send("Runtime.enable");
    const { result } = await client.send("Runtime.evaluate", { expression: "1 + 1" });
    expect(result).toMatchObject({ value: 2 });
  });

  test.for([
    ["--inspect=x", /--inspect: expected a port from 0 to 65535, got "x"/],
    ["--inspect-brk=70000", /--inspect-brk: expected a port from 0 to 65535, got "70000"/],
  ] as const)("%s is rejected with code 2", { timeout: INSPECT_MS }, async ([flag, message]) => {
    const { code, stderr } = await runInProcess(["dev", "tool.ts", flag]);
    expect([code, stderr]).toEqual([2, expect.stringMatching(message)]);
  });

  test("a port in use is rejected with code 2", { timeout: INSPECT_MS }, async () => {
    const { url } = await startDev("--inspect=0");
    const { code, stderr } = await runInProcess(["dev", "tool.ts", `--inspect=${new URL(url).port}`]);
    expect([code, stderr]).toEqual([2, expect.stringMatching(/--inspect: port \d+ is in use/)]);
  });
});
