// Runs the programs of clients.ts in the sandbox and in Node against one server, and compares what they return and send. `node
// test/npm/http-clients.ts [NAME…]`, after `npm install --ignore-scripts` in this folder. Ends with 1 if one differs.
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import http, { type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { isDeepStrictEqual } from "node:util";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { createGlovebox } from "../../src/host/glovebox/create-glovebox.ts";
import { API_CLIENTS, CLIENTS } from "./clients.ts";

const TOOLS = join(import.meta.dirname, "node_modules", ".glovebox-http");
const LIMIT_MS = 120_000;

type Route = (request: IncomingMessage, response: ServerResponse) => unknown;
const ROUTES: { readonly [path: string]: Route } = {
  "/cut": (_request, response) => {
    response.write("part");
    setTimeout(() => response.destroy(), 30);
  },
  "/drop": (request) => request.socket.destroy(),
  "/hang": () => {},
  "/status/204": (_request, response) => response.writeHead(204).end(),
  "/status/404": (_request, response) => response.writeHead(404).end("status 404"),
  "/status/500": (_request, response) => response.writeHead(500).end("status 500"),
  "/gzip": (_request, response) => response.setHeader("content-encoding", "gzip").end(gzipSync("zipped")),
  "/brotli": (_request, response) =>
    response.setHeader("content-encoding", "br").end(brotliCompressSync("brotli text")),
  "/big": (_request, response) => response.end(Buffer.alloc(1_000_000, "a")),
  "/chunked": (_request, response) => {
    response.write("one,");
    setTimeout(() => response.end("two"), 20);
  },
  "/cookies": (_request, response) => response.setHeader("set-cookie", ["a=1; path=/", "b=2; path=/"]).end("{}"),
  "/redirect": (_request, response) => response.writeHead(302, { location: "/echo" }).end("moved"),
  "/echo": async (request, response) => {
    const { method, url, headers } = request;
    const body = await text(request);
    response.setHeader("content-type", "application/json").end(JSON.stringify({ method, url, headers, body }));
  },
};

/** Method, path and body of each request to the API. */
let requests: (readonly (string | undefined)[])[] = [];
async function answerApi(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { method, url = "" } = request;
  requests.push([method, url, await text(request)]);
  const [, status = "200"] = /\/status\/(\d+)/.exec(url) ?? [];
  response.writeHead(Number(status), { "content-type": "application/json" });
  response.end(JSON.stringify({ ok: true, method, object: "x", id: "1" }));
}

/** Stripe's client sends to the root of a server. */
const apiServer = http.createServer((request, response) => void answerApi(request, response));
await new Promise<void>((resolve) => apiServer.listen(0, "127.0.0.1", resolve));
const api = `http://127.0.0.1:${(apiServer.address() as AddressInfo).port}`;

const server = http.createServer((request, response) => {
  void ROUTES[new URL(request.url ?? "/", "http://localhost").pathname]?.(request, response);
});
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
const glovebox = await createGlovebox({
  kv: "memory",
  cache: false,
  bundler: { limits: { timeoutMs: LIMIT_MS } },
  limits: { timeoutMs: LIMIT_MS },
  egress: { allow: [origin, api].map((to) => ({ to, addresses: ["127.0.0.0/8"] })) },
});

/** Returns what is different; undefined if nothing is. */
async function compare(name: string, source: string): Promise<string | undefined> {
  const path = join(TOOLS, `${name.replace("/", "-")}.mjs`);
  writeFileSync(path, source);
  const { default: run } = (await import(path)) as { readonly default: (input: object) => Promise<unknown> };
  requests = [];
  const output: unknown = await run({ origin, api });
  const expected: unknown = JSON.parse(JSON.stringify({ output, requests }));
  const toolName = name.replaceAll(/\W/g, "_");
  await glovebox.addTool({ name: toolName, path }, { grant: ["fetch"] });
  requests = [];
  const result = await glovebox.execute({ id: name, toolName, arguments: { origin, api } });
  if (!result.success) return `${result.error.code}: ${result.error.message}`;
  const actual = { output: result.output, requests };
  if (isDeepStrictEqual(actual, expected)) return undefined;
  return `gives ${JSON.stringify(actual)}, in Node ${JSON.stringify(expected)}`;
}

const names = process.argv.slice(2);
mkdirSync(TOOLS, { recursive: true });
let failures = 0;
for (const [name, source] of [...CLIENTS, ...API_CLIENTS].filter(
  ([client]) => names.length === 0 || names.includes(client),
)) {
  const problem = await compare(name, source).catch((error: unknown) => String(error));
  if (problem !== undefined) failures += 1;
  console.log(`${name}: ${problem ?? "pass"}`);
}
rmSync(TOOLS, { recursive: true });
process.exit(failures === 0 ? 0 : 1);
