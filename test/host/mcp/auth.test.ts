import { createHmac } from "node:crypto";
import { base64url, exportSPKI, importJWK, type JWTPayload } from "jose";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { ALGORITHMS } from "../../../src/host/mcp/server/authorization/access-token.ts";
import { createResourceServer, type ResourceServerOptions } from "../../../src/host/mcp/server/authorization/auth.ts";
import type { AuthenticatedCaller } from "../../../src/host/mcp/server/authorization/caller.ts";
import { metadataUrls } from "../../../src/host/mcp/server/authorization/issuer-keys.ts";
import { ToolError } from "../../../src/sandbox/contract/errors.ts";
import { makeKey, OAuthIssuer } from "../../support/oauth-issuer.ts";

const RESOURCE = "https://tools.example.com/mcp";
const METADATA_URL = "https://tools.example.com/.well-known/oauth-protected-resource/mcp";

let issuer: OAuthIssuer;
beforeAll(async () => {
  issuer = await OAuthIssuer.start("ES256");
});
afterAll(async () => await issuer[Symbol.asyncDispose]());

const serverOf = (options: Partial<ResourceServerOptions> = {}) =>
  createResourceServer({ resource: RESOURCE, authorizationServers: [issuer.url], ...options });

const requestWith = (authorization?: string): Request =>
  new Request(RESOURCE, { method: "POST", ...(authorization === undefined ? {} : { headers: { authorization } }) });

async function denialOf(server: ReturnType<typeof serverOf>, authorization?: string): Promise<Response> {
  const answer = await server.authenticate(requestWith(authorization));
  if (!(answer instanceof Response)) throw new Error("Expected a denial");
  return answer;
}

async function callerOf(server: ReturnType<typeof serverOf>, token: string): Promise<AuthenticatedCaller> {
  const answer = await server.authenticate(requestWith(`Bearer ${token}`));
  if (answer instanceof Response) throw new Error(`Expected a caller, got ${answer.status}: ${await answer.text()}`);
  return answer;
}

const now = (): number => Math.floor(Date.now() / 1_000);

describe("ResourceServer.serveMetadata()", () => {
  test("serves metadata at the well-known URL between host and path (RFC 9728) only", async () => {
    const server = serverOf({ requiredScopes: ["tools:call"], resourceName: "Tools" });
    expect(server.metadataUrl).toBe(METADATA_URL);
    const answer = server.serveMetadata(new Request(METADATA_URL));
    expect(answer?.headers.get("content-type")).toMatch(/^application\/json/);
    expect(await answer?.json()).toEqual({
      resource: RESOURCE,
      authorization_servers: [issuer.url],
      bearer_methods_supported: ["header"],
      scopes_supported: ["tools:call"],
      resource_name: "Tools",
    });
    for (const path of [
      "/mcp",
      "/.well-known/oauth-protected-resource",
      "/.well-known/oauth-protected-resource/mcp/x",
    ]) {
      expect(server.serveMetadata(new Request(`https://tools.example.com${path}`))).toBeUndefined();
    }
    expect(server.serveMetadata(new Request(METADATA_URL, { method: "POST" }))?.status).toBe(405);
  });

  test.for([
    ["https://tools.example.com", "https://tools.example.com/.well-known/oauth-protected-resource"],
    ["https://tools.example.com/", "https://tools.example.com/.well-known/oauth-protected-resource"],
    ["https://tools.example.com/a/b/", "https://tools.example.com/.well-known/oauth-protected-resource/a/b/"],
    ["http://localhost:3000/mcp", "http://localhost:3000/.well-known/oauth-protected-resource/mcp"],
    [
      "https://tools.example.com/mcp?team=1",
      "https://tools.example.com/.well-known/oauth-protected-resource/mcp?team=1",
    ],
  ] as const)("serves the metadata of %s at %s", ([resource, url]) => {
    const server = serverOf({ resource });
    expect(server.metadataUrl).toBe(url);
    expect(server.serveMetadata(new Request(url))?.status).toBe(200);
  });
});

describe("ResourceServer.authenticate()", () => {
  test("returns the caller without its token", async () => {
    const token = await issuer.token(RESOURCE, { scope: "tools:call tools:list", tenant: "acme" });
    const caller = await callerOf(serverOf({ requiredScopes: ["tools:call"] }), token);
    expect(caller).toMatchObject({
      clientId: "client-1",
      scopes: ["tools:call", "tools:list"],
      subject: "user-1",
      issuer: issuer.url,
      claims: { tenant: "acme" },
    });
    expect(caller.expiresAt).toBeGreaterThan(now());
    expect(JSON.stringify(caller)).not.toContain(token.split(".")[2]);
  });

  test("challenges a request without a token and names the metadata URL", async () => {
    const answer = await denialOf(serverOf({ requiredScopes: ["a", "b"] }));
    expect(answer.status).toBe(401);
    expect(answer.headers.get("www-authenticate")).toBe(`Bearer scope="a b", resource_metadata="${METADATA_URL}"`);
    expect((await denialOf(serverOf(), "Basic dXNlcjpwYXNz")).headers.get("www-authenticate")).toBe(
      `Bearer resource_metadata="${METADATA_URL}"`,
    );
  });

  test("accepts a token in the Authorization header only", async () => {
    const token = await issuer.token(RESOURCE);
    const url = `${RESOURCE}?access_token=${token}`;
    expect(await serverOf().authenticate(new Request(url))).toHaveProperty("status", 401);
  });

  test.for(["Bearer", "Bearer ", "Bearer a b", "Bearer a, Bearer b", `Bearer ${"a".repeat(17_000)}`, 'Bearer "a"'])(
    "rejects the header %.20s with 400",
    async (header) => {
      const answer = await denialOf(serverOf(), header);
      expect(answer.status).toBe(400);
      expect(answer.headers.get("www-authenticate")).toMatch(/^Bearer error="invalid_request"/);
    },
  );

  const claimCases: readonly (readonly [string, () => JWTPayload, string])[] = [
    ["has expired", () => ({ exp: now() - 60 }), "expired"],
    ["does not expire", () => ({ exp: undefined }) as unknown as JWTPayload, "expiration"],
    ["is not valid yet", () => ({ nbf: now() + 60 }), "not valid yet"],
    ["was issued in the future", () => ({ iat: now() + 120 }), "issued in the future"],
    ["is another resource's", () => ({ aud: "https://other.example.com/mcp" }), "not issued for"],
    ["is for a resource above", () => ({ aud: "https://tools.example.com" }), "not issued for"],
    ["is for a resource below", () => ({ aud: `${RESOURCE}/x` }), "not issued for"],
    ["has no audience", () => ({ aud: undefined }) as unknown as JWTPayload, "not issued for"],
    ["has a list of other audiences", () => ({ aud: ["a", "b"] }), "not issued for"],
    ["is another issuer's", () => ({ iss: "https://as.example.com" }), "issuer"],
    ["has no issuer", () => ({ iss: undefined }) as unknown as JWTPayload, "issuer"],
    ["is bound to a key", () => ({ cnf: { jkt: "x" } }), "bound to a key"],
  ];
  test.for(claimCases)("rejects a signed token that %s", async ([, claims, reason]) => {
    const answer = await denialOf(serverOf(), `Bearer ${await issuer.token(RESOURCE, claims())}`);
    expect(answer.status).toBe(401);
    const challenge = answer.headers.get("www-authenticate");
    expect(challenge).toContain('error="invalid_token"');
    expect(challenge).toContain(reason);
    expect(challenge).toContain(`resource_metadata="${METADATA_URL}"`);
  });

  test("accepts a token for several audiences that include this resource", async () => {
    await callerOf(serverOf(), await issuer.token(RESOURCE, { aud: ["https://other.example.com", RESOURCE] }));
  });

  test("accepts a resource without a path with and without a trailing slash", async () => {
    const server = serverOf({ resource: "https://tools.example.com" });
    await callerOf(server, await issuer.token("https://tools.example.com"));
    await callerOf(server, await issuer.token("https://tools.example.com/"));
  });

  test("accepts a configured audience instead of the resource", async () => {
    const server = serverOf({ audience: ["api://tools"] });
    await callerOf(server, await issuer.token("api://tools"));
    expect((await denialOf(server, `Bearer ${await issuer.token(RESOURCE)}`)).status).toBe(401);
  });

  const forged: readonly (readonly [string, (good: string) => string | Promise<string>])[] = [
    ["is not signed, as its algorithm says", (good) => `${base64url.encode('{"alg":"none"}')}.${good.split(".")[1]}.`],
    ["has lost its signature", (good) => `${good.split(".").slice(0, 2).join(".")}.`],
    ["has other claims than were signed", (good) => tamper(good)],
    ["is an HMAC with the public key for its secret", (good) => confuse(good)],
    [
      "is signed with a key of another issuer",
      async () => await issuer.token(RESOURCE, {}, {}, await makeKey("key-ES256", "ES256")),
    ],
    ["names a key that there is not", async () => await issuer.token(RESOURCE, {}, { kid: "other" })],
    ["brings its own key", async () => await withOwnKey()],
    [
      "contains the location of its key",
      async () => await issuer.token(RESOURCE, {}, { jku: issuer.jwksUri }, await makeKey("x", "ES256")),
    ],
    ["is a token of another kind", async () => await issuer.token(RESOURCE, {}, { typ: "logout+jwt" })],
    ["demands what is not understood", () => demanding()],
    ["is no JWT", () => "opaque"],
    ["is JSON that is not an object", () => `${base64url.encode("[]")}.${base64url.encode("1")}.AA`],
  ];
  async function demanding(): Promise<string> {
    const header = { alg: "ES256", kid: "key-ES256", crit: ["x"], x: 1 };
    const payload = { iss: issuer.url, aud: RESOURCE, exp: now() + 60 };
    const text = `${base64url.encode(JSON.stringify(header))}.${base64url.encode(JSON.stringify(payload))}`;
    const key = issuer.keys[0]?.privateKey as CryptoKey;
    const signature = await crypto.subtle.sign({ name: "ECDSA", hash: "SHA-256" }, key, Buffer.from(text));
    return `${text}.${Buffer.from(signature).toString("base64url")}`;
  }
  function tamper(good: string): string {
    const [header, payload = "", signature] = good.split(".");
    const claims = JSON.parse(new TextDecoder().decode(base64url.decode(payload))) as JWTPayload;
    return [header, base64url.encode(JSON.stringify({ ...claims, sub: "admin" })), signature].join(".");
  }
  async function confuse(good: string): Promise<string> {
    const [key] = issuer.keys;
    const publicKey = (await importJWK(key?.publicJwk ?? {}, "ES256", { extractable: true })) as CryptoKey;
    const text = `${base64url.encode('{"alg":"HS256","kid":"key-ES256","typ":"at+jwt"}')}.${good.split(".")[1]}`;
    return `${text}.${createHmac("sha256", await exportSPKI(publicKey))
      .update(text)
      .digest("base64url")}`;
  }
  async function withOwnKey(): Promise<string> {
    const own = await makeKey("own", "ES256");
    return await issuer.token(RESOURCE, {}, { jwk: own.publicJwk }, own);
  }
  test.for(forged)("rejects a forged token that %s", async ([, forge]) => {
    const token = await forge(await issuer.token(RESOURCE));
    const answer = await denialOf(serverOf(), `Bearer ${token}`);
    expect(answer.status).toBe(401);
    expect(answer.headers.get("www-authenticate")).toContain('error="invalid_token"');
  });

  test("never uses a symmetric key, even if the authorization server publishes one", async () => {
    await using shown = await OAuthIssuer.start("ES256");
    const secret = Buffer.alloc(32, 7);
    const good = await shown.token(RESOURCE);
    const jwks = { keys: [{ kty: "oct", k: secret.toString("base64url"), kid: "s", alg: "HS256" }] };
    shown.answers.set("/jwks", { status: 200, body: JSON.stringify(jwks) });
    const text = `${base64url.encode('{"alg":"HS256","kid":"s"}')}.${good.split(".")[1]}`;
    const token = `${text}.${createHmac("sha256", secret).update(text).digest("base64url")}`;
    const server = serverOf({ authorizationServers: [shown.url] });
    expect((await denialOf(server, `Bearer ${token}`)).status).toBe(401);
  });

  test.for(ALGORITHMS.filter((name) => name !== "EdDSA"))(
    "accepts %s unless other algorithms are configured",
    async (alg) => {
      await using other = await OAuthIssuer.start(alg);
      const token = await other.token(RESOURCE);
      const authorizationServers = [{ issuer: other.url, jwksUri: other.jwksUri }];
      expect((await callerOf(serverOf({ authorizationServers }), token)).subject).toBe("user-1");
      const algorithms = ALGORITHMS.filter((name) => name !== alg);
      expect((await denialOf(serverOf({ authorizationServers, algorithms }), `Bearer ${token}`)).status).toBe(401);
    },
  );

  test("verifies each token with the keys of its own issuer", async () => {
    await using other = await OAuthIssuer.start("ES256");
    const server = serverOf({ authorizationServers: [issuer.url, other.url] });
    expect((await callerOf(server, await issuer.token(RESOURCE))).issuer).toBe(issuer.url);
    expect((await callerOf(server, await other.token(RESOURCE))).issuer).toBe(other.url);
    const forgedIssuer = await other.token(RESOURCE, { iss: issuer.url });
    expect((await denialOf(server, `Bearer ${forgedIssuer}`)).status).toBe(401);
  });

  test.for([
    ["scope", "a b c", 200],
    ["scope", "a", 403],
    ["scope", "", 403],
    ["scope", ["a", "b"], 200],
    ["scope", { a: 1 }, 403],
    ["scp", "a b", 200],
    ["scp", ["a", "b"], 200],
    ["scp", ["a b"], 403],
  ] as const)("reads scopes from %s: %j", async ([claim, value, status]) => {
    const token = await issuer.token(RESOURCE, { [claim]: value });
    const answer = await serverOf({ requiredScopes: ["a", "b"] }).authenticate(requestWith(`Bearer ${token}`));
    if (status === 200) return expect(answer).not.toBeInstanceOf(Response);
    expect(answer).toHaveProperty("status", status);
    expect((answer as Response).headers.get("www-authenticate")).toBe(
      `Bearer error="insufficient_scope", error_description="The token lacks a required scope", scope="a b", resource_metadata="${METADATA_URL}"`,
    );
  });
});

describe("an authorization server's keys", () => {
  test("are fetched once for many requests, and again for an unknown key", async () => {
    await using other = await OAuthIssuer.start("ES256");
    const server = serverOf({ authorizationServers: [other.url] });
    const token = await other.token(RESOURCE);
    await Promise.all(Array.from({ length: 20 }, async () => await callerOf(server, token)));
    expect(other.asked).toEqual(["/.well-known/oauth-authorization-server", "/jwks"]);
    // Of the tokens with made-up keys, one in half a minute causes a fetch.
    for (let index = 0; index < 20; index += 1) {
      await denialOf(server, `Bearer ${await other.token(RESOURCE, {}, { kid: `made-up-${index}` })}`);
    }
    expect(other.asked.slice(2)).toEqual(["/.well-known/oauth-authorization-server", "/jwks"]);
  });

  test("are fetched again after ten minutes, and used for an hour if that fails", async () => {
    await using other = await OAuthIssuer.start("ES256");
    let passed = 0;
    const real = performance.now.bind(performance);
    const clock = vi.spyOn(performance, "now").mockImplementation(() => real() + passed);
    try {
      const server = serverOf({ authorizationServers: [other.url] });
      const old = await other.token(RESOURCE);
      await callerOf(server, old);
      other.keys = [await makeKey("new", "ES256")];
      passed += 31_000;
      const fresh = await other.token(RESOURCE);
      await callerOf(server, fresh);
      expect((await denialOf(server, `Bearer ${old}`)).status).toBe(401);
      other.answers.set("/jwks", { status: 500, body: "" });
      passed += 11 * 60_000;
      await callerOf(server, fresh);
      passed += 50 * 60_000;
      expect((await denialOf(server, `Bearer ${fresh}`)).status).toBe(503);
      other.answers.clear();
      passed += 61_000;
      await callerOf(server, fresh);
    } finally {
      clock.mockRestore();
    }
  });

  test("that are known delay no request while the issuer hangs", async () => {
    await using other = await OAuthIssuer.start("ES256");
    let passed = 0;
    const real = performance.now.bind(performance);
    const clock = vi.spyOn(performance, "now").mockImplementation(() => real() + passed);
    onTestFinished(() => void clock.mockRestore());
    const server = serverOf({ authorizationServers: [other.url] });
    const token = await other.token(RESOURCE);
    await callerOf(server, token);
    const before = other.asked.length;
    other.hangs = true;
    passed += 11 * 60_000;
    await callerOf(server, token);
    // The keys are being fetched: the response did not wait for them.
    await expect.poll(() => other.asked.length).toBe(before + 1);
    await callerOf(server, token);
    expect(other.asked.length).toBe(before + 1);
  });

  test("keys that are unavailable cause 503, few requests to the issuer, and a call of onError", async () => {
    await using other = await OAuthIssuer.start("ES256");
    other.answers.set("/.well-known/oauth-authorization-server", { status: 500, body: "{}" });
    const errors: unknown[] = [];
    const server = serverOf({ authorizationServers: [other.url], onError: (error) => errors.push(error) });
    const authorization = `Bearer ${await other.token(RESOURCE)}`;
    // The issuer is asked again after a while.
    const clock = vi.spyOn(performance, "now").mockReturnValue(performance.now());
    onTestFinished(() => void clock.mockRestore());
    for (let index = 0; index < 10; index += 1) {
      const answer = await denialOf(server, authorization);
      expect(answer.status).toBe(503);
      expect(answer.headers.get("retry-after")).toBe("5");
    }
    expect(other.asked.length).toBeLessThanOrEqual(4);
    expect(errors.length).toBeGreaterThan(0);
  });

  test.for([
    ["another issuer's metadata", { issuer: "https://evil.example.com", jwks_uri: "JWKS" }, undefined],
    ["a jwks_uri without TLS", { issuer: "ISSUER", jwks_uri: "http://keys.example.com/jwks" }, undefined],
    ["no jwks_uri", { issuer: "ISSUER" }, undefined],
    ["too many keys", undefined, { keys: Array.from({ length: 101 }, () => ({ kty: "EC" })) }],
    ["an invalid key set", undefined, { keys: "x" }],
    ["a set that is too large", undefined, { keys: [], padding: "x".repeat(300_000) }],
  ] as const)("are not accepted from %s", async ([, metadata, jwks]) => {
    await using other = await OAuthIssuer.start("ES256");
    const fill = (value: unknown): string =>
      JSON.stringify(value)
        .replace('"ISSUER"', JSON.stringify(other.url))
        .replace('"JWKS"', JSON.stringify(other.jwksUri));
    if (metadata !== undefined) {
      other.answers.set("/.well-known/oauth-authorization-server", { status: 200, body: fill(metadata) });
    }
    if (jwks !== undefined) other.answers.set("/jwks", { status: 200, body: fill(jwks) });
    const server = serverOf({ authorizationServers: [other.url] });
    expect((await denialOf(server, `Bearer ${await other.token(RESOURCE)}`)).status).toBe(503);
  });

  test("are not fetched from the target of a redirect", async () => {
    await using other = await OAuthIssuer.start("ES256");
    other.answers.set("/moved", { status: 302, body: "", location: other.jwksUri });
    const authorizationServers = [{ issuer: other.url, jwksUri: `${other.url}/moved` }];
    expect((await denialOf(serverOf({ authorizationServers }), `Bearer ${await other.token(RESOURCE)}`)).status).toBe(
      503,
    );
    expect(other.asked).toEqual(["/moved"]);
  });

  test("can be configured", async () => {
    const authorizationServers = [
      { issuer: "https://as.example.com", jwks: { keys: issuer.keys.map((key) => key.publicJwk) } },
    ];
    await callerOf(serverOf({ authorizationServers }), await issuer.token(RESOURCE, { iss: "https://as.example.com" }));
  });

  test("are discovered in the order that MCP requires", () => {
    expect(metadataUrls("https://as.example.com/tenant").map(String)).toEqual([
      "https://as.example.com/.well-known/oauth-authorization-server/tenant",
      "https://as.example.com/.well-known/openid-configuration/tenant",
      "https://as.example.com/tenant/.well-known/openid-configuration",
    ]);
    expect(metadataUrls("https://as.example.com").map(String)).toEqual([
      "https://as.example.com/.well-known/oauth-authorization-server",
      "https://as.example.com/.well-known/openid-configuration",
    ]);
  });
});

describe("verify()", () => {
  const claims = () => ({ active: true, aud: RESOURCE, exp: now() + 60, sub: "user-2", scope: "a" });
  test("verifies opaque tokens", async () => {
    const server = serverOf({ verify: (token) => (token === "opaque-1" ? claims() : undefined) });
    expect((await callerOf(server, "opaque-1")).subject).toBe("user-2");
    expect((await denialOf(server, "Bearer opaque-2")).status).toBe(401);
  });

  test.for([
    ["of another audience", { aud: "https://other.example.com" }],
    ["of no audience", { aud: undefined }],
    ["that is over", { exp: 1 }],
    ["that never ends", { exp: undefined }],
    ["whose end is no number", { exp: "never" }],
    ["whose expiry is NaN", { exp: Number.NaN }],
    ["that has not begun", { nbf: 9_999_999_999 }],
    ["that is not active", { active: false }],
    ["of another issuer", { iss: "https://evil.example.com" }],
    ["bound to a key", { cnf: { "x5t#S256": "x" } }],
  ] as const)("does not accept a token %s", async ([, changed]) => {
    const server = serverOf({ verify: () => ({ ...claims(), ...changed }) });
    expect((await denialOf(server, "Bearer opaque")).status).toBe(401);
  });

  test("causes 503 if it throws", async () => {
    const errors: unknown[] = [];
    const down = () => {
      throw new Error("down at 10.0.0.1");
    };
    const answer = await denialOf(serverOf({ verify: down, onError: (error) => errors.push(error) }), "Bearer opaque");
    expect(answer.status).toBe(503);
    expect(await answer.text()).not.toContain("10.0.0.1");
    expect(errors).toHaveLength(1);
  });
});

describe("createResourceServer()", () => {
  test.for([
    [{ resource: "http://tools.example.com/mcp" }, "options.resource: Expected an https URL"],
    [{ resource: "https://tools.example.com/mcp#x" }, "options.resource"],
    [{ resource: "tools" }, "options.resource"],
    [{ authorizationServers: [] }, "options.authorizationServers"],
    [{ authorizationServers: ["http://as.example.com"] }, "options.authorizationServers.0"],
    [{ algorithms: ["HS256"] }, "options.algorithms.0"],
    [{ algorithms: ["none"] }, "options.algorithms.0"],
    [{ requiredScopes: ['a" b'] }, "options.requiredScopes.0"],
    [{ jwks: {} }, "options.jwks: Unknown option"],
  ] as const)("rejects %j and names the option", ([options, message]) => {
    const create = (): unknown => serverOf(options as unknown as Partial<ResourceServerOptions>);
    expect(create).toThrow(ToolError);
    expect(create).toThrow(message);
  });

  test("describes an invalid issuer as what it is: a URL, or one in an object", () => {
    const secure = "Expected an https URL without a fragment, or http on this machine";
    const problemOf = (issuer: unknown): unknown => {
      try {
        return serverOf({ authorizationServers: [issuer as string] });
      } catch (thrown) {
        return (thrown as Error).message;
      }
    };
    expect(problemOf("ftp://x")).toBe(`options.authorizationServers.0: ${secure}`);
    expect(problemOf({ issuer: "ftp://x" })).toBe(`options.authorizationServers.0.issuer: ${secure}`);
    expect(problemOf(5)).toBe("options.authorizationServers.0: Expected a string or a plain object, got a number");
  });
});
