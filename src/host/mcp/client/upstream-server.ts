// One upstream server as the router knows it: whose tools it has, what they are called, and which connection a call goes by.
import { createHash } from "node:crypto";
import { setImmediate as turn } from "node:timers/promises";
import { type JsonValue, ToolError, unavailable } from "../../../sandbox/contract/errors.ts";
import { type ToolValue, toJson } from "../../contract/tool-value.ts";
import type { HostFunctionContext } from "../../executors/host-function.ts";
import { matchesName } from "../../routing/name-pattern.ts";
import type { AddedSource, SourceDiscovery, SourceTransport } from "../../routing/tool-source.ts";
import type { Tenancy } from "../../tenants/tenancy.ts";
import { credentialsFor } from "./credentials.ts";
import { type Listing, MAX_TOOL_SIZE } from "./listing.ts";
import type { McpServerConfig } from "./mcp-options.ts";
import { toVisible } from "./text/visible-text.ts";
import { UpstreamCall } from "./upstream-call.ts";
import { type LinkStatus, UpstreamLink } from "./upstream-link.ts";
import { toToolNames } from "./upstream-names.ts";
import { readUpstreamTool, type UpstreamTool } from "./upstream-schema.ts";

/** Tenants with a connection of their own; of more, the one that has not been used for longest is closed. */
const MAX_LINKS = 256;
const MAX_LEFT_OUT = 100;
/** JSON-RPC's code for arguments, and MCP's for a tool that there is not. */
const INVALID_PARAMS = -32_602;
/** The link that all tenants share. No tenant's id is empty. */
const SHARED = "";

/** A tool that the server has and we have not, and why. */
export interface McpToolProblem {
  /** As the server calls it, or the beginning of that. */
  readonly toolName: string;
  readonly problem: string;
}

/** One connection of one upstream server. */
export interface McpServerStatus extends LinkStatus {
  readonly server: string;
  readonly transport: "stdio" | "http";
  /** Whose connection it is; absent where tenants share it. */
  readonly tenantId?: string;
  /** Tools that are registered by it. */
  readonly tools: number;
  readonly leftOut: readonly McpToolProblem[];
  /** Why the list is not all that there is, where it is not. */
  readonly listProblem?: string | undefined;
}

interface RegisteredUpstreamTool {
  /** As the server calls it. */
  readonly name: string;
  /** Of what it was registered with. */
  readonly print: string;
  readonly registration: Disposable;
}

/** A tool of a listing, and a digest of its definition: the text of all of them may come to 16 MiB. */
interface ReadTool {
  readonly definition: UpstreamTool;
  readonly print: string;
}

const printOf = (definition: UpstreamTool): string =>
  createHash("sha256").update(JSON.stringify(definition)).digest("base64");

interface WantedTool {
  readonly alias: string;
  readonly name: string;
  readonly tenantId?: string;
}

interface TenantLink {
  readonly link: UpstreamLink;
  /** By name here and tenant. */
  readonly tools: Map<string, RegisteredUpstreamTool>;
  leftOut: readonly McpToolProblem[];
  listProblem: string | undefined;
}

export interface UpstreamServerParts {
  readonly tenancy: Tenancy;
  readonly environment: NodeJS.ProcessEnv;
  readonly version: string;
}

/** The server's own, by its code. */
const isRefusal = (thrown: unknown): boolean =>
  thrown instanceof ToolError && thrown.code === "PARAM_INVALID" && thrown.details?.code === INVALID_PARAMS;

export class UpstreamServer implements SourceTransport, AsyncDisposable {
  readonly kind = "mcp";
  readonly name: string;
  readonly prefix: string;
  readonly discovery: SourceDiscovery;
  readonly #config: McpServerConfig;
  readonly #parts: UpstreamServerParts;
  readonly #links = new Map<string, TenantLink>();
  /** Whose tools these are; undefined for all tenants. */
  readonly #tenants: Set<string> | undefined;
  /** Given once, before anything is asked. */
  source: AddedSource | undefined;

  constructor(name: string, config: McpServerConfig, parts: UpstreamServerParts) {
    this.name = name;
    this.prefix = config.prefix ?? `${name}__`;
    this.#config = config;
    this.#parts = parts;
    const { tenants } = config;
    this.#tenants = tenants === undefined ? undefined : new Set(tenants);
    this.discovery = {
      isFor: (tenantId) => this.#tenants === undefined || this.#tenants.has(tenantId),
      mayHave: (toolName) => toolName.startsWith(this.prefix),
      isKnown: (tenantId) => this.#linkFor(tenantId).link.isFresh,
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
    if (links.length === 0) links.push([SHARED, this.#makeLink(SHARED)]);
    return links.map(([tenantId, { link, tools, leftOut, listProblem }]) => ({
      server: this.name,
      transport: "url" in this.#config ? "http" : "stdio",
      ...(tenantId === SHARED ? {} : { tenantId }),
      ...link.status,
      tools: tools.size,
      leftOut,
      ...(listProblem === undefined ? {} : { listProblem }),
    }));
  }

  #linkFor(tenantId: string): TenantLink {
    const key = this.#isPerTenant ? tenantId : SHARED;
    let found = this.#links.get(key);
    if (found === undefined) {
      found = this.#makeLink(key);
      this.#links.set(key, found);
      this.#makeRoom();
    }
    return found;
  }

  #makeRoom(): void {
    if (this.#links.size <= MAX_LINKS) return;
    const idle = [...this.#links].filter(([, { link }]) => !link.isBusy);
    const [oldest] = idle.sort(([, a], [, b]) => a.link.usedAt - b.link.usedAt);
    if (oldest === undefined) return;
    const [key, { link, tools }] = oldest;
    this.#links.delete(key);
    for (const { registration } of tools.values()) registration[Symbol.dispose]();
    void link[Symbol.asyncDispose]();
  }

  #makeLink(key: string): TenantLink {
    const { environment, version } = this.#parts;
    const made: TenantLink = {
      link: new UpstreamLink({
        ...{ server: this.name, config: this.#config, environment, version },
        credentials: (signal) => credentialsFor(this.#config, key === SHARED ? undefined : key, signal),
        onListed: (listing) => this.#take(made, key, listing),
      }),
      tools: new Map(),
      leftOut: [],
      listProblem: undefined,
    };
    return made;
  }

  /** Puts what the server has listed in the place of what it had listed before. */
  async #take(taker: TenantLink, key: string, listing: Listing): Promise<void> {
    const leftOut: McpToolProblem[] = [];
    const leave = (toolName: string, problem: string): void => {
      if (leftOut.length < MAX_LEFT_OUT) leftOut.push({ toolName: toVisible(toolName.slice(0, 128)), problem });
    };
    if (listing.unnamed > 0) leave("", `${listing.unnamed} without a name`);
    for (const name of listing.tooLarge) leave(name, `Expected at most ${MAX_TOOL_SIZE} characters and values`);
    const tools = new Map<string, ReadTool>();
    for (const raw of listing.tools) {
      const name = String(raw.name);
      if (!this.#isChosen(name)) continue;
      // A schema may take its time: each has a turn of its own.
      await turn();
      const read = readUpstreamTool(raw);
      if ("problem" in read) leave(name, read.problem);
      else if (!listing.shown.has(name)) leave(name, "Its headers (x-mcp-header) cannot be made");
      else if (tools.has(name)) leave(name, "Listed before");
      else tools.set(name, { definition: read.definition, print: printOf(read.definition) });
    }
    const names = toToolNames(this.prefix, tools.keys());
    const named = new Set(names.values());
    for (const name of tools.keys()) if (!named.has(name)) leave(name, "Its name cannot stand in one of ours");
    await this.#register(taker, key, tools, names, leave);
    taker.leftOut = leftOut;
    taker.listProblem = listing.problem;
  }

  #isChosen(name: string): boolean {
    const { allow, deny } = this.#config.tools;
    if (deny.some((pattern) => matchesName(pattern, name))) return false;
    return allow === undefined || allow.some((pattern) => matchesName(pattern, name));
  }

  /** Each tool in one turn: a call finds it as it was, or as it is. All of them would hold the event loop for 100 ms and more. */
  async #register(
    { tools: registered }: TenantLink,
    key: string,
    tools: ReadonlyMap<string, ReadTool>,
    names: ReadonlyMap<string, string>,
    leave: (toolName: string, problem: string) => void,
  ): Promise<void> {
    const wanted = this.#wantedBy(key, names);
    for (const [at, { registration }] of registered) {
      if (wanted.has(at)) continue;
      registration[Symbol.dispose]();
      registered.delete(at);
    }
    for (const [at, { alias, name, tenantId }] of wanted) {
      // Deleted while its tools were listed.
      if (tenantId !== undefined && (this.#tenants?.has(tenantId) === false || !this.#links.has(key))) continue;
      const tool = tools.get(name);
      const before = registered.get(at);
      if (tool === undefined || before?.print === tool.print) continue;
      before?.registration[Symbol.dispose]();
      registered.delete(at);
      try {
        const registration = this.#registerOne(alias, tool.definition, tenantId);
        registered.set(at, { name, print: tool.print, registration });
      } catch (thrown) {
        leave(name, Error.isError(thrown) ? thrown.message : "It could not be registered");
      }
      await turn();
    }
  }

  /** What is to be registered, by name here and tenant. */
  #wantedBy(key: string, names: ReadonlyMap<string, string>): ReadonlyMap<string, WantedTool> {
    const isShared = key === SHARED || this.#parts.tenancy.mode === "single";
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
    if (this.source === undefined) throw unavailable("not_found", `The MCP server ${this.name} has been removed`);
    const { maxTimeoutMs, trustAnnotations } = this.#config;
    const origin = { server: this.name, toolName: name, isTrusted: trustAnnotations };
    const definition = { ...tool, origin, limits: { timeoutMs: maxTimeoutMs } };
    return this.source.register(alias, definition, {
      nameAtSource: name,
      ...(tenantId === undefined ? { scope: "global" } : { tenantId }),
    });
  }

  /** @throws {ToolError} as a rejection */
  async call(toolName: string, input: ToolValue, context: HostFunctionContext): Promise<unknown> {
    const args = toJson(input);
    if (typeof args !== "object" || args === null || Array.isArray(args)) {
      throw new ToolError("PARAM_INVALID", `The arguments of ${toolName}: expected an object`);
    }
    const { link } = this.#linkFor(context.tenantId);
    try {
      return await link.use(context.signal, async (connection) => {
        using call = new UpstreamCall(toolName, context, this.#config.timeoutMs);
        return await connection.callTool(call, args as { readonly [name: string]: JsonValue });
      });
    } catch (thrown) {
      // Its end was ours.
      if (this.source === undefined) {
        throw new ToolError("CANCELLED", `The MCP server ${this.name} has been removed while ${toolName} ran`);
      }
      if (isRefusal(thrown) && !(await this.#stillHas(toolName, context))) {
        throw unavailable("not_found", `The MCP server ${this.name} has no tool ${toolName} any more`);
      }
      throw thrown;
    }
  }

  /** What it answers for arguments that it does not take, it answers for a tool that it has no more. */
  async #stillHas(toolName: string, context: HostFunctionContext): Promise<boolean> {
    const { link, tools } = this.#linkFor(context.tenantId);
    await link.relist(context.signal).catch(() => {});
    return [...tools.values()].some(({ name }) => name === toolName);
  }

  /** Tells whether the server was configured for tenants by name, and none of them is left. */
  get isUnused(): boolean {
    return this.#tenants?.size === 0;
  }

  /** Takes a tenant from those that the server is for, with its tools, and ends its connection. Returns how many connections that were. */
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

  /** Its tools go, its connections end, in bounded time. Twice is a no-op. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.source?.[Symbol.dispose]();
    this.source = undefined;
    const links = [...this.#links.values()];
    this.#links.clear();
    await Promise.all(links.map(({ link }) => link[Symbol.asyncDispose]()));
  }
}
