// Identifies the sender of a request by API key, token or console session, and finds the tenant that its path names.
import type { WallClock } from "../database/database-clock.ts";
import type { Db, OpenDatabase } from "../database/open-database.ts";
import { parseColumn } from "../records/json.ts";
import { type ApiKeyRecord, findKeyByHash, findKeyById, isKeyId, storeLastUses } from "../records/tenants/api-keys.ts";
import { type ConsoleSessionRecord, findSessionByHash } from "../records/tenants/console-sessions.ts";
import { findTenant, TENANT_ID_PATTERN, type TenantRecord } from "../records/tenants/tenants.ts";
import { hashOfKey, isApiKey } from "./api-key.ts";
import { hashOfToken, readSessionCookie } from "./console-session.ts";
import type { Principal } from "./principal.ts";
import { StoredScopesSchema } from "./scopes.ts";
import type { TokenVerifier } from "./token-verifier.ts";

/** Time in ms for which rows are kept in memory with SQLite, where this process makes all changes and clears them at once. */
const CACHE_MS = 1_000;
const MAX_CACHED = 10_000;
const LAST_USE_MS = 10_000;

interface Cached<Value> {
  readonly value: Value;
  readonly until: number;
}

interface FoundSession {
  readonly session: ConsoleSessionRecord;
  /** Undefined for a user of an identity provider. */
  readonly key: ApiKeyRecord | undefined;
}

/** Returns the principal of a session that belongs to no key. */
function toUser({ key_id, tenant_id, scopes, expires_at }: ConsoleSessionRecord): Principal | undefined {
  // Only a key can act for the platform.
  if (tenant_id === null || scopes === null) return undefined;
  const granted = parseColumn(StoredScopesSchema, scopes, "list of scopes");
  return { keyId: key_id, tenantId: tenant_id, scopes: new Set(granted), rateLimit: null, expiresAt: expires_at };
}

/** Who may act for a tenant: a principal, or the caller of a call that another replica passes on. */
type Sender = Pick<Principal, "tenantId">;

/** Why a sender may not act for a tenant: the tenant does not exist any more, or the sender may not act, or not for this tenant. */
export type AccessDenial = "no_tenant" | "key_revoked";

class RowCache<Value> {
  readonly #rows = new Map<string, Cached<Value>>();
  readonly #ttlMs: number;

  constructor(ttlMs: number) {
    this.#ttlMs = ttlMs;
  }

  get(key: string): Cached<Value> | undefined {
    const found = this.#rows.get(key);
    return found !== undefined && found.until > performance.now() ? found : undefined;
  }

  set(key: string, value: Value): void {
    if (this.#ttlMs === 0) return;
    if (this.#rows.size >= MAX_CACHED) this.#rows.clear();
    this.#rows.set(key, { value, until: performance.now() + this.#ttlMs });
  }

  clear(): void {
    this.#rows.clear();
  }
}

export class RequestAuthenticator implements AsyncDisposable {
  readonly #db: Db;
  readonly #clock: WallClock;
  readonly #tokens: TokenVerifier | undefined;
  readonly #keys: RowCache<ApiKeyRecord>;
  readonly #tenants: RowCache<TenantRecord>;
  readonly #sessions: RowCache<FoundSession>;
  readonly #lastUses = new Map<string, number>();
  readonly #timer: NodeJS.Timeout;
  /** Counts the changes, so that a row that was read before a change is not kept after it. */
  #generation = 0;

  /**
   * @param database with Postgres, other processes change it too, and each request reads it
   * @param tokens verifies tokens that are not API keys. Default: no such tokens are accepted
   */
  constructor({ db, kind, clock }: Pick<OpenDatabase, "db" | "kind" | "clock">, tokens?: TokenVerifier) {
    this.#db = db;
    this.#clock = clock;
    this.#tokens = tokens;
    const ttlMs = kind === "postgres" ? 0 : CACHE_MS;
    this.#keys = new RowCache(ttlMs);
    this.#tenants = new RowCache(ttlMs);
    this.#sessions = new RowCache(ttlMs);
    this.#timer = setInterval(() => void this.#storeLastUses().catch(() => {}), LAST_USE_MS);
    this.#timer.unref();
  }

  /**
   * Returns the principal of a request; undefined for a header that is missing or malformed, and a key that is unknown,
   * expired, revoked or of a tenant that does not exist. All of these look the same to the caller.
   * @param header value of the Authorization header
   * @param cookie value of the Cookie header, ignored if there is an Authorization header
   * @throws {RequestError} as {@link TokenVerifier.verify}
   */
  async authenticate(header: string | undefined, cookie?: string): Promise<Principal | undefined> {
    if (header === undefined) return await this.#bySession(readSessionCookie(cookie));
    const key = /^Bearer ([^\s]{1,16384})$/i.exec(header ?? "")?.[1];
    if (key === undefined) return undefined;
    if (!isApiKey(key)) return await this.#tokens?.verify(header as string);
    const row = await this.#keyOf(hashOfKey(key));
    return row && this.#principalOf(row);
  }

  #principalOf(key: ApiKeyRecord): Principal | undefined {
    const now = this.#clock.now();
    if (key.revokedAt !== null || (key.expiresAt ?? now + 1) <= now) return undefined;
    this.#lastUses.set(key.id, now);
    const { id: keyId, tenantId, rateLimit, expiresAt } = key;
    return { keyId, tenantId, scopes: new Set(key.scopes), rateLimit, expiresAt };
  }

  async #bySession(token: string | undefined): Promise<Principal | undefined> {
    if (token === undefined) return undefined;
    const hash = hashOfToken(token);
    const found = this.#sessions.get(hash)?.value ?? (await this.#findSession(hash));
    if (found === undefined || found.session.expires_at <= this.#clock.now()) return undefined;
    const { session, key } = found;
    const principal = key === undefined ? toUser(session) : this.#principalOf(key);
    if (principal === undefined) return undefined;
    const expiresAt = Math.min(session.expires_at, principal.expiresAt ?? session.expires_at);
    return { ...principal, expiresAt, sessionId: session.id };
  }

  async #findSession(hash: string): Promise<FoundSession | undefined> {
    const generation = this.#generation;
    const session = await findSessionByHash(this.#db, hash);
    if (session === undefined) return undefined;
    const key = session.scopes === null ? await findKeyById(this.#db, session.key_id) : undefined;
    if (session.scopes === null && key === undefined) return undefined;
    const found = { session, key };
    if (generation === this.#generation) this.#sessions.set(hash, found);
    return found;
  }

  /** Returns a tenant. One whose deletion has begun counts as missing, except for a request that deletes it again. */
  async tenant(
    id: string,
    { isDeletion = false }: { readonly isDeletion?: boolean } = {},
  ): Promise<TenantRecord | undefined> {
    const found = await this.#tenantOf(id);
    return found?.state === "deleting" && !isDeletion ? undefined : found;
  }

  /**
   * Returns the tenant that a request or a call of a sender is for, if the sender may act for it now. Each right to a tenant is decided here: for
   * requests of clients, and for requests and calls that other replicas pass on.
   * @param sender undefined for one that is not valid any more
   */
  async access(
    sender: Sender | undefined,
    tenantId: string,
    options?: { readonly isDeletion?: boolean },
  ): Promise<TenantRecord | AccessDenial> {
    // A text that cannot be an id, such as one with a NUL, is not looked up: Postgres would reject it.
    const mayAct = sender?.tenantId === null ? TENANT_ID_PATTERN.test(tenantId) : sender?.tenantId === tenantId;
    // Another tenant is not looked up, so that the time of the answer does not tell whether it exists.
    if (sender !== undefined && !mayAct) return "key_revoked";
    const tenant = await this.tenant(tenantId, options);
    if (tenant === undefined) return "no_tenant";
    return sender === undefined ? "key_revoked" : tenant;
  }

  /**
   * Returns the caller of a call that another replica passes on, as it is now; undefined for a key that is revoked, expired or removed. A caller
   * that is not a key, such as a user, belongs to the tenant of its call: the other replica has verified its token or session.
   */
  async caller(callerId: string, tenantId: string): Promise<Sender | undefined> {
    if (!isKeyId(callerId)) return { tenantId };
    const key = await findKeyById(this.#db, callerId);
    return key && this.#principalOf(key);
  }

  /** Forgets all rows. Called after each change. */
  clear(): void {
    this.#generation += 1;
    this.#keys.clear();
    this.#tenants.clear();
    this.#sessions.clear();
  }

  async #keyOf(hash: string): Promise<ApiKeyRecord | undefined> {
    const cached = this.#keys.get(hash);
    if (cached !== undefined) return cached.value;
    const generation = this.#generation;
    const found = await findKeyByHash(this.#db, hash);
    // Unknown keys are not kept: a flood of guesses must not displace the others.
    if (found !== undefined && generation === this.#generation) this.#keys.set(hash, found);
    return found;
  }

  async #tenantOf(id: string): Promise<TenantRecord | undefined> {
    const cached = this.#tenants.get(id);
    if (cached !== undefined) return cached.value;
    const generation = this.#generation;
    const found = await findTenant(this.#db, id);
    if (found !== undefined && generation === this.#generation) this.#tenants.set(id, found);
    return found;
  }

  async #storeLastUses(): Promise<void> {
    if (this.#lastUses.size === 0) return;
    const uses = new Map(this.#lastUses);
    this.#lastUses.clear();
    await storeLastUses(this.#db, uses);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    await this.#storeLastUses();
  }
}
