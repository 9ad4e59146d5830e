// How an MCP client finds the authorization server whose tokens a server accepts: with the official client, and a real provider of tokens.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  discoverOAuthProtectedResourceMetadata,
  extractWWWAuthenticateParams,
  type OAuthClientProvider,
  selectResourceURL,
} from "@modelcontextprotocol/client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createServer, type Server } from "../../../src/server/index.ts";
import { freePort } from "../../support/free-port.ts";
import { OAuthIssuer } from "../../support/oauth-issuer.ts";
import { apiOf } from "../support/api.ts";

const folder = mkdtempSync(join(tmpdir(), "glovebox-metadata-"));
const WELL_KNOWN = "/.well-known/oauth-protected-resource";
const MCP = "/v1/tenants/acme/mcp";
let provider: OAuthIssuer;

async function start(name: string, audience: string, port: number, scopePrefix = ""): Promise<Server> {
  return await createServer({
    port,
    dataDir: join(folder, name),
    logLevel: "silent",
    jwt: { issuer: provider.url, audience, jwksUri: provider.jwksUri, scopePrefix },
  });
}

beforeAll(async () => {
  provider = await OAuthIssuer.start("ES256");
});
afterAll(async () => {
  await provider[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

test("an MCP client finds the issuer by the challenge, and by the URL of the endpoint", async () => {
  const port = await freePort();
  const audience = `http://127.0.0.1:${port}`;
  await using server = await start("own", audience, port, "glovebox:");
  expect((await apiOf(server)("POST", "/v1/tenants", { id: "acme" })).status).toBe(201);
  const post = (token?: string) =>
    fetch(`${server.url}${MCP}`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      },
      body: "{}",
    });
  const denied = await post();
  expect(denied.status).toBe(401);
  const { resourceMetadataUrl, scope } = extractWWWAuthenticateParams(denied);
  expect([resourceMetadataUrl?.href, scope]).toEqual([`${audience}${WELL_KNOWN}`, "glovebox:calls:run"]);
  for (const hint of [{ resourceMetadataUrl: `${resourceMetadataUrl}` }, {}]) {
    const metadata = await discoverOAuthProtectedResourceMetadata(`${server.url}${MCP}`, hint);
    expect(metadata).toEqual({
      resource: audience,
      authorization_servers: [provider.url],
      bearer_methods_supported: ["header"],
      scopes_supported: ["glovebox:calls:run"],
    });
    // The client accepts the resource for the URL of the endpoint, and requests a token for it.
    const resource = await selectResourceURL(`${server.url}${MCP}`, {} as OAuthClientProvider, metadata);
    expect(resource?.href).toBe(`${audience}/`);
  }
  // The resource of the metadata is the audience that a token needs, with or without the slash that a URL gets.
  for (const aud of [audience, `${audience}/`]) {
    const token = await provider.token(aud, { tenant: "acme", scope: "glovebox:calls:run" });
    expect((await post(token)).status).toBe(400);
  }
  const other = await post(await provider.token(audience, { tenant: "acme", scope: "glovebox:tools:read" }));
  expect([other.status, extractWWWAuthenticateParams(other)]).toMatchObject([
    403,
    { error: "insufficient_scope", scope: "glovebox:calls:run", resourceMetadataUrl: new URL(WELL_KNOWN, audience) },
  ]);
  const invalid = await post("not-a-token");
  expect(extractWWWAuthenticateParams(invalid)).toMatchObject({ error: "invalid_token", resourceMetadataUrl });
  for (const path of [`${WELL_KNOWN}/v1/tenants/other/code-mode/mcp`, WELL_KNOWN])
    expect((await fetch(`${server.url}${path}`)).status).toBe(200);
  for (const path of [`${WELL_KNOWN}/other`, `${WELL_KNOWN}s`])
    expect((await fetch(`${server.url}${path}`)).status).toBe(404);
});

test.for([
  ["without tokens", undefined],
  ["whose audience is no URL", "glovebox"],
  ["whose audience is the URL of another host", "https://tools.example.com"],
] as const)("a server %s names no authorization server", async ([name, audience]) => {
  await using server =
    audience === undefined
      ? await createServer({ port: 0, dataDir: join(folder, "keys"), logLevel: "silent" })
      : await start(name, audience, 0);
  const { status, headers } = await fetch(`${server.url}${MCP}`, { method: "POST" });
  expect([status, headers.get("www-authenticate")]).toEqual([401, 'Bearer realm="glovebox"']);
  for (const path of [WELL_KNOWN, `${WELL_KNOWN}${MCP}`])
    expect((await fetch(`${server.url}${path}`)).status).toBe(404);
});
