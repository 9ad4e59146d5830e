// "glovebox/client": a client of the server's HTTP API. Uses fetch only, so that it runs in Node, Deno, Bun and browsers.
import type * as z from "zod";
import type { ConsoleSessionSchema } from "../server/http/routes/console-sessions.ts";
import type { KvEntrySchema } from "../server/http/routes/kv.ts";
import type { OverviewSchema, VersionStatsSchema, WorkersSchema } from "../server/http/routes/overview.ts";
import type { ScheduleSchema } from "../server/http/routes/schedules.ts";
import type { CreatedTriggerSchema, TriggerSchema } from "../server/http/routes/triggers.ts";
import type { CreatedWebhookSchema, DeliverySchema, WebhookSchema } from "../server/http/routes/webhooks.ts";
import type {
  ApprovalSchema,
  AuditEntrySchema,
  CallSchema,
  CreatedKeySchema,
  DeployedSchema,
  KeySchema,
  QuotasSchema,
  ReleaseSchema,
  SecretSchema,
  TenantSchema,
  TimelineSchema,
  ToolSummarySchema,
  UsageSchema,
  VersionSummarySchema,
} from "../server/http/schemas.ts";

export type Schedule = z.output<typeof ScheduleSchema>;
export type Webhook = z.output<typeof WebhookSchema>;
export type CreatedWebhook = z.output<typeof CreatedWebhookSchema>;
export type Delivery = z.output<typeof DeliverySchema>;
export type KvValue = z.output<typeof KvEntrySchema>;
export type Trigger = z.output<typeof TriggerSchema>;
export type CreatedTrigger = z.output<typeof CreatedTriggerSchema>;
export type Tenant = z.output<typeof TenantSchema>;
export type ApiKey = z.output<typeof KeySchema>;
export type CreatedApiKey = z.output<typeof CreatedKeySchema>;
export type ToolSummary = z.output<typeof ToolSummarySchema>;
export type ToolVersion = z.output<typeof VersionSummarySchema>;
export type Release = z.output<typeof ReleaseSchema>;
export type Deployed = z.output<typeof DeployedSchema>;
export type Approval = z.output<typeof ApprovalSchema>;
export type Call = z.output<typeof CallSchema>;
export type Overview = z.output<typeof OverviewSchema>;
export type VersionStats = z.output<typeof VersionStatsSchema>;
export type Workers = z.output<typeof WorkersSchema>;
export type ConsoleSession = z.output<typeof ConsoleSessionSchema>;
export type Timeline = z.output<typeof TimelineSchema>;
export type Secret = z.output<typeof SecretSchema>;
export type Usage = z.output<typeof UsageSchema>;
export type Quotas = z.output<typeof QuotasSchema>;
export type AuditEntry = z.output<typeof AuditEntrySchema>;

/** An event of a streamed call. The last one is the `result`. */
export type CallEvent =
  | { readonly event: "started"; readonly data: { readonly id: string } }
  | { readonly event: "log" | "progress" | "chunk"; readonly data: unknown }
  | { readonly event: "result"; readonly data: Call };

/** The response of the server to a request that failed. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  /** Status of the response; 0 if there was none. */
  readonly status: number;
  /** Code of the error, such as `NOT_FOUND`; `NETWORK` if there was no response. */
  readonly code: string;
  readonly details: unknown;
  /** Id under which the server's operator finds the request in the log. */
  readonly requestId: string | undefined;

  constructor(
    message: string,
    { status, code, details, requestId, cause }: Pick<ApiError, "status" | "code" | "details" | "requestId" | "cause">,
  ) {
    super(message, { cause });
    this.status = status;
    this.code = code;
    this.details = details;
    this.requestId = requestId;
  }
}

export interface ClientOptions {
  /** URL of the server, such as `http://127.0.0.1:7070`. */
  readonly url: string;
  /** API key. */
  readonly key: string;
  /** How often a request that is safe to repeat is repeated after a network error, 429 or 503. @default 2 */
  readonly retries?: number | undefined;
  /** @default globalThis.fetch */
  readonly fetch?: typeof globalThis.fetch | undefined;
}

export interface RequestOptions {
  readonly body?: unknown;
  readonly query?: { readonly [name: string]: string | number | undefined };
  readonly headers?: { readonly [name: string]: string };
  readonly signal?: AbortSignal | undefined;
  /** Whether the request may be repeated. Default: only GET. */
  readonly isSafe?: boolean;
  /** Statuses that are not errors, in addition to those below 400. */
  readonly accept?: (status: number, body: unknown) => boolean;
}

/** Input of a call. */
export interface CallInput {
  readonly input?: unknown;
  readonly version?: number | undefined;
  readonly alias?: string | undefined;
  readonly sessionId?: string | undefined;
  readonly timeoutMs?: number | undefined;
}

interface Page<Item> {
  readonly items: readonly Item[];
  readonly next: string | null;
}

const RETRIED: ReadonlySet<number> = new Set([429, 503]);
/** Longest time in ms that the client waits before it repeats a request. */
const MAX_WAIT_MS = 10_000;

const segment = (text: string | number): string => encodeURIComponent(String(text));

function waitMs(attempt: number, retryAfter: string | null | undefined): number {
  const seconds = Number(retryAfter ?? Number.NaN);
  const wanted = Number.isFinite(seconds) ? seconds * 1_000 : 200 * 2 ** attempt;
  return Math.min(MAX_WAIT_MS, wanted) * (1 + Math.random() / 4);
}

/** Sends requests. Every method throws an {@link ApiError} if the server answers with an error. */
export class GloveboxClient {
  readonly #url: string;
  readonly #key: string;
  readonly #retries: number;
  readonly #fetch: typeof globalThis.fetch;

  /** @internal use {@link createClient} */
  constructor({ url, key, retries = 2, fetch = globalThis.fetch.bind(globalThis) }: ClientOptions) {
    this.#url = url.replace(/\/+$/, "");
    this.#key = key;
    this.#retries = retries;
    this.#fetch = fetch;
  }

  /** Sends one request of the API, and returns the body of its response. */
  async request<Body>(method: string, path: string, options: RequestOptions = {}): Promise<Body> {
    const response = await this.#send(method, path, options);
    const text = await response.text();
    const body = this.#parse(text, response);
    if (response.ok || options.accept?.(response.status, body) === true) return body as Body;
    throw toApiError(response, body);
  }

  /** Yields the items of a list, one page after the other. */
  async *list<Item>(path: string, query: RequestOptions["query"] = {}): AsyncGenerator<Item, void> {
    let cursor: string | undefined;
    do {
      const page: Page<Item> = await this.request("GET", path, { query: { ...query, cursor } });
      yield* page.items;
      cursor = page.next ?? undefined;
    } while (cursor !== undefined);
  }

  /** Returns the key that the client uses. */
  async whoAmI(): Promise<{
    readonly keyId: string;
    readonly tenantId: string | null;
    readonly scopes: readonly string[];
  }> {
    return await this.request("GET", "/v1/me");
  }

  tenants(): AsyncGenerator<Tenant, void> {
    return this.list("/v1/tenants");
  }

  /** Returns the methods that concern one tenant. */
  tenant(id: string): TenantClient {
    return new TenantClient(this, `/v1/tenants/${segment(id)}`);
  }

  async createTenant(tenant: {
    readonly id: string;
    readonly name?: string;
    readonly policy?: object;
  }): Promise<Tenant> {
    return await this.request("POST", "/v1/tenants", { body: tenant });
  }

  /** @internal Opens a stream of server-sent events. */
  async *events(
    method: "GET" | "POST",
    path: string,
    { body, signal }: Pick<RequestOptions, "body" | "signal">,
  ): AsyncGenerator<CallEvent, void> {
    const response = await this.#send(method, path, { body, signal, headers: { accept: "text/event-stream" } });
    if (!response.ok || response.body === null)
      throw toApiError(response, this.#parse(await response.text(), response));
    let text = "";
    const decoder = new TextDecoder();
    for await (const bytes of response.body as unknown as AsyncIterable<Uint8Array>) {
      text += decoder.decode(bytes, { stream: true });
      const blocks = text.split("\n\n");
      text = blocks.pop() ?? "";
      for (const block of blocks) {
        const event = /^event: (.+)$/m.exec(block)?.[1];
        const data = /^data: (.+)$/m.exec(block)?.[1];
        if (event !== undefined && data !== undefined) yield { event, data: JSON.parse(data) } as CallEvent;
      }
    }
  }

  async #send(
    method: string,
    path: string,
    { body, query = {}, headers, signal, isSafe }: RequestOptions,
  ): Promise<Response> {
    const url = new URL(`${this.#url}${path}`);
    for (const [name, value] of Object.entries(query))
      if (value !== undefined) url.searchParams.set(name, String(value));
    const mayRepeat = isSafe ?? method === "GET";
    for (let attempt = 0; ; attempt += 1) {
      const isLast = !mayRepeat || attempt >= this.#retries;
      let response: Response | undefined;
      try {
        response = await this.#fetch(url, {
          method,
          headers: {
            authorization: `Bearer ${this.#key}`,
            ...(body === undefined ? {} : { "content-type": "application/json" }),
            ...headers,
          },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
          ...(signal === undefined ? {} : { signal }),
        });
      } catch (cause) {
        signal?.throwIfAborted();
        if (isLast) {
          const message = `The server at ${this.#url} cannot be reached`;
          throw new ApiError(message, { status: 0, code: "NETWORK", details: undefined, requestId: undefined, cause });
        }
      }
      if (response !== undefined && (isLast || !RETRIED.has(response.status))) return response;
      await response?.body?.cancel();
      const ms = waitMs(attempt, response?.headers.get("retry-after"));
      await new Promise((resolve) => setTimeout(resolve, ms));
      signal?.throwIfAborted();
    }
  }

  #parse(text: string, response: Response): unknown {
    try {
      return JSON.parse(text);
    } catch (cause) {
      const message = `The server at ${this.#url} did not answer with JSON`;
      const requestId = response.headers.get("x-request-id") ?? undefined;
      throw new ApiError(message, { status: response.status, code: "NETWORK", details: undefined, requestId, cause });
    }
  }
}

function toApiError(response: Response, body: unknown): ApiError {
  const { error } = (body ?? {}) as { readonly error?: { code?: string; message?: string; details?: unknown } };
  return new ApiError(error?.message ?? `The server answered with status ${response.status}`, {
    ...{ status: response.status, code: error?.code ?? "INTERNAL", details: error?.details, cause: undefined },
    requestId: response.headers.get("x-request-id") ?? undefined,
  });
}

/** A call that failed has a status of its own, but its body is the call. */
const isCall = (_status: number, body: unknown): boolean =>
  typeof body === "object" && body !== null && String((body as { readonly id?: unknown }).id).startsWith("call_");

/** The methods that concern one tenant. */
export class TenantClient {
  readonly #client: GloveboxClient;
  readonly #path: string;

  /** @internal use {@link GloveboxClient.tenant} */
  constructor(client: GloveboxClient, path: string) {
    this.#client = client;
    this.#path = path;
  }

  async get(): Promise<Tenant> {
    return await this.#client.request("GET", this.#path);
  }

  async update(changes: {
    readonly name?: string;
    readonly state?: "active" | "suspended";
    readonly policy?: object;
  }): Promise<Tenant> {
    return await this.#client.request("PATCH", this.#path, { body: changes });
  }

  /** Deletes the tenant with everything that it owns. */
  async delete(): Promise<{ readonly receipt: object }> {
    return await this.#client.request("DELETE", this.#path);
  }

  async createKey(key: {
    readonly name: string;
    readonly scopes: readonly string[];
    readonly expiresInDays?: number;
    readonly expiresInMinutes?: number;
  }): Promise<CreatedApiKey> {
    return await this.#client.request("POST", `${this.#path}/keys`, { body: key });
  }

  keys(): AsyncGenerator<ApiKey, void> {
    return this.#client.list(`${this.#path}/keys`);
  }

  async revokeKey(id: string): Promise<void> {
    await this.#client.request("DELETE", `${this.#path}/keys/${segment(id)}`);
  }

  /** Deploys a tool: `{ source }` or `{ files, entry }`, with the options of the API. */
  async deploy(upload: object): Promise<Deployed> {
    return await this.#client.request("POST", `${this.#path}/tools`, { body: upload });
  }

  tools(): AsyncGenerator<ToolSummary, void> {
    return this.#client.list(`${this.#path}/tools`);
  }

  versions(tool: string): AsyncGenerator<ToolVersion, void> {
    return this.#client.list(`${this.#path}/tools/${segment(tool)}/versions`);
  }

  approvals(): AsyncGenerator<Approval, void> {
    return this.#client.list(`${this.#path}/approvals`);
  }

  async approve(tool: string, version: number): Promise<ToolVersion> {
    return await this.#client.request("POST", `${this.#path}/tools/${segment(tool)}/versions/${version}/approve`);
  }

  async setRelease(
    tool: string,
    alias: string,
    versions: readonly { readonly version: number; readonly weight: number }[],
  ): Promise<Release> {
    return await this.#client.request("PUT", `${this.#path}/tools/${segment(tool)}/releases/${segment(alias)}`, {
      body: { versions },
      isSafe: true,
    });
  }

  async rollback(tool: string, alias: string): Promise<Release> {
    return await this.#client.request(
      "POST",
      `${this.#path}/tools/${segment(tool)}/releases/${segment(alias)}/rollback`,
    );
  }

  async deleteTool(tool: string): Promise<void> {
    await this.#client.request("DELETE", `${this.#path}/tools/${segment(tool)}`);
  }

  /**
   * Calls a tool, and returns the call when it has ended, also if it failed.
   * @param options `idempotencyKey`: with it, the request is repeated after a network error, and the tool still runs at most once
   */
  async call(
    tool: string,
    call: CallInput = {},
    {
      idempotencyKey,
      signal,
    }: { readonly idempotencyKey?: string | undefined; readonly signal?: AbortSignal | undefined } = {},
  ): Promise<Call> {
    return await this.#client.request("POST", `${this.#path}/tools/${segment(tool)}/calls`, {
      ...{ body: call, accept: isCall, signal },
      ...(idempotencyKey === undefined ? {} : { headers: { "idempotency-key": idempotencyKey }, isSafe: true }),
    });
  }

  /** Adds a call to the queue, and returns it at once. The request is safe to repeat, because it has an idempotency key. */
  async enqueue(tool: string, call: CallInput = {}, idempotencyKey: string = crypto.randomUUID()): Promise<Call> {
    const headers = { prefer: "respond-async", "idempotency-key": idempotencyKey };
    return await this.#client.request("POST", `${this.#path}/tools/${segment(tool)}/calls`, {
      body: call,
      headers,
      isSafe: true,
    });
  }

  /** Makes up to 100 calls at once, and returns them in the same order when all have ended, also those that failed. */
  async batch(
    calls: readonly (CallInput & { readonly tool: string; readonly idempotencyKey?: string })[],
    { signal }: { readonly signal?: AbortSignal | undefined } = {},
  ): Promise<readonly Call[]> {
    const isSafe = calls.every(({ idempotencyKey }) => idempotencyKey !== undefined);
    const { items } = await this.#client.request<{ readonly items: readonly Call[] }>("POST", `${this.#path}/calls`, {
      ...{ body: { calls }, isSafe, signal },
    });
    return items;
  }

  /** Calls a tool, and yields its log lines, chunks and result as they arrive. */
  stream(tool: string, call: CallInput = {}, signal?: AbortSignal): AsyncGenerator<CallEvent, void> {
    return this.#client.events("POST", `${this.#path}/tools/${segment(tool)}/calls`, { body: call, signal });
  }

  calls(
    filter: { readonly tool?: string | undefined; readonly state?: string | undefined } = {},
  ): AsyncGenerator<Call, void> {
    return this.#client.list(`${this.#path}/calls`, filter);
  }

  async getCall(id: string): Promise<Call> {
    return await this.#client.request("GET", `${this.#path}/calls/${segment(id)}`);
  }

  /** Yields the log lines of a call while it runs, and its result. */
  watch(id: string, signal?: AbortSignal): AsyncGenerator<CallEvent, void> {
    return this.#client.events("GET", `${this.#path}/calls/${segment(id)}/events`, { signal });
  }

  /** Returns what a call did and when: its stages, each use of a capability, and its nested calls. */
  async timeline(id: string): Promise<Timeline> {
    return await this.#client.request("GET", `${this.#path}/calls/${segment(id)}/timeline`);
  }

  async cancelCall(id: string): Promise<void> {
    await this.#client.request("POST", `${this.#path}/calls/${segment(id)}/cancel`);
  }

  secrets(): AsyncGenerator<Secret, void> {
    return this.#client.list(`${this.#path}/secrets`);
  }

  /** Sets a secret. Its value is sent only to these hosts. */
  async setSecret(
    name: string,
    secret: { readonly value: string; readonly hosts: readonly string[] },
  ): Promise<Secret> {
    return await this.#client.request("PUT", `${this.#path}/secrets/${segment(name)}`, { body: secret, isSafe: true });
  }

  async deleteSecret(name: string): Promise<void> {
    await this.#client.request("DELETE", `${this.#path}/secrets/${segment(name)}`);
  }

  schedules(): AsyncGenerator<Schedule, void> {
    return this.#client.list(`${this.#path}/schedules`);
  }

  /** Creates a schedule. Times are in UTC, and runs do not overlap, unless it says otherwise. */
  async createSchedule(schedule: {
    readonly name: string;
    readonly tool: string;
    readonly cron: string;
    readonly timeZone?: string;
    readonly input?: unknown;
    readonly alias?: string;
    readonly overlap?: Schedule["overlap"];
    readonly catchUp?: Schedule["catchUp"];
  }): Promise<Schedule> {
    return await this.#client.request("POST", `${this.#path}/schedules`, { body: schedule });
  }

  async updateSchedule(
    id: string,
    changes: Partial<Pick<Schedule, "cron" | "timeZone" | "input" | "alias" | "overlap" | "catchUp" | "state">>,
  ): Promise<Schedule> {
    return await this.#client.request("PATCH", `${this.#path}/schedules/${segment(id)}`, {
      body: changes,
      isSafe: true,
    });
  }

  async deleteSchedule(id: string): Promise<void> {
    await this.#client.request("DELETE", `${this.#path}/schedules/${segment(id)}`);
  }

  webhooks(): AsyncGenerator<Webhook, void> {
    return this.#client.list(`${this.#path}/webhooks`);
  }

  /** Creates a webhook, and returns it with its signing secret, which is shown only now. */
  async createWebhook(webhook: { readonly url: string; readonly events: Webhook["events"] }): Promise<CreatedWebhook> {
    return await this.#client.request("POST", `${this.#path}/webhooks`, { body: webhook });
  }

  async deleteWebhook(id: string): Promise<void> {
    await this.#client.request("DELETE", `${this.#path}/webhooks/${segment(id)}`);
  }

  /** Yields the deliveries of a webhook, the newest first. */
  deliveries(webhookId: string): AsyncGenerator<Delivery, void> {
    return this.#client.list(`${this.#path}/webhooks/${segment(webhookId)}/deliveries`);
  }

  async redeliver(webhookId: string, id: string): Promise<void> {
    const path = `${this.#path}/webhooks/${segment(webhookId)}/deliveries/${segment(id)}/redeliver`;
    await this.#client.request("POST", path);
  }

  triggers(): AsyncGenerator<Trigger, void> {
    return this.#client.list(`${this.#path}/triggers`);
  }

  /** Creates a trigger, and returns it with its signing secret, which is shown only now. */
  async createTrigger(trigger: {
    readonly name: string;
    readonly tool: string;
    readonly alias?: string;
    readonly verification?: Trigger["verification"];
    readonly secret?: string;
  }): Promise<CreatedTrigger> {
    return await this.#client.request("POST", `${this.#path}/triggers`, { body: trigger });
  }

  async deleteTrigger(id: string): Promise<void> {
    await this.#client.request("DELETE", `${this.#path}/triggers/${segment(id)}`);
  }

  /** Yields the values of a tool by key. */
  values(tool: string, { prefix }: { readonly prefix?: string } = {}): AsyncGenerator<KvValue, void> {
    return this.#client.list(`${this.#path}/kv/${segment(tool)}`, { prefix });
  }

  async setValue(tool: string, key: string, value: unknown): Promise<KvValue> {
    const path = `${this.#path}/kv/${segment(tool)}/values/${segment(key)}`;
    return await this.#client.request("PUT", path, { body: { value }, isSafe: true });
  }

  async deleteValue(tool: string, key: string): Promise<void> {
    await this.#client.request("DELETE", `${this.#path}/kv/${segment(tool)}/values/${segment(key)}`);
  }

  /** Returns the usage by hour and outcome. Default: the last 30 days. */
  async usage(
    filter: { readonly from?: number; readonly until?: number; readonly tool?: string } = {},
  ): Promise<readonly Usage[]> {
    const { items } = await this.#client.request<{ readonly items: readonly Usage[] }>("GET", `${this.#path}/usage`, {
      query: filter,
    });
    return items;
  }

  /** Returns the limits of the tenant, and what is left of them. */
  async quotas(): Promise<Quotas> {
    return await this.#client.request("GET", `${this.#path}/quotas`);
  }

  audit(): AsyncGenerator<AuditEntry, void> {
    return this.#client.list(`${this.#path}/audit`);
  }
}

/**
 * Creates a client of a server.
 * @throws {TypeError} for a URL that is not http or https, or a missing key
 */
export function createClient(options: ClientOptions): GloveboxClient {
  const known = ["url", "key", "retries", "fetch"];
  const unknown = Object.keys(options).find((name) => !known.includes(name));
  if (unknown !== undefined) throw new TypeError(`options.${unknown}: Unknown option. Expected ${known.join(", ")}`);
  const { url, key, retries } = options;
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
    throw new TypeError("options.url: Expected an http or https URL");
  if (typeof key !== "string" || key === "") throw new TypeError("options.key: Expected an API key");
  if (retries !== undefined && !(Number.isInteger(retries) && retries >= 0 && retries <= 10)) {
    throw new TypeError("options.retries: Expected a whole number from 0 to 10");
  }
  return new GloveboxClient(options);
}
