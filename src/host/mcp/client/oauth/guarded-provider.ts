// Wraps the host's credential provider for the SDK, so that stored credentials are used only with the issuer that they came from.
import type { AuthProvider, OAuthClientProvider, OAuthDiscoveryState } from "@modelcontextprotocol/client";
import { isJsonObject } from "../../../../sandbox/contract/value-kind.ts";
import { runCallback } from "../../../util/host-callback.ts";
import { isSameIssuer, OAuthDenied, type OAuthPolicy } from "./oauth-policy.ts";

/** Printable ASCII characters, which a header can contain. RFC 6750 allows fewer. */
const TOKEN = /^[\x20-\x7e]{1,65536}$/;

type Context = { readonly issuer?: string } | undefined;

/** Distinguishes the two kinds of providers as the SDK does. */
export const isOAuthProvider = (provider: AuthProvider | OAuthClientProvider): provider is OAuthClientProvider =>
  "tokens" in provider && typeof provider.tokens === "function" && "clientInformation" in provider;

type LookUp = (method: string, run: () => unknown) => Promise<unknown>;

/** Creates a function that calls a method of the host's provider. It rejects if the method throws or times out. */
const createLookUp =
  (timeoutMs: number): LookUp =>
  async (method, run) => {
    const outcome = await runCallback(run, { timeoutMs });
    if ("answer" in outcome) return outcome.answer;
    throw new Error(`authProvider.${method}() ${outcome.failed}`, { cause: outcome.cause });
  };

/** Returns stored credentials if they belong to the issuer of the context, or to any allowed issuer if it has none; otherwise undefined. */
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
      // A provider that cannot save client information would never return any other.
      if (bound === undefined && isJsonObject(stored) && provider.saveClientInformation === undefined) {
        throw new OAuthDenied(
          "authProvider.clientInformation() returned a missing or different issuer: set its issuer",
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
  // Its target is an empty object: with a frozen provider as the target, the proxy could not return other values than the provider's.
  return new Proxy({} as OAuthClientProvider, {
    has: (_, key) => Object.hasOwn(overrides, key) || Reflect.has(provider, key),
    get: (_, key) => {
      if (Object.hasOwn(overrides, key)) return overrides[key as keyof typeof overrides];
      const member: unknown = Reflect.get(provider, key, provider);
      return typeof member === "function" ? member.bind(provider) : member;
    },
  });
}

/** Rejects anything that is not a string, even if it could be converted to one. @throws {TypeError} */
function checkToken(token: unknown): asserts token is string {
  if (typeof token !== "string" || !TOKEN.test(token)) {
    throw new TypeError("The authProvider returned an invalid token: expected 1 to 65536 printable ASCII characters");
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

/** Wraps a provider. @param timeoutMs longest time in ms for the provider to return stored credentials */
export function guardProvider(
  provider: AuthProvider | OAuthClientProvider,
  policy: OAuthPolicy,
  timeoutMs: number,
): AuthProvider | OAuthClientProvider {
  const lookUp = createLookUp(timeoutMs);
  return isOAuthProvider(provider) ? guardOAuth(provider, policy, lookUp) : guardTokens(provider, lookUp);
}
