// Tests the limits of callers of the MCP server over HTTP, with real sockets.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { connect, type Socket } from "node:net";
import { fileURLToPath } from "node:url";
import type { McpServer } from "@modelcontextprotocol/server";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import type { HostFunction } from "../../../src/host/executors/host-function.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { ownerOf } from "../../../src/host/mcp/server/authorization/caller.ts";
import { BoundedBody } from "../../../src/host/mcp/server/http/bounded-body.ts";
import { createMcpHandler } from "../../../src/host/mcp/server/http/handler.ts";
import { createQuotas, HttpLimitsSchema } from "../../../src/host/mcp/server/http/http-limits.ts";
import { answerWithinLimits } from "../../../src/host/mcp/server/http/open-request.ts";
import type { McpHandlerOptions } from "../../../src/host/mcp/server/options.ts";
import { makeGlovebox } from "../../support/host-zone.ts";
import {
  beginSession,
  legacyRequest,
  listenInSession,
  listenModern,
  modernCall,
  modernRequest,
  post,
  type RawRequest,
  serveHandler,
} from "../../support/mcp-raw-client.ts";

const MiB = 1_024 * 1_024;
const OWNER = ownerOf({ tenantId: "a", principal: "" });
const BIG = "x".repeat(7 * MiB);

let glovebox: Glovebox;
let running = 0;
/** Running calls of the tool "logs". */
let logging = 0;
const finish = new Set<() => void>();
beforeAll(async () => {
  glovebox = await makeGlovebox({ tenancy: "multi" });
  glovebox.router.register("big", {}, () => BIG, { scope: "global" });
  glovebox.router.register("small", {}, () => "small", { scope: "global" });
  const waits: HostFunction = async (_input, { signal }) => {
    running += 1;
    await new Promise<void>((resolve) => {
      finish.add(resolve);
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
    running -= 1;
    return "waited";
  };
  glovebox.router.register("waits", {}, waits, { scope: "global" });
  // The response has an unread log line, and the call continues.
  const execute = glovebox.router.execute.bind(glovebox.router);
  glovebox.router.execute = async (call, ...rest) => {
    if (call.toolName !== "logs") return await execute(call, ...rest);
    logging += 1;
    return await execute(call, ...rest).finally(() => {
      logging -= 1;
    });
  };
  await glovebox.addTool(
    { name: "logs", source: "export default () => { console.log('a line'); for (;;); }" },
    { scope: "global" },
  );
});
afterAll(async () => await glovebox.close());

/** Reads the tenant from a header. */
const tenantOf: McpHandlerOptions["tenantOf"] = ({ request }) => request.headers.get("x-tenant") ?? "default";
const tenant = (name: string) => ({ "x-tenant": name });

async function start(options: McpHandlerOptions): Promise<URL> {
  const served = await serveHandler(createMcpHandler(glovebox, { tenantOf, ...options }));
  onTestFinished(() => served[Symbol.asyncDispose]());
  return served.url;
}

async function statusOf(response: Promise<Response>): Promise<number> {
  const { status, ...rest } = await response.then(async (one) => ({ status: one.status, text: await one.text() }));
  expect(rest.text.length).toBeGreaterThan(0);
  return status;
}

/** Sends a request over a socket from which nothing is read. */
function sendUnread({ hostname, port, pathname }: URL, { body, headers }: RawRequest): Socket {
  const socket = connect(Number(port), hostname);
  const lines = Object.entries({ host: hostname, "content-length": String(Buffer.byteLength(body)), ...headers });
  socket.pause();
  socket.on("error", () => {});
  socket.write(`POST ${pathname} HTTP/1.1\r\n${lines.map((line) => line.join(": ")).join("\r\n")}\r\n\r\n${body}`);
  onTestFinished(() => void socket.destroy());
  return socket;
}

describe("limits.requests", () => {
  test("answers 429 past the limit of a caller, 503 past that of all callers, and serves again afterwards", async () => {
    const url = await start({ limits: { requests: { perCaller: 2, total: 3 } } });
    const calls = [tenant("a"), tenant("a"), tenant("b")].map((headers) => post(url, modernCall("waits", headers)));
    await expect.poll(() => running).toBe(3);
    const own = await post(url, modernCall("small", tenant("a")));
    expect([own.status, own.headers.get("retry-after")]).toEqual([429, "1"]);
    expect(await own.json()).toMatchObject({ jsonrpc: "2.0", id: null, error: { code: -32_000 } });
    const other = await post(url, modernCall("small", tenant("b")));
    expect([other.status, other.headers.get("retry-after")]).toEqual([503, "1"]);
    await other.text();
    for (const end of finish) end();
    for (const call of calls) expect(await statusOf(call)).toBe(200);
    expect(await statusOf(post(url, modernCall("small", tenant("a"))))).toBe(200);
  });

  test("leaves room for other tenants, however many callers one has", async () => {
    const auth: McpHandlerOptions["auth"] = {
      serveMetadata: () => undefined,
      authenticate: (request) => ({
        subject: request.headers.get("x-subject") ?? "",
        scopes: [],
        claims: {},
        expiresAt: Number.POSITIVE_INFINITY,
      }),
    };
    const url = await start({ auth, limits: { requests: { perCaller: 1, total: 4 } } });
    const as = (name: string, subject: string) => ({ ...tenant(name), "x-subject": subject });
    const calls = ["one", "two"].map((subject) => post(url, modernCall("waits", as("greedy", subject))));
    await expect.poll(() => running).toBe(2);
    const third = await post(url, modernCall("small", as("greedy", "three")));
    expect([third.status, third.headers.get("retry-after")]).toEqual([429, "1"]);
    expect(await third.json()).toMatchObject({ error: { message: expect.stringContaining("from this tenant") } });
    expect(await statusOf(post(url, modernCall("small", as("modest", "one"))))).toBe(200);
    for (const end of finish) end();
    for (const call of calls) expect(await statusOf(call)).toBe(200);
    expect(await statusOf(post(url, modernCall("small", as("greedy", "three"))))).toBe(200);
  });

  test("accepts notifications of a client whose calls fill the limit, and frees the slot of a cancelled call", async () => {
    const url = await start({ limits: { requests: { perCaller: 1, total: 1 } } });
    const session = await beginSession(url);
    const call = post(url, legacyRequest("tools/call", { name: "waits", arguments: {} }, session));
    await expect.poll(() => running).toBe(1);
    const cancel = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 1 } };
    const { headers } = legacyRequest("", {}, session);
    expect((await post(url, { body: JSON.stringify(cancel), headers })).status).toBe(202);
    await expect.poll(() => running).toBe(0);
    // A cancelled request has no answer: its stream ends, and its slot is free.
    expect(await (await call).text()).not.toContain("result");
    await expect.poll(() => statusOf(post(url, modernCall("small")))).toBe(200);
  });

  test("forgets the ids of cancelled requests", async () => {
    let server: McpServer | undefined;
    const register = (created: McpServer) => {
      server = created;
    };
    const url = await start({ register });
    const session = await beginSession(url);
    const { headers } = legacyRequest("", {}, session);
    const send = (message: object) => post(url, { body: JSON.stringify({ jsonrpc: "2.0", ...message }), headers });
    for (const id of ["one", "two", 3]) {
      const call = send({ id, method: "tools/call", params: { name: "waits", arguments: {} } });
      await expect.poll(() => running).toBe(1);
      await send({ method: "notifications/cancelled", params: { requestId: id } });
      await (await call).text();
      await expect.poll(() => running).toBe(0);
    }
    const { transport } = (server as McpServer).server;
    expect(
      (transport as unknown as { _requestToStreamMapping: Map<unknown, unknown> })._requestToStreamMapping.size,
    ).toBe(0);
    expect((await send({ id: "one", method: "ping" })).status).toBe(200);
  });

  test("frees the slots of clients that disconnect", async () => {
    const url = await start({ limits: { requests: { perCaller: 1, total: 1 } } });
    for (let count = 0; count < 3; count += 1) {
      const controller = new AbortController();
      const { body, headers } = modernCall("waits");
      const call = fetch(url, { method: "POST", body, headers, signal: controller.signal });
      await expect.poll(() => running).toBe(1);
      controller.abort();
      await expect(call).rejects.toThrow();
      await expect.poll(() => running).toBe(0);
    }
    await expect.poll(() => statusOf(post(url, modernCall("small")))).toBe(200);
  });
});

/** Sends the head of a request as it stands, and returns the status of the response. */
async function statusOfRaw({ hostname, port }: URL, target: string): Promise<number> {
  const socket = connect(Number(port), hostname);
  socket.on("error", () => {});
  onTestFinished(() => void socket.destroy());
  socket.write(`${target} HTTP/1.1\r\nHost: ${hostname}:${port}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`);
  return Number(/^HTTP\/1.1 (\d+)/.exec(Buffer.concat(await socket.toArray()).toString())?.[1]);
}

describe("a request that Fetch cannot represent", () => {
  test.for([
    ["TRACE", "TRACE /mcp", 405],
    ["TRACE of a whole URL", "TRACE http://localhost:3000/mcp", 405],
    ["a user name and password in the URL (GET)", "GET http://u:p@localhost:3000/mcp", 400],
    ["a user name and password in the URL (DELETE)", "DELETE http://u:p@localhost:3000/mcp", 400],
    ["a user name and password in the URL (POST)", "POST http://u:p@localhost:3000/mcp", 400],
  ] as const)("is rejected and holds no slot: %s", async ([, target, status]) => {
    const one = { perCaller: 1, total: 1 };
    const url = await start({ limits: { requests: one, listenStreams: one } });
    for (let count = 0; count < 3; count += 1) expect(await statusOfRaw(url, target)).toBe(status);
    expect(await statusOf(post(url, modernCall("small")))).toBe(200);
    const listening = await listenModern(url);
    await listening.body?.cancel();
    expect(listening.status).toBe(200);
  });

  test("releases its share when it exceeds the quotas", async () => {
    const limits = HttpLimitsSchema.parse({ requests: { perCaller: 1, total: 1 } });
    const quotas = createQuotas(limits);
    let ended = 0;
    const parts = { kind: "call", owner: OWNER, limits, quotas, expiresAtMs: undefined } as const;
    const onEnd = (): void => {
      ended += 1;
    };
    const { headers, signal } = new Request("http://localhost/mcp");
    const trace = { method: "TRACE", url: "http://localhost/mcp", headers, signal } as Request;
    const answer = async () => new Response();
    for (let count = 1; count <= 2; count += 1) {
      expect((await answerWithinLimits(trace, { ...parts, onEnd }, answer)).status).toBe(400);
      expect(ended).toBe(count);
    }
    expect((await answerWithinLimits(new Request(trace.url), { ...parts, onEnd }, answer)).status).toBe(200);
  });
});

describe("limits.listenStreams", () => {
  test("limits the streams of a caller and of all callers, in both eras, and frees those that end", async () => {
    const url = await start({ limits: { listenStreams: { perCaller: 2, total: 3 } } });
    const streams = [
      await listenModern(url, tenant("a")),
      await listenInSession(url, await beginSession(url, tenant("a"))),
      await listenModern(url, tenant("b")),
    ];
    expect(streams.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(await statusOf(listenModern(url, tenant("a")))).toBe(429);
    expect(await statusOf(listenInSession(url, await beginSession(url, tenant("b"))))).toBe(503);
    // A listening client may call.
    expect(await statusOf(post(url, modernCall("small", tenant("a"))))).toBe(200);
    for (const { body } of streams) await body?.cancel();
    const again = async (): Promise<number> => {
      const response = await listenModern(url, tenant("a"));
      await response.body?.cancel();
      return response.status;
    };
    await expect.poll(again).toBe(200);
  });
});

describe("limits.bodyMs and limits.requestBytes", () => {
  const sendSlowly = (url: URL, length: number, text: string, headers = {}) => {
    const { headers: fields } = modernCall("small", headers);
    const sent = httpRequest(url, { method: "POST", headers: { ...fields, "content-length": length } });
    const response = new Promise<{ status: number | undefined; body: string; connection: string | undefined }>(
      (resolve, reject) => {
        sent.on("error", reject).on("response", async (incoming) => {
          const body = Buffer.concat(await incoming.toArray()).toString();
          resolve({ status: incoming.statusCode, body, connection: incoming.headers.connection });
        });
      },
    );
    response.catch(() => {});
    sent.write(text);
    onTestFinished(() => void sent.destroy());
    return response;
  };

  test("answers 408 to a body that does not arrive in time, and closes the connection", async () => {
    const url = await start({ limits: { bodyMs: 50 } });
    const { status, body, connection } = await sendSlowly(url, 1_000, "{");
    expect([status, connection]).toEqual([408, "close"]);
    expect(JSON.parse(body)).toMatchObject({ jsonrpc: "2.0", id: null, error: { code: -32_000 } });
    // On a busy machine, this body can be late too, but not each time.
    await expect.poll(() => statusOf(post(url, modernCall("small")))).toBe(200);
  });

  test("counts slow bodies as requests of their caller", async () => {
    const url = await start({ limits: { requests: { perCaller: 2, total: 10 } } });
    for (let count = 0; count < 2; count += 1) void sendSlowly(url, 1_000, "{", tenant("a"));
    await expect.poll(() => statusOf(post(url, modernCall("small", tenant("a"))))).toBe(429);
    expect(await statusOf(post(url, modernCall("small", tenant("b"))))).toBe(200);
  });

  test("limits the bytes of bodies that are being read, and frees them", async () => {
    const requestBytes = { perCaller: 300_000, total: 300_000 };
    const url = await start({ maxBodyBytes: 300_000, limits: { requestBytes, bodyMs: 2_000 } });
    const large = modernRequest("tools/call", { name: "small", arguments: { text: "x".repeat(100_000) } });
    const slow: Promise<number | undefined>[] = [];
    // On a busy machine, the time of a slow body can be over before the large one arrives.
    const besideSlow = (): Promise<number> => {
      slow.push(sendSlowly(url, 290_000, `"${"x".repeat(280_000)}`).then(({ status }) => status));
      return statusOf(post(url, large));
    };
    await expect.poll(besideSlow, { interval: 500 }).toBe(429);
    expect(await Promise.all(slow)).toContain(408);
    await expect.poll(() => statusOf(post(url, large))).toBe(200);
  });
});

describe("limits.responseBytes and limits.unreadMs", () => {
  test("answers with an error instead of a response that exceeds the limit", async () => {
    const url = await start({ limits: { responseBytes: { perCaller: 5 * MiB, total: 20 * MiB } } });
    const response = await post(url, modernCall("big"));
    expect(response.status).toBe(429);
    expect(await response.json()).toMatchObject({ error: { message: expect.stringContaining("The call has run") } });
    expect(await statusOf(post(url, modernCall("small")))).toBe(200);
  });

  test("delivers large responses completely to clients that read them", async () => {
    const url = await start({ limits: { responseBytes: { perCaller: 20 * MiB, total: 20 * MiB } } });
    const session = await beginSession(url);
    for (let count = 0; count < 3; count += 1) {
      const response = await post(url, modernCall("big"));
      expect(Number(response.headers.get("content-length"))).toBeGreaterThan(7 * MiB);
      expect(((await response.json()) as { result: { content: [{ text: string }] } }).result.content[0].text).toBe(BIG);
      const streamed = await post(url, legacyRequest("tools/call", { name: "big", arguments: {} }, session));
      expect(await streamed.text()).toContain(BIG);
    }
  });

  test("aborts a stream that exceeds the limit", async () => {
    const url = await start({ limits: { responseBytes: { perCaller: 5 * MiB, total: 20 * MiB } } });
    const session = await beginSession(url);
    const response = await post(url, legacyRequest("tools/call", { name: "big", arguments: {} }, session));
    await expect(response.text()).rejects.toThrow();
    expect(await statusOf(post(url, modernCall("small")))).toBe(200);
  });

  test("aborts a response that stays unread and releases its bytes", async () => {
    const limits = { unreadMs: 5_000, responseBytes: { perCaller: 10 * MiB, total: 10 * MiB } };
    const url = await start({ limits });
    const statuses: number[] = [];
    const ask = async (): Promise<number> => {
      statuses.push(await statusOf(post(url, modernCall("big"))));
      return statuses.at(-1) ?? 0;
    };
    // The kernel buffers part of a response, which then no longer counts as unread, so several are needed at the same time.
    const leaveUnread = (): Promise<number> => {
      for (let count = 0; count < 10; count += 1) sendUnread(url, modernCall("big"));
      return ask();
    };
    await expect.poll(leaveUnread, { interval: 1_000 }).toBe(429);
    await expect.poll(ask).toBe(200);
  });

  test("cancels the call whose response stays unread", async () => {
    await using handler = createMcpHandler(glovebox, { tenantOf, limits: { unreadMs: 100 } });
    const { body, headers } = modernCall("logs");
    const withLogs = body.replace('"_meta":{', '"_meta":{"io.modelcontextprotocol/logLevel":"info",');
    const request = new Request("http://localhost/mcp", { method: "POST", body: withLogs, headers });
    const response = await handler.fetch(request);
    expect(response.headers.get("content-type")).toContain("text/event-stream");
    await expect.poll(() => logging).toBe(0);
    await expect(response.text()).rejects.toThrow("unread");
  });
});

describe("BoundedBody", () => {
  const UNREAD_MS = 50;
  const make = () => {
    const outcomes: string[] = [];
    const owner = { take: () => undefined, give: () => {}, ended: (outcome: string) => void outcomes.push(outcome) };
    const body = new BoundedBody(owner, UNREAD_MS);
    return { body, outcomes, reader: body.stream.getReader() };
  };
  beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
  afterEach(() => void vi.useRealTimers());

  test.for([
    ["the last part of a whole response", (body: BoundedBody) => body.addAll(Buffer.from("text"))],
    ["what a stream brought so far", (body: BoundedBody) => body.addFrom(new Blob(["text"]).stream())],
    ["what an endless stream brought so far", (body: BoundedBody) => body.addFrom(endless("text"))],
  ] as const)("is aborted if its reader stops after %s", async ([, fill]) => {
    const { body, outcomes, reader } = make();
    fill(body);
    expect(Buffer.from((await reader.read()).value ?? "").toString()).toBe("text");
    await vi.advanceTimersByTimeAsync(UNREAD_MS - 1);
    expect(outcomes).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(outcomes).toEqual(["aborted"]);
    await expect(reader.read()).rejects.toThrow("unread");
  });

  test("is aborted if its end stays unread", async () => {
    const { body, outcomes } = make();
    body.addFrom(new Blob([]).stream());
    await vi.advanceTimersByTimeAsync(UNREAD_MS);
    await vi.advanceTimersByTimeAsync(UNREAD_MS);
    expect(outcomes).toEqual(["aborted"]);
  });

  test("stays open while its reader waits for more", async () => {
    const { body, outcomes, reader } = make();
    body.addFrom(endless("text"));
    await reader.read();
    const next = reader.read();
    await vi.advanceTimersByTimeAsync(100 * UNREAD_MS);
    expect(outcomes).toEqual([]);
    body.close();
    expect((await next).done).toBe(true);
    expect(outcomes).toEqual(["read"]);
    await vi.advanceTimersByTimeAsync(UNREAD_MS);
    expect(outcomes).toEqual(["read"]);
  });
});

/** Emits a text and stays open. */
const endless = (text: string): ReadableStream<Uint8Array> =>
  new ReadableStream({ start: (controller) => controller.enqueue(Buffer.from(text)) });

test("a response that comes after its caller's token has expired is cancelled", async () => {
  const limits = HttpLimitsSchema.parse({});
  const { promise: cancelled, resolve: cancel } = Promise.withResolvers<void>();
  const parts = {
    kind: "listen",
    owner: OWNER,
    limits,
    quotas: createQuotas(limits),
    expiresAtMs: 1,
    onEnd: () => {},
  } as const;
  const response = await answerWithinLimits(new Request("http://localhost/mcp"), parts, async ({ signal }) => {
    await once(signal, "abort");
    return new Response(new ReadableStream({ cancel }));
  });
  expect(response.status).toBe(401);
  await cancelled;
});

describe("30 clients that read nothing", () => {
  const SCRIPT = fileURLToPath(new URL("../../support/mcp-handler-script.ts", import.meta.url));
  let child: ChildProcess;
  let origin = "";
  beforeAll(async () => {
    child = spawn(process.execPath, ["--expose-gc", SCRIPT], { stdio: ["ignore", "pipe", "pipe"] });
    const [line] = (await once(child.stdout as NodeJS.ReadableStream, "data")) as [Buffer];
    origin = `http://127.0.0.1:${Number(line)}`;
  });
  afterAll(async () => {
    child.kill("SIGKILL");
    await once(child, "exit");
  });
  const read = async (path: string): Promise<number> => (await (await fetch(`${origin}/${path}`)).json()) as number;

  test("leave no more than the limit of unread bytes in the server's memory", async () => {
    const url = new URL(`${origin}/bounded/0`);
    // Warms up, so that the memory of the first calls is not counted below.
    for (let count = 0; count < 3; count += 1) expect(await statusOf(post(url, modernCall("big")))).toBe(200);
    const [bytesBefore, answeredBefore] = [await read("memory"), await read("answered")];
    for (let count = 1; count <= 30; count += 1) {
      sendUnread(url, modernCall("big"));
      await expect.poll(() => read("answered"), { interval: 20 }).toBe(answeredBefore + count);
    }
    // Without a limit, 30 answers of 7 MiB are 210 MiB and more; the limit of this server is 16 MiB.
    expect((await read("memory")) - bytesBefore).toBeLessThan(128 * MiB);
    expect(await statusOf(post(url, modernCall("count")))).toBe(200);
  });
});
