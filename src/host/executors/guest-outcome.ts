// Converts the outcome of a guest's call to its output or its ToolError. Everything that the guest sent is untrusted.
import type { z } from "zod";
import type { StackFrame, StackMapper } from "../../bundler/compile/source-map.ts";
import { ERROR_CODES, type ErrorCode, type ErrorDetails, ToolError } from "../../sandbox/contract/errors.ts";
import type { Limits } from "../../sandbox/contract/limits.ts";
import { PYTHON_OUT_OF_MEMORY } from "../../sandbox/protocol/guest-messages.ts";
import { type EndedMessage, GuestErrorSchema, GuestIssuesSchema } from "../../sandbox/protocol/worker-messages.ts";
import type { CapabilityBroker } from "../capabilities/broker.ts";
import type { ToolUsage } from "../contract/tool-call.ts";
import { type AttachmentReader, readAttachments } from "../contract/tool-value.ts";
import { formatIssues } from "../json/format-issues.ts";
import type { Execution } from "./execution.ts";
import { findMissingCapability } from "./missing-capability.ts";
import type { SandboxTool } from "./sandbox-tool.ts";

/** Returns a reader for binary attachments, or undefined if there are none. */
function toBytesReader(
  header: Buffer | undefined,
  data: Buffer | undefined,
  what: string,
): AttachmentReader | undefined {
  if (header === undefined || data === undefined || header.length === 0) return undefined;
  return () => readAttachments(header, data, what);
}

/**
 * Returns the output and content of a call. Nothing is parsed yet.
 * @param name the tool's name, for errors
 * @param parts all parts: the output text, its attachments (header, data), then content text and its attachments
 */
export function toGuestOutput(
  name: string,
  text: Buffer,
  parts: readonly Buffer[],
): Omit<Extract<Execution, { outputText: unknown }>, "usage"> {
  if (parts.length === 1) return { outputText: text };
  const [, header, data, contentText, contentHeader, contentData] = parts;
  return {
    outputText: text,
    outputBytes: toBytesReader(header, data, `The output of ${name}`),
    attachmentBytes: (data?.length ?? 0) + (contentData?.length ?? 0),
    content:
      contentText === undefined
        ? undefined
        : { text: contentText, bytes: toBytesReader(contentHeader, contentData, `The content of ${name}`) },
  };
}

const isErrorCode = (code: string): code is ErrorCode => Object.hasOwn(ERROR_CODES, code);

/** Returns undefined for invalid JSON. */
export function tryParse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Data needed to convert an outcome to an error. */
export interface FailureContext {
  readonly limits: Limits;
  readonly usage: ToolUsage;
  /** The guest's report, which is untrusted. */
  readonly text: string;
  readonly stackMapper: StackMapper;
}

/** Returns details with a peak of at least the limit, because the measured peak may be from an earlier moment. */
const memoryLimitDetails = ({ memoryMiB }: Limits, peakBytes: number): ErrorDetails => ({
  limitMiB: memoryMiB,
  peakMiB: Math.max(memoryMiB, Math.ceil(peakBytes / 1024 / 1024)),
});

/** Creates the error for a call that exceeded its memory limit. */
export function memoryError(name: string, limits: Limits, peakBytes: number): ToolError {
  return new ToolError(
    "MEMORY_LIMIT",
    `${name} used more than ${limits.memoryMiB} MiB of memory (limits.memoryMiB) and was stopped`,
    {
      details: memoryLimitDetails(limits, peakBytes),
    },
  );
}

/**
 * Converts an outcome without output to an error. Its code depends on where the failure happened, never on text from the
 * guest.
 */
export function toGuestFailure(message: EndedMessage, context: FailureContext, name: string): ToolError {
  const { limits, text } = context;
  switch (message.outcome) {
    case "memory":
      return memoryError(name, limits, context.usage.peakBytes);
    case "cpu":
      return new ToolError(
        "CPU_LIMIT",
        `${name} used more than ${limits.cpuMs} ms of CPU time (limits.cpuMs) and was stopped`,
        {
          details: { limitMs: limits.cpuMs, usedMs: Math.round(context.usage.cpuMs) },
        },
      );
    case "too-large":
      return new ToolError(
        "OUTPUT_TOO_LARGE",
        `The output of ${name}: expected at most ${limits.outputBytes} bytes of JSON`,
        {
          details: { limitBytes: limits.outputBytes, characters: Number(text) || 0 },
        },
      );
    case "input":
      return issuesError("PARAM_INVALID", `The arguments of ${name}`, text);
    case "output-schema":
      return issuesError("OUTPUT_INVALID", `The output of ${name}`, text);
    case "unserializable":
    case "rejected":
    case "thrown":
      return thrownError(message, context, name);
    default:
      return new ToolError("SANDBOX_CRASHED", `The isolate of ${name} ended before the call did`, {
        details: { outcome: message.outcome },
      });
  }
}

function issuesError(code: "PARAM_INVALID" | "OUTPUT_INVALID", what: string, text: string): ToolError {
  const parsed = GuestIssuesSchema.safeParse(tryParse(text));
  const issues = parsed.success ? parsed.data : [];
  const reason = issues.length === 0 ? "the tool's own schema rejected the value" : formatIssues(issues);
  return new ToolError(code, `${what}: ${reason}`, {
    details: { problems: issues },
  });
}

const THROWN_CODES = { unserializable: "OUTPUT_INVALID", rejected: "BUNDLE_FAILED", thrown: "TOOL_FAILED" } as const;

function thrownError(message: EndedMessage, context: FailureContext, name: string): ToolError {
  const outcome = message.outcome as keyof typeof THROWN_CODES;
  const parsed = GuestErrorSchema.safeParse(tryParse(context.text));
  if (!parsed.success) return new ToolError("SANDBOX_CRASHED", `The isolate of ${name} sent an invalid error report`);
  const { name: errorName, stack, code } = parsed.data;
  const mapped = stack === "" ? undefined : context.stackMapper.mapStack(stack);
  const frames = mapped?.frames ?? [];
  // Prefer a frame in the tool's own code, which its author can change, even if a package threw.
  const frame = frames.find(({ isOwn }) => isOwn) ?? frames[0];
  const missing = capabilityOf(parsed.data, frames[0], context.stackMapper);
  const { message: errorMessage, capabilityCode, capability } = { ...parsed.data, ...missing };
  const details: ErrorDetails = {
    errorName: missing?.capabilityCode === undefined ? errorName : "CapabilityError",
    ...(code === undefined ? {} : { errorCode: code }),
    ...(capabilityCode === undefined ? {} : { capabilityCode }),
    ...(capability === undefined ? {} : { capability }),
    ...(message.phase === "load" ? { phase: "load" } : {}),
    ...(frame === undefined ? {} : { file: frame.file, line: frame.line, column: frame.column }),
  };
  return new ToolError(THROWN_CODES[outcome], errorMessage, {
    details,
    ...(mapped === undefined ? {} : { guestStack: withHeader(mapped.stack, missing?.capabilityCode, errorMessage) }),
  });
}

/** Returns a stack that begins with the error of a capability instead of the TypeError. */
function withHeader(stack: string, code: string | undefined, message: string): string {
  const frames = code === undefined ? -1 : stack.indexOf("\n    at ");
  return frames < 0 ? stack : `CapabilityError: ${message}${stack.slice(frames)}`;
}

/** Returns the fields of a TypeError's report that change because a capability that was not granted caused it, or may have. */
function capabilityOf(
  { name, message, missing }: z.infer<typeof GuestErrorSchema>,
  frame: StackFrame | undefined,
  mapper: StackMapper,
): Partial<z.infer<typeof GuestErrorSchema>> | undefined {
  if (missing === undefined || name !== "TypeError" || frame?.isOwn !== true) return undefined;
  const text = mapper.textOf?.(frame);
  const found = text === undefined ? undefined : findMissingCapability({ ...frame, message, text, missing });
  if (found === undefined) return undefined;
  if (!found.isCertain) return { message: `${message} (perhaps: ${found.message})` };
  return { message: found.message, capabilityCode: "CAPABILITY_DENIED", capability: found.capability };
}

/**
 * Converts an outcome without output to the error of a call, with the trace and the code of a failed capability call.
 * @param broker undefined if the call has not used a capability
 */
export function toCallFailure(
  message: EndedMessage,
  context: FailureContext,
  name: string,
  tool: Pick<SandboxTool, "granted" | "python">,
  broker: FailureSource | undefined,
): ToolError {
  const error = toGuestFailure(message, context, name);
  if (tool.python !== undefined && error.details?.errorCode === PYTHON_OUT_OF_MEMORY) {
    return withCode(error, "MEMORY_LIMIT", memoryLimitDetails(context.limits, context.usage.peakBytes));
  }
  return verifyCapabilityCode(withTrace(error, broker), tool, broker);
}

/** The capability calls of a call that have failed. */
type FailureSource = Pick<CapabilityBroker, "wasDeniedWith" | "traceOf">;

/** Adds the trace of a failed nested call. */
function withTrace(error: ToolError, broker: FailureSource | undefined): ToolError {
  const claimed = error.details?.capabilityCode;
  const trace = typeof claimed === "string" ? broker?.traceOf(claimed, error.message) : undefined;
  return trace === undefined ? error : withCode(error, error.code, { trace });
}

/**
 * Changes the code to CAPABILITY_DENIED or QUOTA_EXCEEDED if a capability failed with it. A guest can claim any code, so
 * CAPABILITY_DENIED counts only if the host has denied a request or has not granted the named capability, even if no
 * capability of that name exists. QUOTA_EXCEEDED is accepted from the guest, because the prelude counts before a request
 * is sent. A forged one only means that the guest's own call failed.
 */
function verifyCapabilityCode(
  error: ToolError,
  { granted }: Pick<SandboxTool, "granted">,
  broker: FailureSource | undefined,
): ToolError {
  const claimed = error.details?.capabilityCode;
  if (typeof claimed !== "string" || !isErrorCode(claimed)) return error;
  const missing = error.details?.capability;
  const denied = claimed === "CAPABILITY_DENIED" && typeof missing === "string" && !granted.has(missing);
  if (!denied && claimed !== "QUOTA_EXCEEDED" && !broker?.wasDeniedWith(claimed)) return error;
  if (claimed !== "CAPABILITY_DENIED" && claimed !== "QUOTA_EXCEEDED") return error;
  return withCode(error, claimed);
}

function withCode({ message, details, guestStack }: ToolError, code: ErrorCode, more: ErrorDetails = {}): ToolError {
  return new ToolError(code, message, {
    ...(details === undefined ? {} : { details: { ...details, ...more } }),
    ...(guestStack === undefined ? {} : { guestStack }),
  });
}
