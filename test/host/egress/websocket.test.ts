// WebSocket in tools, from end to end, against servers of the package `ws`. websocket-hostile.test.ts has servers that break the protocol.
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { codeOf, errorOf, makeBox, outputOf } from "../../support/host-zone.ts";
import { echo, makeSocketTools, type SocketTools, serveWebSocket } from "../../support/websocket.ts";

let tools: SocketTools;
beforeAll(async () => {
  tools = await makeSocketTools();
});
afterAll(() => tools[Symbol.asyncDispose]());

describe("a tool's WebSocket", () => {
  test("exchanges text and bytes, and closes", async () => {
    const server = await serveWebSocket(echo, { handleProtocols: () => "chat" });
    const result = await tools.run(
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
    expect(outputOf(result)).toEqual([
      [0, "/a?b=c", "arraybuffer", "", ""],
      ["open", "message: café 😀", "message: 3", "message: 2", "message: 5", "message: 12", "close: 3000 bye true"],
      "chat",
      3,
      0,
    ]);
    await vi.waitFor(() => expect(server.open()).toBe(0));
  });
});
