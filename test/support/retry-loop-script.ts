// A host that retries calls that are rejected, and does nothing else. Prints a line for each kind of call when a timer has fired and a
// signal has been handled; then retries the last kind until SIGTERM ends it. Run by retry-loop.test.ts.
import { writeSync } from "node:fs";
import { AgentLoop } from "../../src/host/agent/agent-loop.ts";
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
const ATTEMPTS: { readonly [name: string]: (box: Glovebox) => Promise<unknown> } = {
  execute: (box) => box.execute(call),
  stream: async (box) => {
    for await (const _item of box.stream(call));
  },
  executeBatch: (box) => box.executeBatch([call, call]),
  emptyBatch: (box) => box.executeBatch([]),
  invocation: (box) => box.invoker.execute(call),
  unknownTool: (box) => box.execute(unknown),
  wrongContext: (box) => box.execute(call, wrong),
  wrongBatch: (box) => box.executeBatch([call], wrong),
  wrongInvocation: (box) => box.invoker.execute(wrong),
  cancelled: (box) => box.execute(call, cancelled),
  cancelledInvocation: (box) => box.invoker.execute({ toolName: "one", context: cancelled }),
  rejectingRouter: () =>
    new ToolInvoker({ execute: () => Promise.reject(new Error("no")) } as never).execute({ toolName: "one" }),
  session: async (box) => await (await session(box)).run("1"),
  wrongRun: async (box) => await (await session(box)).run("1", wrong),
  addTool: (box) => box.addTool(ONE),
  inspectTool: (box) => box.inspectTool(ONE),
  openSession: (box) => box.openSession(),
  wrongSession: (box) => box.openSession(wrong),
  closeSession: (box) => box.closeSession(1 as never),
  closeSessions: (box) => box.closeSessions(wrong),
  listTools: (box) => box.listTools(wrong),
  close: (box) => box.close(wrong),
  createGlovebox: () => createGlovebox(wrong),
  removeServer: (box) => box.mcp.removeServer(1 as never),
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
const session = (box: Glovebox): ReturnType<Glovebox["openSession"]> => {
  const one = opened.get(box) ?? box.openSession({ language: "javascript" });
  opened.set(box, one);
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
const boxes = { open, closed, full };
const runs = createRuns(open, { store: new MemoryRunStore(), pollMs: 0 });
const closedRuns = createRuns(open, { store: new MemoryRunStore(), pollMs: 0 });
await closedRuns.close();
const checker = new TypeChecker();
await checker[Symbol.asyncDispose]();

/** Retries until a timer has fired and a signal has been handled; `forever`: and then goes on. */
async function retry(name: string, state: keyof typeof boxes, forever: boolean): Promise<void> {
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
      await attempt(boxes[state]);
    } catch {
      // It is tried again at once.
    }
  }
}

const loops = JSON.parse(process.argv[2] ?? "[]") as (readonly [name: string, state: keyof typeof boxes])[];
for (const [index, [name, state]] of loops.entries()) await retry(name, state, index === loops.length - 1);
