// Calls the host's resource server (`auth`) and validates its answer. Only a valid caller is admitted. An error, a timeout or any other
// answer denies the request.
import * as z from "zod";
import { describeKind, isPlainObject, strictObject } from "../../../../sandbox/contract/plain-object.ts";
import { type CallbackBounds, type CallbackFailure, runCallback } from "../../../util/host-callback.ts";
import { toLocalResponse } from "../http/foreign-response.ts";
import { reject, rejectUnavailable } from "../http/rejection.ts";
import { CLOCK_TOLERANCE_SECONDS } from "./access-token.ts";
import type { AuthenticatedCaller, ResourceServer } from "./caller.ts";

const MIN_DENIAL_STATUS = 400;

const CallerSchema = strictObject({
  subject: z.string().optional(),
  clientId: z.string().optional(),
  issuer: z.string().optional(),
  scopes: z.array(z.string()),
  // `z.number()` rejects Infinity, which stands for credentials that do not expire.
  expiresAt: z.custom<number>((value) => typeof value === "number" && !Number.isNaN(value), "Expected a number"),
  claims: z.custom<Readonly<Record<string, unknown>>>(isPlainObject, "Expected a plain object"),
});

/** The caller (undefined if the server has no `auth`), or the response that denies the request. */
export type Authentication = { readonly caller: AuthenticatedCaller | undefined } | { readonly denial: Response };

export interface Authenticator {
  /** Returns the response to a request for metadata; undefined for every other request. */
  serveMetadata(request: Request): Promise<Response | undefined>;
  authenticate(request: Request): Promise<Authentication>;
}

interface AuthenticatorOptions {
  /** How long each function of the resource server may take, in ms. */
  readonly timeoutMs: number;
  /** Receives the reason when a request is denied because the resource server gave no valid answer. */
  readonly onError: (error: unknown) => void;
}

/** The authenticator of a server without `auth`. */
const ADMIT_ALL: Authenticator = {
  serveMetadata: async () => undefined,
  authenticate: async () => ({ caller: undefined }),
};

/** @param auth undefined for a server that serves everyone */
export function createAuthenticator(auth: ResourceServer | undefined, options: AuthenticatorOptions): Authenticator {
  if (auth === undefined) return ADMIT_ALL;
  const { timeoutMs, onError } = options;
  const boundsOf = ({ signal }: Request): CallbackBounds => ({ timeoutMs, signal });
  return {
    serveMetadata: async (request) => {
      const outcome = await runCallback(() => auth.serveMetadata(request), boundsOf(request));
      if ("failed" in outcome) return toFailure("auth.serveMetadata()", outcome, options);
      if (outcome.answer === undefined) return undefined;
      const response = await toLocalResponse(outcome.answer);
      if (response !== undefined) return response;
      onError(new TypeError(`auth.serveMetadata() must return a Response or undefined, got ${show(outcome.answer)}`));
      return reject(500, "Internal error", -32_603);
    },
    authenticate: async (request) => {
      const outcome = await runCallback(() => auth.authenticate(request), boundsOf(request));
      if ("failed" in outcome) return { denial: toFailure("auth.authenticate()", outcome, options) };
      return await parseAnswer(outcome.answer, onError);
    },
  };
}

function toFailure(name: string, outcome: CallbackFailure, { timeoutMs, onError }: AuthenticatorOptions): Response {
  if (outcome.failed === "threw") {
    onError(outcome.cause);
    return reject(500, "Internal error", -32_603);
  }
  if (outcome.failed === "timed out") {
    onError(new Error(`${name} timed out after ${timeoutMs} ms (limits.identifyMs)`));
  }
  return rejectUnavailable("The caller cannot be authenticated at present");
}

async function parseAnswer(answer: unknown, onError: (error: unknown) => void): Promise<Authentication> {
  // Comes before the check for a caller: an object that is both denies the request.
  const response = await toLocalResponse(answer);
  if (response !== undefined && response.status >= MIN_DENIAL_STATUS) return { denial: response };
  const parsed = response === undefined ? CallerSchema.safeParse(answer) : undefined;
  if (parsed?.success === true) return checkExpiry(parsed.data);
  const expected = "auth.authenticate() must return a caller or a Response with a status from 400 to 599";
  const got = response === undefined ? show(answer) : `a Response with the status ${response.status}`;
  onError(new TypeError(`${expected}, got ${got}${parsed === undefined ? "" : issuesOf(parsed.error)}`));
  const isMissing = answer === undefined || answer === null || answer === false;
  return { denial: isMissing ? rejectUnauthorized() : reject(500, "Internal error", -32_603) };
}

const show = (value: unknown): string => (typeof value === "boolean" ? String(value) : describeKind(value));

function issuesOf({ issues }: z.core.$ZodError): string {
  return `: ${issues.map(({ path, message }) => [...path.map(String), message].join(": ")).join("; ")}`;
}

function checkExpiry(caller: AuthenticatedCaller): Authentication {
  const now = Date.now() / 1_000;
  if (caller.expiresAt + CLOCK_TOLERANCE_SECONDS > now) return { caller };
  return { denial: rejectExpired() };
}

const rejectUnauthorized = (): Response => reject(401, "Unauthorized", -32_000, { "WWW-Authenticate": "Bearer" });

/** Denies a request whose caller's credentials have expired: 401. */
export const rejectExpired = (): Response =>
  reject(401, "The access token has expired", -32_000, {
    "WWW-Authenticate": 'Bearer error="invalid_token", error_description="The access token has expired"',
  });
