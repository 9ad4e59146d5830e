// Validates with schemas of libraries that implement Standard Schema (https://standardschema.dev), for functions of the host. Results of a
// library are not trusted: only a settled result with a value and without issues counts as valid.
import type { StandardSchemaV1 } from "@standard-schema/spec";
import type { JsonSchema } from "../../sandbox/contract/definition.ts";
import { isJsonObject } from "../../sandbox/contract/value-kind.ts";
import { ignoreOutcome, isThenable, runCallback } from "../util/host-callback.ts";
import { escapeStep } from "./json-pointer.ts";

export interface StandardIssue {
  /** JSON pointer to the value. */
  readonly pointer: string;
  readonly message: string;
}

/** The result of a validation: valid, invalid, or failed because the library returned no usable result, which counts as invalid. */
export type StandardOutcome =
  | { readonly value: unknown }
  | { readonly issues: readonly StandardIssue[] }
  | { readonly failed: string; readonly cause?: unknown };

/** Limits of one validation by a library. */
export interface StandardBounds {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

const MAX_ISSUES = 50;
const MAX_STEPS = 100;
const MAX_STEP_LENGTH = 200;
const MAX_MESSAGE_LENGTH = 500;
const INVALID_VALUE = "The value is invalid";

/** Tells whether a value is a schema of a library, which may be an object or a function. Never throws. */
export function isStandardSchema(value: unknown): value is StandardSchemaV1 {
  if ((typeof value !== "object" || value === null) && typeof value !== "function") return false;
  try {
    const standard: unknown = (value as { readonly "~standard"?: unknown })["~standard"];
    if (typeof standard !== "object" || standard === null) return false;
    return typeof (standard as { readonly validate?: unknown }).validate === "function";
  } catch {
    return false;
  }
}

/**
 * Validates a value, synchronously unless the library returns a promise. Never throws and never rejects.
 * @returns `failed` also if the library throws, rejects, takes too long, or returns an invalid result
 */
export function checkStandard(
  schema: StandardSchemaV1,
  value: unknown,
  bounds: StandardBounds,
): StandardOutcome | Promise<StandardOutcome> {
  const outcome = runCallback(() => schema["~standard"].validate(value), bounds);
  return isThenable(outcome) ? Promise.resolve(outcome).then(toOutcome) : toOutcome(outcome);
}

function toOutcome(outcome: Awaited<ReturnType<typeof runCallback>>): StandardOutcome {
  if ("failed" in outcome) return { failed: `the schema library ${outcome.failed}`, cause: outcome.cause };
  try {
    return readResult(outcome.answer);
  } catch (cause) {
    return { failed: "the result of the schema library cannot be read", cause };
  }
}

function readResult(result: unknown): StandardOutcome {
  const invalid = { failed: "the schema library returned neither { value } nor { issues }" };
  if ((typeof result !== "object" && typeof result !== "function") || result === null) return invalid;
  const { issues } = result as { readonly issues?: unknown };
  if (issues === undefined) return "value" in result && !isThenable(result.value) ? { value: result.value } : invalid;
  // Issues of any form say that the value is invalid.
  const found = Array.isArray(issues) ? issues.slice(0, MAX_ISSUES).map(toIssue) : [];
  return { issues: found.length > 0 ? found : [{ pointer: "", message: INVALID_VALUE }] };
}

function toIssue(issue: unknown): StandardIssue {
  const { message, path } = (issue ?? {}) as { readonly message?: unknown; readonly path?: unknown };
  const steps = Array.isArray(path) ? path.slice(0, MAX_STEPS) : [];
  const keys = steps.map((step: unknown) =>
    String(typeof step === "object" && step !== null ? (step as { readonly key?: unknown }).key : step),
  );
  return {
    pointer: keys.map((key) => `/${escapeStep(key.slice(0, MAX_STEP_LENGTH))}`).join(""),
    message: typeof message === "string" ? message.slice(0, MAX_MESSAGE_LENGTH).toWellFormed() : INVALID_VALUE,
  };
}

type Convert = (options: object) => unknown;

/**
 * Returns the JSON Schema of one side of a schema, as the library converts it (`~standard.jsonSchema`), or undefined where the library
 * offers none or cannot express the schema. Parts that JSON Schema cannot express (dates, transforms) become `{}`.
 */
export function toJsonSchema(schema: StandardSchemaV1, side: "input" | "output"): JsonSchema | undefined {
  try {
    const converter = (schema["~standard"] as { readonly jsonSchema?: { readonly [Side in typeof side]?: Convert } })
      .jsonSchema;
    const converted = converter?.[side]?.({
      target: "draft-2020-12",
      libraryOptions: { unrepresentable: "any" },
    });
    if (isThenable(converted)) {
      ignoreOutcome(() => converted);
      return undefined;
    }
    return isJsonObject(converted) ? (JSON.parse(JSON.stringify(converted)) as JsonSchema) : undefined;
  } catch {
    return undefined;
  }
}
