// The table of error codes and the class ToolError. All adapters (HTTP, MCP, OpenAI, CLI) map errors by this table.

/** Who may read an error's `message` and `details`: the calling model, the embedding client, or only the operator. */
export type ErrorAudience = "model" | "client" | "operator";

/** One row of {@link ERROR_CODES}. `userMessage` is safe to show to an end user; `{tool}` is replaced by the tool's name. */
export interface ErrorPolicy {
  readonly audience: ErrorAudience;
  /** HTTP status of a response that reports the error. */
  readonly http: number;
  /** Whether the caller can succeed with another input or by trying again. */
  readonly recoverable: boolean;
  readonly userMessage: string;
}

/** The error codes, with the HTTP status of each, who may read its message, and whether a retry can succeed. */
export const ERROR_CODES = {
  PARAM_INVALID: {
    audience: "model",
    http: 422,
    recoverable: true,
    userMessage: "The input for {tool} is not valid",
  },
  TOOL_UNAVAILABLE: {
    audience: "model",
    http: 404,
    recoverable: false,
    userMessage: "The tool {tool} is not available",
  },
  TOOL_TIMEOUT: {
    audience: "model",
    http: 504,
    recoverable: true,
    userMessage: "{tool} took too long and was stopped",
  },
  TOOL_FAILED: { audience: "model", http: 502, recoverable: true, userMessage: "{tool} failed" },
  NAME_TAKEN: {
    audience: "client",
    http: 409,
    recoverable: true,
    userMessage: "The name {tool} is taken",
  },
  OUTPUT_INVALID: {
    audience: "client",
    http: 502,
    recoverable: false,
    userMessage: "{tool} returned an invalid output",
  },
  OUTPUT_TOO_LARGE: {
    audience: "model",
    http: 502,
    recoverable: true,
    userMessage: "The result of {tool} is too large",
  },
  MEMORY_LIMIT: {
    audience: "model",
    http: 507,
    recoverable: true,
    userMessage: "{tool} exceeded its memory limit",
  },
  CPU_LIMIT: {
    audience: "model",
    http: 504,
    recoverable: true,
    userMessage: "{tool} exceeded its CPU time limit",
  },
  SANDBOX_CRASHED: {
    audience: "client",
    http: 502,
    recoverable: true,
    userMessage: "{tool} ended unexpectedly",
  },
  CAPABILITY_DENIED: {
    audience: "model",
    http: 403,
    recoverable: false,
    userMessage: "{tool} tried to do something that it is not allowed to do",
  },
  QUOTA_EXCEEDED: {
    audience: "client",
    http: 429,
    recoverable: true,
    userMessage: "{tool} has used up its quota",
  },
  OVERLOADED: {
    audience: "client",
    http: 503,
    recoverable: true,
    userMessage: "{tool} cannot be run right now; try again soon",
  },
  CANCELLED: {
    audience: "client",
    http: 499,
    recoverable: true,
    userMessage: "The call of {tool} was cancelled",
  },
  BUNDLE_FAILED: {
    audience: "client",
    http: 422,
    recoverable: false,
    userMessage: "{tool} could not be built",
  },
  APPROVAL_REQUIRED: {
    audience: "model",
    http: 403,
    recoverable: true,
    userMessage: "{tool} needs approval before it runs",
  },
  REPLAY_DIVERGED: {
    audience: "client",
    http: 409,
    recoverable: false,
    userMessage: "{tool} did something else than in its recording",
  },
  INTERNAL: {
    audience: "operator",
    http: 500,
    recoverable: true,
    userMessage: "Something went wrong while running {tool}",
  },
} as const satisfies Record<string, ErrorPolicy>;

/** Code of a {@link ToolError}: a key of {@link ERROR_CODES}. */
export type ErrorCode = keyof typeof ERROR_CODES;

/** One row of {@link UNAVAILABLE_REASONS}: the HTTP status and recoverability for one reason of TOOL_UNAVAILABLE. */
export interface UnavailablePolicy {
  /** HTTP status of a response that reports the error. */
  readonly http: number;
  /** Whether the same call may succeed later. */
  readonly recoverable: boolean;
}

/**
 * Reasons of TOOL_UNAVAILABLE. Each such error has one of them as `details.reason`. For a disabled tool and a tool of another tenant the
 * reason is `not_found`, so that a caller cannot find out whether such a tool exists.
 */
export const UNAVAILABLE_REASONS = {
  /** The tenant has no tool of this name, or it was removed. */
  not_found: { http: 404, recoverable: false },
  /** The session has ended and its state is lost. `details.endedFor` states why. */
  session_ended: { http: 404, recoverable: false },
  /** Another replica of the server has the session's isolate, and cannot be reached. The call did not run. */
  session_elsewhere: { http: 409, recoverable: true },
  /** The tool was replaced after the caller or a hook approved the call. The call did not run. */
  tool_changed: { http: 409, recoverable: true },
  /** The key that requested the call was revoked before the call began. */
  key_revoked: { http: 403, recoverable: false },
  /** The operator has suspended the tenant. */
  tenant_suspended: { http: 403, recoverable: false },
  /** The tenant is being deleted. */
  tenant_deleted: { http: 404, recoverable: false },
  /** The quota store failed, so the tenant's calls are denied. */
  quota_store_failed: { http: 503, recoverable: true },
  /** This Glovebox is closed. */
  closed: { http: 503, recoverable: false },
  /** This Glovebox is shutting down: it finishes its running calls and accepts no new ones. */
  shutting_down: { http: 503, recoverable: true },
  /** The tool's source failed several times in a row. It is not called again until `details.retryAfterMs` milliseconds have passed. */
  circuit_open: { http: 503, recoverable: true },
  /** The tool's source, such as an MCP server, could not be reached or did not respond. */
  upstream_unavailable: { http: 503, recoverable: true },
  /** The tool is durable, and the call is not a run. */
  needs_run: { http: 409, recoverable: false },
  /** The run began with an engine whose journal this version of Glovebox cannot repeat. */
  engine_version: { http: 409, recoverable: false },
  /** This machine lacks what the tool or its host requires. */
  unsupported: { http: 503, recoverable: false },
} as const satisfies Record<string, UnavailablePolicy>;

/** Value of `details.reason` in an error with the code TOOL_UNAVAILABLE: a key of {@link UNAVAILABLE_REASONS}. */
export type UnavailableReason = keyof typeof UNAVAILABLE_REASONS;

/** Returns the policy of a reason, or undefined for a value that is not one. */
export function unavailablePolicyOf(reason: unknown): UnavailablePolicy | undefined {
  const isReason = typeof reason === "string" && Object.hasOwn(UNAVAILABLE_REASONS, reason);
  return isReason ? UNAVAILABLE_REASONS[reason as UnavailableReason] : undefined;
}

/** A JSON value. Bytes cross the boundary between host and tool next to it, as attachments. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | { readonly [key: string]: JsonValue };

/** Structured details of a failure: sanitized JSON without host paths. */
export type ErrorDetails = { readonly [key: string]: JsonValue };

/** A {@link ToolError} as plain JSON, for a ToolResult. */
export interface ToolErrorData {
  readonly code: ErrorCode;
  /** Message for developers: what was expected, what was received, and where. */
  readonly message: string;
  /** Safe to show to an end user. */
  readonly userMessage: string;
  /** Whether the caller can succeed with another input or by trying again. */
  readonly recoverable: boolean;
  /** Path of the page about this code within the package: `docs/reference/errors/TOOL_TIMEOUT.md`. */
  readonly docs: string;
  readonly details?: ErrorDetails;
  /** Stack of a guest error, mapped to the author's files and lines. Never contains host frames. */
  readonly stack?: string;
}

export interface ToolErrorOptions {
  readonly details?: ErrorDetails;
  readonly cause?: unknown;
  /** Overrides the value from {@link ERROR_CODES} or {@link UNAVAILABLE_REASONS}. */
  readonly recoverable?: boolean;
  /** Stack of the guest error, mapped to the author's source. */
  readonly guestStack?: string;
}

/** Returns the path of the page about an error code within the package. */
const docsPathOf = (code: ErrorCode): string => `docs/reference/errors/${code}.md`;

/**
 * The only error class that Glovebox throws. `ToolRouter.execute()` returns it as a failed ToolResult instead of throwing.
 * @example
 * ```ts
 * import { createGlovebox, ToolError } from "glovebox";
 *
 * await using glovebox = await createGlovebox();
 * try {
 *   await glovebox.addTool({ name: "broken", source: "export default (" });
 * } catch (error) {
 *   if (!(error instanceof ToolError)) throw error;
 *   console.log(error.code); // BUNDLE_FAILED
 * }
 * ```
 */
export class ToolError extends Error {
  override readonly name = "ToolError";
  readonly code: ErrorCode;
  /** Whether the caller can succeed with another input or by trying again. */
  readonly recoverable: boolean;
  /** Structured details without host paths; undefined if there are none. */
  readonly details: ErrorDetails | undefined;
  /** Stack of a guest error, mapped to the author's files and lines. */
  readonly guestStack: string | undefined;

  constructor(code: ErrorCode, message: string, options: ToolErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    const reason = code === "TOOL_UNAVAILABLE" ? unavailablePolicyOf(options.details?.reason) : undefined;
    this.recoverable = options.recoverable ?? (reason ?? ERROR_CODES[code]).recoverable;
    this.details = options.details;
    this.guestStack = options.guestStack;
  }

  /** The row of {@link ERROR_CODES} for the code. */
  get policy(): ErrorPolicy {
    return ERROR_CODES[this.code];
  }

  /** Path of the page about this error's code within the package: `docs/reference/errors/TOOL_TIMEOUT.md`. */
  get docs(): string {
    return docsPathOf(this.code);
  }

  /** Returns the error as plain JSON. `toolName` replaces `{tool}` in `userMessage`; a call without a name gets "(no name)" there. */
  toData(toolName: string): ToolErrorData {
    return {
      code: this.code,
      message: this.message,
      userMessage: ERROR_CODES[this.code].userMessage.replace("{tool}", () => toolName || "(no name)"),
      recoverable: this.recoverable,
      docs: this.docs,
      ...(this.details === undefined ? {} : { details: this.details }),
      ...(this.guestStack === undefined ? {} : { stack: this.guestStack }),
    };
  }
}

/**
 * Returns a TOOL_UNAVAILABLE error with the given reason. Glovebox creates all its TOOL_UNAVAILABLE errors with this function.
 * @param options `recoverable` overrides the value that the reason implies
 */
export function unavailable(reason: UnavailableReason, message: string, options: ToolErrorOptions = {}): ToolError {
  return new ToolError("TOOL_UNAVAILABLE", message, { ...options, details: { reason, ...options.details } });
}

/** Adds the reason to a TOOL_UNAVAILABLE error that has none, such as one that the host's own code created. Returns others unchanged. */
export function withReason(error: ToolError, reason: UnavailableReason): ToolError {
  if (error.code !== "TOOL_UNAVAILABLE" || unavailablePolicyOf(error.details?.reason) !== undefined) return error;
  const { message, details, recoverable, guestStack, cause } = error;
  return new ToolError("TOOL_UNAVAILABLE", message, {
    recoverable,
    details: { ...details, reason },
    ...(cause === undefined ? {} : { cause }),
    ...(guestStack === undefined ? {} : { guestStack }),
  });
}

/** Returns a ToolError unchanged. Wraps any other thrown value in an INTERNAL error as its `cause`, which only the operator sees. */
export function toToolError(thrown: unknown): ToolError {
  // `instanceof` throws on a revoked proxy. Error.isError() does not, and returns false for any proxy.
  if (Error.isError(thrown) && thrown instanceof ToolError) return thrown;
  return new ToolError("INTERNAL", "Glovebox failed while it handled the call", { cause: thrown });
}
