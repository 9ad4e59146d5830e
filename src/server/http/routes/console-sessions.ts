// Routes of the console's sessions: sign in with an API key, list the sessions of this key or of all, and end one.

import { z } from "@hono/zod-openapi";
import type { Context } from "hono";
import { createSessionToken, SESSION_MS, toSessionCookie } from "../../auth/console-session.ts";
import { createId } from "../../ids.ts";
import { appendAudit } from "../../records/audit/audit.ts";
import {
  type ConsoleSessionRecord,
  deleteSession,
  insertSession,
  listAllSessions,
  listSessions,
} from "../../records/tenants/console-sessions.ts";
import { changeExclusively } from "../../records/write-lock.ts";
import type { App, AppEnv, ServerDependencies } from "../context.ts";
import { checkRate } from "../guard.ts";
import { nextCursor, toPage } from "../pages.ts";
import { RequestError } from "../request-error.ts";
import { respondWithJson } from "../responses.ts";
import { addRoute, json } from "../route.ts";
import { IdSchema, idPageQuery, OkSchema, pageOf, TimeSchema } from "../schemas/common.ts";
import { PrincipalSchema } from "../schemas/tenants.ts";

const MAX_USER_AGENT = 300;
const MAX_SIGN_IN_BYTES = 1_024;
const LOOPBACK = /^(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?$/i;

const SignInSchema = z.strictObject({ key: z.string().min(1).max(200) }).openapi("SignIn");
const SignInMethodsSchema = z
  .strictObject({ oidc: z.boolean().describe("Whether an identity provider is configured: /console/sign-in") })
  .openapi("SignInMethods");
export const ConsoleSessionSchema = z
  .strictObject({
    id: z.string(),
    keyId: z.string().describe("The key or the user that has signed in"),
    tenantId: z.string().nullable().describe("Null for a session that may act for every tenant"),
    ip: z.string().nullable(),
    userAgent: z.string(),
    createdAt: TimeSchema,
    expiresAt: TimeSchema,
    isCurrent: z.boolean().describe("Whether this request belongs to the session"),
  })
  .openapi("ConsoleSession");

const show = (session: ConsoleSessionRecord, currentId: string | undefined): object => ({
  id: session.id,
  keyId: session.key_id,
  tenantId: session.tenant_id,
  ip: session.ip,
  userAgent: session.user_agent,
  createdAt: session.created_at,
  expiresAt: session.expires_at,
  isCurrent: session.id === currentId,
});

/** Browsers treat this machine as secure without TLS. */
const isSecure = (c: Context<AppEnv>): boolean => !LOOPBACK.test(c.req.header("host") ?? "");

export function addConsoleSessionRoutes(app: App, dependencies: ServerDependencies): void {
  const { database, authenticator } = dependencies;

  /** @param keyId the key or user that the session must belong to. Default: any */
  const end = async (c: Context<AppEnv>, session: string, keyId?: string): Promise<void> => {
    const ended = await changeExclusively(database, async (transaction) => {
      const deleted = await deleteSession(transaction, session, keyId);
      if (deleted !== undefined)
        await appendAudit(transaction, {
          actor: c.get("actor"),
          tenantId: deleted.tenant_id,
          action: "console.signed_out",
          target: session,
          details: { keyId: deleted.key_id },
        });
      return deleted;
    });
    authenticator.clear();
    if (ended === undefined) throw new RequestError("NOT_FOUND", "There is no such session");
  };
  addRoute(
    app,
    dependencies,
    "POST /v1/console/sessions",
    {
      summary: "Signs in to the console",
      description:
        "Returns who the key belongs to, and sets a cookie that stands for the key for twelve hours. Other requests that change something need the header `X-Glovebox-Console` with the cookie.",
      body: SignInSchema,
      // Read before the sender is known.
      maxBodyBytes: MAX_SIGN_IN_BYTES,
      responses: {
        201: json(PrincipalSchema, "Signed in"),
        401: { description: "The key is not valid" },
        429: { description: "The key has sent more requests than its rate limit allows" },
      },
    },
    async (c, { body }) => {
      const principal = await authenticator.authenticate(`Bearer ${body.key}`);
      // A token of an identity provider has no key that a session could end with.
      if (principal === undefined || !principal.keyId.startsWith("key_"))
        throw new RequestError("UNAUTHENTICATED", "This key is not valid. Expected an API key: gbx_…");
      // The key is in the body, so the guard of the route has not counted this request.
      await checkRate(c, principal, dependencies);
      const { token, hash } = createSessionToken();
      const now = dependencies.database.clock.now();
      const id = createId("session", now);
      const ip = c.env?.incoming?.socket?.remoteAddress ?? null;
      const { keyId, tenantId, scopes } = principal;
      const expiresAt = Math.min(now + SESSION_MS, principal.expiresAt ?? Number.POSITIVE_INFINITY);
      await changeExclusively(database, async (transaction) => {
        await insertSession(transaction, {
          id,
          tenant_id: tenantId,
          key_id: keyId,
          hash,
          ip,
          scopes: null,
          user_agent: (c.req.header("user-agent") ?? "").slice(0, MAX_USER_AGENT),
          created_at: now,
          expires_at: now + SESSION_MS,
        });
        const actor = { name: `key:${keyId}`, ip, requestId: c.get("requestId") };
        await appendAudit(transaction, { actor, tenantId, action: "console.signed_in", target: id, details: {} });
      });
      c.header("set-cookie", toSessionCookie(token, { isSecure: isSecure(c), maxAgeMs: SESSION_MS }));
      return respondWithJson(c, { keyId, tenantId, scopes: [...scopes], expiresAt }, 201);
    },
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/console/sign-in-methods",
    {
      summary: "Returns how people can sign in to the console",
      responses: { 200: json(SignInMethodsSchema, "The methods; a key is always possible") },
    },
    (c, _input) => respondWithJson(c, { oidc: dependencies.oidc !== undefined }),
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/console/sessions",
    {
      summary: "Lists the console's sessions of this key",
      responses: { 200: json(pageOf(ConsoleSessionSchema), "The sessions, the newest first") },
    },
    async (c, _input) => {
      const { keyId, sessionId } = c.get("principal");
      const sessions = await listSessions(database.db, keyId, dependencies.database.clock.now());
      return respondWithJson(c, { items: sessions.map((session) => show(session, sessionId)), next: null });
    },
  );
  addRoute(
    app,
    dependencies,
    "DELETE /v1/console/sessions/{session}",
    {
      summary: "Ends a session of this key at once",
      params: z.strictObject({ session: IdSchema }),
      responses: { 200: json(OkSchema, "Ended") },
    },
    async (c, { params }) => {
      const { keyId, sessionId } = c.get("principal");
      await end(c, params.session, keyId);
      if (params.session === sessionId)
        c.header("set-cookie", toSessionCookie("", { isSecure: isSecure(c), maxAgeMs: 0 }));
      return respondWithJson(c, { ok: true });
    },
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/sessions",
    {
      summary: "Lists the console's sessions of all keys and users",
      query: idPageQuery("session"),
      responses: { 200: json(pageOf(ConsoleSessionSchema), "The sessions, the newest first") },
    },
    async (c, { query: { limit, cursor } }) => {
      const wanted = { before: cursor, limit: limit + 1 };
      const page = toPage(await listAllSessions(database.db, database.clock.now(), wanted), limit);
      const items = page.rows.map((session) => show(session, c.get("principal").sessionId));
      return respondWithJson(c, { items, next: nextCursor(page, ({ id }) => id) });
    },
  );
  addRoute(
    app,
    dependencies,
    "DELETE /v1/sessions/{session}",
    {
      summary: "Ends a session of any key or user at once",
      description: "The user can sign in again, unless the key is revoked or the identity provider denies it.",
      params: z.strictObject({ session: IdSchema }),
      responses: { 200: json(OkSchema, "Ended") },
    },
    async (c, { params }) => {
      await end(c, params.session);
      return respondWithJson(c, { ok: true });
    },
  );
}
