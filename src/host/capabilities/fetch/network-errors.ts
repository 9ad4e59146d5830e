// Converts network failures to errors for the tool: a code as in Node.js, and a message. Messages come from a table, since the original
// message may contain addresses or paths of the host.
import { ToolError } from "../../../sandbox/contract/errors.ts";

/** A failure as the tool sees it. */
interface NetworkFailure {
  /** The `code` of the cause of a "fetch failed" TypeError in Node.js. */
  readonly code: string;
  readonly text: string;
}

/** Failures by code. A code whose value is a string is shown to the tool unchanged. */
const REASONS: { readonly [code: string]: string | NetworkFailure } = {
  ECONNREFUSED: "connection refused",
  ECONNRESET: "connection reset",
  ECONNABORTED: { code: "ECONNRESET", text: "connection reset" },
  EPIPE: { code: "ECONNRESET", text: "connection reset" },
  UND_ERR_SOCKET: "connection closed before the response was complete",
  // The tool does not receive details of the host's own network, so these share one code.
  EHOSTUNREACH: "host unreachable",
  ENETUNREACH: { code: "EHOSTUNREACH", text: "host unreachable" },
  EHOSTDOWN: { code: "EHOSTUNREACH", text: "host unreachable" },
  ENETDOWN: { code: "EHOSTUNREACH", text: "host unreachable" },
  EADDRNOTAVAIL: { code: "EHOSTUNREACH", text: "host unreachable" },
  ETIMEDOUT: "connection timed out",
  UND_ERR_CONNECT_TIMEOUT: "connection timed out",
  UND_ERR_HEADERS_TIMEOUT: "timed out waiting for the response",
  UND_ERR_BODY_TIMEOUT: "timed out waiting for the rest of the response",
  ENOTFOUND: "name not found",
  ENODATA: { code: "ENOTFOUND", text: "name not found" },
  EAI_NODATA: { code: "ENOTFOUND", text: "name not found" },
  EAI_NONAME: { code: "ENOTFOUND", text: "name not found" },
  EAI_AGAIN: "name lookup failed for now",
  UND_ERR_REQ_CONTENT_LENGTH_MISMATCH: "the request body does not have the length that its header states",
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: "the response body does not have the length that its header states",
  Z_BUF_ERROR: "the response body ends too early",
  CERT_HAS_EXPIRED: "TLS certificate has expired",
  CERT_NOT_YET_VALID: "TLS certificate is not valid yet",
  CERT_REVOKED: "TLS certificate has been revoked",
  DEPTH_ZERO_SELF_SIGNED_CERT: "TLS certificate is self-signed",
  SELF_SIGNED_CERT_IN_CHAIN: "TLS certificate chain is self-signed",
  ERR_TLS_CERT_ALTNAME_INVALID: "TLS certificate is for another host",
  HOSTNAME_MISMATCH: { code: "ERR_TLS_CERT_ALTNAME_INVALID", text: "TLS certificate is for another host" },
};
const FAMILIES: readonly (readonly [RegExp, string | NetworkFailure])[] = [
  [/^HPE_/, { code: "HPE_INVALID_RESPONSE", text: "the response is not valid HTTP" }],
  [/^(CERT_|DEPTH_|UNABLE_TO_|INVALID_CA|INVALID_PURPOSE|PATH_LENGTH)/, "TLS certificate is not trusted"],
  [/^(ERR_TLS|ERR_SSL|EPROTO)/, { code: "EPROTO", text: "TLS handshake failed" }],
  [/^(Z_|ERR_BROTLI|ERR__ERROR_FORMAT|ERR_ZSTD|ZSTD_)/, "the response body does not match its content-encoding"],
];
const UNKNOWN: NetworkFailure = { code: "UND_ERR_SOCKET", text: "connection failed" };

/** Errors of undici and the HTTP parser that mean that a limit of the host was exceeded. */
const LIMITS: { readonly [code: string]: string } = {
  UND_ERR_HEADERS_OVERFLOW: "The response's headers are too large",
  HPE_HEADER_OVERFLOW: "The response's headers are too large",
};

/** Form of the codes of Node.js. Codes are shown to the tool, so others are dropped. */
const CODE = /^[A-Z][A-Za-z0-9_]{2,63}$/;

/** Returns the code of an error or of its cause; an empty string if there is none. */
function codeOf(thrown: unknown, depth = 0): string {
  if (!Error.isError(thrown) || depth > 5) return "";
  const { code, cause } = thrown as Error & { readonly code?: unknown };
  if (typeof code === "string" && CODE.test(code)) return code;
  // undici throws this error without a code.
  if (thrown.name === "HTTPParserError") return "HPE_INVALID_RESPONSE";
  // An AggregateError contains one error for each connection attempt. The first one counts.
  return codeOf(thrown instanceof AggregateError ? thrown.errors[0] : cause, depth + 1);
}

function failureOf(code: string): NetworkFailure {
  const own = Object.hasOwn(REASONS, code) ? REASONS[code] : undefined;
  const found = own ?? FAMILIES.find(([pattern]) => pattern.test(code))?.[1] ?? UNKNOWN;
  return typeof found === "string" ? { code, text: found } : found;
}

/**
 * Returns the error of an exchange that failed.
 * @param text what failed, for the tool
 * @param networkCode code of the error's cause in the tool; without it, the tool receives a "fetch failed" TypeError without a cause
 */
export const networkError = (text: string, networkCode?: string, cause?: unknown): ToolError =>
  new ToolError("TOOL_FAILED", `The exchange failed: ${text}`, {
    ...(networkCode === undefined ? {} : { details: { networkCode } }),
    ...(cause === undefined ? {} : { cause }),
  });

/** Returns the error of a failed name lookup. */
export function lookupError(thrown: unknown): ToolError {
  const code = codeOf(thrown);
  const isKnown = code === "ETIMEDOUT" || code === "ETIMEOUT" || /^(ENO|EAI_)/.test(code);
  if (!isKnown) return networkError("name lookup failed", "EAI_FAIL", thrown);
  if (code.startsWith("ETIME")) return networkError("name lookup timed out", "ETIMEDOUT", thrown);
  const known = failureOf(code);
  return known === UNKNOWN
    ? networkError("name lookup failed", "EAI_FAIL", thrown)
    : networkError(known.text, known.code, thrown);
}

/** Converts any failure of an exchange to the error that the tool receives. */
export function toExchangeError(thrown: unknown): ToolError {
  if (Error.isError(thrown) && thrown instanceof ToolError) return thrown;
  const thrownCode = codeOf(thrown);
  const limit = Object.hasOwn(LIMITS, thrownCode) ? LIMITS[thrownCode] : undefined;
  if (limit !== undefined) return new ToolError("QUOTA_EXCEEDED", limit);
  const { code, text } = failureOf(thrownCode);
  return networkError(text, code, thrown);
}
