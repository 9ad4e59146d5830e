// Tokens of an identity provider, archives over the API, and telemetry over OTLP: a server with real neighbours.
import { mkdtempSync, rmSync } from "node:fs";
import { createServer as createHttpServer, type Server as HttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { packTar } from "modern-tar";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { createServer, type Server } from "../../src/server/index.ts";
import { PATIENT_LIMITS } from "../support/patient-limits.ts";
import { apiOf } from "./support/api.ts";

const folder = mkdtempSync(join(tmpdir(), "glovebox-identity-"));
const AUDIENCE = "https://tools.example.com";
let server: Server;
let provider: HttpServer;
let issuer: string;
let keys: Awaited<ReturnType<typeof generateKeyPair>>;
const otlp: { readonly path: string; readonly body: string }[] = [];

beforeAll(async () => {
  keys = await generateKeyPair("ES256");
  const jwk = { ...(await exportJWK(keys.publicKey)), kid: "k1", alg: "ES256", use: "sig" };
  provider = createHttpServer((request, response) => {
    let body = "";
    request.setEncoding("utf8");
    request.on("data", (chunk) => {
      body += chunk;
    });
    request.on("end", () => {
      if (request.url?.startsWith("/v1/")) otlp.push({ path: request.url, body });
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ keys: [jwk] }));
    });
  });
  await new Promise<void>((resolve) => provider.listen(0, "127.0.0.1", resolve));
  issuer = `http://127.0.0.1:${(provider.address() as AddressInfo).port}`;
  vi.stubEnv("OTEL_EXPORTER_OTLP_ENDPOINT", issuer);
  server = await createServer({
    port: 0,
    dataDir: folder,
    logLevel: "silent",
    telemetry: true,
    limits: PATIENT_LIMITS,
    jwt: { issuer, audience: AUDIENCE, jwksUri: `${issuer}/jwks`, tenantClaim: "org", scopePrefix: "glovebox:" },
  });
  const admin = apiOf(server);
  for (const id of ["acme", "beta"]) await admin("POST", "/v1/tenants", { id });
});
afterAll(async () => {
  await server.close({ drainMs: 0 });
  provider.close();
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

const tokenOf = (claims: object, { audience = AUDIENCE, by = issuer, expires = "5m" } = {}): Promise<string> =>
  new SignJWT({
    scope:
      "glovebox:tools:read glovebox:calls:run glovebox:tools:deploy glovebox:releases:write glovebox:tenants:write",
    ...claims,
  })
    .setProtectedHeader({ alg: "ES256", kid: "k1" })
    .setIssuer(by)
    .setAudience(audience)
    .setSubject("user-1")
    .setIssuedAt()
    .setExpirationTime(expires)
    .sign(keys.privateKey);

test("a token acts for its tenant, with its scopes and none of the platform", async () => {
  const api = apiOf(server, await tokenOf({ org: "acme" }));
  expect((await api("GET", "/v1/tenants/acme/tools")).status).toBe(200);
  expect((await api("GET", "/v1/tenants/beta/tools")).status).toBe(404);
  expect((await api("GET", "/v1/tenants")).status).toBe(403);
  expect((await api("PATCH", "/v1/tenants/acme", { name: "x" })).status).toBe(403);
  expect((await api("GET", "/v1/tenants/acme/calls")).status).toBe(403);
  const { body } = await api("GET", "/v1/me");
  expect(body).toEqual({
    keyId: "jwt:user-1",
    tenantId: "acme",
    scopes: ["tools:read", "tools:deploy", "releases:write", "calls:run"],
    expiresAt: expect.any(Number),
  });
});

test("rejects every token that is not valid for this server", async () => {
  const other = await generateKeyPair("ES256");
  const forged = await new SignJWT({ org: "acme", scope: "glovebox:tools:read" })
    .setProtectedHeader({ alg: "ES256", kid: "k1" })
    .setIssuer(issuer)
    .setAudience(AUDIENCE)
    .setSubject("user-1")
    .setExpirationTime("5m")
    .sign(other.privateKey);
  const tokens = [
    forged,
    await tokenOf({ org: "acme" }, { audience: "https://other.example.com" }),
    await tokenOf({ org: "acme" }, { by: "https://other.example.com" }),
    await tokenOf({ org: "acme" }, { expires: "-5m" }),
    await tokenOf({}),
    await tokenOf({ org: null }),
    await tokenOf({ org: ["acme"] }),
    await tokenOf({ org: "ACME/../beta" }),
    "eyJhbGciOiJub25lIn0.eyJvcmciOiJhY21lIn0.",
    "x".repeat(10_000),
  ];
  for (const token of tokens) {
    const { status } = await apiOf(server, token)("GET", "/v1/tenants/acme/tools");
    expect([token.slice(0, 40), status]).toEqual([token.slice(0, 40), 401]);
  }
});

test("deploys an archive", async () => {
  const api = apiOf(server, await tokenOf({ org: "acme" }));
  const files = {
    "package/tool.ts": "import { two } from './lib/two.ts'; export default () => two",
    "package/lib/two.ts": "export const two = 2;",
  };
  const tar = await packTar(
    Object.entries(files).map(([name, body]) => ({ header: { name, size: body.length }, body })),
  );
  const archive = gzipSync(tar).toString("base64");
  const deployed = await api("POST", "/v1/tenants/acme/tools", { name: "packed", archive, entry: "tool.ts" });
  expect([deployed.status, JSON.stringify(deployed.body)]).toEqual([201, expect.stringContaining('"packed"')]);
  expect((await api("POST", "/v1/tenants/acme/tools/packed/calls", {})).body.output).toBe(2);
  const bad = await api("POST", "/v1/tenants/acme/tools", { name: "bad", archive: "bm8gYXJjaGl2ZQ==" });
  expect([bad.status, JSON.stringify(bad.body)]).toEqual([
    422,
    expect.stringContaining("Expected a .tar.gz or .zip file"),
  ]);
});

test("reports calls to an OTLP receiver", async () => {
  const api = apiOf(server);
  const source = 'export default async (_, ctx) => await ctx.span("own part", { rows: 3 }, () => 1)';
  await api("POST", "/v1/tenants/acme/tools", { name: "seen", source });
  expect((await api("POST", "/v1/tenants/acme/tools/seen/calls", {})).status).toBe(200);
  // The tool's own span is part of the call's trace, with its attributes.
  interface Span {
    readonly name: string;
    readonly traceId: string;
    readonly attributes: readonly { readonly key: string; readonly value: object }[];
  }
  interface Export {
    readonly resourceSpans: readonly { readonly scopeSpans: readonly { readonly spans: readonly Span[] }[] }[];
  }
  const spansOf = (): readonly Span[] =>
    otlp
      .filter(({ path }) => path === "/v1/traces")
      .flatMap(({ body }) => (JSON.parse(body) as Export).resourceSpans)
      .flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans));
  // The spans of a call can be in two exports.
  await vi.waitFor(() => {
    const spans = spansOf();
    const own = spans.find(({ name }) => name.includes("own part"));
    expect(own?.attributes).toContainEqual({ key: expect.stringContaining("rows"), value: { intValue: 3 } });
    expect(spans.filter(({ traceId }) => traceId === own?.traceId).length).toBeGreaterThan(1);
    expect(spans.some(({ name }) => name.includes("seen"))).toBe(true);
  });
});
