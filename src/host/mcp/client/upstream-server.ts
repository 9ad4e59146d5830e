// Implements an upstream MCP server as a tool source of the router: registers the server's tools for its tenants and selects the connection
// for each call.
import { createHash } from "node:crypto";
import { setImmediate as turn } from "node:timers/promises";
import { type JsonValue, ToolError, unavailable } from "../../../sandbox/contract/errors.ts";
import { type ToolValue, toJson } from "../../contract/tool-value.ts";
import type { HostFunctionContext } from "../../executors/host-function.ts";
import { matchesName } from "../../routing/name-wildcard.ts";
import type { AddedToolProvider, SourceDiscovery, SourceTransport } from "../../routing/tool-source.ts";
import type { Tenancy } from "../../tenants/tenancy.ts";
import { credentialsFor } from "./credentials.ts";
import { type Listing, MAX_TOOL_SIZE } from "./listing.ts";
import type { McpServerConfig } from "./mcp-options.ts";
import type { JsonObject } from "./reading/json-size.ts";
import { type LinkStatus, ReconnectingLink } from "./reconnecting-link.ts";
import { toVisible } from "./text/visible-text.ts";
import { UpstreamCall } from "./upstream-call.ts";
import { toToolNames } from "./upstream-names.ts";
import { toReturned } from "./upstream-result.ts";
import { readUpstreamTool, type UpstreamTool } from "./upstream-schema.ts";

/** Largest number of tenants with their own connection. For a further one, the least recently used connection is closed. */
const MAX_LINKS = 256;
const MAX_LEFT_OUT = 100;
/** JSON-RPC's error code for invalid arguments, which MCP also uses for an unknown tool. */
const INVALID_PARAMS = -32_602;
/** Key of the link that all tenants share. Tenant ids are never empty. */
const SHARED = "";

/** A tool of the server that was not registered, and the reason. */
export interface McpToolIssue {
  /** The server's own name of the tool, truncated to 128 characters. */
  readonly toolName: string;
  readonly problem: string;
}

/** Status of a connection to an upstream server. */
export interface McpServerStatus extends LinkStatus {
  readonly server: string;
  readonly transport: "stdio" | "http";
  /** The tenant that the connection belongs to; absent if tenants share it. */
  readonly tenantId?: string;
  /** Number of registered tools. */
  readonly tools: number;
  /** Tools that were not registered, at most 100. */
  readonly omittedTools: readonly McpToolIssue[];
  /** The reason why the list of tools is incomplete; absent if it is complete. */
  readonly listIssue?: string | undefined;
}

interface RegisteredUpstreamTool {
  /** The server's own name of the tool. */
  readonly name: string;
  /** Digest of the definition that it was registered with. */
  readonly digest: string;
  readonly registration: Disposable;
}

/** A tool of a listing. The digest replaces the text of the definition: those of one listing can add up to 16 MiB. */
interface ListedTool {
  readonly definition: UpstreamTool;
  readonly digest: string;
}

const digestOf = (definition: UpstreamTool): string =>
  createHash("sha256").update(JSON.stringify(definition)).digest("base64");

/** A tool to register for a tenant, or for all tenants. */
interface WantedTool {
  readonly alias: string;
  readonly name: string;
  readonly tenantId?: string;
}

interface TenantLink {
  readonly link: ReconnectingLink;
  /** Keyed by alias and tenant. */
  readonly tools: Map<string, RegisteredUpstreamTool>;
  omittedTools: readonly McpToolIssue[];
  listIssue: string | undefined;
  /** Number of calls that wait for their tasks. They have no open request between two polls. */
  tasks: number;
}

export interface UpstreamServerDependencies {
  readonly tenancy: Tenancy;
  readonly environment: NodeJS.ProcessEnv;
  readonly version: string;
}

/** Returns whether an error is the server's own answer that the arguments are invalid. */
const isInvalidParams = (thrown: unknown): boolean =>
  thrown instanceof ToolError && thrown.code === "PARAM_INVALID" && thrown.details?.code === INVALID_PARAMS;

export class UpstreamServer implements SourceTransport, AsyncDisposable {
  readonly kind = "mcp";
  readonly name: string;
  readonly prefix: string;
  readonly discovery: SourceDiscovery;
  readonly #config: McpServerConfig;
  readonly #dependencies: UpstreamServerDependencies;
  readonly #links = new Map<string, TenantLink>();
  /** Tenants that can use the tools; undefined for all tenants. */
  readonly #tenants: Set<string> | undefined;
  /** Set once, before the first request. Undefined after the server was removed. */
  source: AddedToolProvider | undefined;

  constructor(name: string, config: McpServerConfig, dependencies: UpstreamServerDependencies) {
    this.name = name;
    this.prefix = config.prefix ?? `${name}__`;
    this.#config = config;
    this.#dependencies = dependencies;
    const { tenants } = config;
    this.#tenants = tenants === undefined ? undefined : new Set(tenants);
    this.discovery = {
      isFor: (tenantId) => this.#tenants === undefined || this.#tenants.has(tenantId),
      mayHave: (toolName) => toolName.startsWith(this.prefix),
      isKnown: (tenantId) => this.#links.get(this.#keyOf(tenantId))?.link.isFresh === true,
      discover: (tenantId, signal) => this.#linkFor(tenantId).link.list(signal),
    };
  }

  get #isPerTenant(): boolean {
    const config = this.#config;
    const own = "url" in config ? [config.headersFor, config.authProviderFor] : [config.envFor];
    return config.perTenant || own.some((each) => each !== undefined);
  }

  get status(): readonly McpServerStatus[] {
    const links = [...this.#links];
    if (links.length === 0) links.push([SHARED, this.#createLink(SHARED)]);
    return links.map(([tenantId, { link, tools, omittedTools, listIssue }]) => ({
      server: this.name,
      transport: "url" in this.#config ? "http" : "stdio",
      ...(tenantId === SHARED ? {} : { tenantId }),
      ...link.status,
      tools: tools.size,
      omittedTools,
      ...(listIssue === undefined ? {} : { listIssue }),
    }));
  }

  #keyOf(tenantId: string): string {
    return this.#isPerTenant ? tenantId : SHARED;
  }

  /** @throws {ToolError} TOOL_UNAVAILABLE if the server or the tenant was removed: a new link would start the server again */
  #linkFor(tenantId: string): TenantLink {
    if (this.source === undefined || !this.discovery.isFor(tenantId)) throw this.#removed();
    const key = this.#keyOf(tenantId);
    let found = this.#links.get(key);
    if (found === undefined) {
      found = this.#createLink(key);
      this.#links.set(key, found);
      this.#evictIdleLink();
    }
    return found;
  }

  #removed(): ToolError {
    return unavailable("not_found", `The MCP server "${this.name}" was removed`);
  }

  #evictIdleLink(): void {
    if (this.#links.size <= MAX_LINKS) return;
    const idle = [...this.#links].filter(([, { link, tasks }]) => !link.isBusy && tasks === 0);
    const [oldest] = idle.sort(([, a], [, b]) => a.link.usedAt - b.link.usedAt);
    if (oldest === undefined) return;
    const [key, { link, tools }] = oldest;
    this.#links.delete(key);
    for (const { registration } of tools.values()) registration[Symbol.dispose]();
    void link[Symbol.asyncDispose]();
  }

  #createLink(key: string): TenantLink {
    const { environment, version } = this.#dependencies;
    const created: TenantLink = {
      link: new ReconnectingLink({
        server: this.name,
        config: this.#config,
        environment,
        version,
        credentials: (signal) => credentialsFor(this.#config, key === SHARED ? undefined : key, signal),
        onListed: (listing) => this.#applyListing(created, key, listing),
      }),
      tools: new Map(),
      omittedTools: [],
      listIssue: undefined,
      tasks: 0,
    };
    return created;
  }

  /** Replaces the tools of the previous listing by those of a new one. */
  async #applyListing(target: TenantLink, key: string, listing: Listing): Promise<void> {
    const omittedTools: McpToolIssue[] = [];
    const omit = (toolName: string, problem: string): void => {
      if (omittedTools.length < MAX_LEFT_OUT)
        omittedTools.push({ toolName: toVisible(toolName.slice(0, 128)), problem });
    };
    if (listing.unnamed > 0) omit("", `The name is missing (${listing.unnamed} times)`);
    for (const name of listing.tooLarge) omit(name, `Expected at most ${MAX_TOOL_SIZE} characters and values`);
    for (const { name, problem } of listing.unreadable) omit(name, problem);
    const tools = new Map<string, ListedTool>();
    for (const raw of listing.tools) {
      const name = String(raw.name);
      if (!this.#isSelected(name)) continue;
      // Checking a schema can take a while, so each has its own turn of the event loop.
      await turn();
      const read = readUpstreamTool(raw);
      if ("problem" in read) omit(name, read.problem);
      else if (!listing.callable.has(name)) omit(name, "Its header parameters (x-mcp-header) are invalid");
      else if (tools.has(name)) omit(name, "The name is listed twice");
      else tools.set(name, { definition: read.definition, digest: digestOf(read.definition) });
    }
    const names = toToolNames(this.prefix, tools.keys());
    const named = new Set(names.values());
    for (const name of tools.keys()) if (!named.has(name)) omit(name, "Its alias collides with that of another tool");
    await this.#register(target, key, tools, names, omit);
    target.omittedTools = omittedTools;
    target.listIssue = listing.problem;
  }

  #isSelected(name: string): boolean {
    const { allow, deny } = this.#config.tools;
    if (deny.some((pattern) => matchesName(pattern, name))) return false;
    return allow === undefined || allow.some((pattern) => matchesName(pattern, name));
  }

  /**
   * Updates the registrations. Each tool is replaced within one turn of the event loop, so that a call finds the old or the new one. All
   * tools in one turn would block the event loop for more than 100 ms.
   */
  async #register(
    { tools: registered }: TenantLink,
    key: string,
    tools: ReadonlyMap<string, ListedTool>,
    names: ReadonlyMap<string, string>,
    omit: (toolName: string, problem: string) => void,
  ): Promise<void> {
    const wanted = this.#wantedBy(key, names);
    for (const [at, { registration }] of registered) {
      if (wanted.has(at)) continue;
      registration[Symbol.dispose]();
      registered.delete(at);
    }
    for (const [at, { alias, name, tenantId }] of wanted) {
      // The tenant was deleted while its tools were listed.
      if (tenantId !== undefined && (this.#tenants?.has(tenantId) === false || !this.#links.has(key))) continue;
      const tool = tools.get(name);
      const before = registered.get(at);
      if (tool === undefined || before?.digest === tool.digest) continue;
      before?.registration[Symbol.dispose]();
      registered.delete(at);
      try {
        const registration = this.#registerOne(alias, tool.definition, tenantId);
        registered.set(at, { name, digest: tool.digest, registration });
      } catch (thrown) {
        omit(name, Error.isError(thrown) ? thrown.message : "The tool could not be registered");
      }
      await turn();
    }
  }

  /** Returns the tools to register, keyed by alias and tenant. */
  #wantedBy(key: string, names: ReadonlyMap<string, string>): ReadonlyMap<string, WantedTool> {
    const isShared = key === SHARED || this.#dependencies.tenancy.mode === "single";
    const owners = isShared ? [...(this.#tenants ?? [undefined])] : [key];
    const wanted = new Map<string, WantedTool>();
    for (const [alias, name] of names) {
      for (const tenantId of owners) {
        wanted.set(`${alias}\n${tenantId ?? ""}`, tenantId === undefined ? { alias, name } : { alias, name, tenantId });
      }
    }
    return wanted;
  }

  #registerOne(alias: string, { name, ...tool }: UpstreamTool, tenantId: string | undefined): Disposable {
    if (this.source === undefined) throw this.#removed();
    const { maxTimeoutMs, trustAnnotations } = this.#config;
    const origin = { server: this.name, toolName: name, isTrusted: trustAnnotations };
    const definition = { ...tool, origin, limits: { timeoutMs: maxTimeoutMs } };
    return this.source.register(alias, definition, {
      nameAtSource: name,
      ...(tenantId === undefined ? { scope: "global" } : { tenantId }),
    });
  }

  /** Calls a tool by the server's own name. @throws {ToolError} as a rejection */
  async call(toolName: string, input: ToolValue, context: HostFunctionContext): Promise<unknown> {
    const args = toJson(input);
    if (typeof args !== "object" || args === null || Array.isArray(args)) {
      throw new ToolError("PARAM_INVALID", `The arguments of "${toolName}" must be an object`);
    }
    const own = this.#linkFor(context.tenantId);
    let call: UpstreamCall | undefined;
    try {
      const answer = await own.link.use(context.signal, (connection) => {
        call?.[Symbol.dispose]();
        call = new UpstreamCall(toolName, context, this.#config.timeoutMs);
        return connection.callTool(call, args as { readonly [name: string]: JsonValue });
      });
      const result = "task" in answer ? await this.#awaitTask(own, call as UpstreamCall, answer.task) : answer.result;
      return await toReturned(result, toolName, context.signal);
    } catch (thrown) {
      // The call failed because the server was removed.
      if (this.source === undefined) {
        throw new ToolError("CANCELLED", `The MCP server "${this.name}" was removed while "${toolName}" ran`);
      }
      if (isInvalidParams(thrown) && !(await this.#stillHas(own, toolName, context))) {
        throw unavailable("not_found", `The MCP server "${this.name}" no longer has the tool "${toolName}"`);
      }
      throw thrown;
    } finally {
      call?.[Symbol.dispose]();
    }
  }

  /** Waits for the task that a call has become, and returns the result of the call. @throws {ToolError} as a rejection */
  async #awaitTask(own: TenantLink, call: UpstreamCall, created: JsonObject): Promise<JsonObject> {
    const { awaitTask } = await import("./tasks/await-task.ts");
    const { link } = own;
    // The request that ends a task is sent after its call was cancelled.
    const unbound = new AbortController().signal;
    own.tasks += 1;
    try {
      return await awaitTask(call, created, {
        server: this.name,
        config: this.#config,
        closed: link.closed,
        use: (request) => link.use(call.signal.aborted ? unbound : call.signal, request),
      });
    } finally {
      own.tasks -= 1;
    }
  }

  /** Lists the tools again, because a server returns the same error code for invalid arguments and for a tool that it no longer has. */
  async #stillHas({ link, tools }: TenantLink, toolName: string, context: HostFunctionContext): Promise<boolean> {
    await link.relist(context.signal).catch(() => {});
    return [...tools.values()].some(({ name }) => name === toolName);
  }

  /** Whether the server was configured for certain tenants and all of them have been deleted. */
  get isUnused(): boolean {
    return this.#tenants?.size === 0;
  }

  /** Removes a tenant with its tools and closes its own connection. Returns the number of closed connections. */
  async removeTenant(tenantId: string): Promise<number> {
    this.#tenants?.delete(tenantId);
    for (const { tools } of this.#links.values()) {
      for (const [at, { registration }] of tools) {
        if (!at.endsWith(`\n${tenantId}`) || at.indexOf("\n") !== at.length - tenantId.length - 1) continue;
        registration[Symbol.dispose]();
        tools.delete(at);
      }
    }
    const own = this.#isPerTenant ? this.#links.get(tenantId) : undefined;
    if (own === undefined) return 0;
    this.#links.delete(tenantId);
    await own.link[Symbol.asyncDispose]();
    return 1;
  }

  /** Removes the tools and closes the connections, in bounded time. A second call has no effect. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.source?.[Symbol.dispose]();
    this.source = undefined;
    const links = [...this.#links.values()];
    this.#links.clear();
    await Promise.all(links.map(({ link }) => link[Symbol.asyncDispose]()));
  }
}
