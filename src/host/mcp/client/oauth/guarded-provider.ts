// The host's provider of credentials, as the SDK sees it: what is stored is used with the issuer that gave it and with no other.
import type { AuthProvider, OAuthClientProvider, OAuthDiscoveryState } from "@modelcontextprotocol/client";
import { runCallback } from "../../../util/host-callback.ts";
import { isJsonObject } from "../reading/json-size.ts";
import { isSameIssuer, OAuthDenied, type OAuthPolicy } from "./oauth-policy.ts";

/** Printable characters of ASCII: what a header can hold (RFC 6750 has fewer). */
const TOKEN = /^[\x20-\x7e]{1,65536}$/;

type Context = { readonly issuer?: string } | undefined;

/** Either kind of provider, as the SDK tells them apart. */
export const isOAuthProvider = (provider: AuthProvider | OAuthClientProvider): provider is OAuthClientProvider =>
  "tokens" in provider && typeof provider.tokens === "function" && "clientInformation" in provider;

type LookUp = (what: string, run: () => unknown) => Promise<unknown>;

/** Asks the host's provider for something that it keeps. Rejects with what it throws, or when it takes too long. */
const createLookUp =
  (timeoutMs: number): LookUp =>
  async (what, run) => {
    const outcome = await runCallback(run, { timeoutMs });
    if ("answer" in outcome) return outcome.answer;
    throw new Error(`The authProvider's ${what}() ${outcome.failed}`, { cause: outcome.cause });
  };

/** Returns stored credentials if they are bound to this issuer, or to an allowed one where the caller names none; otherwise undefined. */
function boundTo(stored: unknown, context: Context, policy: OAuthPolicy): unknown {
  if (!isJsonObject(stored)) return undefined;
  const { issuer } = stored;
  if (!policy.isIssuer(issuer)) return undefined;
  return context?.issuer === undefined || isSameIssuer(issuer, context.issuer) ? stored : undefined;
}

/** Checks stored discovery results as if they had just been received: another program may have written to the store. */
function readDiscovery(stored: unknown, policy: OAuthPolicy): OAuthDiscoveryState | undefined {
  if (!isJsonObject(stored) || !policy.isIssuer(stored.authorizationServerUrl)) return undefined;
  const { authorizationServerMetadata: metadata, resourceMetadataUrl } = stored;
  try {
    if (metadata !== undefined) policy.checkIssuerMetadata(isJsonObject(metadata) ? metadata : {});
    if (resourceMetadataUrl !== undefined) policy.checkResourceMetadataUrl(new URL(String(resourceMetadataUrl)));
  } catch {
    return undefined;
  }
  return stored as unknown as OAuthDiscoveryState;
}

function guardOAuth(provider: OAuthClientProvider, policy: OAuthPolicy, lookUp: LookUp): OAuthClientProvider {
  const overrides: Partial<OAuthClientProvider> = {
    clientInformation: async (context) => {
      const stored = await lookUp("clientInformation", () => provider.clientInformation(context));
      const bound = boundTo(stored, context, policy);
      // A provider that cannot save has these credentials and no others.
      if (bound === undefined && isJsonObject(stored) && provider.saveClientInformation === undefined) {
        throw new OAuthDenied(
          "The authProvider's client information has no issuer, or that of another one: set its issuer",
        );
      }
      return bound as Awaited<ReturnType<OAuthClientProvider["clientInformation"]>>;
    },
    tokens: async (context) => {
      const stored = await lookUp("tokens", () => provider.tokens(context));
      const bound = boundTo(stored, context, policy);
      if (isJsonObject(bound)) checkToken(bound.access_token);
      return bound as Awaited<ReturnType<OAuthClientProvider["tokens"]>>;
    },
    redirectToAuthorization: async (page) => {
      policy.checkPage(page);
      await provider.redirectToAuthorization(page);
    },
    ...(provider.discoveryState === undefined
      ? {}
      : {
          discoveryState: async () =>
            readDiscovery(await lookUp("discoveryState", () => provider.discoveryState?.()), policy),
        }),
  };
  // A proxy, because a provider may be an instance of a class with private members, and may have members that only the SDK knows.
  // Its target is an empty object: with a frozen provider as the target, a proxy may not return any other value than the provider's.
  return new Proxy({} as OAuthClientProvider, {
    has: (_, key) => Object.hasOwn(overrides, key) || Reflect.has(provider, key),
    get: (_, key) => {
      if (Object.hasOwn(overrides, key)) return overrides[key as keyof typeof overrides];
      const member: unknown = Reflect.get(provider, key, provider);
      return typeof member === "function" ? member.bind(provider) : member;
    },
  });
}

/** Rejects a value that only converts to text, such as an object. @throws {TypeError} */
function checkToken(token: unknown): asserts token is string {
  if (typeof token !== "string" || !TOKEN.test(token)) {
    throw new TypeError("The authProvider's token is not one: expected printable characters of ASCII");
  }
}

function guardTokens(provider: AuthProvider, lookUp: LookUp): AuthProvider {
  const { onUnauthorized } = provider;
  return {
    token: async () => {
      const token = await lookUp("token", () => provider.token());
      if (token === undefined || token === null || token === "") return undefined;
      checkToken(token);
      return token;
    },
    ...(onUnauthorized === undefined ? {} : { onUnauthorized: (context) => onUnauthorized.call(provider, context) }),
  };
}

/** @param timeoutMs how long the provider may take to look up what it keeps */
export function guardProvider(
  provider: AuthProvider | OAuthClientProvider,
  policy: OAuthPolicy,
  timeoutMs: number,
): AuthProvider | OAuthClientProvider {
  const lookUp = createLookUp(timeoutMs);
  return isOAuthProvider(provider) ? guardOAuth(provider, policy, lookUp) : guardTokens(provider, lookUp);
}
