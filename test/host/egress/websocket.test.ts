// WebSocket in tools, from end to end, against servers of the package `ws`. websocket-hostile.test.ts has servers that break the protocol.
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { stubCapability } from "../../../src/host/testing/index.ts";
import { onLoopback } from "../../support/egress.ts";
import { codeOf, errorOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";
import { echo, makeSocketTools, type SocketTools, serveWebSocket } from "../../support/websocket.ts";

let tools: SocketTools;
beforeAll(async () => {
  tools = await makeSocketTools();
});
afterAll(() => tools[Symbol.asyncDispose]());

/** The value that a tool's body returns. Default of `url`: no server. */
const outputFor = async (body: string, url = "ws://127.0.0.1:1"): Promise<unknown> =>
  outputOf(await tools.run(body, url));

describe("a tool's WebSocket", () => {
  test("exchanges text and bytes, and closes", async () => {
    const server = await serveWebSocket(echo, { handleProtocols: () => "chat" });
    const output = await outputFor(
      `const socket = new WebSocket(url + "/a?b=c", ["other", "chat"]);
       socket.binaryType = "arraybuffer";
       const before = [socket.readyState, socket.url.slice(url.length), socket.binaryType, socket.protocol, socket.extensions];
       const data = ["caf\\u00e9 \\ud83d\\ude00", new Uint8Array([1, 2, 3]), new Uint8Array([4, 5]).buffer, new Blob(["ab", "cde"]), 12];
       const events = await record(socket, {
         open: () => { for (const each of data) socket.send(each); },
         message: ({ data }) => { if (data === "12") socket.close(3_000, "bye"); },
       });
       return [before, events, socket.protocol, socket.readyState, socket.bufferedAmount];`,
      server.url,
    );
    expect(output).toEqual([
      [0, "/a?b=c", "arraybuffer", "", ""],
      ["open", "message: café 😀", "message: 3", "message: 2", "message: 5", "message: 12", "close: 3000 bye true"],
      "chat",
      3,
      0,
    ]);
    await vi.waitFor(() => expect(server.open()).toBe(0));
  });

  test("delivers Blobs by default, and events as in the standard", async () => {
    const server = await serveWebSocket((socket) => {
      socket.send(Buffer.from("bytes"));
      socket.close();
    });
    const output = await outputFor(
      `const socket = new WebSocket(url.replace("ws:", "http:"));
       const seen = [];
       socket.onmessage = (event) => seen.push([event instanceof MessageEvent, event.isTrusted, event.origin === url, event.data instanceof Blob, event.target === socket]);
       socket.binaryType = "nothing";
       await new Promise((resolve) => { socket.onclose = (event) => { seen.push([event instanceof CloseEvent, event.code, event.wasClean]); resolve(); }; });
       return [seen, socket.binaryType, socket.url === url + "/"];`,
      server.url,
    );
    expect(output).toEqual([
      [
        [true, true, true, true, true],
        [true, 1_005, true],
      ],
      "blob",
      true,
    ]);
  });

  test.for<[string, string, string]>([
    ["a relative URL", `new WebSocket("/path")`, "SyntaxError"],
    ["another scheme", `new WebSocket("ftp://127.0.0.1")`, "SyntaxError"],
    ["a fragment", `new WebSocket(url + "/#a")`, "SyntaxError"],
    ["an empty fragment", `new WebSocket(url + "/#")`, "SyntaxError"],
    ["no argument", `new WebSocket()`, "TypeError"],
    ["no new", `WebSocket(url)`, "TypeError"],
    ["a protocol that is not a token", `new WebSocket(url, "a b")`, "SyntaxError"],
    ["an empty protocol", `new WebSocket(url, "")`, "SyntaxError"],
    ["a protocol with a line break", `new WebSocket(url, "a\\r\\nx-injected: 1")`, "SyntaxError"],
    ["a protocol twice", `new WebSocket(url, ["a", "A"])`, "SyntaxError"],
    ["a URL that is a symbol", `new WebSocket(Symbol())`, "TypeError"],
    ["send before it is open", `new WebSocket(url).send("a")`, "InvalidStateError"],
    ["send without an argument", `new WebSocket(url).send()`, "TypeError"],
    ["a close code of the protocol's own", `new WebSocket(url).close(1_001)`, "InvalidAccessError"],
    ["a close code above the range", `new WebSocket(url).close(5_000)`, "InvalidAccessError"],
    ["a close code that is not a number", `new WebSocket(url).close("a")`, "InvalidAccessError"],
    ["a reason of 124 bytes", `new WebSocket(url).close(1_000, "\\u00e9".repeat(62))`, "SyntaxError"],
  ])("throws for %s", async ([, expression, name]) => {
    const output = await outputFor(
      `try { ${expression}; } catch (error) { return [error.name, error instanceof DOMException || error instanceof TypeError]; }`,
    );
    expect(output).toEqual([name, true]);
  });

  test("has the constants, members and attributes of the interface", async () => {
    const output = await outputFor(
      `const names = ["CONNECTING", "OPEN", "CLOSING", "CLOSED"];
       const socket = new WebSocket(url);
       const handlers = ["onopen", "onmessage", "onerror", "onclose"].map((name) => { socket[name] = 1; const first = socket[name]; const f = () => {}; socket[name] = f; return [first, socket[name] === f]; });
       try { structuredClone(socket); } catch (error) { handlers.push(error.name); }
       return [names.map((name) => [WebSocket[name], socket[name]]), Object.prototype.toString.call(socket), WebSocket.name, WebSocket.length, socket instanceof EventTarget, handlers,
         new CloseEvent("close", { code: 65_537, reason: "r", wasClean: 1 }).code];`,
    );
    expect(output).toEqual([
      [0, 1, 2, 3].map((value) => [value, value]),
      "[object WebSocket]",
      "WebSocket",
      1,
      true,
      [[null, true], [null, true], [null, true], [null, true], "DataCloneError"],
      1,
    ]);
  });

  test("closes before it is open with an error and 1006", async () => {
    const server = await serveWebSocket(() => {});
    const output = await outputFor(
      `const socket = new WebSocket(url);
       socket.close();
       const state = socket.readyState;
       return [state, await record(socket), socket.readyState];`,
      server.url,
    );
    expect(output).toEqual([2, ["error: Error: The WebSocket was closed before it was open", "close: 1006  false"], 3]);
    await vi.waitFor(() => expect(server.open()).toBe(0));
  });

  test("counts data after close() without sending it", async () => {
    const received: string[] = [];
    const server = await serveWebSocket((socket) => socket.on("message", (data) => received.push(String(data))));
    const output = await outputFor(
      `const socket = new WebSocket(url);
       const events = await record(socket, { open: () => { socket.send("first"); socket.close(1_000, "done"); socket.send("caf\\u00e9"); socket.close(3_000); } });
       socket.send("12");
       return [events, socket.bufferedAmount];`,
      server.url,
    );
    expect(output).toEqual([["open", "close: 1000 done true"], 7]);
    expect(received).toEqual(["first"]);
  });

  test("sends messages larger than one part, in order, and whole", async () => {
    const lengths: number[] = [];
    const server = await serveWebSocket((socket) => {
      socket.on("message", (data, isBinary) => {
        lengths.push((data as Buffer).length);
        socket.send(data, { binary: isBinary });
      });
    });
    const output = await outputFor(
      `const text = "\\ud83d\\ude00x".repeat(80_000);
       const bytes = new Uint8Array(700_000).map((_, index) => index);
       const socket = new WebSocket(url);
       socket.binaryType = "arraybuffer";
       const same = [];
       await record(socket, {
         open: () => { socket.send(text); socket.send(bytes); socket.send("end"); },
         message: ({ data }) => {
           if (data === "end") return socket.close();
           if (typeof data === "string") same.push(data === text);
           else { const got = new Uint8Array(data); same.push(got.length === bytes.length && got.every((byte, index) => byte === bytes[index])); }
         },
       });
       return [same, socket.bufferedAmount];`,
      server.url,
    );
    expect(output).toEqual([[true, true], 0]);
    expect(lengths).toEqual([400_000, 700_000, 3]);
  });

  test("runs the microtasks of a listener before the next message", async () => {
    const server = await serveWebSocket((socket) => {
      for (let index = 0; index < 50; index += 1) socket.send(String(index));
      socket.close();
    });
    const output = await outputFor(
      `const socket = new WebSocket(url);
       const next = () => new Promise((resolve) => socket.addEventListener("message", ({ data }) => resolve(data), { once: true }));
       const seen = [];
       for (let index = 0; index < 50; index += 1) seen.push(await next());
       return seen.join();`,
      server.url,
    );
    expect(output).toBe(Array.from({ length: 50 }, (_, index) => index).join());
  });

  test("sends given headers, as in Node.js, except those that only the host sets", async () => {
    const headers: unknown[] = [];
    const server = await serveWebSocket((socket, request) => {
      const { authorization, origin, cookie, "sec-websocket-extensions": extensions } = request.headers;
      headers.push([authorization, origin, cookie, extensions]);
      socket.close();
    });
    const output = await outputFor(
      `const connect = (headers) => record(new WebSocket(url, { protocols: [], headers }));
       return [await connect({ authorization: "Bearer 1" }), await connect({ "sec-websocket-key": "a" }), await connect({ host: "a" })];`,
      server.url,
    );
    const denied = (name: string, why: string): string =>
      `error: CAPABILITY_DENIED: Denied by the rule "headers" of the egress policy: a tool may not set "${name}": ${why}`;
    expect(output).toEqual([
      ["open", "close: 1005  true"],
      [denied("sec-websocket-key", "the host performs the handshake"), "close: 1006  false"],
      [denied("host", "the host sets it from the URL"), "close: 1006  false"],
    ]);
    expect(headers).toEqual([["Bearer 1", undefined, undefined, undefined]]);
  });

  test("reports how the server closed, and answers its pings", async () => {
    const pongs: string[] = [];
    const server = await serveWebSocket((socket) => {
      socket.on("pong", (data) => {
        pongs.push(String(data));
        socket.close(4_321, "café");
      });
      socket.ping("are you there");
    });
    expect(await outputFor("return await record(new WebSocket(url));", server.url)).toEqual([
      "open",
      "close: 4321 café true",
    ]);
    expect(pongs).toEqual(["are you there"]);
  });

  test("ends with 1006 when the connection breaks", async () => {
    const server = await serveWebSocket((socket) => socket.terminate());
    expect(await outputFor("return (await record(new WebSocket(url))).at(-1);", server.url)).toBe("close: 1006  false");
  });
});

describe("the rules of fetch", () => {
  test.for<[string, string, string]>([
    ["a host that no rule allows", "ws://example.com/", "CAPABILITY_DENIED"],
    ["cloud metadata", "ws://169.254.169.254/", "CAPABILITY_DENIED"],
    ["localhost by name", "ws://localhost:8080/", "CAPABILITY_DENIED"],
    ["another address of loopback", "ws://127.0.0.2:8080/", "CAPABILITY_DENIED"],
    ["credentials in the URL", "ws://user:pass@127.0.0.1:8080/", "CAPABILITY_DENIED"],
    ["a port that is not allowed", "ws://127.0.0.1:81/", "CAPABILITY_DENIED"],
    ["a port where nothing listens", "ws://127.0.0.1:1025/", "TOOL_FAILED"],
    ["a port that the Fetch standard blocks", "ws://127.0.0.1:6666/", "TypeError"],
  ])("apply to %s", async ([, url, code]) => {
    const events = (await outputFor("return await record(new WebSocket(url));", url)) as readonly string[];
    expect(events[0]).toMatch(new RegExp(`^error: ${code}: `));
    expect(events.slice(1)).toEqual(["close: 1006  false"]);
  });

  test("pin a name to the addresses that were checked", async () => {
    const server = await serveWebSocket((socket) => socket.close(1_000));
    let asked = 0;
    await using pinned = await makeSocketTools({
      allow: [...onLoopback("good.test"), "rebound.test"],
      ports: [server.port],
      resolve: () => {
        asked += 1;
        return ["127.0.0.1"];
      },
    });
    const body = "return await record(new WebSocket(url));";
    const to = (host: string): string => `ws://${host}:${server.port}`;
    expect(outputOf(await pinned.run(body, to("good.test")))).toEqual(["open", "close: 1000  true"]);
    expect(asked).toBe(1);
    const [denied] = outputOf(await pinned.run(body, to("rebound.test"))) as readonly string[];
    expect(denied).toContain('"rebound.test" resolves to an address that is not public (loopback)');
  });

  test("name the missing grant", async () => {
    await using glovebox = await makeGlovebox();
    for (const name of ["WebSocket", "EventSource"]) {
      await glovebox.addTool({ name, source: `export default () => { new ${name}("https://example.com"); }` });
      const error = errorOf(await glovebox.execute({ id: "c1", toolName: name, arguments: {} }));
      expect(error).toMatchObject({ code: "CAPABILITY_DENIED" });
      expect(error.message).toContain('"fetch"');
    }
  });

  test("pass the handshake to the call's hooks, which can modify or reject it", async () => {
    const seen: unknown[] = [];
    const server = await serveWebSocket((socket, request) => {
      socket.send(String(request.headers["x-hook"]));
      socket.close();
    });
    await using hooked = await makeSocketTools(
      {},
      {
        hooks: [
          {
            name: "handshakes",
            failClosed: true,
            capability: ({ input }) => {
              const { url, op, mode } = input as { url: string; op: string; mode: string };
              seen.push([op, mode, url.startsWith("http://127.0.0.1:")]);
              if (url.endsWith("/no")) throw new Error("not there");
              return { modify: { input: { ...(input as object), headers: [["x-hook", "was here"]] } } };
            },
          },
        ],
      },
    );
    const body = "return await record(new WebSocket(url));";
    expect(outputOf(await hooked.run(body, server.url))).toEqual(["open", "message: was here", "close: 1005  true"]);
    const [first] = outputOf(await hooked.run(body, `${server.url}/no`)) as readonly string[];
    expect(first).toMatch(/^error: /);
    expect(seen).toEqual([
      ["request", "websocket", true],
      ["request", "websocket", true],
    ]);
  });
});

describe("secrets", () => {
  test("are inserted in the query, headers, protocols and messages, and redacted in received data", async () => {
    const value = "sk-live-0123456789";
    const seen: string[] = [];
    const server = await serveWebSocket((socket, request) => {
      seen.push(request.url ?? "", request.headers.authorization ?? "");
      socket.on("message", (data, isBinary) => {
        seen.push(String(data));
        socket.send(data, { binary: isBinary });
        if (isBinary) socket.close(1_000, String(data));
      });
    });
    await using secret = await makeSocketTools(
      {},
      { secrets: { KEY: { value, hosts: [server.url.replace("ws:", "http:")] } } },
    );
    const result = await secret.run(
      `const key = await ctx.secrets.use("KEY");
       const socket = new WebSocket(url + "/?key=" + key, { protocols: ["realtime-" + key], headers: { authorization: "Bearer " + key } });
       socket.binaryType = "arraybuffer";
       const events = await record(socket, {
         open: () => { socket.send(JSON.stringify({ key })); socket.send(new TextEncoder().encode(key)); },
       });
       return [events, socket.protocol === "realtime-" + key];`,
      server.url,
    );
    expect(seen).toEqual([`/?key=${value}`, `Bearer ${value}`, JSON.stringify({ key: value }), value]);
    const shown = "[redacted:KEY]";
    expect(outputOf(result)).toEqual([
      ["open", `message: {"key":"${shown}"}`, `message: ${shown.length}`, `close: 1000 ${shown} true`],
      true,
    ]);
  });

  test("do not go to a server that they are not bound to", async () => {
    const server = await serveWebSocket(echo);
    const value = "sk-live-0123456789";
    await using secret = await makeSocketTools({}, { secrets: { KEY: { value, hosts: ["api.example.com"] } } });
    const result = await secret.run(
      `const key = await ctx.secrets.use("KEY");
       return await record(new WebSocket(url), { open: (socket) => socket.send(key) });`,
      server.url,
    );
    const [open, error, close] = outputOf(result) as readonly string[];
    expect([open, close]).toEqual(["open", "close: 1006  false"]);
    expect(error).toContain("the secret KEY is not bound to");
  });
});

describe("limits", () => {
  test("reject messages that are too large, both ways, and name the option", async () => {
    const codes: number[] = [];
    const server = await serveWebSocket((socket, request) => {
      socket.on("close", (code) => codes.push(code));
      if (request.url === "/down") socket.send("x".repeat(1_001));
    });
    await using small = await makeSocketTools({ requestBytes: 1_000, responseBytes: 1_000 });
    const down = outputOf(await small.run("return await record(new WebSocket(url));", `${server.url}/down`));
    expect(down).toEqual([
      "open",
      "error: QUOTA_EXCEEDED: A received message has more than 1000 bytes (egress.responseBytes)",
      "close: 1006  false",
    ]);
    expect(codes).toEqual([1_009]);
    const up = `return await record(new WebSocket(url), { open: (socket) => { socket.send("x".repeat(1_000)); socket.send("x".repeat(1_001)); } });`;
    expect(outputOf(await small.run(up, server.url))).toEqual([
      "open",
      "error: QUOTA_EXCEEDED: A sent message, with the values of secrets in it, has more than 1000 bytes (egress.requestBytes)",
      "close: 1006  false",
    ]);
  });

  test("bound the bytes that a call has received and sent", async () => {
    const server = await serveWebSocket((socket, request) => {
      if (request.url === "/flood") socket.on("message", () => socket.send("x".repeat(1_000)));
    });
    await using small = await makeSocketTools({ webSocketBytes: 10_000 });
    for (const [direction, send, path] of [
      ["received", "for (let i = 0; i < 20; i += 1) socket.send('more');", "/flood"],
      ["sent", "for (let i = 0; i < 20; i += 1) socket.send('x'.repeat(1_000));", "/"],
    ]) {
      const body = `return await record(new WebSocket(url), { open: (socket) => { ${send} } });`;
      const events = outputOf(await small.run(body, `${server.url}${path}`)) as readonly string[];
      const message = `The WebSockets of this call have ${direction} more than 10000 bytes (egress.webSocketBytes)`;
      expect(events.slice(-2)).toEqual([`error: QUOTA_EXCEEDED: ${message}`, "close: 1006  false"]);
    }
  });

  test("limit the open sockets, without counting closed ones", async () => {
    const server = await serveWebSocket(echo);
    const output = await outputFor(
      `const closed = [];
       const sockets = Array.from({ length: 60 }, () => new WebSocket(url));
       const ends = await Promise.all(sockets.map((socket) => new Promise((resolve) => { socket.onopen = () => resolve("open"); socket.onerror = ({ error }) => resolve(error.code); })));
       for (const socket of sockets) { if (socket.readyState === 1) { closed.push(new Promise((resolve) => { socket.onclose = resolve; })); socket.close(); } }
       await Promise.all(closed);
       const [again] = await record(new WebSocket(url), { open: (socket) => socket.close() });
       return [ends.filter((end) => end === "open").length, ends.filter((end) => end === "QUOTA_EXCEEDED").length, again];`,
      server.url,
    );
    expect(output).toEqual([50, 10, "open"]);
  });
});

describe("the end of a call", () => {
  const HOLD = `const socket = new WebSocket(url); await new Promise((resolve) => { socket.onopen = resolve; });`;

  test("closes its sockets when the tool has its result, whatever they still do", async () => {
    const server = await serveWebSocket((socket) => {
      const timer = setInterval(() => socket.send("more"), 5);
      socket.on("close", () => clearInterval(timer));
    });
    expect(await outputFor(`${HOLD} return "done";`, server.url)).toBe("done");
    await vi.waitFor(() => expect(server.open()).toBe(0));
  });

  test.for<[string, string, object]>([
    ["its CPU time", `${HOLD} for (;;);`, { limits: { cpuMs: 500 } }],
    [
      "its memory",
      `${HOLD} const all = []; for (;;) all.push(new Array(1e6).fill(all.length));`,
      { limits: { memoryMiB: 16 } },
    ],
  ])("closes its sockets when it ends by %s", async ([, body, more]) => {
    let connected = 0;
    const server = await serveWebSocket(() => {
      connected += 1;
    });
    await using own = await makeSocketTools({}, more);
    expect(codeOf(await own.run(body, server.url))).not.toBe("ok");
    expect(connected).toBe(1);
    await vi.waitFor(() => expect(server.open()).toBe(0));
  });

  test("closes its sockets when it ends by its timeout", async () => {
    let connected = 0;
    const server = await serveWebSocket(() => {
      connected += 1;
    });
    // The socket has to be open when the time is over, for which a busy machine takes longer.
    for (let timeoutMs = 500; connected === 0 && timeoutMs < 30_000; timeoutMs *= 2) {
      const result = await tools.run(`${HOLD} await new Promise(() => {});`, server.url, undefined, { timeoutMs });
      expect(codeOf(result)).toBe("TOOL_TIMEOUT");
    }
    expect(connected).toBe(1);
    await vi.waitFor(() => expect(server.open()).toBe(0));
  });

  test("a session's run that ends closes its sockets, and a later run gets an error", async () => {
    const server = await serveWebSocket(echo);
    const ports = [server.port];
    await using glovebox = await makeGlovebox({
      egress: { allow: onLoopback("127.0.0.1"), ports },
      tenancy: "multi",
      limits: { timeoutMs: 120_000 },
    });
    const session = await glovebox.openSession({ tenantId: "acme", grant: ["fetch"] });
    onTestFinished(() => session.close());
    const first = await session.run(
      `globalThis.events = []; globalThis.socket = new WebSocket("${server.url}");
       for (const name of ["open", "error", "close"]) socket.addEventListener(name, () => events.push(name));
       await new Promise((resolve) => socket.addEventListener("open", resolve)); events.join()`,
    );
    expect(first).toMatchObject({ success: true });
    await vi.waitFor(() => expect(server.open()).toBe(0));
    const second = await session.run(
      "while (socket.readyState !== 3) await new Promise((resolve) => setTimeout(resolve, 5)); events.join()",
    );
    expect(JSON.stringify(second)).toContain("open,error,close");
  });

  test("does not come before what the tool waits for", async () => {
    const server = await serveWebSocket((socket) => {
      setTimeout(() => socket.send("late"), 300);
    });
    const body = `const socket = new WebSocket(url); return await new Promise((resolve) => { socket.onmessage = ({ data }) => resolve(data); });`;
    expect(await outputFor(body, server.url)).toBe("late");
  });
});

test("a stub of fetch rejects WebSockets", async () => {
  await using glovebox = await makeGlovebox({ capabilities: [stubCapability("fetch", () => ({}))] });
  const source = `export default () => new Promise((resolve) => { new WebSocket("wss://example.com").onerror = ({ message }) => resolve(message); });`;
  await glovebox.addTool({ name: "connects", source }, { grant: ["fetch"] });
  const result = await glovebox.execute({ id: "c1", toolName: "connects", arguments: {} });
  expect(outputOf(result)).toContain("stub of fetch does not support WebSockets");
});

test("a failure without a listener is logged", async () => {
  const result = await tools.run(
    `const socket = new WebSocket(url); while (socket.readyState !== 3) await new Promise((resolve) => setTimeout(resolve, 5)); return 1;`,
    "ws://example.com/a?b",
  );
  expect(outputOf(result)).toBe(1);
  expect(JSON.stringify(result.logs)).toContain("The WebSocket to ws://example.com failed");
});
