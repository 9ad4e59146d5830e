// The one table of failure codes and the one error class. Adapters (HTTP, MCP, OpenAI, CLI) read a row; no mapping exists twice.

/** Who may read an error's `message` and `details`: the model that called, the client that embeds, or only the operator. */
export type ErrorAudience = "model" | "client" | "operator";

/** One row of {@link ERROR_CODES}. `userMessage` is safe to show to anyone; `{tool}` is replaced by the tool's name. */
export interface ErrorPolicy {
  readonly audience: ErrorAudience;
  readonly http: number;
  /** Whether the same caller may succeed by changing the input or trying again. */
  readonly recoverable: boolean;
  readonly userMessage: string;
}

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
    userMessage: "{tool} returned something it may not return",
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
    userMessage: "{tool} used more memory than it may",
  },
  CPU_LIMIT: {
    audience: "model",
    http: 504,
    recoverable: true,
    userMessage: "{tool} used more computing time than it may",
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
    userMessage: "{tool} asked for something it may not do",
  },
  QUOTA_EXCEEDED: {
    audience: "client",
    http: 429,
    recoverable: true,
    userMessage: "{tool} has used up its allowance",
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
    audience: "client",
    http: 403,
    recoverable: true,
    userMessage: "{tool} needs approval before it runs",
  },
  INTERNAL: {
    audience: "operator",
    http: 500,
    recoverable: true,
    userMessage: "Something went wrong while running {tool}",
  },
} as const satisfies Record<string, ErrorPolicy>;

export type ErrorCode = keyof typeof ERROR_CODES;

/** One row of {@link UNAVAILABLE_REASONS}: what TOOL_UNAVAILABLE means for one reason. */
export interface UnavailablePolicy {
  readonly http: number;
  /** Whether the same call may succeed later. */
  readonly recoverable: boolean;
}

/**
 * Reasons of TOOL_UNAVAILABLE, which each of its errors has as `details.reason`. A tool that is switched off, or that belongs to another
 * tenant, has `not_found`: a caller cannot tell it from one that does not exist.
 */
export const UNAVAILABLE_REASONS = {
  /** There is no such tool for this tenant, or no longer. */
  not_found: { http: 404, recoverable: false },
  /** The session has ended, and its state with it: `details.endedFor` says why. */
  session_ended: { http: 404, recoverable: false },
  /** The tool was replaced after the caller, or a hook, had decided about it; the call was not run. */
  tool_changed: { http: 409, recoverable: true },
  /** The operator has suspended the tenant. */
  tenant_suspended: { http: 403, recoverable: false },
  /** The tenant is being deleted. */
  tenant_deleted: { http: 404, recoverable: false },
  /** The store of quotas failed, so that the tenant's calls are denied. */
  quota_store_failed: { http: 503, recoverable: true },
  /** This Glovebox is closed. */
  closed: { http: 503, recoverable: false },
  /** This Glovebox finishes its running calls and takes no new ones. */
  shutting_down: { http: 503, recoverable: true },
  /** The tool's source failed several times in a row and is not called until `details.retryAfterMs` have passed. */
  circuit_open: { http: 503, recoverable: true },
  /** The tool's source, such as an MCP server, could not be reached or gave no answer. */
  upstream_unavailable: { http: 503, recoverable: true },
  /** This machine lacks what the tool or its host requires. */
  unsupported: { http: 503, recoverable: false },
} as const satisfies Record<string, UnavailablePolicy>;

export type UnavailableReason = keyof typeof UNAVAILABLE_REASONS;

/** Returns the policy of a reason, or undefined for a value that is not one. */
export function unavailablePolicyOf(reason: unknown): UnavailablePolicy | undefined {
  const isReason = typeof reason === "string" && Object.hasOwn(UNAVAILABLE_REASONS, reason);
  return isReason ? UNAVAILABLE_REASONS[reason as UnavailableReason] : undefined;
}

/** A JSON value: what may cross the airlock. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | { readonly [key: string]: JsonValue };

/** Structured facts about a failure; sanitized, JSON only, free of host paths. */
export type ErrorDetails = { readonly [key: string]: JsonValue };

/** A {@link ToolError} as it stands in a ToolResult: plain JSON. */
export interface ToolErrorData {
  readonly code: ErrorCode;
  /** For developers: what was expected, what came, where. */
  readonly message: string;
  /** Safe to show to an end user. */
  readonly userMessage: string;
  readonly recoverable: boolean;
  readonly details?: ErrorDetails;
  /** A guest error's stack in the author's own files and lines; never a frame of the host. */
  readonly stack?: string;
}

export interface ToolErrorOptions {
  readonly details?: ErrorDetails;
  readonly cause?: unknown;
  /** Overrides what the code, or the reason of TOOL_UNAVAILABLE, says. */
  readonly recoverable?: boolean;
  /** The guest's stack, mapped to the author's source. */
  readonly guestStack?: string;
}

/** The only error that Glovebox throws. `ToolRouter.execute()` never throws it: there it becomes a ToolResult. */
export class ToolError extends Error {
  override readonly name = "ToolError";
  readonly code: ErrorCode;
  readonly recoverable: boolean;
  readonly details: ErrorDetails | undefined;
  readonly guestStack: string | undefined;

  constructor(code: ErrorCode, message: string, options: ToolErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    const reason = code === "TOOL_UNAVAILABLE" ? unavailablePolicyOf(options.details?.reason) : undefined;
    this.recoverable = options.recoverable ?? (reason ?? ERROR_CODES[code]).recoverable;
    this.details = options.details;
    this.guestStack = options.guestStack;
  }

  get policy(): ErrorPolicy {
    return ERROR_CODES[this.code];
  }

  /** The plain form for a ToolResult. `toolName` fills the template of `userMessage`. */
  toData(toolName: string): ToolErrorData {
    return {
      code: this.code,
      message: this.message,
      userMessage: ERROR_CODES[this.code].userMessage.replace("{tool}", () => toolName),
      recoverable: this.recoverable,
      ...(this.details === undefined ? {} : { details: this.details }),
      ...(this.guestStack === undefined ? {} : { stack: this.guestStack }),
    };
  }
}

/**
 * Returns the error of a call that no tool could run, or of what needs one. Each TOOL_UNAVAILABLE of Glovebox is made here.
 * @param options `recoverable` overrides what the reason says
 */
export function unavailable(reason: UnavailableReason, message: string, options: ToolErrorOptions = {}): ToolError {
  return new ToolError("TOOL_UNAVAILABLE", message, { ...options, details: { reason, ...options.details } });
}

/** Returns a TOOL_UNAVAILABLE with the given reason if it states none, as one that a host's own code made; any other error as it is. */
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

/** Any thrown value as a ToolError; what is not one becomes INTERNAL, its text kept for the operator only as `cause`. */
export function toToolError(thrown: unknown): ToolError {
  // A proxy is no error, and asking a revoked one what it is throws.
  if (Error.isError(thrown) && thrown instanceof ToolError) return thrown;
  return new ToolError("INTERNAL", "Glovebox failed while it handled the call", { cause: thrown });
}
