// Opens, lists and closes the sessions of a Glovebox instance. Runs pass the same pipeline as any call, through a
// router whose registry contains only sessions.

import type { Bundler } from "../../bundler/bundler.ts";
import { tenantOwner } from "../../bundler/cache/artifact-owners.ts";
import { unavailable } from "../../sandbox/contract/errors.ts";
import type { ToolEnvironment } from "../glovebox/tool-environment.ts";
import type { PythonHost } from "../python/python-host.ts";
import { PYTHON_DEFAULT_LIMITS } from "../python/python-tool.ts";
import { toRegisteredTool } from "../routing/registered-tool.ts";
import type { RegisteredTool } from "../routing/registry.ts";
import type { ToolRouter } from "../routing/tool-router.ts";
import type { Tenancy } from "../tenants/tenancy.ts";
import type { TenantWork } from "../tenants/tenant-work.ts";
import type { CallPool } from "../workers/call-pool.ts";
import { CellScripts } from "./cell-scripts.ts";
import {
  type CompileRun,
  createSessionExecutor,
  RUN_DEFINITION,
  Session,
  type SessionEntry,
  sessionExistsError,
} from "./session.ts";
import { type ParsedSessionOptions, parseSessionOptions, type SessionOptions } from "./session-options.ts";
import { OpenSessions, type SessionInfo, type SessionState } from "./session-state.ts";

export interface SessionsDependencies {
  /** A router of its own, whose calls name the tenant of their session. */
  readonly router: ToolRouter;
  readonly tenancy: Tenancy;
  readonly pool: CallPool;
  readonly bundler: Bundler;
  readonly python: PythonHost;
  /**
   * Returns the environment of a session's runs: that of a tool with the same grants.
   * @throws {ToolError} PARAM_INVALID for an unknown capability; TOOL_UNAVAILABLE for a feature that this machine
   * cannot limit
   */
  readonly toolOf: (options: ParsedSessionOptions) => ToolEnvironment;
}

const EXTENSIONS = { javascript: "js", typescript: "ts", python: "py" } as const;
const NO_CODE_CACHE = new Uint8Array(0);
/** Cells are rarely run twice, so platform module usage is not tracked. */
const NO_MODULES = { names: [], add() {} } as const;

export class Sessions implements AsyncDisposable {
  readonly openSessions: OpenSessions;
  readonly #dependencies: SessionsDependencies;
  #isClosed = false;

  constructor(dependencies: SessionsDependencies) {
    this.#dependencies = dependencies;
    this.openSessions = new OpenSessions((placement) => dependencies.pool.endSession(placement));
  }

  /**
   * Opens a session.
   * @param work ends the session if its tenant is deleted meanwhile
   * @throws {ToolError} PARAM_INVALID, QUOTA_EXCEEDED, NAME_TAKEN, TOOL_UNAVAILABLE
   */
  async open(input: SessionOptions | undefined, work: TenantWork): Promise<Session> {
    const options = parseSessionOptions(input, this.#dependencies.tenancy);
    const { id, tenantId, language, idleMs, total, limits } = options;
    const { router, pool, python } = this.#dependencies;
    router.tenantStates.check(tenantId, false);
    using tenantWork = work.begin(tenantId, true);
    const environment = { ...this.#dependencies.toolOf(options), isolateLifetime: "session" as const };
    // Loading the interpreter must not count towards a run's timeout.
    if (language === "python") await python.load();
    const { limits: tenantLimits } = await router.tenants.whenKnown(tenantId);
    if (this.#isClosed) throw unavailable("closed", "Glovebox is closed");
    const isTaken = ({ info }: SessionState): boolean => info.id === id && info.kind === language;
    if (this.openSessions.list(tenantId).some(isTaken)) throw sessionExistsError(id);
    const bounds = { idleMs, ...total };
    const once = language !== "python";
    tenantWork.check();
    const state = this.openSessions.open({ id, tenantId, kind: language, bounds, once }, tenantLimits.sessions);
    const compile =
      language === "python" ? this.#compilePython(state.placement.id) : this.#compileCell(language, tenantId);
    const fileExtension = EXTENSIONS[language];
    const executor = createSessionExecutor({ state, compile, fileExtension, tool: environment, pool });
    const defaultLimits = language === "python" ? PYTHON_DEFAULT_LIMITS : undefined;
    const tool = toRegisteredTool(RUN_DEFINITION, executor, { tenantId, hostLimits: limits, defaultLimits });
    return new Session(state, { router, language, register: () => this.#register(tool) });
  }

  /** Registers the tool for the duration of a run, so that an unused session leaves no registration. */
  #register(tool: RegisteredTool): SessionEntry {
    const { router } = this.#dependencies;
    const { tenantId } = tool;
    const toolName = this.#freeName(tenantId);
    router.add({ ...tool, definition: { ...tool.definition, name: toolName } });
    return { toolName, [Symbol.dispose]: () => void router.registry.remove(toolName, tenantId) };
  }

  /** Returns the tool name for telemetry. Concurrent runs of a tenant are numbered, and numbers are reused. */
  #freeName(tenantId: string | undefined): string {
    const { registry } = this.#dependencies.router;
    for (let number = 1; ; number += 1) {
      const name = `session-${number}`;
      if (registry.get(name, tenantId) === undefined) return name;
    }
  }

  /** Lists the sessions of a tenant, or of all tenants, including those of tools. */
  list(tenantId: string | undefined): readonly SessionInfo[] {
    return this.openSessions.list(tenantId).map(({ info }) => ({ ...info }));
  }

  /**
   * @param kind what runs in the session: the name of its tool. Default: anything
   * @returns whether the tenant had such a session
   */
  async close(id: string, tenantId: string, kind?: string): Promise<boolean> {
    const all = this.openSessions.list(tenantId);
    const found = all.filter(({ info }) => info.id === id && (kind === undefined || info.kind === kind));
    for (const state of found) state[Symbol.dispose]();
    return found.length > 0;
  }

  /** @returns the number of closed sessions */
  async closeAll(tenantId: string): Promise<number> {
    const all = this.openSessions.list(tenantId);
    for (const state of all) state[Symbol.dispose]();
    return all.length;
  }

  #compileCell(cell: "javascript" | "typescript", tenantId: string): CompileRun {
    const scripts = new CellScripts();
    const owner = tenantOwner(tenantId);
    return async (code, fileName, { signal, limits }) => {
      const sizes = { sourceBytes: limits.sourceBytes, outputBytes: limits.bundleBytes };
      const source = { files: { [fileName]: code }, entry: fileName };
      const { bundle } = await this.#dependencies.bundler.bundle(source, { signal, cell, limits: sizes, owner });
      scripts.add(fileName, bundle.sourceMap);
      return { bundle, stackMapper: scripts.mapper, codeCache: NO_CODE_CACHE, modules: NO_MODULES };
    };
  }

  #compilePython(placement: number): CompileRun {
    const fileNames = new Map<string, undefined>();
    return async (_code, fileName) => {
      fileNames.set(fileName, undefined);
      return await this.#dependencies.python.sessionRun(fileName, `session ${placement}`, fileNames);
    };
  }

  /** Ends all sessions after a disposal that timed out. */
  forceClose(): void {
    this.#dependencies.router.forceClose();
    this.openSessions[Symbol.dispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    // Current runs get the reason of the closing instance first.
    await this.#dependencies.router[Symbol.asyncDispose]();
    this.openSessions[Symbol.dispose]();
  }
}
