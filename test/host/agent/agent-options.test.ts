// Options of agents fail closed: contexts merge, undefined replaces nothing, and unknown or malformed options are rejected with their
// paths.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  AgentLoop,
  type AgentOutcome,
  type AgentRunOptions,
  type AgentState,
  afterFailedSteps,
  afterOutputTokens,
  allOf,
  anyOf,
  checkConversation,
  createFileIdempotencyStore,
  createMemoryIdempotencyStore,
  type Message,
  repairConversation,
  ToolsRouterAgent,
  trimConversation,
  whenCalled,
  whenSucceeded,
} from "../../../src/host/agent/index.ts";
import { ToolRouter } from "../../../src/host/routing/tool-router.ts";
import { ToolError } from "../../../src/sandbox/contract/errors.ts";
import { inOtherRealm } from "../../support/failing-callbacks.ts";
import { failureOf } from "../../support/host-zone.ts";
import { call, type ScriptedTurn, says, scriptModel } from "../../support/scripted-model.ts";

const KEY = "a secret of thirty-two characters";
const USER: Message = { role: "user", content: "Who am I?" };

/** `ran` has the tenant and the conversation of each call. */
function makeRouter(tenancy: "single" | "multi" = "single"): { readonly router: ToolRouter; readonly ran: unknown[] } {
  const router = new ToolRouter({ tenancy });
  const ran: unknown[] = [];
  const whoami = (_input: unknown, { tenantId, sessionId }: { tenantId: string; sessionId?: string | undefined }) => {
    ran.push(sessionId === undefined ? tenantId : `${tenantId}/${sessionId}`);
    return tenantId;
  };
  router.register("whoami", {}, whoami as never, { scope: "global" });
  return { router, ran };
}

const CALLS: ScriptedTurn = says(call("c", "whoami"));
const modelOf = (...turns: readonly ScriptedTurn[]) => scriptModel(...turns).model;
const choosing = () => modelOf(says('{"tool":"whoami","inputs":{}}'), says("ok"));

/** The agents, each as one function that creates it with options, runs it with others, and returns the calls that ran. */
const AGENTS = [
  [
    "AgentLoop",
    async (made: object, run: object): Promise<readonly unknown[]> => {
      const { router, ran } = makeRouter("multi");
      await new AgentLoop({ model: modelOf(CALLS, says("ok")), router, ...made }).run({
        messages: [USER],
        ...run,
      } as AgentRunOptions);
      return ran;
    },
  ],
  [
    "AgentLoop.executeSingleTurn()",
    async (made: object, { context }: { readonly context?: object | undefined }): Promise<readonly unknown[]> => {
      const { router, ran } = makeRouter("multi");
      await new AgentLoop(made).executeSingleTurn([USER], call("c", "whoami"), router, context as never);
      return ran;
    },
  ],
  [
    "ToolsRouterAgent",
    async (made: object, run: object): Promise<readonly unknown[]> => {
      const { router, ran } = makeRouter("multi");
      await new ToolsRouterAgent({ model: choosing(), router, ...made }).run("Who am I?", run as never);
      return ran;
    },
  ],
] as const;

describe.for(AGENTS)("contexts of %s", ([, run]) => {
  const acme = { context: { tenantId: "acme", sessionId: "s1" } };

  test.for([
    ["no context", {}, "acme/s1"],
    ["an undefined context", { context: undefined }, "acme/s1"],
    ["another field", { context: { executionId: "e1" } }, "acme/s1"],
    ["an undefined tenant", { context: { tenantId: undefined, sessionId: "s2" } }, "acme/s2"],
    ["the same tenant", { context: { tenantId: "acme" } }, "acme/s1"],
  ] as const)("keep the tenant of the agent with %s in the run", async ([, given, expected]) => {
    expect(await run(acme, given)).toEqual([expected]);
  });

  test("are rejected with another tenant in the run", async () => {
    const error = await failureOf(run(acme, { context: { tenantId: "other" } }));
    expect(error.code).toBe("PARAM_INVALID");
    expect(error.message).toContain("context.tenantId");
    expect(error.message).toContain('"acme"');
  });

  test("take the tenant of the run if the agent has none", async () => {
    expect(await run({ context: { sessionId: "s1" } }, { context: { tenantId: "other" } })).toEqual(["other/s1"]);
  });

  test("merge argument options field by field", async () => {
    const made = { context: { ...acme.context, arguments: { unknownKeys: "reject" } } };
    expect(await run(made, { context: { arguments: { unknownKeys: undefined, coerce: true } } })).toEqual(["acme/s1"]);
  });
});

type Paused = Extract<AgentOutcome, { status: "paused" }>;
const claims = () => ({ idempotencyStore: createMemoryIdempotencyStore() });

describe("an option that is undefined in a run", () => {
  const guarded = (guards: object, run: object): Promise<{ outcome: AgentOutcome; ran: readonly unknown[] }> => {
    const { router, ran } = makeRouter();
    const loop = new AgentLoop({ model: modelOf(CALLS, says("ok")), router, signingKey: KEY, ...guards });
    return loop.run({ messages: [USER], ...run } as AgentRunOptions).then((outcome) => ({ outcome, ran }));
  };

  test("keeps needsApproval of the loop", async () => {
    const { outcome, ran } = await guarded({ needsApproval: ["whoami"] }, { needsApproval: undefined });
    expect(outcome.status).toBe("paused");
    expect(ran).toEqual([]);
  });

  test("keeps the tools of the loop", async () => {
    expect((await guarded({ tools: [] }, { tools: undefined })).ran).toEqual([]);
    const { router, ran } = makeRouter();
    const agent = new ToolsRouterAgent({ model: choosing(), router, tools: [], routingRetries: 0 });
    await agent.run("Who am I?", { tools: undefined });
    expect(ran).toEqual([]);
  });

  test("keeps maxSteps and stopWhen of the loop", async () => {
    const { outcome } = await guarded({ maxSteps: 1 }, { maxSteps: undefined });
    expect(outcome).toMatchObject({ reason: "max-steps" });
    const stopped = await guarded({ stopWhen: whenCalled("whoami") }, { stopWhen: undefined });
    expect(stopped.outcome).toMatchObject({ reason: "stop-condition" });
  });

  test("keeps the signing key of the loop: a changed state is rejected", async () => {
    const { router, ran } = makeRouter();
    const make = (...turns: readonly ScriptedTurn[]): AgentLoop =>
      new AgentLoop({ model: modelOf(...turns), router, signingKey: KEY, needsApproval: ["whoami"] });
    const { state } = (await make(CALLS).run({ messages: [USER] })) as Paused;
    const changed = { ...state, stepCount: 1, usage: { inputTokens: 0, outputTokens: 0 } };
    const resume = { approvals: { c: true }, ...claims(), signingKey: undefined };
    expect((await failureOf(make().run({ state: changed, ...resume }))).message).toContain("state");
    expect(ran).toEqual([]);
    expect(await make(says("ok")).run({ state, ...resume })).toMatchObject({ status: "finished" });
  });
});

describe("a signing key", () => {
  const pausing = (options: object): Promise<AgentOutcome> => {
    const { router } = makeRouter();
    return new AgentLoop().run({
      model: modelOf(CALLS),
      router,
      messages: [USER],
      needsApproval: ["whoami"],
      ...options,
    } as AgentRunOptions);
  };

  test("is required where a run can pause and where a state is resumed, unless states are explicitly unsigned", async () => {
    for (const given of [{}, { signingKey: undefined }]) {
      const error = await failureOf(pausing(given));
      expect(error.code).toBe("PARAM_INVALID");
      expect(error.message).toMatch(/options\.signingKey.*"unsigned"/);
    }
    const { state } = (await pausing({ signingKey: "unsigned" })) as Paused;
    expect(state.seal).toBeUndefined();
    const { router, ran } = makeRouter();
    const resume = (options: object): Promise<AgentOutcome> =>
      new AgentLoop({ model: modelOf(says("ok")), router }).run({
        state,
        approvals: { c: true },
        ...claims(),
        ...options,
      } as AgentRunOptions);
    expect((await failureOf(resume({}))).message).toContain("options.signingKey");
    expect((await failureOf(resume({ signingKey: KEY }))).message).toContain("seal");
    expect(ran).toEqual([]);
    expect(await resume({ signingKey: "unsigned" })).toMatchObject({ status: "finished" });
  });

  test("is required for a signed state", async () => {
    const { state } = (await pausing({ signingKey: KEY })) as Paused;
    const { router } = makeRouter();
    const given = { state, approvals: { c: true }, ...claims(), signingKey: "unsigned" };
    expect((await failureOf(new AgentLoop({ model: modelOf(), router }).run(given))).message).toContain("signed");
  });

  test("may be bytes of another realm", async () => {
    const signingKey = inOtherRealm("new Uint8Array(32).fill(7)") as Uint8Array;
    expect(((await pausing({ signingKey })) as Paused).state.seal).toMatch(/^[0-9a-f]{64}$/);
  });
});

const PROMISE = Promise.resolve({});
const fn = (): never => {
  throw new Error("never called");
};

/** Options that are rejected, and the path in the message. */
const WRONG: readonly (readonly [option: string, value: unknown])[] = [
  ...[null, false, "", "everything", 5, {}, new Map(), PROMISE, [5], [""], ["no such name!"]].map(
    (value) => ["tools", value] as const,
  ),
  ...[null, 5, {}, [], PROMISE, new Map(), { router: 5 }].map((value) => ["router", value] as const),
  ...[null, "gpt", {}, PROMISE].map((value) => ["model", value] as const),
  ...[
    null,
    "acme",
    [],
    new Map(),
    PROMISE,
    { timeout: 5 },
    { tenantID: "acme" },
    { tenantId: "" },
    { tenantId: 5 },
  ].map((value) => ["context", value] as const),
  ["context", { timeoutMs: "5" }],
  ["context", { arguments: { unknownKeys: "eat" } }],
  ["context", { signal: AbortSignal.abort() }],
  ["context", { onLog: fn }],
  ["context", { deterministic: { seed: "s" } }],
  ["context", { toolDigest: "d" }],
  ["onError", console],
];
const LOOP_ONLY: typeof WRONG = [
  ...[null, false, "", true, "destructively", 5, {}, PROMISE, [5]].map((value) => ["needsApproval", value] as const),
  ...[null, false, "", "short", 5, {}, PROMISE, new Uint8Array(31)].map((value) => ["signingKey", value] as const),
  ...[null, false, "", 5, {}, [5], PROMISE].map((value) => ["stopWhen", value] as const),
  ...[null, 0, 1.5, "5", Number.NaN].map((value) => ["maxSteps", value] as const),
  ["maxParallelTools", 11],
  ["prepareMessages", []],
  ["toolChoice", "sometimes"],
  ["toolChoice", { toolname: "add" }],
  ["responseSchema", { name: "x" }],
];
const ROUTER_ONLY: typeof WRONG = [
  ["maxTools", 0],
  ["instructions", 5],
  ["routingRetries", -1],
  ["toolRetries", "1"],
  ["backoffMs", Number.NaN],
  ["streamTools", "no"],
  ["answer", null],
  ["responseSchema", {}],
  ["fallback", 5],
  ["signal", {}],
  ["arguments", { unknownKey: "prune" }],
];
const UNKNOWN: readonly (readonly [key: string, suggestion: string])[] = [
  ["needApproval", "needsApproval"],
  ["allowedTools", "Expected one of"],
  ["maxTurns", "Expected one of"],
  ["Context", "context"],
];

async function eventsOf<Event>(stream: AsyncIterable<Event>): Promise<readonly Event[]> {
  const events: Event[] = [];
  for await (const event of stream) events.push(event);
  return events;
}

function rejectionOf(action: () => unknown): ToolError {
  try {
    action();
  } catch (thrown) {
    if (thrown instanceof ToolError) return thrown;
    throw thrown;
  }
  throw new Error("Expected a ToolError, got none");
}

describe("AgentLoop", () => {
  test.for([...WRONG, ...LOOP_ONLY])("rejects %s: %o in the constructor and in a run", async ([option, value]) => {
    const error = rejectionOf(() => new AgentLoop({ [option]: value }));
    expect(error.code).toBe("PARAM_INVALID");
    expect(error.message).toContain(`options.${option}`);
    const { router } = makeRouter();
    const given = { model: modelOf(), router, messages: [USER], [option]: value };
    expect((await failureOf(new AgentLoop().run(given as never))).message).toContain(`options.${option}`);
    const events = await eventsOf(new AgentLoop().stream(given as never));
    expect(events).toMatchObject([{ type: "outcome", status: "failed", error: { code: "PARAM_INVALID" } }]);
  });

  test.for(UNKNOWN)("rejects the unknown option %s", async ([key, suggestion]) => {
    for (const error of [
      rejectionOf(() => new AgentLoop({ [key]: ["whoami"] } as never)),
      await failureOf(new AgentLoop().run({ messages: [USER], [key]: ["whoami"] } as never)),
    ]) {
      expect(error.code).toBe("PARAM_INVALID");
      expect(error.message).toContain(`options.${key}: Unknown option`);
      expect(error.message).toContain(suggestion);
    }
  });

  test.for([[null], ["x"], [[]], [new Map()], [PROMISE], [fn]])("rejects %o instead of options", async ([value]) => {
    expect(rejectionOf(() => new AgentLoop(value as never)).message).toContain("options");
    expect((await failureOf(new AgentLoop().run(value as never))).message).toContain("options");
    const events = await eventsOf(new AgentLoop().stream(value as never));
    expect(events).toMatchObject([{ type: "outcome", status: "failed", messages: [] }]);
  });

  test("rejects any unknown option, and any unknown field of a context, with its path", async () => {
    const known = /^(model|router|context|tools|onError|max\w+|stopWhen|needsApproval|signingKey|toolChoice)$/;
    const others = /^(responseSchema|prepareMessages|signal|messages|state|approvals|idempotencyStore|__proto__)$/;
    const anyKey = fc.string({ minLength: 1, maxLength: 50 }).filter((key) => !known.test(key) && !others.test(key));
    await fc.assert(
      fc.asyncProperty(anyKey, fc.anything(), async (key, value) => {
        expect(rejectionOf(() => new AgentLoop({ [key]: value } as never)).message).toContain(`options.${key}: `);
        const inContext = { messages: [USER], context: { [`x${key}`]: value } } as never;
        const error = await failureOf(new AgentLoop().run(inContext));
        expect(error.message).toContain(`options.context.x${key}: `);
        expect(rejectionOf(() => new ToolsRouterAgent({ [`x${key}`]: value } as never)).code).toBe("PARAM_INVALID");
      }),
    );
  });

  test("rejects an option of a run in the constructor", () => {
    for (const key of ["signal", "messages", "state", "idempotencyStore", "approvals"]) {
      expect(rejectionOf(() => new AgentLoop({ [key]: undefined } as never)).message).toContain(`options.${key}`);
    }
  });

  test.for([
    ["messages", "hello"],
    ["messages", PROMISE],
    ["messages", { 0: USER, length: 1 }],
    ["messages.0", [null]],
    ["messages.0", [PROMISE]],
    ["messages.1", [USER, { role: "root", content: "x" }]],
    ["messages.0.content", [{ role: "user", content: 5 }]],
    ["messages.0.content.0", [{ role: "assistant", content: [null] }]],
    ["messages.0.content.0.call", [{ role: "assistant", content: [{ type: "tool-call" }] }]],
    ["messages.0.result", [{ role: "tool", callId: "c", toolName: "t" }]],
    ["signal", undefined],
    ["approvals", undefined],
  ] as const)("rejects invalid %s of a run", async ([path, messages]) => {
    const { router } = makeRouter();
    const given =
      path === "signal"
        ? { messages: [USER], signal: {} }
        : path === "approvals"
          ? { state: {}, approvals: PROMISE, idempotencyStore: { claim: fn }, signingKey: "unsigned" }
          : { messages };
    const error = await failureOf(new AgentLoop({ model: modelOf(), router }).run(given as never));
    expect(error.code).toBe("PARAM_INVALID");
    expect(error.message).toContain(path === "approvals" ? "state" : path);
  });

  test.for([
    ["router", [[USER], call("c", "whoami"), {}]],
    ["messages", ["hello", call("c", "whoami"), makeRouter().router]],
    ["messages.0", [[null], call("c", "whoami"), makeRouter().router]],
    ["context", [[USER], call("c", "whoami"), makeRouter().router, PROMISE]],
    ["context.tenant", [[USER], call("c", "whoami"), makeRouter().router, { tenant: "acme" }]],
  ] as const)("executeSingleTurn() rejects an invalid %s", async ([path, given]) => {
    const error = await failureOf(new AgentLoop().executeSingleTurn(...(given as unknown as [[], never, never])));
    expect(error.code).toBe("PARAM_INVALID");
    expect(error.message).toContain(path);
  });

  test.for([
    ["an unknown key", { id: "c", toolName: "whoami", args: { tenant: "x" } }],
    ["a promise for arguments", { id: "c", toolName: "whoami", arguments: PROMISE }],
    ["a number for text", { id: "c", toolName: "whoami", argumentsText: 5 }],
  ])("executeSingleTurn() does not run a call with %s", async ([, made]) => {
    const { router, ran } = makeRouter();
    const { updatedMessages } = await new AgentLoop().executeSingleTurn([USER], made as never, router);
    expect(updatedMessages.at(-1)).toMatchObject({ result: { success: false, error: { code: "PARAM_INVALID" } } });
    expect(ran).toEqual([]);
  });

  test("executeSingleTurn() applies the guards of the loop", async () => {
    const { router, ran } = makeRouter();
    const codeOf = async (options: object): Promise<unknown> => {
      const turn = await new AgentLoop(options).executeSingleTurn([USER], call("c", "whoami"), router);
      const last = turn.updatedMessages.at(-1);
      return last?.role === "tool" && !last.result.success ? last.result.error.code : "ok";
    };
    expect(await codeOf({ tools: [] })).toBe("TOOL_UNAVAILABLE");
    expect(await codeOf({ needsApproval: ["whoami"] })).toBe("APPROVAL_REQUIRED");
    expect(await codeOf({ needsApproval: "destructive" })).toBe("APPROVAL_REQUIRED");
    expect(ran).toEqual([]);
    expect(await codeOf({ tools: ["whoami"], needsApproval: ["other"] })).toBe("ok");
  });
});

describe("ToolsRouterAgent", () => {
  test.for([...WRONG, ...ROUTER_ONLY])("rejects %s: %o in the constructor and in a run", async ([option, value]) => {
    const error = rejectionOf(() => new ToolsRouterAgent({ [option]: value }));
    expect(error.code).toBe("PARAM_INVALID");
    expect(error.message).toContain(`options.${option}`);
    const agent = new ToolsRouterAgent({ model: modelOf(), router: makeRouter().router });
    expect((await failureOf(agent.run("x", { [option]: value }))).message).toContain(`options.${option}`);
  });

  test.for(["toolFilter", "needsApproval", "maxTurns"])("rejects the unknown option %s", async (key) => {
    expect(rejectionOf(() => new ToolsRouterAgent({ [key]: [] } as never)).message).toContain(`options.${key}`);
    expect((await failureOf(new ToolsRouterAgent().run("x", { [key]: [] } as never))).message).toContain(key);
  });

  test.for([[null], [5], [PROMISE], [[null]], [new Map()]])("rejects %o instead of a request", async ([value]) => {
    const agent = new ToolsRouterAgent({ model: modelOf(), router: makeRouter().router });
    const error = await failureOf(agent.run(value as never));
    expect(error.code).toBe("PARAM_INVALID");
    expect(error.message).toContain("request");
  });

  test("prunes unknown inputs even if a run sets unknownKeys to undefined", async () => {
    const router = new ToolRouter();
    router.register("echo", { inputSchema: { type: "object", properties: { a: {} } } }, (input) => input);
    const model = modelOf(says('{"tool":"echo","inputs":{"a":1,"b":2}}'), says("ok"));
    const outcome = await new ToolsRouterAgent({ model, router }).run("x", { arguments: { unknownKeys: undefined } });
    expect(outcome).toMatchObject({ result: { output: { a: 1 } } });
  });
});

const calls: Message = { role: "assistant", content: [{ type: "tool-call", call: call("a", "t") }] };
const throwing: readonly (readonly [string, () => unknown])[] = [
  ["toolName", () => whenCalled(undefined as never)],
  ["toolName", () => whenCalled("")],
  ["toolName", () => whenSucceeded(["a"] as never)],
  ["count", () => afterFailedSteps(0)],
  ["count", () => afterFailedSteps("2" as never)],
  ["count", () => afterFailedSteps(Number.NaN)],
  ["count", () => afterOutputTokens(undefined as never)],
  ["count", () => afterOutputTokens(Number.POSITIVE_INFINITY)],
  ["conditions", () => anyOf()],
  ["conditions", () => allOf()],
  ["conditions.0", () => allOf([fn] as never)],
  ["conditions.1", () => anyOf(fn, PROMISE as never)],
  ["directory", () => createFileIdempotencyStore(undefined as never)],
  ["directory", () => createFileIdempotencyStore("")],
  ["messages", () => checkConversation("x" as never)],
  ["messages.0", () => checkConversation([null] as never)],
  ["messages", () => repairConversation(PROMISE as never)],
  ["messages.1.role", () => repairConversation([USER, {}] as never)],
  ["messages.0", () => trimConversation([5] as never, () => true)],
  ["fits", () => trimConversation([USER, USER], true as never)],
  ["fits", () => trimConversation([USER, calls], (() => "yes") as never)],
  ["fits", () => trimConversation([USER, USER], (() => inOtherRealm("Promise.reject(new Error())")) as never)],
];
test.for(throwing)("an invalid %s of an exported function is rejected: %s", ([path, action]) => {
  const error = rejectionOf(action);
  expect(error.code).toBe("PARAM_INVALID");
  expect(error.message).toMatch(new RegExp(`^${path.replace(".", "\\.")}: `));
});

test("a claim rejects an id that is not a UUID", async () => {
  const folder = await mkdtemp(join(tmpdir(), "claims-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  for (const store of [createMemoryIdempotencyStore(), createFileIdempotencyStore(folder)]) {
    for (const id of ["../x", undefined, {}] as never[]) {
      await expect((async () => await store.claim(id))()).rejects.toThrow("id");
    }
  }
});

test("a state of another tenant is not resumed, wherever the tenant is configured", async () => {
  const { router, ran } = makeRouter("multi");
  const options = { router, signingKey: KEY, needsApproval: ["whoami"] };
  const acme = new AgentLoop({ ...options, model: modelOf(CALLS), context: { tenantId: "acme" } });
  const { state } = (await acme.run({ messages: [USER], context: { executionId: "e" } })) as Paused;
  expect((state as AgentState).tenantId).toBe("acme");
  const given = { state, approvals: { c: true }, ...claims() };
  const other = new AgentLoop({ ...options, model: modelOf(says("ok")), context: { tenantId: "other" } });
  for (const context of [undefined, {}, { tenantId: "acme" }]) {
    expect((await failureOf(other.run({ ...given, context }))).message).toContain("tenant");
  }
  expect((await failureOf(new AgentLoop({ ...options, model: modelOf() }).run(given))).message).toContain("tenant");
  expect(ran).toEqual([]);
});
