// Functions that a host passes to createGlovebox and to calls of sandboxed tools. One Glovebox serves all rows: each callback is reached
// through a slot that a row fills for its own call.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll } from "vitest";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import { MemoryKvStore } from "../../../src/host/capabilities/kv/kv-memory.ts";
import type { CallClient } from "../../../src/host/contract/client-requests.ts";
import type { CallContext, ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import {
  ANY_ANSWER,
  type Callback,
  type CallbackRow,
  isHanging,
  type Outcome,
  testCallbacks,
} from "../../support/callback-table.ts";
import { makeGlovebox } from "../../support/host-zone.ts";

type SlotName =
  | "hook.capability"
  | "hook.capabilityResult"
  | "capability.execute"
  | "capability.inputSchema"
  | "capability.outputSchema"
  | `kv.${"get" | "set" | "delete" | "list" | "usage"}`
  | "egress.resolve"
  | "secret.value"
  | "onError"
  | "logger";
/** Whose answer no call waits for. */
const LISTENERS: ReadonlySet<SlotName> = new Set(["onError", "logger"]);
const slots = new Map<SlotName, Callback>();

/** Calls what a row has put into the slot, and else what belongs there. */
const slot =
  (name: SlotName, otherwise: Callback): Callback =>
  (...args) =>
    (slots.get(name) ?? otherwise)(...args);

const standardSchema = (name: SlotName) => ({
  "~standard": {
    version: 1 as const,
    vendor: "test",
    validate: slot(name, (value) => ({ value })),
    jsonSchema: { input: () => ({}), output: () => ({}) },
  },
});

/** Time of a call that waits for a callback in vain, at first: a busy machine may need more to reach the callback. */
const SHORT_MS = 300;
/** Time of the others. */
const CALL_MS = 120_000;
const kvStore = new MemoryKvStore();
const kv = Object.fromEntries(
  (["get", "set", "delete", "list", "usage"] as const).map((method) => [
    method,
    slot(`kv.${method}`, (...args) => (kvStore[method] as Callback)(...args)),
  ]),
);
const logLine = slot("logger", () => undefined);
const logger = { child: () => logger, info: logLine, warn: logLine, error: logLine };

const KV_STEPS = {
  get: "await kv.get('k')",
  set: "await kv.set('k', 1)",
  delete: "await kv.delete('k')",
  list: "await kv.list()",
};

let glovebox: Glovebox;
const server = createServer((_request, response) => response.end("{}"));
let port: number;

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  port = (server.address() as AddressInfo).port;
  const lookUp = defineCapability({
    name: "lookUp",
    inputSchema: standardSchema("capability.inputSchema") as never,
    outputSchema: standardSchema("capability.outputSchema") as never,
    handler: slot("capability.execute", () => ({ found: true })),
  });
  glovebox = await makeGlovebox({
    capabilities: [lookUp],
    kv: kv as never,
    hooks: [
      {
        name: "guard",
        timeoutMs: 100,
        capability: slot("hook.capability", () => undefined),
        capabilityResult: slot("hook.capabilityResult", () => undefined),
      },
    ],
    onError: slot("onError", () => undefined),
    logger: logger as never,
    ...egressOf(port),
  });
  const add = (name: string, source: string, grant: readonly string[]): Promise<unknown> =>
    glovebox.addTool({ name, source, overrides: { limits: { timeoutMs: CALL_MS } } }, { grant });
  await add("asks", "export default async (input, { lookUp }) => await lookUp({ key: 1 })", ["lookUp"]);
  for (const [method, code] of Object.entries(KV_STEPS)) {
    await add(`kv_${method}`, `export default async (input, { kv }) => { ${code}; return true; }`, ["kv"]);
  }
  await add("fetches", `export default async ({ url }, { fetch }) => (await fetch(url)).status`, ["fetch"]);
  await add(
    "signs",
    `export default async ({ url }, { fetch, secrets }) => (await fetch(url, { headers: { authorization: await secrets.use("token") } })).status`,
    ["fetch", "secrets"],
  );
  await add("fails", "export default () => { throw new Error('broken'); }", []);
  await add(
    "logs",
    "export default (input, ctx) => { console.log('a'); ctx.progress({ progress: 1 }); return true; }",
    [],
  );
  for (const what of ["elicit", "sample", "roots"]) {
    await add(what, `export default async (input, ctx) => await ctx.${what}(${REQUESTS[what]})`, [what]);
  }
});
afterAll(async () => {
  await glovebox.close();
  server.closeAllConnections();
  await new Promise((closed) => server.close(closed));
});

/** Only the resolver of this test knows the host name. */
function egressOf(to: number): object {
  const rule = `http://host.test:${to}`;
  return {
    egress: {
      allow: [{ to: rule, addresses: ["127.0.0.1"] }],
      resolve: slot("egress.resolve", () => ["127.0.0.1"]),
    },
    secrets: { token: { value: slot("secret.value", () => "a secret of the host"), hosts: [rule] } },
  } as never;
}

const REQUESTS: { readonly [what: string]: string } = {
  elicit: `{ message: "Sure?", requestedSchema: { type: "object", properties: {} } }`,
  sample: `{ messages: [{ role: "user", content: { type: "text", text: "Say it" } }], maxTokens: 10 }`,
  roots: "",
};

const execute = (toolName: string, context: CallContext = {}): Promise<ToolResult> =>
  glovebox.execute({ id: "c1", toolName, arguments: { url: `http://host.test:${port}/` } }, context);

/** Runs a call with a callback; one that hangs is called again with more time until the callback has been reached. */
async function executeUntilReached(
  callback: Callback,
  isWaitedFor: boolean,
  run: (callback: Callback, timeoutMs: number) => Promise<ToolResult>,
): Promise<ToolResult> {
  let isReached = false;
  const reached: Callback = (...args) => {
    isReached = true;
    return callback(...args);
  };
  if (isHanging(callback) && isWaitedFor) {
    for (let timeoutMs = SHORT_MS; timeoutMs < CALL_MS; timeoutMs *= 4) {
      const result = await run(reached, timeoutMs);
      if (isReached) return result;
    }
  }
  return await run(callback, CALL_MS);
}

/** Fills a slot for one call. */
const filling =
  (name: SlotName, toolName: string, isOk = ({ success }: ToolResult): boolean => success) =>
  async (callback: Callback): Promise<Outcome> => {
    const result = await executeUntilReached(callback, !LISTENERS.has(name), async (reached, timeoutMs) => {
      slots.set(name, reached);
      try {
        return await execute(toolName, { timeoutMs });
      } finally {
        slots.delete(name);
      }
    });
    return isOk(result) ? "ok" : "denied";
  };
const inContext =
  (toolName: string, contextOf: (callback: Callback, timeoutMs: number) => CallContext) =>
  async (callback: Callback): Promise<Outcome> => {
    const run = (reached: Callback, timeoutMs: number) =>
      execute(toolName, { timeoutMs, ...contextOf(reached, timeoutMs) });
    return (await executeUntilReached(callback, toolName !== "logs", run)).success ? "ok" : "denied";
  };

const NO_OBJECTION = { "returns undefined": "ok", "returns a promise of undefined": "ok" } as const;
const hasFailed = (result: ToolResult): boolean => !result.success && result.error.code === "TOOL_FAILED";
const listener = (name: string, run: CallbackRow["run"]): CallbackRow => ({
  name,
  run,
  good: () => undefined,
  bad: "ok",
});
const asks = (what: keyof CallClient, toolName: string, good: Callback): CallbackRow => ({
  name: `context.client.${what}`,
  // A person may take minutes to answer, and the call's clock stands still meanwhile: what ends a wait early is its caller.
  run: inContext(toolName, (callback, timeoutMs) => ({
    client: { [what]: callback },
    signal: AbortSignal.timeout(timeoutMs),
  })),
  good,
  bad: "denied",
});

testCallbacks(
  [
    {
      name: "hooks[].capability",
      run: filling("hook.capability", "asks"),
      good: () => undefined,
      bad: "denied",
      except: NO_OBJECTION,
    },
    {
      name: "hooks[].capabilityResult",
      run: filling("hook.capabilityResult", "asks"),
      good: () => undefined,
      bad: "denied",
      except: NO_OBJECTION,
    },
    {
      name: "a capability's execute",
      run: filling("capability.execute", "asks"),
      good: () => ({ found: true }),
      bad: "denied",
      // Any JSON is an output of a capability; what has none is undefined in the tool.
      except: ANY_ANSWER,
    },
    ...(["inputSchema", "outputSchema"] as const).map(
      (which): CallbackRow => ({
        name: `a capability's ${which}`,
        run: filling(`capability.${which}`, "asks"),
        good: (value) => ({ value }),
        bad: "denied",
      }),
    ),
    {
      name: "store.get",
      run: filling("kv.get", "kv_get"),
      good: async () => undefined,
      bad: "denied",
      except: NO_OBJECTION,
    },
    {
      name: "store.set",
      run: filling("kv.set", "kv_set"),
      good: async () => ({ status: "stored", version: "1" }),
      bad: "denied",
    },
    {
      name: "store.delete",
      run: filling("kv.delete", "kv_delete"),
      good: async () => ({ status: "deleted" }),
      bad: "denied",
    },
    {
      name: "store.list",
      run: filling("kv.list", "kv_list"),
      good: async () => ({ entries: [], more: false }),
      bad: "denied",
    },
    { name: "egress.resolve", run: filling("egress.resolve", "fetches"), good: () => ["127.0.0.1"], bad: "denied" },
    {
      name: "secrets.NAME.value",
      run: filling("secret.value", "signs"),
      good: async () => "a secret of the host",
      bad: "denied",
    },
    listener("onError", filling("onError", "asks")),
    listener("logger", filling("logger", "fails", hasFailed)),
    listener(
      "context.onLog",
      inContext("logs", (onLog) => ({ onLog })),
    ),
    listener(
      "context.onProgress",
      inContext("logs", (onProgress) => ({ onProgress })),
    ),
    asks("elicit", "elicit", async () => ({ action: "accept", content: {} })),
    asks("sample", "sample", async () => ({ role: "assistant", content: { type: "text", text: "It" }, model: "m" })),
    asks("listRoots", "roots", async () => ({ roots: [] })),
  ],
  { isShared: true },
);
