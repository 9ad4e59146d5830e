// The server for DevTools against hostile clients: invalid data, floods, web pages, connections that stay open.

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { InspectorHub } from "../../src/host/inspector/inspector-hub.ts";
import { InspectorServer } from "../../src/host/inspector/inspector-server.ts";
import type { InspectedIsolate } from "../../src/host/workers/process/inspected-isolate.ts";
import { DevToolsClient } from "../support/devtools-client.ts";

class TestIsolate implements InspectedIsolate {
  isRunning = false;
  goes = 0;
  releases = 0;
  readonly received: { readonly id: number; readonly method: string }[] = [];
  send(text: string): void {
    this.received.push(JSON.parse(text));
  }
  /** The latest request other than the one that the hub repeats as long as the client waits for a response. */
  get latest(): { readonly id: number; readonly method: string } | undefined {
    return this.received.findLast(({ method }) => method !== "Runtime.getIsolateId");
  }
  go(): void {
    this.goes += 1;
  }
  setPaused(): void {}
  release(): void {
    this.releases += 1;
  }
}

let hub: InspectorHub;
let server: InspectorServer;
let sockets: (Socket | WebSocket)[] = [];
beforeEach(async () => {
  hub = new InspectorHub({ breakAtStart: false });
  server = await InspectorServer.open(hub, { port: 0, title: "tool.ts" });
});
afterEach(async () => {
  for (const socket of sockets) {
    if (socket instanceof WebSocket) socket.terminate();
    else socket.destroy();
  }
  sockets = [];
  await server[Symbol.asyncDispose]();
});

async function openRaw(): Promise<Socket> {
  const socket = connect({ port: Number(new URL(server.url).port), host: "127.0.0.1", allowHalfOpen: true });
  sockets.push(socket.on("error", () => {}));
  await once(socket, "connect");
  return socket;
}

async function openWebSocket(): Promise<WebSocket> {
  const socket = new WebSocket(server.url);
  sockets.push(socket.on("error", () => {}));
  await once(socket, "open");
  return socket;
}

const nested = (depth: number): string => "[".repeat(depth) + "]".repeat(depth);

/** Responses in order of arrival. */
async function answersOf(
  socket: WebSocket,
  count: number,
  send: () => void,
): Promise<{ id: number; error?: unknown }[]> {
  const answers: { id: number; error?: unknown }[] = [];
  const done = new Promise<void>((resolve) => {
    socket.on("message", (data) => {
      answers.push(JSON.parse(String(data)));
      if (answers.length === count) resolve();
    });
  });
  send();
  await done;
  return answers;
}

describe("the server for DevTools", () => {
  test.for([
    "Debugger.setBreakpointByUrl",
    "Debugger.setBlackboxPatterns",
    "Runtime.evaluate",
    "Debugger.enable",
    "No.such",
  ])("drops a %s that is nested too deeply to be serialized, and continues", async (method) => {
    const isolate = new TestIsolate();
    hub.onOpened(isolate);
    await using client = await DevToolsClient.connect(server.url);
    for (const depth of [301, 1_000_000]) {
      client.sendText(`{"id":1,"method":"${method}","params":{"patterns":${nested(depth)}}}`);
    }
    client.sendText('{"id":2,"method":"Runtime.enable"}');
    // The hub wakes an isolate that does not answer, with ids of its own.
    const ofClient = (): readonly number[] => isolate.received.map(({ id }) => id).filter((id) => id < 0x4000_0000);
    await expect.poll(ofClient).toEqual([2]);
    expect(client.isOpen).toBe(true);
  });

  test("answers requests beyond its limits with an error, with and without an isolate", async () => {
    const socket = await openWebSocket();
    const answers = await answersOf(socket, 3, () => {
      for (let id = 0; id < 1_002; id += 1) socket.send(JSON.stringify({ id, method: "Runtime.evaluate" }));
      socket.send(JSON.stringify({ id: 0, method: "Runtime.evaluate" }));
    });
    expect(answers.map(({ id }) => id)).toEqual([1_000, 1_001, 0]);
    expect(answers[0]).toMatchObject({ error: { code: -32_000 } });
    const isolate = new TestIsolate();
    hub.onOpened(isolate);
    expect(isolate.received).toHaveLength(1_000);
    hub.onMessage(isolate, JSON.stringify({ id: 7, result: {} }));
    expect(await answersOf(socket, 2, () => socket.send('{"id":8,"method":"x"}'))).toMatchObject([
      { id: 7, result: {} },
      { id: 8, error: { code: -32_000 } },
    ]);
    socket.send('{"id":7,"method":"again"}');
    await expect.poll(() => isolate.latest).toMatchObject({ id: 7, method: "again" });
  });

  test("queues at most 32 MiB for the next isolate", async () => {
    const socket = await openWebSocket();
    const expression = "x".repeat(7 * 1024 * 1024);
    const answers = await answersOf(socket, 2, () => {
      for (let id = 0; id < 6; id += 1)
        socket.send(JSON.stringify({ id, method: "Runtime.evaluate", params: { expression } }));
    });
    expect(answers.map(({ id }) => id)).toEqual([4, 5]);
  });

  test("does not repeat large requests to the next isolate", async () => {
    const socket = await openWebSocket();
    const first = new TestIsolate();
    hub.onOpened(first);
    const url = "x".repeat(100_000);
    for (let id = 0; id < 100; id += 1) {
      socket.send(JSON.stringify({ id, method: "Debugger.setBreakpointByUrl", params: { url, id } }));
    }
    socket.send('{"id":200,"method":"Runtime.enable"}');
    await expect.poll(() => first.latest?.id).toBe(200);
    const next = new TestIsolate();
    hub.onOpened(next);
    expect(next.received.map(({ method }) => method)).toEqual(["Runtime.enable"]);
  });

  test("disconnects a client that sends too large a message, and accepts the next one", async () => {
    const socket = await openWebSocket();
    socket.send("x".repeat(9 * 1024 * 1024));
    await expect.poll(() => hub.hasClient).toBe(false);
    await using client = await DevToolsClient.connect(server.url);
    expect(client.isOpen).toBe(true);
  });

  test.for([
    "file://",
    "null",
    "chrome-extension://abcdef",
    "moz-extension://abcdef",
    "https://evil.example",
    "http://127.0.0.1",
    "devtools://devtools.evil.example",
    "devtools://evil",
    "",
  ])("rejects the origin %j", async (origin) => {
    const { port } = new URL(server.url);
    const socket = await openRaw();
    socket.write(`GET /json/list HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nOrigin: ${origin}\r\n\r\n`);
    expect(String((await once(socket, "data"))[0])).toMatch(/^HTTP\/1\.1 403 /);
    await expect(DevToolsClient.connect(server.url, { Origin: origin })).rejects.toThrow("403");
  });

  test.for(["devtools://devtools", "chrome-devtools://devtools"])("accepts the origin %s", async (origin) => {
    await using client = await DevToolsClient.connect(server.url, { Origin: origin });
    expect(client.isOpen).toBe(true);
  });

  test("closes even if clients keep rejected, idle and unfinished connections open", async () => {
    const { port } = new URL(server.url);
    const rejected = await openRaw();
    rejected.write(
      `GET /nope HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${Buffer.alloc(16).toString("base64")}\r\n\r\n`,
    );
    await once(rejected, "data");
    const unfinished = await openRaw();
    unfinished.write("GET /json HTTP/1.1\r\nHost:");
    await openRaw();
    await openWebSocket();
    const closed = server[Symbol.asyncDispose]();
    await expect(
      Promise.race([closed.then(() => "closed"), once(AbortSignal.timeout(200_000), "abort")]),
    ).resolves.toBe("closed");
  });

  test("survives invalid HTTP and invalid handshakes", async () => {
    for (const text of [
      "\u0000\u0001\u0002\r\n\r\n",
      "GET\r\n\r\n",
      "GET / HTTP/1.1\r\n\r\n",
      `${"A".repeat(100_000)}\r\n\r\n`,
    ]) {
      const socket = await openRaw();
      socket.resume().write(text);
      await new Promise<unknown>((resolve) => socket.once("end", resolve).once("close", resolve));
      socket.destroy();
    }
    const bad = await openRaw();
    const path = new URL(server.url).pathname;
    bad.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`);
    expect(String((await once(bad, "data"))[0])).toMatch(/^HTTP\/1\.1 4/);
    await using client = await DevToolsClient.connect(server.url);
    expect(client.isOpen).toBe(true);
  });
});

test.for(["paused", "idle"])(
  "wakes an isolate that is %s until it has answered the client's requests",
  async (state) => {
    const isolate = new TestIsolate();
    const socket = await openWebSocket();
    hub.onOpened(isolate);
    const answered = answersOf(socket, 1, () => socket.send(JSON.stringify({ id: 1, method: "Debugger.resume" })));
    await expect.poll(() => isolate.latest?.method).toBe("Debugger.resume");
    // isolated-vm handles the request only when a later one arrives.
    if (state === "paused") hub.onMessage(isolate, JSON.stringify({ method: "Debugger.paused", params: {} }));
    await expect
      .poll(() => isolate.received.filter(({ method }) => method === "Runtime.getIsolateId").length)
      .toBeGreaterThan(1);
    hub.onMessage(isolate, JSON.stringify({ id: 1, result: {} }));
    expect(await answered.catch(() => [])).toBeDefined();
    hub.onMessage(isolate, JSON.stringify({ method: "Debugger.resumed", params: {} }));
    const count = isolate.received.length;
    hub.onClosed(isolate);
    expect(isolate.received).toHaveLength(count);
  },
);

test("the isolate of the next call replaces that of an ended call: requests that it has not answered fail, and its process may end", async () => {
  const [first, second] = [new TestIsolate(), new TestIsolate()];
  const socket = await openWebSocket();
  hub.onOpened(first);
  const [answer] = await answersOf(socket, 1, () => {
    socket.send(JSON.stringify({ id: 1, method: "Debugger.resume" }));
    setImmediate(async () => {
      await expect.poll(() => first.latest?.method).toBe("Debugger.resume");
      hub.onOpened(second);
    });
  });
  expect(answer).toMatchObject({ id: 1, error: { message: "The isolate has ended" } });
  expect([first.releases, second.releases, second.goes]).toEqual([1, 0, 1]);
});

test("a call next to an inspected one runs without inspection", async () => {
  const [first, second] = [new TestIsolate(), new TestIsolate()];
  first.isRunning = true;
  hub.onOpened(first);
  hub.onOpened(second);
  expect([first.releases, second.releases, second.goes]).toEqual([0, 1, 1]);
});
