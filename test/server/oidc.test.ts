// Signing in to the console at an identity provider: a real provider over HTTP, with keys, codes and PKCE.
import { createHash } from "node:crypto";
import { createServer as createHttpServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from "jose";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { toShownConfig } from "../../src/server/config/shown-config.ts";
import { createServer, type Server } from "../../src/server/index.ts";
import { apiOf } from "./support/api.ts";
import { TestStores } from "./support/stores.ts";

const stores = new TestStores();
const provider = createHttpServer();
let issuer: string;
let server: Server;
let keys: Awaited<ReturnType<typeof generateKeyPair>>;
/** What the provider says of the user, and changes of its answers. */
let claims: JWTPayload;
let isDown = false;
let nonceOf: (nonce: string) => string;
/** The parameters of the authorization request for each code. */
const codes = new Map<string, URLSearchParams>();

async function readBody(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const part of request.setEncoding("utf8")) text += part as string;
  return text;
}

async function answer(request: IncomingMessage): Promise<{ status: number; body?: object; location?: string }> {
  const url = new URL(request.url ?? "", issuer);
  if (isDown) return { status: 503, body: {} };
  if (url.pathname === "/.well-known/openid-configuration") {
    return {
      status: 200,
      body: {
        ...{ issuer, authorization_endpoint: `${issuer}/authorize`, token_endpoint: `${issuer}/token` },
        ...{ jwks_uri: `${issuer}/jwks`, response_types_supported: ["code"], subject_types_supported: ["public"] },
        ...{ id_token_signing_alg_values_supported: ["RS256"], code_challenge_methods_supported: ["S256"] },
      },
    };
  }
  if (url.pathname === "/jwks") {
    return {
      status: 200,
      body: { keys: [{ ...(await exportJWK(keys.publicKey)), kid: "k", alg: "RS256", use: "sig" }] },
    };
  }
  if (url.pathname === "/authorize") {
    const code = `code-${codes.size}`;
    codes.set(code, url.searchParams);
    const back = new URL(url.searchParams.get("redirect_uri") ?? "");
    back.searchParams.set("code", code);
    back.searchParams.set("state", url.searchParams.get("state") ?? "");
    return { status: 302, location: back.href };
  }
  const form = new URLSearchParams(await readBody(request));
  const asked = codes.get(form.get("code") ?? "");
  codes.delete(form.get("code") ?? "");
  const challenge = createHash("sha256")
    .update(form.get("code_verifier") ?? "")
    .digest("base64url");
  if (asked === undefined || asked.get("code_challenge") !== challenge)
    return { status: 400, body: { error: "invalid_grant" } };
  const idToken = await new SignJWT({ nonce: nonceOf(asked.get("nonce") ?? ""), ...claims })
    .setProtectedHeader({ alg: "RS256", kid: "k" })
    .setIssuer(issuer)
    .setAudience("console")
    .setIssuedAt()
    .setExpirationTime("5m")
    .sign(keys.privateKey);
  return { status: 200, body: { access_token: "a", token_type: "Bearer", id_token: idToken } };
}

beforeAll(async () => {
  keys = await generateKeyPair("RS256");
  provider.on("request", (request, response) => {
    void answer(request).then(({ status, body, location }) => {
      response.writeHead(status, {
        "content-type": "application/json",
        ...(location === undefined ? {} : { location }),
      });
      response.end(body === undefined ? "" : JSON.stringify(body));
    });
  });
  await new Promise<void>((resolve) => provider.listen(0, "127.0.0.1", resolve));
  issuer = `http://127.0.0.1:${(provider.address() as AddressInfo).port}`;
  const store = await stores.create("sqlite");
  server = await createServer({
    ...{ ...store.options, port: 0, logLevel: "silent" },
    oidc: { issuer, clientId: "console", publicUrl: "http://127.0.0.1:1", scopePrefix: "glovebox:" },
  });
  const api = apiOf(server);
  for (const id of ["acme", "beta"]) await api("POST", "/v1/tenants", { id });
});
afterAll(async () => {
  await server.close({ drainMs: 0 });
  provider.closeAllConnections();
  provider.close();
  await stores[Symbol.asyncDispose]();
});
beforeEach(() => {
  claims = { sub: "ada", tenant: "acme", scope: "glovebox:tools:read glovebox:calls:read glovebox:tenants:write" };
  isDown = false;
  nonceOf = (nonce) => nonce;
});

const cookiesOf = (response: Response): string[] =>
  response.headers.getSetCookie().map((cookie) => cookie.split(";")[0] ?? "");
const visit = (path: string, cookie = "") => fetch(`${server.url}${path}`, { redirect: "manual", headers: { cookie } });

/** Goes to the provider and returns the path that it leads back to, with the cookie of the attempt. */
async function begin(): Promise<{ readonly path: string; readonly cookie: string; readonly header: string }> {
  const there = await visit("/console/sign-in");
  expect(there.status).toBe(302);
  const back = await fetch(there.headers.get("location") ?? "", { redirect: "manual" });
  const { pathname, search } = new URL(back.headers.get("location") ?? "");
  return { path: pathname + search, cookie: cookiesOf(there)[0] ?? "", header: there.headers.getSetCookie()[0] ?? "" };
}

test("a user signs in, and has the scopes of the tenant that the provider names, never those of the platform", async () => {
  const { path, cookie, header } = await begin();
  expect(header).toMatch(/; HttpOnly; SameSite=Lax; Path=\/console\/sign-in; Max-Age=600$/);
  const response = await visit(path, cookie);
  expect([response.status, response.headers.get("location")]).toEqual([302, "/console"]);
  const session = cookiesOf(response).find((one) => one.startsWith("glovebox_session=")) ?? "";
  expect(response.headers.getSetCookie().join()).toContain(
    "glovebox_sign_in=; HttpOnly; SameSite=Lax; Path=/console/sign-in; Max-Age=0",
  );
  const me = await (await visit("/v1/me", session)).json();
  expect(me).toEqual({ keyId: "oidc:ada", tenantId: "acme", scopes: ["tools:read", "calls:read"] });
  expect((await visit("/v1/tenants/acme/tools", session)).status).toBe(200);
  expect((await visit("/v1/tenants/acme/secrets", session)).status).toBe(403);
  expect((await visit("/v1/tenants/beta/tools", session)).status).toBe(404);
  expect((await visit("/v1/tenants", session)).status).toBe(403);
  const { body } = await apiOf(server)<{ items: readonly { action: string; actor: string }[] }>(
    "GET",
    "/v1/tenants/acme/audit",
  );
  expect(body.items[0]).toMatchObject({ action: "console.signed_in", actor: "key:oidc:ada" });
  const listed = (await (await visit("/v1/console/sessions", session)).json()) as { items: readonly { id: string }[] };
  const ended = await fetch(`${server.url}/v1/console/sessions/${listed.items[0]?.id}`, {
    method: "DELETE",
    headers: { cookie: session, "x-glovebox-console": "1" },
  });
  expect(ended.status).toBe(200);
  expect((await visit("/v1/me", session)).status).toBe(401);
});

test.for<readonly [string, JWTPayload]>([
  ["without a tenant", { sub: "ada", scope: "glovebox:tools:read" }],
  ["of a tenant that does not exist", { sub: "ada", tenant: "missing" }],
  ["whose tenant is no text", { sub: "ada", tenant: ["acme"] }],
  ["whose tenant is no id", { sub: "ada", tenant: "../acme" }],
  ["whose name has a line break", { sub: "a\nb", tenant: "acme" }],
])("a user %s receives an error, and gets no session", async ([, given]) => {
  claims = given;
  const { path, cookie } = await begin();
  const response = await visit(path, cookie);
  expect(response.headers.get("location")).toBe("/console?sign-in=no-tenant");
  expect(cookiesOf(response).some((one) => one.startsWith("glovebox_session="))).toBe(false);
});

test("a list of scopes counts as well, and unknown ones do not", async () => {
  claims = { sub: "ada", tenant: "acme", scope: ["glovebox:calls:run", "glovebox:everything", "calls:cancel", 5] };
  const { path, cookie } = await begin();
  const session = cookiesOf(await visit(path, cookie)).find((one) => one.startsWith("glovebox_session=")) ?? "";
  expect(await (await visit("/v1/me", session)).json()).toMatchObject({ scopes: ["calls:run"] });
});

test("an answer counts only once, and only in the browser that began", async () => {
  const first = await begin();
  const second = await begin();
  const outcomes: [string, string, string][] = [
    ["without the cookie", first.path, ""],
    ["with the cookie of another attempt", first.path, second.cookie],
    ["with a changed cookie", first.path, `${first.cookie.slice(0, -2)}AA`],
    ["with another state", first.path.replace(/state=[^&]+/, "state=other"), first.cookie],
    ["with an error", "/console/sign-in/callback?error=access_denied", first.cookie],
    ["with a code that the provider does not know", first.path.replace(/code=[^&]+/, "code=none"), first.cookie],
  ];
  for (const [how, path, cookie] of outcomes) {
    const response = await visit(path, cookie);
    expect([how, response.headers.get("location")]).toEqual([how, "/console?sign-in=failed"]);
  }
  expect((await visit(second.path, second.cookie)).headers.get("location")).toBe("/console");
  expect((await visit(second.path, second.cookie)).headers.get("location")).toBe("/console?sign-in=failed");
});

test("a token with another nonce is rejected", async () => {
  nonceOf = () => "other";
  const { path, cookie } = await begin();
  expect((await visit(path, cookie)).headers.get("location")).toBe("/console?sign-in=failed");
});

test("a provider that is down leads back to the console, and is asked again later", async () => {
  const store = await stores.create("sqlite");
  isDown = true;
  await using other = await createServer({
    ...{ ...store.options, port: 0, logLevel: "silent" },
    oidc: { issuer, clientId: "console", publicUrl: "http://127.0.0.1:1" },
  });
  const locate = async () =>
    (await fetch(`${other.url}/console/sign-in`, { redirect: "manual" })).headers.get("location");
  expect(await locate()).toBe("/console?sign-in=failed");
  isDown = false;
  expect(await locate()).toContain(`${issuer}/authorize?`);
});

test("the console offers it only where it is configured, and its secret is not shown", async () => {
  const methods = async (url: string) => await (await fetch(`${url}/v1/console/sign-in-methods`)).json();
  expect(await methods(server.url)).toEqual({ oidc: true });
  const store = await stores.create("sqlite");
  await using plain = await createServer({ ...store.options, port: 0, logLevel: "silent" });
  expect(await methods(plain.url)).toEqual({ oidc: false });
  const oidc = {
    issuer: "https://login.example.com",
    clientId: "c",
    clientSecret: "hidden",
    publicUrl: "https://a.example.com",
  };
  const { parseServerOptions } = await import("../../src/server/config/server-options.ts");
  expect(JSON.stringify(toShownConfig(parseServerOptions({ oidc })))).not.toContain("hidden");
  expect(() => parseServerOptions({ oidc: { ...oidc, issuer: "http://login.example.com" } })).toThrow(
    "Expected an https URL",
  );
  expect(() => parseServerOptions({ oidc: { ...oidc, publicUrl: "http://127.0.0.1.evil.example.com" } })).toThrow(
    "Expected an https URL",
  );
});
