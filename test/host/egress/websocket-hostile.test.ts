// Attacks by a server on a tool's WebSocket, and by a tool on the host's: broken handshakes, broken frames, floods, and silence.

import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { onLoopback, serve } from "../../support/egress.ts";
import { codeOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";
import {
  acceptText,
  makeSocketTools,
  type SocketTools,
  serveFrames,
  serveRaw,
  serveWebSocket,
} from "../../support/websocket.ts";

let tools: SocketTools;
/** Connections that have 500 ms to open. */
let quick: SocketTools;
beforeAll(async () => {
  tools = await makeSocketTools();
  quick = await makeSocketTools({ timeoutMs: 500 });
});
afterAll(async () => {
  await tools[Symbol.asyncDispose]();
  await quick[Symbol.asyncDispose]();
});

const RECORD_URL = "return await record(new WebSocket(url));";
const eventsOf = async (url: string, body = RECORD_URL): Promise<readonly string[]> =>
  outputOf(await tools.run(body, url)) as readonly string[];

/** An unmasked frame, as a server sends it. */
function frame(opcode: number, payload: Buffer | string, first = 0x80): Buffer {
  const bytes = Buffer.from(payload as string);
  const { length } = bytes;
  const head =
    length < 126 ? [length] : length < 0x1_0000 ? [126, length >> 8, length & 255] : [127, 0, 0, 0, 0, ...u32(length)];
  return Buffer.concat([Buffer.from([first | opcode, ...head]), bytes]);
}
const u32 = (value: number): number[] => [value >>> 24, (value >>> 16) & 255, (value >>> 8) & 255, value & 255];

const HEAD = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n";

describe("an invalid handshake", () => {
  test.for<[string, (request: string) => string, string]>([
    ["an ordinary answer", () => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "status 200"],
    ["a rejection", () => "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", "status 403"],
    [
      "a redirect",
      () => "HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n",
      "status 302 (WebSockets do not follow redirects)",
    ],
    ["no accept key", () => `${HEAD}\r\n`, "the Sec-WebSocket-Accept header is wrong"],
    [
      "a wrong accept key",
      () => `${HEAD}Sec-WebSocket-Accept: AAAA\r\n\r\n`,
      "the Sec-WebSocket-Accept header is wrong",
    ],
    [
      "the accept key twice",
      (request) => acceptText(request, [/Sec-WebSocket-Accept: .*/.exec(acceptText(request))?.[0] ?? ""]),
      "the Sec-WebSocket-Accept header is wrong",
    ],
    [
      "another protocol to go on in",
      (request) => acceptText(request).replace("Upgrade: websocket", "Upgrade: h2c"),
      "the Upgrade header is not websocket",
    ],
    [
      "an extension",
      (request) => acceptText(request, ["Sec-WebSocket-Extensions: permessage-deflate"]),
      "it uses extensions, but none were offered",
    ],
    [
      "a protocol",
      (request) => acceptText(request, ["Sec-WebSocket-Protocol: chat"]),
      "it chooses a protocol, but none were offered",
    ],
  ])("fails the connection: %s", async ([, answer, reason]) => {
    const server = await serveRaw((socket, request) => socket.write(answer(request)));
    expect(await eventsOf(server.url)).toEqual([
      `error: TOOL_FAILED: The exchange failed: invalid WebSocket handshake from the server: ${reason}`,
      "close: 1006  false",
    ]);
    await vi.waitFor(() => expect(server.open()).toBe(0));
  });

  test.for<[string, readonly string[], string]>([
    ["none of the protocols", [], "it chooses none of the offered protocols"],
    ["another protocol", ["Sec-WebSocket-Protocol: other"], "it chooses a protocol that was not offered"],
    ["a protocol in another case", ["Sec-WebSocket-Protocol: CHAT"], "it chooses a protocol that was not offered"],
    [
      "two protocols",
      ["Sec-WebSocket-Protocol: chat", "Sec-WebSocket-Protocol: more"],
      "it chooses more than one protocol",
    ],
  ])("fails the connection when protocols were offered: %s", async ([, headers, reason]) => {
    const server = await serveRaw((socket, request) => socket.write(acceptText(request, headers)));
    const [error] = await eventsOf(server.url, `return await record(new WebSocket(url, ["chat", "more"]));`);
    expect(error).toContain(reason);
  });

  test.for<[string, (socket: Socket) => void, RegExp]>([
    ["that is not HTTP", (socket) => socket.write("garbage\r\n\r\n"), /is not valid HTTP/],
    ["that breaks off", (socket) => socket.end("HTTP/1.1 101 Swi"), /closed before|is not valid HTTP/],
    ["that is reset", (socket) => socket.resetAndDestroy(), /reset|closed before/],
    [
      "with headers without end",
      (socket) => socket.write(`${HEAD}X-More: ${"a".repeat(40_000)}\r\n`),
      /headers are too large/,
    ],
  ])("fails the connection: an answer %s", async ([, answer, reason]) => {
    const server = await serveRaw((socket) => answer(socket));
    const events = await eventsOf(server.url);
    expect(events[0]).toMatch(reason);
    expect(events.at(-1)).toBe("close: 1006  false");
    await vi.waitFor(() => expect(server.open()).toBe(0));
  });

  test.for<[string, (socket: Socket) => void, RegExp]>([
    ["that never comes", () => {}, /did not open within 500 ms \(egress\.timeoutMs\)|no response in time/],
    [
      "that is put off for ever",
      (socket) => {
        const timer = setInterval(() => socket.write("HTTP/1.1 102 Processing\r\n\r\n"), 50);
        socket.on("close", () => clearInterval(timer));
      },
      /did not open within 500 ms/,
    ],
  ])("fails the connection at its limit: an answer %s", async ([, answer, reason]) => {
    const server = await serveRaw((socket) => answer(socket));
    const events = outputOf(await quick.run(RECORD_URL, server.url)) as readonly string[];
    expect(events[0]).toMatch(reason);
    expect(events.at(-1)).toBe("close: 1006  false");
    await vi.waitFor(() => expect(server.open()).toBe(0));
  });
});

describe("a frame that violates the protocol", () => {
  test.for<[string, Buffer, number, string]>([
    ["a masked one", Buffer.from([0x81, 0x81, 1, 2, 3, 4, 0x60]), 1_002, "is masked"],
    ["a compressed one", frame(1, "a", 0xc0), 1_002, "was not negotiated"],
    ["one with a reserved bit", frame(1, "a", 0x90), 1_002, "was not negotiated"],
    ["one with a reserved data opcode", frame(3, "a"), 1_002, "unknown opcode 3"],
    ["one with a reserved control opcode", frame(0xb, "a"), 1_002, "unknown opcode 11"],
    ["a ping of 126 bytes", Buffer.concat([Buffer.from([0x89, 126, 0, 126]), Buffer.alloc(126)]), 1_002, "longer than"],
    ["a close of 200 bytes", frame(8, Buffer.alloc(200)), 1_002, "longer than"],
    ["a fragmented ping", frame(9, "a", 0), 1_002, "control frame is fragmented"],
    ["a continuation of nothing", frame(0, "a"), 1_002, "has not begun"],
    ["a message within a message", Buffer.concat([frame(1, "a", 0), frame(1, "b")]), 1_002, "before the last one"],
    ["a length that could be shorter", Buffer.from([0x82, 126, 0, 5, 1, 2, 3, 4, 5]), 1_002, "shortest encoding"],
    [
      "a long length that could be shorter",
      Buffer.from([0x82, 127, 0, 0, 0, 0, 0, 0, 0, 1, 1]),
      1_002,
      "shortest encoding",
    ],
    ["half a close code", frame(8, "a"), 1_002, "incomplete code"],
    ["a close code that is never sent", frame(8, Buffer.from([0x03, 0xed])), 1_002, "invalid code 1005"],
    ["an unassigned close code", frame(8, Buffer.from([0x0b, 0xb7])), 1_002, "invalid code 2999"],
    ["a reason that is not UTF-8", frame(8, Buffer.from([0x03, 0xe8, 0xff])), 1_007, "not UTF-8"],
    ["text that is not UTF-8", frame(1, Buffer.from([0x61, 0xff])), 1_007, "not UTF-8"],
    ["text that ends within a character", frame(1, Buffer.from([0xc3])), 1_007, "not UTF-8"],
    ["text with half a surrogate pair", frame(1, Buffer.from([0xed, 0xa0, 0x80])), 1_007, "not UTF-8"],
    [
      "a length beyond all limits",
      Buffer.from([0x82, 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
      1_009,
      "egress.responseBytes",
    ],
    [
      "a message without end",
      Buffer.concat([frame(2, Buffer.alloc(1_000_000), 0), ...Array(40).fill(frame(0, Buffer.alloc(500_000), 0))]),
      1_009,
      "egress.responseBytes",
    ],
  ])("fails the connection, and tells the server why: %s", async ([, bytes, code, reason]) => {
    const answered = Promise.withResolvers<Buffer>();
    const server = await serveRaw((socket, request) => {
      socket.write(acceptText(request));
      socket.write(frame(1, "fine"));
      socket.write(bytes);
      const received: Buffer[] = [];
      socket.on("data", (chunk) => received.push(chunk as Buffer));
      socket.on("end", () => answered.resolve(Buffer.concat(received)));
    });
    const events = await eventsOf(server.url);
    expect(events.slice(0, 2)).toEqual(["open", "message: fine"]);
    expect(events[2]).toContain(reason);
    expect(events.slice(3)).toEqual(["close: 1006  false"]);
    const close = await answered.promise;
    expect(close[0]).toBe(0x88);
    const unmasked = [0, 1].map((index) => (close[6 + index] as number) ^ (close[2 + index] as number));
    expect(Buffer.from(unmasked).readUInt16BE()).toBe(code);
  });

  test("a message that arrives byte by byte, with pings between its parts, does not violate the protocol", async () => {
    const bytes = Buffer.concat([
      frame(1, "caf\u00c3".slice(0, 3), 0),
      frame(9, "p"),
      frame(0, Buffer.from([0xc3]), 0),
      frame(10, ""),
      frame(0, "", 0),
      frame(0, Buffer.from([0xa9])),
      frame(8, Buffer.from([0x03, 0xe8])),
    ]);
    const server = await serveRaw((socket, request) => {
      socket.setNoDelay(true);
      socket.write(acceptText(request));
      let at = 0;
      const timer = setInterval(() => {
        if (at < bytes.length) socket.write(bytes.subarray(at, at + 1));
        else clearInterval(timer);
        at += 1;
      }, 2);
      socket.on("close", () => clearInterval(timer));
    });
    expect(await eventsOf(server.url)).toEqual(["open", "message: café", "close: 1000  true"]);
  });

  test("a frame that violates the protocol does not discard complete messages before it", async () => {
    const server = await serveRaw((socket, request) => {
      const messages = Buffer.concat(Array.from({ length: 5 }, (_, index) => frame(1, String(index))));
      socket.write(Buffer.concat([Buffer.from(acceptText(request)), messages]));
      socket.end(Buffer.from([0x81, 0x05, 0x61]));
    });
    expect(await eventsOf(server.url)).toEqual([
      "open",
      ...Array.from({ length: 5 }, (_, index) => `message: ${index}`),
      "close: 1006  false",
    ]);
  });

  test("a reset within a message ends the connection without a wait for the rest", async () => {
    const server = await serveRaw((socket, request) => {
      socket.write(acceptText(request));
      socket.write(Buffer.from([0x81, 0x05, 0x61]), () => setTimeout(() => socket.resetAndDestroy(), 100));
    });
    expect((await eventsOf(server.url)).at(-1)).toBe("close: 1006  false");
  });
});

describe("a server that will not end", () => {
  test("is disconnected when it does not answer a close frame", async () => {
    const server = await serveFrames();
    const body = "return await record(new WebSocket(url), { open: (socket) => socket.close(1_000) });";
    expect(await eventsOf(server.url, body)).toEqual(["open", "close: 1006  false"]);
    await vi.waitFor(() => expect(server.open()).toBe(0));
  });

  test("is disconnected when it closes and leaves its connection open", async () => {
    const server = await serveRaw((socket, request) => {
      socket.write(acceptText(request));
      socket.write(frame(8, Buffer.from([0x03, 0xe8])));
      const timer = setInterval(() => socket.write(Buffer.alloc(65_536)), 5);
      socket.on("close", () => clearInterval(timer));
      socket.on("end", () => {});
    });
    expect(await eventsOf(server.url)).toEqual(["open", "close: 1000  true"]);
    await vi.waitFor(() => expect(server.open()).toBe(0));
  });

  test("has ended cleanly when it answers a close frame and leaves its connection open", async () => {
    const server = await serveRaw((socket, request) => {
      socket.write(acceptText(request));
      socket.once("data", () => {
        socket.write(frame(8, Buffer.from([0x03, 0xe8])));
        // It does not read that the other side has ended.
        socket.pause();
      });
    });
    const body = "return await record(new WebSocket(url), { open: (socket) => socket.close(1_000) });";
    expect(await eventsOf(server.url, body)).toEqual(["open", "close: 1000  true"]);
    await vi.waitFor(() => expect(server.open()).toBe(0));
  });

  test("has ended cleanly when it answers a close frame while the host is blocked", async () => {
    const server = await serveRaw((socket, request) => {
      socket.write(acceptText(request));
      socket.once("data", () => {
        // The time of the closing handshake is over when the host comes to read the answer.
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2_300);
        socket.write(frame(8, Buffer.from([0x03, 0xe8])));
      });
    });
    const body = "return await record(new WebSocket(url), { open: (socket) => socket.close(1_000) });";
    expect(await eventsOf(server.url, body)).toEqual(["open", "close: 1000  true"]);
  });

  test("is not read while the tool reads no messages", async () => {
    let sent = 0;
    const server = await serveRaw((socket, request) => {
      socket.write(acceptText(request));
      const message = frame(2, Buffer.alloc(64 * 1024));
      const more = (): void => {
        while (!socket.destroyed && sent < 256 * 1024 * 1024) {
          sent += message.length;
          if (!socket.write(message)) break;
        }
      };
      socket.on("drain", more);
      more();
    });
    const body = `const socket = new WebSocket(url);
      await new Promise((resolve) => { socket.onmessage = resolve; });
      const until = Date.now() + 700; while (Date.now() < until);
      return "done";`;
    expect(outputOf(await tools.run(body, server.url))).toBe("done");
    await vi.waitFor(() => expect(server.open()).toBe(0));
    expect(sent).toBeLessThan(64 * 1024 * 1024);
  });

  test.for<[string, Buffer]>([
    ["empty messages", Buffer.alloc(128 * 1024, frame(1, ""))],
    ["pings", Buffer.alloc(128 * 1024, frame(9, ""))],
    ["empty parts of a message", Buffer.concat([frame(1, "", 0), Buffer.alloc(128 * 1024, frame(0, "", 0))])],
  ])("does not block the host's event loop with a flood of %s", async ([, flood]) => {
    const server = await serveRaw((socket, request) => {
      socket.write(acceptText(request));
      const more = (): void => {
        while (!socket.destroyed && socket.write(flood));
      };
      socket.on("drain", more);
      // It reads none of the pongs.
      socket.pause();
      more();
    });
    const other = await serve((_request, response) => response.end("still here"));
    const stop = new AbortController();
    const running = tools.run("await record(new WebSocket(url));", server.url, undefined, { signal: stop.signal });
    await expect.poll(() => server.open()).toBe(1);
    // While that runs, the host goes on with other work.
    expect(outputOf(await tools.run("return await (await fetch(url)).text();", other.origin))).toBe("still here");
    stop.abort();
    expect(["CANCELLED", "QUOTA_EXCEEDED", "MEMORY_LIMIT", "CPU_LIMIT", "ok"]).toContain(codeOf(await running));
    await vi.waitFor(() => expect(server.open()).toBe(0));
  });

  test("a server that reads nothing stops the tool from sending more", async () => {
    const accepted: Socket[] = [];
    const server = await serveRaw((socket, request) => {
      socket.write(acceptText(request));
      socket.pause();
      accepted.push(socket);
    });
    const body = `const socket = new WebSocket(url);
      await new Promise((resolve) => { socket.onopen = resolve; });
      const part = "x".repeat(1_000_000);
      for (let i = 0; i < 40; i += 1) socket.send(part);
      await new Promise((resolve) => setTimeout(resolve, 500));
      const waiting = socket.bufferedAmount;
      for (let i = 0; i < 40; i += 1) socket.send(part);
      return [waiting > 10_000_000, socket.readyState >= 2, await record(socket)];`;
    const [isWaiting, isClosed, events] = outputOf(await tools.run(body, server.url)) as [boolean, boolean, string[]];
    expect([isWaiting, isClosed]).toEqual([true, true]);
    expect(events[0]).toContain("bytes are waiting to be sent");
    // Now it reads, and finds the end.
    for (const socket of accepted) socket.resume();
    await vi.waitFor(() => expect(server.open()).toBe(0));
  });
});

describe("a server that reads nothing", () => {
  test("does not keep a tool from closing, although much data waits to be sent", async () => {
    const server = await serveRaw((socket, request) => {
      socket.write(acceptText(request));
      socket.pause();
    });
    const body = `return await record(new WebSocket(url), { open: (socket) => {
      for (let i = 0; i < 30; i += 1) socket.send("x".repeat(1_000_000));
      socket.close(1_000);
    } });`;
    expect(await eventsOf(server.url, body)).toEqual(["open", "close: 1006  false"]);
  });

  test("receives one pong at a time, however many pings it sends", async () => {
    const warnings: string[] = [];
    const onWarning = ({ name, message }: Error): void => void warnings.push(`${name}: ${message}`);
    process.on("warning", onWarning);
    onTestFinished(() => void process.off("warning", onWarning));
    let first: Socket | undefined;
    const server = await serveRaw((socket, request) => {
      socket.write(acceptText(request));
      socket.pause();
      if (first === undefined) first = socket;
      else
        for (let i = 0; i < 60; i += 1) first.write(Buffer.concat([frame(9, "p"), frame(2, Buffer.alloc(64 * 1024))]));
    });
    // The second connection says that the first one's server takes no more.
    const body = `const socket = new WebSocket(url);
      let received = 0;
      const all = new Promise((resolve) => { socket.onmessage = () => { received += 1; if (received === 60) resolve(); }; });
      await new Promise((resolve) => { socket.onopen = resolve; });
      for (let i = 0; i < 30; i += 1) socket.send("x".repeat(1_000_000));
      for (let before = -1; before !== socket.bufferedAmount; ) {
        before = socket.bufferedAmount;
        await new Promise((resolve) => setTimeout(resolve, 300));
      }
      new WebSocket(url + "/go").onerror = () => {};
      await all;
      return received;`;
    expect(outputOf(await tools.run(body, server.url))).toBe(60);
    expect(warnings).toEqual([]);
  });
});

describe("a tool that attacks", () => {
  test("has no more than its capability calls, however many sockets it opens", async () => {
    const server = await serveWebSocket(() => {});
    const body = `const codes = new Map();
      const sockets = Array.from({ length: 1_000 }, () => new WebSocket(url));
      await Promise.all(sockets.map((socket) => new Promise((resolve) => {
        socket.onopen = () => { codes.set("open", (codes.get("open") ?? 0) + 1); resolve(); };
        socket.onerror = ({ error }) => { codes.set(error.code, (codes.get(error.code) ?? 0) + 1); resolve(); };
      })));
      return Object.fromEntries(codes);`;
    const output = outputOf(await tools.run(body, server.url)) as { readonly [code: string]: number };
    expect(output.open).toBeLessThanOrEqual(50);
    expect(output.QUOTA_EXCEEDED).toBeGreaterThanOrEqual(950);
    await vi.waitFor(() => expect(server.open()).toBe(0));
  });

  test("a tool that floods send fails by its own limits", async () => {
    const server = await serveWebSocket((socket) => socket.resume());
    await using own = await makeSocketTools({}, { limits: { memoryMiB: 16, timeoutMs: 30_000 } });
    const body = `const socket = new WebSocket(url);
      await new Promise((resolve) => { socket.onopen = resolve; });
      for (;;) socket.send("x");`;
    expect(["MEMORY_LIMIT", "TOOL_TIMEOUT", "CPU_LIMIT"]).toContain(codeOf(await own.run(body, server.url)));
    await vi.waitFor(() => expect(server.open()).toBe(0));
  });

  test.for<[string, string]>([
    ["the path", `new WebSocket(url + "/a\\r\\nx-injected: 1\\r\\n\\r\\n")`],
    ["the query", `new WebSocket(url + "/?a=\\r\\nx-injected: 1")`],
    ["a header's value", `new WebSocket(url, { headers: { a: "b\\r\\nx-injected: 1" } })`],
    ["a header's name", `new WebSocket(url, { headers: { "a\\r\\nx-injected": "1" } })`],
    ["a protocol", `new WebSocket(url, ["a\\r\\nx-injected: 1"])`],
    ["a protocol in a header", `new WebSocket(url, { headers: { "sec-websocket-protocol": "a\\r\\nx-injected: 1" } })`],
  ])("injects no header by %s", async ([, expression]) => {
    const seen: string[] = [];
    const server = await serveRaw((socket, request) => {
      seen.push(request);
      socket.end("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    });
    const body = `try { const socket = ${expression}; return await record(socket); } catch (error) { return error.name; }`;
    await tools.run(body, server.url);
    expect(seen.join("\n")).not.toMatch(/^x-injected/im);
  });

  test("cannot use ops of the one kind of exchange for the other", async () => {
    const { TestCall, rejectionOf } = await import("../../support/egress.ts");
    const server = await serve((_request, response) => response.end("text"));
    const call = new TestCall({ allow: onLoopback("127.0.0.1"), ports: [server.port] });
    await call.request(server.origin, { id: 1 });
    for (const op of [
      { op: "receive" },
      { op: "send", data: { text: "" }, isLast: true },
      { op: "close", reason: "" },
    ]) {
      expect(await rejectionOf(call.ask("fetch", { ...op, id: 1 }))).toMatchObject({ code: "PARAM_INVALID" });
    }
    const longReason = { op: "close", code: 1_000, reason: "\u00e9".repeat(62), id: 1 };
    expect((await rejectionOf(call.ask("fetch", longReason))).message).toContain("input of capability fetch");
    const socket = { op: "request", url: server.origin, headers: [], mode: "websocket" };
    const forms = [
      { method: "POST", body: null, redirect: "error" },
      { method: "GET", body: { base64: "" }, redirect: "error" },
      { method: "GET", body: null, redirect: "follow" },
    ];
    for (const [index, form] of forms.entries()) {
      expect(await rejectionOf(call.ask("fetch", { ...socket, ...form, id: 10 + index }))).toMatchObject({
        code: "PARAM_INVALID",
      });
    }
  });

  test("gets no connection after its call", async () => {
    const accepted: Socket[] = [];
    const server = createServer((socket) => {
      accepted.push(socket);
      socket.on("error", () => {});
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as { port: number };
    const asked = Promise.withResolvers<void>();
    const found = Promise.withResolvers<readonly string[]>();
    await using glovebox = await makeGlovebox({
      egress: {
        allow: onLoopback("slow.test"),
        ports: [port],
        resolve: () => {
          asked.resolve();
          return found.promise;
        },
      },
    });
    await glovebox.addTool(
      { name: "leaves", source: `export default ({ url }) => { new WebSocket(url); return 1; }` },
      { grant: ["fetch"] },
    );
    const url = `ws://slow.test:${port}`;
    expect(outputOf(await glovebox.execute({ id: "c", toolName: "leaves", arguments: { url } }))).toBe(1);
    await asked.promise;
    found.resolve(["127.0.0.1"]);
    // A connection would have been made by then. Its absence can only be awaited.
    await new Promise((resolve) => setTimeout(resolve, 300));
    server.close();
    for (const socket of accepted) socket.destroy();
    expect(accepted).toEqual([]);
  });
});
