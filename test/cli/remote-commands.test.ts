// Commands that use a server, at one that fails, limits requests or does not answer: a real HTTP server whose answers the test chooses.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { runCli } from "../../src/cli/cli.ts";
import { StopError } from "../../src/cli/terminal/process-io.ts";
import { createTestIo, type TestIo } from "../support/cli-io.ts";

const KEY = "gbx_key";
const MAIN = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));

/** Starts a server, and returns its URL. */
async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Starts a command that uses this server. */
function start(url: string, args: readonly string[]): TestIo["written"] & { stop: () => void; ended: Promise<number> } {
  const stop = new AbortController();
  const { io, written } = createTestIo(stop.signal);
  const ended = runCli(args, { ...io, env: { GLOVEBOX_URL: url, GLOVEBOX_API_KEY: KEY } });
  onTestFinished(() => stop.abort(new StopError("The test has ended", 1)));
  return Object.assign(written, { stop: () => stop.abort(new StopError("Stopped by SIGINT", 130)), ended });
}

const idOf = (number: number): string => `call_${String(number).padStart(26, "0")}`;

/** A call that has ended, and has one log line. */
const endedCall = (number: number): object => ({
  ...{ id: idOf(number), tool: "say", version: 1, state: "succeeded", createdAt: number, endedAt: number },
  logs: [{ level: "info", message: `line ${number}` }],
});

test("reads an input from a file that is too large for an argument", async () => {
  const folder = await mkdtemp(join(tmpdir(), "glovebox-input-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const file = join(folder, "input.json");
  const input = { text: "x".repeat(200_000) };
  await writeFile(file, JSON.stringify(input));
  const received: unknown[] = [];
  const url = await serve(async (request, response) => {
    received.push([request.url, ((await json(request)) as { readonly input: unknown }).input]);
    response
      .writeHead(200, { "content-type": "application/json" })
      .end(JSON.stringify({ ...endedCall(1), error: null }));
  });
  expect(await start(url, ["call", "say", "--tenant", "acme", "--input-file", file]).ended).toBe(0);
  expect(received).toEqual([["/v1/tenants/acme/tools/say/calls", input]]);
});

test.for([
  ["that is down for a while", 503, "SHUTTING_DOWN"],
  ["that limits requests", 429, "RATE_LIMITED"],
] as const)("logs --follow prints the lines of all calls of a server %s", async ([_what, status, code]) => {
  let isFailing = false;
  let failed = 0;
  let newest = 1;
  const url = await serve(({ url: path = "" }, response) => {
    const answer = (content: object, number = 200): void => {
      response.writeHead(number, { "content-type": "application/json" }).end(JSON.stringify(content));
    };
    const [, id] = /\/calls\/call_0*(\d+)$/.exec(path) ?? [];
    if (path.includes("/running-calls")) return answer({ items: [] });
    if (id === undefined)
      return answer({ items: Array.from({ length: newest }, (_, at) => endedCall(newest - at)), next: null });
    if (!isFailing) return answer(endedCall(Number(id)));
    failed += 1;
    return answer({ error: { code, message: "Not now" } }, status);
  });
  const logs = start(url, ["logs", "say", "--tenant", "acme", "--follow"]);
  await expect.poll(() => logs.stdout, { timeout: 60_000 }).toContain("line 1");
  isFailing = true;
  newest = 3;
  // More often than the client repeats a request.
  await expect.poll(() => failed, { timeout: 60_000 }).toBeGreaterThan(6);
  isFailing = false;
  newest = 4;
  await expect.poll(() => logs.stdout, { timeout: 60_000 }).toContain("line 4");
  logs.stop();
  expect(await logs.ended).toBe(0);
  const messages = logs.stdout.match(/line \d/g);
  expect(messages).toEqual(["line 1", "line 2", "line 3", "line 4"]);
});

test("logs --follow follows a running call also if its record cannot be read at first", async () => {
  let reads = 0;
  const url = await serve(({ url: path = "" }, response) => {
    const answer = (content: object, number = 200): void => {
      response.writeHead(number, { "content-type": "application/json" }).end(JSON.stringify(content));
    };
    if (path.includes("/running-calls"))
      return answer({ items: reads > 4 ? [] : [{ id: idOf(7), tool: "say", state: "running", startedAt: 7 }] });
    if (path.endsWith("/events")) {
      response.writeHead(200, { "content-type": "text/event-stream" });
      const result = JSON.stringify(endedCall(7));
      response.end(`id: 0\nevent: log\ndata: {"message":"line 7"}\n\nid: 1\nevent: result\ndata: ${result}\n\n`);
      return;
    }
    if (!path.includes(idOf(7))) return answer({ items: reads > 4 ? [endedCall(7)] : [], next: null });
    reads += 1;
    return reads > 4 ? answer(endedCall(7)) : answer({ error: { code: "RATE_LIMITED", message: "Not now" } }, 429);
  });
  const logs = start(url, ["logs", "say", "--tenant", "acme", "--follow"]);
  await expect.poll(() => logs.stdout, { timeout: 60_000 }).toContain("line 7");
  expect(logs.stdout.match(/line 7/g)).toHaveLength(1);
});

test.for([
  ["tools"],
  ["fleet"],
  ["call", "say"],
  ["call", "say", "--async"],
  ["rehearse", "say", "--version", "1"],
  ["runs", "start", "say"],
  ["approvals"],
  ["secrets", "list"],
  ["logs", "say"],
])("Ctrl-C ends a request that has no response: %s", async (args) => {
  const { promise: arrived, resolve } = Promise.withResolvers<void>();
  const url = await serve(() => resolve());
  const command = start(url, args[0] === "fleet" ? args : [...args, "--tenant", "acme"]);
  await arrived;
  command.stop();
  expect(await command.ended).toBe(130);
  expect([command.stdout, command.stderr]).toEqual(["", ""]);
});

test("logs takes the name of a tool that begins as an id", async () => {
  const paths: (string | undefined)[] = [];
  const url = await serve((request, response) => {
    paths.push(request.url);
    response.writeHead(200, { "content-type": "application/json" });
    response.end(
      JSON.stringify(request.url?.includes("call_0") ? endedCall(1) : { items: [endedCall(1)], next: null }),
    );
  });
  const logs = start(url, ["logs", "call_customer", "--tenant", "acme"]);
  expect(await logs.ended).toBe(0);
  expect(paths[0]).toContain("tool=call_customer");
  expect(logs.stdout).toContain("line 1");
});

test.for([
  [["call", "say", "--tenant", ".."], 'The name ".." cannot be part of a path'],
  [["call", ".", "--tenant", "acme"], 'The name "." cannot be part of a path'],
  [["runs", "answer", "call_1", "1", "--tenant", "acme"], "runs answer: expected --input JSON"],
] as const)("an argument that no request can carry is a usage error: %s", async ([args, message]) => {
  const requests: (string | undefined)[] = [];
  const url = await serve((request, response) => {
    requests.push(request.url);
    response.end();
  });
  const command = start(url, args);
  expect(await command.ended).toBe(2);
  expect(command.stderr).toContain(message);
  expect(requests).toEqual([]);
});

test("runs decline says that no answer is given", async () => {
  const bodies: string[] = [];
  const run = { id: idOf(1), tool: "say", state: "succeeded", waits: [], output: 1, error: null };
  const url = await serve((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (text: string) => {
      body += text;
    });
    request.on("end", () => {
      bodies.push(`${request.url?.split("/").slice(-2).join("/")} ${body}`);
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(run));
    });
  });
  const declined = start(url, ["runs", "decline", idOf(1), "2", "--tenant", "acme"]);
  expect([await declined.ended, declined.stderr]).toEqual([0, ""]);
  expect(bodies).toEqual([expect.stringContaining('"action":"decline"')]);
});

test("rejects a URL with a password, and does not print it", async () => {
  const url = "http://user:hunter2@127.0.0.1:1";
  const { io, written } = createTestIo();
  const env = { GLOVEBOX_URL: url, GLOVEBOX_API_KEY: KEY };
  expect(await runCli(["tools", "--tenant", "acme"], { ...io, env })).toBe(2);
  expect(await runCli(["login", url], { ...io, env })).toBe(2);
  expect(written.stderr).toContain("GLOVEBOX_URL: expected a URL without a user name and password");
  expect(written.stderr).toContain("URL: expected a URL without a user name and password");
  expect(written.stderr).not.toContain("hunter2");
});

/** `script` of util-linux runs a command in a pseudo-terminal. Other systems have another program of this name, or none. */
const hasScript = process.platform === "linux" && existsSync("/usr/bin/script");

test.skipIf(!hasScript)("a secret that is typed at a prompt is not shown, and keeps its spaces", async () => {
  const bodies: unknown[] = [];
  const url = await serve((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (text: string) => {
      body += text;
    });
    request.on("end", () => {
      bodies.push(JSON.parse(body));
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ name: "token", hosts: ["example.com"] }));
    });
  });
  const runInTerminal = (): {
    readonly type: (text: string) => void;
    readonly code: Promise<number>;
    shown: string;
  } => {
    const command = `"${process.execPath}" "${MAIN}" secrets set token --allow-host example.com --tenant acme`;
    const child = spawn("/usr/bin/script", ["-qec", command, "/dev/null"], {
      env: { PATH: process.env.PATH, HOME: "/nowhere", GLOVEBOX_URL: url, GLOVEBOX_API_KEY: KEY },
    });
    onTestFinished(() => {
      child.kill("SIGKILL");
    });
    const run = {
      type: (text: string) => child.stdin.write(text),
      code: new Promise<number>((resolve) => child.on("exit", (code) => resolve(code ?? -1))),
      shown: "",
    };
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      run.shown += text;
    });
    return run;
  };
  const typed = runInTerminal();
  await expect.poll(() => typed.shown, { timeout: 60_000 }).toContain("Value: ");
  typed.type("hunterX\u007f2 \r");
  expect(await typed.code).toBe(0);
  expect(bodies).toEqual([{ value: "hunter2 ", hosts: ["example.com"] }]);
  expect(typed.shown).not.toContain("hunter");
  expect(typed.shown).toContain("Set token for example.com");
  const stopped = runInTerminal();
  await expect.poll(() => stopped.shown, { timeout: 60_000 }).toContain("Value: ");
  stopped.type("hunter2\u0003");
  expect(await stopped.code).toBe(130);
  expect(bodies).toHaveLength(1);
  expect(stopped.shown).not.toContain("hunter");
});
