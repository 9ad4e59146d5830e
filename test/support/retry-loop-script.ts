// A host that calls again and again for as long as it is rejected, and nothing else. Prints a line when its timer has fired, then goes on
// until a signal ends it. Run by retry-loop.test.ts.
import { writeSync } from "node:fs";
import { ToolInvoker } from "../../src/host/invoker.ts";
import { createGlovebox, type Glovebox } from "../../src/host/runtime.ts";

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
};

let opened: ReturnType<Glovebox["openSession"]> | undefined;
const session = (box: Glovebox): ReturnType<Glovebox["openSession"]> => {
  opened ??= box.openSession({ language: "javascript" });
  return opened;
};

const [name = "", state = "open"] = process.argv.slice(2);
const attempt = ATTEMPTS[name];
if (attempt === undefined) throw new Error(`There is no attempt "${name}"`);
const shutdown = { signals: ["SIGTERM"], drainMs: 0 } as const;
const options = { cache: false, store: "memory", shutdown, workers: { max: 1, spares: 0 } } as const;
const limits = state === "full" ? { concurrentCalls: 1, queuedCalls: 0 } : {};
const box = await createGlovebox({ ...options, limits });
if (state === "closed") {
  if (name === "session") await session(box);
  await box.close();
}
if (state === "full") {
  await box.addTool({ name: "one", source: "export default () => new Promise((done) => setTimeout(done, 60_000))" });
  void box.execute(call, { timeoutMs: 60_000 });
}
setTimeout(() => say("timer"), 1);
for (;;) {
  try {
    await attempt(box);
  } catch {
    // It is tried again at once.
  }
}
