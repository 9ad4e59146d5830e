// Functions that a host passes to agents: a failing guard denies, no rejection is left unhandled, and an abort ends the run at once.
import { getEventListeners } from "node:events";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import {
  AgentLoop,
  type AgentOutcome,
  type AgentRunOptions,
  checkConversation,
  createMemoryIdempotencyStore,
  type Message,
  ToolsRouterAgent,
  type ToolsRouterOutcome,
} from "../../../src/host/agent/index.ts";
import { ToolRouter } from "../../../src/host/routing/tool-router.ts";
import type { ToolError } from "../../../src/sandbox/contract/errors.ts";
import { FAILING_CALLBACKS, inOtherRealm, toThenable } from "../../support/failing-callbacks.ts";
import { failureOf } from "../../support/host-zone.ts";
import { call, says, scriptModel } from "../../support/scripted-model.ts";

const KEY = "a secret of thirty-two characters";
const USER: Message = { role: "user", content: "Delete it" };

type Callback = (...args: readonly unknown[]) => unknown;
type Case = readonly [name: string, callback: Callback];

/** Answers that are neither true nor false. */
const MALFORMED: readonly Case[] = [
  ["returns undefined", () => undefined],
  ["returns null", () => null],
  ["returns a truthy string", () => "yes"],
  ["returns an empty string", () => ""],
  ["returns 0", () => 0],
  ["returns 1", () => 1],
  ["returns an object", () => ({ approved: true })],
  ["returns a Boolean object", () => Object(false)],
];
/** Callbacks that return a promise, which a synchronous callback must not do. */
const PROMISED: readonly Case[] = [
  ["resolves to true", () => Promise.resolve(true)],
  ["resolves to true in another realm", () => inOtherRealm("Promise.resolve(true)")],
  ["returns a thenable of true", () => toThenable((resolve) => resolve(true))],
];
const MALFORMED_PROMISES: readonly Case[] = [
  ["resolves to undefined", () => Promise.resolve()],
  ["resolves to a truthy string in another realm", () => inOtherRealm("Promise.resolve('no')")],
];
const FAILING: readonly Case[] = FAILING_CALLBACKS;
const HANGING: readonly Case[] = [
  ["hangs", () => new Promise(() => {})],
  ["hangs in another realm", () => inOtherRealm("new Promise(() => {})")],
  ["returns a thenable that hangs", () => toThenable(() => {})],
];

function makeRouter() {
  const router = new ToolRouter();
  const ran: string[] = [];
  for (const name of ["read", "remove"]) router.register(name, {}, () => ran.push(name));
  return { router, ran };
}

interface Ran {
  readonly outcome: AgentOutcome;
  readonly ran: readonly string[];
  readonly errors: readonly ToolError[];
  readonly offered: readonly string[];
}

/** One turn with a call of `remove`, and one without. */
async function run(options: object): Promise<Ran> {
  const { router, ran } = makeRouter();
  const errors: ToolError[] = [];
  const { model, requests } = scriptModel(says(call("x", "remove")), says("Done."));
  const outcome = await new AgentLoop({ model, router, signingKey: KEY, onError: (error) => errors.push(error) }).run({
    messages: [USER],
    ...options,
  } as AgentRunOptions);
  return { outcome, ran, errors, offered: requests[0]?.tools.map(({ name }) => name) ?? [] };
}

describe("a tools filter", () => {
  test.for([...FAILING, ...MALFORMED, ...PROMISED, ...MALFORMED_PROMISES, ...HANGING])(
    "offers and runs no tool and is reported once a turn if it %s",
    async ([, tools]) => {
      const { ran, errors, offered, outcome } = await run({ tools });
      expect(offered).toEqual([]);
      expect(ran).toEqual([]);
      expect(outcome).toMatchObject({ status: "finished" });
      expect(errors.map(({ code }) => code)).toEqual(["INTERNAL", "INTERNAL"]);
      expect(errors[0]?.message).toContain('"read" and failed for 1 more');
    },
  );

  test("offers the other tools if it fails for one; false is not a failure", async () => {
    const filter = ({ name }: { readonly name: string }): boolean => {
      if (name === "read") throw new Error("no");
      return name === "remove";
    };
    const { ran, errors, offered } = await run({ tools: filter });
    expect(offered).toEqual(["remove"]);
    expect(ran).toEqual(["remove"]);
    expect(errors[0]?.cause).toMatchObject({ message: "no" });
    expect((await run({ tools: () => false })).errors).toEqual([]);
  });

  test.for([...PROMISED, ...FAILING])("leaves a ToolsRouterAgent without a tool if it %s", async ([, tools]) => {
    const { router, ran } = makeRouter();
    const errors: ToolError[] = [];
    const { model } = scriptModel(says("none"));
    const outcome = await new ToolsRouterAgent({ model, router, onError: (error) => errors.push(error) }).run("x", {
      tools: tools as never,
    });
    expect(outcome.status).toBe("none");
    expect(ran).toEqual([]);
    expect(errors).toHaveLength(1);
  });
});

describe("needsApproval", () => {
  test.for([...FAILING, ...MALFORMED, ...MALFORMED_PROMISES, ...PROMISED])(
    "makes the call wait if it %s",
    async ([, needsApproval]) => {
      const { outcome, ran, errors } = await run({ needsApproval });
      expect(outcome).toMatchObject({ status: "paused", approvalRequests: [{ call: { id: "x" } }] });
      expect(ran).toEqual([]);
      expect(errors).toHaveLength(PROMISED.some(([, callback]) => callback === needsApproval) ? 0 : 1);
    },
  );

  test.for<Case>([
    ["returns false", () => false],
    ["resolves to false in another realm", () => inOtherRealm("Promise.resolve(false)")],
    ["returns a thenable of false", () => toThenable((resolve) => resolve(false))],
  ])("lets the call run if it %s", async ([, needsApproval]) => {
    expect(await run({ needsApproval })).toMatchObject({
      ran: ["remove"],
      outcome: { status: "finished" },
      errors: [],
    });
  });
});

describe("stopWhen", () => {
  test.for([...FAILING, ...MALFORMED, ...MALFORMED_PROMISES])("fails the run if it %s", async ([, stopWhen]) => {
    const { outcome, errors } = await run({ stopWhen });
    expect(outcome).toMatchObject({ status: "failed", error: { code: "INTERNAL" } });
    expect(checkConversation(outcome.messages)).toEqual([]);
    expect(errors[0]?.message).toMatch(/^A stop condition /);
  });

  test.for(PROMISED)("ends the run if it %s", async ([, stopWhen]) => {
    expect((await run({ stopWhen })).outcome).toMatchObject({ status: "finished", reason: "stop-condition" });
  });
});

describe("prepareMessages", () => {
  test.for<Case>([
    ...FAILING,
    ...MALFORMED,
    ...MALFORMED_PROMISES,
    ["returns an invalid message", () => [{ role: "root" }]],
    ["resolves to a promise in place of a message", () => Promise.resolve([new Promise(() => {})])],
  ])("fails the run before the model is called if it %s", async ([, prepareMessages]) => {
    const { outcome, ran, offered, errors } = await run({ prepareMessages });
    expect(outcome).toMatchObject({ status: "failed" });
    expect([...ran, ...offered]).toEqual([]);
    expect(errors[0]?.message).toContain("prepareMessages");
  });

  test("may resolve to messages of another realm", async () => {
    const prepareMessages = (): unknown => inOtherRealm(`Promise.resolve([{ role: "user", content: "x" }])`);
    expect((await run({ prepareMessages })).outcome).toMatchObject({ status: "finished" });
  });
});

async function pausedState(): Promise<unknown> {
  const { outcome } = await run({ needsApproval: ["remove"] });
  if (outcome.status !== "paused") throw new Error(`Expected a pause, got ${outcome.status}`);
  return outcome.state;
}

describe("idempotencyStore.claim", () => {
  const resume = (state: unknown, claim: unknown, options: object = {}): Promise<Ran> =>
    run({
      model: scriptModel(says("Done.")).model,
      messages: undefined,
      state,
      approvals: { x: true },
      idempotencyStore: { claim },
      ...options,
    });

  test.for([...FAILING, ...MALFORMED, ...MALFORMED_PROMISES])(
    "does not resume the state if it %s; the state can be resumed later",
    async ([name, claim]) => {
      const state = await pausedState();
      const store = createMemoryIdempotencyStore();
      const { code } = await failureOf(resume(state, claim));
      expect(code).toBe(FAILING.some(([failing]) => failing === name) ? "INTERNAL" : "PARAM_INVALID");
      expect((await resume(state, (id: string) => store.claim(id))).ran).toEqual(["remove"]);
    },
  );

  test.for(PROMISED)("resumes the state if it %s", async ([, claim]) => {
    expect((await resume(await pausedState(), claim)).ran).toEqual(["remove"]);
  });

  test.for(HANGING)("is abandoned when the run is cancelled if it %s", async ([, hang]) => {
    const stop = new AbortController();
    const claim = (): unknown => {
      stop.abort();
      return hang();
    };
    expect((await failureOf(resume(await pausedState(), claim, { signal: stop.signal }))).code).toBe("CANCELLED");
    expect(getEventListeners(stop.signal, "abort")).toEqual([]);
  });
});

describe("an abort ends the run at once", () => {
  test.for(
    (["needsApproval", "stopWhen", "prepareMessages"] as const).flatMap((option) =>
      HANGING.map(([name, hang]) => [option, name, hang] as const),
    ),
  )("even if %s %s", async ([option, , hang]) => {
    const stop = new AbortController();
    const callback = (): unknown => {
      setImmediate(() => stop.abort());
      return hang();
    };
    const { outcome, errors } = await run({ [option]: callback, signal: stop.signal });
    expect(outcome.status).toBe("cancelled");
    expect(checkConversation(outcome.messages)).toEqual([]);
    expect(errors).toEqual([]);
    expect(getEventListeners(stop.signal, "abort")).toEqual([]);
  });

  /** Aborts when its tools are listed, and never answers. */
  function listingRouter(stop: AbortController) {
    const { router, ran } = makeRouter();
    const listing = {
      execute: router.execute.bind(router),
      stream: router.stream.bind(router),
      getRegisteredTools: router.getRegisteredTools.bind(router),
      digestOf: router.digestOf.bind(router),
      listTools: () => {
        stop.abort();
        return new Promise<never>(() => {});
      },
    };
    return { listing, ran };
  }

  test("an abort ends the run at once even if a source of tools does not answer", async () => {
    const stop = new AbortController();
    const { listing } = listingRouter(stop);
    const { outcome } = await run({ router: listing, signal: stop.signal });
    expect(outcome).toMatchObject({ status: "cancelled", messages: [USER] });
    const agent = new ToolsRouterAgent({ model: scriptModel().model, router: listing });
    expect(await agent.run("x", { signal: stop.signal })).toMatchObject({ status: "cancelled" });
  });

  test("an abort answers the approved calls of a resumed run, whose state cannot be resumed again", async () => {
    const stop = new AbortController();
    const { listing, ran } = listingRouter(stop);
    const given = {
      state: await pausedState(),
      approvals: { x: true },
      idempotencyStore: createMemoryIdempotencyStore(),
    };
    const { outcome } = await run({ ...given, messages: undefined, router: listing, signal: stop.signal });
    expect(outcome.status).toBe("cancelled");
    expect(outcome.messages.at(-1)).toMatchObject({ callId: "x", result: { error: { code: "CANCELLED" } } });
    expect(checkConversation(outcome.messages)).toEqual([]);
    expect(ran).toEqual([]);
  });
});

describe("a host function that hangs", () => {
  test.for([
    ["needsApproval", 30_000, { status: "paused" }],
    ["stopWhen", 30_000, { status: "failed", error: { message: expect.stringContaining("timed out") } }],
    ["prepareMessages", 300_000, { status: "failed", error: { message: expect.stringContaining("timed out") } }],
  ] as const)("times out as %s after %d ms", async ([option, timeoutMs, expected]) => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
    const called = Promise.withResolvers<void>();
    const running = run({
      [option]: () => {
        called.resolve();
        return new Promise(() => {});
      },
    });
    await called.promise;
    let isOver = false;
    void running.then(() => {
      isOver = true;
    });
    await vi.advanceTimersByTimeAsync(timeoutMs - 1);
    expect(isOver).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect((await running).outcome).toMatchObject(expected);
  });

  test("times out as claim after 30 s", async () => {
    const state = await pausedState();
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
    const called = Promise.withResolvers<void>();
    const claim = (): unknown => {
      called.resolve();
      return new Promise(() => {});
    };
    const resumed = failureOf(run({ messages: undefined, state, approvals: { x: true }, idempotencyStore: { claim } }));
    await called.promise;
    await vi.advanceTimersByTimeAsync(30_000);
    expect(await resumed).toMatchObject({ code: "INTERNAL", message: expect.stringContaining("timed out") });
  });
});

describe("a model function", () => {
  test.for<Case>([
    ...FAILING,
    ...MALFORMED,
    ...PROMISED,
    ["has an iterator that throws", () => ({ [Symbol.asyncIterator]: () => FAILING[0]?.[1]() })],
    [
      "yields a rejected promise of another realm",
      () => ({ [Symbol.asyncIterator]: () => ({ next: () => inOtherRealm("Promise.reject(new Error('no'))") }) }),
    ],
    ["yields nothing", () => ({ [Symbol.asyncIterator]: () => ({ next: () => undefined }) })],
    ["yields a thenable that throws", () => ({ [Symbol.asyncIterator]: () => ({ next: FAILING[3]?.[1] }) })],
    ["has an invalid iterator", () => ({ [Symbol.asyncIterator]: () => 5 })],
  ])("fails the run and the request if it %s", async ([, model]) => {
    const { outcome, ran } = await run({ model });
    expect(outcome).toMatchObject({ status: "failed", error: { code: "INTERNAL" }, messages: [USER] });
    expect(ran).toEqual([]);
    const agent = new ToolsRouterAgent({ model: model as never, router: makeRouter().router, routingRetries: 0 });
    expect(await agent.run("x")).toMatchObject({ status: "failed", stage: "routing" });
  });
});

describe("onError and fallback", () => {
  const broken = (): never => {
    throw new Error("no");
  };
  const request = (options: object): Promise<ToolsRouterOutcome> =>
    new ToolsRouterAgent({ model: broken, router: makeRouter().router, routingRetries: 0, ...options }).run("x");

  test.for([...FAILING, ...MALFORMED, ...PROMISED, ...HANGING])(
    "does not change the outcome if it %s",
    async ([name, callback]) => {
      expect((await run({ model: broken, onError: callback })).outcome).toMatchObject({ status: "failed" });
      expect(await request({ onError: callback })).toMatchObject({ status: "failed" });
      const { text } = await request({ fallback: callback });
      const own = { "returns a truthy string": "yes", "returns an empty string": "" }[name];
      expect(text).toEqual(own ?? expect.stringContaining("could not work out"));
    },
  );
});
