// Requests that Node's HTTP parser, or its adapter, rejects before the application sees them.
import { once } from "node:events";
import { createServer as createHttpServer, type RequestListener, type ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { answerUnparsed } from "../../../src/server/http/unparsed-requests.ts";
import { createServer, type Server } from "../../../src/server/index.ts";
import { TestStores } from "../support/stores.ts";

/** Sends bytes, and returns everything that the server sends until it ends the connection. */
async function exchange(port: number, text: string, then?: (socket: Socket) => void): Promise<string> {
  const socket = connect(port, "127.0.0.1").setEncoding("utf8");
  onTestFinished(() => void socket.destroy());
  let received = "";
  socket.on("data", (part: string) => {
    received += part;
  });
  socket.on("error", () => {});
  socket.write(text);
  then?.(socket);
  await once(socket, "close");
  return received;
}

interface Answer {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
}

/** Splits what a server has sent into its responses, each with a Content-Length. */
function toAnswers(received: string): readonly Answer[] {
  const answers: Answer[] = [];
  let rest = received;
  while (rest !== "") {
    const end = rest.indexOf("\r\n\r\n");
    const [line = "", ...lines] = rest.slice(0, end).split("\r\n");
    const headers = new Map(
      lines.map((one) => [one.slice(0, one.indexOf(":")).toLowerCase(), one.slice(one.indexOf(":") + 2)]),
    );
    const length = Number(headers.get("content-length"));
    if (end === -1 || Number.isNaN(length)) throw new Error(`Expected a response with a length, got ${rest}`);
    answers.push({ status: Number(line.split(" ")[1]), headers, body: rest.slice(end + 4, end + 4 + length) });
    rest = rest.slice(end + 4 + length);
  }
  return answers;
}

const HOST = "Host: 127.0.0.1\r\n";
const POST = `POST /v1/tenants HTTP/1.1\r\n${HOST}Content-Type: application/json\r\n`;

/** Requests, with the status and code of the response. */
const REJECTED = [
  ["text that is not HTTP", "GARBAGE\r\n\r\n", 400, "MALFORMED"],
  ["the start of TLS", "\u0016\u0003\u0001\u0001\u0000\r\n\r\n", 400, "MALFORMED"],
  ["HTTP/2 with prior knowledge", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "MALFORMED"],
  ["an unknown method", `FOO / HTTP/1.1\r\n${HOST}\r\n`, 400, "MALFORMED"],
  ["headers that are too large", `GET / HTTP/1.1\r\n${HOST}X: ${"a".repeat(20_000)}\r\n\r\n`, 431, "HEADERS_TOO_LARGE"],
  ["both lengths of a body", `${POST}Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}`, 400, "MALFORMED"],
  ["a chunk without a length", `${POST}Transfer-Encoding: chunked\r\n\r\nzz\r\n{}`, 400, "MALFORMED"],
  [
    "large extensions of a chunk",
    `${POST}Transfer-Encoding: chunked\r\n\r\n2;${"a".repeat(20_000)}\r\n`,
    413,
    "TOO_LARGE",
  ],
  ["an unknown expectation", `${POST}Expect: tea\r\nContent-Length: 2\r\n\r\n{}`, 417, "EXPECTATION_FAILED"],
  [
    "a request to a proxy",
    "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n",
    405,
    "METHOD_NOT_ALLOWED",
  ],
  ["no Host header", "GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n", 400, "MALFORMED"],
  ["an invalid Host header", "GET /healthz HTTP/1.1\r\nHost: [::1\r\nConnection: close\r\n\r\n", 400, "MALFORMED"],
  ["a backslash in the URL", `GET /a\\b HTTP/1.1\r\n${HOST}Connection: close\r\n\r\n`, 400, "MALFORMED"],
  ["a URL that is not a path", `OPTIONS * HTTP/1.1\r\n${HOST}Connection: close\r\n\r\n`, 400, "MALFORMED"],
] as const;

describe("a server", () => {
  const stores = new TestStores();
  let server: Server;
  let port: number;
  beforeAll(async () => {
    const { options } = await stores.create("sqlite");
    server = await createServer({ ...options, port: 0, logLevel: "silent" });
    port = Number(new URL(server.url).port);
  });
  afterAll(async () => {
    await server.close({ drainMs: 0 });
    await stores[Symbol.asyncDispose]();
  });

  test.for(REJECTED)("answers %s like every other error, and ends the connection", async ([, text, status, code]) => {
    const answers = toAnswers(await exchange(port, text));
    expect(answers.map((answer) => answer.status)).toEqual([status]);
    const { headers, body } = answers[0] as Answer;
    const requestId = headers.get("x-request-id");
    expect(requestId).toMatch(/^request_/);
    expect(JSON.parse(body)).toEqual({
      error: {
        code,
        message: expect.stringMatching(/^Expected /),
        docs: `docs/reference/errors/${code}.md`,
        requestId,
      },
    });
    expect(Object.fromEntries(headers)).toMatchObject({
      "content-type": "application/json",
      "cache-control": "no-store",
      "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
      "x-content-type-options": "nosniff",
      "x-frame-options": "DENY",
      connection: "close",
    });
  });
});

describe("a connection", () => {
  const LIMITS = { headersTimeout: 500, requestTimeout: 1_000, maxHeaderSize: 16_384 };
  /** Starts a server with the handler, and returns its port. */
  async function listen(handler: RequestListener): Promise<number> {
    const server = createHttpServer({ ...LIMITS, connectionsCheckingInterval: 50 }, handler);
    answerUnparsed(server, LIMITS);
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    onTestFinished(() => {
      server.close();
      server.closeAllConnections();
    });
    return (server.address() as AddressInfo).port;
  }
  const first = `POST /first HTTP/1.1\r\n${HOST}Content-Length: 2\r\n\r\n{}`;
  const summary = (received: string) => toAnswers(received).map(({ status, body }) => [status, body.slice(0, 26)]);

  test("gets the responses to all complete requests before the one to what follows them", async () => {
    const waiting: ServerResponse[] = [];
    const port = await listen((_request, response) => waiting.push(response));
    const received = exchange(port, `${first}${first}GARBAGE\r\n\r\n`, async (socket) => {
      await vi.waitFor(() => expect(waiting).toHaveLength(2), { timeout: 60_000 });
      // What follows is read, and has no second response.
      socket.write("MORE\r\n\r\n");
      waiting[1]?.writeHead(201, { "content-length": "6" }).end("second");
      waiting[0]?.writeHead(200, { "content-length": "5" }).end("first");
    });
    expect(summary(await received)).toEqual([
      [200, "first"],
      [201, "second"],
      [400, '{"error":{"code":"MALFORMED"'.slice(0, 26)],
    ]);
  });

  test("gets the responses to complete requests before the one to a body that is malformed", async () => {
    const waiting: ServerResponse[] = [];
    const port = await listen((request, response) => {
      request.resume().on("error", () => {});
      waiting.push(response);
    });
    const chunked = `POST /second HTTP/1.1\r\n${HOST}Transfer-Encoding: chunked\r\n\r\nzz\r\n`;
    const received = exchange(port, `${first}${chunked}`, async () => {
      await vi.waitFor(() => expect(waiting).toHaveLength(2), { timeout: 60_000 });
      waiting[0]?.writeHead(200, { "content-length": "5" }).end("first");
    });
    expect((await summary(await received)).map(([status]) => status)).toEqual([200, 400]);
  });

  test("ends without a second response if one to the malformed request has begun", async () => {
    const port = await listen((request, response) => {
      request.resume().on("error", () => {});
      response.writeHead(200, { "content-length": "100" }).write("half");
    });
    const received = await exchange(
      port,
      `POST / HTTP/1.1\r\n${HOST}Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n`,
      (socket) => socket.once("data", () => socket.write("zz\r\n")),
    );
    expect(received.match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 200"]);
    expect(received.endsWith("half")).toBe(true);
  });

  test.for([
    ["without a body", ""],
    ["with a body", "Content-Length: 2\r\n"],
  ] as const)("ends, with its open responses, on a request to a proxy %s", async ([, header]) => {
    const closed: string[] = [];
    const port = await listen(({ url = "" }, response) => {
      response.on("close", () => closed.push(url));
      // Ends after an earlier one of its connection only, and its client reads nothing.
      if (url === "/large") response.end(Buffer.alloc(8 * 1024 * 1024));
    });
    const get = (path: string) => `GET ${path} HTTP/1.1\r\n${HOST}\r\n`;
    const proxied = `CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n${header}\r\n`;
    const received = exchange(port, `${get("/pending")}${get("/large")}${proxied}`);
    await vi.waitFor(() => expect(closed.toSorted()).toEqual(["/large", "/pending"]), { timeout: 60_000 });
    expect(await received).toBe("");
  });

  test("ends after the response to a request to a proxy whose body is missing", async () => {
    const port = await listen(() => {});
    const received = await exchange(
      port,
      "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\nContent-Length: 2\r\n\r\n",
    );
    expect(summary(received).map(([status]) => status)).toEqual([405]);
  });

  test.for([
    ["headers", `GET / HTTP/1.1\r\n${HOST}`],
    ["a body", `POST / HTTP/1.1\r\n${HOST}Content-Length: 9\r\n\r\n{`],
  ] as const)("that sends %s too slowly gets 408", async ([, text]) => {
    const port = await listen((request) => request.resume().on("error", () => {}));
    const [answer] = toAnswers(await exchange(port, text));
    expect([answer?.status, JSON.parse(answer?.body ?? "").error]).toMatchObject([
      408,
      {
        code: "REQUEST_TIMEOUT",
        message: "Expected the headers of a request within 500 ms, and all of it within 1000 ms",
      },
    ]);
  });
});
