// The registry in memory, and a host's registry without `replace()` with the router's checks.
import { expect, test } from "vitest";
import { toCheckedRegistry } from "../../../src/host/routing/checked-registry.ts";
import { MemoryToolRegistry, type RegisteredTool, type ToolRegistry } from "../../../src/host/routing/registry.ts";
import { ToolError } from "../../../src/sandbox/contract/errors.ts";
import { makeTool } from "../../support/registered-tool.ts";
import { describeRegistry } from "./registry-conformance.ts";

/** As a host may have written it before there was `replace()`. */
class OldRegistry implements ToolRegistry {
  readonly #tools = new MemoryToolRegistry();
  isFull = false;

  add(tool: RegisteredTool): void {
    if (this.isFull) throw new ToolError("QUOTA_EXCEEDED", "This registry is full");
    this.#tools.add(tool);
  }
  remove(toolName: string, tenantId?: string): boolean {
    return this.#tools.remove(toolName, tenantId);
  }
  get(toolName: string, tenantId?: string): RegisteredTool | undefined {
    return this.#tools.get(toolName, tenantId);
  }
  list(tenantId?: string): readonly RegisteredTool[] {
    return this.#tools.list(tenantId);
  }
}

describeRegistry("MemoryToolRegistry", () => new MemoryToolRegistry());
describeRegistry("a registry without replace(), behind the router's checks", () =>
  toCheckedRegistry(new OldRegistry()),
);

test("MemoryToolRegistry.replace() calls each listener once, with the owner", () => {
  const registry = new MemoryToolRegistry();
  registry.add(makeTool({ tenantId: "acme" }));
  registry.add(makeTool());
  const heard: (string | undefined)[] = [];
  registry.onChange((tenantId) => heard.push(tenantId));
  registry.replace(makeTool({ tenantId: "acme" }));
  registry.replace(makeTool());
  expect(heard).toEqual(["acme", undefined]);
});

test("a registry that rejects the new tool keeps the one that it had", () => {
  const own = new OldRegistry();
  const registry = toCheckedRegistry(own);
  const kept = makeTool();
  registry.add(kept);
  let adds = 0;
  own.add = (tool) => {
    adds += 1;
    if (adds === 1) throw new ToolError("QUOTA_EXCEEDED", "This registry is full");
    OldRegistry.prototype.add.call(own, tool);
  };
  expect(() => registry.replace(makeTool())).toThrow("This registry is full");
  expect(registry.get("probe")).toBe(kept);
});

test.for<[string, () => unknown, RegExp]>([
  [
    "throws",
    () => {
      throw new Error("down");
    },
    /The tool registry of this host failed/,
  ],
  ["rejects", () => Promise.reject(new Error("down")), /The tool registry of this host failed/],
  ["returns a promise", async () => true, /The tool registry of this host failed/],
])("a replace() of a host's own that %s is an error of the host", ([, replace, message]) => {
  const registry = toCheckedRegistry(Object.assign(new OldRegistry(), { replace: replace as () => boolean }));
  expect(() => registry.replace(makeTool())).toThrow(message);
});
