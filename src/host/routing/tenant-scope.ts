// Parses the tenant that a public method concerns. Strict, because a misread tenant id would act on another tenant's data.
import * as z from "zod";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { describeKind, strictObject } from "../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../config/option-errors.ts";
import type { TenantFilter, ToolOwner } from "../tenants/tenancy.ts";

export const TenantIdSchema: z.ZodString = z.string().min(1).max(1_024);

/** The tenant of a method. Required with `tenancy: "multi"`, rejected with `tenancy: "single"`. */
export interface TenantScope {
  /** 1 to 1,024 characters. */
  readonly tenantId?: string | undefined;
}

/** The tenant and the tool of a session. */
export interface SessionScope extends TenantScope {
  /** The tool that keeps the session. Default: sessions of any tool, and those that the host has opened. */
  readonly toolName?: string | undefined;
}

/** The fields of an options object that name the owner of a tool. */
export const ownerFields = {
  tenantId: TenantIdSchema.optional(),
  scope: z.literal("global", 'Expected "global", or no scope and a tenantId').optional(),
};

const TenantScopeSchema = strictObject({ tenantId: TenantIdSchema.optional() });
const SessionScopeSchema = strictObject({ tenantId: TenantIdSchema.optional(), toolName: z.string().optional() });
const ToolOwnerSchema = strictObject(ownerFields);
const TenantFilterSchema = strictObject({
  tenantId: TenantIdSchema.optional(),
  scope: z.literal("all", 'Expected "all", or no scope and a tenantId').optional(),
});

/** @throws {ToolError} PARAM_INVALID for anything but a plain object with at most a `tenantId` */
export function parseTenantScope(options: unknown = {}): TenantScope {
  return parseOptions(TenantScopeSchema, options, "options");
}

/** @throws {ToolError} PARAM_INVALID for anything but a plain object with at most a `tenantId` and a `toolName` */
export function parseSessionScope(options: unknown = {}): SessionScope {
  return parseOptions(SessionScopeSchema, options, "options");
}

/** @throws {ToolError} PARAM_INVALID for anything but a plain object with `tenantId` or `scope: "global"` */
export function parseToolOwner(options: unknown = {}): ToolOwner {
  return parseOptions(ToolOwnerSchema, options, "options");
}

/**
 * @param what names the options in the message
 * @throws {ToolError} PARAM_INVALID for anything but a plain object with `tenantId` or `scope: "all"`
 */
export function parseTenantFilter(options: unknown = {}, what = "options"): TenantFilter {
  return parseOptions(TenantFilterSchema, options, what);
}

/** @throws {ToolError} PARAM_INVALID for anything but a string of 1 to 1,024 characters */
export function parseTenantId(tenantId: unknown): string {
  return parseOptions(TenantIdSchema, tenantId, "tenantId");
}

/**
 * Returns the string that a public method received.
 * @throws {ToolError} PARAM_INVALID for any other value, naming `what`
 */
export function checkString(value: unknown, what: string): string {
  if (typeof value === "string") return value;
  throw new ToolError("PARAM_INVALID", `${what}: Expected a string, got ${describeKind(value)}`);
}
