// Compares node:http in a tool with Node's own, for the same server: responses, bodies, events and errors.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type HttpOrigin, type HttpProgram, openHttpOrigin } from "../../support/http-origin.ts";
import { withMoreTime } from "../../support/more-time.ts";

let server: HttpOrigin;
beforeAll(async () => {
  server = await openHttpOrigin();
});
afterAll(() => server[Symbol.asyncDispose]());

type Case = [why: string, program: HttpProgram];

async function expectLikeNode(program: HttpProgram): Promise<void> {
  const expected = await server.inNode(program);
  expect(await server.inTool(program)).toEqual(expected);
}

describe("a response of node:http", () => {
  test.for<Case>(
    ["joined", "chunked", "empty", "204", "304", "301", "500", "echo?a=b&c=%20", "unknown-coding"].map((path) => [
      path,
      // The path is part of the program's text.
      new Function(
        "parts",
        `return (async ({ http, origin }) => {
          const ignored = ["date", "connection", "keep-alive"];
          const response = await new Promise((resolve, reject) => http.get(origin + "/${path}", resolve).on("error", reject));
          const raw = [];
          for (let index = 0; index < response.rawHeaders.length; index += 2) {
            if (!ignored.includes(response.rawHeaders[index].toLowerCase())) raw.push(response.rawHeaders.slice(index, index + 2));
          }
          for (const name of ignored) delete response.headers[name];
          const { statusCode, statusMessage, httpVersion, headers, trailers, rawTrailers, method, url } = response;
          const distinct = { ...response.headersDistinct };
          for (const name of ignored) delete distinct[name];
          let body = "";
          for await (const chunk of response) body += chunk;
          return [statusCode, statusMessage, httpVersion, headers, Object.keys(headers), distinct, raw, trailers, rawTrailers, method, url, body, response.complete, response.readableEnded];
        })(parts)`,
      ) as HttpProgram,
    ]),
  )("%s", async ([, program]) => {
    await expectLikeNode(program);
  });

  test("a response of a HEAD request has the headers and no body", async () => {
    await expectLikeNode(async ({ http, origin }) => {
      const request = http.request(`${origin}/gzip`, { method: "HEAD" }).end();
      const response = await new Promise<import("node:http").IncomingMessage>((resolve) =>
        request.on("response", resolve),
      );
      let body = "";
      for await (const chunk of response) body += String(chunk);
      return [response.headers["content-length"], response.headers["content-encoding"], body, response.complete];
    });
  });

  test("is decoded by the host and has no headers of the encoded body", async () => {
    const read: HttpProgram = async ({ http, origin }) => {
      const response = await new Promise<import("node:http").IncomingMessage>((resolve) =>
        http.get(`${origin}/gzip`, resolve),
      );
      let body = "";
      for await (const chunk of response) body += String(chunk);
      return [body, response.headers["content-encoding"] ?? null, response.headers["content-length"] ?? null];
    };
    expect(await server.inTool(read)).toEqual(["zipped", null, null]);
  });

  test.for<Case>([
    [
      "is read in parts, with pauses, as far as the reader wants",
      async ({ http, origin }) => {
        const response = await new Promise<import("node:http").IncomingMessage>((resolve) =>
          http.get(`${origin}/large`, resolve),
        );
        let length = 0;
        let pauses = 0;
        response.on("data", (chunk: Uint8Array) => {
          length += chunk.length;
          if (pauses >= 5) return;
          pauses += 1;
          response.pause();
          setTimeout(() => response.resume(), 1);
        });
        await new Promise((resolve) => response.on("end", resolve));
        return [length, pauses];
      },
    ],
    [
      "passes through a pipeline",
      async ({ http, stream, origin }) => {
        const response = await new Promise<import("node:http").IncomingMessage>((resolve) =>
          http.get(`${origin}/large`, resolve),
        );
        let length = 0;
        const sink = new stream.Writable({
          highWaterMark: 1_000,
          write(chunk, _encoding, done) {
            length += chunk.length;
            setTimeout(done, 0);
          },
        });
        const error = await new Promise((resolve) => stream.pipeline(response, sink, resolve));
        return [length, error ?? null];
      },
    ],
    [
      "has text with setEncoding",
      async ({ http, origin }) => {
        const response = await new Promise<import("node:http").IncomingMessage>((resolve) =>
          http.get(`${origin}/chunked`, resolve),
        );
        response.setEncoding("utf8");
        // How many chunks there are depends on when they arrive.
        const types = new Set<string>();
        let text = "";
        response.on("data", (chunk) => {
          types.add(typeof chunk);
          text += chunk;
        });
        await new Promise((resolve) => response.on("end", resolve));
        return [[...types], text];
      },
    ],
    [
      "is discarded without a listener",
      async ({ http, origin }) => {
        const request = http.get(`${origin}/large`);
        await new Promise((resolve) => request.on("close", resolve));
        return [request.destroyed, request.aborted];
      },
    ],
    [
      "belongs to its request and has a socket that can be touched",
      async ({ http, origin }) => {
        const request = http.get(`${origin}/echo`);
        const response = await new Promise<import("node:http").IncomingMessage>((resolve) =>
          request.on("response", resolve),
        );
        const { socket } = response;
        socket.setKeepAlive(true).setNoDelay(true).ref().unref();
        const facts = [
          (response as unknown as { req: unknown }).req === request,
          socket === request.socket,
          socket.connecting,
          socket.destroyed,
          socket.writable,
          typeof socket.on,
        ];
        response.resume();
        return facts;
      },
    ],
  ])("%s", async ([, program]) => {
    await expectLikeNode(program);
  });
});

describe("a request of node:http", () => {
  test.for<Case>([
    [
      "sends method, path, headers and body",
      async ({ http, origin, port }) => {
        const send = (...args: unknown[]): Promise<unknown> =>
          new Promise((resolve, reject) => {
            const request = (http.request as (...args: unknown[]) => import("node:http").ClientRequest)(...args);
            request.on("error", reject).on("response", async (response) => {
              let text = "";
              for await (const chunk of response) text += String(chunk);
              resolve(JSON.parse(text));
            });
            const hasBody = ["POST", "PUT", "PATCH"].includes(request.method);
            if (hasBody) request.write("first ");
            request.end(hasBody ? Buffer.from("last \u00e9") : undefined);
          });
        const url = new URL(`${origin}/url?x=1#hash`);
        return [
          await send(`${origin}/text?x=%41`, {
            headers: { "X-Mine": "a", "x-list": ["b", "c"], cookie: ["d=1", "e=2"] },
          }),
          await send(url, { method: "post" }),
          await send({ host: "127.0.0.1", port: String(port), path: "/options", method: "PUT", auth: "user:pass" }),
          await send({ hostname: "127.0.0.1", host: "ignored.example", port, method: "DELETE" }),
          await send({
            protocol: "http:",
            host: "127.0.0.1",
            port,
            headers: ["A", "1", "B", "2", "Host", `127.0.0.1:${port}`],
          }),
          await send(`http://us%20er:p%40ss@127.0.0.1:${port}/credentials`),
          await send(origin, { method: "POST", headers: { "content-length": 13, connection: "close" } }),
          await send(origin, {
            method: "PATCH",
            headers: { "transfer-encoding": "chunked", "keep-alive": "timeout=5", te: "trailers" },
          }).then((sent) => (sent as { body: string }).body),
        ];
      },
    ],
    [
      "has its headers until they are sent",
      async ({ http, origin, port }) => {
        const request = http.request(`${origin}/echo`, { method: "POST", headers: { "X-A": "1" } });
        request.setHeader("X-B", ["2", "3"]).setHeader("x-c", 4);
        request.appendHeader("X-B", "4");
        request.setHeaders(new Map([["X-D", "5"]]));
        request.removeHeader("X-C");
        const seen = [
          request.getHeader("x-a"),
          request.getHeader("X-b"),
          request.hasHeader("x-c"),
          request.getHeaderNames(),
          request.getRawHeaderNames(),
          { ...request.getHeaders(), host: request.getHeader("host") === `127.0.0.1:${port}` },
          request.headersSent,
          [request.method, request.path, request.protocol, request.host, request.aborted],
        ];
        request.write("x");
        seen.push(request.headersSent);
        try {
          request.setHeader("late", "1");
        } catch (error) {
          seen.push((error as { code: string }).code, (error as Error).message);
        }
        request.end();
        await new Promise((resolve) => request.on("response", resolve));
        return seen;
      },
    ],
    [
      "streams a body with backpressure",
      async ({ http, stream, origin }) => {
        const request = http.request(`${origin}/count`, { method: "POST" });
        const counted = new Promise((resolve) =>
          request.on("response", async (response) => {
            let text = "";
            for await (const chunk of response) text += String(chunk);
            resolve(text);
          }),
        );
        const parts = function* () {
          for (let index = 0; index < 100; index += 1) yield Buffer.alloc(50_000, "a");
        };
        const error = await new Promise((resolve) => stream.pipeline(stream.Readable.from(parts()), request, resolve));
        return [await counted, error ?? null, request.writableFinished];
      },
    ],
    [
      "sends a large body at once",
      async ({ http, origin }) => {
        const request = http.request(`${origin}/count`, { method: "POST", headers: { "content-length": 5_000_000 } });
        request.end(Buffer.alloc(5_000_000, "a"));
        const response = await new Promise<import("node:http").IncomingMessage>((resolve) =>
          request.on("response", resolve),
        );
        let text = "";
        for await (const chunk of response) text += String(chunk);
        return text;
      },
    ],
    [
      "calls back for each write",
      async ({ http, origin }) => {
        const request = http.request(`${origin}/count`, { method: "POST" });
        const seen: string[] = [];
        request.on("response", (response) => response.resume());
        await new Promise<void>((resolve) => request.write("one", () => resolve()));
        seen.push("one");
        await new Promise<void>((resolve) => request.write("two", "utf8", () => resolve()));
        seen.push("two");
        await new Promise<void>((resolve) => request.end("three", () => resolve()));
        seen.push("three");
        await new Promise((resolve) => request.on("close", resolve));
        return seen;
      },
    ],
    [
      "continues after Expect: 100-continue",
      async ({ http, origin }) => {
        const request = http.request(`${origin}/count`, { method: "POST", headers: { expect: "100-continue" } });
        await new Promise((resolve) => request.on("continue", resolve));
        request.end("body");
        const response = await new Promise<import("node:http").IncomingMessage>((resolve) =>
          request.on("response", resolve),
        );
        let text = "";
        for await (const chunk of response) text += String(chunk);
        return text;
      },
    ],
    [
      "gets a response before its body is complete",
      async ({ http, origin }) => {
        const request = http.request(`${origin}/early`, { method: "POST" });
        request.on("error", () => {});
        request.write("first");
        const response = await new Promise<import("node:http").IncomingMessage>((resolve) =>
          request.on("response", resolve),
        );
        response.resume();
        await new Promise((resolve) => response.on("end", resolve));
        request.end("last");
        return response.statusCode;
      },
    ],
    [
      "waits for a free socket of its agent",
      async ({ http, origin }) => {
        const agent = new http.Agent({ keepAlive: true, maxSockets: 2 });
        let running = 0;
        let most = 0;
        const get = (): Promise<void> =>
          new Promise((resolve, reject) => {
            const request = http.get(`${origin}/chunked`, { agent }, (response) => response.resume());
            request.on("socket", () => {
              running += 1;
              most = Math.max(most, running);
            });
            request.on("error", reject).on("close", () => {
              running -= 1;
              resolve();
            });
          });
        await Promise.all(Array.from({ length: 6 }, get));
        agent.destroy();
        return [most, agent.maxSockets];
      },
    ],
    [
      "keeps the context of AsyncLocalStorage",
      async ({ http, origin }) => {
        const { AsyncLocalStorage } = process.getBuiltinModule("node:async_hooks");
        const storage = new AsyncLocalStorage<string>();
        const seen: unknown[] = [];
        await new Promise<void>((resolve) => {
          storage.run("own", () => {
            const request = http.get(`${origin}/echo`, (response) => {
              seen.push(storage.getStore());
              response.once("data", () => seen.push(storage.getStore())).resume();
              response.on("end", () => seen.push(storage.getStore()));
            });
            request.on("close", () => resolve());
          });
        });
        return seen;
      },
    ],
    [
      "can be constructed, extended and compared",
      ({ http, https, origin }) => {
        class Mine extends http.Agent {}
        const agent = new Mine({ timeout: 5, maxSockets: 3 });
        const callable = (http.Agent as unknown as () => import("node:http").Agent)();
        const request = new http.ClientRequest(`${origin}/echo`);
        request.on("error", () => {});
        request.destroy();
        return [
          agent instanceof http.Agent,
          (agent as unknown as { options: { timeout: number } }).options.timeout,
          callable instanceof http.Agent,
          request instanceof http.OutgoingMessage,
          new https.Agent() instanceof http.Agent,
          [http.globalAgent, https.globalAgent].map((each) => (each as unknown as { protocol: string }).protocol),
          agent.getName({ host: "a", port: 1, localAddress: "b" }),
          [http.Agent.name, https.Agent.name, http.ClientRequest.name, http.IncomingMessage.name],
          http.maxHeaderSize,
          http.STATUS_CODES[418],
          http.METHODS.includes("QUERY"),
        ];
      },
    ],
    [
      "lets an agent set headers when they become final",
      async ({ http, origin }) => {
        const calls: string[] = [];
        class Late extends http.Agent {
          addRequest(
            request: { _implicitHeader(): void; setHeader(name: string, value: string): void },
            ...rest: unknown[]
          ) {
            const implicit = request._implicitHeader.bind(request);
            request._implicitHeader = () => {
              calls.push("implicit");
              request.setHeader("x-late", "yes");
              implicit();
            };
            (http.Agent.prototype as unknown as { addRequest(...args: unknown[]): void }).addRequest.call(
              this,
              request,
              ...rest,
            );
          }
        }
        const send = (body?: string) =>
          new Promise<string>((resolve, reject) => {
            const request = http.request(`${origin}/echo`, { method: "POST", agent: new Late() }, async (response) => {
              let text = "";
              for await (const chunk of response) text += String(chunk);
              resolve(text);
            });
            request.on("error", reject);
            if (body !== undefined) request.write(body);
            request.end();
          });
        const texts = [await send(), await send("body")];
        return [
          calls,
          texts.map((text) => (JSON.parse(text) as { headers: { [name: string]: string } }).headers["x-late"]),
        ];
      },
    ],
  ])("%s", async ([, program]) => {
    await expectLikeNode(program);
  });
});

/** Records the events of a request and its response until the request is closed, or has timed out. */
const observe = (act: string, path: string, options = "{}"): HttpProgram =>
  new Function(
    "parts",
    `return (async ({ http, origin }) => {
      const controller = new AbortController();
      const events = [];
      const show = (name) => (value) => events.push(value instanceof Error ? name + ": " + [value.name, value.code, value.message] : name);
      const request = http.request(origin + "${path}", { agent: false, ...${options} });
      const over = new Promise((resolve) => request.on("timeout", resolve).on("close", () => setTimeout(resolve, 5)));
      for (const name of ["socket", "finish", "response", "error", "abort", "timeout", "close"]) request.on(name, show("request " + name));
      let onResponse = () => {};
      request.on("response", (response) => {
        for (const name of ["data", "end", "error", "aborted", "close"]) response.on(name, show("response " + name));
        onResponse(response);
      });
      ${act}
      await over;
      const state = [request.aborted, request.destroyed, request.res?.complete, request.writableEnded];
      request.destroy();
      return [events, state];
    })(parts)`,
  ) as HttpProgram;

describe("the events of a request of node:http are those of Node.js", () => {
  const END = "request.end();";
  test.for<Case>([
    ["response", observe(END, "/echo")],
    ["response of a POST", observe('request.write("a"); request.end("b");', "/echo", '{ method: "POST" }')],
    ["204", observe(END, "/204")],
    ["HEAD", observe(END, "/echo", '{ method: "HEAD" }')],
    ["server hangs up before the response", observe(END, "/drop")],
    [
      "server hangs up in the response",
      observe(`${END} onResponse = (response) => response.once("data", () => http.get(origin + "/cut-now"));`, "/cut"),
    ],
    ["destroy before the request is sent", observe("request.end(); request.destroy();", "/echo")],
    ["destroy with an error before it is sent", observe('request.end(); request.destroy(new Error("own"));', "/echo")],
    [
      "destroy while waiting",
      observe('request.end(); request.on("finish", () => setTimeout(() => request.destroy(), 20));', "/hang"),
    ],
    ["destroy in the response", observe("request.end(); onResponse = () => request.destroy();", "/part")],
    [
      "destroy with an error in the response",
      observe('request.end(); onResponse = () => request.destroy(new Error("own"));', "/part"),
    ],
    ["destroy of the response", observe("request.end(); onResponse = (response) => response.destroy();", "/part")],
    [
      "destroy of the response with an error",
      observe('request.end(); onResponse = (response) => response.destroy(new Error("own"));', "/part"),
    ],
    [
      "destroy of the socket",
      observe('request.end(); request.on("finish", () => setTimeout(() => request.socket.destroy(), 20));', "/hang"),
    ],
    [
      "destroy after the end",
      observe('request.end(); onResponse = (response) => response.on("end", () => request.destroy());', "/echo"),
    ],
    [
      "destroy of a body that never ends",
      observe('request.write("a"); setTimeout(() => request.destroy(), 20);', "/hang", '{ method: "POST" }'),
    ],
    ["abort before the request is sent", observe("request.end(); request.abort();", "/echo")],
    ["abort in the response", observe("request.end(); onResponse = () => request.abort();", "/part")],
    ["signal before the request", observe("request.end();", "/echo", "{ signal: AbortSignal.abort() }")],
    [
      "signal while waiting",
      observe(
        'request.end(); request.on("finish", () => setTimeout(() => controller.abort(), 20));',
        "/hang",
        "{ signal: controller.signal }",
      ),
    ],
    [
      "signal in the response",
      observe("request.end(); onResponse = () => controller.abort();", "/part", "{ signal: controller.signal }"),
    ],
    [
      "timeout in the response",
      observe(`${END} onResponse = (response) => response.once("data", () => request.setTimeout(50));`, "/part"),
    ],
  ])("%s", async ([, program]) => {
    await expectLikeNode(program);
  });

  test.for<[why: string, program: (ms: number) => HttpProgram]>([
    ["timeout while waiting", (ms) => observe(END, "/hang", `{ timeout: ${ms} }`)],
    ["setTimeout", (ms) => observe(`request.setTimeout(${ms}); request.end();`, "/hang")],
    [
      "destroy on timeout",
      (ms) => observe('request.end(); request.on("timeout", () => request.destroy());', "/hang", `{ timeout: ${ms} }`),
    ],
  ])("%s", async ([, program]) => {
    // The request has been sent when its time is over.
    await withMoreTime(600, async (ms) => await expectLikeNode(program(ms)));
  });
});

describe("the errors of node:http are those of Node.js", () => {
  test("errors for a server that does not listen, and a name that does not exist, are those of Node.js", async () => {
    const closed = await openHttpOrigin();
    const { port } = closed;
    await closed[Symbol.asyncDispose]();
    await using own = await openHttpOrigin([`http://127.0.0.1:${port}`, "http://no.invalid"]);
    const fail: HttpProgram = async (parts) => {
      const { http } = parts;
      const { closedPort } = parts as unknown as { readonly closedPort: number };
      const failureOf = (url: string): Promise<unknown> =>
        new Promise((resolve) =>
          http.get(url).on("error", (error) => {
            const { code, message, syscall, errno } = error as NodeJS.ErrnoException;
            const { address, port, hostname } = error as { address?: string; port?: number; hostname?: string };
            resolve({ code, message, syscall, errno, address, port, hostname });
          }),
        );
      return [await failureOf(`http://127.0.0.1:${closedPort}/`), await failureOf("http://no.invalid/")];
    };
    const expected = await own.inNode((parts) => fail({ ...parts, closedPort: port } as never));
    expect(await own.inTool(fail, { closedPort: port })).toEqual(expected);
  });

  test("errors for wrong arguments are those of Node.js", async () => {
    await expectLikeNode(({ http, https, origin }) => {
      const request = http.request as unknown as (...args: unknown[]) => import("node:http").ClientRequest;
      const attempts: (() => unknown)[] = [
        () => request("no url"),
        () => request("https://a.example/"),
        () => https.request("http://a.example/"),
        () => request({ protocol: "ftp:", host: "a.example" }),
        () => request(origin, { agent: 1 }),
        () => request(origin, { agent: {} }),
        () => request({ hostname: 1 }),
        () => request({ host: {} }),
        () => request(origin, { method: 1 }),
        () => request(origin, { method: "a b" }),
        () => request(origin, { method: "GET\r\nX: y" }),
        () => request(origin, { path: "/a b" }),
        () => request(origin, { path: "/a\r\nX: y" }),
        () => request(origin, { path: "/\u0100" }),
        () => request(origin, { headers: { "a b": "1" } }),
        () => request(origin, { headers: { "": "1" } }),
        () => request(origin, { headers: { "X\r\nY": "1" } }),
        () => request(origin, { headers: { a: "1\r\nX: y" } }),
        () => request(origin, { headers: { a: ["1", "2\n"] } }),
        () => request(origin, { headers: { a: "\u0100" } }),
        () => request(origin, { headers: { a: "\u0000" } }),
        () => request(origin, { headers: { a: undefined } }),
        () => request(origin, { headers: ["a", "1\r\nX: y"] }),
        () => request(origin, { timeout: "1" }),
        () => request(origin, { timeout: -1 }),
        () => http.validateHeaderName("a b"),
        () => http.validateHeaderValue("a", undefined as never),
        () => http.validateHeaderValue("a", "\r\n"),
      ];
      return attempts.map((attempt) => {
        try {
          attempt();
          return "no error";
        } catch (error) {
          const { name, code } = error as Error & { readonly code?: string };
          return [name, code];
        }
      });
    });
  });
});
