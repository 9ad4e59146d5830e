// The error of the client's methods, and its codes for what is not an answer of the API.

/**
 * The response of the server to a request that failed.
 * @example
 * ```typescript
 * import { ApiError, type TenantClient } from "glovebox/client";
 *
 * async function findVersion(tenant: TenantClient, tool: string, version: number): Promise<string | undefined> {
 *   try {
 *     return (await tenant.version(tool, version)).state;
 *   } catch (error) {
 *     if (error instanceof ApiError && error.code === "NOT_FOUND") return undefined;
 *     throw error;
 *   }
 * }
 * ```
 */
export class ApiError extends Error {
  override readonly name = "ApiError";
  /** Status of the response; 0 if there was no complete response. */
  readonly status: number;
  /**
   * Code of the error, such as `NOT_FOUND`. The client itself sets these:
   * - `NETWORK`: there was no response, or the connection was lost before it was complete.
   * - `TIMEOUT`: the response was not complete within `timeoutMs`. The server may have done what was requested.
   * - `INVALID_RESPONSE`: the response is not one of the API, such as a page of HTML. The URL may be wrong.
   * - `RESPONSE_TOO_LARGE`: the response, or one event of a stream, is longer than `maxResponseBytes`.
   * - `NO_RESULT`: the events of a call ended without its result.
   */
  readonly code: string;
  /** Details of the error as the server sent them, such as the path of an invalid field. */
  readonly details: unknown;
  /** Id under which the server's operator finds the request in the log. */
  readonly requestId: string | undefined;

  constructor(
    message: string,
    { status, code, details, requestId, cause }: Pick<ApiError, "status" | "code" | "details" | "requestId" | "cause">,
  ) {
    super(message, { cause });
    this.status = status;
    this.code = code;
    this.details = details;
    this.requestId = requestId;
  }
}

/** Returns whether the connection failed. */
export const isNetworkError = (thrown: unknown): thrown is ApiError =>
  thrown instanceof ApiError && thrown.status === 0 && thrown.code === "NETWORK";

/** Returns whether there was no complete response. */
export const isNoResponse = (thrown: unknown): thrown is ApiError =>
  isNetworkError(thrown) || (thrown instanceof ApiError && thrown.code === "TIMEOUT");

/** Returns whether the same request may succeed later: the network, a limit of requests, or the server or a proxy failed. */
export const isTemporary = (thrown: unknown): thrown is ApiError =>
  isNoResponse(thrown) || (thrown instanceof ApiError && (thrown.status === 429 || thrown.status >= 500));

export function networkError(message: string, cause: unknown, details?: unknown): ApiError {
  return new ApiError(message, { status: 0, code: "NETWORK", details, requestId: undefined, cause });
}

const toTimeout = (message: string, cause?: unknown): ApiError =>
  new ApiError(message, { status: 0, code: "TIMEOUT", details: undefined, requestId: undefined, cause });

export const timeoutError = (method: string, url: URL, timeoutMs: number): ApiError =>
  toTimeout(
    `The server at ${url.origin} did not complete its response to ${method} ${url.pathname} within ${timeoutMs} ms (timeoutMs)`,
  );

/** Returns what the innermost cause of an error names, such as ` (CERT_HAS_EXPIRED)`. Browsers say nothing. */
function reasonOf(thrown: unknown): string {
  let inner = thrown;
  while (inner instanceof Error && inner.cause instanceof Error) inner = inner.cause;
  if (!(inner instanceof Error)) return "";
  const { code } = inner as { readonly code?: unknown };
  if (typeof code === "string") return ` (${code})`;
  return inner === thrown ? "" : ` (${inner.message})`;
}

/**
 * Returns the error of a request that got no response. Node's `fetch` has a time limit of its own for the start of a response.
 * @param server URL of the server, as the client was given it
 */
export function noResponseError(server: string, method: string, url: URL, cause: unknown): ApiError {
  const { code } = ((cause as { readonly cause?: unknown } | null)?.cause ?? {}) as { readonly code?: unknown };
  if (code !== "UND_ERR_HEADERS_TIMEOUT")
    return networkError(`The server at ${server} cannot be reached${reasonOf(cause)}`, cause);
  const limit = "within the time limit of fetch (300 s in Node). Pass a fetch with a higher one (options.fetch)";
  return toTimeout(`The server at ${server} did not begin its response to ${method} ${url.pathname} ${limit}`, cause);
}

/** @param details `callId`, as far as it is known */
export function noResult(
  message: string,
  details: { readonly callId?: string | undefined },
  cause?: ApiError,
): ApiError {
  const { status = 200, requestId } = cause ?? {};
  return new ApiError(message, { status, code: "NO_RESULT", details, requestId, cause });
}
