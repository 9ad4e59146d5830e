// What a tool is told when the network fails: by the error's code, never by its text, which may name addresses of ours.
import { type ErrorCode, ToolError } from "../../sandbox/errors.ts";

const REASONS: { readonly [code: string]: string } = {
  ECONNREFUSED: "the connection was refused",
  ECONNRESET: "the connection was reset",
  EPIPE: "the connection was reset",
  UND_ERR_SOCKET: "the connection was closed before the response was whole",
  EHOSTUNREACH: "the host cannot be reached",
  ENETUNREACH: "the host cannot be reached",
  EADDRNOTAVAIL: "the host cannot be reached",
  ETIMEDOUT: "no connection in time",
  UND_ERR_CONNECT_TIMEOUT: "no connection in time",
  UND_ERR_HEADERS_TIMEOUT: "no response in time",
  UND_ERR_BODY_TIMEOUT: "the response stopped coming",
  ENOTFOUND: "the host's name could not be resolved",
  EAI_AGAIN: "the host's name could not be resolved",
  ENODATA: "the host's name could not be resolved",
  EAI_NODATA: "the host's name could not be resolved",
  UND_ERR_REQ_CONTENT_LENGTH_MISMATCH: "the request's body is not as long as was said",
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: "the response's body is not as long as was said",
  Z_BUF_ERROR: "the response's body ends too early",
  Z_DATA_ERROR: "the response's body is not what its content-encoding says",
};
const FAMILIES: readonly (readonly [RegExp, string])[] = [
  [/^HPE_/, "the response is not HTTP"],
  [
    /^(ERR_TLS|ERR_SSL|CERT_|DEPTH_|SELF_SIGNED|UNABLE_TO_|HOSTNAME_MISMATCH|EPROTO)/,
    "the host's certificate or its TLS cannot be trusted",
  ],
  [/^(Z_|ERR_BROTLI|ERR__ERROR_FORMAT|ERR_ZSTD|ZSTD_)/, "the response's body is not what its content-encoding says"],
];

/** Errors that are a cap of ours. */
const CAPS: { readonly [code: string]: string } = { UND_ERR_HEADERS_OVERFLOW: "The response's headers are too large" };

function codeOf(thrown: unknown): string {
  if (!Error.isError(thrown)) return "";
  const { code, cause } = thrown as Error & { readonly code?: unknown };
  if (typeof code === "string") return code;
  // Of several attempts to connect, the first one's.
  return thrown instanceof AggregateError ? codeOf(thrown.errors[0]) : codeOf(cause);
}

export const networkError = (reason: string, code: ErrorCode = "TOOL_FAILED"): ToolError =>
  new ToolError(code, `The exchange failed: ${reason}`);

/** Any failure of an exchange as what the tool is told of it. */
export function toExchangeError(thrown: unknown): ToolError {
  if (Error.isError(thrown) && thrown instanceof ToolError) return thrown;
  const code = codeOf(thrown);
  const cap = Object.hasOwn(CAPS, code) ? CAPS[code] : undefined;
  if (cap !== undefined) return new ToolError("QUOTA_EXCEEDED", cap);
  const own = Object.hasOwn(REASONS, code) ? REASONS[code] : undefined;
  const reason = own ?? FAMILIES.find(([pattern]) => pattern.test(code))?.[1] ?? "the connection broke";
  return new ToolError("TOOL_FAILED", `The exchange failed: ${reason}`, { cause: thrown });
}
