// The sessions of a box: opened, listed and closed for a tenant. Their runs go down the same stairs as any call, through a router whose
// registry has nothing but them.

import type { Bundler } from "../../bundler/bundler.ts";
import { tenantOwner } from "../../bundler/cache/artifact-owners.ts";
import { unavailable } from "../../sandbox/contract/errors.ts";
import type { ToolEnvironment } from "../glovebox/tool-environment.ts";
import type { PythonHost } from "../python/python-host.ts";
import { PYTHON_DEFAULT_LIMITS } from "../python/python-tool.ts";
import type { RegisteredTool } from "../routing/registry.ts";
import { type ToolRouter, toRegisteredTool } from "../routing/tool-router.ts";
import type { Tenancy } from "../tenants/tenancy.ts";
import type { TenantWork } from "../tenants/tenant-work.ts";
import type { WorkerPool } from "../workers/worker-pool.ts";
import { CellScripts } from "./cell-scripts.ts";
import { type Conversation, Conversations, type SessionInfo } from "./conversation.ts";
import {
  type CompileRun,
  createSessionExecutor,
  RUN_DEFINITION,
  Session,
  type SessionEntry,
  sessionTaken,
} from "./session.ts";
import { type ParsedSessionOptions, parseSessionOptions, type SessionOptions } from "./session-options.ts";

export interface SessionsParts {
  /** Of its own: its calls name the tenant of their session. */
  readonly router: ToolRouter;
  readonly tenancy: Tenancy;
  readonly pool: WorkerPool;
  readonly bundler: Bundler;
  readonly python: PythonHost;
  /**
   * What a session's runs may do: as a tool that was granted it.
   * @throws {ToolError} PARAM_INVALID for a capability that there is not; TOOL_UNAVAILABLE for what this machine cannot limit
   */
  readonly toolOf: (options: ParsedSessionOptions) => ToolEnvironment;
}

const EXTENSIONS = { javascript: "js", typescript: "ts", python: "py" } as const;
const NO_CODE_CACHE = new Uint8Array(0);
/** A cell is hardly ever run again elsewhere. */
const NO_CHUNKS = { names: [], add() {} } as const;

export class Sessions implements AsyncDisposable {
  readonly conversations: Conversations;
  readonly #parts: SessionsParts;
  #isClosed = false;

  constructor(parts: SessionsParts) {
    this.#parts = parts;
    this.conversations = new Conversations((seat) => parts.pool.endSession(seat));
  }

  /**
   * @param work ends what is opened for a tenant that is deleted meanwhile
   * @throws {ToolError} PARAM_INVALID, QUOTA_EXCEEDED, TOOL_UNAVAILABLE
   */
  async open(given: SessionOptions | undefined, work: TenantWork): Promise<Session> {
    const options = parseSessionOptions(given, this.#parts.tenancy);
    const { id, tenantId, language, idleMs, total, limits } = options;
    const { router, pool, python } = this.#parts;
    router.admission.check(tenantId, false);
    using opening = work.begin(tenantId, true);
    const surroundings = { ...this.#parts.toolOf(options), isolation: "session" as const };
    // No run's time goes into it.
    if (language === "python") await python.load();
    const { limits: ofTenant } = await router.tenants.whenKnown(tenantId);
    if (this.#isClosed) throw unavailable("closed", "Glovebox is closed");
    const isTaken = ({ info }: Conversation): boolean => info.id === id && info.kind === language;
    if (this.conversations.list(tenantId).some(isTaken)) throw sessionTaken(id);
    const bounds = { idleMs, ...total };
    const once = language !== "python";
    opening.check();
    const conversation = this.conversations.open({ id, tenantId, kind: language, bounds, once }, ofTenant.sessions);
    const compile =
      language === "python" ? this.#compilePython(conversation.seat.id) : this.#compileCell(language, tenantId);
    const fileExtension = EXTENSIONS[language];
    const executor = createSessionExecutor({ conversation, compile, fileExtension, tool: surroundings, pool });
    const defaultLimits = language === "python" ? PYTHON_DEFAULT_LIMITS : undefined;
    const tool = toRegisteredTool(RUN_DEFINITION, executor, { tenantId, hostLimits: limits, defaultLimits });
    return new Session(conversation, { router, language, register: () => this.#register(tool) });
  }

  /** While it runs: one that nobody runs any more leaves nothing behind. */
  #register(tool: RegisteredTool): SessionEntry {
    const { router } = this.#parts;
    const { tenantId } = tool;
    const toolName = this.#freeName(tenantId);
    router.add({ ...tool, definition: { ...tool.definition, name: toolName } });
    return { toolName, [Symbol.dispose]: () => void router.registry.remove(toolName, tenantId) };
  }

  /** What telemetry calls it: those of a tenant that run at one time are numbered, and a number is used again. */
  #freeName(tenantId: string | undefined): string {
    const { registry } = this.#parts.router;
    for (let number = 1; ; number += 1) {
      const name = `session-${number}`;
      if (registry.get(name, tenantId) === undefined) return name;
    }
  }

  /** Lists the sessions of a tenant, or of all tenants, those of tools included. */
  list(tenantId: string | undefined): readonly SessionInfo[] {
    return this.conversations.list(tenantId).map(({ info }) => ({ ...info }));
  }

  /** @returns whether the tenant had one of this id */
  async close(id: string, tenantId: string): Promise<boolean> {
    const found = this.conversations.list(tenantId).filter(({ info }) => info.id === id);
    for (const conversation of found) conversation[Symbol.dispose]();
    return found.length > 0;
  }

  /** @returns how many there were */
  async closeAll(tenantId: string): Promise<number> {
    const all = this.conversations.list(tenantId);
    for (const conversation of all) conversation[Symbol.dispose]();
    return all.length;
  }

  #compileCell(cell: "javascript" | "typescript", tenantId: string): CompileRun {
    const scripts = new CellScripts();
    const owner = tenantOwner(tenantId);
    return async (code, fileName, { signal, limits }) => {
      const sizes = { sourceBytes: limits.sourceBytes, outputBytes: limits.bundleBytes };
      const source = { files: { [fileName]: code }, entry: fileName };
      const { bundle } = await this.#parts.bundler.bundle(source, { signal, cell, limits: sizes, owner });
      scripts.add(fileName, bundle.sourceMap);
      return { bundle, stackMapper: scripts.mapper, codeCache: NO_CODE_CACHE, chunks: NO_CHUNKS };
    };
  }

  #compilePython(seat: number): CompileRun {
    const fileNames = new Map<string, undefined>();
    return async (_code, fileName) => {
      fileNames.set(fileName, undefined);
      return await this.#parts.python.sessionRun(fileName, `session ${seat}`, fileNames);
    };
  }

  /** After a disposal that has taken too long. */
  abandon(): void {
    this.#parts.router.abandon();
    this.conversations[Symbol.dispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    // Those that run are told of the box's end first.
    await this.#parts.router[Symbol.asyncDispose]();
    this.conversations[Symbol.dispose]();
  }
}
