// Converts failures of upstream servers to ToolErrors. The code depends on where the failure occurred and on its type, never on the text
// that a server sent.
import {
  ProtocolError,
  ProtocolErrorCode,
  SdkError,
  SdkErrorCode,
  UnauthorizedError,
} from "@modelcontextprotocol/client";
import { type ErrorDetails, ToolError, unavailable } from "../../../sandbox/contract/errors.ts";
import { statusOf } from "./http/failed-request.ts";
import type { McpServerConfig } from "./mcp-options.ts";
import { OAuthDenied } from "./oauth/oauth-policy.ts";
import { UNREADABLE_CODE } from "./reading/read-message.ts";
import { toVisible } from "./text/visible-text.ts";
import type { UpstreamCall } from "./upstream-call.ts";

const MAX_SERVER_TEXT_LENGTH = 2_000;

/** Prepares text of a server for use in an error message: shortened, on one line, without invisible characters. */
const toSafeText = (message: string): string =>
  toVisible(message.slice(0, MAX_SERVER_TEXT_LENGTH).replaceAll(/\p{Cc}+/gu, " "));

/** Creates the error for a server that could not be reached or did not answer. Its cause is meant for the operator. */
export function serverUnavailable(
  server: string,
  failure: string,
  cause: unknown,
  details: ErrorDetails = {},
): ToolError {
  return unavailable("upstream_unavailable", `The MCP server "${server}" ${failure}`, {
    cause,
    details: { server, ...details },
  });
}

/** Creates the error for missing or insufficient authorization. */
export function unauthorized(server: string, thrown: UnauthorizedError): ToolError {
  return serverUnavailable(server, "requires authorization that its authProvider does not have", thrown);
}

/** Creates the error for an OAuth flow that leads to a URL that the host does not allow. */
export function authorizationDenied(server: string, thrown: OAuthDenied): ToolError {
  return serverUnavailable(server, `requires authorization that the host denies: ${thrown.message}`, thrown);
}

/** Returns the HTTP status or the JSON-RPC error code for the end of a message; an empty string if there is neither. */
export function codeOf(thrown: unknown): string {
  if (thrown instanceof ProtocolError) return ` (error ${thrown.code})`;
  const status = statusOf(thrown);
  return status === undefined ? "" : ` (HTTP ${status})`;
}

/** Converts an error that the server answered a call with. */
export function fromProtocol({ code, message }: ProtocolError, server: string, toolName: string): ToolError {
  const details = { server, code };
  const text = toSafeText(message);
  switch (code) {
    case ProtocolErrorCode.InvalidParams:
      return new ToolError(
        "PARAM_INVALID",
        `The MCP server "${server}" rejected the arguments of "${toolName}": ${text}`,
        {
          details,
        },
      );
    case ProtocolErrorCode.MissingRequiredClientCapability:
    case ProtocolErrorCode.UrlElicitationRequired:
      return new ToolError(
        "CAPABILITY_DENIED",
        `"${toolName}" requires a client capability that the host does not allow: ${text}`,
        {
          details,
        },
      );
    case UNREADABLE_CODE:
      return new ToolError(
        "OUTPUT_INVALID",
        `The response of the MCP server "${server}" to "${toolName}" cannot be read: ${text}`,
        {
          details: { server },
        },
      );
    default:
      return unavailable(
        "upstream_unavailable",
        `The MCP server "${server}" answered "${toolName}" with error ${code}: ${text}`,
        {
          details,
        },
      );
  }
}

export interface CallErrorSources {
  readonly server: string;
  readonly timeoutMs: number;
  /** Returns the cause of a transport failure, which is the same for all calls that failed together. */
  readonly toOutage: (thrown: unknown) => unknown;
}

/** Converts what a call of a tool threw to a ToolError. */
export function toCallError(thrown: unknown, call: UpstreamCall, sources: CallErrorSources): ToolError {
  const { toolName, context } = call;
  const { server, timeoutMs, toOutage } = sources;
  if (context.signal.aborted) return context.signal.reason as ToolError;
  if (call.isIdle) {
    const message = `"${toolName}" of the MCP server "${server}" was cancelled: no result or progress for ${timeoutMs} ms (timeoutMs)`;
    return new ToolError("TOOL_TIMEOUT", message, { details: { server, timeoutMs } });
  }
  if (Error.isError(thrown) && thrown instanceof ToolError) return thrown;
  if (call.isLost) return serverUnavailable(server, `disconnected while "${toolName}" ran`, toOutage(thrown));
  if (thrown instanceof ProtocolError) return fromProtocol(thrown, server, toolName);
  if (thrown instanceof UnauthorizedError) return unauthorized(server, thrown);
  if (thrown instanceof OAuthDenied) return authorizationDenied(server, thrown);
  switch (thrown instanceof SdkError ? thrown.code : undefined) {
    case SdkErrorCode.ConnectionClosed:
      return serverUnavailable(server, `disconnected while "${toolName}" ran`, toOutage(thrown));
    case SdkErrorCode.CapabilityNotSupported:
      return new ToolError(
        "CAPABILITY_DENIED",
        `"${toolName}" requires a client capability that the host does not allow`,
        {
          details: { server },
          cause: thrown,
        },
      );
    case SdkErrorCode.InvalidResult:
    case SdkErrorCode.UnsupportedResultType:
    case SdkErrorCode.InputRequiredRoundsExceeded:
      return new ToolError(
        "OUTPUT_INVALID",
        `The MCP server "${server}" answered "${toolName}" with an invalid tool result`,
        {
          details: { server },
          cause: thrown,
        },
      );
    default: {
      const status = statusOf(thrown);
      const { retryAfterMs } = call;
      const details = {
        ...(status === undefined ? {} : { status }),
        ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
      };
      return serverUnavailable(
        server,
        `did not process the call of "${toolName}"${codeOf(thrown)}`,
        toOutage(thrown),
        details,
      );
    }
  }
}

/** The program exited before it was connected. */
export class EndedEarly extends Error {}

export interface ConnectErrorSources {
  readonly server: string;
  readonly config: Pick<McpServerConfig, "connectTimeoutMs">;
  /** Aborts with a ToolError when the connection is no longer needed. */
  readonly signal: AbortSignal;
}

/** Converts the failure of a connection to a ToolError. If the signal has aborted, returns its reason. */
export function toConnectError(thrown: unknown, { server, config, signal }: ConnectErrorSources): unknown {
  if (signal.aborted) return signal.reason;
  if (thrown instanceof ToolError) return serverUnavailable(server, `could not be started: ${thrown.message}`, thrown);
  if (thrown instanceof UnauthorizedError) return unauthorized(server, thrown);
  if (thrown instanceof OAuthDenied) return authorizationDenied(server, thrown);
  if (thrown instanceof EndedEarly) return serverUnavailable(server, "exited while it was being connected", thrown);
  const isLate = thrown instanceof DOMException && thrown.name === "TimeoutError";
  const suffix = isLate ? ` within ${config.connectTimeoutMs} ms (connectTimeoutMs)` : codeOf(thrown);
  return serverUnavailable(server, `could not be connected${suffix}`, thrown);
}

/** Converts the failure of a listing to a ToolError. @param isLate whether the listing timed out */
export function toListError(thrown: unknown, server: string, isLate: boolean): ToolError {
  if (thrown instanceof UnauthorizedError) return unauthorized(server, thrown);
  if (thrown instanceof OAuthDenied) return authorizationDenied(server, thrown);
  const failure = isLate
    ? "did not list its tools in time (connectTimeoutMs)"
    : `could not list its tools${codeOf(thrown)}`;
  return serverUnavailable(server, failure, thrown);
}
