// Host and Origin headers of requests to a server that listens on every address of the machine.
import { request } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createServer, type Server } from "../../../src/server/index.ts";
import { TestStores } from "../support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

interface Answer {
  readonly status: number | undefined;
  readonly text: string;
}

function get(server: Server, path: string, headers: { readonly [name: string]: string }): Promise<Answer> {
  const { port } = new URL(server.url);
  return new Promise((resolve, reject) => {
    request({ host: "127.0.0.1", port, path, headers }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (part: string) => {
        text += part;
      });
      response.on("end", () => resolve({ status: response.statusCode, text }));
    })
      .on("error", reject)
      .end();
  });
}

const ADDRESSES = [
  ...["192.0.2.7", "192.0.2.7:7070", "0.0.0.0:7070", "[2001:db8::1]", "[2001:DB8::1]:7070", "[::ffff:c000:207]:80"],
];
const LOOPBACK = ["localhost", "LOCALHOST:7070", "127.0.0.1:1", "[::1]:7070"];
const NAMES = [
  ...["evil.example", "evil.example:7070", "192.0.2.7.evil.example", "evil.example.", "localhost.", "192.0.2.7."],
  ...["localhost.evil.example", "192.0.2", "127.1", "0x7f.0.0.1", "2130706433"],
];
/** Node's adapter answers them with 400. */
const MALFORMED = [
  ...["[192.0.2.7.evil.example]", "[::1", "::1]", "192.0.2.7:7070:7070", "192.0.2.7:x", "192.0.2.7@evil.example"],
  ...["192.0.2.7:123456", "[2001:db8::1].evil.example"],
];

describe.for([
  ["without names", [], { addresses: 200, names: 403 }],
  ["with names", ["tools.example.com"], { addresses: 403, names: 403 }],
] as const)("a server %s", ([, allowHosts, expected]) => {
  let server: Server;
  beforeAll(async () => {
    const { options } = await stores.create("sqlite");
    server = await createServer({
      ...options,
      port: 0,
      logLevel: "silent",
      host: "0.0.0.0",
      allowHosts: [...allowHosts],
    });
  });
  afterAll(() => server.close({ drainMs: 0 }));

  const statusOf = async (headers: { readonly [name: string]: string }) =>
    (await get(server, "/healthz", headers)).status;

  test.for(ADDRESSES)("answers the Host %s by the rule of addresses", async (host) => {
    expect(await statusOf({ host })).toBe(expected.addresses);
  });

  test.for(LOOPBACK)("accepts the Host %s", async (host) => {
    expect(await statusOf({ host })).toBe(200);
  });

  test.for(NAMES)("denies the Host %s, and says how to allow a name", async (host) => {
    const { status, text } = await get(server, "/healthz", { host });
    expect(status).toBe(403);
    expect(text).toContain("--allow-host NAME or GLOVEBOX_ALLOW_HOSTS");
  });

  test.for(MALFORMED)("denies the malformed Host %s", async (host) => {
    expect(await statusOf({ host })).toBe(400);
  });

  test.for(allowHosts)("accepts the name %s", async (name) => {
    expect([await statusOf({ host: name }), await statusOf({ host: `${name}:7070` })]).toEqual([200, 200]);
  });

  test("accepts a page of the same address only", async () => {
    const host = allowHosts[0] ?? "192.0.2.7:7070";
    expect(await statusOf({ host, origin: `http://${host}` })).toBe(200);
    for (const origin of [
      "http://192.0.2.8:7070",
      "http://192.0.2.7:7071",
      "http://evil.example",
      "http://127.0.0.1",
      "null",
    ])
      expect([origin, await statusOf({ host, origin })]).toEqual([origin, 403]);
  });

  test("answers requests over MCP by the same rule", async () => {
    const host = allowHosts[0] ?? "192.0.2.7:7070";
    const authorization = `Bearer ${server.adminKey}`;
    await fetch(`${server.url.replace("0.0.0.0", "127.0.0.1")}/v1/tenants`, {
      method: "POST",
      headers: { authorization, "content-type": "application/json" },
      body: JSON.stringify({ id: "acme" }),
    });
    for (const path of ["/v1/tenants/acme/mcp", "/v1/tenants/acme/code-mode/mcp"]) {
      const accept = "text/event-stream";
      const own = await get(server, path, { host, origin: `http://${host}`, authorization, accept });
      // The request names no session: the handler has read it.
      expect([path, own.status, own.text.includes("Host header")]).toEqual([path, 400, false]);
    }
  });
});
