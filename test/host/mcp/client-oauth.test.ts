// Tests OAuth with upstream servers: which URLs their metadata can make the host request, and which servers receive stored credentials.
import type { OAuthClientProvider, StoredOAuthClientInformation } from "@modelcontextprotocol/client";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import type { McpHttpServer } from "../../../src/host/mcp/client/mcp-options.ts";
import { createOAuthFetch } from "../../../src/host/mcp/client/oauth/oauth-fetch.ts";
import { McpOAuthSchema } from "../../../src/host/mcp/client/oauth/oauth-options.ts";
import { OAuthPolicy } from "../../../src/host/mcp/client/oauth/oauth-policy.ts";
import { errorOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";
import {
  type Answers,
  issuerMetadata,
  KeepingProvider,
  protectedBy,
  RecordingServer,
} from "../../support/oauth-servers.ts";

let glovebox: Glovebox;
let server: RecordingServer;
let issuer: RecordingServer;
let bystander: RecordingServer;
let provider: KeepingProvider;

beforeAll(async () => {
  glovebox = await makeGlovebox();
});
beforeEach(async () => {
  [server, issuer, bystander] = await Promise.all([
    RecordingServer.start(),
    RecordingServer.start(),
    RecordingServer.start(() => ({})),
  ]);
  issuer.answers = issues(issuer.origin);
  provider = new KeepingProvider();
});
afterEach(async () => {
  await glovebox.mcp.removeServer("up");
  await Promise.all([server, issuer, bystander].map((each) => each[Symbol.asyncDispose]()));
});
afterAll(async () => await glovebox.close());

/** An authorization server. A refresh returns a token that the upstream server accepts. */
function issues(origin: string, metadata: object = issuerMetadata(origin)): Answers {
  return ({ path }) => {
    if (path === "/.well-known/oauth-authorization-server") return metadata;
    if (path === "/register") return { client_id: "registered", redirect_uris: [provider.redirectUrl] };
    if (path === "/token") return { access_token: "fresh", token_type: "Bearer", refresh_token: "next" };
    return undefined;
  };
}

const openIdMetadata = (origin: string): object => ({
  ...issuerMetadata(origin),
  jwks_uri: `${origin}/jwks`,
  subject_types_supported: ["public"],
  id_token_signing_alg_values_supported: ["RS256"],
});

function add(oauth: McpHttpServer["oauth"] = {}, more: Partial<McpHttpServer> = {}): void {
  const options = { protocol: "legacy", timeoutMs: 60_000, authProvider: provider, oauth, ...more } as const;
  glovebox.mcp.addServer("up", { url: `${server.origin}/mcp`, ...options });
}
const call = (): Promise<ToolResult> => glovebox.execute({ id: "c", toolName: "up__t", arguments: {} });
const metadataOf = (one: RecordingServer): string => `${one.origin}/metadata`;

describe("discovery", () => {
  test("signs in at an authorization server that the host has configured", async () => {
    server.answers = protectedBy(server, metadataOf(server), issuer.origin);
    add({ issuers: [issuer.origin] });
    expect(errorOf(await call()).message).toMatch(/requires authorization that its authProvider does not have/);
    expect(provider.pages).toEqual([`${issuer.origin}/authorize`]);
    expect(provider.client).toMatchObject({ client_id: "registered", issuer: issuer.origin });
  });

  test("signs in at the server's own origin if no issuer is configured", async () => {
    const own = issues(server.origin);
    const respond = protectedBy(server, metadataOf(server), server.origin);
    server.answers = async (request, response) => (await own(request, response)) ?? (await respond(request, response));
    add();
    expect(errorOf(await call()).code).toBe("TOOL_UNAVAILABLE");
    expect(provider.pages).toEqual([`${server.origin}/authorize`]);
  });

  test("requests no metadata from another origin that a 401 names", async () => {
    server.answers = protectedBy(server, `${bystander.origin}/admin?delete=all`, issuer.origin);
    add({ issuers: [issuer.origin] });
    expect(errorOf(await call())).toMatchObject({
      code: "TOOL_UNAVAILABLE",
      message: expect.stringMatching(/resource metadata is at http.*, not at the server's origin/),
    });
    expect(bystander.requests).toEqual([]);
  });

  test.for([404, 403, 400] as const)(
    "tries the metadata of OpenID Connect if the first request returns an error in JSON (%i)",
    async (status) => {
      const issued = issues(issuer.origin);
      issuer.answers = (request, response) => {
        if (request.path === "/.well-known/oauth-authorization-server") {
          const body = JSON.stringify({ message: "Not Found", issuer: bystander.origin });
          return void response.writeHead(status, { "content-type": "application/json" }).end(body);
        }
        if (request.path === "/.well-known/openid-configuration") return openIdMetadata(issuer.origin);
        return issued(request, response);
      };
      server.answers = protectedBy(server, metadataOf(server), issuer.origin);
      add({ issuers: [issuer.origin] });
      expect(errorOf(await call()).message).toMatch(/requires authorization that its authProvider does not have/);
      expect(issuer.paths).toContain("GET /.well-known/openid-configuration");
      expect(provider.pages).toEqual([`${issuer.origin}/authorize`]);
    },
  );

  test("uses no authorization server that the host has not configured", async () => {
    server.answers = protectedBy(server, metadataOf(server), bystander.origin);
    add();
    const { message } = errorOf(await call());
    expect(message).toContain(`The authorization server is at ${bystander.origin}, which the host does not allow`);
    await glovebox.mcp.removeServer("up");
    add({ issuers: [issuer.origin] });
    expect(errorOf(await call()).message).toContain("it is not in oauth.issuers");
    expect(bystander.requests).toEqual([]);
    expect(provider.pages).toEqual([]);
  });

  test.for(["authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint"] as const)(
    "rejects a %s at another origin than the issuer's, unless the host has configured it",
    async (endpoint) => {
      const metadata = { ...issuerMetadata(issuer.origin), [endpoint]: `${bystander.origin}/x` };
      issuer.answers = issues(issuer.origin, metadata);
      server.answers = protectedBy(server, metadataOf(server), issuer.origin);
      add({ issuers: [issuer.origin] });
      expect(errorOf(await call()).message).toContain(`${endpoint} is at ${bystander.origin}`);
      expect(bystander.requests).toEqual([]);
      expect(provider.pages).toEqual([]);
      await glovebox.mcp.removeServer("up");
      add({ issuers: [issuer.origin], endpointOrigins: [bystander.origin] });
      await call();
      expect(issuer.paths).toContain("GET /.well-known/oauth-authorization-server");
      if (endpoint === "registration_endpoint") expect(bystander.paths).toEqual(["POST /x"]);
    },
  );

  test.for(["userinfo_endpoint", "introspection_endpoint"])(
    "ignores the origin of %s, which it never uses",
    async (name) => {
      issuer.answers = issues(issuer.origin, { ...issuerMetadata(issuer.origin), [name]: `${bystander.origin}/x` });
      server.answers = protectedBy(server, metadataOf(server), issuer.origin);
      add({ issuers: [issuer.origin] });
      await call();
      expect(provider.pages).toEqual([`${issuer.origin}/authorize`]);
      expect(bystander.requests).toEqual([]);
    },
  );

  test("uses the server's own origin if the resource metadata is HTML", async () => {
    const own = issues(server.origin);
    server.answers = (request, response) => {
      if (request.path === "/mcp") return void response.writeHead(401).end();
      if (!request.path.startsWith("/.well-known/oauth-protected-resource")) return own(request, response);
      return void response.writeHead(200, { "content-type": "text/html" }).end("<!doctype html>");
    };
    add();
    expect(errorOf(await call()).code).toBe("TOOL_UNAVAILABLE");
    expect(provider.pages).toEqual([`${server.origin}/authorize`]);
  });

  test.for([301, 302, 307, 308] as const)("follows no redirect (%i)", async (status) => {
    server.answers = ({ path }, response) => {
      if (path === "/mcp") response.writeHead(401).end();
      else response.writeHead(status, { location: `${bystander.origin}/` }).end();
      return undefined;
    };
    add();
    expect(errorOf(await call()).message).toContain("answered with a redirect");
    expect(bystander.requests).toEqual([]);
  });

  test("does not send the server's configured headers to an authorization server", async () => {
    server.answers = protectedBy(server, metadataOf(server), issuer.origin);
    add({ issuers: [issuer.origin] }, { headers: { "x-api-key": "secret-key" } });
    await call();
    expect(issuer.requests.length).toBeGreaterThan(0);
    expect(JSON.stringify(issuer.requests)).not.toContain("secret-key");
    expect(server.requests.find(({ path }) => path === "/mcp")?.headers["x-api-key"]).toBe("secret-key");
  });

  test.for([
    ["without an end", (): unknown => "x".repeat(1_000_000)],
    ["nested deep", (): unknown => JSON.parse(`${'{"a":'.repeat(100)}1${"}".repeat(100)}`)],
  ] as const)("rejects metadata %s", async ([, answer]) => {
    server.answers = ({ path }, response) => {
      if (path !== "/mcp") return answer();
      response.writeHead(401).end();
      return undefined;
    };
    add();
    expect(errorOf(await call()).message).toMatch(/longer than|is not valid JSON/);
  });

  test("repeats the discovery if the stored result leads to another origin", async () => {
    server.answers = protectedBy(server, metadataOf(server), issuer.origin);
    provider.discovery = { authorizationServerUrl: bystander.origin };
    add({ issuers: [issuer.origin] });
    await call();
    expect(bystander.requests).toEqual([]);
    expect(provider.pages).toEqual([`${issuer.origin}/authorize`]);
  });
});

describe("addresses", () => {
  const fetchFor = (url: string, oauth: object, address: string) =>
    createOAuthFetch(new OAuthPolicy(new URL(url), McpOAuthSchema.parse(oauth)), async () => [address]);

  test.for(["127.0.0.1", "169.254.169.254", "10.0.0.1", "::1", "fd00::1", "::ffff:127.0.0.1"])(
    "a name that resolves to %s is rejected even if its origin is allowed",
    async (address) => {
      const get = fetchFor("https://mcp.example/mcp", { issuers: ["https://auth.example"] }, address);
      await expect(get("https://mcp.example/.well-known/oauth-protected-resource")).rejects.toThrow(/not public/);
      await expect(get("https://auth.example/.well-known/oauth-authorization-server")).rejects.toThrow(/not public/);
    },
  );

  test("only an address that the host allows is connected to", async () => {
    const allowed = fetchFor("https://mcp.example/mcp", { allowAddresses: ["127.0.0.1"] }, "127.0.0.1");
    // No server listens there, so the error shows that a connection was attempted.
    await expect(allowed("https://mcp.example/x")).rejects.toThrow(/ECONNREFUSED|connect/);
    const other = fetchFor("https://mcp.example/mcp", { allowAddresses: ["127.0.0.1"] }, "127.0.0.2");
    await expect(other("https://mcp.example/x")).rejects.toThrow(/not public/);
  });

  test.for(["http://mcp.example", "http://10.0.0.1", "http://192.168.0.1:8080"])(
    "%s receives no request without TLS",
    async (origin) => {
      const get = fetchFor(`${origin}/mcp`, { allowAddresses: ["0.0.0.0/0"] }, "127.0.0.1");
      await expect(get(`${origin}/.well-known/oauth-protected-resource`)).rejects.toThrow(/expected https/);
    },
  );
});

describe("stored credentials", () => {
  const client = { client_id: "id", client_secret: "client-secret" };
  const tokens = { access_token: "old", token_type: "Bearer", refresh_token: "refresh-secret" };
  /** All that the three servers received, except for the requests of a new sign-in. */
  const sent = (): string => JSON.stringify([server.requests, issuer.requests, bystander.requests]);

  test("are used with the issuer that they contain", async () => {
    server.answers = (request, response) => {
      const { authorization } = request.headers;
      const isOld = authorization === "Bearer old";
      const headers = isOld ? { ...request.headers, authorization: undefined } : request.headers;
      return protectedBy(
        server,
        metadataOf(server),
        issuer.origin,
      )({ ...request, headers } as typeof request, response);
    };
    provider.client = { ...client, issuer: issuer.origin };
    provider.kept = { ...tokens, issuer: issuer.origin };
    add({ issuers: [issuer.origin] });
    expect(outputOf(await call())).toBe("in");
    expect(provider.kept).toMatchObject({ access_token: "fresh", issuer: issuer.origin });
    expect(issuer.requests.find(({ path }) => path === "/token")?.body).toContain("refresh-secret");
  });

  test.for([
    ["without an issuer", undefined],
    ["of another issuer", "https://other.example"],
  ] as const)("%s are not sent anywhere", async ([, stamp]) => {
    server.answers = protectedBy(server, metadataOf(server), issuer.origin);
    const issued = stamp === undefined ? {} : { issuer: stamp };
    provider.client = { ...client, ...issued };
    provider.kept = { ...tokens, ...issued };
    add({ issuers: [issuer.origin] });
    expect(errorOf(await call()).code).toBe("TOOL_UNAVAILABLE");
    expect(sent()).not.toMatch(/client-secret|refresh-secret|Bearer old/);
    // The client registers and signs in again.
    expect(provider.client).toMatchObject({ client_id: "registered", issuer: issuer.origin });
    expect(provider.pages).toEqual([`${issuer.origin}/authorize`]);
  });

  test("credentials of another issuer are not sent to a hostile server that is an issuer itself", async () => {
    const own = issues(server.origin);
    const respond = protectedBy(server, metadataOf(server), server.origin);
    server.answers = async (request, response) => (await own(request, response)) ?? (await respond(request, response));
    provider.client = { ...client, issuer: issuer.origin };
    provider.kept = { ...tokens, issuer: issuer.origin };
    add();
    expect(errorOf(await call()).code).toBe("TOOL_UNAVAILABLE");
    expect(sent()).not.toMatch(/client-secret|refresh-secret|Bearer old/);
  });

  test("credentials of a provider that cannot save need an issuer, which the error names", async () => {
    server.answers = protectedBy(server, metadataOf(server), issuer.origin);
    const fixed = Object.assign(Object.create(provider) as KeepingProvider, {
      clientInformation: () => client,
      saveClientInformation: undefined,
      tokens: () => undefined,
      discoveryState: undefined,
      saveDiscoveryState: undefined,
      redirectUrl: undefined,
    });
    add({ issuers: [issuer.origin] }, { authProvider: fixed });
    expect(errorOf(await call()).message).toMatch(/clientInformation\(\) returned a missing or different issuer/);
    expect(sent()).not.toContain("client-secret");
  });
});

describe("an authProvider", () => {
  test("can be a frozen object", async () => {
    server.answers = protectedBy(server, metadataOf(server), issuer.origin);
    const kept: { client?: StoredOAuthClientInformation } = {};
    const frozen: OAuthClientProvider = Object.freeze({
      redirectUrl: provider.redirectUrl,
      clientMetadata: provider.clientMetadata,
      clientInformation: () => kept.client,
      saveClientInformation: (saved: StoredOAuthClientInformation) => {
        kept.client = saved;
      },
      tokens: () => undefined,
      saveTokens: () => {},
      saveCodeVerifier: () => {},
      codeVerifier: () => "",
      redirectToAuthorization: (page: URL) => provider.redirectToAuthorization(page),
    });
    add({ issuers: [issuer.origin] }, { authProvider: frozen });
    expect(errorOf(await call()).message).toMatch(/requires authorization that its authProvider does not have/);
    expect(provider.pages).toEqual([`${issuer.origin}/authorize`]);
  });

  test.for([
    ["a number", 7],
    ["an object", { toString: () => "token" }],
    ["true", true],
    ["a text with a line end", "a\r\nx: y"],
  ] as const)("an authProvider whose token is %s sends no token", async ([, token]) => {
    server.answers = protectedBy(server, metadataOf(server), issuer.origin);
    add({}, { authProvider: { token: async () => token as never } });
    expect(errorOf(await call()).code).toBe("TOOL_UNAVAILABLE");
    expect(server.requests.some(({ headers }) => headers.authorization !== undefined)).toBe(false);
  });

  test("an authProvider that never answers fails after connectTimeoutMs", async () => {
    server.answers = protectedBy(server, metadataOf(server), issuer.origin);
    add({}, { authProvider: { token: () => new Promise(() => {}) }, connectTimeoutMs: 100 });
    expect(errorOf(await call()).code).toBe("TOOL_UNAVAILABLE");
  });

  test.for([[{}], [{ tokens: () => undefined }], [Promise.resolve({ token: () => "t" })], ["token"], [null]] as const)(
    "an authProvider that is invalid is rejected: %j",
    ([authProvider]) => {
      expect(() => add({}, { authProvider: authProvider as never })).toThrow(/^options\.authProvider: /);
    },
  );

  test.for([
    [{ issuer: [] }, /options\.oauth\.issuer: Unknown option\. Did you mean "issuers"/],
    [{ issuers: ["auth.example"] }, /options\.oauth\.issuers\.0: Expected an http: or https: URL/],
    [{ issuers: [] }, /options\.oauth\.issuers/],
    [{ endpointOrigins: ["https://a.example/token"] }, /Expected an origin/],
    [{ allowAddresses: ["localhost"] }, /Expected an address or a CIDR range/],
    [Promise.resolve({}), /options\.oauth: Expected a plain object, got a Promise/],
  ] as const)("has options that are validated: %j", ([oauth, message]) => {
    expect(() => add(oauth as never)).toThrow(message);
  });
});
