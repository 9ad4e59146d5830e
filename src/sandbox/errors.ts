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
  /** Overrides the row's `recoverable` for this one failure. */
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
    this.recoverable = options.recoverable ?? ERROR_CODES[code].recoverable;
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

/** Any thrown value as a ToolError; what is not one becomes INTERNAL, its text kept for the operator only as `cause`. */
export function toToolError(thrown: unknown): ToolError {
  // A proxy is no error, and asking a revoked one what it is throws.
  if (Error.isError(thrown) && thrown instanceof ToolError) return thrown;
  return new ToolError("INTERNAL", "Glovebox failed while it handled the call", { cause: thrown });
}
