// Declares the sender of a request, as its API key or token shows.
import type { KeyRateLimit } from "../records/tenants/api-keys.ts";
import type { Scope } from "./scopes.ts";

/** Who sends a request. */
export interface Principal {
  readonly keyId: string;
  /** Null for a key of the platform, which may act for every tenant. */
  readonly tenantId: string | null;
  readonly scopes: ReadonlySet<Scope>;
  /** Limit of the requests of this caller; null for none. */
  readonly rateLimit: KeyRateLimit | null;
  /** When the key, token or session expires, in ms since 1970; null if it does not. */
  readonly expiresAt: number | null;
  /** Session of the console that sends the request, by its cookie. */
  readonly sessionId?: string;
}
