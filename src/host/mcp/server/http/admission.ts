// Admits HTTP requests to the MCP server: answers requests for metadata, identifies the caller, and reads the body within the caller's
// quotas.
import type { Tenancy } from "../../../tenants/tenancy.ts";
import type { Authenticator } from "../authorization/authentication.ts";
import { ownerOf } from "../authorization/caller.ts";
import { createIdentifier, type IdentifiedCaller, type TenantOf } from "../authorization/identify-caller.ts";
import type { HttpLimits, HttpQuotas } from "./http-limits.ts";
import { INVALID_REQUEST, reject, rejectOverLimit } from "./rejection.ts";
import { readJsonBody } from "./request-body.ts";

/** Methods that MCP and browsers use. Some others, such as TRACE, cannot be represented by a `Request`. */
const METHODS: ReadonlySet<string> = new Set(["GET", "POST", "DELETE", "OPTIONS"]);

export interface AdmittedRequest {
  readonly caller: IdentifiedCaller;
  /** The parsed JSON; undefined for a method without a body. */
  readonly body: unknown;
  /** Returns the bytes of the body to the caller's quota. Must be called once, when the request has ended. */
  readonly release: () => void;
}

interface AdmissionDependencies {
  readonly authenticator: Authenticator;
  readonly tenancy: Tenancy;
  readonly tenantOf: TenantOf | undefined;
  readonly limits: HttpLimits;
  readonly maxBodyBytes: number;
  readonly quotas: HttpQuotas;
  readonly onError: (error: unknown) => void;
}

/** Returns a function that admits a request, or returns the response that answers it. */
export function createAdmission(
  dependencies: AdmissionDependencies,
): (request: Request) => Promise<AdmittedRequest | Response> {
  const { authenticator, limits } = dependencies;
  const identify = createIdentifier({ ...dependencies, timeoutMs: limits.identifyMs });
  return async (request) => {
    const malformed = rejectUserinfo(request);
    if (malformed !== undefined) return malformed;
    const metadata = await authenticator.serveMetadata(request);
    if (metadata !== undefined) return metadata;
    if (!METHODS.has(request.method)) return reject(405, "Expected a POST", -32_000, { Allow: "POST" });
    const caller = await identify(request);
    return "tenantId" in caller ? await admitBody(request, caller, dependencies) : caller;
  };
}

/** Rejects a URL with a user name or a password (`http://user:password@host/`), for which no `Request` can be created. */
function rejectUserinfo({ url }: Request): Response | undefined {
  const { username, password } = new URL(url);
  return username === "" && password === ""
    ? undefined
    : reject(400, "Expected a URL without a user name and password");
}

async function admitBody(
  request: Request,
  caller: IdentifiedCaller,
  { limits, maxBodyBytes, quotas }: AdmissionDependencies,
): Promise<AdmittedRequest | Response> {
  const owner = ownerOf(caller);
  const busy = quotas.reading.take(owner, 1);
  if (busy !== undefined) return rejectOverLimit(busy, "requests");
  let takenBytes = 0;
  let isAdmitted = false;
  const release = (): void => quotas.requestBytes.give(owner, takenBytes);
  const take = (bytes: number) => {
    const exceeded = quotas.requestBytes.take(owner, bytes);
    if (exceeded === undefined) takenBytes += bytes;
    return exceeded;
  };
  try {
    const body = await readJsonBody(request, { maxBytes: maxBodyBytes, timeoutMs: limits.bodyMs, take });
    if (!("value" in body)) return body;
    // Only revision 2025-03-26 has batches. One request could start a hundred calls at once.
    if (Array.isArray(body.value))
      return reject(400, "Batches are not supported: send one message per request", INVALID_REQUEST);
    isAdmitted = true;
    return { caller, body: body.value, release };
  } finally {
    quotas.reading.give(owner, 1);
    if (!isAdmitted) release();
  }
}
