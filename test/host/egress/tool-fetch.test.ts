// Requests and responses of a tool's fetch(), end to end. guest-fetch.test.ts covers the denied ones.
import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { gzipSync } from "node:zlib";
import { describe, expect, test, vi } from "vitest";
import type { ToolResult } from "../../../src/host/contract/tool-call.ts";
import { onLoopback, serve, type TestServer } from "../../support/egress.ts";
import { errorOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";

type Route = (request: IncomingMessage, response: ServerResponse) => unknown;

interface Setting {
  readonly server: TestServer;
  /** Runs a tool whose body is this text, with `origin` and `ctx`. */
  run(body: string): Promise<ToolResult>;
}

async function withServer(route: Route, use: (setting: Setting) => Promise<void>): Promise<void> {
  const server = await serve((request, response) => void route(request, response));
  await using glovebox = await makeGlovebox({
    egress: { allow: onLoopback(server.origin) },
    limits: { timeoutMs: 120_000 },
  });
  let count = 0;
  const run = async (body: string): Promise<ToolResult> => {
    count += 1;
    const toolName = `tool${count}`;
    const source = `export default async ({ origin }, ctx) => { ${body} }`;
    await glovebox.addTool({ name: toolName, source }, { grant: ["fetch"] });
    return await glovebox.execute({ id: "c1", toolName, arguments: { origin: server.origin } });
  };
  await use({ server, run });
}

describe("a tool's fetch()", () => {
  test("sends and receives the same as the fetch of Node.js", async () => {
    await withServer(
      async (request, response) => {
        const sent = (await buffer(request)).toString("latin1");
        const { accept, "content-type": type, "content-length": length, "x-mine": mine } = request.headers;
        response.setHeader("content-encoding", "gzip").setHeader("content-type", "application/json");
        response.writeHead(201, "Made");
        response.end(
          gzipSync(JSON.stringify({ method: request.method, url: request.url, accept, type, length, mine, sent })),
        );
      },
      async ({ run }) => {
        const result = await run(`
          const response = await fetch(origin + "/a?b=c d#e", { method: "put", body: new Uint8Array([0, 127, 128, 255]), headers: { "X-Mine": "caf\\u00e9" } });
          const { status, statusText, ok, url } = response;
          return { status, statusText, ok, path: url.slice(origin.length), ...(await response.json()) };`);
        expect(outputOf(result)).toEqual({
          status: 201,
          statusText: "Made",
          ok: true,
          path: "/a?b=c%20d",
          method: "PUT",
          url: "/a?b=c%20d",
          accept: "*/*",
          length: "4",
          mine: "café",
          sent: "\u0000\u007f\u0080\u00ff",
        });
      },
    );
  });

  test("does not send headers that restate what the host does, and denies others of their names", async () => {
    await withServer(
      async (request, response) => {
        const { host, connection, "content-length": length, "x-mine": mine } = request.headers;
        response.end(JSON.stringify({ host, connection, length, mine, sent: (await buffer(request)).toString() }));
      },
      async ({ run, server }) => {
        const host = new URL(server.origin).host;
        const sent = await run(`
          const headers = { Host: new URL(origin).host, "Content-Length": "3", Connection: "keep-alive", TE: "trailers", Expect: "100-continue", "x-mine": "1" };
          return await (await fetch(origin, { method: "POST", body: "abc", headers })).json();`);
        expect(outputOf(sent)).toEqual({ host, connection: "keep-alive", length: "3", mine: "1", sent: "abc" });
        for (const [name, value] of [
          ["host", "evil.test"],
          ["host", `${host}0`],
          ["content-length", "1, 2"],
          ["transfer-encoding", "gzip, chunked"],
          ["connection", "x-secret"],
          ["upgrade", "h2c"],
        ] as const) {
          const denied = await run(
            `await fetch(origin, { headers: { ${JSON.stringify(name)}: ${JSON.stringify(value)} } });`,
          );
          expect(denied).toMatchObject({ success: false, error: { code: "CAPABILITY_DENIED" } });
        }
      },
    );
  });

  test("sends a form that a server reads", async () => {
    await withServer(
      async (request, response) => {
        const headers = { "content-type": request.headers["content-type"] ?? "" };
        const form = await new Response(await buffer(request), { headers }).formData();
        const file = form.get("file") as File;
        response.end(JSON.stringify([form.get("name"), file.name, file.type, await file.text()]));
      },
      async ({ run }) => {
        const result = await run(`
          const form = new FormData();
          form.append("name", "caf\\u00e9");
          form.append("file", new Blob(["contents"], { type: "text/x" }), "f.txt");
          return await (await fetch(origin, { method: "POST", body: form })).json();`);
        expect(outputOf(result)).toEqual(["café", "f.txt", "text/x", "contents"]);
      },
    );
  });

  test("streams up and down at the same time", async () => {
    await withServer(
      (request, response) => {
        response.flushHeaders();
        request.pipe(response);
      },
      async ({ run }) => {
        const result = await run(`
          let send;
          const body = new ReadableStream({ start: (controller) => { send = controller; } });
          const text = new TextEncoder();
          send.enqueue(text.encode("first"));
          const response = await fetch(origin, { method: "POST", body, duplex: "half" });
          const reader = response.body.getReader();
          const seen = [];
          for (const next of ["second", "third", undefined]) {
            const { value } = await reader.read();
            seen.push(new TextDecoder().decode(value));
            if (next === undefined) send.close();
            else send.enqueue(text.encode(next));
          }
          return [seen, (await reader.read()).done];`);
        expect(outputOf(result)).toEqual([["first", "second", "third"], true]);
      },
    );
  });

  test("leaves a long response in the network until it is read", async () => {
    let sent = 0;
    await withServer(
      (_request, response) => {
        const parts = function* () {
          for (; sent < 64 * 1024 * 1024; sent += 64 * 1024) yield Buffer.alloc(64 * 1024);
        };
        return pipeline(Readable.from(parts()), response).catch(() => {});
      },
      async ({ run }) => {
        const result = await run(`
          const reader = (await fetch(origin)).body.getReader();
          const { value } = await reader.read();
          await new Promise((resolve) => setTimeout(resolve, 300));
          return value.length > 0;`);
        expect(outputOf(result)).toBe(true);
        expect(sent).toBeLessThan(32 * 1024 * 1024);
      },
    );
  });

  test("ends when its signal aborts, and so does its connection", async () => {
    await withServer(
      () => {},
      async ({ run, server }) => {
        const result = await run(`
          const stop = new AbortController();
          setTimeout(() => stop.abort(), 50);
          try { await fetch(origin, { signal: stop.signal }); } catch (error) { return error.name; }`);
        expect(outputOf(result)).toBe("AbortError");
        await vi.waitFor(() => expect(server.open()).toBe(0));
      },
    );
  });

  test("can be called more often than exchanges may be open, if the responses are short", async () => {
    await withServer(
      (_request, response) => response.end("short"),
      async ({ run }) => {
        const result = await run(`
          let good = 0;
          for (let index = 0; index < 60; index += 1) good += Number((await fetch(origin)).ok);
          return good;`);
        expect(outputOf(result)).toBe(60);
      },
    );
  });

  test.for([
    ["manual", { status: 302, redirected: false, path: "/", text: "" }],
    ["error", 'TypeError: fetch failed: Error: the server sent a redirect, and the request has redirect: "error"'],
  ] as const)("with redirect: %s", async ([redirect, expected]) => {
    await withServer(
      (request, response) => {
        if (request.url === "/there") response.end("arrived");
        else response.writeHead(302, { location: "/there" }).end();
      },
      async ({ run }) => {
        const result = await run(`
          try {
            const response = await fetch(origin + "/", { redirect: "${redirect}" });
            const { status, redirected, url } = response;
            return { status, redirected, path: url.slice(origin.length), text: await response.text() };
          } catch (error) { return error + ": " + error.cause; }`);
        expect(outputOf(result)).toEqual(expected);
      },
    );
  });

  test("throws a TypeError for a network failure, as in Node.js, and the call fails with TOOL_FAILED", async () => {
    await withServer(
      (request) => request.socket.destroy(),
      async ({ run }) => {
        const caught = await run(
          `try { await fetch(origin); } catch (error) { return [error.name, error.message, error.cause.code]; }`,
        );
        expect(outputOf(caught)).toEqual(["TypeError", "fetch failed", "UND_ERR_SOCKET"]);
        const { code, message } = errorOf(await run("await fetch(origin);"));
        expect([code, message]).toEqual([
          "TOOL_FAILED",
          "fetch failed: connection closed before the response was complete (UND_ERR_SOCKET)",
        ]);
        const changed = await run("await fetch(origin).catch((error) => { error.message = 'mine'; throw error; });");
        expect(errorOf(changed).message).toBe("mine");
      },
    );
  });
});
