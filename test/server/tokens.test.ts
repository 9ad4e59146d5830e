// Tokens of an identity provider, as the HTTP API checks them: keys that change, a provider that is away, and every way in which a token can be
// wrong. The provider's keys come over real HTTP.
import { createHmac } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { base64url, exportSPKI, importJWK, type JWTPayload } from "jose";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { createServer, type Server } from "../../src/server/index.ts";
import { makeKey, OAuthIssuer } from "../support/oauth-issuer.ts";
import { PATIENT_LIMITS } from "../support/patient-limits.ts";
import { apiOf, type Reply } from "./support/api.ts";

const AUDIENCE = "https://tools.example.com";
const folder = mkdtempSync(join(tmpdir(), "glovebox-tokens-"));
let provider: OAuthIssuer;
let server: Server;
/** Time in ms that has passed without anyone waiting. */
let passed = 0;

async function start(issuer: OAuthIssuer, name: string): Promise<Server> {
  const opened = await createServer({
    port: 0,
    dataDir: join(folder, name),
    logLevel: "silent",
    limits: PATIENT_LIMITS,
    jwt: { issuer: issuer.url, audience: AUDIENCE, jwksUri: issuer.jwksUri, tenantClaim: "org" },
  });
  expect((await apiOf(opened)("POST", "/v1/tenants", { id: "acme" })).status).toBe(201);
  return opened;
}

beforeAll(async () => {
  provider = await OAuthIssuer.start("ES256");
  server = await start(provider, "main");
});
afterAll(async () => {
  await server.close({ drainMs: 0 });
  await provider[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});
beforeEach(() => {
  const real = performance.now.bind(performance);
  vi.spyOn(performance, "now").mockImplementation(() => real() + passed);
});
afterEach(() => vi.restoreAllMocks());

const now = (): number => Math.floor(Date.now() / 1_000);
const tokenOf = (
  claims: JWTPayload = {},
  header: { readonly [name: string]: unknown } = {},
  key = provider.keys[0],
): Promise<string> => provider.token(AUDIENCE, { org: "acme", scope: "tools:read", ...claims }, header, key);

interface Denial {
  readonly error: { readonly code: string; readonly message: string };
}
const send = (token: string, to: Server = server): Promise<Reply<Denial>> =>
  apiOf(to, token)<Denial>("GET", "/v1/tenants/acme/tools");

test("a new key is accepted at once, and the one that it replaces no longer", async () => {
  await using issuer = await OAuthIssuer.start("ES256");
  await using own = await start(issuer, "rotation");
  const sign = () => issuer.token(AUDIENCE, { org: "acme", scope: "tools:read" });
  const old = await sign();
  expect((await send(old, own)).status).toBe(200);
  issuer.keys = [await makeKey("second", "ES256")];
  const tokens = await Promise.all(Array.from({ length: 5 }, sign));
  expect(await Promise.all(tokens.map(async (token) => (await send(token, own)).status))).toEqual(Array(5).fill(200));
  expect(await send(old, own)).toMatchObject({ status: 401, body: { error: { code: "UNAUTHENTICATED" } } });
  // Another one within half a minute waits: anyone can send tokens with unknown keys.
  issuer.keys = [await makeKey("third", "ES256")];
  const asked = issuer.asked.length;
  expect((await send(await sign(), own)).status).toBe(401);
  expect(issuer.asked).toHaveLength(asked);
  passed += 31_000;
  expect((await send(await sign(), own)).status).toBe(200);
});

test("while the provider is away, known keys keep working, and unknown ones are rejected", async () => {
  await using issuer = await OAuthIssuer.start("ES256");
  await using own = await start(issuer, "outage");
  const [known] = issuer.keys;
  const sign = (key = known) => issuer.token(AUDIENCE, { org: "acme", scope: "tools:read" }, {}, key);
  expect((await send(await sign(), own)).status).toBe(200);
  issuer.answers.set("/jwks", { status: 502, body: "Bad gateway" });
  const unknown = await makeKey("unknown", "ES256");
  for (const minutes of [0, 1, 11, 20]) {
    passed += minutes * 60_000;
    expect([minutes, (await send(await sign(), own)).status]).toEqual([minutes, 200]);
    const denied = await send(await sign(unknown), own);
    expect([minutes, denied.status, denied.body.error.message]).toEqual([
      ...[minutes, 401, "The token's signature cannot be verified"],
    ]);
  }
  // Keys that no one has confirmed for an hour may have been withdrawn.
  passed += 3_600_000;
  const late = await send(await sign(), own);
  expect([late.status, late.body.error.code, late.headers.get("retry-after")]).toEqual([503, "UNAVAILABLE", "5"]);
  issuer.answers.clear();
  passed += 61_000;
  expect((await send(await sign(), own)).status).toBe(200);
});

test("a provider that is away from the start is no reason to reject a token for good", async () => {
  await using issuer = await OAuthIssuer.start("ES256");
  issuer.answers.set("/jwks", { status: 200, body: "no JSON" });
  await using own = await start(issuer, "cold");
  const token = await issuer.token(AUDIENCE, { org: "acme", scope: "tools:read" });
  expect((await send(token, own)).status).toBe(503);
  issuer.answers.clear();
  passed += 5_000;
  expect((await send(token, own)).status).toBe(200);
});

const wrong: readonly (readonly [string, () => Promise<string> | string, string])[] = [
  ["has expired", () => tokenOf({ exp: now() - 60 }), "has expired"],
  ["never expires", () => tokenOf({ exp: undefined as never }), "no expiration time (exp)"],
  ["is not valid yet", () => tokenOf({ nbf: now() + 60 }), "not valid yet (nbf)"],
  ["was issued in the future", () => tokenOf({ iat: now() + 300 }), "issued in the future (iat)"],
  ["was issued at no number", () => tokenOf({ iat: "now" as never }), "invalid claim"],
  ["is for another server", () => tokenOf({ aud: "https://other.example.com" }), "not issued for this server (aud)"],
  ["is for no server", () => tokenOf({ aud: undefined as never }), "not issued for this server (aud)"],
  ["is of another provider", () => tokenOf({ iss: "https://login.example.com" }), "issuer is not trusted"],
  ["names an unknown key", () => tokenOf({}, { kid: "made-up" }), "signature cannot be verified"],
  ["is not signed", async () => `${base64url.encode('{"alg":"none"}')}.${(await tokenOf()).split(".")[1]}.`, "(alg)"],
  ["has no signature", async () => `${(await tokenOf()).split(".").slice(0, 2).join(".")}.`, "cannot be verified"],
  ["is an HMAC with the public key as its secret", () => confused("ES256"), "(alg)"],
  ["is an HMAC with the public RSA key as its secret", () => confused("RS256"), "(alg)"],
  ["is signed with another key of the same name", async () => tokenOf({}, {}, await makeKey("key-ES256", "ES256")), ""],
  ["names no tenant", () => tokenOf({ org: undefined }), "does not name a tenant (org)"],
  ["names a tenant that is no id", () => tokenOf({ org: "../beta" }), "does not name a tenant (org)"],
  ["names no user", () => tokenOf({ sub: undefined as never }), "does not name its user (sub)"],
  ["is huge", () => tokenOf({ padding: "x".repeat(11_000) }).then((token) => token.slice(0, 15_000)), ""],
  ["has a huge header", () => tokenOf({}, { padding: "x".repeat(8_000) }).then((token) => `${token}x`), ""],
  ["is no JWT", () => "eyJ.eyJ.eyJ", "issuer is not trusted"],
];

async function confused(alg: "ES256" | "RS256"): Promise<string> {
  const key = alg === "ES256" ? provider.keys[0] : await makeKey("key-ES256", alg);
  const publicKey = (await importJWK(key?.publicJwk ?? {}, alg, { extractable: true })) as CryptoKey;
  const text = `${base64url.encode('{"alg":"HS256","kid":"key-ES256"}')}.${(await tokenOf()).split(".")[1]}`;
  return `${text}.${createHmac("sha256", await exportSPKI(publicKey))
    .update(text)
    .digest("base64url")}`;
}

test.for(wrong)("a token that %s gets 401 with the reason", async ([, make, reason]) => {
  const { status, body, headers } = await send(await make());
  expect([status, body.error.code, body.error.message]).toEqual([
    401,
    "UNAUTHENTICATED",
    expect.stringContaining(reason),
  ]);
  expect(headers.get("www-authenticate")).toMatch(
    /^Bearer realm="glovebox", error="invalid_token", error_description="/,
  );
});

test("a token that no header can have does not reach the server's own code", async () => {
  const response = await fetch(`${server.url}/v1/me`, { headers: { authorization: `Bearer ${"x".repeat(60_000)}` } });
  expect(response.status).toBe(431);
});

test("accepts a token whose clock is a little ahead", async () => {
  expect((await send(await tokenOf({ iat: now() + 30 }))).status).toBe(200);
});
