// Answers of a host's own authenticate(), each with the status that the MCP server must answer with. Made in the process of the server,
// where `@hono/node-server` has replaced the global Response: see mcp-handler-script.ts.
import { Response as UndiciResponse, fetch as undiciFetch } from "undici";
import { inOtherRealm, toThenable } from "./failing-callbacks.ts";

const nowSeconds = (): number => Math.floor(Date.now() / 1_000);

export const validCaller = () => ({
  subject: "user-1",
  clientId: "client-1",
  issuer: "https://as.example.com",
  scopes: ["tools:call"],
  expiresAt: nowSeconds() + 3_600,
  claims: { tenant: "acme" },
});

class Caller {
  readonly scopes: readonly string[] = [];
  readonly claims = {};
  readonly expiresAt = nowSeconds() + 3_600;
}

/** @param url of a server that answers with the status in its path */
type MakeAnswer = (url: (status: number) => string) => unknown;

const denial = (status: number): Response => Response.json({ error: "denied" }, { status });

export const AUTH_ANSWERS: readonly (readonly [name: string, make: MakeAnswer, status: number])[] = [
  ["a valid caller", validCaller, 200],
  ["a promise of a valid caller", async () => validCaller(), 200],
  ["a thenable of a valid caller", () => toThenable((resolve) => resolve(validCaller())), 200],
  [
    "a valid caller of another realm",
    () => inOtherRealm('({ subject: "a", scopes: ["x"], expiresAt: 1e11, claims: {} })'),
    200,
  ],
  ["a Response of the global", () => denial(401), 401],
  ["a clone of a Response", () => denial(403).clone(), 403],
  ["the Response of the global fetch()", (url) => fetch(url(401)), 401],
  ["a clone of the Response of the global fetch()", async (url) => (await fetch(url(403))).clone(), 403],
  ["a Response of undici", () => new UndiciResponse("denied", { status: 401 }), 401],
  ["the Response of undici's fetch()", (url) => undiciFetch(url(429)), 429],
  [
    "a response of a vm context",
    () => inOtherRealm('({ status: 401, headers: new Map([["www-authenticate", "Bearer"]]), body: null })'),
    401,
  ],
  ["a Response whose body was read", (url) => fetch(url(401)).then((one) => one.text().then(() => one)), 401],
  ["a response that has the fields of a caller", () => Object.assign(denial(401), validCaller()), 401],
  ["a response with a body that never ends", () => new UndiciResponse(new ReadableStream(), { status: 401 }), 401],
  ["a Response with the status 200", () => Response.json({ ok: true }), 500],
  ["the Response of a fetch() with the status 200", (url) => fetch(url(200)), 500],
  ["a Response with the status 302", () => Response.redirect("https://example.com/login"), 500],
  ["a Response of undici with the status 204", () => new UndiciResponse(null, { status: 204 }), 500],
  ["Response.error()", () => Response.error(), 500],
  ["undefined", () => undefined, 401],
  ["null", () => null, 401],
  ["false", () => false, 401],
  ["a promise of undefined", async () => undefined, 401],
  ["true", () => true, 500],
  ["a string", () => "admin", 500],
  ["a number", () => 1, 500],
  ["an array", () => [validCaller()], 500],
  ["a Map", () => new Map(Object.entries(validCaller())), 500],
  ["a function", () => () => validCaller(), 500],
  ["an empty object", () => ({}), 500],
  ["an instance of a class", () => new Caller(), 500],
  ["a caller without scopes", () => ({ ...validCaller(), scopes: undefined }), 500],
  ["a caller whose scopes are a string", () => ({ ...validCaller(), scopes: "tools:call" }), 500],
  ["a caller without claims", () => ({ ...validCaller(), claims: null }), 500],
  ["a caller without an expiry", () => ({ ...validCaller(), expiresAt: undefined }), 500],
  ["a caller whose expiry is NaN", () => ({ ...validCaller(), expiresAt: Number.NaN }), 500],
  ["a caller whose expiry is a string", () => ({ ...validCaller(), expiresAt: "9999999999" }), 500],
  ["a caller with an unknown field", () => ({ ...validCaller(), denied: true }), 500],
  ["an expired caller", () => ({ ...validCaller(), expiresAt: nowSeconds() - 60 }), 401],
  [
    "an object whose fields cannot be read",
    () => inOtherRealm('new Proxy({}, { get(_, key) { if (key === "then") return; throw new Error("no") } })'),
    500,
  ],
];

/** The same for serveMetadata(): a request goes on to authenticate() only after undefined. */
export const METADATA_ANSWERS: readonly (readonly [name: string, make: MakeAnswer, status: number])[] = [
  ["undefined", () => undefined, 200],
  ["a promise of undefined", async () => undefined, 200],
  ["a Response of the global", () => denial(405), 405],
  ["the Response of the global fetch()", (url) => fetch(url(404)), 404],
  ["a Response of undici", () => new UndiciResponse("x", { status: 404 }), 404],
  ["null", () => null, 500],
  ["false", () => false, 500],
  ["true", () => true, 500],
  ["a string", () => "metadata", 500],
  ["a plain object", () => ({ resource: "https://tools.example.com" }), 500],
];
