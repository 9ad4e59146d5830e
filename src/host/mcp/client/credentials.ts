// The credentials of one connection: what the host has configured, and what its hooks return for the tenant. A hook that throws, takes too
// long or returns anything else than credentials leaves the tenant without a connection, never with another tenant's.
import type * as z from "zod";
import { runCallback } from "../../util/host-callback.ts";
import { AuthProviderSchema, type McpAuthProvider, type McpServerConfig, TextRecordSchema } from "./mcp-options.ts";

/** What one tenant's connection has that another's has not. */
export interface Credentials {
  readonly headers: { readonly [name: string]: string };
  readonly env: { readonly [name: string]: string };
  readonly authProvider?: McpAuthProvider | undefined;
}

interface HookCall {
  readonly name: string;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** @throws {Error} as a rejection, naming the hook: for the operator */
async function ask<Answer>(
  { name, timeoutMs, signal }: HookCall,
  schema: z.ZodType<Answer>,
  run: () => unknown,
): Promise<Answer> {
  const outcome = await runCallback(run, { timeoutMs, signal });
  if ("failed" in outcome) throw new Error(`${name}() ${outcome.failed}`, { cause: outcome.cause });
  const parsed = schema.safeParse(outcome.answer);
  if (parsed.success) return parsed.data;
  throw new Error(`${name}() returned no credentials: ${parsed.error.issues[0]?.message ?? "unexpected answer"}`);
}

/**
 * @param tenantId undefined for a connection that tenants share
 * @throws {Error} as a rejection: a hook gave no credentials
 */
export async function credentialsFor(
  config: McpServerConfig,
  tenantId: string | undefined,
  signal: AbortSignal,
): Promise<Credentials> {
  const call = (name: string): HookCall => ({ name, timeoutMs: config.connectTimeoutMs, signal });
  if (!("url" in config)) {
    const { envFor } = config;
    if (tenantId === undefined || envFor === undefined) return { headers: {}, env: {} };
    return { headers: {}, env: await ask(call("envFor"), TextRecordSchema, () => envFor(tenantId)) };
  }
  const { headersFor, authProviderFor, authProvider } = config;
  if (tenantId === undefined) return { headers: {}, env: {}, authProvider };
  const [headers, own] = await Promise.all([
    headersFor === undefined ? {} : ask(call("headersFor"), TextRecordSchema, () => headersFor(tenantId)),
    authProviderFor === undefined
      ? authProvider
      : ask(call("authProviderFor"), AuthProviderSchema, () => authProviderFor(tenantId)),
  ]);
  return { headers, env: {}, authProvider: own };
}
