// Replays of tools that send requests, on versions that send them in another order or leave some out: each finds its recorded response.
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { type CallRecording, parseRecording } from "../../../src/host/recording/recording.ts";
import { errorOf, makeGlovebox } from "../../support/host-zone.ts";

let server: Server;
let glovebox: Glovebox;
let origin: string;
let received = 0;
beforeAll(async () => {
  server = createServer((request, response) => {
    received += 1;
    response.write(`${received} `);
    if (request.url === "/large") response.end(Buffer.alloc(3_000_000, "l"));
    else request.pipe(response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  glovebox = await makeGlovebox({ egress: { allow: [{ to: origin, addresses: ["127.0.0.1/32"] }] } });
});
afterAll(async () => {
  await glovebox.close();
  server.closeAllConnections();
  server.close();
});

let tools = 0;
const sourceOf = (body: string): string => `
  export const capabilities = { fetch: true };
  const send = async (body, path = "/", init = {}) =>
    (await (await fetch("${origin}" + path, { method: "POST", body, ...init })).text()).slice(0, 20);
  const get = (path) => fetch("${origin}" + path);
  const sendStream = (path, ...texts) => send(stream(...texts), path, { duplex: "half" });
  const stream = (...texts) => new ReadableStream({
    start(controller) { for (const text of texts) controller.enqueue(new TextEncoder().encode(text)); controller.close(); },
  });
  const long = (text) => text.padEnd(5_000, "-");
  export default async () => { ${body} };`;

async function record(body: string): Promise<{ readonly toolName: string; readonly recording: CallRecording }> {
  tools += 1;
  const toolName = `sender${tools}`;
  await glovebox.addTool({ name: toolName, source: sourceOf(body) }, { grant: ["fetch"] });
  let recording: CallRecording | undefined;
  await glovebox.execute(
    { id: "c", toolName },
    { record: { onRecording: (made) => (recording = made), maxBytes: 16 * 1024 * 1024 } },
  );
  return { toolName, recording: parseRecording(JSON.parse(JSON.stringify(recording))) };
}

const replayOn = async (toolName: string, recording: unknown, body: string) => {
  await glovebox.updateTool({ name: toolName, source: sourceOf(body) }, { grant: ["fetch"] });
  return await glovebox.replay(recording);
};

describe("another version finds its responses", () => {
  test.for<[string, string, string]>([
    [
      "sends its requests in another order",
      `return [await send("a"), await send("b")];`,
      `const b = await send("b"); return [await send("a"), b];`,
    ],
    [
      "sends long requests in another order",
      `return [await send(long("a")), await send(long("b"))];`,
      `const b = await send(long("b")); return [await send(long("a")), b];`,
    ],
    [
      "does not read a response to its end",
      `await (await get("/large")).text(); return 1;`,
      `await (await get("/large")).body.cancel(); return 1;`,
    ],
    [
      "sends streams in another order",
      `return [await sendStream("/ab", "a", "b"), await sendStream("/c", long("c"))];`,
      `const c = await sendStream("/c", long("c")); return [await sendStream("/ab", "a", "b"), c];`,
    ],
  ])("if it %s", async ([, before, after]) => {
    const { toolName, recording } = await record(before);
    const sent = received;
    expect(await replayOn(toolName, recording, after)).toMatchObject({ verdict: "identical", match: "arguments" });
    expect(received).toBe(sent);
  });

  test("if it leaves a request out before a long one, which is reported", async () => {
    const { toolName, recording } = await record(`await send("a"); return await send(long("b"));`);
    const replayed = await replayOn(toolName, recording, `return await send(long("b"));`);
    // The output is the same. One request is missing, and no part of a request that was made.
    expect(replayed).toMatchObject({ verdict: "different", match: "arguments" });
    expect(replayed).not.toHaveProperty("changes");
    expect(replayed.missing).toEqual([expect.stringMatching(/^fetch\(\{"op":"request"/)]);
  });

  test("of a recording without the hashes of long requests, in the recorded order only", async () => {
    const { toolName, recording } = await record(`return await send(long("a"));`);
    const requests = recording.requests.map(({ exchange: _, ...request }) => request);
    const earlier = { ...recording, requests };
    expect(recording.requests.some(({ exchange }) => exchange !== undefined)).toBe(true);
    const replayed = await replayOn(toolName, earlier, `await null; return await send(long("a"));`);
    expect(replayed).toMatchObject({ verdict: "identical" });
    const other = await replayOn(toolName, earlier, `return await send(long("b"));`);
    expect([other.verdict, errorOf(other.result).code]).toEqual(["diverged", "REPLAY_DIVERGED"]);
  });
});
