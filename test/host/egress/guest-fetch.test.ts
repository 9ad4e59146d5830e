// The whole way: fetch() of a tool in the sandbox, through worker and broker, to a server on this machine.
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { onLoopback, serve } from "../../support/egress.ts";
import { codeOf, errorOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";

const SOURCE = `
  const steps = {
    json: async (url) => { const r = await fetch(url, { method: "POST", body: JSON.stringify({ a: 1 }), headers: { "content-type": "application/json" } }); return { status: r.status, ok: r.ok, url: r.url, redirected: r.redirected, type: r.headers.get("content-type"), body: await r.json() }; },
    up: async (url, n) => {
      let sent = 0;
      const body = new ReadableStream({ pull(c) { if (sent === n) return c.close(); sent += 1; c.enqueue(new Uint8Array(50_000).fill(97)); } });
      return await (await fetch(url, { method: "POST", body, duplex: "half" })).text();
    },
    down: async (url) => { let bytes = 0; let parts = 0; for await (const part of (await fetch(url)).body) { bytes += part.length; parts += 1; } return [bytes, parts > 1]; },
    caught: async (url) => { try { await fetch(url); return "ok"; } catch (e) { return [e.name, e.code ?? e.cause?.code ?? null, e.message]; } },
    uncaught: async (url) => (await fetch(url)).status,
    abort: async (url) => { try { await fetch(url, { signal: AbortSignal.timeout(200) }); return "ok"; } catch (e) { return e.name; } },
    left: async (url) => { const { body } = await fetch(url); body.getReader(); fetch(url).catch(() => {}); return "left"; },
  };
  export const capabilities = { fetch: true };
  export default ({ step, url, n }) => steps[step](url, n);`;

let glovebox: Glovebox;
beforeAll(async () => {
  const ports = Array.from({ length: 0xffff - 1_024 }, (_, index) => index + 1_025);
  glovebox = await makeGlovebox({
    tenancy: "multi",
    limits: { timeoutMs: 120_000 },
    egress: { allow: onLoopback("127.0.0.1"), ports, responseBytes: 5_000_000 },
    tenants: { shut: { egress: { allow: [] } } },
  });
  await glovebox.addTool({ name: "get", source: SOURCE }, { scope: "global", grant: ["fetch"] });
});
afterAll(() => glovebox.close());

const run = (
  step: string,
  url: string,
  more: { readonly n?: number; readonly tenantId?: string } = {},
): Promise<ToolResult> =>
  glovebox.execute(
    { id: "c1", toolName: "get", arguments: { step, url, n: more.n } },
    { tenantId: more.tenantId ?? "acme" },
  );

describe("fetch() in a tool", () => {
  test("posts and reads JSON, through a redirect", async () => {
    const server = await serve(async (request, response) => {
      if (request.url === "/") response.writeHead(307, { location: "/there" }).end();
      else response.setHeader("content-type", "application/json").end(await text(request));
    });
    expect(outputOf(await run("json", server.origin))).toEqual({
      status: 200,
      ok: true,
      url: `${server.origin}/there`,
      redirected: true,
      type: "application/json",
      body: { a: 1 },
    });
  });

  test("streams up and down, and more than its maxCapabilityCalls in parts", async () => {
    const server = await serve(async (request, response) => {
      if (request.method === "POST") response.end(String((await text(request)).length));
      else response.setHeader("content-encoding", "gzip").end(gzipSync(Buffer.alloc(3_000_000, "ab")));
    });
    expect(outputOf(await run("up", server.origin, { n: 100 }))).toBe("5000000");
    expect(outputOf(await run("down", server.origin))).toEqual([3_000_000, true]);
  });

  test.for<[string, string, unknown]>([
    ["an address that is not allowed", "http://10.0.0.1:8080/", "CAPABILITY_DENIED"],
    ["a host that is not allowed", "http://api.example.com/", "CAPABILITY_DENIED"],
    ["a port without a listener", "http://127.0.0.1:1025/", "ECONNREFUSED"],
  ])("is denied: %s", async ([, url, code]) => {
    const caught = outputOf(await run("caught", url)) as readonly unknown[];
    expect(caught.slice(0, 2)).toEqual([code === "ECONNREFUSED" ? "TypeError" : "CapabilityError", code]);
  });

  test("gives the call its code if the error is not caught, and another tenant has its own rules", async () => {
    const server = await serve((_request, response) => response.end("ok"));
    expect(codeOf(await run("uncaught", server.origin))).toBe("ok");
    const error = errorOf(await run("uncaught", server.origin, { tenantId: "shut" }));
    expect([error.code, error.message]).toEqual([
      "CAPABILITY_DENIED",
      expect.stringContaining('rule "allow" of the egress policy'),
    ]);
  });

  test("fetch() that is aborted, or left when the call ends, leaves no connection", async () => {
    const server = await serve((request, response) => {
      if (request.url === "/left") response.write("x");
    });
    expect(outputOf(await run("abort", `${server.origin}/never`))).toBe("TimeoutError");
    await vi.waitFor(() => expect(server.open()).toBe(0));
    const request = once(server.server, "request");
    expect(outputOf(await run("left", `${server.origin}/left`))).toBe("left");
    await request;
    await vi.waitFor(() => expect(server.open()).toBe(0));
  });
});
