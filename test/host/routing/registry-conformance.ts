// Conformance tests of every ToolRegistry. The test file of an implementation runs them: describeRegistry("MyRegistry", () => new MyRegistry()).
import { describe, expect, test } from "vitest";
import type { ToolRegistry } from "../../../src/host/routing/registry.ts";
import { ToolError } from "../../../src/sandbox/contract/errors.ts";
import { FAILING_CALLBACKS } from "../../support/failing-callbacks.ts";
import { makeTool } from "../../support/registered-tool.ts";
import { watchRejections } from "../../support/unhandled-rejections.ts";

const namesOf = (registry: ToolRegistry, tenantId?: string): string[] =>
  registry.list(tenantId).map((tool) => tool.definition.name);

function rejectionOf(action: () => void): ToolError {
  try {
    action();
  } catch (thrown) {
    if (thrown instanceof ToolError) return thrown;
    throw thrown;
  }
  throw new Error("Expected a ToolError, got none");
}

export function describeRegistry(name: string, create: () => ToolRegistry): void {
  describe(name, () => {
    test.for(FAILING_CALLBACKS)(
      "onChange() listeners that %s fail neither a change nor each other",
      async ([, fail]) => {
        const rejections = watchRejections();
        const registry = create();
        const told: (string | undefined)[] = [];
        registry.onChange?.(fail);
        registry.onChange?.((tenantId) => void told.push(tenantId));
        registry.add(makeTool({ name: "add", tenantId: "acme" }));
        expect(registry.remove("add", "acme")).toBe(true);
        expect(told).toEqual(registry.onChange === undefined ? [] : ["acme", "acme"]);
        expect(await rejections()).toEqual([]);
      },
    );

    test("get() finds nothing in an empty registry, for any tenant", () => {
      const registry = create();
      expect([registry.get("add"), registry.get("add", "acme"), registry.list("acme")]).toEqual([
        undefined,
        undefined,
        [],
      ]);
    });

    test("get() returns the same object that was added", () => {
      const registry = create();
      const tool = makeTool({ name: "add" });
      registry.add(tool);
      expect(registry.get("add")).toBe(tool);
    });

    test("get() returns a global tool for every tenant", () => {
      const registry = create();
      registry.add(makeTool({ name: "add" }));
      expect([registry.get("add"), registry.get("add", "acme"), registry.get("add", "default")]).not.toContain(
        undefined,
      );
    });

    test("get() returns a tenant's tool for that tenant only", () => {
      const registry = create();
      registry.add(makeTool({ name: "add", tenantId: "acme" }));
      expect(registry.get("add", "acme")).toBeDefined();
      expect([registry.get("add"), registry.get("add", "other"), registry.get("add", "ACME")]).toEqual([
        undefined,
        undefined,
        undefined,
      ]);
    });

    test("get() prefers a tenant's own tool to the global one of the same name", () => {
      const registry = create();
      const own = makeTool({ name: "add", tenantId: "acme" });
      const everybodys = makeTool({ name: "add" });
      registry.add(own);
      registry.add(everybodys);
      expect(registry.get("add", "acme")).toBe(own);
      expect(registry.get("add", "other")).toBe(everybodys);
    });

    test("add() lets two tenants use one name for two tools", () => {
      const registry = create();
      const [a, b] = [makeTool({ tenantId: "a" }), makeTool({ tenantId: "b" })];
      registry.add(a);
      registry.add(b);
      expect([registry.get("probe", "a"), registry.get("probe", "b")]).toEqual([a, b]);
    });

    test.for<[string, string | undefined, string | undefined]>([
      ["a global tool's name for another global tool", undefined, undefined],
      ["a global tool's name for a tenant's", undefined, "acme"],
      ["a tenant's own name a second time", "acme", "acme"],
    ])("add() rejects %s, with advice", ([, first, second]) => {
      const registry = create();
      const kept = makeTool({ tenantId: first });
      registry.add(kept);
      const { code, message } = rejectionOf(() => registry.add(makeTool({ tenantId: second })));
      expect(code).toBe("NAME_TAKEN");
      expect(message).toMatch(/"probe" is taken by .*; remove that tool first, or choose another name/);
      expect(registry.get("probe", second)).toBe(kept);
    });

    test.for<[string, unknown]>([
      ["an empty name", ""],
      ["a space", "my tool"],
      ["a slash", "a/b"],
      ["a letter outside ASCII", "größe"],
      ["129 characters", "x".repeat(129)],
      ["a trailing line break", "add\n"],
      ["a number that reads like a name", 5],
      ["nothing, which reads like one too", undefined],
      ["a list of one name", ["add"]],
      ["a BigInt", 5n],
      ["a symbol", Symbol("add")],
    ])("add() rejects %s as a name", ([, bad]) => {
      const registry = create();
      const { code, message } = rejectionOf(() => registry.add(makeTool({ name: bad as string })));
      expect([code, message.startsWith("Expected a tool name of 1 to 128 of A-Z a-z 0-9 _ - ., got ")]).toEqual([
        "PARAM_INVALID",
        true,
      ]);
      expect(namesOf(registry)).toEqual([]);
    });

    test.for(["__proto__", "constructor", "toString", ".", "-", "x".repeat(128), "a.b-c_9"])(
      "add() accepts %s as a name",
      (good) => {
        const registry = create();
        expect(registry.get(good)).toBeUndefined();
        registry.add(makeTool({ name: good }));
        expect(registry.get(good)?.definition.name).toBe(good);
      },
    );

    test("list() returns the tenant's and the global tools, each name once, sorted", () => {
      const registry = create();
      for (const [tool, tenantId] of [
        ["zip", undefined],
        ["add", "acme"],
        ["mail", "other"],
        ["Map", undefined],
      ] as const) {
        registry.add(makeTool({ name: tool, tenantId }));
      }
      registry.add(makeTool({ name: "add" }));
      expect(namesOf(registry, "acme")).toEqual(["Map", "add", "zip"]);
      expect(registry.list("acme").find((tool) => tool.definition.name === "add")?.tenantId).toBe("acme");
      expect(namesOf(registry)).toEqual(["Map", "add", "zip"]);
      expect(namesOf(registry, "nobody")).toEqual(["Map", "add", "zip"]);
    });

    test("list() returns a snapshot that later changes do not affect", () => {
      const registry = create();
      registry.add(makeTool({ name: "one" }));
      const before = registry.list();
      registry.add(makeTool({ name: "two" }));
      registry.remove("one");
      expect(before.map((tool) => tool.definition.name)).toEqual(["one"]);
    });

    test("remove() removes a tool once, and its name is free again", () => {
      const registry = create();
      registry.add(makeTool());
      expect([registry.remove("probe"), registry.remove("probe"), registry.get("probe")]).toEqual([
        true,
        false,
        undefined,
      ]);
      registry.add(makeTool({ tenantId: "acme" }));
      expect([registry.remove("probe", "acme"), registry.remove("probe", "acme")]).toEqual([true, false]);
      registry.add(makeTool({ tenantId: "acme" }));
    });

    test("remove() lets a tenant remove neither a global tool nor another tenant's", () => {
      const registry = create();
      registry.add(makeTool({ name: "everybodys" }));
      registry.add(makeTool({ name: "theirs", tenantId: "other" }));
      expect([
        registry.remove("everybodys", "acme"),
        registry.remove("theirs", "acme"),
        registry.remove("theirs"),
      ]).toEqual([false, false, false]);
      expect([registry.get("everybodys"), registry.get("theirs", "other")]).not.toContain(undefined);
    });

    test("onChange() reports the owner of each change until it is removed", () => {
      const registry = create();
      const heard: (string | undefined)[] = [];
      const stop = registry.onChange?.((tenantId) => heard.push(tenantId));
      registry.add(makeTool({ tenantId: "acme" }));
      registry.add(makeTool());
      registry.remove("probe", "other");
      registry.remove("probe", "acme");
      stop?.();
      registry.remove("probe");
      if (registry.onChange !== undefined) expect(heard).toEqual(["acme", undefined, "acme"]);
    });

    test("replace() replaces the owner's tool for every look-up", () => {
      const registry = create();
      const [first, second] = [makeTool({ tenantId: "acme" }), makeTool({ tenantId: "acme" })];
      registry.add(first);
      registry.add(makeTool({ name: "after", tenantId: "acme" }));
      const before = registry.list("acme");
      if (registry.replace === undefined) return;
      expect(registry.replace(second)).toBe(true);
      expect(registry.get("probe", "acme")).toBe(second);
      expect(namesOf(registry, "acme")).toEqual(["after", "probe"]);
      expect(registry.list("acme")[1]).toBe(second);
      expect(before[1]).toBe(first);
      expect([registry.remove("probe", "acme"), registry.get("probe", "acme")]).toEqual([true, undefined]);
    });

    test.for<[string, string | undefined, string | undefined]>([
      ["a tenant's tool by a global one", "acme", undefined],
      ["a global tool by a tenant's", undefined, "acme"],
      ["a tenant's tool by another tenant's", "other", "acme"],
    ])("replace() does not replace %s, and adds nothing", ([, owner, replacing]) => {
      const registry = create();
      const kept = makeTool({ tenantId: owner });
      registry.add(kept);
      if (registry.replace === undefined) return;
      expect(registry.replace(makeTool({ tenantId: replacing }))).toBe(false);
      expect(registry.get("probe", owner)).toBe(kept);
      expect(registry.get("probe", replacing)).toBe(owner === undefined ? kept : undefined);
    });

    test("replace() of a name that no tool has changes nothing, and calls no listener", () => {
      const registry = create();
      const heard: (string | undefined)[] = [];
      registry.onChange?.((tenantId) => heard.push(tenantId));
      if (registry.replace === undefined) return;
      expect([registry.replace(makeTool()), registry.replace(makeTool({ tenantId: "acme" }))]).toEqual([false, false]);
      expect([registry.list(), registry.list("acme"), heard]).toEqual([[], [], []]);
    });

    test("remove() of a tenant's tool makes the global tool of the same name visible", () => {
      const registry = create();
      const everybodys = makeTool();
      registry.add(makeTool({ tenantId: "acme" }));
      registry.add(everybodys);
      registry.remove("probe", "acme");
      expect(registry.get("probe", "acme")).toBe(everybodys);
    });
  });
}
