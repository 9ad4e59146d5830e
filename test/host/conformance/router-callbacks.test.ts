// Functions that a host passes to a ToolRouter: none of them can open a door, crash the host or hold up a call.

import type { CallContext, ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { HostFunction } from "../../../src/host/executors/host-function.ts";
import { ToolRouter, type ToolRouterOptions } from "../../../src/host/routing/tool-router.ts";
import {
  ANY_ANSWER,
  type Callback,
  type CallbackRow,
  type Outcome,
  testCallbacks,
} from "../../support/callback-table.ts";

const CALL = { id: "c1", toolName: "add", arguments: { a: 1, b: 2 } } as const;
const TIMEOUT_MS = 5_000;

interface Setting {
  readonly options?: ToolRouterOptions;
  readonly context?: CallContext;
  readonly handler?: Callback;
}

/** Calls a host tool; `ok` when it ran and its result arrived. */
async function callTool({ options, context, handler }: Setting): Promise<{ ran: boolean; result: ToolResult }> {
  let ran = false;
  const router = new ToolRouter(options);
  const add: HostFunction = (input, call) => {
    ran = true;
    call.log("adding");
    return handler === undefined ? { sum: 3 } : handler(input, call);
  };
  router.register("add", { inputSchema: { type: "object" } }, add, { scope: "global" });
  const result = await router.execute(CALL, { timeoutMs: TIMEOUT_MS, ...context });
  await router[Symbol.asyncDispose]();
  return { ran, result };
}

/** A guard denies before the tool runs. */
const guard =
  (settingOf: (callback: Callback) => Setting) =>
  async (callback: Callback): Promise<Outcome> => {
    const { ran, result } = await callTool(settingOf(callback));
    if (ran !== result.success) throw new Error(`Expected no tool to run in vain, got ${JSON.stringify(result)}`);
    return result.success ? "ok" : "denied";
  };
const ended =
  (settingOf: (callback: Callback) => Setting) =>
  async (callback: Callback): Promise<Outcome> =>
    (await callTool(settingOf(callback))).result.success ? "ok" : "denied";

const NO_OBJECTION = { "returns undefined": "ok", "returns a promise of undefined": "ok" } as const;
const hookRow = (stage: "validate" | "prepare" | "execute" | "afterExecute" | "result"): CallbackRow => ({
  name: `hooks[].${stage}`,
  run: (["afterExecute", "result"].includes(stage) ? ended : guard)((callback) => ({
    options: { hooks: [{ name: "guard", timeoutMs: 100, [stage]: callback }] },
  })),
  good: () => undefined,
  bad: "denied",
  except: NO_OBJECTION,
});

const onProblem = async (callback: Callback): Promise<Outcome> => {
  const { result } = await callTool({
    options: { onInternalError: callback },
    handler: () => {
      throw new Error("broken");
    },
  });
  return !result.success && result.error.code === "TOOL_FAILED" ? "ok" : "denied";
};

/** A registry's tool whose input is checked by a validator of the host's. */
async function checkedBy(validate: Callback): Promise<Outcome> {
  const router = new ToolRouter();
  let ran = false;
  const schema = {
    "~standard": {
      version: 1 as const,
      vendor: "test",
      validate,
      jsonSchema: { input: () => ({ type: "object" }), output: () => ({ type: "object" }) },
    },
  };
  router.register("add", { inputSchema: schema as never }, () => {
    ran = true;
    return {};
  });
  const result = await router.execute(CALL, { timeoutMs: TIMEOUT_MS });
  await router[Symbol.asyncDispose]();
  if (ran !== result.success) throw new Error("Expected no tool to run in vain");
  return ran ? "ok" : "denied";
}

async function throughSource(call: Callback): Promise<Outcome> {
  const router = new ToolRouter();
  const source = router.addToolProvider("s", { call });
  source.register("add", { outputSchema: { type: "object", required: ["sum"] } });
  const result = await router.execute(CALL, { timeoutMs: TIMEOUT_MS });
  await router[Symbol.asyncDispose]();
  return result.success ? "ok" : "denied";
}

type Discovery = NonNullable<Parameters<ToolRouter["addToolProvider"]>[1]["discovery"]>;
const throughDiscovery =
  (method: keyof Discovery) =>
  async (callback: Callback): Promise<Outcome> => {
    const router = new ToolRouter();
    const source = router.addToolProvider("s", {
      call: () => ({}),
      discovery: {
        isFor: () => true,
        mayHave: () => true,
        isKnown: () => false,
        discover: async () => {
          source.register("add", {});
        },
        [method]:
          method === "discover"
            ? async () => {
                await callback();
                source.register("add", {});
              }
            : callback,
      },
    });
    const result = await router.execute(CALL, { timeoutMs: TIMEOUT_MS });
    await router[Symbol.asyncDispose]();
    return result.success ? "ok" : "denied";
  };

testCallbacks([
  ...(["validate", "prepare", "execute", "afterExecute", "result"] as const).map(hookRow),
  {
    name: "hooks[].observe",
    run: ended((observe) => ({ options: { hooks: [{ name: "eye", observe }] } })),
    good: () => undefined,
    bad: "ok",
  },
  { name: "flags", run: guard((flags) => ({ options: { flags } })), good: () => true, bad: "denied" },
  {
    name: "flags.getBooleanDetails",
    run: guard((getBooleanDetails) => ({ options: { flags: { getBooleanDetails } } })),
    good: async () => ({ value: true }),
    bad: "denied",
  },
  {
    name: "tenants",
    run: guard((tenants) => ({ options: { tenancy: "multi", tenants }, context: { tenantId: "acme" } })),
    good: () => ({}),
    bad: "denied",
  },
  { name: "onInternalError", run: onProblem, good: () => undefined, bad: "ok" },
  { name: "context.onLog", run: ended((onLog) => ({ context: { onLog } })), good: () => undefined, bad: "ok" },
  { name: "inputSchema validate", run: checkedBy, good: (value: unknown) => ({ value }), bad: "denied" },
  { name: "a source's call", run: throughSource, good: () => ({ sum: 3 }), bad: "denied" },
  ...(["isFor", "mayHave", "isKnown", "discover"] as const).map(
    (method): CallbackRow => ({
      name: `discovery.${method}`,
      run: throughDiscovery(method),
      good: () => method !== "isKnown",
      // A provider that does not report its tools as known is queried for them, which grants nothing.
      bad: method === "isKnown" ? "ok" : "denied",
      // What it resolves with is not read.
      ...(method === "discover" ? { except: ANY_ANSWER } : {}),
    }),
  ),
]);
