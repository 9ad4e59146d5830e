// Reads which senders of requests still count: for responses that stay open after their sender was authenticated.
import type { Principal } from "../../auth/principal.ts";
import type { Db } from "../../database/open-database.ts";
import { isKeyId } from "./api-keys.ts";

/** Ids in one query. SQLite allows 32,766 parameters. */
const PAGE = 1_000;

export interface LivePrincipals {
  /** Returns whether neither the key nor the session of a principal was revoked or deleted. Its expiry is not checked. */
  isLive(principal: Principal): boolean;
  /** Tenants that exist, and that are not being deleted. */
  readonly tenants: ReadonlySet<string>;
}

async function collect(
  ids: Iterable<string>,
  find: (page: readonly string[]) => Promise<readonly { readonly id: string }[]>,
): Promise<ReadonlySet<string>> {
  const all = [...new Set(ids)];
  const found = new Set<string>();
  for (let from = 0; from < all.length; from += PAGE)
    for (const { id } of await find(all.slice(from, from + PAGE))) found.add(id);
  return found;
}

export async function findLive(
  db: Db,
  principals: readonly Principal[],
  tenantIds: Iterable<string>,
): Promise<LivePrincipals> {
  const keys = await collect(principals.map(({ keyId }) => keyId).filter(isKeyId), (ids) =>
    db.selectFrom("api_keys").select("id").where("id", "in", ids).where("revoked_at", "is", null).execute(),
  );
  const sessions = await collect(
    principals.flatMap(({ sessionId }) => sessionId ?? []),
    (ids) => db.selectFrom("console_sessions").select("id").where("id", "in", ids).execute(),
  );
  const tenants = await collect(tenantIds, (ids) =>
    db.selectFrom("tenants").select("id").where("id", "in", ids).where("state", "!=", "deleting").execute(),
  );
  const isLive = ({ keyId, sessionId }: Principal): boolean =>
    (!isKeyId(keyId) || keys.has(keyId)) && (sessionId === undefined || sessions.has(sessionId));
  return { isLive, tenants };
}
