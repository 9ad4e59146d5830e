// The arguments of public functions and methods that are text or numbers: any other value is rejected, a promise of the right one included.
import { afterAll, expect, test } from "vitest";
import { createClient } from "../../../src/client/index.ts";
import {
  afterFailedSteps,
  afterOutputTokens,
  createFileIdempotencyStore,
  whenCalled,
  whenSucceeded,
} from "../../../src/host/agent/index.ts";
import { findBlockedRange } from "../../../src/host/capabilities/fetch/guarded-request.ts";
import { createCodeMode } from "../../../src/host/code-mode/code-mode.ts";
import { matchesName } from "../../../src/host/routing/name-wildcard.ts";
import { MemoryToolRegistry } from "../../../src/host/routing/registry.ts";
import { MemoryRunStore } from "../../../src/host/runs/memory-run-store.ts";
import { createRuns } from "../../../src/host/runs/runs.ts";
import { undescribed } from "../../../src/host/testing/index.ts";
import { inOtherRealm } from "../../support/failing-callbacks.ts";
import { makeGlovebox } from "../../support/host-zone.ts";
import { listPublicFunctions, listPublicMethods, type PublicMethod } from "../../support/public-methods.ts";

const glovebox = await makeGlovebox();
const multi = await makeGlovebox({ tenancy: "multi" });
const { router } = glovebox;
router.register("add", {}, () => 1);
const runs = createRuns(glovebox, { store: new MemoryRunStore(), pollMs: 0 });
const codeMode = createCodeMode(glovebox, { typeCheck: false });
const session = await glovebox.openSession();
const provider = router.addToolProvider("provider", { call: () => 1 });
const registry = new MemoryToolRegistry();
// Nothing listens at this port: arguments that are accepted fail with another error.
const client = createClient({ url: "http://127.0.0.1:9", key: "gb_key", retries: 0 });
afterAll(async () => {
  await runs.close();
  await codeMode.close();
  await glovebox.close();
  await multi.close();
});

/** Passes a value of a wrong type. */
const given = (value: unknown): never => value as never;
const CALL = { id: "c", toolName: "add" };

const NEITHER: readonly (readonly [string, unknown])[] = [
  ...([
    ["null", null],
    ["true", true],
    ["an object", {}],
    ["a Map", new Map()],
    ["a function", () => "x"],
  ] as const),
  ...([
    ["a list", ["x"]],
    ["a bigint", 5n],
    ["a promise", Promise.resolve("x")],
  ] as const),
  ["a promise of another realm", inOtherRealm("Promise.resolve('x')")],
];
const WRONG = { text: [...NEITHER, ["a number", 5]], number: [...NEITHER, ["text", "1"]] } as const;

type Kind = keyof typeof WRONG;
type Row = readonly [argument: string, kind: Kind, call: (value: unknown) => unknown];

async function lastOf(items: AsyncIterable<unknown>): Promise<unknown> {
  let last: unknown;
  for await (const item of items) last = item;
  return last;
}

const HOST_ROWS: readonly Row[] = [
  ["matchesName(pattern)", "text", (value) => void matchesName(given(value), "add")],
  ["matchesName(name)", "text", (value) => void matchesName("add", given(value))],
  ["afterFailedSteps(count)", "number", (value) => void afterFailedSteps(given(value))],
  ["afterOutputTokens(count)", "number", (value) => void afterOutputTokens(given(value))],
  ["whenCalled(toolName)", "text", (value) => void whenCalled(given(value))],
  ["whenSucceeded(toolName)", "text", (value) => void whenSucceeded(given(value))],
  ["createFileIdempotencyStore(directory)", "text", (value) => void createFileIdempotencyStore(given(value))],
  ["undescribed(path)", "text", (value) => void undescribed({}, given(value))],
  ["Glovebox.drainExecutor(executorId)", "text", (value) => glovebox.drainExecutor(given(value))],
  ["Glovebox.setRelease(toolName)", "text", (value) => glovebox.setRelease(given(value), [])],
  ["Glovebox.suspendTenant(tenantId)", "text", (value) => multi.suspendTenant(given(value))],
  ["Glovebox.resumeTenant(tenantId)", "text", (value) => multi.resumeTenant(given(value))],
  ["Glovebox.deleteTenant(tenantId)", "text", (value) => multi.deleteTenant(given(value))],
  ["Glovebox.exportTenant(tenantId)", "text", (value) => multi.exportTenant(given(value))],
  ["Glovebox.invalidateTenant(tenantId)", "text", (value) => multi.invalidateTenant(given(value))],
  ["Glovebox.removeTool(toolName)", "text", (value) => glovebox.removeTool(given(value))],
  ["Glovebox.closeSession(id)", "text", (value) => glovebox.closeSession(given(value))],
  ["Glovebox.cancelCall(id)", "text", (value) => glovebox.cancelCall(given(value))],
  ["Glovebox.getTimeline(id)", "text", (value) => glovebox.getTimeline(given(value))],
  ["Glovebox.execute(timeoutMs)", "number", (value) => glovebox.execute(CALL, {}, given(value))],
  ["Glovebox.stream(timeoutMs)", "number", (value) => lastOf(glovebox.stream(CALL, {}, given(value)))],
  [
    "McpManager.addServer(name)",
    "text",
    (value) => glovebox.mcp.addServer(given(value), { url: "http://127.0.0.1:9/mcp" }),
  ],
  ["McpManager.removeServer(name)", "text", (value) => glovebox.mcp.removeServer(given(value))],
  ["MemoryToolRegistry.remove(toolName)", "text", (value) => registry.remove(given(value))],
  ["MemoryToolRegistry.remove(tenantId)", "text", (value) => registry.remove("add", given(value))],
  ["MemoryToolRegistry.get(toolName)", "text", (value) => registry.get(given(value))],
  ["MemoryToolRegistry.get(tenantId)", "text", (value) => registry.get("add", given(value))],
  ["MemoryToolRegistry.list(tenantId)", "text", (value) => registry.list(given(value))],
  ["ToolRouter.register(toolName)", "text", (value) => router.register(given(value), {}, () => 1)],
  ["ToolRouter.addToolProvider(id)", "text", (value) => router.addToolProvider(given(value), { call: () => 1 })],
  ["ToolRouter.cancelCall(id)", "text", (value) => router.cancelCall(given(value))],
  ["ToolRouter.getTimeline(id)", "text", (value) => router.getTimeline(given(value))],
  ["ToolRouter.invalidateTenant(tenantId)", "text", (value) => multi.router.invalidateTenant(given(value))],
  ["ToolRouter.hasTool(toolName)", "text", (value) => router.hasTool(given(value))],
  ["ToolRouter.execute(timeoutMs)", "number", (value) => router.execute(CALL, {}, given(value))],
  ["ToolRouter.stream(timeoutMs)", "number", (value) => lastOf(router.stream(CALL, {}, given(value)))],
  ["ToolRouter.drain(withinMs)", "number", (value) => router.drain(given(value))],
  ["AddedToolProvider.register(toolName)", "text", (value) => provider.register(given(value), {})],
  ["Runs.get(id)", "text", (value) => runs.get(given(value))],
  ["Runs.journal(id)", "text", (value) => runs.journal(given(value))],
  ["Runs.signal(id)", "text", (value) => runs.signal(given(value), { event: "go" })],
  ["Runs.deliver(id)", "text", (value) => runs.deliver(given(value), { event: "go" })],
  ["Runs.resume(id)", "text", (value) => runs.resume(given(value))],
  ["Runs.cancel(id)", "text", (value) => runs.cancel(given(value))],
  ["Session.run(code)", "text", (value) => session.run(given(value))],
  ["CodeMode.execute(timeoutMs)", "number", (value) => codeMode.execute(CALL, {}, given(value))],
  ["CodeMode.approve(id)", "text", (value) => codeMode.approve(given(value))],
  ["CodeMode.deny(id)", "text", (value) => codeMode.deny(given(value))],
  ["findBlockedRange(url)", "text", (value) => findBlockedRange(given(value))],
  ["GloveboxClient.request(method)", "text", (value) => client.request(given(value), "/v1/me")],
  ["GloveboxClient.request(path)", "text", (value) => client.request("GET", given(value))],
  ["GloveboxClient.open(path)", "text", (value) => client.open(given(value))],
  ["GloveboxClient.list(path)", "text", (value) => client.list(given(value)).next()],
  ["GloveboxClient.tenant(id)", "text", (value) => client.tenant(given(value))],
  ["GloveboxClient.drainExecutor(id)", "text", (value) => client.drainExecutor(given(value))],
];

/** Arguments of the client's methods that are numbers. */
const NUMBERS: ReadonlySet<string> = new Set(["version", "wait"]);
/** Right values of arguments, by name. Default: a text for plain ones, and an empty object for others. */
const RIGHT: { readonly [argument: string]: unknown } = {
  version: 1,
  wait: 1,
  versions: [],
  calls: [],
  signal: undefined,
};

/** The rows of a method of the tenant's client, which is called with right values of its other arguments. */
function rowsOf({ name, parameters }: PublicMethod): readonly Row[] {
  const method = name.split(".")[1] as string;
  const tenant = client.tenant("acme") as unknown as { readonly [method: string]: (...values: unknown[]) => unknown };
  return parameters.flatMap(({ name: argument, isPlain }, at): readonly Row[] => {
    if (!isPlain) return [];
    const call = async (value: unknown): Promise<void> => {
      const values = parameters.map((one) =>
        Object.hasOwn(RIGHT, one.name) ? RIGHT[one.name] : one.isPlain ? "x" : {},
      );
      const result = tenant[method]?.(...values.with(at, value));
      await (typeof (result as AsyncIterator<unknown>).next === "function"
        ? (result as AsyncIterator<unknown>).next()
        : result);
    };
    return [[`${name}(${argument})`, NUMBERS.has(argument) ? "number" : "text", call]];
  });
}

const methods = listPublicMethods();
const ROWS: readonly Row[] = [
  ...HOST_ROWS,
  ...methods.filter(({ name }) => name.startsWith("TenantClient.")).flatMap(rowsOf),
];

const IMPLEMENTED = "is implemented by the host, whose answers are checked";
const STORE = "is called by Runs, with what it has checked";
const LOOK_UP = "looks a text up: for another value there is nothing to find";
const ERROR = "is an error: another one in its place would hide what has failed";
const GUEST = "is used in the guest";
/** Classes, interfaces and arguments without rows, with the reason. */
const WITHOUT_ROW: { readonly [name: string]: string } = {
  FlagClient: IMPLEMENTED,
  IdempotencyStore: IMPLEMENTED,
  KvStore: IMPLEMENTED,
  McpHttpServer: IMPLEMENTED,
  McpStdioServer: IMPLEMENTED,
  McpTaskRuns: IMPLEMENTED,
  QuotaStore: IMPLEMENTED,
  RequestOptions: IMPLEMENTED,
  RunStore: IMPLEMENTED,
  SourceDiscovery: IMPLEMENTED,
  SourceTransport: IMPLEMENTED,
  ToolRegistry: IMPLEMENTED,
  MemoryRunStore: STORE,
  SqliteRunStore: STORE,
  ToolContext: GUEST,
  ToolKv: GUEST,
  ToolSecrets: GUEST,
  CapabilityContext: "is what a capability of the host receives: other values are ignored",
  HostFunctionContext: "is what a function of the host receives: a message is shown as text",
  ToolError: "takes the tool's name for a message",
  "new ToolError": ERROR,
  unavailable: ERROR,
  "new ApiError": ERROR,
  "new ModelResponseError": ERROR,
  text: GUEST,
  image: GUEST,
  audio: GUEST,
  CodeApi: LOOK_UP,
  OpenAITools: LOOK_UP,
  ToolNames: LOOK_UP,
};

test.for(
  ROWS.flatMap(([argument, kind, call]) => WRONG[kind].map(([what, value]) => [argument, what, value, call] as const)),
)("%s is not %s", async ([, , value, call]) => {
  let error: unknown;
  try {
    const result = (await call(value)) as { readonly error?: unknown } | undefined;
    error = result?.error;
  } catch (thrown) {
    error = thrown;
  }
  expect(error).toMatchObject({ code: "PARAM_INVALID" });
});

const plain = [...methods, ...listPublicFunctions()].flatMap(({ name, parameters }) =>
  parameters
    .filter(({ isPlain }) => isPlain)
    .map((parameter) => ({ owner: name.split(".")[0] as string, argument: `${name}(${parameter.name})` })),
);

test("each plain argument of a public function or method has a row, or a reason why it has none", () => {
  const rows = new Set(ROWS.map(([argument]) => argument));
  const isCovered = ({ owner, argument }: (typeof plain)[number]): boolean =>
    rows.has(argument) || Object.hasOwn(WITHOUT_ROW, owner) || Object.hasOwn(WITHOUT_ROW, argument);
  expect(plain.filter((each) => !isCovered(each)).map(({ argument }) => argument)).toEqual([]);
  expect([...rows].filter((row) => !plain.some(({ argument }) => argument === row))).toEqual([]);
});

test("each reason is about an argument that exists", () => {
  const known = new Set(plain.flatMap(({ owner, argument }) => [owner, argument]));
  expect(Object.keys(WITHOUT_ROW).filter((name) => !known.has(name))).toEqual([]);
});
