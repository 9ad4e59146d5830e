// defineCapability: a host function that a host grants to a tool by name. JSON in, JSON out, checked on both sides; it runs on the host.
import type { StandardSchemaV1 } from "@standard-schema/spec";
import type { MemberChunk } from "../../sandbox/chunk-names.ts";
import type { CapabilityRequests, JsonSchema } from "../../sandbox/definition.ts";
import { ENGINE_FEATURE_NAMES } from "../../sandbox/engine-features.ts";
import type { JsonValue } from "../../sandbox/errors.ts";
import { ToolError } from "../../sandbox/errors.ts";
import type { CapabilityShape } from "../../sandbox/guest-protocol.ts";
import { type LogLevel, MAX_MEMBER_UNITS, MAX_MEMBERS } from "../../sandbox/protocol.ts";
import { compileSchema } from "../json-schema/compile-schema.ts";
import { problemLine } from "../problem-line.ts";

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

type Checked = { readonly value: unknown } | { readonly problem: string };
/** Checks a value; gives it back transformed, or says what is wrong with it. At once, unless its schema library takes time. */
type Check = (value: unknown) => Checked | Promise<Checked>;

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

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null;
const isStandard = (schema: CapabilitySchema): schema is StandardSchemaV1 => "~standard" in schema;

function pointerOf({ path = [] }: StandardSchemaV1.Issue): string {
  const keys = path.map((step) => String(typeof step === "object" ? step.key : step));
  return keys.map((key) => `/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}

function fromStandard(result: StandardSchemaV1.Result<unknown>): Checked {
  if (result.issues === undefined) return { value: result.value };
  return {
    problem: problemLine(result.issues.map((issue) => ({ pointer: pointerOf(issue), message: issue.message }))),
  };
}

function toCheck(schema: CapabilitySchema, subject: string): Check {
  if (isStandard(schema)) {
    return (value) => {
      const result = schema["~standard"].validate(value);
      return result instanceof Promise ? result.then(fromStandard) : fromStandard(result);
    };
  }
  const compiled = compileSchema(schema, { code: "PARAM_INVALID", subject });
  return (value) => {
    const outcome = compiled.validate(value);
    if (outcome.valid) return { value };
    return { problem: outcome.stopped ? outcome.message : problemLine(outcome.problems) };
  };
}

function checkMembers(name: string, members: unknown): asserts members is readonly string[] {
  const fits =
    Array.isArray(members) &&
    members.length <= MAX_MEMBERS &&
    members.every((member) => typeof member === "string" && member.length > 0 && member.length <= MAX_MEMBER_UNITS);
  if (fits) return;
  throw new ToolError(
    "PARAM_INVALID",
    `The members of capability ${name}: expected at most ${MAX_MEMBERS} texts of 1 to ${MAX_MEMBER_UNITS} characters`,
  );
}

/**
 * How it looks to a tool that asks for it like this; undefined for a plain function.
 * @throws {ToolError} PARAM_INVALID when its `members` function answers with something that are no names
 */
export function shapeOf(
  { name, members, uncounted, chunk }: Capability,
  asked: JsonValue | undefined,
): CapabilityShape | undefined {
  const names = typeof members === "function" ? members(asked) : members;
  if (names !== undefined) checkMembers(name, names);
  if (names === undefined && uncounted.length === 0 && chunk === undefined) return undefined;
  return {
    ...(chunk === undefined ? {} : { chunk }),
    ...(names === undefined ? {} : { members: [...names] }),
    ...(uncounted.length === 0 ? {} : { uncounted: [...uncounted] }),
  };
}

/**
 * @throws {ToolError} PARAM_INVALID for a malformed or reserved name, or a JSON Schema that cannot be used
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
  if (!isObject(options)) throw new ToolError("PARAM_INVALID", "defineCapability: expected an object of options");
  const { name, description = "", inputSchema, outputSchema, handler, members, uncounted = [] } = options;
  if (typeof name !== "string" || !NAME.test(name) || isReserved(name)) {
    const got = typeof name === "string" ? JSON.stringify((name as string).slice(0, 100)) : typeof name;
    throw new ToolError(
      "PARAM_INVALID",
      `Expected a capability name that is an identifier of 1 to 64 characters and none of ${RESERVED.join(", ")}, nor a member of every object; got ${got}`,
    );
  }
  for (const [field, schema] of [
    ["inputSchema", inputSchema],
    ["outputSchema", outputSchema],
  ] as const) {
    const fits = isObject(schema) || typeof schema === "function";
    if (!fits)
      throw new ToolError(
        "PARAM_INVALID",
        `The ${field} of capability ${name}: expected a Standard Schema or a JSON Schema object`,
      );
  }
  if (typeof handler !== "function") {
    throw new ToolError(
      "PARAM_INVALID",
      `The handler of capability ${name}: expected a function, got ${typeof handler}`,
    );
  }
  if (typeof members !== "function") checkMembers(name, members ?? []);
  checkMembers(name, uncounted);
  return {
    name,
    description,
    members,
    uncounted,
    checkInput: toCheck(inputSchema, `inputSchema of capability ${name}`),
    checkOutput: toCheck(outputSchema, `outputSchema of capability ${name}`),
    handler: handler as Capability["handler"],
  };
}
