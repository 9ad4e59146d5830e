// Identifies the caller of a request before its body is read: first the credentials, then the tenant. Each step has a timeout and denies
// the request when it fails.
import type { Tenancy } from "../../../tenants/tenancy.ts";
import { runCallback } from "../../../util/host-callback.ts";
import { reject, rejectUnavailable } from "../http/rejection.ts";
import type { Authenticator } from "./authentication.ts";
import { type AuthenticatedCaller, type McpCaller, type McpRequest, principalOf } from "./caller.ts";

/** Longest tenant id in UTF-16 code units, the same as in a call's context. */
const MAX_TENANT_LENGTH = 1_024;

export const isTenantId = (value: unknown): value is string =>
  typeof value === "string" && value.length > 0 && value.length <= MAX_TENANT_LENGTH;

export type TenantOf = (request: McpRequest) => unknown;

export interface IdentifiedCaller extends McpCaller {
  /** When the caller's credentials expire, in ms since 1970; undefined if the server has no `auth`. */
  readonly expiresAtMs: number | undefined;
}

interface IdentifyOptions {
  readonly authenticator: Authenticator;
  readonly tenancy: Tenancy;
  /** Undefined for a Glovebox with one tenant. */
  readonly tenantOf: TenantOf | undefined;
  /** Longest time in ms for each function of the host. */
  readonly timeoutMs: number;
  readonly onError: (error: unknown) => void;
}

/** Returns a function that identifies the caller of a request, or returns the response that denies it. It never rejects. */
export function createIdentifier(options: IdentifyOptions): (request: Request) => Promise<IdentifiedCaller | Response> {
  const { authenticator } = options;
  return async (request) => {
    const authentication = await authenticator.authenticate(request);
    if ("denial" in authentication) return authentication.denial;
    const { caller } = authentication;
    const tenantId = await toTenant({ caller, request }, options);
    return typeof tenantId === "string" ? toIdentified(tenantId, caller, options) : tenantId;
  };
}

function toIdentified(
  tenantId: string,
  caller: AuthenticatedCaller | undefined,
  { onError }: IdentifyOptions,
): IdentifiedCaller | Response {
  try {
    const expiresAtMs = caller === undefined ? undefined : caller.expiresAt * 1_000;
    return { tenantId, principal: principalOf(caller), expiresAtMs };
  } catch (cause) {
    // Claims that cannot be compared would let one caller use the sessions of another.
    onError(cause);
    return reject(500, "Internal error", -32_603);
  }
}

async function toTenant(
  { caller, request }: McpRequest,
  { tenancy, tenantOf, timeoutMs, onError }: IdentifyOptions,
): Promise<string | Response> {
  if (tenantOf === undefined) return tenancy.tenantOf(undefined, "options.tenantOf");
  const { signal } = request;
  const outcome = await runCallback(() => tenantOf({ caller, request }), { timeoutMs, signal });
  if ("answer" in outcome) {
    return isTenantId(outcome.answer) ? outcome.answer : reject(403, "No tenant is assigned to this caller");
  }
  if (outcome.failed === "threw") {
    onError(outcome.cause);
    return reject(403, "No tenant is assigned to this caller");
  }
  if (outcome.failed === "timed out") {
    onError(new Error(`tenantOf() timed out after ${timeoutMs} ms (limits.identifyMs)`));
  }
  return rejectUnavailable("The tenant of this caller cannot be determined at present");
}
