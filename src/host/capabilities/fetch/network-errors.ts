// What a tool learns when the network fails: a code as Node has it, and words for it. They come from a table and never from the error's
// own text, which may name addresses or paths of the host.
import { ToolError } from "../../../sandbox/contract/errors.ts";

/** A failure as the tool sees it. */
interface NetworkFailure {
  /** As the `code` of the cause of Node's `fetch failed`. */
  readonly code: string;
  readonly words: string;
}

/** A code that is missing here keeps its own. */
const REASONS: { readonly [code: string]: string | NetworkFailure } = {
  ECONNREFUSED: "connection refused",
  ECONNRESET: "connection reset",
  ECONNABORTED: { code: "ECONNRESET", words: "connection reset" },
  EPIPE: { code: "ECONNRESET", words: "connection reset" },
  UND_ERR_SOCKET: "connection closed before the response was complete",
  // Which network the host lacks is the host's affair.
  EHOSTUNREACH: "host unreachable",
  ENETUNREACH: { code: "EHOSTUNREACH", words: "host unreachable" },
  EHOSTDOWN: { code: "EHOSTUNREACH", words: "host unreachable" },
  ENETDOWN: { code: "EHOSTUNREACH", words: "host unreachable" },
  EADDRNOTAVAIL: { code: "EHOSTUNREACH", words: "host unreachable" },
  ETIMEDOUT: "connection timed out",
  UND_ERR_CONNECT_TIMEOUT: "connection timed out",
  UND_ERR_HEADERS_TIMEOUT: "timed out waiting for the response",
  UND_ERR_BODY_TIMEOUT: "timed out waiting for the rest of the response",
  ENOTFOUND: "name not found",
  ENODATA: { code: "ENOTFOUND", words: "name not found" },
  EAI_NODATA: { code: "ENOTFOUND", words: "name not found" },
  EAI_NONAME: { code: "ENOTFOUND", words: "name not found" },
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
  HOSTNAME_MISMATCH: { code: "ERR_TLS_CERT_ALTNAME_INVALID", words: "TLS certificate is for another host" },
};
const FAMILIES: readonly (readonly [RegExp, string | NetworkFailure])[] = [
  [/^HPE_/, { code: "HPE_INVALID_RESPONSE", words: "the response is not valid HTTP" }],
  [/^(CERT_|DEPTH_|UNABLE_TO_|INVALID_CA|INVALID_PURPOSE|PATH_LENGTH)/, "TLS certificate is not trusted"],
  [/^(ERR_TLS|ERR_SSL|EPROTO)/, { code: "EPROTO", words: "TLS handshake failed" }],
  [/^(Z_|ERR_BROTLI|ERR__ERROR_FORMAT|ERR_ZSTD|ZSTD_)/, "the response body does not match its content-encoding"],
];
const UNKNOWN: NetworkFailure = { code: "UND_ERR_SOCKET", words: "connection failed" };

/** Errors that are a limit of the host. */
const LIMITS: { readonly [code: string]: string } = {
  UND_ERR_HEADERS_OVERFLOW: "The response's headers are too large",
  HPE_HEADER_OVERFLOW: "The response's headers are too large",
};

/** Codes are shown to the tool: what does not look like one of Node's is not. */
const CODE = /^[A-Z][A-Za-z0-9_]{2,63}$/;

/** Returns the code of an error, or of what caused it; an empty string for one without. */
function codeOf(thrown: unknown, depth = 0): string {
  if (!Error.isError(thrown) || depth > 5) return "";
  const { code, cause } = thrown as Error & { readonly code?: unknown };
  if (typeof code === "string" && CODE.test(code)) return code;
  // undici makes one without a code.
  if (thrown.name === "HTTPParserError") return "HPE_INVALID_RESPONSE";
  // Of several attempts to connect, the first one's.
  return codeOf(thrown instanceof AggregateError ? thrown.errors[0] : cause, depth + 1);
}

function failureOf(code: string): NetworkFailure {
  const own = Object.hasOwn(REASONS, code) ? REASONS[code] : undefined;
  const found = own ?? FAMILIES.find(([pattern]) => pattern.test(code))?.[1] ?? UNKNOWN;
  return typeof found === "string" ? { code, words: found } : found;
}

/**
 * Returns the error of an exchange that failed.
 * @param words what happened, for the tool
 * @param networkCode what the tool sees as the code of the cause; left out, the tool sees Node's bare "fetch failed"
 */
export const networkError = (words: string, networkCode?: string, cause?: unknown): ToolError =>
  new ToolError("TOOL_FAILED", `The exchange failed: ${words}`, {
    ...(networkCode === undefined ? {} : { details: { networkCode } }),
    ...(cause === undefined ? {} : { cause }),
  });

/** Returns the error of a name that the resolver has no addresses for. */
export function lookupError(thrown: unknown): ToolError {
  const code = codeOf(thrown);
  const isKnown = code === "ETIMEDOUT" || code === "ETIMEOUT" || /^(ENO|EAI_)/.test(code);
  if (!isKnown) return networkError("name lookup failed", "EAI_FAIL", thrown);
  if (code.startsWith("ETIME")) return networkError("name lookup timed out", "ETIMEDOUT", thrown);
  const known = failureOf(code);
  return known === UNKNOWN
    ? networkError("name lookup failed", "EAI_FAIL", thrown)
    : networkError(known.words, known.code, thrown);
}

/** Returns any failure of an exchange as the tool learns of it. */
export function toExchangeError(thrown: unknown): ToolError {
  if (Error.isError(thrown) && thrown instanceof ToolError) return thrown;
  const thrownCode = codeOf(thrown);
  const limit = Object.hasOwn(LIMITS, thrownCode) ? LIMITS[thrownCode] : undefined;
  if (limit !== undefined) return new ToolError("QUOTA_EXCEEDED", limit);
  const { code, words } = failureOf(thrownCode);
  return networkError(words, code, thrown);
}
