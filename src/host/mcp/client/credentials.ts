// Resolves the credentials of a connection from the host's options and from its hooks for the tenant. If a hook throws, times out or returns
// invalid credentials, the tenant gets no connection, and never that of another tenant.
import type * as z from "zod";
import { runCallback } from "../../util/host-callback.ts";
import { AuthProviderSchema, type McpAuthProvider, type McpServerConfig, TextRecordSchema } from "./mcp-options.ts";

/** The parts of a connection that differ between tenants. */
export interface TenantCredentials {
  readonly headers: { readonly [name: string]: string };
  readonly env: { readonly [name: string]: string };
  readonly authProvider?: McpAuthProvider | undefined;
}

interface HookCall {
  readonly name: string;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** Calls a hook and validates its answer. @throws {Error} as a rejection that names the hook, for the operator */
async function callHook<Answer>(
  { name, timeoutMs, signal }: HookCall,
  schema: z.ZodType<Answer>,
  run: () => unknown,
): Promise<Answer> {
  const outcome = await runCallback(run, { timeoutMs, signal });
  if ("failed" in outcome) throw new Error(`${name}() ${outcome.failed}`, { cause: outcome.cause });
  const parsed = schema.safeParse(outcome.answer);
  if (parsed.success) return parsed.data;
  throw new Error(`${name}() returned invalid credentials: ${parsed.error.issues[0]?.message ?? "unexpected value"}`);
}

/**
 * Returns the credentials of a connection.
 * @param tenantId undefined for a connection that tenants share
 * @throws {Error} as a rejection, if a hook returned no valid credentials
 */
export async function credentialsFor(
  config: McpServerConfig,
  tenantId: string | undefined,
  signal: AbortSignal,
): Promise<TenantCredentials> {
  const call = (name: string): HookCall => ({ name, timeoutMs: config.connectTimeoutMs, signal });
  if (!("url" in config)) {
    const { envFor } = config;
    if (tenantId === undefined || envFor === undefined) return { headers: {}, env: {} };
    return { headers: {}, env: await callHook(call("envFor"), TextRecordSchema, () => envFor(tenantId)) };
  }
  const { headersFor, authProviderFor, authProvider } = config;
  if (tenantId === undefined) return { headers: {}, env: {}, authProvider };
  const [headers, own] = await Promise.all([
    headersFor === undefined ? {} : callHook(call("headersFor"), TextRecordSchema, () => headersFor(tenantId)),
    authProviderFor === undefined
      ? authProvider
      : callHook(call("authProviderFor"), AuthProviderSchema, () => authProviderFor(tenantId)),
  ]);
  return { headers, env: {}, authProvider: own };
}
