// The headers of calls that say what is left of the limits of the key and of the tenant.
import type { Context } from "hono";
import { ToolError } from "../../../host/index.ts";
import { toRateLimitHeaders } from "../../quotas/quota-status.ts";
import type { AppEnv, ServerDependencies } from "../context.ts";
import { callerOf } from "./call-headers.ts";

type Checks = Pick<ServerDependencies, "quotaChecks">;

async function readRateHeaders(
  c: Context<AppEnv>,
  { quotaChecks }: Checks,
): Promise<{ readonly [name: string]: string }> {
  const { ofTenant, ofKey } = await quotaChecks.read(callerOf(c));
  const rate = c.get("keyRate");
  // The tenant's have the same names.
  const ofCaller = ofKey.map((status) => ({ ...status, name: `key:${status.name}` }));
  return toRateLimitHeaders([...(rate === undefined ? [] : [rate]), ...ofCaller, ...ofTenant]);
}

/** Adds the headers to a response. */
export async function addRateHeaders(c: Context<AppEnv>, checks: Checks): Promise<void> {
  for (const [name, value] of Object.entries(await readRateHeaders(c, checks))) c.header(name, value);
}

/** Runs a function, and adds the headers to the error response if a quota rejects what it does. */
export async function withRateHeaders<Value>(
  c: Context<AppEnv>,
  checks: Checks,
  run: () => Promise<Value>,
): Promise<Value> {
  try {
    return await run();
  } catch (thrown) {
    if (Error.isError(thrown) && thrown instanceof ToolError && thrown.code === "QUOTA_EXCEEDED")
      c.set("rateHeaders", await readRateHeaders(c, checks));
    throw thrown;
  }
}
