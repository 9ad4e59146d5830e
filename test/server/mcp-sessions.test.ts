// Sessions of MCP clients with three servers and one Postgres: any server answers a request of a session, also if another one has it.
import { randomUUID } from "node:crypto";
import { type AddressInfo, createServer as createTcpServer, type Socket } from "node:net";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { useReplicas } from "./support/replicas.ts";
import { TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());
const replicas = useReplicas(stores, 3, ["acme", "beta"]);

const patiently = { timeout: 120_000, interval: 20 };
const PATH = "/v1/tenants/acme/mcp";
const EVENTS = "application/json, text/event-stream";

const opened: AsyncDisposable[] = [];
afterEach(async () => {
  for (const one of opened.splice(0).reverse()) await one[Symbol.asyncDispose]();
});

const deploy = async (name: string, source: string): Promise<void> => {
  const { status, body } = await (replicas.apis[0] as NonNullable<(typeof replicas.apis)[0]>)(
    ...(["POST", "/v1/tenants/acme/tools", { name, source, approve: true }] as const),
  );
  expect([status, body.error]).toEqual([201, undefined]);
};

async function createKey(tenant = "acme", scopes: readonly string[] = ["calls:run", "tools:read"]) {
  const [api] = replicas.apis;
  const { status, body } = await (api as NonNullable<typeof api>)<{ id: string; key: string }>(
    "POST",
    `/v1/tenants/${tenant}/keys`,
    { name: "mcp", scopes },
  );
  expect(status).toBe(201);
  return body;
}

let key = "";
beforeAll(async () => {
  await deploy("add", "export default ({ a, b }) => a + b;");
  await deploy(
    "ask",
    `export const capabilities = { elicit: true };
    export default async (_, ctx) => await ctx.elicit({ message: "Which?", requestedSchema: { type: "object", properties: { answer: { type: "string" } } } });`,
  );
  await deploy("wait", "export default () => new Promise(() => setTimeout(() => {}, 250_000));");
  await deploy("large", "export default ({ size }) => 'ä€😀'.repeat(size);");
  key = (await createKey()).key;
});

/** A fetch that sends each request to the next of these servers. */
function fetchFrom(order: readonly number[], seen: string[] = []): typeof fetch {
  let next = 0;
  return (input, init) => {
    const index = order[next % order.length] as number;
    next += 1;
    seen.push(`${init?.method ?? "GET"} ${index}`);
    const { pathname } = new URL(String(input));
    return fetch(`${replicas.servers[index]?.url}${pathname}`, init);
  };
}

async function connect(order: readonly number[], { path = PATH, seen = [] as string[] } = {}): Promise<Client> {
  const client = new Client({ name: "test", version: "1.0.0" }, { capabilities: { elicitation: {} } });
  client.setRequestHandler("elicitation/create", () => ({ action: "accept", content: { answer: "this one" } }));
  const transport = new StreamableHTTPClientTransport(new URL(`${replicas.servers[0]?.url}${path}`), {
    requestInit: { headers: { authorization: `Bearer ${key}` } },
    fetch: fetchFrom(order, seen),
  });
  await client.connect(transport as never);
  opened.push({ [Symbol.asyncDispose]: () => client.close() });
  return client;
}

interface Sent {
  readonly status: number;
  readonly session: string | null;
  readonly text: string;
}

/** Sends one message to a server. */
async function send(
  server: number,
  body: object | undefined,
  {
    session,
    as = key,
    method = "POST",
    path = PATH,
  }: { session?: string; as?: string; method?: string; path?: string } = {},
): Promise<Sent> {
  const response = await fetch(`${replicas.servers[server]?.url}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${as}`,
      accept: EVENTS,
      "mcp-protocol-version": "2025-11-25",
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...(session === undefined ? {} : { "mcp-session-id": session }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: response.status, session: response.headers.get("mcp-session-id"), text: await response.text() };
}

const INITIALIZE = {
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "test", version: "1.0.0" } },
};
const LIST = { jsonrpc: "2.0", id: 2, method: "tools/list" };
const callOf = (name: string, args: object, id: number | string = 3) => ({
  jsonrpc: "2.0",
  id,
  method: "tools/call",
  params: { name, arguments: args },
});

async function initialize(server: number, as = key): Promise<string> {
  const { status, session } = await send(server, INITIALIZE, { as });
  expect(status).toBe(200);
  return session as string;
}

describe("a client whose requests go to each server in turn", () => {
  test.for([PATH, "/v1/tenants/acme/code-mode/mcp"])("lists and calls tools at %s", async (path) => {
    const seen: string[] = [];
    const client = await connect([0, 1, 2], { path, seen });
    const { tools } = await client.listTools();
    if (path === PATH) {
      expect(tools.map(({ name }) => name)).toEqual(["add", "ask", "large", "wait"]);
      for (let count = 0; count < 4; count += 1) {
        const { content } = await client.callTool({ name: "add", arguments: { a: count, b: 1 } });
        expect(content).toEqual([{ type: "text", text: String(count + 1) }]);
      }
    } else expect(tools.map(({ name }) => name)).toContain("run_code");
    expect(new Set(seen.map((one) => one.split(" ")[1]))).toEqual(new Set(["0", "1", "2"]));
  });

  test("answers what a tool asks for during its call", async () => {
    const client = await connect([0, 1, 2, 1]);
    const { structuredContent, content } = await client.callTool({ name: "ask", arguments: {} });
    expect(JSON.stringify(structuredContent ?? content)).toContain("this one");
  });

  test("is told of a change of the tools", async () => {
    const client = await connect([1, 2]);
    let changes = 0;
    client.setNotificationHandler("notifications/tools/list_changed", () => {
      changes += 1;
    });
    await client.listTools();
    await deploy("add", "export default ({ a, b }) => b + a;");
    // The home notices the change with its next request.
    await expect
      .poll(async () => {
        await client.listTools();
        return changes;
      }, patiently)
      .toBeGreaterThan(0);
  });
});

describe("a session of another server", () => {
  test("has large results with each character whole", async () => {
    const session = await initialize(0);
    const { text } = await send(1, callOf("large", { size: 60_000 }), { session });
    expect(text).toContain("ä€😀".repeat(60_000));
  });

  test("is not found for another key, another tenant's key, and an unknown id", async () => {
    const session = await initialize(0);
    const other = await createKey();
    const beta = await createKey("beta");
    const unknown = session.replace(/\.[\da-f]{8}/, ".00000000");
    const none = `replica-00000000-0000-4000-8000-000000000000.${session.split(".")[1]}`;
    for (const server of [0, 1]) {
      expect((await send(server, LIST, { session, as: other.key })).status).toBe(404);
      expect((await send(server, LIST, { session, as: beta.key, path: "/v1/tenants/beta/mcp" })).status).toBe(404);
      expect((await send(server, LIST, { session: unknown })).status).toBe(404);
      expect((await send(server, LIST, { session: none })).status).toBe(404);
    }
    expect((await send(1, LIST, { session })).status).toBe(200);
  });

  test("is ended by a DELETE at any server", async () => {
    const session = await initialize(0);
    expect((await send(2, undefined, { session, method: "DELETE" })).status).toBe(200);
    for (const server of [0, 1, 2]) expect((await send(server, LIST, { session })).status).toBe(404);
  });

  test("accepts a notification, whose response has no body", async () => {
    const session = await initialize(0);
    const { status, text } = await send(1, { jsonrpc: "2.0", method: "notifications/initialized" }, { session });
    expect([status, text]).toEqual([202, ""]);
  });

  test("rejects what is no message, and a body that is too large, as its home does", async () => {
    const session = await initialize(0);
    for (const body of [{}, { jsonrpc: "2.0", id: 9 }, { ...LIST, method: "no/such" }]) {
      const [here, elsewhere] = [await send(0, body, { session }), await send(1, body, { session })];
      expect(elsewhere).toEqual(here);
    }
    const large = callOf("add", { text: "x".repeat(80 * 1_024 * 1_024) });
    expect((await send(1, large, { session })).status).toBe(413);
  });

  test("cancels a call at the request of its client", async () => {
    const session = await initialize(0);
    const [api] = replicas.apis;
    const running = async () =>
      (await (api as NonNullable<typeof api>)<{ items: unknown[] }>("GET", "/v1/tenants/acme/running-calls")).body.items
        .length;
    const stop = new AbortController();
    const calling = fetch(`${replicas.servers[1]?.url}${PATH}`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${key}`,
        accept: EVENTS,
        "mcp-session-id": session,
        "content-type": "application/json",
        "mcp-protocol-version": "2025-11-25",
      },
      body: JSON.stringify(callOf("wait", {})),
      signal: stop.signal,
    }).then((response) => response.text());
    calling.catch(() => {});
    await expect.poll(running, patiently).toBe(1);
    const cancel = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 3 } };
    expect((await send(2, cancel, { session })).status).toBe(202);
    await expect.poll(running, patiently).toBe(0);
    stop.abort();
  });

  test("ends its stream of notifications when its key is revoked", async () => {
    const own = await createKey();
    const session = await initialize(0, own.key);
    const response = await fetch(`${replicas.servers[1]?.url}${PATH}`, {
      headers: {
        authorization: `Bearer ${own.key}`,
        accept: "text/event-stream",
        "mcp-session-id": session,
        "mcp-protocol-version": "2025-11-25",
      },
    });
    expect([response.status, response.headers.get("content-type")]).toEqual([200, "text/event-stream"]);
    const [api] = replicas.apis;
    await (api as NonNullable<typeof api>)("DELETE", `/v1/tenants/acme/keys/${own.id}`);
    await response.text().catch(() => {});
    await expect.poll(async () => (await send(1, LIST, { session, as: own.key })).status, patiently).toBe(401);
  });
});

test("a call that waits for its client's next request ends when its key is revoked (2026-07-28)", async () => {
  const [api] = replicas.apis as [NonNullable<(typeof replicas.apis)[0]>];
  const running = async () =>
    (await api<{ items: unknown[] }>("GET", "/v1/tenants/acme/running-calls")).body.items.length;
  const own = await createKey();
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": { name: "test", version: "1.0.0" },
    "io.modelcontextprotocol/clientCapabilities": { elicitation: {} },
  };
  const response = await fetch(`${replicas.servers[0]?.url}${PATH}`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${own.key}`,
      accept: EVENTS,
      "content-type": "application/json",
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": "tools/call",
      "mcp-name": "ask",
    },
    body: JSON.stringify({ ...callOf("ask", {}), params: { name: "ask", arguments: {}, _meta } }),
  });
  expect(await response.json()).toMatchObject({ result: { resultType: "input_required" } });
  expect(await running()).toBe(1);
  await api("DELETE", `/v1/tenants/acme/keys/${own.id}`);
  await expect.poll(running, patiently).toBe(0);
});

describe("a home that lives by its row and does not answer", () => {
  const sessionOf = async (answer: ((socket: Socket) => void) | undefined): Promise<string> => {
    const id = `replica-${randomUUID()}`;
    const server = createTcpServer(answer);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    if (answer === undefined) await new Promise((resolve) => server.close(resolve));
    else opened.push({ [Symbol.asyncDispose]: async () => void server.close() });
    const { database: databaseUrl, dataDir } = replicas.store.options;
    await using database = await openDatabase({ url: databaseUrl, dataDir, onError() {} });
    const farAway = Date.now() + 3_600_000;
    const row = { id, version: "1.0.0", started_at: farAway, seen_at: farAway, url };
    await database.db.insertInto("replicas").values(row).execute();
    return `${id}.${randomUUID()}`;
  };

  test.for<readonly [string, ((socket: Socket) => void) | undefined]>([
    ["accepts no connection", undefined],
    ["breaks connections", (socket) => socket.destroy()],
    ["answers something else", (socket) => socket.end("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi")],
  ])("%s: a request of its sessions can be repeated", async ([, answer]) => {
    const session = await sessionOf(answer);
    const { status, text } = await send(0, LIST, { session });
    expect([status, JSON.parse(text)]).toEqual([
      503,
      {
        jsonrpc: "2.0",
        id: null,
        error: { code: -32_000, message: "The replica that has the session cannot be reached, or was lost" },
      },
    ]);
  });
});

// The last test, because it stops a server.
test("the sessions of a server that stops are not found, and those that it passes on end", async () => {
  const [ofFirst, ofLast] = [await initialize(0), await initialize(2)];
  const headers = { authorization: `Bearer ${key}`, accept: "text/event-stream", "mcp-protocol-version": "2025-11-25" };
  const streams = await Promise.all([
    fetch(`${replicas.servers[2]?.url}${PATH}`, { headers: { ...headers, "mcp-session-id": ofFirst } }),
    fetch(`${replicas.servers[1]?.url}${PATH}`, { headers: { ...headers, "mcp-session-id": ofLast } }),
  ]);
  expect(streams.map(({ status }) => status)).toEqual([200, 200]);
  await replicas.servers[2]?.close({ drainMs: 1_000 });
  // Their clients open others.
  for (const stream of streams) await stream.text().catch(() => {});
  await expect.poll(async () => (await send(0, LIST, { session: ofLast })).status, patiently).toBe(404);
  expect((await send(1, LIST, { session: ofFirst })).status).toBe(200);
});
