// Every public method that concerns a tool, a call, a session or a stored value, and how a caller names the tenant there: the table that
// tenancy.test.ts reads. A method that is missing here fails that test.
import { PassThrough } from "node:stream";
import { toAISDKTools } from "../../../src/host/adapters/ai-sdk.ts";
import { toAgentsTools } from "../../../src/host/adapters/openai-agents.ts";
import { openAgentJournal } from "../../../src/host/agent/loop/agent-journal.ts";
import { AgentLoop } from "../../../src/host/agent/loop/agent-loop.ts";
import { ToolsRouterAgent } from "../../../src/host/agent/router/tools-router-agent.ts";
import { createCodeMode } from "../../../src/host/code-mode/code-mode.ts";
import { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { McpManager } from "../../../src/host/mcp/client/manager.ts";
import { createMcpHandler } from "../../../src/host/mcp/server/http/handler.ts";
import { serveMcpStdio } from "../../../src/host/mcp/server/stdio.ts";
import type { CallRecording } from "../../../src/host/recording/recording.ts";
import { ToolInvoker } from "../../../src/host/routing/tool-invoker.ts";
import { ToolRouter } from "../../../src/host/routing/tool-router.ts";
import { AddedToolProvider } from "../../../src/host/routing/tool-source.ts";
import { MemoryRunStore } from "../../../src/host/runs/memory-run-store.ts";
import { createRuns, Runs } from "../../../src/host/runs/runs.ts";
import { Session } from "../../../src/host/sessions/session.ts";
import type { ToolDefinition } from "../../../src/sandbox/contract/definition.ts";
import { recordCall } from "../../support/host-zone.ts";
import { call, says, scriptModel } from "../../support/scripted-model.ts";

/** Options with which a caller names a tenant, or all tenants. */
export type Whose = Readonly<Record<string, unknown>>;

export interface TenancyEntry {
  readonly name: string;
  /** Alternatives to a tenant: `global` for a tool, `all` for an overview. */
  readonly scope?: "global" | "all";
  /** Calls it in a Glovebox that has the host tool `add` for all tenants. It may throw, reject, or give a result with an error. */
  readonly call: (glovebox: Glovebox, whose: Whose) => unknown;
}

const SOURCE = { source: "export default () => 1" };
const CALL = { id: "c1", toolName: "add", arguments: {} };
const USER = { role: "user", content: "Add" } as const;
let names = 0;
const nextName = (): string => {
  names += 1;
  return `tool_${names}`;
};
const given = (options: unknown): never => options as never;

async function lastOf(items: AsyncIterable<unknown>): Promise<unknown> {
  let last: unknown;
  for await (const item of items) last = item;
  return last;
}
const recordings = new WeakMap<Glovebox, Promise<CallRecording>>();
/** A recorded call of the tenant "acme", or of the only one. */
function recordingOf(glovebox: Glovebox): Promise<CallRecording> {
  const made =
    recordings.get(glovebox) ??
    recordCall(glovebox, glovebox.router.tenancy.mode === "multi" ? { tenantId: "acme" } : {});
  recordings.set(glovebox, made);
  return made;
}
const runStores = new WeakMap<Glovebox, MemoryRunStore>();
function openRuns(glovebox: Glovebox): Runs {
  const store = new MemoryRunStore();
  runStores.set(glovebox, store);
  return createRuns(glovebox, { store, pollMs: 0 });
}
const closing = async (made: AsyncDisposable): Promise<void> => await made[Symbol.asyncDispose]();
const loopOf = (): AgentLoop => new AgentLoop({ model: scriptModel(says(call("c", "add")), says("ok")).model });
const agentOf = (): ToolsRouterAgent =>
  new ToolsRouterAgent({ model: scriptModel(says('{"tool":"add","inputs":{}}'), says("ok")).model });
const definitionIn = (glovebox: Glovebox): ToolDefinition =>
  glovebox.router.registry.get("add")?.definition as ToolDefinition;
/** As the option that a server's tenants are named by. */
const serverOf = ({ tenantId, ...rest }: Whose): Whose =>
  tenantId === undefined ? rest : { ...rest, tenants: [tenantId] };

/** Opens the durable runs of a host, which have one run, of its tenant. */
async function openRun(glovebox: Glovebox): Promise<Runs> {
  const runs = openRuns(glovebox);
  const { tenantId } = glovebox.router.tenancy.mode === "multi" ? { tenantId: "acme" } : { tenantId: "default" };
  const run = {
    id: "r",
    tenantId,
    kind: "tool",
    toolName: "none",
    input: "{}",
    createdAt: 0,
    expiresAt: 0,
    leaseUntil: 0,
  };
  await runStores.get(glovebox)?.create(run, 10);
  return runs;
}

export const TENANCY_ENTRIES: readonly TenancyEntry[] = [
  {
    name: "Glovebox.addTool",
    scope: "global",
    call: (glovebox, whose) => glovebox.addTool({ ...SOURCE, name: nextName() }, given(whose)),
  },
  {
    name: "Glovebox.updateTool",
    scope: "global",
    call: async (glovebox, whose) => {
      const tool = { ...SOURCE, name: nextName() };
      await glovebox.addTool(tool, given(whose));
      return await glovebox.updateTool(tool, given(whose));
    },
  },
  { name: "Glovebox.listCalls", scope: "all", call: (glovebox, whose) => glovebox.listCalls(given(whose)) },
  { name: "Glovebox.getTimeline", call: (glovebox, whose) => glovebox.getTimeline("none", given(whose)) },
  { name: "Glovebox.cancelCall", call: (glovebox, whose) => glovebox.cancelCall("none", given(whose)) },
  {
    name: "Glovebox.inspectTool",
    scope: "global",
    call: (glovebox, whose) => glovebox.inspectTool(SOURCE, given(whose)),
  },
  {
    name: "Glovebox.setRelease",
    scope: "global",
    call: (glovebox, whose) => {
      const name = nextName();
      const definition = { name, description: "", inputSchema: { type: "object" } } as const;
      const version = { version: "1", weight: 1, definition, sha256: "0".repeat(64), load: () => ({ files: {} }) };
      glovebox.setRelease(name, [version], given(whose));
    },
  },
  {
    name: "Glovebox.removeTool",
    scope: "global",
    call: (glovebox, whose) => glovebox.removeTool("none", given(whose)),
  },
  { name: "Glovebox.health", scope: "all", call: (glovebox, whose) => glovebox.health(given(whose)) },
  { name: "Glovebox.listTools", call: (glovebox, whose) => glovebox.listTools(given(whose)) },
  {
    name: "Glovebox.openSession",
    call: async (glovebox, whose) => await closing(await glovebox.openSession(given(whose))),
  },
  { name: "Runs.start", call: (glovebox, whose) => openRuns(glovebox).start(given({ toolName: "none", ...whose })) },
  {
    name: "Runs.begin",
    call: async (glovebox, whose) =>
      await (await openRuns(glovebox).begin(given({ toolName: "none", ...whose }))).settled,
  },
  { name: "Runs.get", call: (glovebox, whose) => openRuns(glovebox).get("none", given(whose)) },
  { name: "Runs.list", call: (glovebox, whose) => openRuns(glovebox).list(given(whose)) },
  { name: "Runs.journal", call: (glovebox, whose) => openRuns(glovebox).journal("none", given(whose)) },
  { name: "Runs.resume", call: (glovebox, whose) => openRuns(glovebox).resume("none", given(whose)) },
  { name: "Runs.cancel", call: (glovebox, whose) => openRuns(glovebox).cancel("none", given(whose)) },
  {
    name: "Runs.signal",
    call: async (glovebox, whose) => await (await openRun(glovebox)).signal("r", { event: "go" }, given(whose)),
  },
  {
    name: "Runs.deliver",
    call: async (glovebox, whose) => await (await openRun(glovebox)).deliver("r", { event: "go" }, given(whose)),
  },
  {
    name: "openAgentJournal",
    call: async (glovebox, whose) => {
      await using journal = await openAgentJournal(given({ store: new MemoryRunStore(), id: "a", ...whose }));
      journal.router(glovebox);
    },
  },
  {
    name: "createCodeMode",
    call: (glovebox, whose) => closing(createCodeMode(glovebox, given({ ...whose, typeCheck: false }))),
  },
  { name: "Glovebox.listSessions", scope: "all", call: (glovebox, whose) => glovebox.listSessions(given(whose)) },
  { name: "Glovebox.closeSession", call: (glovebox, whose) => glovebox.closeSession("none", given(whose)) },
  { name: "Glovebox.closeSessions", call: (glovebox, whose) => glovebox.closeSessions(given(whose)) },
  { name: "Glovebox.execute", call: (glovebox, whose) => glovebox.execute(CALL, given(whose)) },
  { name: "Glovebox.stream", call: (glovebox, whose) => lastOf(glovebox.stream(CALL, given(whose))) },
  {
    name: "Glovebox.executeBatch",
    call: async (glovebox, whose) => (await glovebox.executeBatch([CALL], given(whose)))[0],
  },
  {
    name: "Glovebox.replay",
    call: async (glovebox, whose) => (await glovebox.replay(await recordingOf(glovebox), given(whose))).result,
  },
  { name: "Glovebox.rehearse", call: (glovebox, whose) => glovebox.rehearse([], given(whose)) },
  {
    name: "ToolRouter.register",
    scope: "global",
    call: ({ router }, whose) => router.register(nextName(), {}, () => 1, given(whose)),
  },
  {
    name: "AddedToolProvider.register",
    scope: "global",
    call: ({ router }, whose) => {
      using source = router.addToolProvider(nextName(), { call: () => 1 });
      source.register(nextName(), {}, given(whose));
    },
  },
  { name: "ToolRouter.getRegisteredTools", call: ({ router }, whose) => router.getRegisteredTools(given(whose)) },
  { name: "ToolRouter.listTools", call: ({ router }, whose) => router.listTools(given(whose)) },
  { name: "ToolRouter.describeTools", call: ({ router }, whose) => router.describeTools(given(whose)) },
  { name: "ToolRouter.listCalls", scope: "all", call: ({ router }, whose) => router.listCalls(given(whose)) },
  { name: "ToolRouter.getTimeline", call: ({ router }, whose) => router.getTimeline("none", given(whose)) },
  { name: "ToolRouter.cancelCall", call: ({ router }, whose) => router.cancelCall("none", given(whose)) },
  { name: "ToolRouter.hasTool", call: ({ router }, whose) => router.hasTool("add", given(whose)) },
  {
    name: "ToolRouter.digestOf",
    call: (glovebox, whose) => glovebox.router.digestOf(definitionIn(glovebox), given(whose)),
  },
  { name: "ToolRouter.health", scope: "all", call: ({ router }, whose) => router.health(given(whose)) },
  { name: "ToolRouter.execute", call: ({ router }, whose) => router.execute(CALL, given(whose)) },
  { name: "ToolRouter.stream", call: ({ router }, whose) => lastOf(router.stream(CALL, given(whose))) },
  { name: "ToolInvoker.execute", call: ({ invoker }, whose) => invoker.execute({ ...CALL, context: given(whose) }) },
  {
    name: "ToolInvoker.executeBatch",
    call: async ({ invoker }, whose) => (await invoker.executeBatch([{ ...CALL, context: given(whose) }]))[0],
  },
  {
    name: "McpManager.addServer",
    scope: "global",
    call: async ({ mcp }, whose) => {
      const name = nextName();
      mcp.addServer(name, { url: "http://127.0.0.1:9/mcp", ...(serverOf(whose) as object) });
      await mcp.removeServer(name);
    },
  },
  { name: "toAISDKTools", call: (glovebox, whose) => toAISDKTools(glovebox, given(whose)) },
  { name: "toAgentsTools", call: (glovebox, whose) => toAgentsTools(glovebox, given(whose)) },
  {
    name: "AgentLoop.run",
    call: ({ router }, whose) => loopOf().run({ router, messages: [USER], context: given(whose) }),
  },
  {
    name: "AgentLoop.stream",
    call: ({ router }, whose) => lastOf(loopOf().stream({ router, messages: [USER], context: given(whose) })),
  },
  {
    name: "AgentLoop.executeSingleTurn",
    call: ({ router }, whose) => loopOf().executeSingleTurn([USER], CALL, router, given(whose)),
  },
  {
    name: "ToolsRouterAgent.run",
    call: ({ router }, whose) => agentOf().run("Add", { router, context: given(whose) }),
  },
  {
    name: "ToolsRouterAgent.stream",
    call: ({ router }, whose) => lastOf(agentOf().stream("Add", { router, context: given(whose) })),
  },
  {
    name: "createMcpHandler",
    call: (glovebox, { tenantId, ...rest }) => {
      const tenantOf =
        tenantId === undefined ? {} : { tenantOf: typeof tenantId === "string" ? () => tenantId : tenantId };
      return closing(createMcpHandler(glovebox, given({ ...rest, ...tenantOf })));
    },
  },
  {
    name: "serveMcpStdio",
    call: (glovebox, whose) =>
      closing(serveMcpStdio(glovebox, { ...(whose as object), stdin: new PassThrough(), stdout: new PassThrough() })),
  },
];

/** Methods whose only argument is the tenant. */
export const BY_NAME: readonly TenancyEntry[] = [
  { name: "Glovebox.invalidateTenant", call: (glovebox, { tenantId }) => glovebox.invalidateTenant(given(tenantId)) },
  { name: "Glovebox.suspendTenant", call: (glovebox, { tenantId }) => glovebox.suspendTenant(given(tenantId)) },
  { name: "Glovebox.resumeTenant", call: (glovebox, { tenantId }) => glovebox.resumeTenant(given(tenantId)) },
  { name: "Glovebox.deleteTenant", call: (glovebox, { tenantId }) => glovebox.deleteTenant(given(tenantId)) },
  { name: "Glovebox.exportTenant", call: (glovebox, { tenantId }) => lastOf(glovebox.exportTenant(given(tenantId))) },
  { name: "ToolRouter.invalidateTenant", call: ({ router }, { tenantId }) => router.invalidateTenant(given(tenantId)) },
];

/** The classes whose methods a host calls. */
export const CLASSES = [
  ...[Glovebox, ToolRouter, AddedToolProvider, ToolInvoker, McpManager, Session, AgentLoop, ToolsRouterAgent, Runs],
] as const;

/** Methods that concern no tenant, with the reason. */
export const OF_NO_TENANT: { readonly [name: string]: string } = {
  "Glovebox.close": "ends all of it",
  "Glovebox.workerPids": "is the operator's overview of processes",
  "Glovebox.workers": "is the operator's overview of processes",
  "Glovebox.fleet": "is the operator's overview of executors",
  "Glovebox.drainExecutor": "is about a machine",
  "Glovebox.hardening": "is about the machine",
  "Glovebox.quarantinedTools": "is the operator's overview of code that may have crashed a process",
  "Glovebox.addBuiltinTools": "is internal; first-party tools belong to all tenants",
  "Glovebox.openSecondaryToolList": "is internal; createCodeMode names the tenant",
  "ToolRouter.setRelease": "internal: its tool has an owner",
  "ToolRouter.addToolProvider": "adds a transport; each of its tools has an owner",
  "ToolRouter.add": "is internal; the owner has been resolved",
  "ToolRouter.replace": "takes a tool whose owner has been resolved",
  "ToolRouter.settingsOf": "is internal; the tenant has been resolved",
  "ToolRouter.calls": "is internal; listCalls and cancelCall name the tenant",
  "ToolRouter.executeNested": "is internal; the tenant is that of the outer call",
  "ToolRouter.admission": "is internal; the tenant has been resolved",
  "ToolRouter.endCalls": "is internal; the tenant has been resolved",
  "ToolRouter.forgetHealth": "is internal; the tenant has been resolved",
  "ToolRouter.remove": "is internal; the owner has been resolved",
  "ToolRouter.executeAccepted": "is internal; the context names the tenant, as in execute",
  "ToolInvoker.settled": "is internal; the tenant has been resolved",
  "McpManager.deleteTenant": "is internal; the tenant has been resolved",
  "ToolRouter.forceClose": "ends all of it",
  "ToolRouter.drain": "ends all of it",
  "McpManager.add": "is internal; addServer parses its options",
  "McpManager.removeServer": "is about a server",
  "McpManager.servers": "is the operator's overview of servers",
  "Runs.poll": "continues runs of all tenants, each for its own",
  "Runs.close": "ends all of it",
  "Session.run": "has the tenant of its session",
  "Session.close": "has the tenant of its session",
  "Session.id": "has the tenant of its session",
  "Session.info": "has the tenant of its session",
  "Session.isOver": "has the tenant of its session",
};
