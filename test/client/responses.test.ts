// The client against servers that break connections, answer with something else than the API does, or never end: each failure is an ApiError
// with a documented code, and only what is safe is repeated.
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { Agent, fetch as undiciFetch } from "undici";
import { afterEach, describe, expect, test } from "vitest";
import {
  ApiError,
  type ClientOptions,
  createClient,
  type GloveboxClient,
  type TenantClient,
} from "../../src/client/index.ts";

type Answer = (response: ServerResponse, request: IncomingMessage) => void;

interface Setup {
  readonly client: GloveboxClient;
  readonly tenant: TenantClient;
  /** The requests so far: method, path and Last-Event-ID. */
  readonly requests: string[];
  /** Paths of the requests that the client has made. On a busy machine, one may end before the server has read it. */
  readonly made: string[];
  /** Breaks the connections of all responses that `cutEvents` has begun. */
  readonly hangUp: () => void;
}

const opened: Disposable[] = [];
afterEach(() => {
  for (const one of opened.splice(0)) one[Symbol.dispose]();
});

/** Responses that a test breaks when the client has read their beginning. */
const begun: ServerResponse[] = [];

/** Starts a server that gives these answers, and then the last one again and again. */
async function serve(answers: readonly Answer[], options: Partial<ClientOptions> = {}): Promise<Setup> {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    request.resume().on("end", () => {
      const last = request.headers["last-event-id"];
      const path = (request.url ?? "").replace("/v1/tenants/acme", "");
      requests.push(`${request.method} ${path}${last === undefined ? "" : ` after ${last}`}`);
      answers[Math.min(requests.length, answers.length) - 1]?.(response, request);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  opened.push({
    [Symbol.dispose]: () => {
      server.close();
      server.closeAllConnections();
    },
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const made: string[] = [];
  const countingFetch: typeof fetch = (input, init) => {
    made.push(String(input));
    return fetch(input, init);
  };
  const client = createClient({ url, key: "gb_key", fetch: countingFetch, ...options });
  const hangUp = (): void => {
    for (const response of begun.splice(0)) response.destroy();
  };
  return { client, tenant: client.tenant("acme"), requests, made, hangUp };
}

const json =
  (body: unknown, status = 200, headers: Readonly<Record<string, string>> = {}): Answer =>
  (response) => {
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(typeof body === "string" ? body : JSON.stringify(body));
  };
const page =
  (body = "<html>A page</html>", status = 200): Answer =>
  (response) => {
    response.writeHead(status, { "content-type": "text/html; charset=utf-8" });
    response.end(body);
  };
/** Sends the beginning of a body, and breaks the connection. */
const cut =
  (body: string): Answer =>
  (response) => {
    response.writeHead(200, { "content-type": "application/json" });
    response.write(body, () => response.destroy());
  };
const EVENTS = "text/event-stream";
const events =
  (body: string): Answer =>
  (response) => {
    response.writeHead(200, { "content-type": EVENTS });
    response.end(body);
  };
/**
 * Sends the beginning of a stream, which `hangUp()` breaks. If the server did so by itself, a client that is busy could get the beginning and the
 * broken connection at once, and would read neither.
 */
const cutEvents =
  (body: string): Answer =>
  (response) => {
    response.writeHead(200, { "content-type": EVENTS });
    response.write(body);
    begun.push(response);
  };
const drop: Answer = (_response, request) => void request.socket.destroy();

const CALL = { id: "call_1", state: "succeeded" };
const STARTED = 'event: started\ndata: {"id":"call_1"}\n\n';
const APPROVAL = 'event: approval\ndata: {"approvalId":"approval_1","callId":"call_1"}\n\n';
const RESULT = `event: result\ndata: ${JSON.stringify(CALL)}\n\n`;
const log = (id: number): string => `event: log\nid: ${id}\ndata: {"message":"line ${id}"}\n\n`;

async function failureOf(action: Promise<unknown>): Promise<unknown> {
  return await action.then(
    (value) => {
      throw new Error(`Expected a rejection, got ${JSON.stringify(value)}`);
    },
    (thrown: unknown) => thrown,
  );
}

async function expectApiError(action: Promise<unknown>, code: string, message: RegExp, status?: number): Promise<void> {
  const thrown = await failureOf(action);
  expect(thrown).toBeInstanceOf(ApiError);
  expect(thrown).toMatchObject({ code, message: expect.stringMatching(message) });
  if (status !== undefined) expect(thrown).toMatchObject({ status });
  expect((thrown as ApiError).message.length).toBeLessThan(1_000);
}

async function collect<Item>(source: AsyncIterable<Item>, most = Number.POSITIVE_INFINITY): Promise<readonly Item[]> {
  const items: Item[] = [];
  for await (const item of source) if (items.push(item) >= most) break;
  return items;
}

type Events = AsyncIterable<{ readonly event: string; readonly data: unknown }>;

/** Returns the names of events, and the messages of log lines. @param onName called with each */
async function namesOf(source: Events, onName: (name: string) => void = () => {}): Promise<readonly string[]> {
  const names: string[] = [];
  for await (const { event, data } of source) {
    const name = event === "log" ? (data as { readonly message: string }).message : event;
    names.push(name);
    onName(name);
  }
  return names;
}

/** Calls a function after each of these names. */
const afterNames =
  (names: readonly string[], action: () => void) =>
  (name: string): void => {
    if (names.includes(name)) action();
  };

describe("a signal", () => {
  test("cancels the wait before a request is repeated", async () => {
    const { tenant, requests } = await serve([json({}, 503, { "retry-after": "3600" })]);
    const stop = new AbortController();
    const calling = failureOf(tenant.call("add", {}, { idempotencyKey: "a", signal: stop.signal }));
    await expect.poll(() => requests).toHaveLength(1);
    const reason = new Error("Stopped by the caller");
    stop.abort(reason);
    // The wait of 10 s would end later than any immediate.
    expect(await Promise.race([calling, new Promise((resolve) => setImmediate(resolve, "still waits"))])).toBe(reason);
    expect(requests).toHaveLength(1);
  });

  test.for<readonly [string, Answer]>([
    ["the headers", () => {}],
    ["the rest of a body", (response) => response.writeHead(200, { "content-type": "application/json" }).write("{")],
  ])("cancels the wait for %s", async ([, answer]) => {
    const { tenant, requests } = await serve([answer]);
    const stop = new AbortController();
    const calling = failureOf(tenant.call("add", {}, { idempotencyKey: "a", signal: stop.signal }));
    await expect.poll(() => requests).toHaveLength(1);
    const reason = new Error("Stopped by the caller");
    stop.abort(reason);
    expect(await calling).toBe(reason);
    expect(requests).toHaveLength(1);
  });

  test.for<readonly [string, readonly Answer[]]>([
    ["while a stream is open", [(response) => response.writeHead(200, { "content-type": EVENTS }).write(log(0))]],
    ["while it waits to open another stream", [cutEvents(log(0)), drop]],
  ])("ends watch() %s", async ([, answers]) => {
    const { tenant, hangUp } = await serve(answers);
    const stop = new AbortController();
    const reason = new Error("Stopped by the caller");
    const seen: string[] = [];
    const watching = namesOf(tenant.watch("call_1", stop.signal), (name) => {
      seen.push(name);
      hangUp();
      setTimeout(() => stop.abort(reason), 50);
    });
    expect(await failureOf(watching)).toBe(reason);
    expect(seen).toEqual(["line 0"]);
  });
});

describe("the signal of a client", () => {
  test("cancels each of its requests, and not those of the client that it was made from", async () => {
    const { client, requests } = await serve([() => {}, json({ id: "acme" })]);
    const stop = new AbortController();
    const reason = new Error("Stopped by the caller");
    const reading = failureOf(client.with({ signal: stop.signal }).tenant("acme").get());
    await expect.poll(() => requests).toHaveLength(1);
    stop.abort(reason);
    expect(await reading).toBe(reason);
    expect(await client.tenant("acme").get()).toEqual({ id: "acme" });
  });

  test("cancels a call that has a signal of its own", async () => {
    const { client, requests } = await serve([() => {}]);
    const stop = new AbortController();
    const reason = new Error("Stopped by the caller");
    const own = new AbortController();
    const bound = client.with({ signal: stop.signal }).tenant("acme");
    const calling = failureOf(bound.call("add", {}, { signal: own.signal }));
    await expect.poll(() => requests).toHaveLength(1);
    stop.abort(reason);
    expect(await calling).toBe(reason);
  });

  test("ends watch() while it waits to open another stream", async () => {
    const { client, hangUp } = await serve([cutEvents(log(0)), drop]);
    const stop = new AbortController();
    const reason = new Error("Stopped by the caller");
    const bound = client.with({ signal: stop.signal }).tenant("acme");
    const watching = namesOf(bound.watch("call_1"), () => {
      hangUp();
      setTimeout(() => stop.abort(reason), 50);
    });
    expect(await failureOf(watching)).toBe(reason);
  });
});

describe("a server that cannot be reached", () => {
  test("has the cause in the message of the error", async () => {
    const pem = (name: string): string => readFileSync(new URL(`../fixtures/tls/${name}.pem`, import.meta.url), "utf8");
    const secure = createHttpsServer({ cert: pem("cert"), key: pem("key") }, (_request, response) => response.end());
    await new Promise<void>((resolve) => secure.listen(0, "127.0.0.1", resolve));
    opened.push({ [Symbol.dispose]: () => secure.close() });
    const { port } = secure.address() as AddressInfo;
    const reach = (url: string): Promise<unknown> => createClient({ url, key: "gb_key", retries: 0 }).whoAmI();
    const untrusted = /cannot be reached \(DEPTH_ZERO_SELF_SIGNED_CERT\)$/;
    await expectApiError(reach(`https://127.0.0.1:${port}`), "NETWORK", untrusted, 0);
    secure.close();
    secure.closeAllConnections();
    await expectApiError(reach(`https://127.0.0.1:${port}`), "NETWORK", /cannot be reached \(ECONNREFUSED\)$/, 0);
    await expectApiError(reach("http://127.0.0.1:6000"), "NETWORK", /cannot be reached \(bad port\)$/, 0);
  });
});

describe("a response that takes longer than timeoutMs", () => {
  const silent: Answer = () => {};
  const halfBody: Answer = (response) =>
    response.writeHead(200, { "content-type": "application/json" }).write('{"id":"call_');

  test.for<readonly [string, Answer]>([
    ["without headers", silent],
    ["in the middle of its body", halfBody],
  ])("is requested again %s if that is safe", async ([, answer]) => {
    const { tenant, requests } = await serve([answer, json(CALL)], { timeoutMs: 2_000 });
    expect(await tenant.getCall("call_1")).toEqual(CALL);
    expect(requests).toHaveLength(2);
  });

  test.for<readonly [string, Answer]>([
    ["without headers", silent],
    ["in the middle of its body", halfBody],
  ])("is a TIMEOUT %s if it is not safe to repeat", async ([, answer]) => {
    const { tenant, made } = await serve([answer], { timeoutMs: 300 });
    const message = /^The server at .* did not complete its response to POST .*\/calls within 300 ms \(timeoutMs\)$/;
    await expectApiError(tenant.call("add"), "TIMEOUT", message, 0);
    expect(made).toHaveLength(1);
  });

  test("is a TIMEOUT if it does not begin within the time limit of Node's fetch", async () => {
    // Node's own limit is 300 s. Its fetch is that of undici.
    const dispatcher = new Agent({ headersTimeout: 200 });
    const limited = ((url: URL, init: object) => undiciFetch(url, { ...init, dispatcher })) as unknown as typeof fetch;
    const { tenant } = await serve([silent], { fetch: limited });
    const message = /^The server at .* did not begin its response to POST .*\/calls within the time limit of fetch/;
    await expectApiError(tenant.call("add"), "TIMEOUT", message, 0);
  });

  test("is a TIMEOUT after the last repetition", async () => {
    const { tenant, made } = await serve([silent], { timeoutMs: 100, retries: 1 });
    await expectApiError(tenant.get(), "TIMEOUT", /GET/);
    expect(made).toHaveLength(2);
  });

  test("is a TIMEOUT if its stream does not begin", async () => {
    const { tenant } = await serve([silent], { timeoutMs: 300 });
    await expectApiError(collect(tenant.stream("add")), "TIMEOUT", /within 300 ms/);
  });

  test("does not end a stream that has begun", async () => {
    let end = (): void => {};
    const answer: Answer = (response) => {
      response.writeHead(200, { "content-type": EVENTS }).write(STARTED);
      end = () => response.end(RESULT);
    };
    const { tenant } = await serve([answer], { timeoutMs: 2_000 });
    const names = namesOf(tenant.stream("add"), (name) => {
      if (name === "started") setTimeout(end, 2_500);
    });
    expect(await names).toEqual(["started", "result"]);
  });

  test.for([0, 1.5, Number.NaN, 86_400_001])("%d is rejected as timeoutMs", (timeoutMs) => {
    expect(() => createClient({ url: "http://127.0.0.1:9", key: "gb_key", timeoutMs })).toThrow("options.timeoutMs");
  });
});

describe("an event error", () => {
  const failed = (status: number): string =>
    `event: error\ndata: ${JSON.stringify({ status, error: { code: "INTERNAL", message: "The server failed" } })}\n\n`;

  test("ends stream() with its code and its status", async () => {
    const { tenant, requests } = await serve([events(STARTED + failed(500) + RESULT)]);
    await expectApiError(collect(tenant.stream("add")), "INTERNAL", /^The server failed$/, 500);
    expect(requests).toHaveLength(1);
  });

  test("ends watch() unless another request may succeed", async () => {
    const { tenant, requests } = await serve([events(log(0) + failed(500)), events(log(1) + failed(403))]);
    await expectApiError(collect(tenant.watch("call_1")), "INTERNAL", /^The server failed$/, 403);
    expect(requests).toEqual(["GET /calls/call_1/events", "GET /calls/call_1/events after 0"]);
  });

  test.for(["null", "{}", '{"error":{"code":1}}'])("with the data %s is an INVALID_RESPONSE", async (data) => {
    const { tenant } = await serve([events(`event: error\ndata: ${data}\n\n`)]);
    await expectApiError(collect(tenant.stream("add")), "INVALID_RESPONSE", /expected an error/);
  });
});

describe("a response whose connection breaks", () => {
  const answers = [cut('{"id":"call_'), json(CALL)];

  test("is requested again if the request was a GET", async () => {
    const { tenant, requests } = await serve(answers);
    expect(await tenant.getCall("call_1")).toEqual(CALL);
    expect(requests).toEqual(["GET /calls/call_1", "GET /calls/call_1"]);
  });

  test("is requested again if the request had an idempotency key", async () => {
    const { tenant, requests } = await serve(answers);
    expect(await tenant.call("add", {}, { idempotencyKey: "a" })).toEqual(CALL);
    expect(requests).toHaveLength(2);
  });

  test.for<readonly [string, (tenant: TenantClient) => Promise<unknown>]>([
    ["call() without a key", (tenant) => tenant.call("add")],
    ["startRun() without a key", (tenant) => tenant.startRun("add")],
    [
      "batch() with a call without a key",
      (tenant) => tenant.batch([{ tool: "a", idempotencyKey: "a" }, { tool: "b" }]),
    ],
    ["deleteTool()", (tenant) => tenant.deleteTool("add")],
  ])("is not requested again by %s", async ([, action]) => {
    const { tenant, requests } = await serve(answers);
    await expectApiError(action(tenant), "NETWORK", /^The connection to the server at .* was lost before its/, 0);
    expect(requests).toHaveLength(1);
  });

  test("is an error after the last attempt", async () => {
    const { tenant, requests } = await serve([cut('{"id":"call_')], { retries: 1 });
    const thrown = await failureOf(tenant.getCall("call_1"));
    expect(thrown).toMatchObject({ name: "ApiError", code: "NETWORK", status: 0, cause: expect.any(TypeError) });
    expect(requests).toHaveLength(2);
  });

  test("is an error of a list after the items before it", async () => {
    const { tenant } = await serve([json({ items: [{ id: "call_1" }], next: "a" }), cut('{"items":[')], { retries: 0 });
    const seen: string[] = [];
    const listing = (async () => {
      for await (const { id } of tenant.calls()) seen.push(id);
    })();
    await expectApiError(listing, "NETWORK", /was lost/);
    expect(seen).toEqual(["call_1"]);
  });
});

describe("watch()", () => {
  test("goes on with the next line after a broken connection, a clean end and an error of a proxy", async () => {
    const { tenant, requests, hangUp } = await serve(
      [
        cutEvents(log(0) + log(1)),
        drop,
        events(log(2)),
        page("Bad gateway", 502),
        // A part of an event is dropped.
        cutEvents(`${log(3)}event: log\nid: 4\ndata: {`),
        json({ error: { code: "RATE_LIMITED", message: "Too many streams" } }, 429, { "retry-after": "0" }),
        events(log(4) + RESULT),
      ],
      { retries: 0 },
    );
    const names = await namesOf(tenant.watch("call_1"), afterNames(["line 1", "line 3"], hangUp));
    expect(names).toEqual([0, 1, 2, 3, 4].map((n) => `line ${n}`).concat("result"));
    expect(requests.map((request) => request.replace("GET /calls/call_1/events", ""))).toEqual([
      ...["", " after 1", " after 1", " after 2", " after 2", " after 3", " after 3"],
    ]);
  });

  test("yields no line twice if a stream begins anew", async () => {
    const answers = [cutEvents(log(0) + log(1)), events(log(0) + log(1) + log(2) + RESULT)];
    const { tenant, hangUp } = await serve(answers);
    expect(await namesOf(tenant.watch("call_1"), afterNames(["line 1"], hangUp))).toEqual([
      "line 0",
      "line 1",
      "line 2",
      "result",
    ]);
  });

  test("yields events without ids", async () => {
    const line = 'event: log\ndata: {"message":"a line"}\n\n';
    const { tenant } = await serve([events(line + log(0) + line + RESULT)]);
    expect(await namesOf(tenant.watch("call_1"))).toEqual(["a line", "line 0", "a line", "result"]);
  });

  test("rejects if the first stream cannot be opened", async () => {
    const { tenant, requests } = await serve([drop], { retries: 1 });
    await expectApiError(collect(tenant.watch("call_1")), "NETWORK", /cannot be reached/, 0);
    expect(requests).toHaveLength(2);
  });

  test("rejects at once with an error that another stream would get too", async () => {
    const denied = json({ error: { code: "UNAUTHENTICATED", message: "The key was revoked" } }, 401);
    const { tenant, requests } = await serve([events(log(0)), denied]);
    await expectApiError(collect(tenant.watch("call_1")), "UNAUTHENTICATED", /revoked/, 401);
    expect(requests).toHaveLength(2);
  });

  test("rejects with NO_RESULT if the server loses the call, and not after one answer that it is missing", async () => {
    const missing = json({ error: { code: "NOT_FOUND", message: "There is no such call" } }, 404);
    const found = await serve([events(log(0)), missing, events(log(1) + RESULT)]);
    expect(await namesOf(found.tenant.watch("call_1"))).toEqual(["line 0", "line 1", "result"]);
    const lost = await serve([events(log(0)), missing]);
    await expectApiError(collect(lost.tenant.watch("call_1")), "NO_RESULT", /no result: There is no such call/, 404);
    const unknown = await serve([missing]);
    await expectApiError(collect(unknown.tenant.watch("call_1")), "NOT_FOUND", /no such call/, 404);
  });

  test("waits longer before each stream that brings nothing", async () => {
    const times: number[] = [];
    const count: Answer = (response, request) => {
      times.push(performance.now());
      events(times.length < 5 ? "" : RESULT)(response, request);
    };
    const { tenant } = await serve([count]);
    expect(await namesOf(tenant.watch("call_1"))).toEqual(["result"]);
    // 250, 500, 1,000 and 2,000 ms, which jitter only makes longer.
    expect((times.at(-1) ?? 0) - (times[0] ?? 0)).toBeGreaterThan(3_700);
  });
});

describe("stream()", () => {
  test("yields the result once, and nothing after it", async () => {
    const { tenant, requests } = await serve([events(STARTED + RESULT + RESULT + log(0))]);
    expect(await namesOf(tenant.stream("add"))).toEqual(["started", "result"]);
    expect(requests).toHaveLength(1);
  });

  test.for<readonly [string, string, string | undefined]>([
    ["has begun", STARTED, "call_1"],
    ["has not begun", "", undefined],
  ])("rejects if the stream ends without a result, and the call %s", async ([, body, callId]) => {
    const { tenant, requests } = await serve([events(body)]);
    const thrown = await failureOf(collect(tenant.stream("add")));
    expect(thrown).toMatchObject({ name: "ApiError", code: "NO_RESULT", details: { callId } });
    expect(requests).toHaveLength(1);
  });

  test("rejects if the connection breaks, and does not call the tool again", async () => {
    const { tenant, requests, hangUp } = await serve([cutEvents(STARTED + log(0)), events(STARTED + RESULT)]);
    const thrown = await failureOf(namesOf(tenant.stream("add"), afterNames(["line 0"], hangUp)));
    expect(thrown).toMatchObject({ name: "ApiError", code: "NETWORK", status: 0, details: { callId: "call_1" } });
    expect(requests).toEqual(["POST /tools/add/calls"]);
  });

  test("follows a call that waits for an approval over other connections", async () => {
    const answers = [cutEvents(STARTED + APPROVAL), drop, events(log(0)), events(log(1) + RESULT)];
    const { tenant, requests, hangUp } = await serve(answers, { retries: 0 });
    expect(await namesOf(tenant.stream("add"), afterNames(["approval"], hangUp))).toEqual([
      "started",
      "approval",
      "line 0",
      "line 1",
      "result",
    ]);
    expect(requests).toEqual([
      "POST /tools/add/calls",
      "GET /calls/call_1/events",
      "GET /calls/call_1/events",
      "GET /calls/call_1/events after 0",
    ]);
  });
});

/** Methods of each kind, which all read a response. */
const METHODS: readonly (readonly [string, (tenant: TenantClient) => Promise<unknown>])[] = [
  ["get()", (tenant) => tenant.get()],
  ["call()", (tenant) => tenant.call("add")],
  ["tools()", (tenant) => collect(tenant.tools())],
  ["usage()", (tenant) => tenant.usage()],
  ["batch()", (tenant) => tenant.batch([{ tool: "add" }])],
  ["stream()", (tenant) => collect(tenant.stream("add"))],
  ["watch()", (tenant) => collect(tenant.watch("call_1"))],
  ["exportValues()", (tenant) => tenant.exportValues("add")],
];

describe.for(METHODS)("%s", ([name, action]) => {
  test("rejects a page of HTML, and shows its beginning", async () => {
    const { tenant, requests } = await serve([page(`<html>${"x".repeat(100_000)}`)]);
    const message =
      /status 200 to (GET|POST) http.*expected .*, got "text\/html; .*"<html>x+"… *\. The URL of the client may be/;
    await expectApiError(action(tenant), "INVALID_RESPONSE", message, 200);
    expect(requests).toHaveLength(1);
  });

  test("rejects a page of HTML that never ends", async () => {
    const endless: Answer = (response) => response.writeHead(200, { "content-type": "text/html" }).flushHeaders();
    const { tenant } = await serve([endless]);
    await expectApiError(action(tenant), "INVALID_RESPONSE", /got "text\/html" with ""/, 200);
  });

  test.for<readonly [string, Answer]>([
    ["a page", page("<html>No such page</html>", 404)],
    ["JSON of another service", json({ detail: "No such page" }, 404)],
    ["null", json("null", 404)],
    ["an error that is text", json({ error: "No such page" }, 404)],
    ["an error whose message is an object", json({ error: { code: "NOT_FOUND", message: {} } }, 404)],
  ])("rejects an error that is %s", async ([, answer]) => {
    const { tenant } = await serve([answer]);
    await expectApiError(action(tenant), "INVALID_RESPONSE", /Invalid response with status 404/, 404);
  });

  // exportValues() returns the response with its body unread.
  const wrongBodies = name === "exportValues()" ? [] : ["null", "5", '"text"', "[]", "{", ""];
  test.for(wrongBodies)("rejects the body %j", async (body) => {
    const { tenant, requests } = await serve([json(body)]);
    await expectApiError(
      action(tenant),
      "INVALID_RESPONSE",
      /expected (JSON|an object of JSON|text\/event-stream), got/,
      200,
    );
    expect(requests).toHaveLength(1);
  });
});

describe("a list", () => {
  test.for<readonly [string, unknown, RegExp]>([
    ["no items", { next: null }, /items: expected an array, got undefined/],
    ["items that are an object", { items: {}, next: null }, /items: expected an array, got an object/],
    ["items that are null", { items: [{}, null], next: null }, /items\.1: expected an object, got null/],
    ["a cursor that is a number", { items: [], next: 5 }, /next: expected a string/],
    ["an empty cursor", { items: [], next: "" }, /next: expected a string/],
    ["an endless cursor", { items: [], next: "x".repeat(100_000) }, /next: expected a string of 1 to 4096/],
  ])("rejects a page with %s", async ([, body, message]) => {
    const { tenant } = await serve([json(body)]);
    await expectApiError(collect(tenant.tools()), "INVALID_RESPONSE", message, 200);
  });

  test("rejects a cursor that was before", async () => {
    const pages = ["a", "b", "a"].map((next) => json({ items: [{ name: next }], next }));
    const { tenant, requests } = await serve(pages);
    await expectApiError(collect(tenant.tools()), "INVALID_RESPONSE", /next: expected another cursor/, 200);
    expect(requests).toEqual(["GET /tools", "GET /tools?cursor=a", "GET /tools?cursor=b"]);
  });
});

describe("the events of a call", () => {
  test.for<readonly [string, string]>([
    ["data that is not JSON", "event: log\ndata: {bad\n\n"],
    ["a start without an id", "event: started\ndata: {}\n\n"],
    ["an approval of a call whose id is a path", 'event: approval\ndata: {"approvalId":"a","callId":".."}\n\n'],
    ["a result that is null", "event: result\ndata: null\n\n"],
    ["a result that is another object", 'event: result\ndata: {"id":"tool_1"}\n\n'],
  ])("are rejected with %s", async ([, body]) => {
    for (const method of ["stream", "watch"] as const) {
      const { tenant, requests } = await serve([events(body)]);
      await expectApiError(collect(tenant[method]("call_1")), "INVALID_RESPONSE", /the event "\w+" (is not|has)/, 200);
      expect(requests).toHaveLength(1);
    }
  });

  test("may have other line ends, comments, data in several lines and unknown names", async () => {
    const body = `\uFEFF: a comment\r\n\r\nevent: later\r\ndata: x\r\n\r\ndata: x\n\nevent:log\rdata:{"message":\rdata:"a line"}\r\r`;
    const { tenant } = await serve([events(body + RESULT)]);
    expect(await namesOf(tenant.stream("add"))).toEqual(["a line", "result"]);
  });
});

describe("maxResponseBytes", () => {
  const endless =
    (type: string, piece: string): Answer =>
    (response) => {
      response.writeHead(200, { "content-type": type });
      const write = (): void => {
        while (!response.destroyed) if (!response.write(piece)) return void response.once("drain", write);
      };
      write();
    };

  test.for<readonly [string, Answer, (tenant: TenantClient) => Promise<unknown>]>([
    ["a body", endless("application/json", " ".repeat(1_000)), (tenant) => tenant.get()],
    ["a line of an event", endless(EVENTS, "x".repeat(1_000)), (tenant) => collect(tenant.stream("add"))],
    [
      "an event of many lines",
      endless(EVENTS, "data: x\ndata\n".repeat(100)),
      (tenant) => collect(tenant.stream("add")),
    ],
    ["events of watch()", endless(EVENTS, "data: x\n"), (tenant) => collect(tenant.watch("call_1"))],
  ])("limits %s", async ([, answer, action]) => {
    const { tenant, requests } = await serve([answer], { maxResponseBytes: 100_000 });
    await expectApiError(action(tenant), "RESPONSE_TOO_LARGE", /is longer than 100000 bytes \(maxResponseBytes\)/, 200);
    expect(requests).toHaveLength(1);
  });

  test("limits an event that arrives as a whole", async () => {
    const { tenant } = await serve([events(RESULT)], { maxResponseBytes: 10 });
    await expectApiError(collect(tenant.stream("add")), "RESPONSE_TOO_LARGE", /An event of POST/, 200);
  });

  test("does not limit all events together, nor comments", async () => {
    const { tenant } = await serve([events(`${": a comment\n\n".repeat(10_000)}${log(0).repeat(10_000)}${RESULT}`)], {
      maxResponseBytes: 1_000,
    });
    expect(await collect(tenant.stream("add"))).toHaveLength(10_001);
  });

  test.for([0, 1.5, -1, 2 ** 30])("may not be %d", (maxResponseBytes) => {
    expect(() => createClient({ url: "http://127.0.0.1", key: "k", maxResponseBytes })).toThrow(/^options\.maxRes/);
  });
});

test("an event of many MiB is read without reading its beginning again and again", async () => {
  const output = "x".repeat(32 * 1024 * 1024);
  const { tenant } = await serve([events(`event: result\ndata: ${JSON.stringify({ ...CALL, output })}\n\n`)]);
  const [event] = await collect(tenant.stream("add"));
  expect(event?.event === "result" && event.data.output === output).toBe(true);
});
