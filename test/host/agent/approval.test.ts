// Approval: a run pauses before marked calls, its state is plain JSON, and a state that comes back is untrusted.
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import fc from "fast-check";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  AgentLoop,
  type AgentOutcome,
  type AgentRunOptions,
  type AgentState,
  type ApprovalQuestion,
  type ApprovalRule,
  checkConversation,
  createFileIdempotencyStore,
  createMemoryIdempotencyStore,
  type Message,
} from "../../../src/host/agent/index.ts";
import { createToolFailureMessage } from "../../../src/host/contract/failure-message.ts";
import { ToolRouter } from "../../../src/host/routing/tool-router.ts";
import type { ToolAnnotations } from "../../../src/sandbox/contract/tool-annotations.ts";
import { failureOf } from "../../support/host-zone.ts";
import { call, says, scriptModel } from "../../support/scripted-model.ts";

const KEY = "a secret of thirty-two characters";
const USER: Message = { role: "user", content: "Delete it" };
const loop = new AgentLoop({ signingKey: "unsigned" });
type Paused = Extract<AgentOutcome, { status: "paused" }>;

/** `ran` contains the inputs of calls, by tool. */
function makeRouter(
  annotations: { readonly [name: string]: ToolAnnotations } = {},
  tenancy: "single" | "multi" = "single",
): {
  readonly router: ToolRouter;
  readonly ran: string[];
} {
  const router = new ToolRouter({ tenancy });
  const ran: string[] = [];
  for (const name of ["read", "remove"]) {
    const run = (input: unknown): Uint8Array => {
      ran.push(`${name} ${JSON.stringify(input)}`);
      return new Uint8Array([1, 2, 3]);
    };
    router.register(name, { annotations: annotations[name] }, run, { scope: "global" });
  }
  return { router, ran };
}

async function pause(router: ToolRouter, options: Partial<AgentRunOptions> = {}): Promise<Paused> {
  const { model } = scriptModel(says("Sure.", call("r", "read", { id: 1 }), call("x", "remove", { id: 1 })));
  const given = { model, router, messages: [USER], needsApproval: ["remove"], ...options } as AgentRunOptions;
  const outcome = await loop.run(given);
  if (outcome.status !== "paused") throw new Error(`Expected a pause, got ${outcome.status}`);
  return outcome;
}

/** Passes a state through a JSON store, which may reorder its keys. */
function throughStorage(state: AgentState): AgentState {
  const reverse = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(reverse);
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(
      Object.entries(value)
        .toReversed()
        .map(([key, each]) => [key, reverse(each)]),
    );
  };
  return reverse(JSON.parse(JSON.stringify(state))) as AgentState;
}

const resume = (router: ToolRouter, state: unknown, options: object = {}): Promise<AgentOutcome> =>
  loop.run({
    model: scriptModel(says("Done.")).model,
    router,
    state,
    approvals: { x: true },
    idempotencyStore: createMemoryIdempotencyStore(),
    ...options,
  } as AgentRunOptions);

describe("a pause", () => {
  test("precedes a call that needs approval; the other calls of its turn run", async () => {
    const { router, ran } = makeRouter();
    const { approvalRequests, state, messages } = await pause(router);
    expect(ran).toEqual(['read {"id":1}']);
    expect(approvalRequests).toMatchObject([{ call: { id: "x", toolName: "remove" }, definition: { name: "remove" } }]);
    expect(checkConversation(messages)).toEqual([{ kind: "unanswered-call", messageIndex: 1, callId: "x" }]);
    expect(JSON.parse(JSON.stringify(state))).toEqual(state);
    expect(state).toMatchObject({
      version: 2,
      pending: [{ callId: "x", toolDigest: approvalRequests[0]?.toolDigest }],
      stepCount: 1,
      tenantId: null,
    });
  });

  test("sends its events before the outcome", async () => {
    const { router } = makeRouter();
    const { model } = scriptModel(says(call("x", "remove")));
    const types: string[] = [];
    const stream = loop.stream({ model, router, messages: [USER], needsApproval: ["remove"] });
    for await (const event of stream) types.push(event.type);
    expect(types).toEqual(["step-start", "tool-call", "approval-request", "step-end", "outcome"]);
  });

  const rules: readonly (readonly [string, ApprovalRule, { [name: string]: ToolAnnotations }, readonly string[]])[] = [
    ["names", ["read"], {}, ["r"]],
    [
      "a predicate",
      ({ call: { arguments: args, argumentsText } }) => `${args}${argumentsText}`.includes("1"),
      {},
      ["r", "x"],
    ],
    ["an asynchronous predicate", async ({ definition }) => definition.name === "remove", {}, ["x"]],
    [
      "a predicate that throws",
      () => {
        throw new Error("no");
      },
      {},
      ["r", "x"],
    ],
    ["a predicate that rejects", () => Promise.reject(new Error("no")), {}, ["r", "x"]],
    ["a predicate that returns nothing", (() => undefined) as never, {}, ["r", "x"]],
    ["empty annotations", "destructive", {}, ["r", "x"]],
    ["annotations", "destructive", { read: { readOnlyHint: true }, remove: { destructiveHint: true } }, ["x"]],
    ["harmless annotations", "destructive", { read: { readOnlyHint: true }, remove: { destructiveHint: false } }, []],
  ];
  test.for(rules)("a pause is decided by %s", async ([, needsApproval, annotations, expected]) => {
    const { router } = makeRouter(annotations);
    const { model } = scriptModel(says(call("r", "read", { id: 1 }), call("x", "remove", { id: 1 })), says("ok"));
    const outcome = await loop.run({ model, router, messages: [USER], needsApproval });
    expect(outcome.status === "paused" ? outcome.approvalRequests.map(({ call: { id } }) => id) : []).toEqual(expected);
  });

  test("ignores annotations of an untrusted server", async () => {
    const router = new ToolRouter();
    for (const isTrusted of [true, false]) {
      const name = isTrusted ? "trusted" : "stranger";
      const origin = { server: "up", toolName: name, isTrusted };
      router.register(name, { annotations: { readOnlyHint: true }, origin }, () => "done");
    }
    const { model } = scriptModel(says(call("t", "trusted"), call("s", "stranger")), says("ok"));
    const outcome = await loop.run({ model, router, messages: [USER], needsApproval: "destructive" });
    expect(outcome.status === "paused" ? outcome.approvalRequests.map(({ call: { id } }) => id) : []).toEqual(["s"]);
  });

  test("does not request approval for a call that cannot run", async () => {
    const { router } = makeRouter();
    const { model } = scriptModel(
      says(call("x", "nobody"), { ...call("y", "remove"), problem: "no JSON" }),
      says("ok"),
    );
    expect(await loop.run({ model, router, messages: [USER], needsApproval: () => true })).toMatchObject({
      status: "finished",
    });
  });

  test("does not occur if the run was cancelled in the meantime", async () => {
    const { router, ran } = makeRouter();
    const stop = new AbortController();
    const { model } = scriptModel(says(call("x", "remove")));
    const needsApproval = (): boolean => {
      stop.abort();
      return true;
    };
    const outcome = await loop.run({ model, router, messages: [USER], needsApproval, signal: stop.signal });
    expect(outcome.status).toBe("cancelled");
    expect(checkConversation(outcome.messages)).toEqual([]);
    expect(ran).toEqual([]);
  });
});

describe("resuming", () => {
  test("runs approved calls once, and continues", async () => {
    const { router, ran } = makeRouter();
    const { state } = await pause(router);
    const outcome = await resume(router, throughStorage(state));
    expect(outcome).toMatchObject({ status: "finished", text: "Done.", usage: { inputTokens: 20 } });
    expect(ran).toEqual(['read {"id":1}', 'remove {"id":1}']);
    expect(checkConversation(outcome.messages)).toEqual([]);
    // Binary data is restored.
    expect(outcome.messages[2]).toMatchObject({ callId: "r", result: { output: new Uint8Array([1, 2, 3]) } });
  });

  test("answers denied calls with the reason, and does not run them", async () => {
    const { router, ran } = makeRouter();
    const { state } = await pause(router);
    const outcome = await resume(router, JSON.stringify(state), {
      approvals: { x: { approved: false, reason: "not today" } },
    });
    expect(ran).toHaveLength(1);
    expect(outcome.messages.at(-2)).toMatchObject({
      callId: "x",
      result: { success: false, error: { code: "APPROVAL_REQUIRED", message: expect.stringContaining("not today") } },
    });
    // What the model reads.
    const answer = outcome.messages.at(-2) as Extract<Message, { readonly role: "tool" }>;
    expect(createToolFailureMessage(answer.result)).toContain("denied and not run: not today");
  });

  test("pauses again if the next turn requires it, and continues to count steps", async () => {
    const { router } = makeRouter();
    const { state } = await pause(router);
    const { model } = scriptModel(says(call("y", "remove")));
    const outcome = await resume(router, state, { model, needsApproval: ["remove"], maxSteps: 2 });
    expect(outcome).toMatchObject({ status: "paused", state: { stepCount: 2, pending: [{ callId: "y" }] } });
    const end = await resume(router, (outcome as Paused).state, { approvals: { y: true }, maxSteps: 2 });
    expect(end).toMatchObject({ status: "finished", reason: "max-steps" });
    expect(checkConversation(end.messages)).toEqual([]);
  });

  test("rejects a second resume with any idempotency store, unless the host allows it", async () => {
    const folder = await mkdtemp(join(tmpdir(), "claims-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    for (const idempotencyStore of [
      createMemoryIdempotencyStore(),
      createFileIdempotencyStore(join(folder, "claims")),
    ]) {
      const { router, ran } = makeRouter();
      const { state } = await pause(router);
      const ends = await Promise.allSettled([1, 2, 3].map(() => resume(router, state, { idempotencyStore })));
      expect(ends.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected", "rejected"]);
      expect(ran.filter((each) => each.startsWith("remove"))).toHaveLength(1);
      await resume(router, state, { idempotencyStore: { claim: () => true } });
      expect(ran.filter((each) => each.startsWith("remove"))).toHaveLength(2);
    }
  });

  test("requires the option idempotencyStore", async () => {
    const { router } = makeRouter();
    const { state } = await pause(router);
    expect((await failureOf(resume(router, state, { idempotencyStore: undefined }))).message).toContain(
      "options.idempotencyStore",
    );
  });

  test.for([
    ["no decision", {}],
    ["one for another call", { x: true, y: true }],
    ["an invalid decision", { x: "yes" }],
    ["an array", [true]],
    ["nothing", undefined],
  ] as const)("rejects %s, and the state can still be resumed", async ([, approvals]) => {
    const { router, ran } = makeRouter();
    const { state } = await pause(router);
    const idempotencyStore = createMemoryIdempotencyStore();
    expect((await failureOf(resume(router, state, { approvals, idempotencyStore }))).message).toMatch(
      /^options\.approvals/,
    );
    expect(ran).toHaveLength(1);
    expect(await resume(router, state, { idempotencyStore })).toMatchObject({ status: "finished" });
  });

  test("rejects another tenant's state", async () => {
    const { router } = makeRouter({}, "multi");
    const { state } = await pause(router, { context: { tenantId: "acme" } });
    expect((await failureOf(resume(router, state, { context: { tenantId: "other" } }))).message).toContain("tenant");
    expect(await resume(router, state, { context: { tenantId: "acme" } })).toMatchObject({ status: "finished" });
  });

  const pendingOf = (callId: string) => ({ callId, toolDigest: "d" });
  const changes: readonly (readonly [string, (state: Record<string, unknown>) => unknown])[] = [
    ["no state", () => undefined],
    ["invalid JSON text", () => "{"],
    ["another kind", (state) => ({ ...state, kind: "other" })],
    ["an earlier version", (state) => ({ ...state, version: 1 })],
    ["a later version", (state) => ({ ...state, version: 3 })],
    ["an additional field", (state) => ({ ...state, extra: 1 })],
    ["no id", ({ id: _id, ...state }) => state],
    ["an id that is a path", (state) => ({ ...state, id: "../../etc/passwd" })],
    ["no pending calls", (state) => ({ ...state, pending: [] })],
    ["an answered call", (state) => ({ ...state, pending: [pendingOf("x"), pendingOf("r")] })],
    ["an unknown call", (state) => ({ ...state, pending: [pendingOf("x"), pendingOf("z")] })],
    ["a call without the digest of its tool", (state) => ({ ...state, pending: ["x"] })],
    ["invalid messages", (state) => ({ ...state, messages: [{ role: "root", content: "x" }] })],
    ["a truncated conversation", (state) => ({ ...state, messages: (state.messages as unknown[]).slice(0, 1) })],
    ["a __proto__ key", (state) => JSON.stringify(state).replace('"stepCount"', '"__proto__":{},"stepCount"')],
    ["a negative step count", (state) => ({ ...state, stepCount: -1 })],
    ["invalid bytes", (state) => ({ ...state, bytes: { mark: "bytes xx ", parts: ["%%%"] } })],
  ];
  test.for(changes)("rejects a state with %s", async ([, change]) => {
    const { router, ran } = makeRouter();
    const { state } = await pause(router);
    const changed = change({ ...state });
    const options = changed === undefined ? { state: null } : {};
    const error = await failureOf(resume(router, changed, options));
    expect(error.code).toBe("PARAM_INVALID");
    expect(ran).toHaveLength(1);
  });

  test("rejects any other JSON", async () => {
    const { router } = makeRouter();
    await fc.assert(
      fc.asyncProperty(fc.json(), async (text) => {
        expect((await failureOf(resume(router, text))).code).toBe("PARAM_INVALID");
      }),
    );
  });
});

describe("a signed state", () => {
  test("is resumed with its keys in any order", async () => {
    const { router } = makeRouter();
    const { state } = await pause(router, { signingKey: KEY });
    expect(await resume(router, throughStorage(state), { signingKey: KEY })).toMatchObject({ status: "finished" });
  });

  const forgeries: readonly (readonly [string, (state: AgentState) => unknown])[] = [
    ["no seal", ({ seal: _seal, ...state }) => state],
    [
      "other arguments of the call",
      (state) => JSON.parse(JSON.stringify(state).replaceAll('{\\"id\\":1}', '{\\"id\\":2}')),
    ],
    ["another id, to run it again", (state) => ({ ...state, id: crypto.randomUUID() })],
    ["another tenant", (state) => ({ ...state, tenantId: "acme" })],
  ];
  test.for(forgeries)("is rejected with %s", async ([, forge]) => {
    const { router, ran } = makeRouter({}, "multi");
    const context = { tenantId: "beta" };
    const { state } = await pause(router, { signingKey: KEY, context });
    const forged = forge(state);
    expect(forged).not.toEqual(state);
    const { tenantId } = forged as AgentState;
    const resumed = resume(router, forged, { signingKey: KEY, context: { tenantId: tenantId ?? "beta" } });
    expect((await failureOf(resumed)).message).toMatch(/^options\.state: /);
    expect((await failureOf(resume(router, state, { signingKey: `${KEY}!`, context }))).message).toContain(
      "another key",
    );
    expect(ran).toHaveLength(1);
  });
});

describe("in another process", () => {
  const SCRIPT = fileURLToPath(new URL("../../support/agent-resume-script.ts", import.meta.url));
  const run = promisify(execFile);

  test("continues a run that paused in this process, once", async () => {
    const folder = await mkdtemp(join(tmpdir(), "paused-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const router = new ToolRouter({ tenancy: "multi" });
    router.register("add", {}, () => "never run here", { tenantId: "acme" });
    const { model } = scriptModel(says(call("c1", "add", { a: 1, b: 2 })));
    const outcome = await loop.run({
      model,
      router,
      messages: [USER],
      needsApproval: ["add"],
      context: { tenantId: "acme" },
      signingKey: KEY,
    });
    const file = join(folder, "state.json");
    await writeFile(file, JSON.stringify((outcome as Paused).state));
    const args = [SCRIPT, file, join(folder, "claims"), "yes"];
    const { stdout } = await run(process.execPath, args, { env: { HOME: folder } });
    const resumed = JSON.parse(stdout) as AgentOutcome;
    expect(resumed).toMatchObject({ status: "finished", text: "Done." });
    expect(resumed.messages[2]).toMatchObject({ role: "tool", callId: "c1", result: { success: true, output: 3 } });
    await expect(run(process.execPath, args, { env: { HOME: folder } })).rejects.toThrow("already resumed");
  });
});

test("a call whose arguments are not JSON waits, even if the router could repair them", async () => {
  const asked: unknown[] = [];
  const needsApproval = ({ call: { arguments: args } }: ApprovalQuestion): boolean => {
    asked.push(args);
    return ((args as { readonly amount?: number } | undefined)?.amount ?? 0) > 100;
  };
  for (const [text, status] of [
    ['{"amount": 1000000,}', "paused"],
    ['{"amount": 5}', "finished"],
    ["", "finished"],
  ] as const) {
    const { router, ran } = makeRouter();
    const { model } = scriptModel(says(call("x", "remove", text)), says("Done"));
    const context = { arguments: { repair: true } };
    const outcome = await loop.run({ model, router, context, messages: [USER], needsApproval });
    expect([outcome.status, ran.length]).toEqual([status, status === "paused" ? 0 : 1]);
  }
  expect(asked).toEqual([{ amount: 5 }, {}]);
});
