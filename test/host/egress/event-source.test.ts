// EventSource in tools, from end to end, against node:http. The parser has tests of its own: test/sandbox/contract/event-stream.test.ts.
import type { IncomingMessage, ServerResponse } from "node:http";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { serve, type TestServer } from "../../support/egress.ts";
import { outputOf } from "../../support/host-zone.ts";
import { makeSocketTools, type SocketTools } from "../../support/websocket.ts";

let tools: SocketTools;
beforeAll(async () => {
  tools = await makeSocketTools({}, { limits: { maxCapabilityCalls: 5_000 } });
});
afterAll(() => tools[Symbol.asyncDispose]());

const STREAM = { "content-type": "text/event-stream; charset=utf-8" };
/** Sends the parts, each once the one before has left, and ends. */
const stream = async (response: ServerResponse, ...parts: readonly (string | Buffer)[]): Promise<void> => {
  response.writeHead(200, STREAM);
  response.flushHeaders();
  for (const part of parts) await new Promise<unknown>((resolve) => response.write(part, resolve));
  response.end();
};

/** Collects the events of the source until their number is reached. */
const RECORD = `
  const watch = (source, count, names = ["open", "message", "error"]) => new Promise((resolve) => {
    const events = [];
    for (const name of names) source.addEventListener(name, (event) => {
      events.push(name + ":" + source.readyState + ":" + (name === "error" ? (event.error?.code ?? event.error?.name) : event.data ?? ""));
      if (events.length === count) resolve(events);
    });
  });`;
const outputFor = async (server: TestServer | string, body: string): Promise<unknown> =>
  outputOf(await tools.run(`${RECORD} ${body}`, typeof server === "string" ? server : server.origin));

describe("a tool's EventSource", () => {
  test("receives a stream's events, and closes", async () => {
    const seen: IncomingMessage["headers"][] = [];
    const server = await serve((request, response) => {
      seen.push(request.headers);
      response.writeHead(200, STREAM);
      response.write("\ufeffretry: 10\nid: 7\ndata: caf\u00e9\n\nevent: add\ndata: {}\n\n");
    });
    const output = await outputFor(
      server,
      `const source = new EventSource(url + "/a", { withCredentials: true });
       const before = [source.readyState, source.url === url + "/a", source.withCredentials];
       const details = [];
       source.onmessage = (event) => details.push([event instanceof MessageEvent, event.lastEventId, event.origin === url, event.isTrusted]);
       const events = await watch(source, 3, ["open", "message", "add"]);
       source.close();
       return [before, events, details, source.readyState];`,
    );
    expect(output).toEqual([[0, true, true], ["open:1:", "message:1:café", "add:1:{}"], [[true, "7", true, true]], 2]);
    expect(seen[0]).toMatchObject({ accept: "text/event-stream", "cache-control": "no-cache" });
    expect(seen[0]).not.toHaveProperty("cookie");
    await vi.waitFor(() => expect(server.open()).toBe(0));
  });

  test("connects again when the stream ends, with the last id, after the server's time", async () => {
    const ids: unknown[] = [];
    const server = await serve((request, response) => {
      ids.push(request.headers["last-event-id"]);
      void stream(response, `retry: 1\nid: caf\u00e9${ids.length}\ndata: ${ids.length}\n\nid: lost\ndata: cut off`);
    });
    const output = await outputFor(
      server,
      `const source = new EventSource(url); const events = await watch(source, 8); source.close(); return events;`,
    );
    const round = (index: number): readonly string[] => ["open:1:", `message:1:${index}`, "error:0:Error"];
    expect(output).toEqual([...round(1), ...round(2), ...round(3)].slice(0, 8));
    const asId = (index: number): string => Buffer.from(`caf\u00e9${index}`).toString("latin1");
    expect(ids.slice(0, 3)).toEqual([undefined, asId(1), asId(2)]);
  });

  test("a time that is longer than that of a timer does not make it connect at once", async () => {
    let requests = 0;
    const server = await serve((_, response) => {
      requests += 1;
      void stream(response, "retry: 99999999999999999999\ndata: a\n\n");
    });
    const output = await outputFor(
      server,
      `const source = new EventSource(url);
       const events = await watch(source, 3);
       await Promise.race([watch(source, 1), new Promise((done) => setTimeout(done, 300))]);
       source.close();
       return events;`,
    );
    expect([output, requests]).toEqual([["open:1:", "message:1:a", "error:0:Error"], 1]);
  });

  test("connects again when the connection breaks", async () => {
    const streams: ServerResponse[] = [];
    const server = await serve((request, response) => {
      if (request.url === "/break") {
        streams.at(-1)?.destroy();
        response.end();
        return;
      }
      streams.push(response);
      response.writeHead(200, STREAM);
      response.write(`retry: 1\ndata: ${streams.length}\n\n`);
    });
    // The tool breaks the stream once it has the message: a broken connection may lose data that is still on its way.
    const output = await outputFor(
      server,
      `const source = new EventSource(url);
       source.addEventListener("message", () => void fetch(url + "/break").catch(() => {}));
       const events = await watch(source, 5);
       source.close();
       return events;`,
    );
    expect(output).toEqual(["open:1:", "message:1:1", "error:0:TypeError", "open:1:", "message:1:2"]);
  });

  test.for<[string, number, Record<string, string>]>([
    ["another status", 500, STREAM],
    ["no content", 204, {}],
    ["another content type", 200, { "content-type": "text/plain" }],
    ["no content type", 200, {}],
    ["a content type that only begins so", 200, { "content-type": "text/event-streams" }],
  ])("closes for good at %s", async ([, status, headers]) => {
    let requests = 0;
    const server = await serve((_request, response) => {
      requests += 1;
      response.writeHead(status, headers).end(status === 204 ? undefined : "data: a\n\n");
    });
    const output = await outputFor(
      server,
      `const source = new EventSource(url); const [error] = await watch(source, 1); await new Promise((resolve) => setTimeout(resolve, 50)); return [error, source.readyState];`,
    );
    expect(output).toEqual(["error:2:Error", 2]);
    expect(requests).toBe(1);
  });

  test.for<[string, string, string]>([
    ["a host that no rule allows", "http://example.com/", "CAPABILITY_DENIED"],
    ["cloud metadata", "http://169.254.169.254/latest/meta-data/", "CAPABILITY_DENIED"],
    ["another address of loopback", "http://127.0.0.2:8080/", "CAPABILITY_DENIED"],
  ])("closes for good at %s", async ([, url, code]) => {
    const output = await outputFor(url, `return await watch(new EventSource(url), 1);`);
    expect(output).toEqual([`error:2:${code}`]);
  });

  test("follows a redirect under the rules of fetch", async () => {
    const server = await serve((request, response) => {
      if (request.url === "/ok") response.writeHead(307, { location: "/events" }).end();
      else if (request.url === "/bad") response.writeHead(307, { location: "http://10.0.0.1/" }).end();
      else void stream(response, "data: here\n\n");
    });
    const body = (path: string, count: number): string =>
      `const source = new EventSource(url + "${path}"); const events = await watch(source, ${count}); source.close(); return events;`;
    expect(await outputFor(server, body("/ok", 2))).toEqual(["open:1:", "message:1:here"]);
    expect(await outputFor(server, body("/bad", 1))).toEqual(["error:2:CAPABILITY_DENIED"]);
  });

  test("inserts and redacts secrets as fetch does", async () => {
    const value = "sk-live-0123456789";
    const server = await serve((request, response) => void stream(response, `data: ${request.url}\n\n`));
    await using secret = await makeSocketTools({}, { secrets: { KEY: { value, hosts: [server.origin] } } });
    const body = `${RECORD} const source = new EventSource(url + "/?key=" + await ctx.secrets.use("KEY")); const events = await watch(source, 2); source.close(); return events;`;
    expect(outputOf(await secret.run(body, server.origin))).toEqual(["open:1:", "message:1:/?key=[redacted:KEY]"]);
  });

  test("receives the same events wherever the stream is split", async () => {
    const text =
      "\ufeffid: 1\r\ndata: caf\u00e9 \ud83d\ude00\r\n\r\nevent: message\rdata: two\rdata: lines\r\r: c\n\ndata: last\n\n";
    const bytes = Buffer.from(text);
    const server = await serve((request, response) => {
      const cuts = (request.url ?? "").slice(1).split(",").map(Number);
      const parts = [0, ...cuts].map((from, index, all) => bytes.subarray(from, all[index + 1] ?? bytes.length));
      void stream(response, ...parts);
    });
    const cases = fc.sample(
      fc.uniqueArray(fc.integer({ min: 1, max: bytes.length - 1 }), { minLength: 1, maxLength: 12 }),
      60,
    );
    const paths = cases.map((cuts) => cuts.sort((a, b) => a - b).join(","));
    const output = await outputFor(
      server,
      `const all = new Set();
       for (const path of ${JSON.stringify(paths)}) {
         const source = new EventSource(url + "/" + path);
         all.add(JSON.stringify(await watch(source, 4)));
         source.close();
       }
       return [...all].map((each) => JSON.parse(each));`,
    );
    expect(output).toEqual([["open:1:", "message:1:café 😀", "message:1:two\nlines", "message:1:last"]]);
  });

  test.for<[string, string, string]>([
    ["a relative URL", `new EventSource("/a")`, "SyntaxError"],
    ["no argument", `new EventSource()`, "TypeError"],
    ["no new", `EventSource(url)`, "TypeError"],
    ["options that are not an object", `new EventSource(url, 1)`, "TypeError"],
  ])("throws for %s", async ([, expression, name]) => {
    const output = await outputFor("http://127.0.0.1:1", `try { ${expression}; } catch (error) { return error.name; }`);
    expect(output).toBe(name);
  });

  test("has the constants, members and attributes of the interface", async () => {
    const output = await outputFor(
      "http://127.0.0.1:1025",
      `const source = new EventSource(url);
       const handlers = ["onopen", "onmessage", "onerror"].map((name) => { const first = source[name]; const f = () => {}; source[name] = f; return [first, source[name] === f]; });
       source.close();
       return [["CONNECTING", "OPEN", "CLOSED"].map((name) => [EventSource[name], source[name]]), Object.prototype.toString.call(source), EventSource.name, handlers, source.readyState];`,
    );
    expect(output).toEqual([
      [
        [0, 0],
        [1, 1],
        [2, 2],
      ],
      "[object EventSource]",
      "EventSource",
      [
        [null, true],
        [null, true],
        [null, true],
      ],
      2,
    ]);
  });

  test("ends with its call", async () => {
    const server = await serve((_request, response) => {
      response.writeHead(200, STREAM);
      response.write("data: a\n\n");
    });
    expect(await outputFor(server, `await watch(new EventSource(url), 2); return "done";`)).toBe("done");
    await vi.waitFor(() => expect(server.open()).toBe(0));
  });

  test("is bounded by capability calls when a server ends every stream at once", async () => {
    let requests = 0;
    const server = await serve((_request, response) => {
      requests += 1;
      void stream(response, "retry: 0\n\n");
    });
    await using few = await makeSocketTools({}, { limits: { maxCapabilityCalls: 20 } });
    const body = `const source = new EventSource(url); return await new Promise((resolve) => { source.onerror = ({ error }) => { if (source.readyState === 2) resolve(error.code); }; });`;
    expect(outputOf(await few.run(body, server.origin))).toBe("QUOTA_EXCEEDED");
    expect(requests).toBeLessThanOrEqual(20);
  });
});
