// Which tools there are, for whom. Lookups see a tenant's own tools first, then the global ones.

import type { ToolDefinition } from "../../sandbox/contract/definition.ts";
import { TOOL_NAME_PATTERN, TOOL_NAME_RULE } from "../../sandbox/contract/definition.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import type { PartialLimits } from "../../sandbox/contract/limits.ts";
import { describeKind } from "../../sandbox/contract/plain-object.ts";
import type { Executor } from "../executors/executor.ts";
import type { CompiledSchema } from "../json-schema/compile-schema.ts";
import type { ArgumentOptions } from "../pipeline/coercion.ts";
import { notifySafely } from "../util/host-callback.ts";

/** A tool ready to be called. */
export interface RegisteredTool {
  readonly definition: ToolDefinition;
  /** Whose it is; undefined for everybody's. */
  readonly tenantId: string | undefined;
  readonly executor: Executor;
  /** Compiled once, at registration. */
  readonly inputSchema: CompiledSchema;
  readonly outputSchema: CompiledSchema | undefined;
  /** What its kind has where nobody has stated anything. */
  readonly defaultLimits?: PartialLimits | undefined;
  /** What the host set for this tool, and what its author did: the author's can only lower. */
  readonly hostLimits: PartialLimits | undefined;
  readonly authorLimits: PartialLimits | undefined;
  /** What is done with arguments that it would not take as they are, where the host has stated something for it. */
  readonly arguments?: ArgumentOptions | undefined;
  /** SHA-256 of a sandboxed tool's code and of what it is granted; undefined for host functions and upstream tools. */
  readonly contentDigest?: string | undefined;
  /** SHA-256 of a sandboxed tool's code alone. */
  readonly contentHash?: string | undefined;
  /** Capabilities and engine features that the host granted it by name, sorted. */
  readonly granted?: readonly string[] | undefined;
  /** When the owner's tool of this name was added, and when it was last updated, in ms since 1970. */
  readonly addedAt?: number | undefined;
  readonly updatedAt?: number | undefined;
}

export type RegistryListener = (tenantId: string | undefined) => void;

/**
 * Where tools are kept. Every implementation passes `test/host/routing/registry-conformance.ts`. Its methods answer at once. A router checks the
 * answers of a host's own implementation: one that throws anything but a ToolError, returns a promise, or returns what is not a tool of the
 * tenant, fails the call with INTERNAL, and `onInternalError` receives the cause.
 */
export interface ToolRegistry {
  /** @throws {ToolError} PARAM_INVALID for a malformed name; NAME_TAKEN for one that is taken for this tenant */
  add(tool: RegisteredTool): void;
  /** False when there was no such tool. A tenant cannot remove a global tool. */
  remove(toolName: string, tenantId?: string): boolean;
  /**
   * Puts a tool in the place of the one with the same name and owner, in one step: each lookup finds one of the two, and a listener is
   * called once. Returns false and changes nothing if that owner has no tool of this name. For a registry without this method, the router
   * calls `remove` and `add` in one turn of the event loop.
   * @throws {ToolError} PARAM_INVALID for a value that is not a registered tool
   */
  replace?(tool: RegisteredTool): boolean;
  get(toolName: string, tenantId?: string): RegisteredTool | undefined;
  /** A tenant's tools and the global ones, by name. */
  list(tenantId?: string): readonly RegisteredTool[];
  /**
   * Calls the listener for each tool that is added, removed or replaced, with its tenant: undefined for a global tool. A listener that throws or
   * rejects does not fail the change. Returns a function that removes the listener. A registry without this method has no listeners.
   */
  onChange?(listener: RegistryListener): () => void;
}

/** A value that is no text would find the global tools, as no tenant does. @throws {ToolError} PARAM_INVALID */
function checkTenantId(tenantId: unknown, what: string): void {
  if (tenantId === undefined || (typeof tenantId === "string" && tenantId !== "")) return;
  const got = tenantId === "" ? "an empty string" : describeKind(tenantId);
  throw new ToolError("PARAM_INVALID", `${what}: Expected a non-empty string, got ${got}`);
}

/** Returns the tool's name. @throws {ToolError} PARAM_INVALID for a value that is not a registered tool, or a malformed name or owner */
function checkTool(tool: RegisteredTool): string {
  if (typeof tool?.definition !== "object" || typeof tool.executor?.execute !== "function") {
    throw new ToolError("PARAM_INVALID", `tool: Expected a registered tool, got ${describeKind(tool)}`);
  }
  checkTenantId(tool.tenantId, "tool.tenantId");
  const { name } = tool.definition;
  // A pattern takes what reads like a name too: 5, undefined.
  if (typeof name !== "string" || !TOOL_NAME_PATTERN.test(name)) {
    const got = typeof name === "string" ? JSON.stringify((name as string).slice(0, 200)) : typeof name;
    throw new ToolError("PARAM_INVALID", `Expected a tool name of ${TOOL_NAME_RULE}, got ${got}`);
  }
  return name;
}

export class MemoryToolRegistry implements ToolRegistry {
  readonly #global = new Map<string, RegisteredTool>();
  readonly #tenants = new Map<string, Map<string, RegisteredTool>>();
  readonly #listeners = new Set<RegistryListener>();

  add(tool: RegisteredTool): void {
    const name = checkTool(tool);
    if (this.get(name, tool.tenantId) !== undefined) {
      const whose = tool.tenantId === undefined || this.#global.has(name) ? "a global tool" : "a tool of this tenant";
      throw new ToolError(
        "NAME_TAKEN",
        `The name "${name}" is taken by ${whose}; remove that one first, or choose another name`,
      );
    }
    this.#toolsOf(tool.tenantId).set(name, tool);
    this.#tell(tool.tenantId);
  }

  replace(tool: RegisteredTool): boolean {
    const name = checkTool(tool);
    const { tenantId } = tool;
    const tools = tenantId === undefined ? this.#global : this.#tenants.get(tenantId);
    if (tools?.has(name) !== true) return false;
    tools.set(name, tool);
    this.#tell(tenantId);
    return true;
  }

  remove(toolName: string, tenantId?: string): boolean {
    checkTenantId(tenantId, "tenantId");
    const tools = tenantId === undefined ? this.#global : this.#tenants.get(tenantId);
    const removed = tools?.delete(toolName) ?? false;
    if (tenantId !== undefined && tools?.size === 0) this.#tenants.delete(tenantId);
    if (removed) this.#tell(tenantId);
    return removed;
  }

  onChange(listener: RegistryListener): () => void {
    if (typeof listener !== "function") {
      throw new ToolError("PARAM_INVALID", `listener: Expected a function, got ${describeKind(listener)}`);
    }
    // A function of its own: whoever listens twice stops one at a time.
    const own: RegistryListener = (tenantId) => listener(tenantId);
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }

  #tell(tenantId: string | undefined): void {
    for (const listener of [...this.#listeners]) notifySafely(listener, tenantId);
  }

  get(toolName: string, tenantId?: string): RegisteredTool | undefined {
    checkTenantId(tenantId, "tenantId");
    const own = tenantId === undefined ? undefined : this.#tenants.get(tenantId)?.get(toolName);
    return own ?? this.#global.get(toolName);
  }

  list(tenantId?: string): readonly RegisteredTool[] {
    checkTenantId(tenantId, "tenantId");
    const tools = new Map(this.#global);
    if (tenantId !== undefined) for (const [name, tool] of this.#tenants.get(tenantId) ?? []) tools.set(name, tool);
    return [...tools.values()].sort((a, b) => (a.definition.name < b.definition.name ? -1 : 1));
  }

  #toolsOf(tenantId: string | undefined): Map<string, RegisteredTool> {
    if (tenantId === undefined) return this.#global;
    let tools = this.#tenants.get(tenantId);
    if (tools === undefined) {
      tools = new Map();
      this.#tenants.set(tenantId, tools);
    }
    return tools;
  }
}
