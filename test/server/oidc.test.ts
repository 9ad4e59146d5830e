// Signing in to the console at an identity provider: a real provider over HTTP, with keys, codes and PKCE.
import { createHmac } from "node:crypto";
import type { JWTPayload } from "jose";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { toShownConfig } from "../../src/server/config/shown-config.ts";
import { createServer, type Server } from "../../src/server/index.ts";
import { apiOf } from "./support/api.ts";
import { CLIENT_ID, makeProviderKey, OpenIdProvider } from "./support/openid-provider.ts";
import { STORES, TestStores } from "./support/stores.ts";

const CLIENT_SECRET = "a secret of the client";
const stores = new TestStores();
let provider: OpenIdProvider;
let server: Server;
/** What the provider says of the user, except for what the protocol needs. */
let claims: JWTPayload;
/** Time in ms that has passed without anyone waiting. */
let passed = 0;

async function start(options: object, from: OpenIdProvider = provider): Promise<Server> {
  return await createServer({
    ...options,
    port: 0,
    logLevel: "silent",
    oidc: {
      issuer: from.issuer,
      clientId: CLIENT_ID,
      clientSecret: CLIENT_SECRET,
      publicUrl: "http://127.0.0.1:1",
      scopePrefix: "glovebox:",
    },
  });
}

beforeAll(async () => {
  provider = await OpenIdProvider.start();
  server = await start((await stores.create("sqlite")).options);
  const api = apiOf(server);
  for (const id of ["acme", "beta"]) await api("POST", "/v1/tenants", { id });
});
afterAll(async () => {
  await server.close({ drainMs: 0 });
  await provider[Symbol.asyncDispose]();
  await stores[Symbol.asyncDispose]();
});
beforeEach(() => {
  claims = { scope: "glovebox:tools:read glovebox:calls:read glovebox:tenants:write" };
  provider.isDown = false;
  provider.idToken = (nonce) => provider.sign({ nonce, ...claims });
  const real = performance.now.bind(performance);
  vi.spyOn(performance, "now").mockImplementation(() => real() + passed);
});
afterEach(() => vi.restoreAllMocks());

const cookiesOf = (response: Response): string[] =>
  response.headers.getSetCookie().map((cookie) => cookie.split(";")[0] ?? "");
const visit = (path: string, cookie = "", to: Server = server) =>
  fetch(`${to.url}${path}`, { redirect: "manual", headers: { cookie } });

/** Goes to the provider and returns the path that it leads back to, with the cookie of the attempt. */
async function begin(
  to: Server = server,
): Promise<{ readonly path: string; readonly cookie: string; readonly header: string }> {
  const there = await visit("/console/sign-in", "", to);
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
  const scopes = ["tools:read", "calls:read"];
  expect(me).toEqual({ keyId: "oidc:ada", tenantId: "acme", scopes, expiresAt: expect.any(Number) });
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
  ["without a tenant", { tenant: undefined, scope: "glovebox:tools:read" }],
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

const now = (): number => Math.floor(Date.now() / 1_000);
const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");

/** Returns the header and the payload of an ID token. */
function unsigned(header: object, nonce: string): string {
  return `${encode(header)}.${encode(provider.claims({ nonce, ...claims }))}`;
}

/** Signs with HMAC, and a secret that an attacker may know. */
function signWithSecret(nonce: string, secret: string): string {
  const text = unsigned({ alg: "HS256", kid: "first" }, nonce);
  return `${text}.${createHmac("sha256", secret).update(text).digest("base64url")}`;
}

/** Signs in, and returns where that leads. Only a successful sign-in opens a session. */
async function signIn(to: Server = server): Promise<string | null> {
  const { path, cookie } = await begin(to);
  const response = await visit(path, cookie, to);
  const location = response.headers.get("location");
  const hasSession = cookiesOf(response).some((one) => /^glovebox_session=./.test(one));
  expect([location, hasSession]).toEqual([location, location === "/console"]);
  return location;
}

const RS256 = { alg: "RS256", kid: "first" };
const rejected: readonly (readonly [string, (nonce: string) => Promise<string> | string])[] = [
  ["signed with another key", async (nonce) => provider.sign({ nonce }, {}, await makeProviderKey("first"))],
  [
    "signed with a key that the provider does not publish",
    async (nonce) => provider.sign({ nonce }, {}, await makeProviderKey("unknown")),
  ],
  ["with a changed signature", (nonce) => `${unsigned(RS256, nonce)}.${encode({ not: "a signature" })}`],
  ["with an empty signature", (nonce) => `${unsigned(RS256, nonce)}.`],
  ["with alg none", (nonce) => `${unsigned({ alg: "none" }, nonce)}.`],
  ["with alg none and a signature", (nonce) => `${unsigned({ alg: "none", kid: "first" }, nonce)}.AAAA`],
  ["with an HMAC of the client's secret", (nonce) => signWithSecret(nonce, CLIENT_SECRET)],
  ["with an HMAC of another secret", (nonce) => signWithSecret(nonce, "other")],
  ["with an HMAC of the public key", (nonce) => signWithSecret(nonce, JSON.stringify(provider.keys[0]?.publicJwk))],
  [
    "whose header has its own key",
    async (nonce) => {
      const key = await makeProviderKey("own");
      return await provider.sign({ nonce }, { kid: undefined, jwk: key.publicJwk }, key);
    },
  ],
  ["of the type of an access token", (nonce) => provider.sign({ nonce }, { typ: "at+jwt" })],
  ["with another nonce", () => provider.sign({ nonce: "other" })],
  ["without a nonce", () => provider.sign({})],
  ["of another issuer", (nonce) => provider.sign({ nonce, iss: "https://login.example.com" })],
  ["for another client", (nonce) => provider.sign({ nonce, aud: "other" })],
  ["for several clients, without azp", (nonce) => provider.sign({ nonce, aud: [CLIENT_ID, "other"] })],
  [
    "for several clients, issued to another one",
    (nonce) => provider.sign({ nonce, aud: [CLIENT_ID, "other"], azp: "other" }),
  ],
  ["issued to another client", (nonce) => provider.sign({ nonce, azp: "other" })],
  ["whose azp is no text", (nonce) => provider.sign({ nonce, azp: [CLIENT_ID] })],
  ["that has expired", (nonce) => provider.sign({ nonce, exp: now() - 10 })],
  ["that never expires", (nonce) => provider.sign({ nonce, exp: undefined })],
  ["that is not valid yet", (nonce) => provider.sign({ nonce, nbf: now() + 60 })],
  ["that was issued in the future", (nonce) => provider.sign({ nonce, iat: now() + 300 })],
];
test.for(rejected)("rejects an ID token %s", async ([, makeToken]) => {
  provider.idToken = makeToken;
  expect(await signIn()).toBe("/console?sign-in=failed");
});

const accepted: readonly (readonly [string, (nonce: string) => Promise<string> | string])[] = [
  ["issued to this client", (nonce) => provider.sign({ nonce, aud: [CLIENT_ID, "other"], azp: CLIENT_ID })],
  ["without kid, if the provider has one key", (nonce) => provider.sign({ nonce }, { kid: undefined })],
  ["with typ JWT", (nonce) => provider.sign({ nonce }, { typ: "JWT" })],
  ["of a provider whose clock is ahead", (nonce) => provider.sign({ nonce, iat: now() + 30 })],
];
test.for(accepted)("accepts an ID token %s", async ([, makeToken]) => {
  provider.idToken = makeToken;
  expect(await signIn()).toBe("/console");
});

test("fetches the provider's keys again for a new key, at most once in half a minute", async () => {
  await using own = await OpenIdProvider.start();
  await using other = await start((await stores.create("sqlite")).options, own);
  await apiOf(other)("POST", "/v1/tenants", { id: "acme" });
  const [first] = own.keys;
  expect([await signIn(other), await signIn(other), own.keyRequests]).toEqual(["/console", "/console", 1]);
  const second = await makeProviderKey("second", "ES256");
  own.keys = [second];
  expect([await signIn(other), own.keyRequests]).toEqual(["/console", 2]);
  own.idToken = (nonce) => own.sign({ nonce }, {}, first);
  expect([await signIn(other), own.keyRequests]).toEqual(["/console?sign-in=failed", 2]);
  own.keys = [await makeProviderKey("third")];
  own.idToken = (nonce) => own.sign({ nonce });
  expect([await signIn(other), own.keyRequests]).toEqual(["/console?sign-in=failed", 2]);
  passed += 31_000;
  expect([await signIn(other), own.keyRequests]).toEqual(["/console", 3]);
});

test.for(STORES)(
  "a replayed callback opens no second session on any replica, even if the provider accepts its code (%s)",
  async (kind) => {
    await using own = await OpenIdProvider.start();
    own.acceptsUsedCodes = true;
    await using store = await stores.create(kind);
    const masterKey = Buffer.alloc(32, 7).toString("base64");
    await using one = await start({ ...store.options, masterKey }, own);
    // Only a Postgres can be shared by several replicas.
    await using two = kind === "postgres" ? await start({ ...store.options, masterKey }, own) : undefined;
    await apiOf(one)("POST", "/v1/tenants", { id: "acme" });
    const { path, cookie } = await begin(one);
    const replicas = [one, two ?? one, one, two ?? one];
    const answers = await Promise.all(replicas.map((to) => visit(path, cookie, to)));
    const late = await visit(path, cookie, two ?? one);
    const locations = [...answers, late].map((answer) => answer.headers.get("location")).sort();
    expect(locations).toEqual(["/console", ...Array(4).fill("/console?sign-in=failed")]);
    const opened = [...answers, late].flatMap(cookiesOf).filter((text) => /^glovebox_session=./.test(text));
    expect(opened).toHaveLength(1);
    const listed = (await (await visit("/v1/console/sessions", opened[0], one)).json()) as { items: readonly object[] };
    expect(listed.items).toHaveLength(1);
  },
);

test("a provider that is down leads back to the console, and is asked again later", async () => {
  provider.isDown = true;
  await using other = await start((await stores.create("sqlite")).options);
  const locate = async () =>
    (await fetch(`${other.url}/console/sign-in`, { redirect: "manual" })).headers.get("location");
  expect(await locate()).toBe("/console?sign-in=failed");
  provider.isDown = false;
  expect(await locate()).toContain(`${provider.issuer}/authorize?`);
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

test("a provider that has moved its endpoints is found again without a restart", async () => {
  await using own = await OpenIdProvider.start();
  own.idToken = (nonce) => own.sign({ nonce, ...claims });
  await using store = await stores.create("sqlite");
  await using moved = await start(store.options, own);
  await apiOf(moved)("POST", "/v1/tenants", { id: "acme" });
  const signIn = async (): Promise<string | null> => {
    const { path, cookie } = await begin(moved);
    return (await visit(path, cookie, moved)).headers.get("location");
  };
  expect(await signIn()).toBe("/console");
  expect(await signIn()).toBe("/console");
  expect(own.metadataRequests).toBe(1);
  passed += 6 * 60_000;
  own.prefix = "/moved";
  own.keys = [await makeProviderKey("other")];
  expect(await signIn()).toBe("/console");
  expect(own.metadataRequests).toBe(2);
  // While it cannot be read, the one before is used.
  passed += 6 * 60_000;
  own.isDown = true;
  const there = await visit("/console/sign-in", "", moved);
  expect([there.status, there.headers.get("location")]).toEqual([302, expect.stringContaining(`${own.issuer}/moved/`)]);
  await moved.close({ drainMs: 0 });
});
