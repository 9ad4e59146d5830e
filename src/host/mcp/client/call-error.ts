// Why an upstream call has failed, as one of our codes: by where it happened and by type, never by what the server says.
import {
  ProtocolError,
  ProtocolErrorCode,
  SdkError,
  SdkErrorCode,
  UnauthorizedError,
} from "@modelcontextprotocol/client";
import { type ErrorDetails, ToolError, unavailable } from "../../../sandbox/contract/errors.ts";
import type { McpServerConfig } from "./mcp-options.ts";
import { OAuthDenied } from "./oauth/oauth-policy.ts";
import { UNREADABLE_CODE } from "./reading/read-message.ts";
import { toVisible } from "./text/visible-text.ts";
import type { UpstreamCall } from "./upstream-call.ts";

const MAX_SAID_UNITS = 2_000;

/** A server's own words in a message of ours. */
const said = (message: string): string => toVisible(message.slice(0, MAX_SAID_UNITS).replaceAll(/\p{Cc}+/gu, " "));

/** The server could not be asked, or did not answer: what it was is for the operator. */
export function serverUnavailable(server: string, what: string, cause: unknown, details: ErrorDetails = {}): ToolError {
  return unavailable("upstream_unavailable", `The MCP server ${server} ${what}`, {
    ...{ cause, details: { server, ...details } },
  });
}

/** Nobody has signed in, or not for this. */
export function unauthorized(server: string, thrown: UnauthorizedError): ToolError {
  return serverUnavailable(server, "asks for an authorization that its authProvider does not have", thrown);
}

/** Where it leads to somewhere that the host does not allow. */
export function authorizationDenied(server: string, thrown: OAuthDenied): ToolError {
  return serverUnavailable(server, `asks for an authorization that is denied: ${thrown.message}`, thrown);
}

/** HTTP's, where the failure was that of a request. */
export function statusOf(thrown: unknown): number | undefined {
  const { status } = (thrown instanceof SdkError ? (thrown.data ?? {}) : {}) as { readonly status?: unknown };
  return typeof status === "number" ? status : undefined;
}

/** HTTP's status or JSON-RPC's code, for the end of a message; nothing where there is neither. */
export function codeOf(thrown: unknown): string {
  if (thrown instanceof ProtocolError) return ` (error ${thrown.code})`;
  const status = statusOf(thrown);
  return status === undefined ? "" : ` (HTTP ${status})`;
}

function fromProtocol({ code, message }: ProtocolError, server: string, toolName: string): ToolError {
  const details = { server, code };
  switch (code) {
    case ProtocolErrorCode.InvalidParams:
      return new ToolError("PARAM_INVALID", `${server} refuses the arguments of ${toolName}: ${said(message)}`, {
        details,
      });
    case ProtocolErrorCode.MissingRequiredClientCapability:
    case ProtocolErrorCode.UrlElicitationRequired:
      return new ToolError("CAPABILITY_DENIED", `${toolName} asks for what its host does not allow: ${said(message)}`, {
        details,
      });
    case UNREADABLE_CODE:
      return new ToolError("OUTPUT_INVALID", `What ${server} answers ${toolName} cannot be read: ${said(message)}`, {
        details: { server },
      });
    default:
      return unavailable("upstream_unavailable", `${server} answers ${toolName} with error ${code}: ${said(message)}`, {
        details,
      });
  }
}

export interface CallErrorParts {
  readonly server: string;
  readonly timeoutMs: number;
  /** What a failure of the transport comes of: the same for all calls that were ended together. */
  readonly toOutage: (thrown: unknown) => unknown;
}

export function toCallError(thrown: unknown, call: UpstreamCall, parts: CallErrorParts): ToolError {
  const { toolName, context } = call;
  const { server, timeoutMs, toOutage } = parts;
  if (context.signal.aborted) return context.signal.reason as ToolError;
  if (call.isIdle) {
    const message = `${toolName} of ${server} said nothing for ${timeoutMs} ms and was cancelled`;
    return new ToolError("TOOL_TIMEOUT", message, { details: { server, timeoutMs } });
  }
  if (Error.isError(thrown) && thrown instanceof ToolError) return thrown;
  if (call.isLost) return serverUnavailable(server, `was lost while ${toolName} ran`, toOutage(thrown));
  if (thrown instanceof ProtocolError) return fromProtocol(thrown, server, toolName);
  if (thrown instanceof UnauthorizedError) return unauthorized(server, thrown);
  if (thrown instanceof OAuthDenied) return authorizationDenied(server, thrown);
  if (!(thrown instanceof SdkError))
    return serverUnavailable(server, `could not be asked for ${toolName}`, toOutage(thrown));
  switch (thrown.code) {
    case SdkErrorCode.ConnectionClosed:
      return serverUnavailable(server, `was lost while ${toolName} ran`, toOutage(thrown));
    case SdkErrorCode.CapabilityNotSupported:
      return new ToolError("CAPABILITY_DENIED", `${toolName} of ${server} asks for what its host does not allow`, {
        details: { server },
        cause: thrown,
      });
    case SdkErrorCode.InvalidResult:
    case SdkErrorCode.UnsupportedResultType:
    case SdkErrorCode.InputRequiredRoundsExceeded:
      return new ToolError("OUTPUT_INVALID", `${server} answers ${toolName} with what is no result of a tool`, {
        details: { server },
        cause: thrown,
      });
    default: {
      const status = statusOf(thrown);
      const details = status === undefined ? {} : { status };
      return serverUnavailable(
        server,
        `could not be asked for ${toolName}${codeOf(thrown)}`,
        toOutage(thrown),
        details,
      );
    }
  }
}

/** A program that has ended before it was connected. */
export class EndedEarly extends Error {}

export interface ConnectErrorParts {
  readonly server: string;
  readonly config: Pick<McpServerConfig, "connectTimeoutMs">;
  /** Aborts with a ToolError when the connection is not wanted any more. */
  readonly signal: AbortSignal;
}

/** Why a connection was not made, as an error of ours; the signal's reason where that has aborted. */
export function toConnectError(thrown: unknown, { server, config, signal }: ConnectErrorParts): unknown {
  if (signal.aborted) return signal.reason;
  if (thrown instanceof ToolError) return serverUnavailable(server, `could not be started. ${thrown.message}`, thrown);
  if (thrown instanceof UnauthorizedError) return unauthorized(server, thrown);
  if (thrown instanceof OAuthDenied) return authorizationDenied(server, thrown);
  if (thrown instanceof EndedEarly) return serverUnavailable(server, "ended while it was being connected", thrown);
  const isLate = thrown instanceof DOMException && thrown.name === "TimeoutError";
  const how = isLate ? ` within ${config.connectTimeoutMs} ms` : codeOf(thrown);
  return serverUnavailable(server, `could not be connected${how}`, thrown);
}

/** Why a server has not listed its tools. @param isLate whether it took too long */
export function toListError(thrown: unknown, server: string, isLate: boolean): ToolError {
  if (thrown instanceof UnauthorizedError) return unauthorized(server, thrown);
  if (thrown instanceof OAuthDenied) return authorizationDenied(server, thrown);
  const what = isLate ? "did not list its tools in time" : `could not list its tools${codeOf(thrown)}`;
  return serverUnavailable(server, what, thrown);
}
