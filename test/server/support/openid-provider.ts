// An OpenID Connect provider over real HTTP, with keys, codes and PKCE. Tests change what it says of the user, and how it signs that.
import { createHash } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, type JWK, type JWTPayload, SignJWT } from "jose";

/** The id of the client that the provider knows. */
export const CLIENT_ID = "console";

/** Claims that replace those of a good token. */
type Claims = { readonly [name: string]: unknown };

export interface ProviderKey {
  readonly kid: string;
  readonly alg: string;
  readonly privateKey: CryptoKey;
  readonly publicJwk: JWK;
}

export async function makeProviderKey(kid: string, alg = "RS256"): Promise<ProviderKey> {
  const { privateKey, publicKey } = await generateKeyPair(alg);
  return { kid, alg, privateKey, publicJwk: { ...(await exportJWK(publicKey)), kid, alg, use: "sig" } };
}

async function readBody(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const part of request.setEncoding("utf8")) text += part as string;
  return text;
}

interface Answer {
  readonly status: number;
  readonly body?: object;
  readonly location?: string;
}

export class OpenIdProvider implements AsyncDisposable {
  readonly #server = createServer();
  /** The parameters of the authorization request for each code. */
  readonly #codes = new Map<string, URLSearchParams>();
  issuer = "";
  /** The keys that it publishes; the first one signs. */
  keys: readonly ProviderKey[] = [];
  isDown = false;
  /** What its endpoints but that of its metadata begin with. Others do not exist. */
  prefix = "";
  /** How often its metadata was requested. */
  metadataRequests = 0;
  /** Whether it accepts a code more than once, which no provider should. */
  acceptsUsedCodes = false;
  /** How often its keys were requested. */
  keyRequests = 0;
  /** Returns the ID token for the nonce of an authorization request. */
  idToken: (nonce: string) => Promise<string> | string = (nonce) => this.sign({ nonce });

  static async start(): Promise<OpenIdProvider> {
    const provider = new OpenIdProvider();
    provider.keys = [await makeProviderKey("first")];
    provider.#server.on("request", (request, response) => {
      void provider.#answer(request).then(({ status, body, location }) => {
        response.writeHead(status, {
          "content-type": "application/json",
          ...(location === undefined ? {} : { location }),
        });
        response.end(body === undefined ? "" : JSON.stringify(body));
      });
    });
    await new Promise<void>((resolve) => provider.#server.listen(0, "127.0.0.1", resolve));
    provider.issuer = `http://127.0.0.1:${(provider.#server.address() as AddressInfo).port}`;
    return provider;
  }

  /** Returns the claims of a good ID token unless `claims` say otherwise; a claim that is undefined is left out. */
  claims(claims: Claims): JWTPayload {
    const now = Math.floor(Date.now() / 1_000);
    const all = { iss: this.issuer, aud: CLIENT_ID, sub: "ada", tenant: "acme", iat: now, exp: now + 300, ...claims };
    return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
  }

  async sign(claims: Claims, header: { readonly [name: string]: unknown } = {}, key = this.keys[0]): Promise<string> {
    if (key === undefined) throw new Error("A provider without keys");
    return await new SignJWT(this.claims(claims))
      .setProtectedHeader({ alg: key.alg, kid: key.kid, ...header })
      .sign(key.privateKey);
  }

  async #answer(request: IncomingMessage): Promise<Answer> {
    const url = new URL(request.url ?? "", this.issuer);
    if (this.isDown) return { status: 503, body: {} };
    if (url.pathname === "/.well-known/openid-configuration") {
      this.metadataRequests += 1;
      return { status: 200, body: this.#metadata() };
    }
    if (!url.pathname.startsWith(`${this.prefix}/`)) return { status: 404, body: {} };
    const path = url.pathname.slice(this.prefix.length);
    if (path === "/jwks") {
      this.keyRequests += 1;
      return { status: 200, body: { keys: this.keys.map(({ publicJwk }) => publicJwk) } };
    }
    if (path === "/authorize") return this.#authorize(url.searchParams);
    return await this.#exchange(new URLSearchParams(await readBody(request)));
  }

  #metadata(): object {
    const { issuer } = this;
    const base = `${issuer}${this.prefix}`;
    return {
      issuer,
      authorization_endpoint: `${base}/authorize`,
      token_endpoint: `${base}/token`,
      jwks_uri: `${base}/jwks`,
      response_types_supported: ["code"],
      subject_types_supported: ["public"],
      // Some providers list algorithms that prove nothing. A client must not accept them for that.
      id_token_signing_alg_values_supported: ["RS256", "ES256", "none", "HS256"],
      code_challenge_methods_supported: ["S256"],
    };
  }

  #authorize(asked: URLSearchParams): Answer {
    const code = `code-${this.#codes.size}`;
    this.#codes.set(code, asked);
    const back = new URL(asked.get("redirect_uri") ?? "");
    back.searchParams.set("code", code);
    back.searchParams.set("state", asked.get("state") ?? "");
    return { status: 302, location: back.href };
  }

  async #exchange(form: URLSearchParams): Promise<Answer> {
    const code = form.get("code") ?? "";
    const asked = this.#codes.get(code);
    if (!this.acceptsUsedCodes) this.#codes.set(code, new URLSearchParams());
    const challenge = createHash("sha256")
      .update(form.get("code_verifier") ?? "")
      .digest("base64url");
    if (asked?.get("code_challenge") !== challenge) return { status: 400, body: { error: "invalid_grant" } };
    const idToken = await this.idToken(asked.get("nonce") ?? "");
    return { status: 200, body: { access_token: "a", token_type: "Bearer", id_token: idToken } };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise<unknown>((resolve) => this.#server.close(resolve));
  }
}
