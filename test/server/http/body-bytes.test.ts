// The bytes of request bodies that a server keeps: a tenant, and clients without a key, cannot use up its memory with them.
import { once } from "node:events";
import { connect } from "node:net";
import { OpenAPIHono } from "@hono/zod-openapi";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { BodyBytes, bodyLimitsOf } from "../../../src/server/http/body-bytes.ts";
import type { App, ServerDependencies } from "../../../src/server/http/context.ts";
import type { RequestError } from "../../../src/server/http/request-error.ts";
import { addOperationRoutes } from "../../../src/server/http/routes/operation.ts";
import { createServer, type Server } from "../../../src/server/index.ts";
import { apiOf } from "../support/api.ts";
import { type TestStore, TestStores } from "../support/stores.ts";

const MiB = 1024 * 1024;
const MAX_BODY_BYTES = 32 * MiB;
const stores = new TestStores();
let store: TestStore;
let server: Server;
let api: ReturnType<typeof apiOf>;
const keys: { [tenant: string]: string } = {};

beforeAll(async () => {
  store = await stores.create("sqlite");
  server = await createServer({ ...store.options, port: 0, logLevel: "silent", maxBodyBytes: MAX_BODY_BYTES });
  api = apiOf(server);
  const source = `export default async ({ wait }, { kv }) => {
    await kv.set("begun", wait === true ? "wait" : "run");
    for (let turn = 0; wait === true && turn < 3000 && (await kv.get("go")) === undefined; turn += 1)
      await new Promise((wake) => setTimeout(wake, 20));
    return 1;
  };
  export const capabilities = { kv: true };`;
  for (const id of ["acme", "beta"]) {
    expect((await api("POST", "/v1/tenants", { id })).status).toBe(201);
    const scopes = ["calls:run"];
    keys[id] = (await api<{ key: string }>("POST", `/v1/tenants/${id}/keys`, { name: "k", scopes })).body.key;
    expect((await api("POST", `/v1/tenants/${id}/tools`, { name: "count", source, approve: true })).status).toBe(201);
  }
});
afterAll(async () => {
  await server.close({ drainMs: 0 });
  await store[Symbol.asyncDispose]();
  await stores[Symbol.asyncDispose]();
});

const call = (tenant: string, input: object) =>
  apiOf(server, keys[tenant])<{ error?: { code: string; message: string } }>(
    "POST",
    `/v1/tenants/${tenant}/tools/count/calls`,
    { input },
  );
const large = { text: "x".repeat(2 * MiB) };

/** Sends all of a body but its last bytes. Returns the first answers that clients get who do so at the same time. */
function sendMost(count: number, path: string, key: string | undefined, bytes: number) {
  const { hostname, port, host } = new URL(server.url);
  const authorization = key === undefined ? [] : [`Authorization: Bearer ${key}`];
  const headers = [`Host: ${host}`, ...authorization, "Content-Type: application/json", `Content-Length: ${bytes}`];
  const sockets = Array.from({ length: count }, () => {
    const socket = connect(Number(port), hostname);
    socket.on("error", () => {});
    socket.write(`POST ${path} HTTP/1.1\r\n${headers.join("\r\n")}\r\n\r\n`);
    socket.write(Buffer.alloc(bytes - 8, 32));
    return socket;
  });
  const close = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  onTestFinished(close);
  const answered = Promise.race(sockets.map(async (socket) => String((await once(socket, "data"))[0])));
  return { answered, close };
}

describe("bodies that have not arrived", () => {
  test("of one tenant leave room for those of others, and are freed when their clients leave", async () => {
    const { answered, close } = sendMost(3, "/v1/tenants/acme/tools/count/calls", keys.acme, MAX_BODY_BYTES);
    expect(await answered).toMatch(/^HTTP\/1\.1 429 [\s\S]*retry-after: 1\r\n[\s\S]*RATE_LIMITED/);
    expect((await call("beta", large)).status).toBe(200);
    close();
    await vi.waitFor(async () => expect((await call("acme", large)).status).toBe(200), { timeout: 60_000 });
  });

  test("of triggers that do not exist count for no tenant", async () => {
    const { answered } = sendMost(80, `/hooks/trigger_${"0".repeat(26)}`, undefined, MiB);
    expect(await answered).toMatch(/^HTTP\/1\.1 429 /);
    expect((await call("acme", large)).status).toBe(200);
    expect((await api("POST", "/v1/console/sessions", { key: keys.acme })).status).toBe(201);
  });
});

test("bodies of calls that wait count until they are answered", async () => {
  const policy = { limits: { maxConcurrentCalls: 1 } };
  expect((await api("PATCH", "/v1/tenants/beta", { policy })).status).toBe(200);
  const waiting = async () =>
    (await api<{ waiting: { used: number } }>("GET", "/v1/tenants/beta/quotas")).body.waiting.used;
  const first = call("beta", { wait: true });
  const begun = "/v1/tenants/beta/kv/count/values/begun";
  await vi.waitFor(async () => expect((await api("GET", begun)).body.value).toBe("wait"), { timeout: 60_000 });
  const others = Array.from({ length: 8 }, () => call("beta", { text: "x".repeat(7.5 * MiB) }));
  await vi.waitFor(async () => expect(await waiting()).toBe(8), { timeout: 60_000 });
  expect((await call("beta", { text: "x".repeat(5 * MiB) })).status).toBe(429);
  expect((await call("acme", large)).status).toBe(200);
  expect((await api("PUT", "/v1/tenants/beta/kv/count/values/go", { value: true })).status).toBe(200);
  for (const one of [first, ...others]) expect((await one).status).toBe(200);
  expect((await call("beta", large)).status).toBe(200);
});

test("a sign-in to the console has a small body", async () => {
  const { status } = await api("POST", "/v1/console/sessions", { key: "x".repeat(2_000) });
  expect(status).toBe(413);
});

test("the bytes of all tenants are limited too, and what is disposed is free", () => {
  const bodies = new BodyBytes({ perTenant: 10, total: 15 });
  const code = (add: () => void): string | undefined => {
    try {
      add();
      return undefined;
    } catch (thrown) {
      return (thrown as RequestError).code;
    }
  };
  const [first, second] = [bodies.keep("acme"), bodies.keep("beta")];
  first.add(10);
  expect(code(() => first.add(1))).toBe("RATE_LIMITED");
  expect(code(() => second.add(6))).toBe("UNAVAILABLE");
  second.add(5);
  first[Symbol.dispose]();
  first[Symbol.dispose]();
  second.add(5);
  expect(code(() => second.add(1))).toBe("RATE_LIMITED");
  expect(bodyLimitsOf(64 * MiB)).toEqual({ perTenant: 128 * MiB, total: 512 * MiB });
});

test("the OpenAPI document is created once, because it can be requested without a key", async () => {
  const app: App = new OpenAPIHono();
  addOperationRoutes(app, { version: "1.0.0" } as ServerDependencies);
  const create = vi.spyOn(app, "getOpenAPI31Document");
  const texts: string[] = [];
  for (const path of ["/openapi.json", "/openapi.json", "/reference"])
    texts.push(await (await app.request(path)).text());
  expect(create).toHaveBeenCalledTimes(1);
  expect([texts[0], JSON.parse(texts[1] ?? "")]).toEqual([texts[1], expect.objectContaining({ openapi: "3.1.0" })]);
});
