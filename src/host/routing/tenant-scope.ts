// Whose tools or sessions a public method is about: `{ tenantId }`, checked strictly, because a misread tenant would act as another one.
import * as z from "zod";
import { describeKind, strictObject } from "../../sandbox/contract/plain-object.ts";
import { ToolError } from "../../sandbox/errors.ts";
import { parseOptions } from "../option-problems.ts";

export const TenantIdSchema: z.ZodString = z.string().min(1).max(1_024);

export interface TenantScope {
  /** 1 to 1,024 characters. */
  readonly tenantId?: string | undefined;
}

const TenantScopeSchema = strictObject({ tenantId: TenantIdSchema.optional() });
const NO_TENANT: TenantScope = {};

/** @throws {ToolError} PARAM_INVALID for anything but a plain object with at most a `tenantId` */
export function parseTenantScope(options: unknown): TenantScope {
  return options === undefined ? NO_TENANT : parseOptions(TenantScopeSchema, options, "options");
}

/** Returns a text that a public method was given. @throws {ToolError} PARAM_INVALID for anything else, naming `what` */
export function checkString(value: unknown, what: string): string {
  if (typeof value === "string") return value;
  throw new ToolError("PARAM_INVALID", `${what}: Expected a string, got ${describeKind(value)}`);
}
