// The rest of the table of public-entries.ts: methods whose argument is a tool, a call, a list or a definition, and those of what other functions
// create. With the reasons why arguments have no row.
import { fileURLToPath } from "node:url";
import { openAgentJournal } from "../../../src/host/agent/loop/agent-journal.ts";
import { AgentLoop } from "../../../src/host/agent/loop/agent-loop.ts";
import { ToolsRouterAgent } from "../../../src/host/agent/router/tools-router-agent.ts";
import { createCodeMode } from "../../../src/host/code-mode/code-mode.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { createMcpHandler } from "../../../src/host/mcp/server/http/handler.ts";
import { MemoryToolRegistry } from "../../../src/host/routing/registry.ts";
import { MemoryRunStore } from "../../../src/host/runs/memory-run-store.ts";
import { createRuns } from "../../../src/host/runs/runs.ts";
import { openTool } from "../../../src/host/testing/index.ts";
import type { OptionTable, PublicEntry } from "../../support/option-fuzz.ts";
import { makeTool } from "../../support/registered-tool.ts";
import { scriptModel } from "../../support/scripted-model.ts";
import {
  annotations,
  limits,
  loopRunOptions,
  overrides,
  rightContext,
  routingOptions,
  tenantScope,
  toolContext,
} from "./public-entries.ts";

const SOURCE = "export default () => 1";
const CALL = { id: "c1", toolName: "add", arguments: {} };
const SEARCH = { id: "c1", toolName: "search_tools", arguments: { query: "add" } };
const MESSAGES = [{ role: "user", content: "Add" }] as const;
const toolCall: OptionTable = { id: "text", toolName: "text", arguments: "any", argumentsText: "text" };
const rightCall = () => ({ id: "c1", toolName: "add" });
const tool: OptionTable = {
  source: "text",
  mode: "text",
  language: "text",
  name: "text",
  defaultName: "text",
  // Another form of a source: with `source` next to it, the error is about both.
  files: "any",
  entry: "any",
  path: "any",
  overrides,
};
const transport: OptionTable = {
  kind: "text",
  call: "function",
  discovery: { isFor: "function", mayHave: "function", isKnown: "function", discover: "function" },
};
const registeredVersion: OptionTable = {
  version: "text",
  weight: "number",
  definition: overrides,
  sha256: "text",
  load: "function",
  language: "text",
  grant: "list",
  limits,
  isolateLifetime: "text",
};
const given = (value: unknown): never => value as never;

/** An event, an approval, or an answer: those of another kind than the valid event are rejected with another path. */
const runSignal: OptionTable = {
  event: "text",
  value: "any",
  approval: "any",
  approved: "any",
  reason: "any",
  elicitation: "any",
  action: "any",
  content: "any",
};

/** Built for the Glovebox of {@link publicEntries}. */
export function methodEntries(glovebox: Glovebox): {
  readonly entries: readonly PublicEntry[];
  readonly close: () => Promise<void>;
} {
  const { router } = glovebox;
  const opened = new AsyncDisposableStack();
  let names = 0;
  const nextName = (): string => {
    names += 1;
    return `method_${names}`;
  };
  const lastOf = async (items: AsyncIterable<unknown>): Promise<unknown> => {
    let last: unknown;
    for await (const item of items) last = item;
    return last;
  };
  /** The outcome of an agent, which ends with an error about its options instead of rejecting. Its model may fail. */
  const outcomeOf = async (items: AsyncIterable<unknown>): Promise<unknown> => {
    const { error } = (await lastOf(items)) as { readonly error?: { readonly code: string } };
    return error?.code === "PARAM_INVALID" ? { success: false, error } : undefined;
  };
  const { model } = scriptModel();
  const store = new MemoryRunStore();
  const runs = opened.use(createRuns(glovebox, { store, pollMs: 0 }));
  const starter = { client: { elicit: () => Promise.resolve({ action: "cancel" as const }) }, isOpen: () => false };
  const codeMode = opened.use(createCodeMode(glovebox, { typeCheck: false }));
  const registry = new MemoryToolRegistry();
  const discovery = { isFor: () => false, mayHave: () => false, isKnown: () => true, discover: async () => undefined };
  const provider = opened.use(router.addToolProvider("methods", { call: () => ({}) }));
  const handler = opened.use(createMcpHandler(glovebox));
  let toolOf: ReturnType<typeof openTool> | undefined;
  const openedTool = () => (toolOf ??= openTool(fileURLToPath(new URL("../../../tools/csv-stats", import.meta.url))));
  opened.defer(async () => await (await toolOf)?.[Symbol.asyncDispose]());
  const resultOf = async (action: () => Promise<unknown>): Promise<unknown> =>
    await action().catch((thrown: unknown) => (thrown as Error).message);
  /** The error about a context in a result, or in the text of a failure. The tool itself rejects its input. */
  const errorIn = (result: unknown): unknown => {
    const text = typeof result === "string" ? result : JSON.stringify((result as { readonly error: object }).error);
    const [message] = /context[:.].*/s.exec(text) ?? [];
    return message === undefined ? undefined : { success: false, error: { code: "PARAM_INVALID", message } };
  };
  /** A run that has not ended, so that it takes events. */
  const waitingRun = async (): Promise<string> => {
    const id = nextName();
    const times = { createdAt: 0, expiresAt: Number.MAX_SAFE_INTEGER, leaseUntil: Number.MAX_SAFE_INTEGER };
    await store.create({ id, tenantId: "default", kind: "tool", toolName: "none", input: "{}", ...times }, 1_000_000);
    return id;
  };
  const ofRun: readonly (readonly [string, (options: unknown) => Promise<unknown>])[] = [
    ["journal(id, options)", (options) => runs.journal("none", given(options))],
    ["resume(id, options)", (options) => runs.resume("none", given(options))],
    [
      "signal(id, signal, options)",
      async (options) => await runs.signal(await waitingRun(), { event: "go" }, given(options)),
    ],
    [
      "deliver(id, signal, options)",
      async (options) => await runs.deliver(await waitingRun(), { event: "go" }, given(options)),
    ],
  ];
  const entries: readonly PublicEntry[] = [
    {
      name: "glovebox.addTool(tool)",
      where: "tool",
      options: tool,
      valid: () => ({ source: SOURCE, name: nextName() }),
      call: (input) => glovebox.addTool(given(input)),
    },
    {
      name: "glovebox.updateTool(tool)",
      where: "tool",
      options: tool,
      valid: () => ({ source: SOURCE, name: "updated" }),
      call: async (input) => {
        if (!router.hasTool("updated")) await glovebox.addTool({ source: SOURCE, name: "updated" });
        await glovebox.updateTool(given(input));
      },
    },
    {
      name: "glovebox.inspectTool(tool)",
      where: "tool",
      options: tool,
      valid: () => ({ source: SOURCE }),
      call: (input) => glovebox.inspectTool(given(input)),
    },
    {
      name: "glovebox.setRelease(name, versions)",
      where: "versions.0",
      options: registeredVersion,
      valid: () => ({
        version: "1",
        weight: 1,
        sha256: "0".repeat(64),
        load: () => ({ files: {} }),
        definition: { name: "released", description: "", inputSchema: { type: "object" } },
      }),
      call: (version) => glovebox.setRelease("released", [given(version)]),
    },
    {
      name: "glovebox.stream(toolCall)",
      where: "toolCall",
      options: toolCall,
      valid: rightCall,
      call: (call) => lastOf(glovebox.stream(given(call))),
    },
    {
      name: "glovebox.executeBatch(toolCalls)",
      where: "",
      options: { ...toolCall, timeoutMs: "number", context: toolContext },
      valid: () => ({ ...rightCall(), context: rightContext() }),
      call: async (call) => (await glovebox.executeBatch([given(call)]))[0],
    },
    {
      name: "invoker.executeBatch(invocations)",
      where: "",
      valid: () => ({ toolName: "add", context: rightContext() }),
      options: { ...toolCall, timeoutMs: "number", context: toolContext },
      call: async (invocation) => (await glovebox.invoker.executeBatch([given(invocation)]))[0],
    },
    {
      name: "invoker.executeBatch(invocations, options)",
      where: "context",
      valid: rightContext,
      options: { ...toolContext, maxConcurrency: "number" },
      call: async (context) => (await glovebox.invoker.executeBatch([CALL], given(context)))[0],
    },
    {
      name: "router.execute(toolCall)",
      where: "toolCall",
      options: toolCall,
      valid: rightCall,
      call: (call) => router.execute(given(call)),
    },
    {
      name: "router.execute(toolCall, context)",
      where: "context",
      options: toolContext,
      valid: rightContext,
      call: (context) => router.execute(CALL, given(context)),
    },
    {
      name: "router.stream(toolCall)",
      where: "toolCall",
      options: toolCall,
      valid: rightCall,
      call: (call) => lastOf(router.stream(given(call))),
    },
    {
      name: "router.stream(toolCall, context)",
      where: "context",
      options: toolContext,
      valid: rightContext,
      call: (context) => lastOf(router.stream(CALL, given(context))),
    },
    {
      name: "router.listTools(options)",
      where: "options",
      options: tenantScope,
      call: (options) => router.listTools(given(options)),
    },
    {
      name: "router.health(options)",
      where: "options",
      options: { tenantId: "text", scope: "text" },
      call: (options) => router.health(given(options)),
    },
    {
      name: "router.replace(tool)",
      where: "tool",
      options: "object",
      valid: () => makeTool({ name: "none" }),
      call: (input) => router.replace(given(input)),
    },
    {
      name: "router.register(name, definition, handler)",
      where: "handler",
      options: "function",
      valid: () => () => 1,
      call: (input) => router.register(nextName(), {}, given(input)),
    },
    {
      name: "router.addToolProvider(id, transport)",
      where: "",
      options: transport,
      valid: () => ({ call: () => 1, discovery }),
      call: (input) => router.addToolProvider(nextName(), given(input))[Symbol.dispose](),
    },
    {
      name: "router.addToolProvider(id, transport, options)",
      where: "options",
      options: {},
      call: (options) => {
        const addToolProvider = router.addToolProvider.bind(router) as (...all: unknown[]) => Disposable;
        addToolProvider(nextName(), { call: () => 1 }, options)[Symbol.dispose]();
      },
    },
    {
      name: "source.register(name, definition)",
      where: "definition",
      options: {
        description: "text",
        inputSchema: "object or function",
        outputSchema: "object or function",
        limits,
        annotations,
        prewarm: "boolean",
        origin: "any",
      },
      call: (definition) => provider.register(nextName(), given(definition)),
    },
    {
      name: "registry.add(tool)",
      where: "tool",
      options: "object",
      valid: () => makeTool({ name: nextName() }),
      call: (input) => registry.add(given(input)),
    },
    {
      name: "registry.replace(tool)",
      where: "tool",
      options: "object",
      valid: () => makeTool({ name: nextName() }),
      call: (input) => registry.replace(given(input)),
    },
    {
      name: "registry.onChange(listener)",
      where: "listener",
      options: "function",
      valid: () => () => undefined,
      call: (listener) => registry.onChange(given(listener)),
    },
    {
      name: "runs.begin(run)",
      where: "run",
      valid: () => ({ toolName: "none" }),
      options: { toolName: "text", arguments: "any", id: "text", toolVersion: "text", tenantId: "text" },
      call: async (run) => void (await (await runs.begin(given(run))).settled),
    },
    {
      name: "runs.begin(run, starter)",
      where: "starter",
      options: { client: "instance", isOpen: "function", answers: "object" },
      valid: () => starter,
      call: async (own) => void (await (await runs.begin({ toolName: "none" }, given(own))).settled),
    },
    ...ofRun.map(([name, call]) => ({
      name: `runs.${name}`,
      where: "options",
      options: tenantScope,
      call: async (options: unknown) => void (await call(options)),
    })),
    {
      name: "runs.signal(id, signal)",
      where: "signal",
      options: runSignal,
      valid: () => ({ event: "go" }),
      call: async (signal) => void (await runs.signal(await waitingRun(), given(signal))),
    },
    {
      name: "runs.deliver(id, signal)",
      where: "signal",
      options: runSignal,
      valid: () => ({ event: "go" }),
      call: async (signal) => void (await runs.deliver(await waitingRun(), given(signal))),
    },
    {
      name: "journal.end(outcome)",
      where: "outcome",
      options: "object",
      valid: () => ({
        status: "cancelled",
        messages: [],
        steps: [],
        text: "",
        usage: { inputTokens: 0, outputTokens: 0 },
      }),
      call: async (outcome) => {
        await using journal = await openAgentJournal({ store, id: nextName() });
        await journal.end(given(outcome));
      },
    },
    {
      name: "journal.model(model)",
      where: "model",
      options: "function",
      valid: () => model,
      call: async (own) => {
        await using journal = await openAgentJournal({ store, id: nextName() });
        journal.model(given(own));
      },
    },
    {
      name: "journal.router(router)",
      where: "router",
      options: "object",
      valid: () => router,
      call: async (own) => {
        await using journal = await openAgentJournal({ store, id: nextName() });
        journal.router(given(own));
      },
    },
    {
      name: "agentLoop.stream(options)",
      where: "options",
      options: loopRunOptions,
      valid: () => ({ messages: MESSAGES, model, router }),
      call: (options) => outcomeOf(new AgentLoop().stream(given(options))),
    },
    {
      name: "agentLoop.executeSingleTurn(messages)",
      where: "messages",
      options: "list",
      valid: () => MESSAGES,
      call: (messages) => new AgentLoop().executeSingleTurn(given(messages), CALL, router),
    },
    {
      name: "agentLoop.executeSingleTurn(messages, toolCall)",
      where: "",
      valid: rightCall,
      options: { argumentsText: "text", arguments: "any" },
      call: async (call) => {
        const { updatedMessages } = await new AgentLoop().executeSingleTurn(MESSAGES, given(call), router);
        return (updatedMessages.at(-1) as { readonly result: unknown }).result;
      },
    },
    {
      name: "agentLoop.executeSingleTurn(messages, toolCall, router)",
      where: "router",
      options: "object",
      valid: () => router,
      call: (own) => new AgentLoop().executeSingleTurn(MESSAGES, CALL, given(own)),
    },
    {
      name: "toolsRouterAgent.run(request)",
      where: "request",
      options: "text or list",
      valid: () => "Add",
      call: (request) => new ToolsRouterAgent({ model, router }).run(given(request)),
    },
    {
      name: "toolsRouterAgent.stream(request)",
      where: "request",
      options: "text or list",
      valid: () => "Add",
      call: (request) => outcomeOf(new ToolsRouterAgent({ model, router }).stream(given(request))),
    },
    {
      name: "toolsRouterAgent.stream(request, overrides)",
      where: "options",
      options: routingOptions,
      valid: () => ({ model, router }),
      call: (options) => outcomeOf(new ToolsRouterAgent().stream("Add", given(options))),
    },
    {
      name: "codeMode.execute(toolCall)",
      where: "toolCall",
      options: toolCall,
      valid: () => SEARCH,
      call: (call) => codeMode.execute(given(call)),
    },
    {
      name: "codeMode.execute(toolCall, context)",
      where: "context",
      options: toolContext,
      valid: rightContext,
      call: (context) => codeMode.execute(SEARCH, given(context)),
    },
    {
      name: "codeMode.listTools(options)",
      where: "options",
      options: tenantScope,
      call: (options) => codeMode.listTools(given(options)),
    },
    ...(["call", "output", "failure"] as const).map((method) => ({
      name: `openedTool.${method}(input, context)`,
      where: "context",
      options: toolContext,
      valid: rightContext,
      call: async (context: unknown) =>
        errorIn(await resultOf(async () => (await openedTool())[method]({}, given(context)))),
    })),
    {
      name: "mcpHandler.toolsChanged(tenant)",
      where: "tenant",
      options: { scope: "text", tenantId: "any" },
      valid: () => ({ scope: "all" }),
      call: (tenant) => handler.toolsChanged(given(tenant)),
    },
  ];
  return { entries, close: () => opened.disposeAsync() };
}

/** The classes and interfaces that the receivers in the names of rows stand for. */
export const RECEIVERS: { readonly [receiver: string]: string } = {
  glovebox: "Glovebox",
  router: "ToolRouter",
  invoker: "ToolInvoker",
  source: "AddedToolProvider",
  registry: "MemoryToolRegistry",
  session: "Session",
  runs: "Runs",
  journal: "AgentJournal",
  server: "Server",
  agentLoop: "AgentLoop",
  toolsRouterAgent: "ToolsRouterAgent",
  codeMode: "CodeMode",
  checker: "TypeChecker",
  mcpHandler: "McpHandler",
  openedTool: "OpenedTool",
  client: "GloveboxClient",
  tenant: "TenantClient",
  "glovebox.mcp": "McpManager",
};

const IMPLEMENTED = "is implemented by the host, whose answers are checked";
const IN_GUEST = "is used in the guest";
const WIRE = "is a web request, which a server framework created";

/** Interfaces, methods and arguments that have no row, with the reason. */
export const WITHOUT_ROW: { readonly [name: string]: string } = {
  CallClient: IMPLEMENTED,
  Capability: IMPLEMENTED,
  CapabilityOptions: IMPLEMENTED,
  FlagClient: IMPLEMENTED,
  KvStore: IMPLEMENTED,
  McpTaskRuns: IMPLEMENTED,
  QuotaStore: IMPLEMENTED,
  RecordOptions: IMPLEMENTED,
  RunStore: IMPLEMENTED,
  SourceDiscovery: IMPLEMENTED,
  SourceTransport: IMPLEMENTED,
  ToolRegistry: IMPLEMENTED,
  ResourceServer: IMPLEMENTED,
  RequestOptions: IMPLEMENTED,
  StubbedCapability: IMPLEMENTED,
  Tool: IN_GUEST,
  ToolContext: IN_GUEST,
  ToolKv: IN_GUEST,
  CapabilityContext: "is what a capability of the host receives; `log` takes any value",
  HostFunctionContext: "is what a function of the host receives; `log` takes any value",
  MemoryRunStore: "is called by Runs, with what it has checked; test/server/run-stores.test.ts",
  SqliteRunStore: "is called by Runs, with what it has checked; test/server/run-stores.test.ts",
  "Glovebox.replay(recording)": "is parsed by a strict schema; test/host/recording/replay.test.ts",
  "Glovebox.rehearse(recordings)": "are parsed one by one, and skipped if they are invalid; test/host/recording",
  "OpenedTool.replay(recording)": "is parsed by a strict schema; test/host/recording/replay.test.ts",
  "OpenedTool.call(input)": "is the tool's input, which its schema validates",
  "OpenedTool.output(input)": "is the tool's input, which its schema validates",
  "OpenedTool.failure(input)": "is the tool's input, which its schema validates",
  "ToolRouter.digestOf(definition)": "is compared with the registered one; test/host/routing/tool-router.test.ts",
  "CodeApi.describe(tool)": "takes what `find` and `tools` return",
  "McpHandler.fetch(request)": WIRE,
  "OAuthResourceServer.authenticate(request)": WIRE,
  "OAuthResourceServer.serveMetadata(request)": WIRE,
  "OAuthResourceServer.insufficientScope(scopes)": "takes scopes for a header",
  "TenantClient.sendRunEvent(value)": "is any JSON value; test/client/client.test.ts",
  "TenantClient.setValue(value)": "is any JSON value; test/client/client.test.ts",
};
