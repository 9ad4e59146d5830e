// Finds out who sends a request: the API key in its Authorization header, and the tenant that its path names.
import * as z from "zod";
import type { Db } from "../database/open-database.ts";
import { type ApiKey, findKeyByHash, findKeyById, storeLastUses } from "../records/api-keys.ts";
import { type ConsoleSession, findSessionByHash } from "../records/console-sessions.ts";
import { readJson } from "../records/json.ts";
import { findTenant, type Tenant } from "../records/tenants.ts";
import { hashOfKey, isApiKey } from "./api-key.ts";
import { hashOfToken, readSessionCookie } from "./console-session.ts";
import type { Principal } from "./principal.ts";
import { SCOPES } from "./scopes.ts";
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
  readonly session: ConsoleSession;
  /** Undefined for a user of an identity provider. */
  readonly key: ApiKey | undefined;
}

const ScopesSchema = z.array(z.enum(SCOPES));

/** Returns who has a session that belongs to no key. */
function toUser({ key_id, tenant_id, scopes }: ConsoleSession): Principal | undefined {
  // Only a key can act for the platform.
  if (tenant_id === null || scopes === null) return undefined;
  const granted = readJson(ScopesSchema, scopes, "list of scopes");
  return { keyId: key_id, tenantId: tenant_id, scopes: new Set(granted), rateLimit: null };
}

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

export class Authenticator implements AsyncDisposable {
  readonly #db: Db;
  readonly #tokens: TokenVerifier | undefined;
  readonly #keys: RowCache<ApiKey>;
  readonly #tenants: RowCache<Tenant>;
  readonly #sessions: RowCache<FoundSession>;
  readonly #lastUses = new Map<string, number>();
  readonly #timer: NodeJS.Timeout;
  /** Counts the changes, so that a row that was read before a change is not kept after it. */
  #generation = 0;

  /**
   * @param isShared whether other processes change the database too: then each request reads it
   * @param tokens verifies tokens that are no API keys. Default: there are none
   */
  constructor(db: Db, isShared: boolean, tokens?: TokenVerifier) {
    this.#db = db;
    this.#tokens = tokens;
    const ttlMs = isShared ? 0 : CACHE_MS;
    this.#keys = new RowCache(ttlMs);
    this.#tenants = new RowCache(ttlMs);
    this.#sessions = new RowCache(ttlMs);
    this.#timer = setInterval(() => void this.#storeLastUses().catch(() => {}), LAST_USE_MS);
    this.#timer.unref();
  }

  /**
   * Returns who has this key; undefined for a header that is missing or malformed, and a key that is unknown, expired, revoked or of a tenant
   * that does not exist. All of these look the same to the caller.
   * @param header value of the Authorization header
   * @param cookie value of the Cookie header, which counts only without the other one
   */
  async authenticate(header: string | undefined, cookie?: string): Promise<Principal | undefined> {
    if (header === undefined) return await this.#bySession(readSessionCookie(cookie));
    const key = /^Bearer ([^\s]{1,16384})$/i.exec(header ?? "")?.[1];
    if (key === undefined) return undefined;
    if (!isApiKey(key)) return await this.#tokens?.verify(header as string);
    const row = await this.#keyOf(hashOfKey(key));
    return row && this.#principalOf(row);
  }

  #principalOf(key: ApiKey): Principal | undefined {
    const now = Date.now();
    if (key.revokedAt !== null || (key.expiresAt ?? now + 1) <= now) return undefined;
    this.#lastUses.set(key.id, now);
    return { keyId: key.id, tenantId: key.tenantId, scopes: new Set(key.scopes), rateLimit: key.rateLimit };
  }

  async #bySession(token: string | undefined): Promise<Principal | undefined> {
    if (token === undefined) return undefined;
    const hash = hashOfToken(token);
    const found = this.#sessions.get(hash)?.value ?? (await this.#findSession(hash));
    if (found === undefined || found.session.expires_at <= Date.now()) return undefined;
    const { session, key } = found;
    const principal = key === undefined ? toUser(session) : this.#principalOf(key);
    return principal && { ...principal, sessionId: session.id };
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
  ): Promise<Tenant | undefined> {
    const found = await this.#tenantOf(id);
    return found?.state === "deleting" && !isDeletion ? undefined : found;
  }

  /** Forgets all rows. Called after each change. */
  clear(): void {
    this.#generation += 1;
    this.#keys.clear();
    this.#tenants.clear();
    this.#sessions.clear();
  }

  async #keyOf(hash: string): Promise<ApiKey | undefined> {
    const cached = this.#keys.get(hash);
    if (cached !== undefined) return cached.value;
    const generation = this.#generation;
    const found = await findKeyByHash(this.#db, hash);
    // Unknown keys are not kept: a flood of guesses must not displace the others.
    if (found !== undefined && generation === this.#generation) this.#keys.set(hash, found);
    return found;
  }

  async #tenantOf(id: string): Promise<Tenant | undefined> {
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
