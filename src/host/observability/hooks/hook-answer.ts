// Parses the return value of a hook. Only `undefined` and a valid modification let a call continue. A rejection always rejects, whatever the
// form of its message and details; any other answer is invalid.
import {
  ERROR_CODES,
  type ErrorCode,
  type ErrorDetails,
  ToolError,
  withReason,
} from "../../../sandbox/contract/errors.ts";
import { ignoreOutcome, isThenable } from "../../util/host-callback.ts";
import { readField, toBoundedText, toJsonDetails } from "./json-details.ts";

/** Code of a rejection without a code, or with one that is not in ERROR_CODES. */
const DEFAULT_CODE = "CAPABILITY_DENIED" satisfies ErrorCode;

/** An error as a hook describes it. Without a code it keeps the code of the result that it replaces. */
export interface HookError {
  readonly code?: ErrorCode | undefined;
  readonly message: string;
  readonly details?: ErrorDetails | undefined;
  readonly recoverable?: boolean | undefined;
}

export type HookAnswer =
  | { readonly kind: "nothing" }
  | { readonly kind: "rejection"; readonly error: ToolError }
  | { readonly kind: "modification"; readonly modified: { readonly [key: string]: unknown } }
  | { readonly kind: "invalid" };

const NOTHING: HookAnswer = { kind: "nothing" };
const INVALID: HookAnswer = { kind: "invalid" };

/**
 * Parses an answer, reading each field once. Never throws.
 * @param modifiable the keys that this stage can modify; a modification has exactly one of them
 */
export function readHookAnswer(answer: unknown, modifiable: readonly string[], hookName: string): HookAnswer {
  if (answer === undefined) return NOTHING;
  if (typeof answer !== "object" || answer === null) return INVALID;
  try {
    const { reject, modify } = answer as { readonly reject?: unknown; readonly modify?: unknown };
    // With `{ reject: issue ?? null }`, the values null, false, 0 and "" neither reject nor allow.
    if (reject) return { kind: "rejection", error: toRejection(reject, hookName) };
    if (reject !== undefined || hasOtherKeys(answer)) return INVALID;
    return readModification(modify, modifiable, hookName);
  } catch {
    return INVALID;
  }
}

const hasOtherKeys = (answer: object): boolean =>
  Object.keys(answer).some((key) => key !== "reject" && key !== "modify");

function toRejection(reject: unknown, hookName: string): ToolError {
  return createHookError({ ...readHookError(reject, `Hook "${hookName}" rejected the call`) }, DEFAULT_CODE);
}

function readModification(modify: unknown, modifiable: readonly string[], hookName: string): HookAnswer {
  const keys = Object.keys(modify as object);
  const [key = ""] = keys;
  if (keys.length !== 1 || !modifiable.includes(key)) return INVALID;
  const value = (modify as { readonly [key: string]: unknown })[key];
  if (value === undefined) return INVALID;
  if (isThenable(value)) {
    // The hook did not await its promise, which would become {} as JSON.
    ignoreOutcome(() => value);
    return INVALID;
  }
  if (key !== "error") return { kind: "modification", modified: { [key]: value } };
  if (!value) return INVALID;
  return { kind: "modification", modified: { error: readHookError(value, `Hook "${hookName}" replaced the result`) } };
}

/** Reads an error in any form: a string, an Error, or an object with code, message, details and recoverable. Never throws. */
function readHookError(given: unknown, defaultMessage: string): HookError {
  // An unhandled rejection would end the process.
  ignoreOutcome(() => given);
  const message = typeof given === "string" ? given : readField(given, "message");
  const code = readField(given, "code");
  const details = toJsonDetails(readField(given, "details"));
  const recoverable = readField(given, "recoverable");
  return {
    message: typeof message === "string" && message !== "" ? toBoundedText(message) : defaultMessage,
    ...(isErrorCode(code) ? { code } : {}),
    ...(details === undefined ? {} : { details }),
    ...(typeof recoverable === "boolean" ? { recoverable } : {}),
  };
}

const isErrorCode = (code: unknown): code is ErrorCode => typeof code === "string" && Object.hasOwn(ERROR_CODES, code);

/** Returns the ToolError that a hook describes. `defaultCode` applies if it has no code. */
export function createHookError({ code, message, details, recoverable }: HookError, defaultCode: ErrorCode): ToolError {
  const error = new ToolError(code ?? defaultCode, message, {
    ...(details === undefined ? {} : { details }),
    ...(recoverable === undefined ? {} : { recoverable }),
  });
  // Without a reason, a hook's TOOL_UNAVAILABLE reports that the tool does not exist.
  return withReason(error, "not_found");
}
