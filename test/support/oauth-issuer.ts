// An authorization server as a resource server sees it: metadata and keys over real HTTP, tokens signed with real keys.
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, importJWK, type JWK, type JWTPayload, SignJWT } from "jose";

interface SigningKey {
  readonly kid: string;
  readonly alg: string;
  readonly privateKey: CryptoKey;
  readonly publicJwk: JWK;
}

interface RsaPair {
  readonly privateJwk: JWK;
  readonly publicJwk: JWK;
}
/** Made once: it takes a tenth of a second and more, and is the same for each of RSA's algorithms. */
let rsa: Promise<RsaPair> | undefined;

async function makeRsa(): Promise<RsaPair> {
  const { privateKey, publicKey } = await generateKeyPair("RS256", { extractable: true });
  return { privateJwk: await exportJWK(privateKey), publicJwk: await exportJWK(publicKey) };
}

async function makePair(alg: string): Promise<Pick<SigningKey, "privateKey" | "publicJwk">> {
  if (/^(RS|PS)/.test(alg)) {
    rsa ??= makeRsa();
    const { privateJwk, publicJwk } = await rsa;
    return { privateKey: (await importJWK(privateJwk, alg)) as CryptoKey, publicJwk };
  }
  const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true });
  return { privateKey, publicJwk: await exportJWK(publicKey) };
}

export async function makeKey(kid: string, alg: string): Promise<SigningKey> {
  const { privateKey, publicJwk } = await makePair(alg);
  return { kid, alg, privateKey, publicJwk: { ...publicJwk, kid, alg, use: "sig" } };
}

export class OAuthIssuer implements AsyncDisposable {
  readonly #server: Server;
  /** The keys of its JWK set. */
  keys: SigningKey[];
  /** Answers that replace the default ones, by path. */
  readonly answers = new Map<string, { readonly status: number; readonly body: string; readonly location?: string }>();
  /** Whether requests get no answer. */
  hangs = false;
  /** Requested paths. */
  readonly asked: string[] = [];

  private constructor(server: Server, keys: SigningKey[]) {
    this.#server = server;
    this.keys = keys;
  }

  static async start(...algorithms: readonly string[]): Promise<OAuthIssuer> {
    const keys = await Promise.all(algorithms.map((alg) => makeKey(`key-${alg}`, alg)));
    const server = createServer((request, response) => {
      const path = request.url ?? "";
      issuer.asked.push(path);
      if (issuer.hangs) return;
      const { status, body, location } = issuer.#answer(path);
      response.writeHead(status, {
        "Content-Type": "application/json",
        ...(location === undefined ? {} : { Location: location }),
      });
      response.end(body);
    });
    const issuer = new OAuthIssuer(server, keys);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return issuer;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get jwksUri(): string {
    return `${this.url}/jwks`;
  }

  #answer(path: string): { readonly status: number; readonly body: string; readonly location?: string } {
    const stated = this.answers.get(path);
    if (stated !== undefined) return stated;
    if (path === "/jwks") return { status: 200, body: JSON.stringify({ keys: this.keys.map((key) => key.publicJwk) }) };
    if (path !== "/.well-known/oauth-authorization-server") return { status: 404, body: "{}" };
    return { status: 200, body: JSON.stringify({ issuer: this.url, jwks_uri: this.jwksUri }) };
  }

  /** A good token for `resource` unless `claims` or `header` say otherwise; a claim that is undefined is left out. */
  async token(
    resource: string,
    claims: JWTPayload = {},
    header: { readonly [name: string]: unknown } = {},
    key = this.keys[0],
  ): Promise<string> {
    if (key === undefined) throw new Error("An issuer without keys");
    const now = Math.floor(Date.now() / 1_000);
    const payload = {
      iss: this.url,
      aud: resource,
      sub: "user-1",
      client_id: "client-1",
      iat: now,
      exp: now + 600,
      ...claims,
    };
    return await new SignJWT(payload)
      .setProtectedHeader({ alg: key.alg, kid: key.kid, typ: "at+jwt", ...header })
      .sign(key.privateKey);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise<unknown>((resolve) => this.#server.close(resolve));
  }
}
