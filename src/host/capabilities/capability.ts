// defineCapability: defines a function of the host that can be granted to a tool by name. Its input and output are JSON, and the host
// validates both.
import type { StandardSchemaV1 } from "@standard-schema/spec";
import * as z from "zod";
import type { CapabilityRequests } from "../../sandbox/contract/capability-requests.ts";
import type { JsonSchema } from "../../sandbox/contract/definition.ts";
import { ENGINE_FEATURE_NAMES } from "../../sandbox/contract/engine-features.ts";
import type { JsonValue } from "../../sandbox/contract/errors.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { LIMITS } from "../../sandbox/contract/limits.ts";
import { describeKind, isPlainObject, strictObject } from "../../sandbox/contract/plain-object.ts";
import type { CapabilityDescriptor } from "../../sandbox/protocol/guest-messages.ts";
import { type LogLevel, MAX_MEMBER_LENGTH, MAX_MEMBERS } from "../../sandbox/protocol/message-fields.ts";
import type { MemberModule } from "../../sandbox/protocol/platform-modules.ts";
import { parseOptions } from "../config/option-errors.ts";
import { formatIssues } from "../json/format-issues.ts";
import { compileSchema } from "../json-schema/compile-schema.ts";
import { checkStandard, isStandardSchema, type StandardOutcome } from "../json-schema/standard-schema.ts";
import { ignoreOutcome, isThenable } from "../util/host-callback.ts";

/** Schema of a capability's input or output: a Standard Schema (zod …) or a JSON Schema. */
export type CapabilitySchema = StandardSchemaV1 | JsonSchema;

/** Describes the call that uses a capability. Every value comes from the host, none from the guest. */
export interface CapabilityContext {
  readonly callId: string;
  readonly tenantId: string;
  readonly toolName: string;
  /** Aborts when the tool's call ends, whether it succeeds, fails or is cancelled. */
  readonly signal: AbortSignal;
  /** Span of this capability call as a W3C `traceparent` header, to be sent with the handler's own requests. Undefined without telemetry. */
  readonly traceparent?: string | undefined;
  /** The W3C `tracestate` header that belongs to `traceparent`. */
  readonly tracestate?: string | undefined;
  /**
   * Writes a line to the log of the tool's call.
   * @param level default: `info`
   */
  log(message: string, data?: JsonValue, level?: LogLevel): void;
  /**
   * The `capabilities` of the tool's definition, by name: `{ fetch: ["api.example.com"] }`. They are the tool author's claim, unless the
   * host has overridden them: use them to narrow what a handler allows, never to widen it.
   */
  readonly requested: CapabilityRequests;
  /**
   * Returns the result of `open`, which is called once for each tool call. Every capability that passes the same function gets the same
   * value, which may be a promise. When the call ends, the value is disposed with its `Symbol.asyncDispose` or `Symbol.dispose`, if any. An
   * idempotent call whose process was lost runs again, with new values.
   * @throws {ToolError} CANCELLED when the call has ended
   */
  perCall<Kept>(open: (context: CapabilityContext) => Kept): Kept;
  /**
   * Registers a secret. From now on, logs, result, error and progress of the call contain `[redacted:LABEL]` instead of the value, also
   * where the value is escaped, reversed, or encoded in base64 or hexadecimal.
   * @throws {ToolError} PARAM_INVALID for a value of fewer than 8 or more than 8,192 bytes
   */
  redact(label: string, value: string): void;
}

type InputOf<Schema> = Schema extends StandardSchemaV1 ? StandardSchemaV1.InferOutput<Schema> : JsonValue;
type OutputOf<Schema> = Schema extends StandardSchemaV1 ? StandardSchemaV1.InferInput<Schema> : unknown;

/** Argument of {@link defineCapability}. */
export interface CapabilityOptions<Input extends CapabilitySchema, Output extends CapabilitySchema> {
  /** Name of the property of `ctx`: an identifier of 1 to 64 characters. Names of engine features are reserved. */
  readonly name: string;
  /** @default "" */
  readonly description?: string;
  /** Validates the tool's input; the handler receives the transformed value. */
  readonly inputSchema: Input;
  /** Validates the handler's return value before it is sent to the tool. */
  readonly outputSchema: Output;
  /**
   * Names of methods, which make `ctx.NAME` an object: with `["get", "set"]`, `ctx.NAME.set(a, b)` sends `{ op: "set", args: [a, b] }`.
   * Without `members`, the capability is a function, `ctx.NAME(input)`. If `members` is a function, it is called when a tool is added, with
   * the value that the tool's definition has for this capability.
   */
  readonly members?: readonly string[] | ((requested: JsonValue | undefined) => readonly string[]) | undefined;
  /**
   * Values of `op` whose inputs do not count against `limits.maxCapabilityCalls`: further steps of an operation whose first step has counted.
   * @default []
   */
  readonly uncounted?: readonly string[] | undefined;
  /** Runs on the host. The tool receives the code and message of a thrown ToolError; for other errors it receives TOOL_FAILED only. */
  readonly handler: (input: InputOf<Input>, context: CapabilityContext) => OutputOf<Output> | Promise<OutputOf<Output>>;
}

/** A valid value as its schema transforms it, or the reason why the value is invalid. */
type Checked = { readonly value: unknown } | { readonly issue: string };

/** Checks a value, synchronously unless the schema library returns a promise. The signal ends the wait for that promise. */
type Check = (value: unknown, signal: AbortSignal) => Checked | Promise<Checked>;

/** A capability that can be granted to tools; see {@link defineCapability}. */
export interface Capability {
  readonly name: string;
  readonly description: string;
  readonly members: CapabilityOptions<JsonSchema, JsonSchema>["members"];
  readonly uncounted: readonly string[];
  /** For built-in capabilities only: the platform module that creates the tool's side of it. */
  readonly platformModule?: MemberModule | undefined;
  /** Replaces the built-in capability of the same name in a tool's tests. */
  readonly isStub?: true | undefined;
  readonly checkInput: Check;
  readonly checkOutput: Check;
  readonly handler: (input: never, context: CapabilityContext) => unknown;
  /**
   * For built-in capabilities only: called instead of the handler when a durable run repeats a request whose answer its journal has, so that the
   * call has the state that the handler had left.
   * @param input valid by `checkInput`
   * @param output value of the answer
   */
  readonly restore?: ((input: never, output: unknown, context: CapabilityContext) => unknown) | undefined;
}

const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/;
/** Members of ctx and engine features, which are not capabilities. Members of `Object.prototype` are reserved too. */
const RESERVED: readonly string[] = [
  "callId",
  "tenantId",
  "signal",
  "progress",
  "span",
  "then",
  ...ENGINE_FEATURE_NAMES,
];
const isReserved = (name: string): boolean => RESERVED.includes(name) || name in Object.prototype;

/** Accepts plain objects only: a promise or a Map would count as the JSON Schema `{}`, which every value matches. */
const isSchema = (value: unknown): value is CapabilitySchema => isStandardSchema(value) || isPlainObject(value);

const isFreeName = (value: unknown): value is string =>
  typeof value === "string" && NAME.test(value) && !isReserved(value);

const describeGiven = (value: unknown): string =>
  typeof value === "string" ? JSON.stringify(value.slice(0, 100)) : describeKind(value);

type Members = NonNullable<CapabilityOptions<JsonSchema, JsonSchema>["members"]>;
const MEMBERS_RULE = `an array of at most ${MAX_MEMBERS} strings of 1 to ${MAX_MEMBER_LENGTH} characters`;

const isMembers = (members: unknown): members is readonly string[] =>
  Array.isArray(members) &&
  members.length <= MAX_MEMBERS &&
  members.every((member) => typeof member === "string" && member.length > 0 && member.length <= MAX_MEMBER_LENGTH);

const schemaField = z.custom<CapabilitySchema>(isSchema, {
  error: ({ input }) => `Expected a Standard Schema or a JSON Schema object, got ${describeKind(input)}`,
});
const OptionsSchema = strictObject({
  name: z.custom<string>(isFreeName, {
    error: ({ input }) =>
      `Expected an identifier of 1 to 64 characters, except ${RESERVED.join(", ")} and members of Object.prototype; got ${describeGiven(input)}`,
  }),
  description: z.string().default(""),
  inputSchema: schemaField,
  outputSchema: schemaField,
  members: z
    .custom<Members>(
      (value) => typeof value === "function" || isMembers(value),
      `Expected ${MEMBERS_RULE}, or a function`,
    )
    .optional(),
  uncounted: z.custom<readonly string[]>(isMembers, `Expected ${MEMBERS_RULE}`).default([]),
  handler: z.custom<Capability["handler"]>((value) => typeof value === "function", {
    error: ({ input }) => `Expected a function, got ${describeKind(input)}`,
  }),
});

function toCheck(schema: CapabilitySchema, subject: string): Check {
  if (isStandardSchema(schema)) {
    const read = (outcome: StandardOutcome): Checked => readOutcome(outcome, subject);
    return (value, signal) => {
      const outcome = checkStandard(schema, value, { timeoutMs: LIMITS.timeoutMs.max, signal });
      return isThenable(outcome) ? Promise.resolve(outcome).then(read) : read(outcome);
    };
  }
  const compiled = compileSchema(schema, { code: "PARAM_INVALID", subject });
  return (value) => {
    const outcome = compiled.validate(value);
    if (outcome.valid) return { value };
    return { issue: outcome.stopped ? outcome.message : formatIssues(outcome.issues) };
  };
}

/** @throws {TypeError} when the schema library fails, or returns an unreadable result */
function readOutcome(outcome: StandardOutcome, subject: string): Checked {
  if ("value" in outcome) return outcome;
  if ("issues" in outcome) return { issue: formatIssues(outcome.issues) };
  throw new TypeError(`The ${subject}: ${outcome.failed}`, { cause: outcome.cause });
}

/** Calls a capability's `members` function. @throws {ToolError} PARAM_INVALID when it throws, or does not return an array of names */
function namesOf(
  name: string,
  members: Capability["members"],
  requested: JsonValue | undefined,
): readonly string[] | undefined {
  if (typeof members !== "function") return members;
  let names: unknown;
  try {
    names = members(requested);
  } catch (cause) {
    throw new ToolError("PARAM_INVALID", `The members function of capability "${name}" threw`, { cause });
  }
  if (isMembers(names)) return names;
  // An unhandled rejection of a returned promise would end the process.
  ignoreOutcome(() => names);
  const message = `The members of capability "${name}": expected ${MEMBERS_RULE}, got ${describeKind(names)}`;
  throw new ToolError("PARAM_INVALID", message);
}

/**
 * Returns the form of a capability for a tool that requests it with `requested`; undefined for a plain function.
 * @throws {ToolError} PARAM_INVALID when its `members` function throws, or does not return an array of names
 */
export function descriptorOf(
  { name, members, uncounted, platformModule }: Capability,
  requested: JsonValue | undefined,
): CapabilityDescriptor | undefined {
  const names = namesOf(name, members, requested);
  if (names === undefined && uncounted.length === 0 && platformModule === undefined) return undefined;
  return {
    ...(platformModule === undefined ? {} : { platformModule }),
    ...(names === undefined ? {} : { members: [...names] }),
    ...(uncounted.length === 0 ? {} : { uncounted: [...uncounted] }),
  };
}

/**
 * Defines a function of the host that can be granted to tools by name.
 * @throws {ToolError} PARAM_INVALID for unknown or invalid options, with the path of each one (`capability.name`), and for a JSON Schema
 *   that cannot be compiled, with the path in the schema
 * @example
 * ```ts
 * import { defineCapability } from "glovebox";
 * import { z } from "zod";
 * const lookUp = defineCapability({
 *   name: "lookUp",
 *   inputSchema: z.object({ sku: z.string() }),
 *   outputSchema: z.object({ price: z.number() }),
 *   handler: ({ sku }) => ({ price: sku.length }),
 * });
 * ```
 */
export function defineCapability<Input extends CapabilitySchema, Output extends CapabilitySchema>(
  options: CapabilityOptions<Input, Output>,
): Capability {
  const parsed = parseOptions(OptionsSchema, options, "capability");
  const { name, description, members, uncounted, inputSchema, outputSchema, handler } = parsed;
  return {
    name,
    description,
    members,
    uncounted,
    checkInput: toCheck(inputSchema, `inputSchema of capability ${name}`),
    checkOutput: toCheck(outputSchema, `outputSchema of capability ${name}`),
    handler,
  };
}
