// "glovebox/client": a client of the server's HTTP API. Uses fetch only, so that it runs in Node, Deno, Bun and browsers.
/// <reference types="node" preserve="true" />
import { checkOptions, segment } from "./requests/check-arguments.ts";
import { CLIENT_FIELDS, type ClientOptions } from "./requests/request-options.ts";
import { ApiTransport } from "./requests/transport.ts";
import { TenantClient } from "./tenant-client.ts";
import type { Executor, Fleet, Tenant } from "./types.ts";

export { ApiError } from "./requests/api-error.ts";
export type { ClientOptions, RequestOptions } from "./requests/request-options.ts";
export { type ChangeOptions, type SetValueOptions, TenantClient } from "./tenant-client.ts";
export type {
  ApiKey,
  ApiKeyWithUse,
  Approval,
  AuditEntry,
  Call,
  CallApproval,
  CallEvent,
  CallInput,
  CallListFilter,
  CallTimeline,
  ConsoleSession,
  CreatedApiKey,
  CreatedTrigger,
  CreatedWebhook,
  Delivery,
  Deployed,
  Executor,
  Fleet,
  NewKey,
  NewSchedule,
  NewTrigger,
  Overview,
  Problem,
  Quotas,
  Rehearsal,
  RejectedCall,
  Release,
  Replay,
  Run,
  RunAnswer,
  RunEntry,
  RunInput,
  RunListFilter,
  RunningCall,
  RunSummary,
  Schedule,
  Secret,
  StartRunOptions,
  StoredValue,
  Tenant,
  ToolSummary,
  ToolVersion,
  TreeCall,
  Trigger,
  Usage,
  VersionStats,
  Webhook,
  Workers,
} from "./types.ts";

const { url: _url, key: _key, fetch: _fetch, ...CHANGED_FIELDS } = CLIENT_FIELDS;

/**
 * A client of one server. Every method rejects with an {@link ApiError} if the server answers with an error.
 * @example
 * ```typescript
 * import type { GloveboxClient } from "glovebox/client";
 *
 * async function suspendAll(client: GloveboxClient): Promise<void> {
 *   for await (const { id } of client.tenants()) await client.tenant(id).update({ state: "suspended" });
 * }
 * ```
 */
export class GloveboxClient extends ApiTransport {
  readonly #options: ClientOptions;

  /** @throws {TypeError} for an unknown option or a wrong value */
  constructor(options: ClientOptions) {
    super(options);
    this.#options = options;
  }

  /**
   * Returns a client of the same server with the same key and other options: `client.with({ signal })` for the requests of one task.
   * @throws {TypeError} for an unknown option or a wrong value
   */
  with(changes: Pick<ClientOptions, "signal" | "timeoutMs" | "retries" | "maxResponseBytes">): GloveboxClient {
    checkOptions(changes, "options", CHANGED_FIELDS);
    return new GloveboxClient({ ...this.#options, ...changes });
  }

  /** Returns the key that the client uses. */
  async whoAmI(): Promise<{
    readonly keyId: string;
    readonly tenantId: string | null;
    readonly scopes: readonly string[];
    /** When the key, token or session expires, in ms since 1970; null if it does not. */
    readonly expiresAt: number | null;
  }> {
    return await this.request("GET", "/v1/me");
  }

  /** Yields all tenants. Needs a key of the platform. */
  tenants(): AsyncGenerator<Tenant, void> {
    return this.list("/v1/tenants");
  }

  /** Returns the methods that concern one tenant. */
  tenant(id: string): TenantClient {
    return new TenantClient(this, `/v1/tenants/${segment(id)}`);
  }

  /** Creates a tenant. Needs a key of the platform. @param tenant `policy`: default: `{}` */
  async createTenant(tenant: {
    readonly id: string;
    readonly name?: string;
    readonly policy?: object;
  }): Promise<Tenant> {
    return await this.request("POST", "/v1/tenants", { body: tenant });
  }

  /** Returns the executors, their pools, and the replicas of the server. Needs a key of the platform. */
  async fleet(): Promise<Fleet> {
    return await this.request("GET", "/v1/fleet");
  }

  /** Requests that an executor finishes its calls, accepts no others, and ends. Needs a key of the platform. */
  async drainExecutor(id: string): Promise<Executor> {
    return await this.request("POST", `/v1/fleet/executors/${segment(id)}/drain`);
  }
}

/**
 * Creates a client of a server.
 * @throws {TypeError} for an unknown option, a URL that is not http or https, or a missing key
 * @example
 * ```typescript
 * import { createClient } from "glovebox/client";
 *
 * const client = createClient({ url: "http://127.0.0.1:7070", key: process.env.GLOVEBOX_API_KEY ?? "" });
 * const acme = client.tenant("acme");
 * await acme.deploy({ name: "double", source: "export default ({ n }) => n * 2" });
 * const call = await acme.call("double", { input: { n: 21 } });
 * console.log(call.state, call.output);
 * ```
 */
export function createClient(options: ClientOptions): GloveboxClient {
  return new GloveboxClient(options);
}
