// Tests the npm package `ws` in a tool: its client uses the sandbox's WebSocket, all other parts are the package's own.
import { afterAll, beforeAll, expect, test } from "vitest";
import { outputOf } from "../support/host-zone.ts";
import { acceptText, echo, makeSocketTools, type SocketTools, serveRaw, serveWebSocket } from "../support/websocket.ts";

let tools: SocketTools;
beforeAll(async () => {
  tools = await makeSocketTools({}, { bundler: { packagesDir: process.cwd() } });
});
afterAll(() => tools[Symbol.asyncDispose]());

test("exchanges messages through the events of the package", async () => {
  const headers: unknown[] = [];
  const server = await serveWebSocket(
    (socket, request) => {
      headers.push([request.headers.authorization, request.headers.origin]);
      echo(socket);
    },
    { handleProtocols: () => "realtime" },
  );
  const result = await tools.run(
    `const socket = new WebSocket(url, ["realtime"], { headers: { Authorization: "Bearer 1" }, origin: "https://a.example" });
     const events = [];
     socket.on("open", () => { events.push("open"); socket.send("text"); socket.send(Buffer.from([1, 2]), (error) => events.push("sent " + error)); });
     socket.on("message", (data, isBinary) => { events.push([Buffer.isBuffer(data), isBinary, data.length]); if (isBinary) socket.close(1000, "bye"); });
     await new Promise((resolve) => socket.on("close", (code, reason) => { events.push([code, reason.toString()]); resolve(); }));
     return [events, socket.protocol, socket.readyState === WebSocket.CLOSED, typeof WebSocketServer, typeof Receiver];`,
    server.url,
    `import WebSocket, { WebSocketServer, Receiver } from "ws";`,
  );
  expect(outputOf(result)).toEqual([
    ["open", "sent undefined", [true, false, 4], [true, true, 2], [1_000, "bye"]],
    "realtime",
    true,
    "function",
    "function",
  ]);
  expect(headers).toEqual([["Bearer 1", "https://a.example"]]);
});

test("closes at once with terminate, regardless of unsent data", async () => {
  const server = await serveRaw((socket, request) => {
    socket.write(acceptText(request));
    socket.pause();
  });
  const result = await tools.run(
    `const socket = new WebSocket(url);
     await new Promise((resolve) => socket.once("open", resolve));
     const events = [];
     socket.on("error", () => events.push("error"));
     const closed = new Promise((resolve) => socket.on("close", (code) => { events.push(code); resolve(); }));
     for (let i = 0; i < 30; i += 1) socket.send("x".repeat(1_000_000));
     socket.terminate();
     await closed;
     return [events, socket.readyState];`,
    server.url,
    `import { WebSocket } from "ws";`,
  );
  expect(outputOf(result)).toEqual([[1_006], 3]);
});

test("supports web events, pings and pauses, and reports failures", async () => {
  const server = await serveWebSocket((socket) => {
    socket.send("one");
    socket.send("two");
  });
  const result = await tools.run(
    `const socket = new WebSocket(url);
     const seen = [];
     socket.onmessage = ({ data, target }) => seen.push([data, target === socket]);
     socket.addEventListener("open", () => seen.push("open"), { once: true });
     await new Promise((resolve) => socket.once("open", resolve));
     socket.pause();
     await new Promise((resolve) => setTimeout(resolve, 100));
     seen.push("paused", socket.isPaused);
     socket.resume();
     while (seen.length < 5) await new Promise((resolve) => setTimeout(resolve, 5));
     const pong = new Promise((resolve) => socket.on("pong", (data) => resolve(data.toString())));
     socket.ping("p");
     seen.push(await pong);
     socket.terminate();
     const failed = new WebSocket("ws://example.com");
     const error = await new Promise((resolve) => failed.on("error", resolve));
     let thrown;
     try { new WebSocket("ftp://example.com"); } catch (e) { thrown = e.name; }
     return [seen, error instanceof Error, error.code, thrown];`,
    server.url,
    `import { WebSocket } from "ws";`,
  );
  expect(outputOf(result)).toEqual([
    ["open", "paused", true, ["one", true], ["two", true], "p"],
    true,
    "CAPABILITY_DENIED",
    "SyntaxError",
  ]);
});
