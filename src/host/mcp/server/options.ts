// Parses the arguments of the MCP server's public functions. Unknown options and values of the wrong type are rejected: a misspelled `auth`
// would serve everyone.

import type { Readable, Writable } from "node:stream";
import * as z from "zod";
import { ToolError } from "../../../sandbox/contract/errors.ts";
import { describeKind, isPlainObject, strictObject } from "../../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../../config/option-errors.ts";
import { ArgumentOptionsSchema } from "../../pipeline/coercion.ts";
import { parseTenantFilter } from "../../routing/tenant-scope.ts";
import { Runs } from "../../runs/runs.ts";
import { type Tenancy, tenancyOf } from "../../tenants/tenancy.ts";
import type { McpRequest, ResourceServer } from "./authorization/caller.ts";
import { isTenantId } from "./authorization/identify-caller.ts";
import { GUARD_OPTIONS, type GuardOptions } from "./http/guards.ts";
import { type HttpLimitOptions, HttpLimitsSchema } from "./http/http-limits.ts";
import { type HttpSessionOptions, SessionOptionsSchema } from "./http/http-sessions.ts";
import type { McpServerOptions } from "./mcp-server.ts";
import type { McpHost } from "./tools/call-tool.ts";

const MIN_BODY_BYTES = 1_024;
const MAX_BODY_BYTES = 64 * 1_024 * 1_024;
const DEFAULT_BODY_BYTES = 4 * 1_024 * 1_024;
const MAX_ID_LENGTH = 1_024;
const MAX_SESSION_ID_LENGTH = 256;
const MAX_TIMEOUT_MS = 300_000;

type Method = (...args: readonly never[]) => unknown;

const hasMethods = (value: unknown, ...names: readonly string[]): boolean =>
  typeof value === "object" &&
  value !== null &&
  names.every((name) => typeof (value as Readonly<Record<string, unknown>>)[name] === "function");

const functionSchema = <F extends Method>(): z.ZodType<F> =>
  z.custom<F>((value) => typeof value === "function", "Expected a function");

const TenantIdSchema = z.custom<string>(isTenantId, "Expected a tenant id of 1 to 1,024 characters");
const IdSchema = z.string().min(1).max(MAX_ID_LENGTH);

const ContextSchema = strictObject({
  executionId: IdSchema.optional(),
  stepId: IdSchema.optional(),
  sessionId: z.string().min(1).max(MAX_SESSION_ID_LENGTH).optional(),
  traceparent: z.string().optional(),
  tracestate: z.string().optional(),
  timeoutMs: z.int().min(1).max(MAX_TIMEOUT_MS).optional(),
  deterministic: strictObject({ seed: z.string(), now: z.number().optional() }).optional(),
  arguments: ArgumentOptionsSchema.optional(),
  logSourceLocations: z.boolean().optional(),
});

const SERVER_OPTIONS = {
  name: z.string().min(1).optional(),
  version: z.string().min(1).optional(),
  title: z.string().optional(),
  instructions: z.string().optional(),
  context: ContextSchema.optional(),
  register: functionSchema<NonNullable<McpServerOptions["register"]>>().optional(),
  runs: z
    .custom<NonNullable<McpServerOptions["runs"]>>(
      (value) => value instanceof Runs || hasMethods(value, "begin", "get", "answer", "cancel"),
      "Expected durable runs of createRuns",
    )
    .optional(),
  onError: functionSchema<(error: unknown) => unknown>().optional(),
};

/** Options of `createMcpHandler`. */
export interface McpHandlerOptions extends McpServerOptions, GuardOptions {
  /**
   * Authenticates callers, for example the result of {@link createResourceServer}. Without it, every client that can reach the server is
   * served.
   */
  readonly auth?: ResourceServer | undefined;
  /**
   * Returns the id of the tenant whose tools a caller can list and call, 1 to 1,024 characters. If it throws, rejects or returns anything
   * else, the request is answered with 403. If it takes longer than `limits.identifyMs`, the request is answered with 503. Required for a
   * Glovebox with `tenancy: "multi"`, and rejected for one with `tenancy: "single"`.
   */
  readonly tenantOf?: ((request: McpRequest) => string | undefined | Promise<string | undefined>) | undefined;
  /** Sessions of clients that use a protocol revision of 2025. Revision 2026-07-28 has no sessions. */
  readonly sessions?: HttpSessionOptions | undefined;
  /**
   * Largest body of a request in bytes, 1 KiB to 64 MiB.
   * @default 4_194_304 (4 MiB)
   */
  readonly maxBodyBytes?: number | undefined;
  /** Limits on open requests and streams, request bodies and unread responses. */
  readonly limits?: HttpLimitOptions | undefined;
}

/** Options of `serveMcpStdio`. */
export interface McpStdioOptions extends McpServerOptions {
  /**
   * The id of the tenant whose tools are served, 1 to 1,024 characters. Required for a Glovebox with `tenancy: "multi"`, and rejected for
   * one with `tenancy: "single"`.
   */
  readonly tenantId?: string | undefined;
  /** @default process.stdin */
  readonly stdin?: Readable | undefined;
  /** @default process.stdout */
  readonly stdout?: Writable | undefined;
}

const HandlerOptionsSchema = strictObject({
  ...SERVER_OPTIONS,
  ...GUARD_OPTIONS,
  auth: z
    .custom<ResourceServer>(
      (value) => hasMethods(value, "authenticate", "serveMetadata"),
      "Expected a resource server with authenticate() and serveMetadata()",
    )
    .optional(),
  tenantOf: functionSchema<NonNullable<McpHandlerOptions["tenantOf"]>>().optional(),
  sessions: SessionOptionsSchema.prefault({}),
  maxBodyBytes: z.int().min(MIN_BODY_BYTES).max(MAX_BODY_BYTES).default(DEFAULT_BODY_BYTES),
  limits: HttpLimitsSchema.prefault({}),
});

const StdioOptionsSchema = strictObject({
  ...SERVER_OPTIONS,
  tenantId: TenantIdSchema.optional(),
  stdin: z.custom<Readable>((value) => hasMethods(value, "on", "pause"), "Expected a readable stream").optional(),
  stdout: z.custom<Writable>((value) => hasMethods(value, "on", "write"), "Expected a writable stream").optional(),
});

export type ParsedHandlerOptions = z.infer<typeof HandlerOptionsSchema>;
export type ParsedStdioOptions = z.infer<typeof StdioOptionsSchema>;

/** @throws {ToolError} PARAM_INVALID */
export function parseHandlerOptions(options: McpHandlerOptions): ParsedHandlerOptions {
  const parsed = parseOptions(HandlerOptionsSchema, options, "options");
  const { limits, maxBodyBytes } = parsed;
  const { perCaller, total, perTenant = total } = limits.requestBytes;
  if (Math.min(perCaller, perTenant, total) < maxBodyBytes) {
    throw new ToolError(
      "PARAM_INVALID",
      `options.limits.requestBytes: Expected at least maxBodyBytes (${maxBodyBytes})`,
    );
  }
  return parsed;
}

/** @throws {ToolError} PARAM_INVALID */
export const parseStdioOptions = (options: McpStdioOptions): ParsedStdioOptions =>
  parseOptions(StdioOptionsSchema, options, "options");

/** @throws {ToolError} PARAM_INVALID for a value that is not a Glovebox, such as a promise of one */
export function checkHost(host: unknown): asserts host is McpHost {
  const { router } = (hasMethods(host, "listTools", "execute") ? host : {}) as { readonly router?: unknown };
  const { registry } = (typeof router === "object" && router !== null ? router : {}) as { readonly registry?: unknown };
  if (hasMethods(registry, "get") && tenancyOf(router as object) !== undefined) return;
  throw new ToolError("PARAM_INVALID", `host: Expected a Glovebox, got ${describeKind(host)}`);
}

/** Checks that `tenantOf` is present if, and only if, the Glovebox has several tenants. @throws {ToolError} PARAM_INVALID */
export function checkTenantOf(tenantOf: unknown, { mode }: Tenancy): void {
  if ((tenantOf !== undefined) === (mode === "multi")) return;
  const message =
    mode === "multi"
      ? 'Missing; this Glovebox has tenancy: "multi", so a function must return the tenant of each caller'
      : 'This Glovebox has one tenant; create it with tenancy: "multi" to assign callers to tenants';
  throw new ToolError("PARAM_INVALID", `options.tenantOf: ${message}`);
}

/** Returns the id of the tenant whose tools have changed; undefined for all tenants. @throws {ToolError} PARAM_INVALID */
export function parseChanged(tenant: unknown, tenancy: Tenancy): string | undefined {
  if (isPlainObject(tenant) && Object.keys(tenant).length > 0)
    return tenancy.filterOf(parseTenantFilter(tenant, "tenant"), "tenant");
  const tenantId = tenant === undefined ? undefined : parseOptions(TenantIdSchema, tenant, "tenantId");
  return tenancy.filterOf({ tenantId });
}
