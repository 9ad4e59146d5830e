// Tests host callbacks of the MCP server that fail or return invalid values, in a real process behind @hono/node-server. The process stays
// alive, and only a valid answer admits a request.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FAILING_CALLBACKS } from "../../support/failing-callbacks.ts";
import { AUTH_ANSWERS, METADATA_ANSWERS } from "../../support/mcp-auth-answers.ts";

const SCRIPT = fileURLToPath(new URL("../../support/mcp-handler-script.ts", import.meta.url));
const ACCEPT = "application/json, text/event-stream";
const INITIALIZE = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "raw", version: "1" } };
const MODERN = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientInfo": { name: "raw", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {},
};

let child: ChildProcess;
let port = 0;
let stderr = "";
beforeAll(async () => {
  child = spawn(process.execPath, [SCRIPT], { stdio: ["ignore", "pipe", "pipe"] });
  child.stderr?.on("data", (text: Buffer) => {
    stderr += text;
  });
  const [line] = (await once(child.stdout as NodeJS.ReadableStream, "data")) as [Buffer];
  port = Number(line);
});
afterAll(async () => {
  child.kill("SIGKILL");
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
});

const urlOf = (path: string): string => `http://127.0.0.1:${port}/${path}`;
const post = (path: string, body: string, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(urlOf(path), {
    method: "POST",
    body,
    headers: { "content-type": "application/json", accept: ACCEPT, ...headers },
  });
const rpc = (method: string, params: object): string => JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
const initialize = (path: string, headers?: Record<string, string>): Promise<Response> =>
  post(path, rpc("initialize", INITIALIZE), headers);
const callCount = (path: string): Promise<Response> =>
  post(path, rpc("tools/call", { name: "count", arguments: {}, _meta: MODERN }), {
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
    "mcp-name": "count",
  });
const callsRun = async (): Promise<number> => (await (await fetch(urlOf("ran"))).json()) as number;

/** Asserts that the process is alive and answers. If not, its stderr shows the reason. */
async function expectAlive(): Promise<void> {
  expect(child.exitCode, stderr).toBeNull();
  const response = await initialize("ok/0");
  expect(response.status, stderr).toBe(200);
  await response.text();
}

describe("authenticate()", () => {
  const cases = AUTH_ANSWERS.map(([name, , status], index) => [name, status, index] as const);
  test.for(cases)("%s is answered with %i", async ([, status, index]) => {
    const before = await callsRun();
    const legacy = await initialize(`answers/${index}`);
    const call = await callCount(`answers/${index}`);
    expect([legacy.status, call.status], stderr).toEqual([status, status]);
    expect(legacy.headers.has("mcp-session-id")).toBe(status === 200);
    expect(await callsRun()).toBe(before + (status === 200 ? 1 : 0));
    await Promise.all([legacy.text(), call.text()]);
  });

  test("the denial of an upstream server is passed on with its headers and body", async () => {
    const index = AUTH_ANSWERS.findIndex(([name]) => name === "the Response of the global fetch()");
    const response = await initialize(`answers/${index}`);
    expect(await response.json()).toEqual({ status: "401" });
  });
});

describe("serveMetadata()", () => {
  const cases = METADATA_ANSWERS.map(([name, , status], index) => [name, status, index] as const);
  test.for(cases)("%s is answered with %i", async ([, status, index]) => {
    const response = await callCount(`metadata/${index}`);
    expect(response.status, stderr).toBe(status);
    await response.text();
  });
});

const FORGED = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJodHRwOi8vMTI3LjAuMC4xOjEifQ.AA";

describe.for([
  ["onError", 403],
  ["forged", 503],
  ["verify", 503],
  ["tenantOf", 403],
  ["authenticate", 500],
  ["serveMetadata", 500],
  ["register", 500],
  ["listeners", 200],
] as const)("a server whose %s fails", ([name, status]) => {
  const cases = FAILING_CALLBACKS.map(([how], index) => [how, index] as const);
  test.for(cases)("a server whose function %s stays alive and denies the request", async ([, index]) => {
    for (let count = 0; count < 2; count += 1) {
      const response = await initialize(`${name}/${index}`, { authorization: `Bearer ${FORGED}` });
      expect(response.status, stderr).toBe(status);
      expect(await response.text()).not.toContain("from the host");
    }
    // Not JSON-RPC: errors of the transport go to listeners.
    await (await post(`${name}/${index}`, '{"jsonrpc":"1.0"}')).text();
    expect((await fetch(urlOf(`${name}/${index}`), { method: "PATCH" })).status).toBe(204);
    await expectAlive();
  });
});

test("an aborted body leaves a server with a failing onError alive", async () => {
  for (const index of FAILING_CALLBACKS.keys()) {
    const path = `/listeners/${index}`;
    const headers = { "content-type": "application/json", accept: ACCEPT, "content-length": 1_000 };
    const sent = httpRequest({ port, host: "127.0.0.1", path, method: "POST", headers });
    sent.on("error", () => {});
    await new Promise((resolve) => sent.write("{", resolve));
    sent.destroy();
  }
  await expectAlive();
});
