// defineCapability: a host function that a host grants to a tool by name. JSON in, JSON out, checked on both sides; it runs on the host.
import type { StandardSchemaV1 } from "@standard-schema/spec";
import * as z from "zod";
import type { CapabilityRequests, JsonSchema } from "../../sandbox/contract/definition.ts";
import { ENGINE_FEATURE_NAMES } from "../../sandbox/contract/engine-features.ts";
import type { JsonValue } from "../../sandbox/contract/errors.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { LIMITS } from "../../sandbox/contract/limits.ts";
import { describeKind, isPlainObject, strictObject } from "../../sandbox/contract/plain-object.ts";
import type { CapabilityShape } from "../../sandbox/protocol/guest-messages.ts";
import { type LogLevel, MAX_MEMBER_UNITS, MAX_MEMBERS } from "../../sandbox/protocol/messages.ts";
import type { MemberChunk } from "../../sandbox/protocol/platform-modules.ts";
import { parseOptions } from "../config/option-errors.ts";
import { formatIssues } from "../json/format-issues.ts";
import { compileSchema } from "../json-schema/compile-schema.ts";
import { checkStandard, isStandardSchema, type StandardOutcome } from "../json-schema/standard-schema.ts";
import { ignoreOutcome, isThenable } from "../util/host-callback.ts";

/** How a host states a capability's schemas: a Standard Schema (zod …), or JSON Schema. */
export type CapabilitySchema = StandardSchemaV1 | JsonSchema;

/** For whom a capability works: what the host knows of the call, never what the guest says. */
export interface CapabilityContext {
  readonly callId: string;
  readonly tenantId: string;
  readonly toolName: string;
  /** Aborts when the tool's call is over, for whatever reason. */
  readonly signal: AbortSignal;
  /** The span of this capability call, as W3C's headers have it, where the host has telemetry: for what is asked in its turn. */
  readonly traceparent?: string | undefined;
  readonly tracestate?: string | undefined;
  /** Writes a line into the log of the tool's call; `info` unless stated. */
  log(message: string, data?: JsonValue, level?: LogLevel): void;
  /**
   * What the tool's definition asks for, by capability: `{ fetch: ["api.example.com"] }`. Unless the host has stated it, it is the
   * author's word: it may narrow what a handler allows, never widen it.
   */
  readonly asked: CapabilityRequests;
  /**
   * What `open` made, once for this call: the same function gives the same value, to every capability that has it. It is disposed
   * of when the call is over, by its `Symbol.asyncDispose` or `Symbol.dispose`, if it has one; a promise may stand for it.
   * @throws {ToolError} CANCELLED when the call is over
   */
  perCall<Kept>(open: (context: CapabilityContext) => Kept): Kept;
  /**
   * From now on the value stands in nothing that the call says: logs, result, error and progress have `[redacted:LABEL]` in its
   * place, also where it is escaped, reversed, or in base64 or hexadecimal.
   * @throws {ToolError} PARAM_INVALID for a value of fewer than 8 or more than 8,192 bytes
   */
  conceal(label: string, value: string): void;
}

type InputOf<Schema> = Schema extends StandardSchemaV1 ? StandardSchemaV1.InferOutput<Schema> : JsonValue;
type OutputOf<Schema> = Schema extends StandardSchemaV1 ? StandardSchemaV1.InferInput<Schema> : unknown;

export interface CapabilityOptions<Input extends CapabilitySchema, Output extends CapabilitySchema> {
  /** The tool sees it as `ctx.NAME`: an identifier of 1 to 64 characters, and no engine feature's name. */
  readonly name: string;
  readonly description?: string;
  readonly inputSchema: Input;
  readonly outputSchema: Output;
  /**
   * Makes `ctx.NAME` an object: with `["get", "set"]`, `ctx.NAME.set(a, b)` sends `{ op: "set", args: [a, b] }`. Without, it is
   * a function, `ctx.NAME(input)`. A function is asked when a tool is added, with what its definition states beside the name.
   */
  readonly members?: readonly string[] | ((asked: JsonValue | undefined) => readonly string[]) | undefined;
  /** Inputs with one of these as their `op` do not count against `hostCalls`: further steps of what counted when it began. */
  readonly uncounted?: readonly string[] | undefined;
  /** A thrown ToolError reaches the tool with its code and message; of anything else it learns only that it failed. */
  readonly handler: (input: InputOf<Input>, context: CapabilityContext) => OutputOf<Output> | Promise<OutputOf<Output>>;
}

/** A checked value, transformed as its schema states, or what is wrong with it. */
type Checked = { readonly value: unknown } | { readonly problem: string };

/** Checks a value, at once unless its schema library answers with a promise; the signal ends the wait for that. */
type Check = (value: unknown, signal: AbortSignal) => Checked | Promise<Checked>;

/** A capability ready to be granted. */
export interface Capability {
  readonly name: string;
  readonly description: string;
  readonly members: CapabilityOptions<JsonSchema, JsonSchema>["members"];
  readonly uncounted: readonly string[];
  /** Of our own only: the chunk that makes what the tool sees of it. */
  readonly chunk?: MemberChunk | undefined;
  /** In the place of one of ours of the same name, in a tool's tests. */
  readonly standsIn?: true | undefined;
  readonly checkInput: Check;
  readonly checkOutput: Check;
  readonly handler: (input: never, context: CapabilityContext) => unknown;
}

const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/;
/** Members of ctx that are not capabilities, and what is granted by name but is none; those that every object has are taken too. */
const RESERVED: readonly string[] = ["callId", "tenantId", "signal", "progress", "then", ...ENGINE_FEATURE_NAMES];
const isReserved = (name: string): boolean => RESERVED.includes(name) || name in Object.prototype;

/** A promise or a Map would be read as the JSON Schema {}, which every value matches. */
const isSchema = (value: unknown): value is CapabilitySchema => isStandardSchema(value) || isPlainObject(value);

const isFreeName = (value: unknown): value is string =>
  typeof value === "string" && NAME.test(value) && !isReserved(value);

const describeGiven = (value: unknown): string =>
  typeof value === "string" ? JSON.stringify(value.slice(0, 100)) : describeKind(value);

type Members = NonNullable<CapabilityOptions<JsonSchema, JsonSchema>["members"]>;
const MEMBERS_RULE = `at most ${MAX_MEMBERS} texts of 1 to ${MAX_MEMBER_UNITS} characters`;

const isMembers = (members: unknown): members is readonly string[] =>
  Array.isArray(members) &&
  members.length <= MAX_MEMBERS &&
  members.every((member) => typeof member === "string" && member.length > 0 && member.length <= MAX_MEMBER_UNITS);

const schemaField = z.custom<CapabilitySchema>(isSchema, {
  error: ({ input }) => `Expected a Standard Schema or a JSON Schema object, got ${describeKind(input)}`,
});
const OptionsSchema = strictObject({
  name: z.custom<string>(isFreeName, {
    error: ({ input }) =>
      `Expected an identifier of 1 to 64 characters that is none of ${RESERVED.join(", ")} and no member of every object; got ${describeGiven(input)}`,
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
    return { problem: outcome.stopped ? outcome.message : formatIssues(outcome.problems) };
  };
}

/** @throws {TypeError} for a schema library that fails, or gives no result that can be read */
function readOutcome(outcome: StandardOutcome, subject: string): Checked {
  if ("value" in outcome) return outcome;
  if ("problems" in outcome) return { problem: formatIssues(outcome.problems) };
  throw new TypeError(`The ${subject}: ${outcome.failed}`, { cause: outcome.cause });
}

/** Calls a capability's `members` function. @throws {ToolError} PARAM_INVALID when it throws, or returns anything but names */
function namesOf(
  name: string,
  members: Capability["members"],
  asked: JsonValue | undefined,
): readonly string[] | undefined {
  if (typeof members !== "function") return members;
  let names: unknown;
  try {
    names = members(asked);
  } catch (cause) {
    throw new ToolError("PARAM_INVALID", `The members function of capability "${name}" threw`, { cause });
  }
  if (isMembers(names)) return names;
  // A promise that rejects would end the process.
  ignoreOutcome(() => names);
  const message = `The members of capability "${name}": expected ${MEMBERS_RULE}, got ${describeKind(names)}`;
  throw new ToolError("PARAM_INVALID", message);
}

/**
 * Returns how a capability looks to a tool that requests it with `asked`; undefined for a plain function.
 * @throws {ToolError} PARAM_INVALID when its `members` function throws, or returns anything but names
 */
export function shapeOf(
  { name, members, uncounted, chunk }: Capability,
  asked: JsonValue | undefined,
): CapabilityShape | undefined {
  const names = namesOf(name, members, asked);
  if (names === undefined && uncounted.length === 0 && chunk === undefined) return undefined;
  return {
    ...(chunk === undefined ? {} : { chunk }),
    ...(names === undefined ? {} : { members: [...names] }),
    ...(uncounted.length === 0 ? {} : { uncounted: [...uncounted] }),
  };
}

/**
 * Defines a host function that tools can be granted by name.
 * @throws {ToolError} PARAM_INVALID, naming the path of each option that is unknown or wrong (`capability.name`), or the place in a JSON
 *   Schema that cannot be compiled
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
