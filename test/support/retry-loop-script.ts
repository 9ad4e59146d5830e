// A host that retries calls that are rejected, and does nothing else. Prints a line for each kind of call when a timer has fired and a
// signal has been handled; then retries the last kind until SIGTERM ends it. Run by retry-loop.test.ts.
import { writeSync } from "node:fs";
import { AgentLoop } from "../../src/host/agent/loop/agent-loop.ts";
import { sendGuardedRequest } from "../../src/host/capabilities/fetch/guarded-request.ts";
import { TypeChecker } from "../../src/host/code-mode/type-checker/type-checker.ts";
import { createGlovebox } from "../../src/host/glovebox/create-glovebox.ts";
import type { Glovebox } from "../../src/host/glovebox/glovebox.ts";
import { ToolInvoker } from "../../src/host/routing/tool-invoker.ts";
import { MemoryRunStore } from "../../src/host/runs/memory-run-store.ts";
import { createRuns } from "../../src/host/runs/runs.ts";
import { openTool } from "../../src/host/testing/index.ts";

const say = (line: string): number => writeSync(1, `${line}\n`);
const ONE = { name: "one", source: "export default () => 1" };
const call = { id: "c", toolName: "one", arguments: {} };
const unknown = { id: "c", toolName: "unknown", arguments: {} };
const wrong = { unknownKey: 1 } as never;
const cancelled = { signal: AbortSignal.abort() };

/** Each is rejected at once, in its own way. */
const ATTEMPTS: { readonly [name: string]: (glovebox: Glovebox) => Promise<unknown> } = {
  execute: (glovebox) => glovebox.execute(call),
  stream: async (glovebox) => {
    for await (const _item of glovebox.stream(call));
  },
  executeBatch: (glovebox) => glovebox.executeBatch([call, call]),
  emptyBatch: (glovebox) => glovebox.executeBatch([]),
  invocation: (glovebox) => glovebox.invoker.execute(call),
  unknownTool: (glovebox) => glovebox.execute(unknown),
  wrongContext: (glovebox) => glovebox.execute(call, wrong),
  wrongBatch: (glovebox) => glovebox.executeBatch([call], wrong),
  wrongInvocation: (glovebox) => glovebox.invoker.execute(wrong),
  cancelled: (glovebox) => glovebox.execute(call, cancelled),
  cancelledInvocation: (glovebox) => glovebox.invoker.execute({ toolName: "one", context: cancelled }),
  rejectingRouter: () =>
    new ToolInvoker({ execute: () => Promise.reject(new Error("no")) } as never).execute({ toolName: "one" }),
  session: async (glovebox) => await (await session(glovebox)).run("1"),
  wrongRun: async (glovebox) => await (await session(glovebox)).run("1", wrong),
  addTool: (glovebox) => glovebox.addTool(ONE),
  inspectTool: (glovebox) => glovebox.inspectTool(ONE),
  openSession: (glovebox) => glovebox.openSession(),
  wrongSession: (glovebox) => glovebox.openSession(wrong),
  closeSession: (glovebox) => glovebox.closeSession(1 as never),
  closeSessions: (glovebox) => glovebox.closeSessions(wrong),
  listTools: (glovebox) => glovebox.listTools(wrong),
  close: (glovebox) => glovebox.close(wrong),
  createGlovebox: () => createGlovebox(wrong),
  removeServer: (glovebox) => glovebox.mcp.removeServer(1 as never),
  runsStart: () => closedRuns.start({ toolName: "one" }),
  runsBegin: () => closedRuns.begin({ toolName: "one" }),
  runsResume: () => closedRuns.resume("r"),
  runsSignal: () => closedRuns.signal("r", { event: "e" }),
  runsDeliver: () => closedRuns.deliver("r", { event: "e" }),
  signalUnknownRun: () => runs.signal("r", { event: "e" }),
  deliverToUnknownRun: () => runs.deliver("r", { event: "e" }),
  wrongStart: () => runs.start(wrong),
  wrongRunId: () => runs.get(1 as never),
  wrongJournal: () => runs.journal(1 as never),
  wrongList: () => runs.list(wrong),
  wrongCancel: () => runs.cancel(1 as never),
  wrongClose: () => runs.close(wrong),
  suspendedTenant: () => several.execute(call, { tenantId: "suspended" }),
  rateLimit: () => several.execute(call, { tenantId: "limited" }),
  guardedRequest: () => sendGuardedRequest(wrong),
  openTool: () => openTool("tool.ts", wrong),
  wrongTurn: () => new AgentLoop().executeSingleTurn([], wrong, open.router),
  deniedTurn: () => new AgentLoop({ tools: [] }).executeSingleTurn([], call, open.router),
  turnToApprove: () =>
    new AgentLoop({ needsApproval: () => true, signingKey: "unsigned" }).executeSingleTurn([], call, open.router),
  typeCheck: () => checker.check({ code: "1", declarations: "", form: "body", owner: "o" }),
};

const opened = new Map<Glovebox, ReturnType<Glovebox["openSession"]>>();
const session = (glovebox: Glovebox): ReturnType<Glovebox["openSession"]> => {
  const one = opened.get(glovebox) ?? glovebox.openSession({ language: "javascript" });
  opened.set(glovebox, one);
  return one;
};

const shutdown = { signals: ["SIGTERM"], drainMs: 0 } as const;
const options = { cache: false, kv: "memory", shutdown, workers: { max: 1, warmProcesses: 0 } } as const;

const open = await createGlovebox(options);
const closed = await createGlovebox(options);
await session(closed);
await closed.close();
const full = await createGlovebox({ ...options, limits: { maxConcurrentCalls: 1, maxQueuedCalls: 0 } });
await full.addTool({ name: "one", source: "export default () => new Promise((done) => setTimeout(done, 60_000))" });
void full.execute(call, { timeoutMs: 60_000 });
const several = await createGlovebox({
  ...options,
  tenancy: "multi",
  tenants: { suspended: {}, limited: { rateLimit: { calls: 1, per: "minute", burst: 1 } } },
});
await several.suspendTenant("suspended");
await several.execute(call, { tenantId: "limited" });
const gloveboxes = { open, closed, full };
const runs = createRuns(open, { store: new MemoryRunStore(), pollMs: 0 });
const closedRuns = createRuns(open, { store: new MemoryRunStore(), pollMs: 0 });
await closedRuns.close();
const checker = new TypeChecker();
await checker[Symbol.asyncDispose]();

/** Retries until a timer has fired and a signal has been handled; `forever`: and then goes on. */
async function retry(name: string, state: keyof typeof gloveboxes, forever: boolean): Promise<void> {
  const attempt = ATTEMPTS[name];
  if (attempt === undefined) throw new Error(`There is no attempt "${name}"`);
  let missing = 2;
  const arrive = (): void => {
    missing -= 1;
    if (missing === 0) say(`${name} ${state}`);
  };
  process.once("SIGUSR2", arrive);
  setTimeout(arrive, 1);
  process.kill(process.pid, "SIGUSR2");
  while (missing > 0 || forever) {
    try {
      await attempt(gloveboxes[state]);
    } catch {
      // It is tried again at once.
    }
  }
}

const loops = JSON.parse(process.argv[2] ?? "[]") as (readonly [name: string, state: keyof typeof gloveboxes])[];
for (const [index, [name, state]] of loops.entries()) await retry(name, state, index === loops.length - 1);
