// ctx.onRollback in Python: the same as in JavaScript, in an interpreter whose own code has ended, waits for ever, or left tasks behind.
import { describe, expect, test } from "vitest";
import { MemoryRunStore } from "../../../src/host/runs/memory-run-store.ts";
import { createRuns, type Runs } from "../../../src/host/runs/runs.ts";
import { withMoreTime } from "../../support/more-time.ts";
import { BOOKED, errorOf, rollbackOf, succeeded, UNDONE, useActs } from "./acts.ts";
import { CrashingStore } from "./crashing-store.ts";

const acts = useActs();

let tools = 0;
async function addTool(
  body: string,
  limits: object = {},
  granted: readonly string[] = ["act", "waitFor"],
): Promise<string> {
  tools += 1;
  const name = `python_rollback${tools}`;
  const source = `capabilities = {"act": True, "waitFor": True}\nlimits = ${JSON.stringify({ timeoutMs: 120_000, cpuMs: 60_000, ...limits })}\n${body}`;
  await acts.glovebox.addTool({ name, source, language: "python" }, { grant: [...granted] });
  return name;
}

const open = (store: MemoryRunStore = new MemoryRunStore()): Runs => createRuns(acts.glovebox, { store, pollMs: 0 });

const TRIP = `
async def main(input, ctx):
    for what in ["flight", "hotel", "car"]:
        async def undo(what=what):
            await ctx.act("cancel " + what)
        await ctx.onRollback(undo)
        await ctx.act("book " + what)
    decision = await ctx.waitFor({"approval": "Pay?"})
    if not decision["approved"]:
        raise ValueError("not paid")
    return "paid"
`;

const HANGS = `
async def main(input, ctx):
    await ctx.onRollback(lambda: ctx.act("first"))
    async def waits():
        await ctx.waitFor({"durationMs": 1})
    await ctx.onRollback(waits)
    async def hangs():
        await ctx.act("hang")
        await ctx.act("after the hang")
    await ctx.onRollback(hangs)
    def broken():
        raise KeyError("broken")
    await ctx.onRollback(broken)
    def exits():
        raise SystemExit(3)
    await ctx.onRollback(exits)
    await ctx.act("fail")
`;

/**
 * The entries after which the process dies: nothing is undone, a call is under way, it is answered, its function has ended. The host's part is
 * tested at every point in JavaScript (rollback.test.ts); an interpreter takes a second for each.
 */
const CRASHES = [
  /"type":"rollback"/,
  /"request".*"cancel hotel/,
  /"answer".*cancel hotel done/,
  /"request".*"op\\":\\"end/,
];
const CRASHES_EVERYWHERE = process.env.GLOVEBOX_CRASH_POINTS === "all";

describe("ctx.onRollback in Python", () => {
  test("runs in reverse order when the run fails, and not when it succeeds", async () => {
    const toolName = await addTool(TRIP);
    const runs = open();
    const paid = await runs.start({ toolName });
    const ok = await runs.signal(paid.id, { approval: paid.waits[0]?.id ?? 0, approved: true });
    expect([errorOf(ok), ok.state, acts.done]).toEqual([undefined, "succeeded", BOOKED]);
    acts.done = [];
    const run = await runs.start({ toolName });
    const ended = await runs.signal(run.id, { approval: run.waits[0]?.id ?? 0, approved: false });
    expect([ended.state, errorOf(ended), rollbackOf(ended)]).toEqual(["failed", "not paid", succeeded(2, 1, 0)]);
    expect(acts.done).toEqual([...BOOKED, ...UNDONE]);
  });

  test.for([
    ["waits in a coroutine", 'await ctx.waitFor({"event": "never"})'],
    ["waits in run_sync", 'from glovebox import run_sync\n    run_sync(ctx.waitFor({"event": "never"}))'],
    [
      "waits in run_sync of a nested task",
      'import asyncio\n    from glovebox import run_sync\n    async def inner():\n        run_sync(ctx.waitFor({"event": "never"}))\n    await asyncio.create_task(inner())',
    ],
    [
      "waits next to other tasks",
      'import asyncio\n    async def later():\n        await ctx.waitFor({"event": "never"})\n        await ctx.act("later")\n    await asyncio.gather(later(), asyncio.create_task(asyncio.Event().wait()))',
    ],
  ])("runs when a run is cancelled that %s", async ([, waiting]) => {
    const toolName = await addTool(`
import asyncio
async def main(input, ctx):
    async def undo():
        print("undoing")
        await asyncio.sleep(0.01)
        await ctx.act("undo")
    def undo_without_await():
        from glovebox import run_sync
        run_sync(ctx.act("undo in a function"))
    ctx.onRollback(undo)
    await ctx.onRollback(undo_without_await)
    await ctx.act("do")
    ${waiting}
    await ctx.act("after")
`);
    const runs = open();
    const { id, state, waits } = await runs.start({ toolName });
    expect([state, waits.map(({ kind }) => kind)]).toEqual(["suspended", ["event"]]);
    expect(await runs.cancel(id)).toBe(true);
    const cancelled = await runs.get(id);
    expect([cancelled?.state, rollbackOf(cancelled)]).toEqual([
      "cancelled",
      [
        { index: 1, name: "undo_without_await", state: "succeeded" },
        { index: 0, name: "undo", state: "succeeded" },
      ],
    ]);
    expect(acts.done).toEqual(["do", "undo in a function", "undo"]);
  });

  test("nothing that the run has started continues while it is rolled back", async () => {
    const toolName = await addTool(`
import asyncio
async def main(input, ctx):
    async def undo():
        for _ in range(20):
            await asyncio.sleep(0.01)
        await ctx.act("undo")
    await ctx.onRollback(undo)
    async def later(delay):
        await asyncio.sleep(delay)
        await ctx.act("later")
    tasks = [asyncio.create_task(later(delay)) for delay in (0, 0.001, 0.05, 0.1)]
    asyncio.get_running_loop().call_soon(lambda: asyncio.ensure_future(ctx.act("soon")))
    raise ValueError("no")
`);
    const run = await open().start({ toolName });
    expect([run.state, errorOf(run), rollbackOf(run)]).toEqual(["failed", "no", succeeded(0)]);
    expect(acts.done).toEqual(["undo"]);
  });

  test("continues after a crash at points that differ, and does nothing twice", async () => {
    const toolName = await addTool(TRIP.replace(', "car"', ""));
    const booked = BOOKED.slice(0, 2);
    const cancelIn = async (store: CrashingStore, appends: number): Promise<readonly string[]> => {
      acts.done = [];
      store.crashAfter(Number.POSITIVE_INFINITY);
      await open(store).start({ toolName, id: "r" });
      store.crashAfter(appends);
      const cancelled = await open(store)
        .cancel("r")
        .catch(() => undefined);
      const { appended } = store;
      store.crashAfter(Number.POSITIVE_INFINITY);
      // Without its entry in the journal, the cancellation has not begun.
      if (cancelled === undefined && appends > 0) await open(store).resume("r");
      else if (cancelled === undefined) await open(store).cancel("r");
      return appended;
    };
    const whole = await cancelIn(new CrashingStore(), Number.POSITIVE_INFINITY);
    expect(acts.done).toEqual([...booked, "cancel hotel", "cancel flight"]);
    expect(whole.length).toBeGreaterThan(8);
    const after = (entry: RegExp): number => {
      const index = whole.findIndex((text) => entry.test(text));
      expect(index, `The journal has ${entry}`).not.toBe(-1);
      return index + 1;
    };
    for (const appends of CRASHES_EVERYWHERE ? whole.keys() : CRASHES.map(after)) {
      const store = new CrashingStore();
      await cancelIn(store, appends);
      const run = await store.find({ tenantId: "default", id: "r" });
      const undone = acts.done.slice(booked.length);
      expect([appends, run?.state, new Set(undone).size]).toEqual([appends, "cancelled", undone.length]);
      // A function whose call was under way at the crash fails with EFFECTS_POSSIBLE, and the others run.
      const report = rollbackOf(run) as readonly { readonly state: string; readonly message?: string }[];
      expect(report.map(({ state }) => state).filter((state) => state === "failed").length).toBeLessThan(2);
      expect(report.every(({ state, message }) => state === "succeeded" || message?.includes("possible"))).toBe(true);
      expect(undone.length).toBeGreaterThanOrEqual(1);
    }
  });

  test("a function that fails, hangs or waits does not stop the others", async () => {
    // The function that hangs has half of the time of an attempt, and the interpreter starts in the other half.
    await withMoreTime(6_000, async (timeoutMs) => {
      acts.done = [];
      const toolName = await addTool(HANGS, { timeoutMs });
      const run = await open().start({ toolName });
      expect(run.state).toBe("failed");
      expect(rollbackOf(run)).toEqual([
        { index: 4, name: "exits", state: "failed", message: expect.stringContaining("SystemExit: 3") },
        { index: 3, name: "broken", state: "failed", message: expect.stringContaining("KeyError: 'broken'") },
        { index: 2, name: "hangs", state: "failed", message: expect.stringContaining("did not end within") },
        { index: 1, name: "waits", state: "failed", message: expect.stringContaining("cannot wait") },
        { index: 0, name: "", state: "succeeded" },
      ]);
      expect(acts.done).toEqual(["fail", "hang", "first"]);
    });
  });

  test("rejects what is no function, too many, and a call that is no run or has no grant", async () => {
    const toolName = await addTool(`
async def main(input, ctx):
    found = []
    for value in ["x", 1, None]:
        try:
            ctx.onRollback(value)
        except TypeError as error:
            found.append(str(error))
    if input.get("many"):
        try:
            for index in range(1001):
                ctx.onRollback(lambda: None)
        except Exception as error:
            found.append(str(error))
    else:
        try:
            await ctx.onRollback(lambda: None)
        except Exception as error:
            found.append(error.code)
    return found
`);
    const expected = ["str", "int", "NoneType"].map((type) => `ctx.onRollback() expected a function, got ${type}`);
    const outside = await acts.glovebox.execute({ id: "c1", toolName, arguments: {} });
    expect(outside).toMatchObject({ success: true, output: [...expected, "CAPABILITY_DENIED"] });
    const run = await open().start({ toolName, arguments: { many: true } });
    expect(run.result).toMatchObject({
      success: true,
      output: [...expected, expect.stringContaining("registers at most 1000 functions")],
    });
    const ungranted = await addTool("async def main(input, ctx):\n    await ctx.onRollback(lambda: None)", {}, ["act"]);
    expect(await acts.glovebox.execute({ id: "c2", toolName: ungranted, arguments: {} })).toMatchObject({
      success: false,
      error: { code: "CAPABILITY_DENIED", message: expect.stringContaining("waitFor") },
    });
  });
});

test("a run of a Python tool stays on the source with which it began", async () => {
  const source = (result: string): string => `
capabilities = {"waitFor": True}
async def main(input, ctx):
    await ctx.waitFor({"event": "go"})
    return "${result}"
`;
  const add = async (result: string): Promise<void> => {
    const tool = { name: "python_pinned", source: source(result), language: "python" } as const;
    await acts.glovebox.addTool(tool, { grant: ["waitFor"], replace: true });
  };
  await add("first");
  const runs = open();
  const toolName = "python_pinned";
  const [run, other] = [await runs.start({ toolName }), await runs.start({ toolName })];
  expect(await runs.signal(run.id, { event: "go" })).toMatchObject({ result: { output: "first" } });
  await add("second");
  const error = { code: "TOOL_UNAVAILABLE", details: { reason: "not_found" } };
  expect(await runs.signal(other.id, { event: "go" })).toMatchObject({ state: "failed", result: { error } });
});
