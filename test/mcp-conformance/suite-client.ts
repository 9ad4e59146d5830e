// The client under test: a tenant of a Glovebox with the suite's server upstream, which lists that server's tools and calls them. A stub provider
// signs in and agrees to everything.
import { randomUUID } from "node:crypto";
import { auth, type OAuthClientProvider } from "@modelcontextprotocol/client";
import type { ToolResult } from "../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../src/host/glovebox/glovebox.ts";
import type { JsonSchema } from "../../src/sandbox/contract/definition.ts";

/** The suite's description of a scenario. */
export interface Scenario {
  readonly url: string;
  readonly name: string;
  readonly revision: string | undefined;
  readonly context: {
    readonly client_id?: string;
    readonly client_secret?: string;
    readonly toolCalls?: readonly { readonly name: string; readonly arguments: Record<string, unknown> }[];
  };
}

/** Client ID of a published Client ID Metadata Document: the suite's own example. */
const CLIENT_METADATA_URL = "https://conformance-test.local/client-metadata.json";
const CALLBACK = "http://localhost:3000/callback";

type Discovery = Awaited<ReturnType<NonNullable<OAuthClientProvider["discoveryState"]>>>;

/** A provider that stores credentials in memory, and follows every redirect like a user who agrees. */
function createProvider({ url, context }: Scenario, issuer: string): OAuthClientProvider {
  const kept = new Map<string, unknown>();
  const keeper = <Value>(name: string) => ({
    get: () => kept.get(name) as Value | undefined,
    set: (value: Value): void => void kept.set(name, value),
  });
  const tokens = keeper<NonNullable<Awaited<ReturnType<OAuthClientProvider["tokens"]>>>>("tokens");
  const client = keeper<NonNullable<Awaited<ReturnType<OAuthClientProvider["clientInformation"]>>>>("client");
  const verifier = keeper<string>("verifier");
  const discovery = keeper<unknown>("discovery");
  if (context.client_id !== undefined) {
    client.set({
      client_id: context.client_id,
      issuer,
      ...(context.client_secret === undefined ? {} : { client_secret: context.client_secret }),
    });
  }

  let isSigningIn = false;

  const provider: OAuthClientProvider = {
    clientMetadataUrl: CLIENT_METADATA_URL,
    redirectUrl: CALLBACK,
    clientMetadata: {
      client_name: "glovebox",
      redirect_uris: [CALLBACK],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
    },
    state: () => randomUUID(),
    tokens: tokens.get,
    saveTokens: tokens.set,
    clientInformation: client.get,
    saveClientInformation: client.set,
    codeVerifier: () => verifier.get() ?? "",
    saveCodeVerifier: verifier.set,
    // Kept for one sign-in only, because the server can name another authorization server next time.
    discoveryState: () => (isSigningIn ? (discovery.get() as Discovery) : undefined),
    saveDiscoveryState: discovery.set,
    redirectToAuthorization: async (page) => {
      isSigningIn = true;
      const response = await fetch(page, { redirect: "manual" });
      const back = new URL(response.headers.get("location") ?? "");
      const authorizationCode = back.searchParams.get("code") ?? "";
      const iss = back.searchParams.get("iss");
      await auth(provider, { serverUrl: url, authorizationCode, ...(iss === null ? {} : { iss }) }).finally(() => {
        isSigningIn = false;
      });
    },
  };
  return provider;
}

/** The authorization servers that the suite's server names, which a host would configure. */
async function issuersOf(url: string): Promise<readonly string[]> {
  const denied = await fetch(url, { method: "POST", body: "{}" });
  const [, metadataUrl] = /resource_metadata="([^"]+)"/.exec(denied.headers.get("www-authenticate") ?? "") ?? [];
  const { origin, pathname } = new URL(url);
  const wellKnown = "/.well-known/oauth-protected-resource";
  const places = [
    ...(metadataUrl === undefined ? [] : [metadataUrl]),
    `${origin}${wellKnown}${pathname}`,
    `${origin}${wellKnown}`,
  ];
  for (const place of places) {
    const response = await fetch(place);
    if (!response.ok) continue;
    const { authorization_servers: issuers = [] } = (await response.json()) as { authorization_servers?: string[] };
    if (issuers.length > 0) return issuers;
  }
  return [origin];
}

/** Returns an argument for each required property. */
function toArguments(schema: { readonly properties?: unknown; readonly required?: unknown }): Record<string, unknown> {
  const values: Record<string, unknown> = {
    number: 5,
    integer: 5,
    string: "text",
    boolean: true,
    array: [],
    object: {},
  };
  const properties = (schema.properties ?? {}) as Record<string, { readonly type?: string }>;
  return Object.fromEntries(Object.entries(properties).map(([name, { type = "string" }]) => [name, values[type]]));
}

/**
 * Runs a scenario in a tenant of its own.
 * @param glovebox with `tenancy: "multi"`; other scenarios may run in it at the same time
 * @returns the outcome of each call, one line each
 */
export async function runScenario(glovebox: Glovebox, scenario: Scenario): Promise<string> {
  const { url, name, revision, context } = scenario;
  const signsIn = name.startsWith("auth/");
  const tenantId = randomUUID();
  /** Name of the upstream server, which no other scenario has. */
  const server = `suite-${tenantId}`;
  let issuers: readonly string[] = signsIn ? await issuersOf(url) : [];
  const provider = signsIn ? createProvider(scenario, issuers[0] ?? url) : undefined;
  const add = (): void => {
    glovebox.mcp.addServer(server, {
      url,
      tenants: [tenantId],
      prefix: "",
      connectTimeoutMs: 120_000,
      timeoutMs: 120_000,
      protocol: revision === "2025-11-25" ? "legacy" : "auto",
      ...(provider === undefined ? {} : { authProvider: provider, oauth: { issuers } }),
      onElicitation: () => ({ action: "accept", content: name.includes("2322") ? { confirmed: true } : {} }),
    });
  };
  add();
  await using _added = { [Symbol.asyncDispose]: async () => void (await glovebox.mcp.removeServer(server)) };
  /** Acts like a host whose server has moved to another authorization server that the host trusts too. */
  let hasMoved = false;
  const followMove = async (): Promise<boolean> => {
    const status = glovebox.mcp.servers().find((one) => one.server === server);
    const isDenied = status?.lastError?.message.includes("authorization that the host denies") === true;
    if (hasMoved || !isDenied) return false;
    hasMoved = true;
    issuers = await issuersOf(url);
    await glovebox.mcp.removeServer(server);
    add();
    return true;
  };
  let definitions: Awaited<ReturnType<typeof glovebox.listTools>> = [];
  // The request that causes the sign-in fails; the next one has a token.
  for (let attempt = 0; attempt < 3 && definitions.length === 0; attempt += 1)
    definitions = await glovebox.listTools({ tenantId });
  if (definitions.length === 0 && (await followMove())) {
    for (let attempt = 0; attempt < 3 && definitions.length === 0; attempt += 1)
      definitions = await glovebox.listTools({ tenantId });
  }
  const schemaOf = (toolName: string): JsonSchema | undefined =>
    definitions.find((definition) => definition.name === toolName)?.inputSchema;
  const calls =
    context.toolCalls?.map((call) => ({ name: call.name, args: withoutNulls(call.arguments) })) ??
    definitions.map((definition) => ({
      name: definition.name,
      args:
        definition.name === "json_schema_echo"
          ? { schema: schemaOf("json_schema_2020_12_tool") }
          : toArguments(definition.inputSchema),
    }));
  const execute = (toolName: string, args: unknown): Promise<ToolResult> =>
    glovebox.execute({ id: randomUUID(), toolName, arguments: args as never }, { tenantId });
  const lines: string[] = [];
  for (const { name: toolName, args } of calls) {
    let result = await execute(toolName, args);
    // The client signs in again for more scopes.
    if (!result.success && signsIn) result = await execute(toolName, args);
    if (!result.success && (await followMove())) {
      await glovebox.listTools({ tenantId });
      result = await execute(toolName, args);
    }
    lines.push(`${toolName}: ${result.success ? "ok" : `${result.error.code}, ${result.error.message}`}`);
  }
  return lines.join("\n");
}

/** Null stands for a missing argument. */
const withoutNulls = (args: Record<string, unknown>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(args).filter(([, value]) => value !== null));
