// defineCapability: a host function that a host grants to a tool by name. JSON in, JSON out, checked on both sides; it runs on the host.
import type { StandardSchemaV1 } from "@standard-schema/spec";
import type { JsonSchema } from "../../sandbox/definition.ts";
import type { JsonValue } from "../../sandbox/errors.ts";
import { ToolError } from "../../sandbox/errors.ts";
import { compileSchema } from "../json-schema/compile-schema.ts";
import type { CallLog } from "../logs.ts";

/** How a host states a capability's schemas: a Standard Schema (zod …), or JSON Schema. */
export type CapabilitySchema = StandardSchemaV1 | JsonSchema;

/** For whom a capability works: what the host knows of the call, never what the guest says. */
export interface CapabilityContext {
  readonly callId: string;
  readonly tenantId: string;
  readonly toolName: string;
  /** Aborts when the tool's call is over, for whatever reason. */
  readonly signal: AbortSignal;
  readonly log: CallLog;
}

type InputOf<Schema> = Schema extends StandardSchemaV1 ? StandardSchemaV1.InferOutput<Schema> : JsonValue;
type OutputOf<Schema> = Schema extends StandardSchemaV1 ? StandardSchemaV1.InferInput<Schema> : unknown;

export interface CapabilityOptions<Input extends CapabilitySchema, Output extends CapabilitySchema> {
  /** The tool sees it as `ctx.NAME`: an identifier of 1 to 64 characters. */
  readonly name: string;
  readonly description?: string;
  readonly inputSchema: Input;
  readonly outputSchema: Output;
  /** A thrown ToolError reaches the tool with its code and message; of anything else it learns only that it failed. */
  readonly handler: (input: InputOf<Input>, context: CapabilityContext) => OutputOf<Output> | Promise<OutputOf<Output>>;
}

/** Checks a value; gives it back transformed, or says what is wrong with it. */
type Check = (value: unknown) => Promise<{ readonly value: unknown } | { readonly problem: string }>;

/** A capability ready to be granted. */
export interface Capability {
  readonly name: string;
  readonly description: string;
  readonly checkInput: Check;
  readonly checkOutput: Check;
  readonly handler: (input: never, context: CapabilityContext) => unknown;
}

const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/;
/** Members of ctx that are not capabilities. */
const RESERVED = new Set(["callId", "tenantId", "signal", "progress", "then", "constructor", "__proto__"]);

const isStandard = (schema: CapabilitySchema): schema is StandardSchemaV1 => "~standard" in schema;

function toCheck(schema: CapabilitySchema, subject: string): Check {
  if (isStandard(schema)) {
    return async (value) => {
      const result = await schema["~standard"].validate(value);
      if (result.issues === undefined) return { value: result.value };
      return {
        problem: result.issues
          .slice(0, 3)
          .map((issue) => issue.message)
          .join("; "),
      };
    };
  }
  const compiled = compileSchema(schema, { code: "PARAM_INVALID", subject });
  return async (value) => {
    const outcome = compiled.validate(value);
    if (outcome.valid) return { value };
    return {
      problem: outcome.stopped
        ? outcome.message
        : outcome.problems
            .slice(0, 3)
            .map(({ message }) => message)
            .join("; "),
    };
  };
}

/**
 * @throws {ToolError} PARAM_INVALID for a malformed or reserved name, or a JSON Schema that cannot be used
 * @example
 * ```ts
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
  const { name, description = "", inputSchema, outputSchema, handler } = options;
  if (!NAME.test(name) || RESERVED.has(name)) {
    throw new ToolError(
      "PARAM_INVALID",
      `Expected a capability name that is an identifier of 1 to 64 characters and none of ${[...RESERVED].join(", ")}; got ${JSON.stringify(name)}`,
    );
  }
  if (typeof handler !== "function") {
    throw new ToolError(
      "PARAM_INVALID",
      `The handler of capability ${name}: expected a function, got ${typeof handler}`,
    );
  }
  return {
    name,
    description,
    checkInput: toCheck(inputSchema, `inputSchema of capability ${name}`),
    checkOutput: toCheck(outputSchema, `outputSchema of capability ${name}`),
    handler: handler as Capability["handler"],
  };
}
