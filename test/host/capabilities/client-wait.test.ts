// A call's clock while the tool waits for its client: it stands still while the guest is idle, and runs while the guest is at work.
import { afterAll, beforeAll, expect, test } from "vitest";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import type { ElicitResult } from "../../../src/host/contract/client-requests.ts";
import type { ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { onLoopback } from "../../support/egress.ts";
import { errorOf, makeGlovebox, outputOf, PYTHON_CACHE } from "../../support/host-zone.ts";
import { serveWebSocket } from "../../support/websocket.ts";

const ASK = "ctx.elicit({ message: 'Go on?', requestedSchema: { type: 'object', properties: {} } })";
const ASK_PYTHON = 'ctx.elicit({"message": "Go on?", "requestedSchema": {"type": "object", "properties": {}}})';
const GRANT = ["elicit", "tools", "slow", "kv"];

/** Work during an open request, each in its own way. */
const BUSY: { readonly [name: string]: string } = {
  timers: `${ASK}; for (;;) await tick();`,
  interval: `setInterval(() => {}, 50); await ${ASK};`,
  microtasks: `${ASK}; for (;;) { for (let i = 0; i < 50; i++) await null; await new Promise(setImmediate); }`,
  "other capability": `await Promise.all([${ASK}, ctx.slow()]);`,
  "capability after capability": `${ASK}; for (;;) await ctx.kv.get("a");`,
  "nested call that is at work": `await nest("timers");`,
  "nested call next to one that waits": `await Promise.all([nest("waits"), nest("works")]);`,
  "timers next to a nested call that waits": `nest("waits"); for (;;) await tick();`,
};
const WAITS: { readonly [name: string]: string } = {
  waits: `return (await ${ASK}).action;`,
  twice: `const [one] = await Promise.all([${ASK}, ${ASK}]); return one.action;`,
  later: `await tick(); await ctx.kv.get("a"); return (await ${ASK}).action;`,
  "in a nested call": `return await nest("waits");`,
};
const OTHER = {
  socket: `
    const socket = new WebSocket(url);
    await new Promise((resolve) => { socket.onopen = resolve; });
    return (await ${ASK}).action;`,
  works: "await new Promise((done) => setTimeout(done, 600_000));",
};

const HOWS = Object.entries({ ...BUSY, ...WAITS, ...OTHER });
const SOURCE = `
const tick = () => new Promise((done) => setTimeout(done, 5));
const HOW = {
  ${HOWS.map(([name, body]) => `${JSON.stringify(name)}: async (ctx, nest, url) => { ${body} },`).join("\n  ")}
};
export default ({ how, url }, ctx) => HOW[how](ctx, (how) => ctx.tools.call("tool", { how }), url);`;
const PYTHON_SOURCE = `
import asyncio

async def main(input, ctx):
    if input["how"] == "waits":
        return (await ${ASK_PYTHON})["action"]
    asyncio.ensure_future(${ASK_PYTHON})
    while True:
        await asyncio.sleep(0.01)
`;

let glovebox: Glovebox;
beforeAll(async () => {
  const slow = defineCapability({
    name: "slow",
    inputSchema: {},
    outputSchema: {},
    handler: (_input, { signal }) =>
      new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
  });
  glovebox = await makeGlovebox({
    capabilities: [slow],
    limits: { cpuMs: 300_000, timeoutMs: 120_000, maxCapabilityCalls: 1_000_000, nestedRepeats: 2 },
    cache: PYTHON_CACHE,
  });
  await glovebox.addTool({ name: "tool", source: SOURCE }, { grant: GRANT });
  await glovebox.addTool({ name: "python", language: "python", source: PYTHON_SOURCE }, { grant: ["elicit"] });
});
afterAll(() => glovebox.close());

const SHORTEST_MS = 400;
/** A call of Python that ends too early has used up its interpreter. */
const SHORTEST_PYTHON_MS = 3_200;
/** On a busy machine a call needs longer to come to its question. */
const LONGEST_MS = 51_200;

const shortestOf = (toolName: string): number => (toolName === "python" ? SHORTEST_PYTHON_MS : SHORTEST_MS);

interface Call {
  readonly toolName: "tool" | "python";
  readonly how: string;
}
const named = (hows: object, python: string): readonly (readonly [name: string, call: Call])[] => [
  ...Object.keys(hows).map((how) => [how, { toolName: "tool", how }] as const),
  ["in Python", { toolName: "python", how: python }],
];

test.for(named(BUSY, "works"))(
  "the clock runs while a request is open and the guest does other work: %s",
  async ([, { toolName, how }]) => {
    for (let timeoutMs = shortestOf(toolName), hasAsked = false; !hasAsked; timeoutMs *= 2) {
      expect(timeoutMs).not.toBeGreaterThan(LONGEST_MS);
      const elicit = (): Promise<ElicitResult> => {
        hasAsked = true;
        return new Promise(() => {});
      };
      const result = await glovebox.execute(
        { id: "c", toolName, arguments: { how } },
        { client: { elicit }, timeoutMs },
      );
      const { code, message } = errorOf(result);
      if (how.startsWith("nested") && code === "TOOL_FAILED") {
        // A nested call has the deadline of its caller, in the queue too. Its error can come first, and is then the caller's.
        expect(message).toMatch(/did not finish within \d+ ms|waited \d+ ms in the queue/);
        continue;
      }
      expect([code, message]).toEqual(["TOOL_TIMEOUT", expect.stringContaining("did not finish within")]);
    }
  },
);

/** Makes a call whose answer comes later than the whole time of the call. */
async function outputOfWait(from: Glovebox, toolName: string, input: object): Promise<unknown> {
  let result: ToolResult | undefined;
  for (let timeoutMs = shortestOf(toolName); result?.success !== true && timeoutMs <= LONGEST_MS; timeoutMs *= 2) {
    const elicit = (): Promise<ElicitResult> =>
      new Promise((answer) => setTimeout(answer, timeoutMs + 100, { action: "accept", content: {} }));
    result = await from.execute({ id: "c", toolName, arguments: input }, { client: { elicit }, timeoutMs });
  }
  return result && outputOf(result);
}

test.for(named(WAITS, "waits"))(
  "the clock is paused while the guest only waits for its client: %s",
  async ([, { toolName, how }]) => {
    expect(await outputOfWait(glovebox, toolName, { how })).toBe("accept");
  },
);

test("the clock is paused although a WebSocket waits for messages", async () => {
  const server = await serveWebSocket(() => {});
  await using own = await makeGlovebox({
    cache: PYTHON_CACHE,
    egress: { allow: onLoopback("127.0.0.1"), ports: [server.port] },
  });
  await own.addTool({ name: "listens", source: SOURCE }, { grant: ["elicit", "fetch"] });
  expect(await outputOfWait(own, "listens", { how: "socket", url: server.url })).toBe("accept");
});

test("a wait for the client has its own limit, which the error names", async () => {
  const definition = { limits: { clientWaitMs: 300 } };
  await glovebox.addTool({ name: "bounded", source: SOURCE, overrides: definition }, { grant: GRANT });
  const elicit = (): Promise<ElicitResult> => new Promise(() => {});
  const call = { id: "c", toolName: "bounded", arguments: { how: "waits" } };
  const error = errorOf(await glovebox.execute(call, { client: { elicit } }));
  expect(error.message).toContain("did not answer within 300 ms (limits.clientWaitMs)");
});
