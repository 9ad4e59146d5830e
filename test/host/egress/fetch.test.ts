// fetch, against real servers: what is sent, what comes back, and that nothing of a call is left when it is over.
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { type AddressInfo, createServer as createTcpServer } from "node:net";
import { buffer, text } from "node:stream/consumers";
import { setTimeout as pause } from "node:timers/promises";
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { EgressOptions } from "../../../src/host/capabilities/fetch/egress-policy.ts";
import { onLoopback, rejectionOf, serve, TestCall, type TestServer } from "../../support/egress.ts";

const callTo = (server: TestServer, options: Partial<EgressOptions> = {}): TestCall =>
  new TestCall({ allow: onLoopback(`127.0.0.1:${server.port}`), ...options });

const echo = async (request: IncomingMessage): Promise<string> =>
  JSON.stringify({
    method: request.method,
    url: request.url,
    headers: request.headers,
    body: await text(request),
  });
const serveEcho = (): Promise<TestServer> =>
  serve(async (request, response) => response.setHeader("x-served", "yes").end(await echo(request)));

/** Number of sockets of this process that are open or connecting. */
const openSockets = (): number =>
  process.getActiveResourcesInfo().filter((name) => /TCPSocketWrap|TCPConnectWrap|TLSWrap/.test(name)).length;

describe("a request", () => {
  test("is sent as the tool created it, with the host's headers", async () => {
    const server = await serveEcho();
    const answer = await callTo(server).fetch(`${server.origin}/path?q=1#hash`, {
      method: "post",
      headers: [
        ["X-One", "1"],
        ["x-one", "2"],
        ["Content-Type", "text/plain"],
      ],
      body: "héllo",
    });
    expect(answer).toMatchObject({ status: 200, statusText: "OK", redirected: false, hasBody: true });
    expect(answer.url).toBe(`${server.origin}/path?q=1`);
    expect(answer.headers).toContainEqual(["x-served", "yes"]);
    const seen = JSON.parse(answer.text);
    expect(seen).toMatchObject({ method: "POST", url: "/path?q=1", body: "héllo" });
    expect(seen.headers).toMatchObject({
      host: `127.0.0.1:${server.port}`,
      "x-one": "1, 2",
      "content-length": "6",
      accept: "*/*",
      "user-agent": "glovebox",
    });
  });

  test.for(["/path", "/path?", "/path?#hash", "/path?q=1?", "/?"])(
    "sends the path and query %s as they are",
    async (path) => {
      const server = await serveEcho();
      const answer = await callTo(server).fetch(`${server.origin}${path}`);
      expect(JSON.parse(answer.text)).toMatchObject({ url: path.replace("#hash", "") });
    },
  );

  test("uses no proxy of the environment, and stores no cookies", async () => {
    const server = await serve((request, response) => {
      response.setHeader("set-cookie", "session=1").end(request.headers.cookie ?? "none");
    });
    for (const name of ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "NODE_USE_ENV_PROXY"])
      vi.stubEnv(name, "http://127.0.0.1:9");
    onTestFinished(() => void vi.unstubAllEnvs());
    const call = callTo(server);
    expect((await call.fetch(server.origin)).text).toBe("none");
    const again = await call.fetch(server.origin);
    expect([again.text, again.headers.some(([name]) => name === "set-cookie")]).toEqual(["none", true]);
  });

  test("reuses a connection to the same origin within its call, and not in another call", async () => {
    const server = await serveEcho();
    let connections = 0;
    server.server.on("connection", () => (connections += 1));
    const first = callTo(server);
    await first.fetch(server.origin);
    await first.fetch(server.origin);
    expect(connections).toBe(1);
    await callTo(server).fetch(server.origin);
    expect(connections).toBe(2);
  });

  test("streams its body, with back-pressure", async () => {
    const begun = Promise.withResolvers<IncomingMessage>();
    const server = await serve(async (request, response) => {
      begun.resolve(request);
      await once(server.server, "go");
      response.end(String((await buffer(request)).length));
    });
    const call = callTo(server);
    const head = call.request(`${server.origin}/`, { id: 7, method: "PUT", body: "stream" });
    await call.write(7, "x");
    await begun.promise;
    const part = Buffer.alloc(256 * 1024);
    let written = 1;
    let isWaiting = false;
    const writing = (async () => {
      for (let index = 0; index < 40; index += 1) {
        isWaiting = true;
        await call.write(7, part);
        isWaiting = false;
        written += part.length;
      }
    })();
    await pause(300);
    expect([isWaiting, written < 9_000_000]).toEqual([true, true]);
    server.server.emit("go");
    await writing;
    await call.end(7);
    expect((await head).status).toBe(200);
    expect(await call.body(7)).toBe(String(1 + 40 * part.length));
  });

  test("leaves a response's body in the network until it is read", async () => {
    let sent = 0;
    const server = await serve(async (_request, response) => {
      for (let index = 0; index < 400 && !response.destroyed; index += 1) {
        sent += 256 * 1024;
        if (!response.write(Buffer.alloc(256 * 1024))) await once(response, "drain").catch(() => {});
      }
      response.end();
    });
    server.server.on("error", () => {});
    const call = callTo(server, { responseBytes: 1024 ** 3 });
    await call.request(server.origin, { id: 1 });
    await pause(300);
    expect(sent).toBeLessThan(30_000_000);
    await call.cancel(1);
  });

  test.for<[string, RegExp]>([
    ["GET", /method GET must not have a body/],
    ["HEAD", /method HEAD must not have a body/],
  ])("a request with the method %s has no body", async ([method, message]) => {
    const server = await serveEcho();
    const rejection = await rejectionOf(callTo(server).request(server.origin, { method, body: "x" }));
    expect(rejection).toEqual({ code: "PARAM_INVALID", message: expect.stringMatching(message) });
  });

  test.for<[string, object]>([
    ["no URL", { url: "/path" }],
    ["no base64", { body: { base64: "%%" }, method: "POST" }],
    ["a number twice", { id: 0 }],
    ["another word", { more: 1 }],
    ["an invalid method", { method: 5 }],
  ])("a request that is malformed is PARAM_INVALID: %s", async ([, fields]) => {
    const server = await serveEcho();
    const call = callTo(server);
    const whole = {
      op: "request",
      id: 1,
      method: "GET",
      url: server.origin,
      headers: [],
      body: null,
      redirect: "follow",
    };
    await call.fetch(server.origin, { id: 0 });
    expect((await rejectionOf(call.ask("fetch", { ...whole, ...fields }))).code).toBe("PARAM_INVALID");
  });

  test("reading a request with an unknown id is PARAM_INVALID, cancelling it has no effect", async () => {
    const call = callTo(await serveEcho());
    for (const op of ["read", "end"])
      expect((await rejectionOf(call.ask("fetch", { op, id: 5 }))).code).toBe("PARAM_INVALID");
    expect(await call.cancel(5)).toBe(null);
  });
});

const CODED: readonly (readonly [string, string, (text: string) => Buffer])[] = [
  ["gzip", "gzip", (plain) => gzipSync(plain)],
  ["x-gzip", "x-gzip", (plain) => gzipSync(plain)],
  ["deflate with a header", "deflate", (plain) => deflateSync(plain)],
  ["deflate without", "deflate", (plain) => deflateRawSync(plain)],
  ["br", "br", (plain) => brotliCompressSync(plain)],
  ["zstd", "zstd", (plain) => zstdCompressSync(plain)],
  ["gzip of br", "br, gzip", (plain) => gzipSync(brotliCompressSync(plain))],
  ["identity", "identity", (plain) => Buffer.from(plain)],
  ["an unknown coding", "rot13", (plain) => Buffer.from(plain)],
];

describe("a response", () => {
  const plain = "A line that is encoded.\n".repeat(5_000);
  test.for(CODED)("is decoded: %s", async ([, coding, encode]) => {
    const server = await serve((_request, response) =>
      response.setHeader("content-encoding", coding).end(encode(plain)),
    );
    expect((await callTo(server).fetch(server.origin)).text).toBe(plain);
  });

  test.for(CODED.slice(0, 7))("a response that is a bomb is cut off: %s", async ([, coding, encode]) => {
    const bomb = encode("0".repeat(3_000_000));
    const server = await serve((_request, response) => response.setHeader("content-encoding", coding).end(bomb));
    const call = callTo(server, { responseBytes: 1_000_000 });
    const rejection = await rejectionOf(call.fetch(server.origin, { id: 3 }));
    expect(rejection).toEqual({
      code: "QUOTA_EXCEEDED",
      message: "The response's body has more than 1000000 bytes (egress.responseBytes)",
    });
    expect((await rejectionOf(call.read(3))).code).toBe("QUOTA_EXCEEDED");
    await vi.waitFor(() => expect(server.open()).toBe(0));
  });

  test.for<[string, string]>([
    ["gzip", "not gzip at all"],
    ["br", "not brotli at all"],
    ["zstd", "not zstd at all"],
  ])("a response that does not match its content-encoding is TOOL_FAILED: %s", async ([coding, body]) => {
    const server = await serve((_request, response) => response.setHeader("content-encoding", coding).end(body));
    const rejection = await rejectionOf(callTo(server).fetch(server.origin));
    expect(rejection).toMatchObject({ code: "TOOL_FAILED", message: expect.stringContaining("content-encoding") });
  });

  test("encoded six times is rejected", async () => {
    const server = await serve((_request, response) =>
      response.setHeader("content-encoding", "gzip,".repeat(6)).end("x"),
    );
    expect((await rejectionOf(callTo(server).fetch(server.origin))).code).toBe("QUOTA_EXCEEDED");
  });

  test.for<[string, number]>([
    ["HEAD", 200],
    ["GET", 204],
    ["GET", 304],
  ])("a response to %s with %i has no body", async ([method, status]) => {
    const server = await serve((_request, response) => {
      response.writeHead(status, { "x-status": status }).end();
    });
    const call = callTo(server);
    expect(await call.request(server.origin, { method, id: 1 })).toMatchObject({ status, hasBody: false });
    expect(await call.read(1)).toBeUndefined();
  });

  test("a response with 205 has no body, and its connection is not used again, because the server can send one", async () => {
    let closed = 0;
    const server = await serve((request, response) => {
      if (request.url === "/next") return void response.end("next");
      request.socket.once("close", () => {
        closed += 1;
      });
      request.socket.write("HTTP/1.1 205 Reset Content\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n");
    });
    const call = callTo(server);
    expect(await call.request(server.origin, { id: 1 })).toMatchObject({ status: 205, hasBody: false });
    expect((await call.fetch(`${server.origin}/next`)).text).toBe("next");
    await expect.poll(() => closed).toBe(1);
  });

  test("a response whose head is too large is QUOTA_EXCEEDED", async () => {
    const server = await serve((_request, response) => response.setHeader("x-long", "x".repeat(40_000)).end("ok"));
    expect((await rejectionOf(callTo(server).fetch(server.origin))).code).toBe("QUOTA_EXCEEDED");
  });

  test("a response whose content-length is too long is rejected before it is read", async () => {
    const server = await serve((_request, response) => response.setHeader("content-length", "5000000").write("x"));
    const rejection = await rejectionOf(callTo(server, { responseBytes: 1_000 }).request(server.origin));
    expect(rejection.code).toBe("QUOTA_EXCEEDED");
  });

  test("is passed on in parts of at most 256 KiB, as they arrive", async () => {
    const server = await serve((_request, response) => {
      response.write("first");
      server.server.once("go", () => response.end(Buffer.alloc(900_000)));
    });
    const call = callTo(server);
    await call.request(server.origin, { id: 1 });
    expect(String(await call.read(1))).toBe("first");
    server.server.emit("go");
    const sizes: number[] = [];
    for (let part = await call.read(1); part !== undefined; part = await call.read(1)) sizes.push(part.length);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(900_000);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(256 * 1024);
    expect(await call.read(1)).toBeUndefined();
  });
});

describe("limits", () => {
  test("requestBytes limits bodies that are sent whole, and in parts", async () => {
    const server = await serveEcho();
    const call = callTo(server, { requestBytes: 10 });
    const whole = await rejectionOf(call.request(server.origin, { method: "POST", body: "x".repeat(11) }));
    expect(whole.code).toBe("QUOTA_EXCEEDED");
    const head = rejectionOf(call.request(server.origin, { id: 9, method: "POST", body: "stream" }));
    await call.write(9, "x".repeat(10));
    expect((await rejectionOf(call.write(9, "x"))).code).toBe("QUOTA_EXCEEDED");
    expect((await head).code).toBe("QUOTA_EXCEEDED");
    expect((await rejectionOf(call.end(9))).code).toBe("QUOTA_EXCEEDED");
  });

  test("open exchanges: each must be read or cancelled", async () => {
    const server = await serve((_request, response) => response.write("never ends"));
    const call = callTo(server);
    await Promise.all(Array.from({ length: 50 }, (_, id) => call.request(server.origin, { id })));
    expect(await rejectionOf(call.request(server.origin, { id: 50 }))).toMatchObject({ code: "QUOTA_EXCEEDED" });
    await call.cancel(17);
    expect((await call.request(server.origin, { id: 51 })).status).toBe(200);
  });

  test("timeoutMs ends an exchange wherever it is: before the head, in the body, while the tool sends", async () => {
    const server = await serve((request, response) => {
      if (request.url === "/body") response.write("x");
    });
    const call = callTo(server, { timeoutMs: 200 });
    const late = { code: "TOOL_FAILED", message: "The exchange failed: timed out after 200 ms (egress.timeoutMs)" };
    expect(await rejectionOf(call.request(`${server.origin}/head`))).toMatchObject({ code: "TOOL_FAILED" });
    expect(await rejectionOf(call.fetch(`${server.origin}/body`))).toEqual(late);
    const head = rejectionOf(call.request(`${server.origin}/send`, { id: 80, method: "POST", body: "stream" }));
    expect((await head).code).toBe("TOOL_FAILED");
    await vi.waitFor(() => expect(server.open()).toBe(0));
  });
});

describe("redirects", () => {
  const serveRedirect = (status: number, location: (server: TestServer) => string): Promise<TestServer> => {
    const serving: Promise<TestServer> = serve(async (request, response) => {
      const server = await serving;
      if (request.url === "/start") response.writeHead(status, { location: location(server) }).end();
      else response.end(await echo(request));
    });
    return serving;
  };

  test.for<[number, string, string, string]>([
    [301, "POST", "GET", ""],
    [302, "POST", "GET", ""],
    [303, "POST", "GET", ""],
    [303, "PUT", "GET", ""],
    [301, "PUT", "PUT", "body"],
    [307, "POST", "POST", "body"],
    [308, "POST", "POST", "body"],
  ])("%i makes %s a %s", async ([status, method, becomes, body]) => {
    const server = await serveRedirect(status, () => "/next");
    const answer = await callTo(server).fetch(`${server.origin}/start`, {
      method,
      body: "body",
      headers: [
        ["content-type", "text/plain"],
        ["authorization", "Bearer mine"],
      ],
    });
    expect(answer).toMatchObject({ status: 200, redirected: true, url: `${server.origin}/next` });
    const seen = JSON.parse(answer.text);
    expect(seen).toMatchObject({ method: becomes, body, headers: { authorization: "Bearer mine" } });
    expect(seen.headers["content-type"]).toBe(body === "" ? undefined : "text/plain");
  });

  test("a redirect to another origin leaves Authorization and cookies behind", async () => {
    const other = await serveEcho();
    const server = await serveRedirect(307, () => `${other.origin}/there`);
    const call = callTo(server, { allow: onLoopback(server.origin, other.origin) });
    const headers = [
      ["authorization", "Bearer mine"],
      ["cookie", "a=1"],
      ["x-mine", "stays"],
    ] as const;
    const seen = JSON.parse((await call.fetch(`${server.origin}/start`, { headers })).text);
    expect(seen.headers).toMatchObject({ "x-mine": "stays" });
    expect([seen.headers.authorization, seen.headers.cookie]).toEqual([undefined, undefined]);
  });

  test("are not followed with `manual`, and fail with `error`", async () => {
    const server = await serveRedirect(302, () => "/next");
    const call = callTo(server);
    const answer = await call.fetch(`${server.origin}/start`, { redirect: "manual" });
    expect([answer.status, answer.redirected]).toEqual([302, false]);
    expect((await rejectionOf(call.fetch(`${server.origin}/start`, { redirect: "error" }))).code).toBe("TOOL_FAILED");
  });

  test("counts redirects", async () => {
    const server = await serveRedirect(302, () => "/start");
    const rejection = await rejectionOf(callTo(server, { maxRedirects: 3 }).fetch(`${server.origin}/start`));
    expect(rejection).toEqual({
      code: "CAPABILITY_DENIED",
      message:
        'Denied by the rule "redirect" of the egress policy: the request was redirected more than 3 times (egress.maxRedirects)',
    });
    expect(server.requests).toHaveLength(4);
  });

  test("a redirect of a streamed body cannot be followed, unless it drops the body", async () => {
    for (const [status, outcome] of [
      [307, "TOOL_FAILED"],
      [303, 200],
    ] as const) {
      const server = await serveRedirect(status, () => "/next");
      const call = callTo(server);
      const head = call.request(`${server.origin}/start`, { id: 1, method: "POST", body: "stream" });
      const ended = head.then(
        ({ status: code }) => code,
        ({ code }) => code,
      );
      await call
        .write(1, "x")
        .then(() => call.end(1))
        .catch(() => {});
      expect(await ended).toBe(outcome);
    }
  });
});

describe("a network that fails", () => {
  test("is TOOL_FAILED without an address: connection refused, reset, not HTTP, cut short", async () => {
    const answers: Record<string, string> = {
      garbage: "this is no HTTP\r\n\r\n",
      short: "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf",
      nothing: "",
    };
    for (const [name, bytes] of Object.entries(answers)) {
      const tcp = createTcpServer((socket) => socket.on("error", () => {}).once("data", () => socket.end(bytes)));
      await new Promise<void>((resolve) => tcp.listen(0, "127.0.0.1", resolve));
      const { port } = tcp.address() as AddressInfo;
      const call = new TestCall({ allow: onLoopback(`127.0.0.1:${port}`) });
      const rejection = await rejectionOf(call.fetch(`http://127.0.0.1:${port}/`));
      expect([name, rejection.code, rejection.message.includes("127.0.0.1")]).toEqual([name, "TOOL_FAILED", false]);
      await new Promise((resolve) => tcp.close(resolve));
      const gone = await rejectionOf(call.fetch(`http://127.0.0.1:${port}/`, { id: 99 }));
      expect(gone).toEqual({ code: "TOOL_FAILED", message: "The exchange failed: connection refused" });
    }
  });

  test("is TOOL_FAILED when a name has no address, or its resolver fails or never answers", async () => {
    const resolvers: EgressOptions["resolve"][] = [
      () => [],
      () => Promise.reject(new Error("connect 10.0.0.53:53")),
      () => new Promise(() => {}),
      () => "127.0.0.1" as never,
    ];
    for (const resolve of resolvers) {
      const call = new TestCall({ allow: ["api.test"], timeoutMs: 150, ...(resolve === undefined ? {} : { resolve }) });
      const rejection = await rejectionOf(call.request("http://api.test/"));
      expect([rejection.code, rejection.message.includes("10.0.0.53")]).toEqual(["TOOL_FAILED", false]);
    }
  });
});

describe("the end of a call", () => {
  test("closes every socket: idle, in an exchange, or still connecting", async () => {
    // The process is shared with other test files, whose sockets may be open or closing.
    const before = openSockets();
    const server = await serve((request, response) => {
      if (request.url === "/idle") response.end("ok");
      if (request.url === "/body") response.write("x");
    });
    const call = callTo(server, {
      allow: [...onLoopback(`127.0.0.1:${server.port}`), { to: "192.0.2.1:81", addresses: ["192.0.2.1"] }],
    });
    await call.fetch(`${server.origin}/idle`);
    await call.request(`${server.origin}/body`);
    const pending = [
      rejectionOf(call.request(`${server.origin}/head`)),
      rejectionOf(call.request("http://192.0.2.1:81/")),
      rejectionOf(call.request(`${server.origin}/up`, { id: 70, method: "POST", body: "stream" })),
    ];
    await vi.waitFor(() => expect(server.open()).toBeGreaterThanOrEqual(3));
    call[Symbol.dispose]();
    // Whichever is noticed first: that the call is over, or that its connection is.
    for (const { code } of await Promise.all(pending)) expect(["CANCELLED", "TOOL_FAILED"]).toContain(code);
    await vi.waitFor(() => expect(server.open()).toBe(0));
    expect((await rejectionOf(call.request(server.origin))).code).toBe("CANCELLED");
    await vi.waitFor(() => expect(openSockets()).toBeLessThanOrEqual(before));
  });
});
