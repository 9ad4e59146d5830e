// The errors of requests: a handler throws one, and the client receives its code, its status and its message.

/** Codes of errors that concern the request, in addition to those of the library. */
export const REQUEST_ERRORS = {
  MALFORMED: 400,
  UNAUTHENTICATED: 401,
  FORBIDDEN: 403,
  NOT_FOUND: 404,
  METHOD_NOT_ALLOWED: 405,
  REQUEST_TIMEOUT: 408,
  CONFLICT: 409,
  PRECONDITION_FAILED: 412,
  INVALID: 422,
  TOO_LARGE: 413,
  URL_TOO_LONG: 414,
  UNSUPPORTED_MEDIA_TYPE: 415,
  EXPECTATION_FAILED: 417,
  RATE_LIMITED: 429,
  HEADERS_TOO_LARGE: 431,
  UNAVAILABLE: 503,
} as const;
export type RequestErrorCode = keyof typeof REQUEST_ERRORS;

/** An error that becomes a response. */
export class RequestError extends Error {
  override readonly name = "RequestError";
  readonly code: RequestErrorCode;
  readonly details: { readonly [name: string]: unknown } | undefined;
  readonly retryAfterSeconds: number | undefined;
  readonly headers: { readonly [name: string]: string };

  constructor(
    code: RequestErrorCode,
    message: string,
    options: {
      readonly details?: { readonly [name: string]: unknown };
      readonly retryAfterSeconds?: number;
      readonly headers?: { readonly [name: string]: string };
    } = {},
  ) {
    super(message);
    this.code = code;
    this.details = options.details;
    this.retryAfterSeconds = options.retryAfterSeconds;
    this.headers = options.headers ?? {};
  }
}

/** Returns the error for a resource that does not exist, or that this key must not know of. */
export const notFound = (kind: string, id: string): RequestError =>
  new RequestError("NOT_FOUND", `There is no ${kind} "${id}"`);
