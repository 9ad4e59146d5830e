// Approvals and offers are bound to the tool that was shown: its definition, its source and, for a sandboxed tool, its code and grants.
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import {
  AgentLoop,
  type AgentOutcome,
  type AgentRunOptions,
  type AgentState,
  checkConversation,
  createMemoryIdempotencyStore,
  type Message,
  ToolsRouterAgent,
} from "../../../src/host/agent/index.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { ToolRouter } from "../../../src/host/routing/tool-router.ts";
import type { ToolDefinition } from "../../../src/sandbox/contract/definition.ts";
import { codeOf, failureOf, makeGlovebox } from "../../support/host-zone.ts";
import { type Answer, startScriptedServer } from "../../support/mcp-http.ts";
import { call, callEvent, finish, type ScriptedTurn, says, scriptModel } from "../../support/scripted-model.ts";

const KEY = "a secret of thirty-two characters";
const USER: Message = { role: "user", content: "What is the weather?" };
type Paused = Extract<AgentOutcome, { status: "paused" }>;
type Router = AgentRunOptions["router"];

let glovebox: Glovebox;
/** Generous, for a busy machine. */
const UNHURRIED = { limits: { timeoutMs: 120_000, cpuMs: 60_000 } } as const;
beforeAll(async () => {
  glovebox = await makeGlovebox(UNHURRIED);
});
afterAll(() => glovebox.close());

const run = (router: Router, turns: readonly ScriptedTurn[], options: object): Promise<AgentOutcome> =>
  new AgentLoop({ model: scriptModel(...turns).model, router, signingKey: KEY }).run(options as AgentRunOptions);

function expectPaused(outcome: AgentOutcome): asserts outcome is Paused {
  expect(outcome.status).toBe("paused");
}

/** Pauses before a call of each of these tools. */
async function pause(router: Router, ...toolNames: readonly string[]): Promise<Paused> {
  const calls = toolNames.map((name, index) => call(`c${index}`, name));
  const outcome = await run(router, [says(...calls)], { messages: [USER], needsApproval: toolNames });
  expectPaused(outcome);
  return outcome;
}

/** Approves all pending calls. */
function approve(router: Router, { state }: Paused, options: object = {}): Promise<AgentOutcome> {
  const approvals = Object.fromEntries(state.pending.map(({ callId }) => [callId, true]));
  return run(router, [says("Done.")], {
    state,
    approvals,
    idempotencyStore: createMemoryIdempotencyStore(),
    ...options,
  });
}

const resultCodes = ({ messages }: AgentOutcome): readonly string[] =>
  messages.flatMap((message) =>
    message.role === "tool" ? [`${message.callId}: ${message.result.success ? "ok" : message.result.error.code}`] : [],
  );

describe("an approval of an upstream server's tool", () => {
  async function upstream(): Promise<{ describe(description: string): Promise<void>; readonly ran: string[] }> {
    let description = "";
    const ran: string[] = [];
    const answer: Answer = ({ method }) => {
      if (method === "tools/list")
        return { tools: [{ name: "weather", description, inputSchema: { type: "object" } }] };
      if (method !== "tools/call") return undefined;
      ran.push(description);
      return { content: [{ type: "text", text: "done" }] };
    };
    const server = await startScriptedServer(answer);
    onTestFinished(async () => {
      await glovebox.mcp.removeServer("up");
      await server[Symbol.asyncDispose]();
    });
    return {
      ran,
      describe: async (text) => {
        await glovebox.mcp.removeServer("up");
        description = text;
        glovebox.mcp.addServer("up", { url: server.url });
        await glovebox.listTools();
      },
    };
  }

  test("is not valid for another tool of the same name: the call waits again, with the new definition", async () => {
    const server = await upstream();
    await server.describe("Reads the weather");
    const paused = await pause(glovebox, "up__weather");
    expect(paused.approvalRequests[0]?.definition.description).toContain("Reads the weather");
    await server.describe("Deletes all files");
    const again = await approve(glovebox, paused);
    expectPaused(again);
    expect(server.ran).toEqual([]);
    expect(again.approvalRequests).toMatchObject([{ call: { id: "c0" }, definition: { name: "up__weather" } }]);
    expect(again.approvalRequests[0]?.definition.description).toContain("Deletes all files");
    expect(again.approvalRequests[0]?.toolDigest).not.toBe(paused.approvalRequests[0]?.toolDigest);
    expect(await approve(glovebox, again)).toMatchObject({ status: "finished", text: "Done." });
    expect(server.ran).toEqual(["Deletes all files"]);
  });

  test("is valid after the server is added again with the same tool", async () => {
    const server = await upstream();
    await server.describe("Reads the weather");
    const paused = await pause(glovebox, "up__weather");
    await server.describe("Reads the weather");
    expect(await approve(glovebox, paused)).toMatchObject({ status: "finished" });
    expect(server.ran).toEqual(["Reads the weather"]);
  });
});

describe("an approval of a sandboxed tool", () => {
  const definition = { description: "Reads the weather" };
  const add = async (source: string, options: object = {}, to = glovebox): Promise<void> => {
    to.removeTool("weather");
    await to.addTool({ name: "weather", source, overrides: definition }, options);
  };

  test.for([
    ["other code", "export default () => 'deletes'", {}],
    ["more capabilities", "export default () => 'reads'", { grant: ["kv"] }],
  ] as const)("is not valid for the same definition with %s", async ([, source, options]) => {
    await add("export default () => 'reads'");
    const paused = await pause(glovebox, "weather");
    await add(source, options);
    const again = await approve(glovebox, paused);
    expectPaused(again);
    expect(again.approvalRequests[0]?.definition).toEqual(paused.approvalRequests[0]?.definition);
    expect(resultCodes(again)).toEqual([]);
    expect(await approve(glovebox, again)).toMatchObject({ status: "finished" });
  });

  test("is valid for the same tool in another Glovebox", async () => {
    await add("export default () => 'reads'");
    const paused = await pause(glovebox, "weather");
    await using other = await makeGlovebox(UNHURRIED);
    await add("export default () => 'reads'", {}, other);
    const outcome = await approve(other, paused);
    expect(outcome).toMatchObject({ status: "finished" });
    expect(resultCodes(outcome)).toEqual(["c0: ok"]);
  });
});

/** A router with host functions, and a log of their calls. */
function makeRouter(...names: readonly string[]) {
  const router = new ToolRouter();
  const ran: string[] = [];
  const register = (name: string, description: string, more: object = {}): void => {
    router.registry.remove(name);
    router.register(name, { description, ...more }, () => {
      ran.push(`${name}: ${description}`);
      return description;
    });
  };
  for (const name of names) register(name, "reads");
  return { router, ran, register };
}

describe("a resumed run", () => {
  test("runs the calls whose tool is unchanged and waits for the others", async () => {
    const { router, ran, register } = makeRouter("a", "b", "c");
    const paused = await pause(router, "a", "b", "c");
    register("b", "deletes");
    const approvals = { c0: true, c1: true, c2: false };
    const again = await approve(router, paused, { approvals });
    expectPaused(again);
    expect(ran).toEqual(["a: reads"]);
    expect(resultCodes(again)).toEqual(["c0: ok", "c2: APPROVAL_REQUIRED"]);
    expect(again.approvalRequests).toMatchObject([{ call: { id: "c1" }, definition: { description: "deletes" } }]);
    expect(again.state.pending).toEqual([{ callId: "c1", toolDigest: again.approvalRequests[0]?.toolDigest }]);
    expect(again.state.stepCount).toBe(1);
    const end = await approve(router, again);
    expect(ran).toEqual(["a: reads", "b: deletes"]);
    expect(end.status).toBe("finished");
    expect(checkConversation(end.messages)).toEqual([]);
  });

  test("emits an event for a new approval request", async () => {
    const { router, register } = makeRouter("a");
    const { state } = await pause(router, "a");
    register("a", "deletes");
    const loop = new AgentLoop({ model: scriptModel().model, router, signingKey: KEY });
    const events: string[] = [];
    for await (const event of loop.stream({
      state,
      approvals: { c0: true },
      idempotencyStore: createMemoryIdempotencyStore(),
    })) {
      events.push(event.type === "outcome" ? event.status : event.type);
    }
    expect(events).toEqual(["approval-request", "paused"]);
  });

  test("does not run a denied call, and answers a call whose tool was removed", async () => {
    const { router, ran, register } = makeRouter("a", "b");
    const paused = await pause(router, "a", "b");
    register("a", "deletes");
    router.registry.remove("b");
    const outcome = await approve(router, paused, { approvals: { c0: false, c1: true } });
    expect(resultCodes(outcome)).toEqual(["c0: APPROVAL_REQUIRED", "c1: TOOL_UNAVAILABLE"]);
    expect(ran).toEqual([]);
  });

  test("rejects a signed state with another digest", async () => {
    const { router, ran, register } = makeRouter("a");
    const { state } = await pause(router, "a");
    register("a", "deletes");
    const [definition] = router.getRegisteredTools();
    const toolDigest = router.digestOf(definition as ToolDefinition) as string;
    const forged: AgentState = { ...state, pending: [{ callId: "c0", toolDigest }] };
    const given = { state: forged, approvals: { c0: true }, idempotencyStore: createMemoryIdempotencyStore() };
    expect((await failureOf(run(router, [], given))).message).toContain("seal");
    expect(ran).toEqual([]);
  });
});

describe("a tool that changes after it was offered", () => {
  test("is not run even if the predicate saw a harmless tool", async () => {
    const { router, ran, register } = makeRouter();
    register("a", "reads", { annotations: { readOnlyHint: true } });
    const needsApproval = async ({ definition }: { readonly definition: ToolDefinition }): Promise<boolean> => {
      register("a", "deletes", { annotations: { destructiveHint: true } });
      return definition.annotations?.readOnlyHint !== true;
    };
    const outcome = await run(router, [says(call("c", "a")), says("ok")], { messages: [USER], needsApproval });
    expect(ran).toEqual([]);
    expect(resultCodes(outcome)).toEqual(["c: APPROVAL_REQUIRED"]);
    expect(outcome.steps[0]?.results[0]).toMatchObject({
      error: { details: { toolChanged: true }, recoverable: true },
    });
  });

  test("is not run even if the filter admitted the earlier tool; the next turn offers the new one", async () => {
    const { router, ran, register } = makeRouter("a");
    const made = call("c", "a");
    const { model, requests } = scriptModel(
      function* () {
        register("a", "deletes");
        yield callEvent(made);
        yield finish([made]);
      },
      says(call("d", "a")),
      says("ok"),
    );
    const outcome = await new AgentLoop({ model, router }).run({ messages: [USER], tools: ["a"] });
    expect(resultCodes(outcome)).toEqual(["c: APPROVAL_REQUIRED", "d: ok"]);
    expect(ran).toEqual(["a: deletes"]);
    expect(requests.map(({ tools }) => tools[0]?.description)).toEqual(["reads", "deletes", "deletes"]);
  });

  test("is not run even if it was approved: the router compares the digest when the call starts", async () => {
    const { router, ran, register } = makeRouter("a");
    const paused = await pause(router, "a");
    const swapping = {
      execute: (...given: Parameters<ToolRouter["execute"]>) => {
        register("a", "deletes");
        return router.execute(...given);
      },
      stream: router.stream.bind(router),
      getRegisteredTools: router.getRegisteredTools.bind(router),
      digestOf: router.digestOf.bind(router),
    };
    expect(resultCodes(await approve(swapping, paused))).toEqual(["c0: APPROVAL_REQUIRED"]);
    expect(ran).toEqual([]);
  });

  test("is not offered if it changes while the router lists the tools", async () => {
    const { router, register } = makeRouter("a", "b");
    const listing = {
      execute: router.execute.bind(router),
      stream: router.stream.bind(router),
      getRegisteredTools: router.getRegisteredTools.bind(router),
      digestOf: router.digestOf.bind(router),
      listTools: async () => {
        const tools = router.getRegisteredTools();
        register("a", "deletes");
        return tools;
      },
    };
    const { model, requests } = scriptModel(says("ok"));
    await new AgentLoop({ model, router: listing }).run({ messages: [USER] });
    expect(requests[0]?.tools.map(({ name }) => name)).toEqual(["b"]);
  });

  test.for([true, false])("is not run by a ToolsRouterAgent (events: %s)", async (isStreamed) => {
    const { router, ran, register } = makeRouter("a");
    const { model } = scriptModel(() => {
      register("a", "deletes");
      return says('{"tool":"a","inputs":{}}');
    });
    const agent = new ToolsRouterAgent({ model, router, answer: false, backoffMs: 0 });
    const outcomes: unknown[] = [];
    if (isStreamed) {
      for await (const event of agent.stream("x")) if (event.type === "outcome") outcomes.push(event);
    } else outcomes.push(await agent.run("x"));
    expect(outcomes).toMatchObject([{ status: "failed", stage: "tool", error: { code: "APPROVAL_REQUIRED" } }]);
    expect(ran).toEqual([]);
  });
});

describe("a tool with a canary version", () => {
  const COUNT = 20;
  const all = (output: number): readonly number[] => Array(COUNT).fill(output);
  const outputsOf = (messages: readonly Message[]): readonly unknown[] =>
    messages.flatMap((message) =>
      message.role === "tool" ? [message.result.success ? message.result.output : message.result.error.message] : [],
    );
  const repeat = async <Value>(run: () => Promise<Value>): Promise<readonly Value[]> =>
    await Promise.all(Array.from({ length: COUNT }, run));

  beforeAll(async () => {
    const versions = await Promise.all(
      ["1", "2"].map(async (version) => {
        const source = `export default () => ${version}`;
        const { definition, bundle } = await glovebox.inspectTool({ name: "canary", source });
        return { version, weight: 1, definition, sha256: bundle.sha256, load: () => bundle };
      }),
    );
    glovebox.setRelease("canary", versions);
  });

  test("runs the offered version in each call of a loop, also of a resumed one", async () => {
    const calls = Array.from({ length: COUNT }, (_, index) => call(`c${index}`, "canary"));
    const turns = [says(...calls), says("Done.")];
    const outcome = await run(glovebox, turns, { messages: [USER] });
    expect(outputsOf(outcome.messages)).toEqual(all(1));
    const paused = await run(glovebox, turns, { messages: [USER], needsApproval: ["canary"] });
    expectPaused(paused);
    expect(outputsOf((await approve(glovebox, paused)).messages)).toEqual(all(1));
  });

  test("runs the offered version in each guarded single turn", async () => {
    const loop = new AgentLoop({ tools: ["canary"] });
    const turns = await repeat(() => loop.executeSingleTurn([USER], call("c", "canary"), glovebox));
    expect(turns.flatMap(({ updatedMessages }) => outputsOf(updatedMessages))).toEqual(all(1));
  });

  test("runs the offered version in each request of a ToolsRouterAgent", async () => {
    const outcomes = await repeat(() => {
      const { model } = scriptModel(says('{"tool":"canary","inputs":{}}'));
      return new ToolsRouterAgent({ model, router: glovebox, answer: false, backoffMs: 0 }).run("x");
    });
    expect(outcomes.map((outcome) => (outcome.status === "answered" ? outcome.result.output : outcome))).toEqual(
      all(1),
    );
  });

  test("runs the version with the digest of a call, and rejects the call if none has it", async () => {
    const listed = glovebox.router.getRegisteredTools().find(({ name }) => name === "canary") as ToolDefinition;
    const toolDigest = glovebox.router.digestOf(listed);
    const made = { id: "c", toolName: "canary" };
    const results = await repeat(() => glovebox.execute(made, { toolDigest }));
    expect(results.map((result) => [codeOf(result), result.toolVersion])).toEqual(Array(COUNT).fill(["ok", "1"]));
    const other = { toolDigest, toolVersion: "2" };
    expect(codeOf(await glovebox.execute(made, other))).toBe("APPROVAL_REQUIRED");
    expect(codeOf(await glovebox.execute(made, { toolDigest: "0".repeat(64) }))).toBe("APPROVAL_REQUIRED");
  });
});

describe("ToolRouter.digestOf()", () => {
  const digestIn = (definition: object, tenantId?: string): string | undefined => {
    const router = new ToolRouter({ tenancy: tenantId === undefined ? "single" : "multi" });
    router.register("a", definition, () => 1, { scope: "global" });
    const whose = tenantId === undefined ? {} : { tenantId };
    const [listed] = router.getRegisteredTools(whose);
    return router.digestOf(listed as ToolDefinition, whose);
  };

  test("is equal for the same definition with reordered keys and undefined fields", () => {
    const one = { description: "d", inputSchema: { type: "object", required: ["a"] }, annotations: undefined };
    const other = { inputSchema: { required: ["a"], type: "object" }, description: "d" };
    expect(digestIn(one)).toMatch(/^[0-9a-f]{64}$/);
    expect(digestIn(one)).toBe(digestIn(other));
    expect(digestIn(one, "acme")).toBe(digestIn(one));
  });

  test.for([
    [{ description: "other" }],
    [{ inputSchema: { type: "object", properties: { path: {} } } }],
    [{ outputSchema: { type: "string" } }],
    [{ annotations: { readOnlyHint: true } }],
    [{ limits: { timeoutMs: 5 } }],
    [{ origin: { server: "up", toolName: "a", isTrusted: false } }],
  ])("differs with %j", ([more]) => {
    expect(digestIn({ description: "d", ...more })).not.toBe(digestIn({ description: "d" }));
  });

  test("is undefined for an outdated definition, and for a removed tool", () => {
    const { router, register } = makeRouter("a");
    const [listed] = router.getRegisteredTools() as [ToolDefinition];
    expect(router.digestOf(structuredClone(listed))).toBe(router.digestOf(listed));
    register("a", "deletes");
    expect(router.digestOf(listed)).toBeUndefined();
    router.registry.remove("a");
    expect(router.digestOf(listed)).toBeUndefined();
  });

  test("rejects an invalid definition and unknown options", () => {
    const { router } = makeRouter("a");
    const [listed] = router.getRegisteredTools() as [ToolDefinition];
    for (const wrong of [undefined, null, "a", [listed], {}, { name: 5 }, Promise.resolve(listed)]) {
      expect(() => router.digestOf(wrong as never)).toThrow(/^definition\.name: /);
    }
    for (const wrong of [null, "acme", { tenant: "acme" }, { tenantId: "" }, Promise.resolve({})]) {
      expect(() => router.digestOf(listed, wrong as never)).toThrow(/^options/);
    }
  });

  test("binds a call of execute() and of stream(), but not its nested calls", async () => {
    await glovebox.addTool({ name: "inner", source: "export default () => 1" });
    const source = "export default (_input, { tools }) => tools.call('inner', {})";
    await glovebox.addTool({ name: "outer", source }, { grant: ["tools"] });
    const outer = glovebox.router.getRegisteredTools().find(({ name }) => name === "outer") as ToolDefinition;
    const toolDigest = glovebox.router.digestOf(outer);
    const made = { id: "c", toolName: "outer" };
    expect(codeOf(await glovebox.execute(made, { toolDigest }))).toBe("ok");
    expect(codeOf(await glovebox.execute(made, { toolDigest: "0".repeat(64) }))).toBe("APPROVAL_REQUIRED");
    for await (const item of glovebox.stream(made, { toolDigest: "0".repeat(64) })) {
      expect(item).toMatchObject({ type: "result", error: { code: "APPROVAL_REQUIRED" } });
    }
    expect(codeOf(await glovebox.execute(made, { toolDigest: 5 as never }))).toBe("PARAM_INVALID");
    expect(codeOf(await glovebox.execute({ ...made, toolName: "inner" }, { toolDigest }))).toBe("APPROVAL_REQUIRED");
  });
});
