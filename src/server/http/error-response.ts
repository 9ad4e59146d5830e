// Error responses: what a thrown value becomes, in the one form that all errors of the API have.
import { type ErrorCode, ToolError, toHttpStatus, toRetryAfterSeconds } from "../../host/index.ts";
import { ApprovalConflict } from "../approvals/approval-service.ts";
import { IdempotencyConflict } from "../calls/call-request.ts";
import { isOutage } from "../database/database-errors.ts";
import { isLostConnection } from "../database/open-database.ts";
import { RunConflict } from "../runs/run-answers.ts";
import { REQUEST_ERRORS, RequestError, type RequestErrorCode } from "./request-error.ts";

/** Time in seconds after which a client asks again for a call that has not ended. */
const OPEN_CALL_SECONDS = 1;

/** How a client authenticates. */
export const CHALLENGE = 'Bearer realm="glovebox"';

/** Headers of every response. Nothing that the API returns may be rendered, framed, cached or guessed. */
export const SECURITY_HEADERS = {
  "cache-control": "no-store",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
} as const;

export interface ErrorBody {
  readonly error: {
    readonly code: ErrorCode | RequestErrorCode;
    readonly message: string;
    readonly details?: { readonly [name: string]: unknown };
    /** Path of the page about the code within the package. */
    readonly docs: string;
    readonly requestId: string;
  };
}

export interface ErrorResponse {
  readonly status: number;
  readonly body: ErrorBody;
  readonly headers: { readonly [name: string]: string };
}

const docsPathOf = (code: ErrorCode | RequestErrorCode): string => `docs/reference/errors/${code}.md`;

/**
 * Returns the response for a thrown value. Anything but a ToolError and a RequestError is an internal error, whose cause only the operator
 * sees.
 */
export function toErrorResponse(thrown: unknown, requestId: string): ErrorResponse {
  if (thrown instanceof RequestError) {
    const { code, message, details, retryAfterSeconds, headers } = thrown;
    const challenge = code === "UNAUTHENTICATED" ? { "www-authenticate": CHALLENGE } : {};
    const retry = retryAfterSeconds === undefined ? {} : { "retry-after": String(retryAfterSeconds) };
    return {
      status: REQUEST_ERRORS[code],
      body: {
        error: { code, message, ...(details === undefined ? {} : { details }), docs: docsPathOf(code), requestId },
      },
      headers: { ...challenge, ...headers, ...retry },
    };
  }
  if (Error.isError(thrown) && thrown instanceof ToolError && thrown.code !== "INTERNAL") {
    const { code, message, details } = thrown;
    const seconds = toRetryAfterSeconds(thrown);
    return {
      status: toHttpStatus(thrown),
      body: {
        error: { code, message, ...(details === undefined ? {} : { details }), docs: docsPathOf(code), requestId },
      },
      headers: seconds === undefined ? {} : { "retry-after": String(seconds) },
    };
  }
  const message = `The server failed. Its operator finds the cause in the log by the request id ${requestId}`;
  return {
    status: 500,
    body: { error: { code: "INTERNAL", message, docs: docsPathOf("INTERNAL"), requestId } },
    headers: {},
  };
}

/** Time in seconds after which a client tries again while the database cannot be used. */
const OUTAGE_SECONDS = 5;

/**
 * Returns the error of a request while the database cannot be used.
 * @param mayHaveEffect whether the request may have changed something. It then does not say when to try again: a call that has run must not run twice
 */
export const toUnavailable = (requestId: string, mayHaveEffect = false): RequestError =>
  new RequestError(
    "UNAVAILABLE",
    `${mayHaveEffect ? "The database was lost during the request, which may have had its effect" : "The database cannot be used now"}. The server's operator finds the cause in the log by the request id ${requestId}`,
    mayHaveEffect ? {} : { retryAfterSeconds: OUTAGE_SECONDS },
  );

/** Returns the error of a request for a conflict; anything else as it is. */
function toRequestError(thrown: unknown): unknown {
  if (thrown instanceof IdempotencyConflict) {
    const retry = thrown.isOtherRequest ? {} : { retryAfterSeconds: OPEN_CALL_SECONDS };
    return new RequestError("CONFLICT", thrown.message, retry);
  }
  if (thrown instanceof ApprovalConflict || thrown instanceof RunConflict) {
    return new RequestError("CONFLICT", thrown.message);
  }
  return thrown;
}

/**
 * Returns the response of a request that failed, and reports a failure of the server to its operator.
 * @param isRead whether the request changes nothing
 */
export function handleFailure(
  thrown: unknown,
  requestId: string,
  { isRead, onError }: { readonly isRead: boolean; readonly onError: (error: unknown, requestId: string) => void },
): ErrorResponse {
  const isOut = isOutage(thrown);
  // What a statement did whose answer is lost is not known. Before, the guard has thrown.
  const mayHaveEffect = !isRead && isLostConnection(thrown);
  const response = toErrorResponse(isOut ? toUnavailable(requestId, mayHaveEffect) : toRequestError(thrown), requestId);
  if (isOut || response.status === 500) onError(thrown, requestId);
  return response;
}
