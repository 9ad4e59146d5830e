// Steps of DevTools in an asynchronous tool: they go on after an `await` for the host, and stay out of deeper calls.
import { afterEach, beforeEach, expect, test } from "vitest";
import { createInspectedGlovebox } from "../../../src/host/glovebox/create-glovebox.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { InspectorHub } from "../../../src/host/inspector/inspector-hub.ts";
import { InspectorServer } from "../../../src/host/inspector/inspector-server.ts";
import { DevToolsClient, type Paused } from "../../support/devtools-client.ts";
import { outputOf } from "../../support/host-zone.ts";

const TOOL = `
export const capabilities = { kv: true };
const add = async (n, ctx) => {
  await ctx.kv.set("n" + n, n); // in add
  const sum = n + 1; // after set
  return sum; // end of add
};
const down = (n) => {
  if (n === 0) return 0; // in down
  return down(n - 1) + 1; // deeper
};
export default async (_, ctx) => {
  debugger; // start
  const before = await ctx.kv.get("n"); // get
  await new Promise((done) => setTimeout(done, 20)); // timer
  const all = await add(1, ctx); // call of add
  const depth = down(3); // recursion
  return { before: before ?? null, all, depth }; // result
};`;

let hub: InspectorHub;
let server: InspectorServer;
let glovebox: Glovebox;
let client: DevToolsClient;
beforeEach(async () => {
  hub = new InspectorHub({ breakAtStart: false });
  hub.setSourceMap('{"version":3,"sources":[],"mappings":"","sourcesContent":[]}');
  server = await InspectorServer.open(hub, { port: 0, title: "tool.js" });
  glovebox = await createInspectedGlovebox({ kv: "memory", limits: { timeoutMs: 60_000 } }, hub);
  await glovebox.addTool({ name: "steps", source: TOOL }, { grant: ["kv"] });
  client = await DevToolsClient.connect(server.url);
});
afterEach(async () => {
  await client[Symbol.asyncDispose]();
  await glovebox.close();
  await server[Symbol.asyncDispose]();
});

/** Starts a call and returns it at its `debugger` statement, with a function that does a step and returns the statement that it ends at. */
async function start() {
  const enabled = client.send("Debugger.enable");
  const result = glovebox.execute({ id: "s", toolName: "steps", arguments: {} });
  await enabled;
  let lines: readonly string[] = [];
  const placeOf = async ({ callFrames: [frame] }: Paused): Promise<string> => {
    const { scriptId, lineNumber = 0 } = frame?.location ?? {};
    if (lines.length === 0) {
      const { scriptSource } = await client.send("Debugger.getScriptSource", { scriptId });
      lines = String(scriptSource).split("\n");
    }
    return lines[lineNumber]?.trim() ?? "nowhere";
  };
  const at = await client.paused();
  expect(await placeOf(at)).toContain("debugger;");
  const step = async (kind: "stepOver" | "stepInto" | "stepOut"): Promise<string> => {
    await client.send(`Debugger.${kind}`);
    const paused = await client.paused();
    expect(paused.hitBreakpoints ?? []).toEqual([]);
    return await placeOf(paused);
  };
  return { result, step };
}

test("a step over an await for the host or a timer ends at the next statement", async () => {
  const { result, step } = await start();
  expect(await step("stepOver")).toContain('ctx.kv.get("n")');
  expect(await step("stepOver")).toContain("setTimeout(done, 20)");
  expect(await step("stepOver")).toContain("add(1, ctx)");
  expect(await step("stepOver")).toContain("down(3)");
  // The function calls itself, and the step ends where it began.
  expect(await step("stepOver")).toContain("before ?? null");
  await client.send("Debugger.resume");
  expect(outputOf(await result)).toEqual({ before: null, all: 2, depth: 3 });
});

test("a step into a function that awaits goes on there, and a step over its recursion stays at its depth", async () => {
  const { result, step } = await start();
  for (const place of ["kv.get", "setTimeout", "add(1, ctx)"]) expect(await step("stepOver")).toContain(place);
  expect(await step("stepInto")).toContain("ctx.kv.set");
  expect(await step("stepOver")).toContain("n + 1");
  expect(await step("stepOver")).toContain("return sum");
  let place = await step("stepOver");
  while (!place.includes("down(3)")) place = await step("stepOver");
  expect(await step("stepInto")).toContain("n === 0");
  expect(await step("stepOver")).toContain("down(n - 1)");
  expect(await step("stepOver")).toMatch(/down\(n - 1\)|down\(3\)/);
  // No breakpoint of a step is left.
  await client.send("Debugger.resume");
  expect(outputOf(await result)).toEqual({ before: null, all: 2, depth: 3 });
});
