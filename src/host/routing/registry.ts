// The registry of tools. A look-up finds a tenant's own tool first, then the global one.

import type { ToolDefinition } from "../../sandbox/contract/definition.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import type { PartialLimits } from "../../sandbox/contract/limits.ts";
import { describeKind } from "../../sandbox/contract/plain-object.ts";
import { TOOL_NAME_PATTERN, TOOL_NAME_RULE } from "../../sandbox/contract/tool-name.ts";
import type { CallContext } from "../contract/tool-call.ts";
import type { ToolExecutor } from "../executors/executor.ts";
import type { CompiledSchema } from "../json-schema/compile-schema.ts";
import type { ArgumentOptions } from "../pipeline/coercion.ts";
import { notifySafely } from "../util/host-callback.ts";
import { checkString } from "./tenant-scope.ts";

/** The fields of a call's context that decide which version of a tool it runs. */
export type VersionChoice = Pick<CallContext, "toolVersion" | "toolDigest" | "sessionId">;

/** Versions of a tool that was registered with `setRelease`. */
export interface ToolVersions {
  /** All versions. */
  readonly tools: readonly RegisteredTool[];
  /** Name of the version that is listed for the tool. */
  readonly mainVersion: string;
  get(version: string): RegisteredTool | undefined;
  /**
   * Returns the version that a call runs: the one that it names, one that has its digest, the one of its session, or a random one by weight.
   * @throws {ToolError} TOOL_UNAVAILABLE (`details.reason: "not_found"`) for an unknown version, or if no version has a weight
   */
  choose(toolName: string, context: VersionChoice): string;
}

/** A registered tool, ready to be called. */
export interface RegisteredTool {
  readonly definition: ToolDefinition;
  /** Owner; undefined for a tool of all tenants. */
  readonly tenantId: string | undefined;
  readonly executor: ToolExecutor;
  /** Compiled once, at registration. */
  readonly inputSchema: CompiledSchema;
  readonly outputSchema: CompiledSchema | undefined;
  /** Limits that apply if no others are configured. */
  readonly defaultLimits?: PartialLimits | undefined;
  /** Limits that the host and the author set for this tool. The author's can only lower the host's. */
  readonly hostLimits: PartialLimits | undefined;
  readonly authorLimits: PartialLimits | undefined;
  /** How arguments of this tool are coerced, if the host configured it for the tool. */
  readonly arguments?: ArgumentOptions | undefined;
  /** SHA-256 of a sandboxed tool's code and grants; undefined for host functions and upstream tools. */
  readonly contentDigest?: string | undefined;
  /** SHA-256 of a sandboxed tool's code alone. */
  readonly contentHash?: string | undefined;
  /** Capabilities and engine features that the host granted it by name, sorted. */
  readonly granted?: readonly string[] | undefined;
  /** When the owner's tool of this name was added, and when it was last updated, in ms since 1970. */
  readonly addedAt?: number | undefined;
  readonly updatedAt?: number | undefined;
  /** Present for a tool that was registered with `setRelease`. */
  readonly release?: ToolVersions | undefined;
}

export type RegistryListener = (tenantId: string | undefined) => void;

/**
 * Stores tools. Every implementation passes `test/host/routing/registry-conformance.ts`. All methods are synchronous. A router checks the
 * return values of a host's own implementation: one that throws anything but a ToolError, or returns a promise or something that is not a
 * tool of the tenant, fails the call with INTERNAL, and `onInternalError` receives the cause.
 */
export interface ToolRegistry {
  /** @throws {ToolError} PARAM_INVALID for a malformed name; NAME_TAKEN if the tenant has a tool of this name */
  add(tool: RegisteredTool): void;
  /** Returns false if there is no such tool. A tenant cannot remove a global tool. */
  remove(toolName: string, tenantId?: string): boolean;
  /**
   * Replaces the tool of the same name and owner in one step: each look-up finds one of the two, and a listener is
   * called once. Returns false and changes nothing if that owner has no tool of this name. For a registry without this
   * method, the router calls `remove` and `add` in the same turn of the event loop.
   * @throws {ToolError} PARAM_INVALID for a value that is not a registered tool
   */
  replace?(tool: RegisteredTool): boolean;
  /** Returns the tenant's tool of this name, or the global one; undefined if there is none. */
  get(toolName: string, tenantId?: string): RegisteredTool | undefined;
  /** Returns the tenant's tools and the global ones, sorted by name. */
  list(tenantId?: string): readonly RegisteredTool[];
  /**
   * Calls the listener for each tool that is added, removed or replaced, with its tenant: undefined for a global tool. A listener that throws or
   * rejects does not fail the change. Returns a function that removes the listener. A registry without this method has no listeners.
   */
  onChange?(listener: RegistryListener): () => void;
}

/**
 * Checks a name. Any other type as tenant id would select the global tools, as an absent tenant does.
 * @throws {ToolError} PARAM_INVALID
 */
function checkTenantId(tenantId: unknown, what: string): void {
  if (tenantId === undefined || (typeof tenantId === "string" && tenantId !== "")) return;
  const got = tenantId === "" ? "an empty string" : describeKind(tenantId);
  throw new ToolError("PARAM_INVALID", `${what}: Expected a non-empty string, got ${got}`);
}

/** Returns the tool's name. @throws {ToolError} PARAM_INVALID for a value that is not a registered tool, or a malformed name or owner */
export function checkTool(tool: RegisteredTool): string {
  if (typeof tool?.definition !== "object" || typeof tool.executor?.execute !== "function") {
    throw new ToolError("PARAM_INVALID", `tool: Expected a registered tool, got ${describeKind(tool)}`);
  }
  checkTenantId(tool.tenantId, "tool.tenantId");
  const { name } = tool.definition;
  // The pattern also matches other values whose text is a name: 5, undefined.
  if (typeof name !== "string" || !TOOL_NAME_PATTERN.test(name)) {
    const got = typeof name === "string" ? JSON.stringify((name as string).slice(0, 200)) : typeof name;
    throw new ToolError("PARAM_INVALID", `Expected a tool name of ${TOOL_NAME_RULE}, got ${got}`);
  }
  return name;
}

/**
 * A {@link ToolRegistry} in memory: the default of a router.
 * @example
 * ```ts
 * import { MemoryToolRegistry, ToolRouter } from "glovebox";
 *
 * const registry = new MemoryToolRegistry();
 * const stop = registry.onChange(() => console.log("changed"));
 * const router = new ToolRouter({ registry });
 * console.log((await router.listTools()).length); // 0
 * stop();
 * ```
 */
export class MemoryToolRegistry implements ToolRegistry {
  readonly #global = new Map<string, RegisteredTool>();
  readonly #tenants = new Map<string, Map<string, RegisteredTool>>();
  readonly #listeners = new Set<RegistryListener>();

  /** @throws {ToolError} PARAM_INVALID for a malformed tool or name; NAME_TAKEN if the tenant has a tool of this name */
  add(tool: RegisteredTool): void {
    const name = checkTool(tool);
    if (this.get(name, tool.tenantId) !== undefined) {
      const other = this.#global.has(name) ? "a global tool" : "a tool of this tenant";
      // A host with one tenant does not know global tools.
      const owner = tool.tenantId === undefined ? "another tool" : other;
      throw new ToolError(
        "NAME_TAKEN",
        `The name "${name}" is taken by ${owner}; remove that tool first, or choose another name`,
      );
    }
    this.#toolsOf(tool.tenantId).set(name, tool);
    this.#tell(tool.tenantId);
  }

  /** @throws {ToolError} PARAM_INVALID for a value that is not a registered tool */
  replace(tool: RegisteredTool): boolean {
    const name = checkTool(tool);
    const { tenantId } = tool;
    const tools = tenantId === undefined ? this.#global : this.#tenants.get(tenantId);
    if (tools?.has(name) !== true) return false;
    tools.set(name, tool);
    this.#tell(tenantId);
    return true;
  }

  /** @throws {ToolError} PARAM_INVALID for a name or a tenant id that is not a string */
  remove(toolName: string, tenantId?: string): boolean {
    checkTenantId(tenantId, "tenantId");
    checkString(toolName, "toolName");
    const tools = tenantId === undefined ? this.#global : this.#tenants.get(tenantId);
    const removed = tools?.delete(toolName) ?? false;
    if (tenantId !== undefined && tools?.size === 0) this.#tenants.delete(tenantId);
    if (removed) this.#tell(tenantId);
    return removed;
  }

  /** @throws {ToolError} PARAM_INVALID for a listener that is not a function */
  onChange(listener: RegistryListener): () => void {
    if (typeof listener !== "function") {
      throw new ToolError("PARAM_INVALID", `listener: Expected a function, got ${describeKind(listener)}`);
    }
    // A new function for each subscription, so that a listener that was added twice is removed once at a time.
    const own: RegistryListener = (tenantId) => listener(tenantId);
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }

  #tell(tenantId: string | undefined): void {
    for (const listener of [...this.#listeners]) notifySafely(listener, tenantId);
  }

  /** @throws {ToolError} PARAM_INVALID for a name or a tenant id that is not a string */
  get(toolName: string, tenantId?: string): RegisteredTool | undefined {
    checkTenantId(tenantId, "tenantId");
    checkString(toolName, "toolName");
    const own = tenantId === undefined ? undefined : this.#tenants.get(tenantId)?.get(toolName);
    return own ?? this.#global.get(toolName);
  }

  /** @throws {ToolError} PARAM_INVALID for a tenant id that is not a string */
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
