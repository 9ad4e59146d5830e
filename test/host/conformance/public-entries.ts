// Every public function, constructor and method that takes options, with the options it knows: the table that the fuzz test reads. The last
// argument in the name of a row is the one that it tests. A new one that is missing here, in function-entries.ts and in method-entries.ts fails
// the test that compares the tables with the sources.
import { fileURLToPath } from "node:url";
import { isDeepStrictEqual } from "node:util";
import { toAISDKTools } from "../../../src/host/adapters/ai-sdk.ts";
import { toAgentsTools } from "../../../src/host/adapters/openai-agents.ts";
import { toOpenApi } from "../../../src/host/adapters/openapi.ts";
import { openAgentJournal } from "../../../src/host/agent/loop/agent-journal.ts";
import { AgentLoop } from "../../../src/host/agent/loop/agent-loop.ts";
import { ToolsRouterAgent } from "../../../src/host/agent/router/tools-router-agent.ts";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import { findBlockedRange, sendGuardedRequest } from "../../../src/host/capabilities/fetch/guarded-request.ts";
import { createCodeMode } from "../../../src/host/code-mode/code-mode.ts";
import { TypeChecker } from "../../../src/host/code-mode/type-checker/type-checker.ts";
import { GloveboxOptionsSchema } from "../../../src/host/config/options.ts";
import { createGlovebox } from "../../../src/host/glovebox/create-glovebox.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { createResourceServer } from "../../../src/host/mcp/server/authorization/auth.ts";
import { createMcpHandler } from "../../../src/host/mcp/server/http/handler.ts";
import { serveMcpStdio } from "../../../src/host/mcp/server/stdio.ts";
import { createRedactor, redact } from "../../../src/host/observability/redaction/value-redactor.ts";
import { readAnswer, readAnswerStream } from "../../../src/host/openai/answer.ts";
import { toChatMessages } from "../../../src/host/openai/chat-messages.ts";
import { openaiChat, openaiResponses } from "../../../src/host/openai/models.ts";
import { toResponsesInput } from "../../../src/host/openai/responses-input.ts";
import { toOpenAITools } from "../../../src/host/openai/tools.ts";
import type { CallRecording } from "../../../src/host/recording/recording.ts";
import { ToolInvoker } from "../../../src/host/routing/tool-invoker.ts";
import { ToolRouter } from "../../../src/host/routing/tool-router.ts";
import { MemoryRunStore } from "../../../src/host/runs/memory-run-store.ts";
import { createRuns } from "../../../src/host/runs/runs.ts";
import { checkTenantOptions } from "../../../src/host/tenants/tenant-policies.ts";
import { openTool } from "../../../src/host/testing/index.ts";
import type { ToolDefinition } from "../../../src/sandbox/contract/definition.ts";
import { LIMITS } from "../../../src/sandbox/contract/limits.ts";
import { recordCall } from "../../support/host-zone.ts";
import type { OptionTable, PublicEntry } from "../../support/option-fuzz.ts";
import { scriptModel } from "../../support/scripted-model.ts";

export const limits: OptionTable = Object.fromEntries(Object.keys(LIMITS).map((name) => [name, "number"]));
export const argumentOptions: OptionTable = { repair: "boolean", unknownKeys: "text", coerce: "boolean" };
export const tenantScope: OptionTable = { tenantId: "text" };
/** The owner of a tool, or the tenants that an overview covers. */
export const scope: OptionTable = { tenantId: "text", scope: "text" };
const tenancy: OptionTable = {
  tenancy: "text",
  tenants: "object or function",
  tenantCache: { ttlMs: "number", max: "number", timeoutMs: "number" },
};
export const callContext: OptionTable = {
  executionId: "text",
  stepId: "text",
  traceparent: "text",
  tracestate: "text",
  signal: "object",
  timeoutMs: "number",
  onLog: "function",
  onProgress: "function",
  arguments: argumentOptions,
  logSourceLocations: "boolean",
  // Methods of the caller's, which may be an instance of its own class.
  client: "instance",
};
const periods: OptionTable = { minute: "number", hour: "number", day: "number", month: "number" };
const quotas: OptionTable = { calls: periods, cpuMs: periods, egressBytes: periods };
export const toolContext: OptionTable = {
  ...callContext,
  tenantId: "text",
  sessionId: "text",
  toolDigest: "text",
  toolVersion: "text",
  deterministic: { seed: "text", now: "number" },
  record: { onRecording: "function", maxBytes: "number", redact: "function" },
  callerQuotas: { id: "text", quotas },
};
/** Without a seed the other field of `deterministic` is not looked at; a call with one is not recorded. */
export const rightContext = () => ({ deterministic: { seed: "s" }, callerQuotas: { id: "c", quotas: {} } });
const sessionContext: OptionTable = { ...callContext, toolDigest: "text", toolVersion: "text" };
const egress: OptionTable = {
  allow: "list",
  methods: "list",
  ports: "list",
  requestBytes: "number",
  responseBytes: "number",
  webSocketBytes: "number",
  timeoutMs: "number",
  maxRedirects: "number",
  resolve: "function",
};
const redactOptions: OptionTable = {
  names: "list",
  allowNames: "list",
  maxTextUnits: "number",
  maxDepth: "number",
  maxValues: "number",
};

export const annotations: OptionTable = {
  title: "text",
  readOnlyHint: "boolean",
  destructiveHint: "boolean",
  idempotentHint: "boolean",
  openWorldHint: "boolean",
};
/** What `overrides` replaces of a tool's definition. */
export const overrides: OptionTable = {
  name: "text",
  description: "text",
  limits,
  capabilities: "object",
  annotations,
  prewarm: "boolean",
  durable: "boolean",
  inputSchema: "any",
  outputSchema: "any",
};
const tenantQuotas: OptionTable = {
  rateLimit: { calls: "number", per: "text", burst: "number" },
  quotas,
};

const redactValues: OptionTable = { ...redactOptions, values: "object" };
const bundleLimits: OptionTable = {
  sourceBytes: "number",
  packageBytes: "number",
  files: "number",
  outputBytes: "number",
  timeoutMs: "number",
  memoryMiB: "number",
};
const gloveboxOptions: OptionTable = {
  tools: {
    enabled: "boolean",
    builtinTools: "boolean or list",
    executionTimeoutMs: "number",
    maxConcurrentTools: "number",
  },
  flags: "object or function",
  limits,
  isolateLifetime: "text",
  placement: "text",
  ...tenancy,
  hardening: ["text or object", { require: "list", without: "list", jitless: "boolean" }],
  cache: ["boolean or object", { directory: "boolean or text", maxBytes: "number", memoryBytes: "number" }],
  shutdown: ["boolean or object", { signals: "list", drainMs: "number" }],
  // A KvStore is an object of any class.
  kv: "text or instance",
  bundler: { packagesDir: "text", root: "text", linkedPackages: "list", allowPackages: "list", limits: bundleLimits },
  workers: {
    max: "number",
    warmProcesses: "number",
    warmPythonProcesses: "number",
    memoryMiB: "number",
    maxQueued: "number",
  },
  executors: { url: "text or list", credentials: "text", tlsCa: "text", silenceMs: "number", onEvent: "function" },
  python: { packages: { dir: "text", allow: "list" }, capabilities: "object" },
  egress,
  secrets: "object",
  capabilities: "list",
  mcp: { servers: "object" },
  arguments: argumentOptions,
  coarseTime: "boolean",
  engine: { dynamicCode: "boolean" },
  health: ["boolean or object", { failures: "number", openMs: "number", maxOpenMs: "number" }],
  hooks: "list",
  logger: "boolean, text or object",
  onError: "function",
  onWarning: "function",
  telemetry: [
    "boolean or object",
    {
      tracerProvider: "object",
      meterProvider: "object",
      captureContent: "boolean",
      redact: redactValues,
      propagate: "boolean or list",
    },
  ],
  ...tenantQuotas,
  quotaStore: "object",
  runStores: "list",
};
const codeModeOptions: OptionTable = {
  tenantId: "text",
  tools: "list",
  language: "text or list",
  typeCheck: "boolean or text",
  typeChecker: "object",
  limits,
  maxResultBytes: "number",
  maxLogBytes: "number",
  maxSearchLength: "number",
  storedValues: { maxValues: "number", maxBytes: "number", maxValueBytes: "number", ttlMs: "number" },
  needsApproval: "text, list or function",
  onApproval: "function",
  runs: "object",
};
const edgeOptions: OptionTable = {
  tenantId: "text",
  tools: "list",
  // Errors about it name the context alone.
  context: "instance",
};
const outputLimits: OptionTable = { textChars: "number", mediaBytes: "number" };
const openaiTools: OptionTable = { strict: "boolean, text or object", custom: "list", toolSearch: "boolean" };
const openaiModel: OptionTable = {
  model: "text",
  stream: "boolean",
  tools: { ...openaiTools, namespaces: "object" },
  output: outputLimits,
  body: "object",
};
/** The agents set these two themselves. */
const agentContext: OptionTable = { ...toolContext, deterministic: "any", record: "any", callerQuotas: "any" };
export const loopOptions: OptionTable = {
  model: "function",
  router: "object",
  context: agentContext,
  tools: "list or function",
  onError: "function",
  maxSteps: "number",
  maxParallelTools: "number",
  stopWhen: "list or function",
  signingKey: "text or object",
  needsApproval: "text, list or function",
  toolChoice: ["text or object", { toolName: "text" }],
  prepareMessages: "function",
  responseSchema: { name: "text", schema: "object" },
};
export const loopRunOptions: OptionTable = {
  ...loopOptions,
  messages: "list",
  state: "any",
  approvals: "any",
  idempotencyStore: "any",
  signal: "object",
};
export const routingOptions: OptionTable = {
  model: "function",
  router: "object",
  context: agentContext,
  tools: "list or function",
  onError: "function",
  arguments: argumentOptions,
  maxTools: "number",
  instructions: "text",
  routingRetries: "number",
  toolRetries: "number",
  backoffMs: "number",
  streamTools: "boolean",
  answer: "boolean",
  responseSchema: "boolean",
  fallback: "text or function",
  signal: "object",
};
const serverOptions: OptionTable = {
  name: "text",
  version: "text",
  title: "text",
  instructions: "text",
  register: "function",
  onError: "function",
  runs: "object",
  context: {
    executionId: "text",
    stepId: "text",
    sessionId: "text",
    timeoutMs: "number",
    logSourceLocations: "boolean",
    traceparent: "text",
    tracestate: "text",
    arguments: argumentOptions,
    deterministic: { seed: "text", now: "number" },
  },
};
const shared: OptionTable = { perCaller: "number", perTenant: "number", total: "number" };
const upstream: OptionTable = {
  url: "text or object",
  headers: "object",
  headersFor: "function",
  authProvider: "object",
  authProviderFor: "function",
  prefix: "text",
  tools: { allow: "list", deny: "list" },
  tenants: "list",
  scope: "text",
  perTenant: "boolean",
  connectTimeoutMs: "number",
  timeoutMs: "number",
  maxTimeoutMs: "number",
  maxMessageBytes: "number",
  maxTools: "number",
  protocol: "text",
  logLevel: "text",
  roots: "list",
  trustAnnotations: "boolean",
  onElicitation: "function",
  onSampling: "function",
  // Of a server that is a process. With `url` next to them, the error is about both.
  command: "any",
  args: "any",
  cwd: "any",
  env: "any",
  envFor: "any",
  sandbox: "any",
};

const TOOL: ToolDefinition = { name: "add", description: "Adds", inputSchema: { type: "object" } };
const CALL = { id: "c1", toolName: "add", arguments: {} };
const MESSAGES = [{ role: "user", content: "Add" }] as const;
const RESOURCE = { resource: "https://tools.test/mcp", authorizationServers: ["https://issuer.test"] };
const client = {
  responses: { create: () => undefined },
  chat: { completions: { create: () => undefined } },
};
const { model } = scriptModel();

/** Built for a Glovebox with the host tool `add`. The wrong options of the fuzz test change nothing in it. */
export function publicEntries(glovebox: Glovebox): readonly PublicEntry[] {
  const { router } = glovebox;
  const given = (options: unknown): never => options as never;
  let names = 0;
  const nextName = (): string => {
    names += 1;
    return `tool_${names}`;
  };
  const session = glovebox.openSession({ language: "javascript" });
  let recording: Promise<CallRecording> | undefined;
  const runStore = new MemoryRunStore();
  const runs = createRuns(glovebox, { store: runStore, pollMs: 0 });
  const lastItem = async (stream: AsyncIterable<unknown>): Promise<unknown> => {
    let last: unknown;
    for await (const item of stream) last = item;
    return last;
  };
  const closing = async (made: AsyncDisposable): Promise<void> => await made[Symbol.asyncDispose]();
  return [
    {
      name: "createGlovebox(options)",
      where: "options",
      options: gloveboxOptions,
      schema: GloveboxOptionsSchema,
      valid: () => ({ cache: false, kv: "memory", workers: { max: 1, warmProcesses: 0 }, shutdown: false }),
      call: async (options) => await closing(await createGlovebox(given(options))),
    },
    {
      name: "glovebox.addTool(tool, options)",
      where: "options",
      options: { ...scope, grant: "list", isolateLifetime: "text", arguments: argumentOptions, replace: "boolean" },
      call: (options) => glovebox.addTool({ source: "export default () => 1", name: nextName() }, given(options)),
    },
    {
      name: "glovebox.updateTool(tool, options)",
      where: "options",
      options: { ...scope, grant: "list", isolateLifetime: "text", arguments: argumentOptions },
      call: async (options) => {
        const tool = { source: "export default () => 1", name: nextName() };
        await glovebox.addTool(tool);
        await glovebox.updateTool(tool, given(options));
      },
    },
    {
      name: "glovebox.listCalls(options)",
      where: "options",
      options: scope,
      call: (options) => glovebox.listCalls(given(options)),
    },
    {
      name: "glovebox.getTimeline(id, options)",
      where: "options",
      options: tenantScope,
      call: (options) => glovebox.getTimeline("none", given(options)),
    },
    {
      name: "router.getTimeline(id, options)",
      where: "options",
      options: tenantScope,
      call: (options) => router.getTimeline("none", given(options)),
    },
    {
      name: "glovebox.cancelCall(id, options)",
      where: "options",
      options: tenantScope,
      call: (options) => glovebox.cancelCall("none", given(options)),
    },
    {
      name: "router.describeTools(options)",
      where: "options",
      options: tenantScope,
      call: (options) => router.describeTools(given(options)),
    },
    {
      name: "router.listCalls(options)",
      where: "options",
      options: scope,
      call: (options) => router.listCalls(given(options)),
    },
    {
      name: "router.cancelCall(id, options)",
      where: "options",
      options: tenantScope,
      call: (options) => router.cancelCall("none", given(options)),
    },
    {
      name: "glovebox.inspectTool(tool, options)",
      where: "options",
      options: { ...scope, grant: "list" },
      call: (options) => glovebox.inspectTool({ source: "export default () => 1", name: "one" }, given(options)),
    },
    {
      name: "glovebox.removeTool(name, options)",
      where: "options",
      options: scope,
      call: (options) => glovebox.removeTool("none", given(options)),
    },
    {
      name: "glovebox.setRelease(name, versions, options)",
      where: "options",
      options: scope,
      call: (options) => {
        const name = nextName();
        const definition = { name, description: "", inputSchema: { type: "object" } } as const;
        const version = { version: "1", weight: 1, definition, sha256: "0".repeat(64), load: () => ({ files: {} }) };
        glovebox.setRelease(name, [version], given(options));
      },
    },
    { name: "glovebox.health(options)", where: "options", options: scope, call: (o) => glovebox.health(given(o)) },
    {
      name: "glovebox.listTools(options)",
      where: "options",
      options: tenantScope,
      call: (o) => glovebox.listTools(given(o)),
    },
    {
      name: "glovebox.openSession(options)",
      where: "options",
      options: {
        tenantId: "text",
        language: "text",
        id: "text",
        limits,
        grant: "list",
        idleMs: "number",
        total: { lifetimeMs: "number", cpuMs: "number", runs: "number" },
      },
      call: async (options) => await (await glovebox.openSession(given(options))).close(),
    },
    {
      name: "createRuns(glovebox, options)",
      where: "options",
      options: {
        store: "object",
        maxJournalLength: "number",
        lifetimeMs: "number",
        maxOpen: "number",
        leaseMs: "number",
        pollMs: "number",
        onError: "function",
        tenantLimits: "function",
        prepare: "function",
        onAttempt: "function",
        rollbackMs: "number",
        otherEngines: "text",
      },
      valid: () => ({ store: runStore, pollMs: 0 }),
      call: async (options) => await closing(createRuns(glovebox, given(options))),
    },
    {
      name: "runs.start(run)",
      where: "run",
      options: { toolName: "text", arguments: "any", id: "text", toolVersion: "text", tenantId: "text" },
      valid: () => ({ toolName: "none" }),
      call: async (options) => await runs.start(given(options)),
    },
    {
      name: "runs.get(id, options)",
      where: "options",
      options: tenantScope,
      call: async (options) => void (await runs.get("none", given(options))),
    },
    {
      name: "runs.list(options)",
      where: "options",
      options: { tenantId: "text", state: "text", before: "text", limit: "number" },
      call: async (options) => void (await runs.list(given(options))),
    },
    {
      name: "runs.close(options)",
      where: "options",
      options: { drainMs: "number" },
      valid: () => ({ drainMs: 0 }),
      call: async (options) => await createRuns(glovebox, { store: runStore, pollMs: 0 }).close(given(options)),
    },
    {
      name: "runs.cancel(id, options)",
      where: "options",
      options: tenantScope,
      call: async (options) => void (await runs.cancel("none", given(options))),
    },
    {
      name: "createCodeMode(glovebox, options)",
      where: "options",
      options: codeModeOptions,
      valid: () => ({ needsApproval: [] }),
      call: async (options) => await closing(createCodeMode(glovebox, given(options))),
    },
    {
      name: "codeMode.search(request)",
      where: "request",
      options: { query: "text", detail: "text", limit: "number", language: "text" },
      valid: () => ({ query: "" }),
      call: async (request) => {
        await using codeMode = createCodeMode(glovebox, { typeCheck: false });
        return await codeMode.search(given(request));
      },
    },
    {
      name: "new TypeChecker(options)",
      where: "options",
      options: { timeoutMs: "number", memoryMiB: "number", processes: "number" },
      call: async (options) => await closing(new TypeChecker(given(options))),
    },
    {
      name: "checker.check(request)",
      where: "request",
      options: { code: "text", declarations: "text", form: "text", owner: "text", signal: "object" },
      valid: () => ({ code: "return 1", declarations: "" }),
      call: async (request) => {
        await using checker = new TypeChecker({ timeoutMs: 60_000 });
        return await checker.check(given(request));
      },
    },
    {
      name: "glovebox.listSessions(options)",
      where: "options",
      options: scope,
      call: (options) => glovebox.listSessions(given(options)),
    },
    {
      name: "glovebox.closeSession(id, options)",
      where: "options",
      options: { ...tenantScope, toolName: "text" },
      call: (options) => glovebox.closeSession("none", given(options)),
    },
    {
      name: "glovebox.closeSessions(options)",
      where: "options",
      options: tenantScope,
      call: async (options) => {
        // The session that another row runs code in stays open.
        const isRight = isDeepStrictEqual(options, {});
        if (!isRight) return await glovebox.closeSessions(given(options));
        await using other = await createGlovebox({ cache: false, kv: "memory", workers: { warmProcesses: 0 } });
        return await other.closeSessions(given(options));
      },
    },
    {
      name: "glovebox.suspendTenant(tenantId, options)",
      where: "options",
      options: { calls: "text" },
      call: (options) => glovebox.suspendTenant(undefined, given(options)).finally(() => glovebox.resumeTenant()),
    },
    {
      name: "glovebox.close(options)",
      where: "options",
      options: { drainMs: "number" },
      call: async (options) => {
        // The one that all rows share stays open: right options close another one.
        const isRight = isDeepStrictEqual(options, {});
        const other = isRight
          ? await createGlovebox({ cache: false, kv: "memory", workers: { warmProcesses: 0 } })
          : glovebox;
        await other.close(given(options));
      },
    },
    {
      name: "glovebox.execute(toolCall, context)",
      where: "context",
      options: toolContext,
      valid: rightContext,
      call: (context) => glovebox.execute(CALL, given(context)),
    },
    {
      name: "glovebox.execute(toolCall)",
      where: "toolCall",
      options: { id: "text", toolName: "text", arguments: "any", argumentsText: "text" },
      valid: () => ({ id: "c1", toolName: "add" }),
      call: (call) => glovebox.execute(given(call)),
    },
    {
      name: "glovebox.stream(toolCall, context)",
      where: "context",
      options: toolContext,
      valid: rightContext,
      call: (context) => lastItem(glovebox.stream(CALL, given(context))),
    },
    {
      name: "glovebox.executeBatch(toolCalls, context)",
      where: "context",
      options: { ...toolContext, maxConcurrency: "number" },
      valid: rightContext,
      call: async (context) => (await glovebox.executeBatch([CALL], given(context)))[0],
    },
    {
      name: "glovebox.replay(recording, options)",
      where: "options",
      options: {
        tenantId: "text",
        arguments: "any",
        toolVersion: "text",
        match: "text",
        timeoutMs: "number",
        redact: "function",
        signal: "object",
        onLog: "function",
      },
      call: async (options) => {
        recording ??= recordCall(glovebox);
        return (await glovebox.replay(await recording, given(options))).result;
      },
    },
    {
      name: "glovebox.rehearse(recordings, options)",
      where: "options",
      options: {
        tenantId: "text",
        toolVersion: "text",
        maxConcurrency: "number",
        signal: "object",
        redact: "function",
        admit: "function",
      },
      call: (options) => glovebox.rehearse([], given(options)),
    },
    {
      name: "session.run(code, options)",
      where: "",
      options: { ...sessionContext, callerQuotas: { id: "text", quotas }, input: "any" },
      valid: () => ({ callerQuotas: { id: "c", quotas: {} } }),
      call: async (options) => await (await session).run("1", given(options)),
    },
    {
      name: "glovebox.mcp.addServer(name, options)",
      where: "",
      options: upstream,
      valid: () => ({ url: "http://127.0.0.1:9/mcp" }),
      call: async (options) => {
        const name = nextName();
        glovebox.mcp.addServer(name, given(options));
        await glovebox.mcp.removeServer(name);
      },
    },
    {
      name: "new ToolRouter(options)",
      where: "",
      options: {
        limits,
        ...tenancy,
        coarseTime: "boolean",
        enabled: "boolean",
        hooks: "list",
        ...tenantQuotas,
        quotaStore: "object",
        flags: "object or function",
        health: ["boolean or object", { failures: "number", openMs: "number", maxOpenMs: "number" }],
        arguments: argumentOptions,
        onInternalError: "function",
        // Given by createGlovebox().
        egress: "any",
        secrets: "any",
        log: "any",
        registry: "any",
        telemetry: "any",
        tenantStates: "any",
      },
      call: (options) => closing(new ToolRouter(given(options))),
    },
    {
      name: "router.register(name, definition)",
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
      call: (definition) => router.register(nextName(), given(definition), () => ({})),
    },
    {
      name: "router.register(name, definition, handler, options)",
      where: "options",
      options: { ...scope, arguments: argumentOptions },
      call: (options) => router.register(nextName(), {}, () => ({}), given(options)),
    },
    {
      name: "source.register(name, definition, options)",
      where: "options",
      options: { ...scope, arguments: argumentOptions, nameAtSource: "text" },
      call: (options) => {
        using source = router.addToolProvider(nextName(), { call: () => ({}) });
        source.register(nextName(), {}, given(options));
      },
    },
    {
      name: "router.getRegisteredTools(options)",
      where: "options",
      options: tenantScope,
      call: (options) => router.getRegisteredTools(given(options)),
    },
    {
      name: "router.hasTool(name, options)",
      where: "options",
      options: tenantScope,
      call: (options) => router.hasTool("add", given(options)),
    },
    {
      name: "router.digestOf(definition, options)",
      where: "options",
      options: tenantScope,
      call: (options) => router.digestOf(TOOL, given(options)),
    },
    {
      name: "new ToolInvoker(router, options)",
      where: "options",
      options: { maxConcurrentTools: "number" },
      call: (options) => new ToolInvoker(router, given(options)),
    },
    {
      name: "invoker.execute(invocation)",
      where: "",
      options: {
        id: "text",
        toolName: "text",
        arguments: "any",
        argumentsText: "text",
        timeoutMs: "number",
        context: toolContext,
      },
      valid: () => ({ toolName: "add", context: rightContext() }),
      call: (invocation) => glovebox.invoker.execute(given(invocation)),
    },
    {
      name: "defineCapability(options)",
      where: "",
      options: {
        name: "text",
        description: "text",
        handler: "function",
        inputSchema: "object or function",
        outputSchema: "object or function",
        members: "any",
        uncounted: "any",
      },
      valid: () => ({ name: "lookUp", inputSchema: {}, outputSchema: {}, handler: () => 1 }),
      call: (options) => defineCapability(given(options)),
    },
    {
      name: "redact(value, options)",
      where: "options",
      options: redactValues,
      call: (options) => redact({}, given(options)),
    },
    {
      name: "createRedactor(options)",
      where: "options",
      options: redactValues,
      call: (options) => createRedactor(given(options))({}),
    },
    {
      name: "toOpenApi(definitions, options)",
      where: "options",
      options: { title: "text", version: "text", description: "text", servers: "list", pathOf: "function" },
      call: (options) => toOpenApi([TOOL], given(options)),
    },
    {
      name: "toAISDKTools(host, options)",
      where: "options",
      options: edgeOptions,
      call: (options) => toAISDKTools(glovebox, given(options)),
    },
    {
      name: "toAgentsTools(host, options)",
      where: "options",
      options: edgeOptions,
      call: (options) => toAgentsTools(glovebox, given(options)),
    },
    {
      name: "toOpenAITools(definitions, options)",
      where: "options",
      options: { ...openaiTools, api: "text", namespaces: "object" },
      valid: () => ({ api: "responses" }),
      call: (options) => toOpenAITools([TOOL], given(options)),
    },
    {
      name: "openaiResponses(client, options)",
      where: "options",
      options: { ...openaiModel, encryptedReasoning: "boolean" },
      valid: () => ({ model: "m" }),
      call: (options) => openaiResponses(given(client), given(options)),
    },
    {
      name: "openaiChat(client, options)",
      where: "options",
      options: openaiModel,
      valid: () => ({ model: "m" }),
      call: (options) => openaiChat(given(client), given(options)),
    },
    {
      name: "readAnswer(response, tools, options)",
      where: "options",
      options: { createId: "function" },
      call: (options) => readAnswer(given({ object: "response", output: [] }), undefined, given(options)),
    },
    {
      name: "readAnswerStream(stream, options)",
      where: "options",
      options: { api: "text", createId: "function", tools: "object" },
      valid: () => ({ api: "responses" }),
      call: (options) => readAnswerStream((async function* () {})(), given(options)),
    },
    {
      name: "toChatMessages(messages, tools, limits)",
      where: "limits",
      options: outputLimits,
      call: (options) => toChatMessages(MESSAGES, undefined, given(options)),
    },
    {
      name: "toResponsesInput(messages, tools, limits)",
      where: "limits",
      options: outputLimits,
      call: (options) => toResponsesInput(MESSAGES, undefined, given(options)),
    },
    {
      name: "openTool(path, options)",
      where: "",
      // Each run starts a Glovebox and builds the tool. The tables of both have rows of their own.
      runs: 5,
      options: { tenantId: "text", capabilities: "list", grant: "list", host: "instance", overrides },
      call: async (options) => {
        const path = fileURLToPath(new URL("../../../tools/csv-stats", import.meta.url));
        await closing(await openTool(path, given(options)));
      },
    },
    {
      name: "openAgentJournal(options)",
      where: "options",
      options: {
        store: "object",
        id: "text",
        tenantId: "text",
        leaseMs: "number",
        maxJournalLength: "number",
        lifetimeMs: "number",
      },
      valid: () => ({ store: new MemoryRunStore(), id: "journal" }),
      call: async (options) => await closing(await openAgentJournal(given(options))),
    },
    {
      name: "new AgentLoop(options)",
      where: "options",
      options: loopOptions,
      call: (options) => new AgentLoop(given(options)),
    },
    {
      name: "agentLoop.run(options)",
      where: "options",
      options: loopRunOptions,
      valid: () => ({ messages: MESSAGES, model, router }),
      call: (options) => new AgentLoop().run(given(options)),
    },
    {
      name: "agentLoop.executeSingleTurn(messages, toolCall, router, context)",
      where: "context",
      options: agentContext,
      call: (context) => new AgentLoop().executeSingleTurn(MESSAGES, CALL, router, given(context)),
    },
    {
      name: "new ToolsRouterAgent(options)",
      where: "options",
      options: routingOptions,
      call: (options) => new ToolsRouterAgent(given(options)),
    },
    {
      name: "toolsRouterAgent.run(request, overrides)",
      where: "options",
      options: routingOptions,
      valid: () => ({ model, router }),
      call: (options) => new ToolsRouterAgent().run("Add", given(options)),
    },
    {
      name: "createMcpHandler(host, options)",
      where: "options",
      options: {
        ...serverOptions,
        auth: "object",
        tenantOf: "function",
        allowedHosts: "list",
        allowedOrigins: "list",
        allowIpHosts: "boolean",
        maxBodyBytes: "number",
        sessions: { max: "number", idleMs: "number", idPrefix: "text" },
        limits: {
          requests: shared,
          listenStreams: shared,
          requestBytes: shared,
          responseBytes: shared,
          identifyMs: "number",
          bodyMs: "number",
          unreadMs: "number",
          expiredCallMs: "number",
        },
      },
      call: (options) => closing(createMcpHandler(glovebox, given(options))),
    },
    {
      name: "serveMcpStdio(host, options)",
      where: "options",
      options: { ...serverOptions, tenantId: "text", stdin: "object", stdout: "object" },
      call: (options) => closing(serveMcpStdio(glovebox, given(options))),
    },
    {
      name: "checkTenantOptions(options)",
      where: "options",
      options: {
        limits,
        weight: "number",
        coarseTime: "boolean",
        pools: "list",
        egress,
        secrets: "object",
        ...tenantQuotas,
      },
      call: (options) => checkTenantOptions(given(options)),
    },
    {
      name: "sendGuardedRequest(request)",
      where: "request",
      options: {
        url: "text",
        method: "text",
        headers: "object",
        body: "text",
        addresses: "list",
        timeoutMs: "number",
        maxResponseBytes: "number",
        tenantId: "text",
        signal: "object",
      },
      // Nothing listens at this port.
      valid: () => ({ url: "http://127.0.0.1:9" }),
      call: async (options) => {
        const thrown = await sendGuardedRequest(given(options)).catch((error: unknown) => error);
        // The address is not public.
        if ((thrown as { readonly code?: string }).code !== "CAPABILITY_DENIED") throw thrown;
      },
    },
    {
      name: "findBlockedRange(addresses)",
      where: "addresses",
      options: "list",
      valid: () => ["10.0.0.0/8"],
      call: (addresses) => void findBlockedRange("http://10.0.0.1", given(addresses)),
    },
    {
      name: "createResourceServer(options)",
      where: "options",
      options: {
        resource: "text",
        authorizationServers: "list",
        audience: "text or list",
        requiredScopes: "list",
        scopesSupported: "list",
        algorithms: "list",
        verify: "function",
        resourceName: "text",
        resourceDocumentation: "text",
        onError: "function",
      },
      valid: () => RESOURCE,
      call: (options) => createResourceServer(given(options)),
    },
  ];
}
