// Real servers for OAuth tests on loopback: an upstream server that requires a token, an authorization server, and a bystander that must
// not receive any request. Each records its requests.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import type {
  OAuthClientProvider,
  OAuthDiscoveryState,
  StoredOAuthClientInformation,
  StoredOAuthTokens,
} from "@modelcontextprotocol/client";

export interface Recorded {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

/** Answers by path; what is undefined is a 404. */
export type Answers = (request: Recorded, response: ServerResponse) => unknown;

export class RecordingServer implements AsyncDisposable {
  readonly #server = createServer((request, response) => void this.#serve(request, response));
  readonly requests: Recorded[] = [];
  /** May be set later: servers name each other. */
  answers: Answers = () => undefined;

  static async start(answers?: Answers): Promise<RecordingServer> {
    const started = new RecordingServer();
    if (answers !== undefined) started.answers = answers;
    await new Promise<void>((listening) => started.#server.listen(0, "127.0.0.1", listening));
    return started;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get origin(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  get paths(): readonly string[] {
    return this.requests.map(({ method, path }) => `${method} ${path}`);
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = "", url: path = "", headers } = request;
    const recorded = { method, path, headers, body: await text(request) };
    this.requests.push(recorded);
    const answer = await this.answers(recorded, response);
    if (response.headersSent || response.writableEnded) return;
    if (answer === undefined) response.writeHead(404).end();
    else response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((closed) => this.#server.close(closed));
  }
}

/** Metadata of an authorization server with all of its endpoints at one origin. */
export const issuerMetadata = (issuer: string, endpoints: string = issuer): object => ({
  issuer,
  authorization_endpoint: `${endpoints}/authorize`,
  token_endpoint: `${endpoints}/token`,
  registration_endpoint: `${endpoints}/register`,
  response_types_supported: ["code"],
  code_challenge_methods_supported: ["S256"],
});

/** An upstream server that wants a token: 401 with where its metadata are, and those. */
export function protectedBy(self: RecordingServer, metadataUrl: string, issuer: string): Answers {
  return ({ path, headers, body }, response) => {
    if (path === "/metadata" || path.startsWith("/.well-known/oauth-protected-resource")) {
      return { resource: `${self.origin}/mcp`, authorization_servers: [issuer] };
    }
    if (path !== "/mcp") return undefined;
    if (headers.authorization === undefined) {
      response.writeHead(401, { "www-authenticate": `Bearer resource_metadata="${metadataUrl}"` }).end();
      return undefined;
    }
    return answerRpc(JSON.parse(body === "" ? "{}" : body), response);
  };
}

function answerRpc(rpc: { readonly id?: number; readonly method?: string }, response: ServerResponse): unknown {
  if (rpc.id === undefined) return void response.writeHead(202).end();
  const results: { readonly [method: string]: unknown } = {
    initialize: {
      protocolVersion: "2025-11-25",
      capabilities: { tools: {} },
      serverInfo: { name: "protected", version: "1" },
    },
    "tools/list": { tools: [{ name: "t", inputSchema: { type: "object" } }] },
    "tools/call": { content: [{ type: "text", text: "in" }] },
  };
  return { jsonrpc: "2.0", id: rpc.id, result: results[rpc.method ?? ""] ?? {} };
}

/** A provider that keeps what it is given, and records the pages that a person would be sent to. */
export class KeepingProvider implements OAuthClientProvider {
  readonly #pages: URL[] = [];
  readonly redirectUrl = "http://localhost:3000/callback";
  readonly clientMetadata = { client_name: "test", redirect_uris: [this.redirectUrl] };
  client: StoredOAuthClientInformation | undefined;
  kept: StoredOAuthTokens | undefined;
  discovery: OAuthDiscoveryState | undefined;
  #verifier = "";

  get pages(): readonly string[] {
    return this.#pages.map(({ origin, pathname }) => origin + pathname);
  }

  clientInformation(): StoredOAuthClientInformation | undefined {
    return this.client;
  }
  saveClientInformation(client: StoredOAuthClientInformation): void {
    this.client = client;
  }
  tokens(): StoredOAuthTokens | undefined {
    return this.kept;
  }
  saveTokens(tokens: StoredOAuthTokens): void {
    this.kept = tokens;
  }
  saveCodeVerifier(verifier: string): void {
    this.#verifier = verifier;
  }
  codeVerifier(): string {
    return this.#verifier;
  }
  discoveryState(): OAuthDiscoveryState | undefined {
    return this.discovery;
  }
  saveDiscoveryState(discovery: OAuthDiscoveryState): void {
    this.discovery = discovery;
  }
  redirectToAuthorization(page: URL): void {
    this.#pages.push(page);
  }
}
