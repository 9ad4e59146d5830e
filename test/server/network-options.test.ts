// The options of a server that name URLs, hosts and addresses: what would never match is an error that says what would.
import { expect, test } from "vitest";
import { parseCidr } from "../../src/host/capabilities/fetch/address-guard.ts";
import { createTokenVerifier } from "../../src/server/auth/token-verifier.ts";
import { parseServerOptions } from "../../src/server/config/server-options.ts";

const SECURE = "Expected an https URL without a fragment, or http on this machine";
const BASE = "Expected an https URL without a query or fragment, or http on this machine";
const HOST = "Expected a host name, or name:port, as in the Host header";
const RANGE = 'Expected an IP address or a CIDR range, such as "10.1.0.0/16". Host names are not accepted';

const jwt = (options: object): object => ({ jwt: { issuer: "https://i.example", audience: "a", ...options } });
const oidc = (options: object): object => ({
  oidc: { issuer: "https://i.example", clientId: "c", publicUrl: "https://p.example", ...options },
});

test.for<readonly [object, string]>([
  [jwt({ issuer: "http://login.example.com" }), `options.jwt.issuer: ${SECURE}`],
  [jwt({ issuer: "http://127.0.0.1.evil.example" }), `options.jwt.issuer: ${SECURE}`],
  [jwt({ issuer: "ftp://x" }), `options.jwt.issuer: ${SECURE}`],
  [jwt({ issuer: "login.example.com" }), `options.jwt.issuer: ${SECURE}`],
  [jwt({ issuer: "https://i.example/#x" }), `options.jwt.issuer: ${SECURE}`],
  [jwt({ issuer: 5 }), "options.jwt.issuer: Expected a string, got a number"],
  [jwt({ jwksUri: "javascript:alert(1)" }), `options.jwt.jwksUri: ${SECURE}`],
  [jwt({ jwksUri: "http://i.example/jwks" }), `options.jwt.jwksUri: ${SECURE}`],
  [oidc({ issuer: "https://i.example/?x" }), `options.oidc.issuer: ${BASE}`],
  [oidc({ issuer: "http://i.example" }), `options.oidc.issuer: ${BASE}`],
  [oidc({ publicUrl: "https://p.example/?x=1#y" }), `options.oidc.publicUrl: ${BASE}`],
  [oidc({ publicUrl: "https:" }), `options.oidc.publicUrl: ${BASE}`],
  [{ webhookAddresses: ["10.0.0.0/8", "nonsense"] }, `options.webhookAddresses.1: ${RANGE}`],
  [{ webhookAddresses: ["10.0.0.0/33"] }, `options.webhookAddresses.0: ${RANGE}`],
  [{ webhookAddresses: ["10.0.0.1:80"] }, `options.webhookAddresses.0: ${RANGE}`],
  [{ webhookAddresses: ["fe80::1%eth0"] }, `options.webhookAddresses.0: ${RANGE}`],
  [{ webhookAddresses: ["10.1/8"] }, `options.webhookAddresses.0: ${RANGE}`],
  [{ webhookAddresses: [""] }, `options.webhookAddresses.0: ${RANGE}`],
  [{ allowHosts: ["https://a.b/"] }, `options.allowHosts.0: ${HOST}: "a.b"`],
  [{ allowHosts: ["https://a.b:8080/x"] }, `options.allowHosts.0: ${HOST}: "a.b:8080"`],
  [{ allowHosts: ["a.b/x"] }, `options.allowHosts.0: ${HOST}`],
  [{ allowHosts: ["*"] }, `options.allowHosts.0: ${HOST}. Patterns are not supported: list each name`],
  [{ allowHosts: ["a.b", "*.a.b"] }, `options.allowHosts.1: ${HOST}. Patterns are not supported: list each name`],
  [{ allowHosts: ["fd00::7"] }, `options.allowHosts.0: ${HOST}: "[fd00::7]"`],
  [{ allowHosts: ["b\u00fccher.example"] }, `options.allowHosts.0: ${HOST}: "xn--bcher-kva.example"`],
  [{ allowHosts: ["a.b, c.d"] }, `options.allowHosts.0: ${HOST}`],
])("%j is rejected", ([options, message]) => {
  expect(() => parseServerOptions(options)).toThrow(message);
});

test.for<object>([
  jwt({}),
  jwt({ issuer: "http://127.0.0.1:8080/realms/a" }),
  jwt({ issuer: "HTTPS://I.example/a?b", jwksUri: "http://localhost:1/jwks" }),
  jwt({ issuer: "http://[::1]:1" }),
])("%j is accepted by the verifier of tokens as well", async (options) => {
  const config = parseServerOptions(options);
  if (config.jwt === undefined) throw new Error("Expected the options of the verifier");
  await createTokenVerifier(config.jwt, () => {});
});

test.for<object>([
  { allowHosts: ["a.b", "a.b:8080", "10.0.0.7", "[fd00::7]", "[fd00::7]:7070", "localhost", "my_service"] },
  { webhookAddresses: ["10.0.0.1", "10.0.0.0/8", "::1", "fd00::/8", "0.0.0.0/0"] },
  oidc({ issuer: "http://localhost:8080/realms/a", publicUrl: "https://p.example/tools/" }),
])("%j is accepted", (options) => {
  expect(parseServerOptions(options)).toMatchObject(options);
});

test("webhooks understand each range that is accepted", () => {
  const ranges = ["10.0.0.1", "10.0.0.0/8", "10.0.0.0/0", "10.0.0.0/32", "::1", "fd00::/8", "::/0", "::1/128"];
  const { webhookAddresses } = parseServerOptions({ webhookAddresses: ranges });
  expect(webhookAddresses.map(parseCidr)).not.toContain(undefined);
});

test("a host name counts whatever its case", () => {
  expect(parseServerOptions({ allowHosts: ["Tools.Example.com:80"] }).allowHosts).toEqual(["tools.example.com:80"]);
});
