// Reads what a hook answered. Only `undefined` and a valid amendment let a call go on: every answer that rejects rejects, in whatever form
// its message and details are, and every other answer is invalid.
import {
  ERROR_CODES,
  type ErrorCode,
  type ErrorDetails,
  ToolError,
  withReason,
} from "../../../sandbox/contract/errors.ts";
import { ignoreOutcome, isThenable } from "../../util/host-callback.ts";
import { readField, toBoundedText, toJsonDetails } from "./json-details.ts";

/** The code of a rejection that names none, or one that is not in ERROR_CODES. */
const DEFAULT_CODE = "CAPABILITY_DENIED" satisfies ErrorCode;

/** An error as a hook describes it. Without a code it keeps that of the result that it replaces. */
export interface HookError {
  readonly code?: ErrorCode | undefined;
  readonly message: string;
  readonly details?: ErrorDetails | undefined;
  readonly recoverable?: boolean | undefined;
}

export type HookAnswer =
  | { readonly is: "nothing" }
  | { readonly is: "rejection"; readonly error: ToolError }
  | { readonly is: "amendment"; readonly amended: { readonly [key: string]: unknown } }
  | { readonly is: "invalid" };

const NOTHING: HookAnswer = { is: "nothing" };
const INVALID: HookAnswer = { is: "invalid" };

/**
 * Reads each field of an answer once. Never throws.
 * @param amendable the keys of which an amendment of this stage has exactly one
 */
export function readHookAnswer(answer: unknown, amendable: readonly string[], hookName: string): HookAnswer {
  if (answer === undefined) return NOTHING;
  if (typeof answer !== "object" || answer === null) return INVALID;
  try {
    const { refuse, amend } = answer as { readonly refuse?: unknown; readonly amend?: unknown };
    // `{ refuse: problem ?? null }`: null, false, 0 and "" say neither yes nor no.
    if (refuse) return { is: "rejection", error: toRejection(refuse, hookName) };
    if (refuse !== undefined || hasOtherKeys(answer)) return INVALID;
    return readAmendment(amend, amendable, hookName);
  } catch {
    return INVALID;
  }
}

const hasOtherKeys = (answer: object): boolean =>
  Object.keys(answer).some((key) => key !== "refuse" && key !== "amend");

function toRejection(refuse: unknown, hookName: string): ToolError {
  return createHookError({ ...readHookError(refuse, `Hook "${hookName}" rejected the call`) }, DEFAULT_CODE);
}

function readAmendment(amend: unknown, amendable: readonly string[], hookName: string): HookAnswer {
  const keys = Object.keys(amend as object);
  const [key = ""] = keys;
  if (keys.length !== 1 || !amendable.includes(key)) return INVALID;
  const value = (amend as { readonly [key: string]: unknown })[key];
  if (value === undefined) return INVALID;
  if (isThenable(value)) {
    // The hook did not await it. As JSON it would be {}.
    ignoreOutcome(() => value);
    return INVALID;
  }
  if (key !== "error") return { is: "amendment", amended: { [key]: value } };
  if (!value) return INVALID;
  return { is: "amendment", amended: { error: readHookError(value, `Hook "${hookName}" replaced the result`) } };
}

/** Reads an error in any form: a string, an Error, or an object with code, message, details and recoverable. Never throws. */
function readHookError(given: unknown, defaultMessage: string): HookError {
  // A promise that rejects would end the process.
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

/** Returns the ToolError that a hook describes; `defaultCode` is for one without a code. */
export function createHookError({ code, message, details, recoverable }: HookError, defaultCode: ErrorCode): ToolError {
  const error = new ToolError(code ?? defaultCode, message, {
    ...(details === undefined ? {} : { details }),
    ...(recoverable === undefined ? {} : { recoverable }),
  });
  // A hook that says no more denies that there is such a tool.
  return withReason(error, "not_found");
}
