// Stage 1: validates a call, finds its tool and validates its arguments. Later stages receive copies, never the caller's own objects.
import { type ToolError, unavailable } from "../../sandbox/contract/errors.ts";
import { isPlainObject } from "../../sandbox/contract/plain-object.ts";
import type { CallContext } from "../contract/tool-call.ts";
import { type BinaryAttachments, sizeOfBytes, type ToolValue } from "../contract/tool-value.ts";
import type { JsonTextLimits } from "../json/json-errors.ts";
import { checkJsonBytes, isSmallJson } from "../json/parse-json.ts";
import type { SchemaThread } from "../json-schema/worker/schema-thread.ts";
import type { RegisteredTool, ToolRegistry } from "../routing/registry.ts";
import { versionOf } from "../routing/tool-release.ts";
import type { Clock } from "./clock.ts";
import { type ArgumentOptions, type Coercion, coerceArguments, resolveArgumentOptions } from "./coercion.ts";
import { checkKeys, describe, invalid, readFields, readText } from "./read-fields.ts";
import {
  type CheckedInput,
  checkInputWithBytes,
  checkLargeInput,
  checkSmallInput,
  type InputText,
  readValueWithBytes,
} from "./read-value.ts";
import { INPUT_CODES, serializeArguments } from "./serialize-arguments.ts";
import { checkToolDigest, toDecided } from "./tool-digest.ts";

/** Envelope of a call, read once from the caller's object. */
export interface CallEnvelope {
  readonly callId: string;
  readonly toolName: string;
  readonly arguments: unknown;
  /** Untrusted JSON text instead of a value. */
  readonly argumentsText?: string | undefined;
  /** Corrections that were made before hooks saw the arguments. */
  readonly coercions?: readonly Coercion[] | undefined;
}

export interface ValidatedCall extends CheckedInput {
  readonly callId: string;
  readonly tenantId: string;
  readonly tool: RegisteredTool;
  readonly context: CallContext;
  /** Corrections of the arguments, or undefined if there were none. */
  readonly coercions?: readonly Coercion[] | undefined;
}

const ENVELOPE_FIELDS: readonly string[] = ["id", "toolName", "arguments", "argumentsText"];

/**
 * Reads the call's fields, each once.
 * @throws {ToolError} PARAM_INVALID
 */
export function readEnvelope(toolCall: unknown): CallEnvelope {
  const expected = "an object { id, toolName, arguments }";
  if (!isPlainObject(toolCall)) throw invalid("toolCall", expected, describe(toolCall));
  const { id, toolName, args, text } = readFields("toolCall", () => {
    // A call with `args` instead of `arguments` would otherwise run with `{}`.
    checkKeys(toolCall, "toolCall", ENVELOPE_FIELDS);
    const { id, toolName, arguments: args, argumentsText: text } = toolCall;
    return { id, toolName, args, text };
  });
  const argumentsText = text === undefined ? undefined : readArgumentsText(text);
  if (argumentsText !== undefined && args !== undefined) {
    throw invalid("toolCall", "either arguments or argumentsText", "both");
  }
  const callId = readText(id, "toolCall.id");
  return { callId, toolName: readText(toolName, "toolCall.toolName"), arguments: args, argumentsText };
}

function readArgumentsText(text: unknown): string {
  if (typeof text !== "string") throw invalid("toolCall.argumentsText", "JSON text", describe(text));
  // UTF-8 cannot encode unpaired surrogates: the tool would receive other text than was checked.
  if (!text.isWellFormed()) throw invalid("toolCall.argumentsText", "JSON text", "text with an unpaired surrogate");
  return text;
}

/**
 * Creates the error for a tool that the caller cannot call. It is the same for a tool that is switched off, so it does
 * not disclose that the tool exists.
 */
export function noSuchTool(toolName: string): ToolError {
  const shown = toolName.slice(0, 128);
  const message = `There is no tool named ${JSON.stringify(shown)} that can be called`;
  return unavailable("not_found", message, { details: { toolName: shown } });
}

function unknownTool(toolName: string, tenantId: string, registry: ToolRegistry): ToolError {
  const known = registry.list(tenantId).map((tool) => tool.definition.name);
  const hint = known.length === 0 ? "no tools are registered" : `known tools: ${known.slice(0, 20).join(", ")}`;
  return unavailable("not_found", `There is no tool named ${JSON.stringify(toolName.slice(0, 128))}; ${hint}`, {
    details: { toolName: toolName.slice(0, 128), known: known.slice(0, 20) },
  });
}

/** Returns the limits of a tool's arguments. A tool's own limits can only lower the host's. */
export function inputBounds(host: JsonTextLimits, { hostLimits, authorLimits }: RegisteredTool): JsonTextLimits {
  return {
    bytes: Math.min(host.bytes, hostLimits?.inputBytes ?? host.bytes, authorLimits?.inputBytes ?? host.bytes),
    depth: Math.min(host.depth, hostLimits?.jsonDepth ?? host.depth, authorLimits?.jsonDepth ?? host.depth),
    values: Math.min(host.values, hostLimits?.jsonValues ?? host.values, authorLimits?.jsonValues ?? host.values),
  };
}

/** Dependencies that the router passes for every call. */
export interface ValidateOptions {
  /** The host's limits for arguments. */
  readonly bounds: JsonTextLimits;
  readonly thread: SchemaThread;
  /** Whether the host can switch tools off for a caller. The error for an unknown tool then does not list the registered tools. */
  readonly isGated?: boolean;
  /** The host's options for corrections; those of the tool and the call take precedence. */
  readonly arguments?: ArgumentOptions | undefined;
  /** The tool that hooks decided about, which may be undefined. Absent if no hook was called. */
  readonly decided?: { readonly tool: RegisteredTool | undefined };
  /** Returns whether an update has replaced a tool. */
  readonly isUpdated?: (tool: RegisteredTool) => boolean;
  /** Starts the call's clock early for large arguments, because reading them uses some of its time. */
  readonly startClock: (tool: RegisteredTool) => Clock;
}

const never = (): boolean => false;

/**
 * Validates a call; synchronously, unless the arguments are large.
 * @throws {ToolError} PARAM_INVALID or TOOL_UNAVAILABLE; may also reject with one
 */
export function validateCall(
  envelope: CallEnvelope,
  context: CallContext & { readonly tenantId: string },
  registry: ToolRegistry,
  options: ValidateOptions,
): ValidatedCall | Promise<ValidatedCall> {
  const found = versionOf(registry.get(envelope.toolName, context.tenantId), context.toolVersion);
  const { decided, isUpdated = never } = options;
  const tool = decided === undefined ? found : toDecided(decided.tool, found, envelope.toolName, isUpdated);
  if (tool === undefined) {
    // The registered tools may include some that are switched off.
    if (options.isGated === true) throw noSuchTool(envelope.toolName);
    throw unknownTool(envelope.toolName, context.tenantId, registry);
  }
  // This is the tool that runs. The registry may have contained another one when the caller chose it.
  checkToolDigest(tool, context.toolDigest);
  const what = `The arguments of ${envelope.toolName}`;
  const bounds = inputBounds(options.bounds, tool);
  const { text: inputText, bytes } = serializeArguments(envelope, bounds, what);
  checkJsonBytes(inputText.length + sizeOfBytes(bytes), bounds, INPUT_CODES, what);
  const { callId } = envelope;
  const { tenantId } = context;
  const before = envelope.coercions ?? [];
  const earlier = before.length === 0 ? {} : { coercions: before };
  const toCall = (input: CheckedInput): ValidatedCall => ({ callId, tenantId, tool, context, ...earlier, ...input });
  const { wants } = tool.executor;
  const isUntrusted = envelope.argumentsText !== undefined;
  const given = { text: inputText, bytes, isUntrusted };
  const handling = resolveArgumentOptions(options.arguments, tool.arguments, context.arguments);
  const read = { text: inputText, isUntrusted, bounds, codes: INPUT_CODES, what, schema: tool.inputSchema, wants };
  if (handling !== undefined) {
    const { thread } = options;
    return inTime(tool, options, async (signal) => {
      const coerce = { ...read, options: handling, thread, signal, value: envelope.arguments };
      const { coercions: more, ...coerced } = await coerceArguments(given, coerce);
      const coercions = [...before, ...more];
      const input = await checkInput({ ...read, ...coerced }, coerced.bytes, thread, signal);
      return { ...input, ...(coercions.length === 0 ? {} : { coercions }) };
    }).then(toCall);
  }
  if (bytes !== undefined) {
    return inTime(tool, options, (signal) => checkInputWithBytes(read, bytes, options.thread, signal)).then(toCall);
  }
  if (isSmallJson(inputText)) return toCall(checkSmallInput(read));
  return inTime(tool, options, (signal) => checkLargeInput(read, options.thread, signal)).then(toCall);
}

/** Checks arguments of any size, with or without bytes. */
async function checkInput(
  read: InputText,
  bytes: BinaryAttachments | undefined,
  thread: SchemaThread,
  signal: AbortSignal,
): Promise<CheckedInput> {
  if (bytes !== undefined) return await checkInputWithBytes(read, bytes, thread, signal);
  return isSmallJson(read.text) ? checkSmallInput(read) : await checkLargeInput(read, thread, signal);
}

/**
 * Returns the call with its arguments repaired, pruned and coerced, so that hooks decide about the arguments that the tool receives.
 * Arguments with bytes are corrected only after the hooks.
 * @throws {ToolError} PARAM_INVALID, as a rejection, for arguments that cannot be read
 */
export async function coerceCall(
  envelope: CallEnvelope,
  tool: RegisteredTool,
  context: CallContext,
  options: ValidateOptions,
): Promise<CallEnvelope> {
  const handling = resolveArgumentOptions(options.arguments, tool.arguments, context.arguments);
  if (handling === undefined) return envelope;
  const bounds = inputBounds(options.bounds, tool);
  const what = `The arguments of ${envelope.toolName}`;
  const { text, bytes } = serializeArguments(envelope, bounds, what);
  if (bytes !== undefined) return envelope;
  checkJsonBytes(text.length, bounds, INPUT_CODES, what);
  const { thread } = options;
  const isUntrusted = envelope.argumentsText !== undefined;
  const coerced = await inTime(tool, options, (signal) => {
    const read = { bounds, codes: INPUT_CODES, what, schema: tool.inputSchema, thread, signal };
    return coerceArguments({ text, bytes, isUntrusted }, { ...read, options: handling, value: envelope.arguments });
  });
  if (coerced.coercions.length === 0) return envelope;
  const { callId, toolName } = envelope;
  return { callId, toolName, arguments: undefined, argumentsText: coerced.text, coercions: coerced.coercions };
}

/**
 * Returns the arguments as a copy that is not validated yet: hooks see it, and the call continues with it.
 * @throws {ToolError} PARAM_INVALID, as a rejection
 */
export async function copyArguments(
  envelope: Pick<CallEnvelope, "toolName" | "arguments" | "argumentsText">,
  tool: RegisteredTool,
  options: ValidateOptions,
): Promise<ToolValue> {
  const what = `The arguments of ${envelope.toolName}`;
  const bounds = inputBounds(options.bounds, tool);
  const { text, bytes } = serializeArguments(envelope, bounds, what);
  checkJsonBytes(text.length + sizeOfBytes(bytes), bounds, INPUT_CODES, what);
  const read = { text, bounds, codes: INPUT_CODES, what, schema: undefined };
  return await inTime(tool, options, (signal) => readValueWithBytes(read, bytes, options.thread, signal));
}

/** Runs a check within the time limit of the call. */
async function inTime<Read>(
  tool: RegisteredTool,
  { startClock }: ValidateOptions,
  check: (signal: AbortSignal) => Promise<Read>,
): Promise<Read> {
  using clock = startClock(tool);
  return await check(clock.signal);
}
