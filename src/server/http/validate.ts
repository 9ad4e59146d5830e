// Validates what a request sends with the schema of its route, and describes what is wrong with it in one form.
import type { z } from "zod";
import { expandUnions } from "../../host/config/option-errors.ts";
import { RequestError } from "./request-error.ts";

/** The part of a request that a schema describes. */
export type RequestPart = "json" | "query" | "param" | "header" | "cookie" | "form";

const MAX_ISSUES = 10;

/** Longest message of one issue, and longest name in its path, in UTF-16 code units: a request can have 100,000 unknown keys, or a very long one. */
const MAX_ISSUE_LENGTH = 400;
const cut = (text: string): string =>
  text.length > MAX_ISSUE_LENGTH ? `${text.slice(0, MAX_ISSUE_LENGTH).toWellFormed()}…` : text;

/** Returns the error for a part of a request that does not match its schema: at most ten problems, each with its path. */
export function toInvalid(target: RequestPart, { issues: all }: z.core.$ZodError): RequestError {
  const problems = expandUnions(all.slice(0, MAX_ISSUES))
    .slice(0, MAX_ISSUES)
    .map(({ path, message }) => ({
      path: path.map((part) => (typeof part === "string" ? cut(part) : String(part))).join("."),
      message: cut(message),
    }));
  const text = problems.map(({ path, message }) => (path === "" ? message : `${path}: ${message}`)).join("; ");
  return new RequestError("INVALID", text, { details: { in: target, problems } });
}

/** @throws {RequestError} INVALID for a body that does not match */
export function parseBody<Schema extends z.ZodType>(schema: Schema, body: unknown): z.output<Schema> {
  let result: z.ZodSafeParseResult<z.output<Schema>>;
  try {
    result = schema.safeParse(body);
  } catch (thrown) {
    // zod passes all issues of a value to one function call, and JavaScript limits the arguments of a call.
    if (!(Error.isError(thrown) && thrown instanceof RangeError)) throw thrown;
    throw new RequestError("INVALID", "The body has too many invalid values to list them");
  }
  if (result.success) return result.data;
  throw toInvalid("json", result.error);
}
