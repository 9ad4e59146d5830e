// Registers built tools: adds, replaces and removes them, and switches a tool to a new version in one step.
import {
  type BuiltinToolName,
  type BundledToolName,
  loadBuiltinBundles,
} from "../../bundler/artifacts/builtin-bundles.ts";
import type { BundleCache } from "../../bundler/cache/bundle-cache.ts";
import type { ToolBundle } from "../../bundler/tool-bundle.ts";
import type { ToolDefinition } from "../../sandbox/contract/definition.ts";
import { ToolError, unavailable } from "../../sandbox/contract/errors.ts";
import { logCapability } from "../capabilities/log.ts";
import type { ToolWarning } from "../config/glovebox-options.ts";
import type { Config } from "../config/options.ts";
import type { AddToolOptions, parseUpdateToolOptions, ToolInput } from "../config/tool-options.ts";
import type { ToolExecutor } from "../executors/executor.ts";
import { createSandboxExecutor } from "../executors/sandbox.ts";
import type { HostLog } from "../observability/operator-log.ts";
import { contentHashOf, digestOfContent } from "../pipeline/tool-digest.ts";
import { PYTHON_EXEC, pythonExecDefinition } from "../python/python-exec.ts";
import type { PythonHost } from "../python/python-host.ts";
import { PYTHON_DEFAULT_LIMITS, withRuntimeFeatures } from "../python/python-tool.ts";
import { toRegisteredTool } from "../routing/registered-tool.ts";
import type { RegisteredTool } from "../routing/registry.ts";
import type { ToolRouter } from "../routing/tool-router.ts";
import { type ToolUpdate, ToolUpdates } from "../routing/tool-updates.ts";
import type { OpenSessions } from "../sessions/session-state.ts";
import { createSessionToolExecutor } from "../sessions/tool-sessions.ts";
import type { AddedTool } from "../tenants/tenant-export.ts";
import type { WorkHandle } from "../tenants/tenant-work.ts";
import { notifySafely } from "../util/host-callback.ts";
import type { CallPool } from "../workers/call-pool.ts";
import type { BuildableRegistration, ToolBuilder } from "./tool-builder.ts";
import type { EnvironmentResolver, Grants } from "./tool-environment.ts";

/** How a built tool enters the registry. `"replace"` also adds a tool that does not exist yet. */
export type RegistrationMode = "add" | "replace" | "update";

/** Properties of an added tool that an export needs and the registry does not have. */
interface ExportableTool extends Pick<AddToolOptions, "isolateLifetime" | "arguments"> {
  readonly bundle?: ToolBundle | undefined;
  readonly isBuiltin: boolean;
}

export type ParsedToolOptions = ReturnType<typeof parseUpdateToolOptions>;
/** Options with a resolved owner: `tenantId` is undefined for a tool of all tenants. */
export type OwnedToolOptions = Omit<ParsedToolOptions, "scope">;

/** Parts of a Glovebox that registering a tool uses. */
export interface ToolRegistrarDependencies {
  readonly config: Config;
  readonly router: ToolRouter;
  readonly builder: ToolBuilder;
  readonly environments: EnvironmentResolver;
  readonly pool: CallPool;
  readonly python: PythonHost;
  readonly openSessions: OpenSessions;
  readonly log: HostLog | undefined;
  /** Throws once Glovebox is closed. */
  readonly throwIfClosed: () => void;
}

function notFoundError(toolName: string, tenantId: string | undefined): ToolError {
  const missing = tenantId === undefined ? "no tool" : "no tool of this tenant";
  const message = `There is ${missing} named ${JSON.stringify(toolName)} to update; add it with addTool`;
  return unavailable("not_found", message, { details: { toolName } });
}

/** Grants of the first-party tools: all that they request. The hosts that `fetch` may reach still depend on the option `egress`. */
const BUILTIN_GRANTS: { readonly [Name in BuiltinToolName]?: readonly string[] } = {
  "http-get": ["fetch"],
  "run-js": ["stringToCode"],
};

export class ToolRegistrar {
  readonly #dependencies: ToolRegistrarDependencies;
  readonly #updates = new ToolUpdates();
  /** Export data by executor, because an update replaces the registered tool but keeps its executor. */
  readonly #added = new WeakMap<ToolExecutor, AddedTool>();

  constructor(dependencies: ToolRegistrarDependencies) {
    this.#dependencies = dependencies;
  }

  /** Adds first-party tools for all tenants, with all grants that they request. */
  async addBuiltinTools(names: readonly BuiltinToolName[], cache: BundleCache): Promise<void> {
    const bundled = names.filter((name): name is BundledToolName => name !== PYTHON_EXEC);
    const bundles = await loadBuiltinBundles(bundled, cache);
    // One after the other: in parallel, each would wait for a process, and all of them for a core.
    for (const [index, name] of bundled.entries()) {
      const options = { grant: [...(BUILTIN_GRANTS[name] ?? [])], isolateLifetime: "call" as const };
      await this.add({ source: "", name }, options, "add", bundles[index]);
    }
    if (names.includes(PYTHON_EXEC)) await this.#addPythonExec();
  }

  async #addPythonExec(): Promise<void> {
    this.#dependencies.environments.checkFeatures(withRuntimeFeatures([]));
    const executable = await this.#dependencies.python.snippetTool();
    const definition = pythonExecDefinition(this.#dependencies.config.python.capabilities);
    // A call without a session id gets an interpreter of its own.
    const built = { definition, authorLimits: undefined, executable };
    const tool = this.#toTool(
      built,
      this.#dependencies.environments.grant([], { overrides: definition }),
      {},
      { isolateLifetime: "session" },
    );
    this.#storeExportData(tool, { isBuiltin: true, isolateLifetime: "session" });
    this.#dependencies.router.add(tool);
  }

  /**
   * Builds a tool and registers it.
   * @param prebuilt bundle to register instead of building the input's source
   * @param work handle that ends the registration if the tenant is deleted
   * @throws {ToolError} as `Glovebox.addTool` and `Glovebox.updateTool`
   */
  async add(
    input: ToolInput,
    { tenantId, grant, isolateLifetime, arguments: argumentOptions }: OwnedToolOptions,
    mode: RegistrationMode,
    prebuilt?: ToolBundle,
    work?: WorkHandle,
  ): Promise<ToolDefinition> {
    using update = this.#updates.begin();
    const grants = this.#dependencies.environments.grant(grant, input);
    const built = await this.#dependencies.builder.build(input, { tenantId, features: grants.features, prebuilt });
    this.#dependencies.throwIfClosed();
    work?.check();
    const { definition } = built;
    const tool = this.#toTool(built, grants, input, { isolateLifetime, tenantId, arguments: argumentOptions });
    const isBuiltin = prebuilt !== undefined;
    this.#storeExportData(tool, { bundle: built.bundle, isBuiltin, isolateLifetime, arguments: argumentOptions });
    if (mode === "add") this.#dependencies.router.add(tool);
    else if (!(await this.#switchTo(tool, mode, update, work))) return definition;
    update.done(definition.name, tenantId);
    for (const message of built.warnings) this.#warn({ toolName: definition.name, message });
    return definition;
  }

  /** Stores the properties of a tool that an export needs in addition to its definition. */
  #storeExportData(
    { executor, granted = [] }: RegisteredTool,
    { bundle, isBuiltin, ...options }: ExportableTool,
  ): void {
    const { isolateLifetime = this.#dependencies.config.isolateLifetime, arguments: argumentOptions } = options;
    this.#added.set(executor, {
      bundle,
      isBuiltin,
      addedAt: Date.now(),
      language: executor.source === "python" ? "python" : "javascript",
      options: {
        grant: granted,
        isolateLifetime,
        ...(argumentOptions === undefined ? {} : { arguments: argumentOptions }),
      },
    });
  }

  #warn(warning: ToolWarning): void {
    const { onWarning } = this.#dependencies.config;
    if (onWarning !== undefined) notifySafely(onWarning, warning);
    this.#dependencies.log?.toolWarned(warning.toolName, warning.message);
    if (onWarning !== undefined || this.#dependencies.log !== undefined) return;
    process.emitWarning(`${warning.toolName}: ${warning.message}`, { type: "GloveboxWarning" });
  }

  /**
   * Returns false if a later request has overtaken this version.
   * @throws {ToolError} as `Glovebox.updateTool`
   */
  async #switchTo(
    tool: RegisteredTool,
    mode: "replace" | "update",
    update: ToolUpdate,
    work: WorkHandle | undefined,
  ): Promise<boolean> {
    const { name } = tool.definition;
    if (update.isOvertaken(name, tool.tenantId)) return false;
    this.#checkReplaceable(tool, mode);
    let isSwitched = false;
    try {
      await this.#warmUp(tool);
      this.#dependencies.throwIfClosed();
      work?.check();
      if (update.isOvertaken(name, tool.tenantId)) return false;
      // No await from here to the end of the block, so that each call finds either the old version or the new one.
      const before = this.#checkReplaceable(tool, mode);
      if (before === undefined) this.#dependencies.router.add(tool);
      else if (!this.#dependencies.router.replace({ ...tool, addedAt: before.addedAt, updatedAt: Date.now() })) {
        throw notFoundError(name, tool.tenantId);
      }
      isSwitched = true;
    } finally {
      // Ends the warm isolates of a version that no call will use.
      if (!isSwitched) tool.executor.retire?.();
    }
    return true;
  }

  /**
   * Returns the tool to replace; undefined if the owner has none of this name.
   * @throws {ToolError} TOOL_UNAVAILABLE if there is no tool to update; PARAM_INVALID for a tool that was not added with `addTool`
   */
  #checkReplaceable({ definition, tenantId }: RegisteredTool, mode: "replace" | "update"): RegisteredTool | undefined {
    const { name } = definition;
    const found = this.#dependencies.router.registry.get(name, tenantId);
    // A lookup for a tenant also finds global tools, which a tenant must not replace.
    const before = found?.tenantId === tenantId ? found : undefined;
    if (before === undefined && mode === "update") throw notFoundError(name, tenantId);
    // Host functions are trusted code, and the tools of an upstream server are that server's to change.
    if (before === undefined || before.contentDigest !== undefined) return before;
    const kind = before.executor.source === "mcp" ? "a tool of an upstream MCP server" : "a host function";
    const rule = "Only tools added with addTool can be replaced. Remove it first, or choose another name";
    throw new ToolError("PARAM_INVALID", `"${name}" is ${kind}. ${rule}`);
  }

  /** Creates warm isolates of the new version if the old version has some. */
  async #warmUp(tool: RegisteredTool): Promise<void> {
    const { executor, definition, tenantId } = tool;
    const before = this.#dependencies.router.registry.get(definition.name, tenantId);
    if (before === undefined || before.tenantId !== tenantId) return;
    await executor.warm?.follow(before.executor.warm, (caller) => this.#dependencies.router.settingsOf(tool, caller));
  }

  #toTool(
    { definition, requested = {}, authorLimits, executable }: BuildableRegistration,
    { granted, features }: Grants,
    input: Pick<ToolInput, "overrides">,
    { isolateLifetime, tenantId, arguments: argumentOptions }: Omit<OwnedToolOptions, "grant">,
  ): RegisteredTool {
    const isPython = executable.python !== undefined;
    const grants = {
      granted,
      features: this.#dependencies.environments.featuresOf(features, isPython ? "python" : "javascript"),
    };
    const chosen = isolateLifetime ?? this.#dependencies.config.isolateLifetime;
    const tool = {
      ...executable,
      ...this.#dependencies.environments.of(definition, grants, requested),
      isolateLifetime: chosen,
      sourceId: `${isPython ? "python" : "sandbox"}:${definition.name}`,
    };
    const executor =
      chosen === "session"
        ? createSessionToolExecutor(tool, definition.name, this.#dependencies.pool, this.#dependencies.openSessions)
        : createSandboxExecutor(tool, this.#dependencies.pool);
    return toRegisteredTool(definition, executor, {
      ...(tenantId === undefined ? {} : { tenantId }),
      ...(isPython ? { defaultLimits: PYTHON_DEFAULT_LIMITS } : {}),
      hostLimits: input.overrides?.limits,
      authorLimits,
      arguments: argumentOptions,
      contentDigest: digestOfContent(tool),
      contentHash: contentHashOf(tool),
      granted: [...granted.keys(), ...features].filter((name) => name !== logCapability.name).sort(),
    });
  }

  /** Removes a tool. Returns false if the owner has no tool of this name. */
  remove(name: string, tenantId: string | undefined): boolean {
    if (!this.#dependencies.router.remove(name, tenantId)) return false;
    // An update that was requested earlier must not add the tool again.
    using change = this.#updates.begin();
    change.done(name, tenantId);
    return true;
  }

  /** Returns the properties of a tool that an export needs; undefined for a tool that was not added here. */
  exportDataOf(tool: RegisteredTool): AddedTool | undefined {
    return this.#added.get(tool.executor);
  }

  /** Returns whether the host added the tool for its single tenant. With `tenancy: "single"`, such tools are registered for all tenants. */
  isOwnGlobal(tool: RegisteredTool): boolean {
    return this.#dependencies.router.tenancy.mode === "single" && this.exportDataOf(tool)?.isBuiltin === false;
  }
}
