// Optional parts of a capability: members in ctx, inputs that do not count, state that ends with its call.
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import * as z from "zod";
import { CallScope } from "../../../src/host/capabilities/call-scope.ts";
import { type CapabilityContext, defineCapability } from "../../../src/host/capabilities/capability.ts";
import type { ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { Redactor } from "../../../src/host/observability/redaction/call-redactor.ts";
import type { JsonValue } from "../../../src/sandbox/contract/errors.ts";
import { FAILING_CALLBACKS } from "../../support/failing-callbacks.ts";
import { codeOf, failureOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";
import { watchRejections } from "../../support/unhandled-rejections.ts";

const opened: string[] = [];
const closed: string[] = [];
const contexts: CapabilityContext[] = [];
const onError = vi.fn();

interface Notes extends Disposable {
  readonly lines: string[];
}
function openNotes({ callId }: CapabilityContext): Notes {
  opened.push(callId);
  return { lines: [], [Symbol.dispose]: () => closed.push(callId) };
}
const asList = (requested: JsonValue | undefined): string[] => (Array.isArray(requested) ? requested.map(String) : []);

const CAPABILITIES = [
  defineCapability({
    name: "shelf",
    members: ["put", "get"],
    inputSchema: z.discriminatedUnion("op", [
      z.strictObject({ op: z.literal("put"), args: z.tuple([z.string(), z.json()]) }),
      z.strictObject({ op: z.literal("get"), args: z.tuple([z.string()], z.json()) }),
    ]),
    outputSchema: z.json(),
    handler: ({ op, args }) => [op, ...args],
  }),
  defineCapability({
    name: "named",
    members: asList,
    inputSchema: z.strictObject({ op: z.string(), args: z.array(z.json()) }),
    outputSchema: z.unknown(),
    handler: ({ op, args }, { requested }) => ({ op, args, requested: requested.named ?? null }),
  }),
  defineCapability({
    name: "steps",
    uncounted: ["step"],
    inputSchema: z.strictObject({ op: z.enum(["begin", "step"]) }),
    outputSchema: z.string(),
    handler: ({ op }) => op,
  }),
  defineCapability({
    name: "note",
    inputSchema: z.string(),
    outputSchema: z.number(),
    handler: (line, context) => {
      contexts.push(context);
      return context.perCall(openNotes).lines.push(line);
    },
  }),
  defineCapability({
    name: "notes",
    inputSchema: z.null(),
    outputSchema: z.array(z.string()),
    handler: (_input, context) => context.perCall(openNotes).lines,
  }),
];

const SOURCE = `
  const codeOf = async (promise) => { try { await promise; return "ok"; } catch (e) { return e.code ?? e.name; } };
  const steps = {
    put: (ctx) => ctx.shelf.put("a", { n: 1 }),
    get: (ctx) => ctx.shelf.get("a", undefined, undefined),
    gap: (ctx) => ctx.shelf.get("a", undefined, 1),
    wrong: (ctx) => codeOf(ctx.shelf.put("a")),
    members: (ctx) => [typeof ctx.shelf, Object.keys(ctx.shelf), Object.isFrozen(ctx.shelf), Object.getPrototypeOf(ctx.shelf)],
    named: (ctx) => ctx.named["two words"](1, [2]),
    denied: (ctx) => codeOf(ctx.shelf.get("a")),
    polluted: async (ctx) => {
      Object.prototype.shapes = { steps: { uncounted: ["begin"], members: ["x"] } };
      Object.prototype.uncounted = ["begin"];
      return codeOf((async () => { for (let i = 0; i < 4; i += 1) await ctx.steps({ op: "begin" }); })());
    },
    walk: async (ctx, [begins, count]) => {
      for (let i = 0; i < begins; i += 1) await ctx.steps({ op: "begin" });
      // Many at a time: one after the other they would take their turns behind whatever else the machine does.
      for (let i = 0; i < count; i += 50) await Promise.all(Array.from({ length: 50 }, () => ctx.steps({ op: "step" })));
      return codeOf(ctx.steps({ op: "begin" }));
    },
    twoFaced: async (ctx) => {
      let asked = 0;
      const input = { get op() { asked += 1; return asked % 2 === 1 ? "step" : "begin"; } };
      for (let i = 0; i < 9; i += 1) if (await codeOf(ctx.steps(input)) !== "ok") return i;
    },
    note: async (ctx) => [await ctx.note("one"), await ctx.note("two"), await ctx.notes(null)],
  };
  export const capabilities = { shelf: true, named: ["one", "two words"] };
  export default ({ step, input }, ctx) => steps[step](ctx, input);`;

let glovebox: Glovebox;
beforeAll(async () => {
  glovebox = await makeGlovebox({
    capabilities: CAPABILITIES,
    onError,
    limits: { timeoutMs: 120_000, cpuMs: 120_000 },
  });
  const grant = ["shelf", "named", "steps", "note", "notes"];
  await glovebox.addTool(
    { name: "granted", source: SOURCE, overrides: { limits: { maxCapabilityCalls: 3 } } },
    { grant },
  );
  await glovebox.addTool({ name: "bare", source: SOURCE });
});
afterAll(() => glovebox.close());

const run = (step: string, input?: unknown, { toolName = "granted", id = "c1" } = {}): Promise<ToolResult> =>
  glovebox.execute({ id, toolName, arguments: { step, input } });

describe("a capability with members", () => {
  test.for<[string, JsonValue]>([
    ["put", ["put", "a", { n: 1 }]],
    ["get", ["get", "a"]],
    ["gap", ["get", "a", null, 1]],
    ["wrong", "PARAM_INVALID"],
    ["members", ["object", ["put", "get"], true, null]],
    ["named", { op: "two words", args: [1, [2]], requested: ["one", "two words"] }],
  ])("is an object in ctx whose functions send op and args: %s", async ([step, output]) => {
    expect(outputOf(await run(step))).toEqual(output);
  });

  test("has the same members if it was not granted, and denies each use", async () => {
    expect(outputOf(await run("denied", undefined, { toolName: "bare" }))).toBe("CAPABILITY_DENIED");
  });

  test("a capability with too many members for a tool is rejected when the tool is added", async () => {
    const names = Array.from({ length: 128 }, (_, index) => `${"é".repeat(120)}${index}`);
    const source = `export const capabilities = { named: ${JSON.stringify(names)} }; export default () => 1`;
    const adding = glovebox.addTool({ name: "many", source }, { grant: ["named"] });
    expect(await failureOf(adding)).toMatchObject({
      code: "PARAM_INVALID",
      message: expect.stringContaining("too many members"),
    });
  });

  test("a capability whose members function returns no names is rejected when the tool is added", async () => {
    const source = `export const capabilities = { named: [""] }; export default () => 1`;
    const adding = glovebox.addTool({ name: "unnamed", source }, { grant: ["named"] });
    expect(await failureOf(adding)).toMatchObject({
      code: "PARAM_INVALID",
      message: expect.stringContaining('members of capability "named"'),
    });
  });
});

const WRONG_MEMBERS: typeof FAILING_CALLBACKS = [
  ...FAILING_CALLBACKS,
  ["returns text", () => "get"],
  ["returns null", () => null],
  ["promises names", async () => ["get"]],
];
test.for(WRONG_MEMBERS)("a members function that %s fails only the tool that requests it", async ([, members]) => {
  const rejections = watchRejections();
  const capability = defineCapability({
    name: "broken",
    inputSchema: {},
    outputSchema: {},
    handler: () => null,
    members: members as () => readonly string[],
  });
  await using own = await makeGlovebox({ capabilities: [capability] });
  const adding = own.addTool({ name: "one", source: "export default () => 1" }, { grant: ["broken"] });
  expect(await failureOf(adding)).toMatchObject({ code: "PARAM_INVALID", message: expect.stringContaining("members") });
  expect(await rejections()).toEqual([]);
});

describe("inputs that do not count", () => {
  test("leave maxCapabilityCalls to those that do", async () => {
    expect(outputOf(await run("walk", [2, 1_500]))).toBe("ok");
    expect(outputOf(await run("walk", [3, 50]))).toBe("QUOTA_EXCEEDED");
  });

  test("are named by the host: additions of a guest to Object.prototype have no effect", async () => {
    expect(outputOf(await run("polluted"))).toBe("QUOTA_EXCEEDED");
  });

  test("are checked again on the host, so that an input that changes while it is sent is counted", async () => {
    expect(outputOf(await run("twoFaced"))).toBe(3);
  });
});

describe("perCall()", () => {
  test("keeps one value for a call, for all capabilities that use it, until the call ends", async () => {
    expect(outputOf(await run("note", undefined, { id: "first" }))).toEqual([1, 2, ["one", "two"]]);
    expect(outputOf(await run("note", undefined, { id: "second" }))).toEqual([1, 2, ["one", "two"]]);
    expect([opened, closed]).toEqual([
      ["first", "second"],
      ["first", "second"],
    ]);
  });

  test("rejects after the call has ended", async () => {
    expect(codeOf(await run("note"))).toBe("ok");
    expect(() => contexts.at(-1)?.perCall(openNotes)).toThrow("The tool call has ended");
  });

  const scopeOf = (listener?: (error: unknown) => void): CallScope =>
    new CallScope({
      callId: "c",
      tenantId: "t",
      toolName: "x",
      requested: {},
      log: () => {},
      redactor: new Redactor(),
      onError: listener,
    });

  test("disposes of the latest first, once, and of what a promise stands for", async () => {
    const order: string[] = [];
    const scope = scopeOf();
    const { context } = scope;
    context.perCall(() => ({ [Symbol.dispose]: () => order.push("first") }));
    void context.perCall(async () => ({ [Symbol.asyncDispose]: async () => void order.push("second") }));
    context.perCall(() => null);
    expect(context.signal.aborted).toBe(false);
    scope[Symbol.dispose]();
    scope[Symbol.dispose]();
    expect(context.signal.aborted).toBe(true);
    await vi.waitFor(() => expect(order.toSorted()).toEqual(["first", "second"]));
  });

  test.for(FAILING_CALLBACKS)(
    "a disposer that %s ends neither the process nor the others, whatever the listener does",
    async ([, run]) => {
      const rejections = watchRejections();
      const order: string[] = [];
      for (const key of [Symbol.dispose, Symbol.asyncDispose]) {
        const scope = scopeOf(run);
        scope.context.perCall(() => ({ [Symbol.dispose]: () => order.push("other") }));
        scope.context.perCall(() => ({ [key]: run }));
        scope[Symbol.dispose]();
      }
      await vi.waitFor(() => expect(order).toHaveLength(2));
      expect(await rejections()).toEqual([]);
    },
  );

  test("a kept promise that rejects while its call runs does not end the process", async () => {
    const rejections = watchRejections();
    const failed = vi.fn();
    const scope = scopeOf(failed);
    void scope.context.perCall(() => Promise.reject(new Error("never opened")));
    expect(await rejections()).toEqual([]);
    scope[Symbol.dispose]();
    await vi.waitFor(() => expect(failed).toHaveBeenCalledOnce());
  });

  test("reports failed disposals to the operator", async () => {
    const scope = scopeOf(onError);
    const fail = (): never => {
      throw new Error("disk full");
    };
    scope.context.perCall(() => ({ [Symbol.dispose]: fail }));
    void scope.context.perCall(() => Promise.reject(new Error("never opened")));
    scope[Symbol.dispose]();
    await vi.waitFor(() => expect(onError.mock.calls.flat().map(String)).toContain("Error: disk full"));
    expect(onError.mock.calls.flat().map(String)).toContain("Error: never opened");
  });
});
