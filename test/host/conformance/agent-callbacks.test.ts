// Functions that a host passes to agents: a tool runs only where each of them has said so, and a run always ends with its outcome.
import type { AgentOutcome } from "../../../src/host/agent/loop/agent-events.ts";
import { AgentLoop } from "../../../src/host/agent/loop/agent-loop.ts";
import type { AgentLoopOptions, AgentRunOptions } from "../../../src/host/agent/loop/agent-options.ts";
import { ToolsRouterAgent } from "../../../src/host/agent/router/tools-router-agent.ts";
import type { ToolsRouterOptions } from "../../../src/host/agent/router/tools-router-options.ts";
import { ToolRouter } from "../../../src/host/routing/tool-router.ts";
import {
  type Callback,
  type CallbackRow,
  MISBEHAVIOURS,
  type Outcome,
  testCallbacks,
} from "../../support/callback-table.ts";
import { call, callEvent, finish, says, scriptModel } from "../../support/scripted-model.ts";

const SIGNING_KEY = "a secret of the host's own, long enough";

/** A router with one tool, and how often it ran. */
function openRouter() {
  let runs = 0;
  const router = new ToolRouter({ limits: { timeoutMs: RUN_MS } });
  router.register("erase", { inputSchema: { type: "object" } }, () => {
    runs += 1;
    return {};
  });
  return { router, runs: () => runs, [Symbol.asyncDispose]: () => router[Symbol.asyncDispose]() };
}

const modelOf = () => scriptModel(says("On it", call("c1", "erase")), says("Done")).model;

/** A callback that hangs is ended by the run's signal at the latest. */
const RUN_MS = 6_000;

const isFinished = ({ status }: AgentOutcome): boolean => status === "finished";

async function runLoop(options: AgentLoopOptions, resumed?: Partial<AgentRunOptions>): Promise<Outcome> {
  await using host = openRouter();
  const common = { router: host.router, signal: AbortSignal.timeout(RUN_MS) } as const;
  const loop = new AgentLoop({ model: modelOf(), signingKey: SIGNING_KEY, ...options });
  const outcome = await loop.run({ ...common, messages: [{ role: "user", content: "Erase it" }] });
  if (resumed === undefined) return host.runs() === 1 && isFinished(outcome) ? "ok" : "denied";
  if (outcome.status !== "paused") throw new Error(`Expected a pause, got ${JSON.stringify(outcome)}`);
  const again = new AgentLoop({ model: scriptModel(says("Done")).model, signingKey: SIGNING_KEY });
  const approvals = { c1: true };
  const end = again.run({
    ...common,
    state: outcome.state,
    approvals,
    idempotencyStore: { claim: () => true },
    ...resumed,
  } as AgentRunOptions);
  const isDone = await end.then(isFinished, () => false);
  return host.runs() === 1 && isDone ? "ok" : "denied";
}

const guard = (option: keyof AgentLoopOptions) => (callback: Callback) => runLoop({ [option]: callback });

const DECISION = '{"tool":"erase","inputs":{}}';
async function route(options: ToolsRouterOptions): Promise<Outcome> {
  await using host = openRouter();
  const { model } = scriptModel(says(DECISION), says("Done"));
  const agent = new ToolsRouterAgent({ model, router: host.router, backoffMs: 0, ...options });
  const outcome = await agent.run("Erase it", { signal: AbortSignal.timeout(RUN_MS) });
  return host.runs() === 1 && outcome.status === "answered" ? "ok" : "denied";
}

/** A run whose model fails is reported, and has its outcome whatever the listener does. */
async function reportTo(onError: Callback): Promise<Outcome> {
  await using host = openRouter();
  const model = () => {
    throw new Error("no provider");
  };
  const outcome = await new AgentLoop({ model, router: host.router, onError }).run({
    messages: [{ role: "user", content: "Erase it" }],
  });
  return outcome.status === "failed" ? "ok" : "denied";
}

async function reportRoutingTo(onError: Callback): Promise<Outcome> {
  await using host = openRouter();
  const model = () => {
    throw new Error("no provider");
  };
  const agent = new ToolsRouterAgent({ model, router: host.router, onError, routingRetries: 0 });
  const { status } = await agent.run("Erase it");
  return status === "failed" ? "ok" : "denied";
}

async function fallBackTo(fallback: Callback): Promise<Outcome> {
  await using host = openRouter();
  const { model } = scriptModel(says('{"tool":"none","inputs":{}}'));
  const agent = new ToolsRouterAgent({ model, router: host.router, answer: false, fallback });
  const { status, text } = await agent.run("Erase it");
  return status === "none" && typeof text === "string" ? "ok" : "denied";
}

/** The callback is the model of the whole run: nothing it says by mistake is a call. */
const modelRow: CallbackRow = {
  name: "AgentLoop model",
  run: async (callback) => {
    let turn = 0;
    const { model: good } = scriptModel(says("Done"));
    return await runLoop({
      model: (request) => {
        turn += 1;
        return turn === 1 ? callback(request) : good(request);
      },
    });
  },
  good: async function* () {
    const made = call("c1", "erase");
    yield callEvent(made);
    yield finish([made]);
  },
  bad: "denied",
};

const STILL_RUNS: NonNullable<CallbackRow["except"]> = Object.fromEntries(
  MISBEHAVIOURS.filter(([name]) => !/hangs$/.test(name)).map(([name]) => [name, "ok"]),
);

testCallbacks([
  modelRow,
  { name: "AgentLoop tools", run: guard("tools"), good: () => true, bad: "denied" },
  { name: "AgentLoop needsApproval", run: guard("needsApproval"), good: () => false, bad: "denied" },
  { name: "AgentLoop prepareMessages", run: guard("prepareMessages"), good: (messages) => messages, bad: "denied" },
  {
    name: "AgentLoop idempotencyStore.claim",
    run: (claim) => runLoop({ needsApproval: () => true }, { idempotencyStore: { claim } }),
    good: () => true,
    bad: "denied",
  },
  { name: "AgentLoop onError", run: reportTo, good: () => undefined, bad: "ok" },
  { name: "ToolsRouterAgent tools", run: (tools) => route({ tools }), good: () => true, bad: "denied" },
  { name: "ToolsRouterAgent onError", run: reportRoutingTo, good: () => undefined, bad: "ok" },
  {
    name: "ToolsRouterAgent fallback",
    run: fallBackTo,
    good: () => "Nothing fits",
    bad: "ok",
    except: STILL_RUNS,
  },
]);
