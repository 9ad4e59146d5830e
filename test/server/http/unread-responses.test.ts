// Clients that do not read: what a server keeps for them is limited for each tenant, and their connections end.
import { once } from "node:events";
import { createServer as createHttpServer, type ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test, vi } from "vitest";
import { UnreadResponses } from "../../../src/server/http/unread-responses.ts";
import { createServer } from "../../../src/server/index.ts";
import { apiOf } from "../support/api.ts";
import { TestStores } from "../support/stores.ts";

const MiB = 1024 * 1024;
const UNREAD_MS = 1_000;

async function listen(server: ReturnType<typeof createHttpServer>): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

test.for([
  ["do not read its responses", ""],
  ["do not read large responses after small ones", "GET /v1/tenants/acme/tools"],
] as const)("a tenant whose clients %s gets 429, and the others are served", async ([, first]) => {
  await using stores = new TestStores();
  await using store = await stores.create("sqlite");
  await using server = await createServer({ ...store.options, port: 0, logLevel: "silent" });
  const api = apiOf(server);
  for (const id of ["acme", "beta"]) {
    expect((await api("POST", "/v1/tenants", { id })).status).toBe(201);
    const source = `export default () => "x".repeat(${7 * MiB})`;
    expect((await api("POST", `/v1/tenants/${id}/tools`, { name: "large", source, approve: true })).status).toBe(201);
  }
  const { hostname, port, host } = new URL(server.url);
  const lines = [`Host: ${host}`, `Authorization: Bearer ${server.adminKey}`, "Content-Type: application/json"];
  const path = "/v1/tenants/acme/tools/large/calls";
  const sockets = Array.from({ length: 24 }, () => {
    const socket = connect(Number(port), hostname).pause();
    socket.on("error", () => {});
    if (first !== "") socket.write(`${first} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`);
    socket.write(`POST ${path} HTTP/1.1\r\n${lines.join("\r\n")}\r\nContent-Length: 2\r\n\r\n{}`);
    return socket;
  });
  const close = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  onTestFinished(close);
  const tools = (id: string) => api<{ error?: { message: string } }>("GET", `/v1/tenants/${id}/tools`);
  await vi.waitFor(
    async () => {
      const { status, headers, body } = await tools("acme");
      expect([status, headers.get("retry-after")]).toEqual([429, "1"]);
      expect(body.error?.message).toContain("have not read");
    },
    { timeout: 60_000, interval: 100 },
  );
  expect((await tools("beta")).status).toBe(200);
  close();
  await vi.waitFor(async () => expect((await tools("acme")).status).toBe(200), { timeout: 60_000, interval: 100 });
});

test("a connection ends if its client reads nothing, and not while its request is being answered", async () => {
  const server = createHttpServer(async ({ url }, response) => {
    if (url === "/large") return void response.end(Buffer.alloc(64 * MiB));
    await sleep(UNREAD_MS * 2);
    response.end("late");
  });
  new UnreadResponses({ unreadMs: UNREAD_MS, perTenant: MiB }).watch(server);
  const port = await listen(server);
  expect(await (await fetch(`http://127.0.0.1:${port}/late`)).text()).toBe("late");
  const connected = once(server, "connection");
  const client = connect(port, "127.0.0.1").pause();
  client.on("error", () => {});
  onTestFinished(() => void client.destroy());
  client.write("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const [socket] = await connected;
  await once(socket, "close");
  expect(client.readyState).toBe("open");
});

/** Sends requests in one segment, before any response. */
function pipeline(port: number, ...paths: readonly string[]): Socket {
  const client = connect(port, "127.0.0.1");
  client.on("error", () => {});
  onTestFinished(() => void client.destroy());
  client.write(paths.map((path) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`).join(""));
  return client;
}

test("a response that waits for an earlier one on its connection counts for its tenant", async () => {
  const unread = new UnreadResponses({ unreadMs: 60_000, perTenant: MiB });
  const responses: ServerResponse[] = [];
  const server = createHttpServer(({ url }, response) => {
    unread.begin(response, "acme");
    responses.push(response);
    if (url === "/large") response.end(Buffer.alloc(2 * MiB));
  });
  unread.watch(server);
  const client = pipeline(await listen(server), "/pending", "/large");
  await vi.waitFor(() => expect(responses).toHaveLength(2), { timeout: 60_000 });
  const [pending, large] = responses;
  if (pending === undefined || large === undefined) throw new Error("No responses");
  expect(() => unread.begin(large, "acme")).toThrow("have not read");
  unread.begin(large, "beta");
  pending.end();
  client.resume();
  await once(large, "close");
  unread.begin(large, "acme");
});

test("a connection stays open while a later request is being answered", async () => {
  const server = createHttpServer(async ({ url }, response) => {
    if (url === "/late") await sleep(UNREAD_MS * 2);
    response.end(url);
  });
  new UnreadResponses({ unreadMs: UNREAD_MS, perTenant: MiB }).watch(server);
  const client = pipeline(await listen(server), "/first", "/late");
  let received = "";
  client.setEncoding("utf8").on("data", (text: string) => {
    received += text;
  });
  await vi.waitFor(() => expect(received).toContain("/late"), { timeout: 60_000 });
});
