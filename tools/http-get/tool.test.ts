// http-get, in the sandbox, against a real server: what a body is returned as, and what the host's rules reject.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type OpenedTool, openTool } from "glovebox/testing";
import { afterAll, beforeAll, expect, test } from "vitest";

interface Got {
  readonly status: number;
  readonly url: string;
  readonly body: unknown;
  readonly bodyType: string;
  readonly bytes: number;
  readonly truncated: boolean;
  readonly headers: { readonly [name: string]: string };
}

const PAGES: { readonly [path: string]: readonly [type: string | undefined, body: string | Buffer] } = {
  "/json": ["application/json; charset=utf-8", '{"a":[1]}'],
  "/problem": ["application/problem+json", '{"title":"x"}'],
  "/lie": ["application/json", "<html>"],
  "/text": ["text/plain", "häh"],
  "/latin1": ["text/html; charset=iso-8859-1", Buffer.from("h\xe4h", "latin1")],
  "/odd-charset": ["text/plain; charset=klingon", "plain"],
  "/untyped": [undefined, "no type"],
  "/png": ["image/png", Buffer.from([137, 80, 78, 71, 0, 255])],
  "/long": ["text/plain", "x".repeat(5_000)],
};

let server: Server;
let origin: string;
let tool: OpenedTool;

function answer(request: IncomingMessage, response: ServerResponse): void {
  const path = request.url ?? "";
  if (path === "/redirect") response.writeHead(302, { location: "/json" }).end();
  else if (path === "/echo") response.setHeader("set-cookie", "a=b").end(String(request.headers["x-given"]));
  else if (path === "/gone") response.destroy();
  else if (path === "/not-gzip") response.setHeader("content-encoding", "gzip").end("plain");
  else if (path in PAGES) {
    const [type, body] = PAGES[path] as (typeof PAGES)[string];
    if (type !== undefined) response.setHeader("content-type", type);
    response.end(body);
  } else response.writeHead(404, { "content-type": "application/json" }).end('{"error":"none"}');
}

beforeAll(async () => {
  server = createServer(answer);
  await new Promise<void>((listening) => {
    server.listen(0, "127.0.0.1", listening);
  });
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  tool = await openTool(import.meta.dirname, {
    grant: ["fetch"],
    host: { egress: { allow: [{ to: origin, addresses: ["127.0.0.1/32"] }] } },
  });
});
afterAll(async () => {
  await tool[Symbol.asyncDispose]();
  server.close();
});

const get = (path: string, more: object = {}): Promise<Got> => tool.output<Got>({ url: origin + path, ...more });

test.for<[string, object, unknown, string]>([
  ["/json", {}, { a: [1] }, "json"],
  ["/problem", {}, { title: "x" }, "json"],
  ["/json", { as: "text" }, '{"a":[1]}', "text"],
  ["/lie", {}, "<html>", "text"],
  ["/text", {}, "häh", "text"],
  ["/latin1", {}, "häh", "text"],
  ["/odd-charset", {}, "plain", "text"],
  ["/untyped", {}, "no type", "text"],
  ["/png", {}, Buffer.from([137, 80, 78, 71, 0, 255]).toString("base64"), "base64"],
  ["/text", { as: "base64" }, Buffer.from("häh").toString("base64"), "base64"],
])("%s with %j", async ([path, more, body, bodyType]) => {
  expect(await get(path, more)).toMatchObject({ status: 200, body, bodyType, truncated: false });
});

test("a status of failure is an answer", async () => {
  expect(await get("/nowhere")).toMatchObject({ status: 404, ok: false, body: { error: "none" } });
});

test("redirects are followed, and the answer says where it came from", async () => {
  expect(await get("/redirect")).toMatchObject({ body: { a: [1] }, url: `${origin}/json` });
});

test("headers go along; cookies do not come back", async () => {
  const { body, headers } = await get("/echo", { headers: { "x-given": "yes" } });
  expect([body, headers["set-cookie"]]).toEqual(["yes", undefined]);
});

test("a body past maxBytes is cut, and says so; half a JSON is text", async () => {
  expect(await get("/long", { maxBytes: 100 })).toMatchObject({ body: "x".repeat(100), bytes: 100, truncated: true });
  expect(await get("/json", { maxBytes: 5 })).toMatchObject({ body: '{"a":', bodyType: "text", truncated: true });
  expect(await tool.failure({ url: `${origin}/json`, as: "json", maxBytes: 5 })).toMatch(
    /TOOL_FAILED: .*Raise maxBytes/,
  );
});

test.for([
  ["http://169.254.169.254/latest/", /^CAPABILITY_DENIED: .*"allow"/],
  ["https://example.com/", /^CAPABILITY_DENIED: .*"allow"/],
  ["file:///etc/passwd", /^PARAM_INVALID: .*\/url/],
  ["not a url", /^PARAM_INVALID: .*\/url/],
] as const)("%s is rejected", async ([url, failure]) => {
  expect(await tool.failure({ url })).toMatch(failure);
});

test.for([
  ["/gone", "connection closed before the response was complete"],
  ["/not-gzip", "the response body does not match its content-encoding"],
] as const)("%s fails, and says why", async ([path, why]) => {
  expect(await tool.failure({ url: origin + path })).toMatch(new RegExp(`^TOOL_FAILED: .*${why}`));
});
