// The pages of a sign-in at the identity provider: the way there, and the way back.
import type { Context } from "hono";
import { getCookie } from "hono/cookie";
import { createSessionToken, SESSION_MS, toSessionCookie } from "../auth/console-session.ts";
import { CALLBACK_PATH, type OidcUser, SIGN_IN_MS, SIGN_IN_PATH } from "../auth/oidc.ts";
import { createId } from "../ids.ts";
import { appendAudit } from "../records/audit/audit.ts";
import { claimSignIn, insertSession } from "../records/tenants/console-sessions.ts";
import { changeExclusively } from "../records/write-lock.ts";
import type { App, AppEnv, ServerDependencies } from "./context.ts";

const COOKIE = "glovebox_sign_in";
const MAX_USER_AGENT = 300;

/** Returns the cookie of an attempt. It is `Lax`, because the provider's page leads back here. */
function toAttemptCookie(sealed: string, maxAgeMs: number, isSecure: boolean): string {
  const flags = ["HttpOnly", "SameSite=Lax", `Path=${SIGN_IN_PATH}`, `Max-Age=${Math.floor(maxAgeMs / 1_000)}`];
  return [`${COOKIE}=${sealed}`, ...flags, ...(isSecure ? ["Secure"] : [])].join("; ");
}

/** Adds the pages, if the operator has configured a provider. */
export function addOidcRoutes(app: App, dependencies: ServerDependencies): void {
  const { oidc, database, authenticator } = dependencies;
  if (oidc === undefined) return;
  const isSecure = oidc.redirectUri.startsWith("https:");

  const fail = (c: Context<AppEnv>, why: "failed" | "no-tenant", thrown?: unknown): Response => {
    if (thrown !== undefined) dependencies.onError(thrown, c.get("requestId"));
    c.header("set-cookie", toAttemptCookie("", 0, isSecure), { append: true });
    return c.redirect(`/console?sign-in=${why}`, 302);
  };
  const startSession = async (
    c: Context<AppEnv>,
    { subject, tenantId, scopes, attemptHash }: OidcUser,
  ): Promise<void> => {
    const { token, hash } = createSessionToken();
    const now = dependencies.database.clock.now();
    const id = createId("session", now);
    const keyId = `oidc:${subject}`;
    const ip = c.env?.incoming?.socket?.remoteAddress ?? null;
    await changeExclusively(database, async (transaction) => {
      // The attempt and the table's rows expire by the same clock. The margin is for replicas that do not read it at the same moment.
      const isFirst = await claimSignIn(transaction, attemptHash, now + 2 * SIGN_IN_MS);
      if (!isFirst) throw new Error("The sign-in was already used");
      await insertSession(transaction, {
        id,
        tenant_id: tenantId,
        key_id: keyId,
        hash,
        ip,
        scopes: JSON.stringify(scopes),
        user_agent: (c.req.header("user-agent") ?? "").slice(0, MAX_USER_AGENT),
        created_at: now,
        expires_at: now + SESSION_MS,
      });
      const actor = { name: `key:${keyId}`, ip, requestId: c.get("requestId") };
      await appendAudit(transaction, { actor, tenantId, action: "console.signed_in", target: id, details: { scopes } });
    });
    c.header("set-cookie", toSessionCookie(token, { isSecure, maxAgeMs: SESSION_MS }), { append: true });
  };

  app.get(SIGN_IN_PATH, async (c) => {
    try {
      const { url, sealed } = await oidc.begin();
      c.header("set-cookie", toAttemptCookie(sealed, SIGN_IN_MS, isSecure));
      return c.redirect(url, 302);
    } catch (thrown) {
      return fail(c, "failed", thrown);
    }
  });
  app.get(CALLBACK_PATH, async (c) => {
    const sealed = getCookie(c, COOKIE);
    if (sealed === undefined) return fail(c, "failed");
    try {
      const user = await oidc.end(new URL(c.req.url).search, sealed);
      if (user === undefined || (await authenticator.tenant(user.tenantId)) === undefined) return fail(c, "no-tenant");
      await startSession(c, user);
    } catch (thrown) {
      return fail(c, "failed", thrown);
    }
    c.header("set-cookie", toAttemptCookie("", 0, isSecure), { append: true });
    return c.redirect("/console", 302);
  });
}
