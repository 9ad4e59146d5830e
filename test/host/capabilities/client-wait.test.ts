// A call's clock while the tool waits for its client: it stands still while the guest is idle, and runs while the guest is at work.
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import type { CallClient, ElicitResult } from "../../../src/host/capabilities/ask-client.ts";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import type { ToolInput } from "../../../src/host/config.ts";
import type { Glovebox } from "../../../src/host/runtime.ts";
import type { ToolResult } from "../../../src/host/tool-call.ts";
import { onLoopback } from "../../support/egress.ts";
import { codeOf, errorOf, makeBox, outputOf, PYTHON_CACHE } from "../../support/host-zone.ts";
import { serveWebSocket } from "../../support/websocket.ts";

const TIMEOUT_MS = 2_000;
const ASK = "ctx.elicit({ message: 'Go on?', requestedSchema: { type: 'object', properties: {} } })";
const ASK_PYTHON = 'ctx.elicit({"message": "Go on?", "requestedSchema": {"type": "object", "properties": {}}})';
/** Never ends. */
const TICK = "const tick = () => new Promise((done) => setTimeout(done, 5));";
const GRANT = ["elicit", "tools", "slow"];

/** At work beside an open question, each in its own way. */
const BUSY: { readonly [name: string]: ToolInput } = {
  timers: { source: `${TICK} export default async (_, ctx) => { ${ASK}; for (;;) await tick(); }` },
  interval: { source: `export default async (_, ctx) => { setInterval(() => {}, 50); await ${ASK}; }` },
  microtasks: {
    source: `export default async (_, ctx) => { ${ASK}; for (;;) { for (let i = 0; i < 50; i++) await null; await new Promise(setImmediate); } }`,
  },
  "other capability": { source: `export default async (_, ctx) => { await Promise.all([${ASK}, ctx.slow()]); }` },
  "capability after capability": {
    source: `export default async (_, ctx) => { ${ASK}; for (;;) await ctx.kv.get("a"); }`,
  },
  "nested call that is at work": {
    source: `export default async (_, ctx) => { await ctx.tools.call("timers", {}); }`,
  },
  "nested call beside one that waits": {
    source: `export default async (_, ctx) => { await Promise.all([ctx.tools.call("waits", {}), ctx.tools.call("works", {})]); }`,
  },
  "timers beside a nested call that waits": {
    source: `${TICK} export default async (_, ctx) => { ctx.tools.call("waits", {}); for (;;) await tick(); }`,
  },
  python: {
    language: "python",
    source: `import asyncio\n\nasync def main(input, ctx):\n    asyncio.ensure_future(${ASK_PYTHON})\n    while True:\n        await asyncio.sleep(0.01)\n`,
  },
};
const WAITS: { readonly [name: string]: ToolInput } = {
  waits: { source: `export default async (_, ctx) => (await ${ASK}).action` },
  twice: {
    source: `export default async (_, ctx) => { const [one] = await Promise.all([${ASK}, ${ASK}]); return one.action; }`,
  },
  later: {
    source: `${TICK} export default async (_, ctx) => { await tick(); await ctx.kv.get("a"); return (await ${ASK}).action; }`,
  },
  "in a nested call": {
    source: `export default async (_, ctx) => await ctx.tools.call("waits", {})`,
  },
  "in Python": {
    language: "python",
    source: `async def main(input, ctx):\n    answer = await ${ASK_PYTHON}\n    return answer["action"]\n`,
  },
};

let box: Glovebox;
const nameOf = (name: string): string => name.replaceAll(" ", "-");
beforeAll(async () => {
  const slow = defineCapability({
    name: "slow",
    inputSchema: {},
    outputSchema: {},
    handler: (_input, { signal }) =>
      new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
  });
  box = await makeBox({ capabilities: [slow], limits: { cpuMs: 60_000, hostCalls: 1_000_000 }, cache: PYTHON_CACHE });
  const works = { source: "export default () => new Promise((done) => setTimeout(done, 60_000))" };
  for (const [name, tool] of Object.entries({ ...WAITS, ...BUSY, works })) {
    await box.addTool({ ...tool, name: nameOf(name) }, { grant: [...GRANT, "kv"] });
  }
}, 240_000);
afterAll(() => box.close());

interface Asked {
  readonly client: CallClient;
  readonly answer: () => void;
}

function openClient(): Asked {
  const { promise, resolve } = Promise.withResolvers<ElicitResult>();
  return { client: { elicit: () => promise }, answer: () => resolve({ action: "accept", content: {} }) };
}

const call = (name: string, client: CallClient, timeoutMs = TIMEOUT_MS): Promise<ToolResult> =>
  box.execute({ id: "c", toolName: nameOf(name) }, { client, timeoutMs });

test.for(Object.keys(BUSY))("the clock runs while a question is open and the guest is at work: %s", async (name) => {
  const { client, answer } = openClient();
  // For a call whose clock does not run.
  const late = setTimeout(answer, 50_000);
  onTestFinished(() => clearTimeout(late));
  expect(codeOf(await call(name, client))).toBe("TOOL_TIMEOUT");
});

test.for(Object.keys(WAITS))("the clock stands still while the guest only waits for its client: %s", async (name) => {
  const { client, answer } = openClient();
  const timeoutMs = 6_000;
  const elicit: CallClient["elicit"] = (request, options) => {
    // Longer than the call's own time.
    setTimeout(answer, timeoutMs + 1_000);
    return client.elicit?.(request, options);
  };
  expect(outputOf(await call(name, { elicit }, timeoutMs))).toBe("accept");
});

test("the clock stands still beside a WebSocket that waits for messages", async () => {
  const server = await serveWebSocket(() => {});
  await using own = await makeBox({ egress: { allow: onLoopback("127.0.0.1"), ports: [server.port] } });
  const source = `export default async ({ url }, ctx) => {
    const socket = new WebSocket(url);
    await new Promise((resolve) => { socket.onopen = resolve; });
    return (await ${ASK}).action;
  }`;
  await own.addTool({ name: "listens", source }, { grant: ["elicit", "fetch"] });
  const { client, answer } = openClient();
  const elicit: CallClient["elicit"] = (request, options) => {
    setTimeout(answer, 5_000);
    return client.elicit?.(request, options);
  };
  const asked = { id: "c", toolName: "listens", arguments: { url: server.url } };
  expect(outputOf(await own.execute(asked, { client: { elicit }, timeoutMs: 4_000 }))).toBe("accept");
});

test("a wait for the client has its own limit, which the error names", async () => {
  await using bounded = await makeBox({ limits: { clientWaitMs: 300 } });
  await bounded.addTool({ ...WAITS.waits, name: "waits" } as ToolInput, { grant: ["elicit"] });
  const { client } = openClient();
  const error = errorOf(await bounded.execute({ id: "c", toolName: "waits" }, { client, timeoutMs: 60_000 }));
  expect(error.message).toContain("did not answer within 300 ms (limits.clientWaitMs)");
});
