// Wraps a registry of the host and checks everything that it returns. The registry decides which tool runs for which tenant, so a value that
// cannot be a tool of that tenant fails the call.

import { ToolError } from "../../sandbox/contract/errors.ts";
import { describeKind } from "../../sandbox/contract/plain-object.ts";
import { ignoreOutcome, isThenable, notifySafely } from "../util/host-callback.ts";
import { MemoryToolRegistry, type RegisteredTool, type RegistryListener, type ToolRegistry } from "./registry.ts";

const METHODS = ["add", "remove", "get", "list"] as const;
type Method = (typeof METHODS)[number] | "onChange" | "replace";

/** A registry that replaces a tool in one step, by its own method or with {@link ToolRegistry.remove} and `add`. */
export type CheckedToolRegistry = ToolRegistry & Required<Pick<ToolRegistry, "replace">>;

/** Returns whether a value has the methods of a registry. Never throws. */
export function isToolRegistry(value: unknown): value is ToolRegistry {
  if (typeof value !== "object" || value === null) return false;
  try {
    return METHODS.every((method) => typeof (value as { readonly [name: string]: unknown })[method] === "function");
  } catch {
    return false;
  }
}

/** Returns the registry with checks. The registry in memory needs none. */
export function toCheckedRegistry(registry: ToolRegistry): CheckedToolRegistry {
  const isOwn = Object.getPrototypeOf(registry) === MemoryToolRegistry.prototype;
  if (isOwn) return registry as MemoryToolRegistry;
  return registry instanceof CheckedRegistry ? registry : new CheckedRegistry(registry);
}

function failed(method: Method, why: string, cause?: unknown): ToolError {
  const reason = new TypeError(`registry.${method}() ${why}`, { cause });
  return new ToolError("INTERNAL", "The tool registry of this host failed", { cause: reason });
}

function isTool(value: unknown): value is RegisteredTool {
  if (typeof value !== "object" || value === null) return false;
  const { definition, executor, inputSchema } = value as Partial<RegisteredTool>;
  const hasName = typeof definition === "object" && definition !== null && typeof definition.name === "string";
  return hasName && typeof executor?.execute === "function" && typeof inputSchema?.validate === "function";
}

class CheckedRegistry implements CheckedToolRegistry {
  readonly #registry: ToolRegistry;
  readonly onChange?: (listener: RegistryListener) => () => void;

  constructor(registry: ToolRegistry) {
    this.#registry = registry;
    if (typeof registry.onChange === "function") this.onChange = (listener) => this.#onChange(listener);
  }

  add(tool: RegisteredTool): void {
    this.#request("add", () => this.#registry.add(tool));
  }

  remove(toolName: string, tenantId?: string): boolean {
    return this.#request("remove", () => this.#registry.remove(toolName, tenantId)) === true;
  }

  replace(tool: RegisteredTool): boolean {
    const registry = this.#registry;
    if (typeof registry.replace !== "function") return this.#removeAndAdd(tool);
    return this.#request("replace", () => registry.replace?.(tool)) === true;
  }

  /** Replaces a tool in one turn of the event loop. A registry that rejects the new tool keeps the old one. */
  #removeAndAdd(tool: RegisteredTool): boolean {
    const { definition, tenantId } = tool;
    const before = this.get(definition.name, tenantId);
    if (before === undefined || before.tenantId !== tenantId || !this.remove(definition.name, tenantId)) return false;
    try {
      this.add(tool);
      return true;
    } catch (thrown) {
      this.add(before);
      throw thrown;
    }
  }

  get(toolName: string, tenantId?: string): RegisteredTool | undefined {
    const tool = this.#request("get", () => this.#registry.get(toolName, tenantId));
    return tool === undefined ? undefined : this.#check("get", tool, tenantId);
  }

  list(tenantId?: string): readonly RegisteredTool[] {
    const tools = this.#request("list", () => this.#registry.list(tenantId));
    if (!Array.isArray(tools)) throw failed("list", `returned ${describeKind(tools)} instead of an array`);
    return Array.from(tools as readonly unknown[], (tool) => this.#check("list", tool, tenantId));
  }

  #onChange(listener: RegistryListener): () => void {
    const stop = this.#request("onChange", () =>
      this.#registry.onChange?.((tenantId) => notifySafely(listener, tenantId)),
    );
    return () => notifySafely(typeof stop === "function" ? (stop as () => unknown) : undefined);
  }

  /** Calls a method of the registry. A ToolError that it throws, such as NAME_TAKEN, is passed on. */
  #request(method: Method, run: () => unknown): unknown {
    let answer: unknown;
    let isPromise: boolean;
    try {
      answer = run();
      isPromise = isThenable(answer);
    } catch (cause) {
      if (Error.isError(cause) && cause instanceof ToolError) throw cause;
      throw failed(method, "threw", cause);
    }
    if (!isPromise) return answer;
    ignoreOutcome(() => answer);
    throw failed(method, "returned a promise; a registry answers at once");
  }

  #check(method: Method, tool: unknown, tenantId: string | undefined): RegisteredTool {
    let isFit: boolean;
    try {
      isFit = isTool(tool);
    } catch (cause) {
      throw failed(method, "returned a tool that cannot be read", cause);
    }
    if (!isFit) throw failed(method, `returned ${describeKind(tool)} instead of a registered tool`);
    const { tenantId: owner } = tool as RegisteredTool;
    if (owner !== undefined && owner !== tenantId) throw failed(method, "returned a tool of another tenant");
    return tool as RegisteredTool;
  }
}
