// Resolves a host name once, checks all of its addresses, and pins a connection to them, so that a later change of the name's records has
// no effect (DNS rebinding). Every connection whose target comes from a tool or a server uses this.
import { isIP, type LookupFunction } from "node:net";
import { runCallback } from "../../util/host-callback.ts";
import { type AddressList, blockedRange } from "./address-guard.ts";
import { denied } from "./egress-policy.ts";
import { lookupError, networkError } from "./network-errors.ts";

const RESOLVE_MS = 10_000;
const MAX_ADDRESSES = 16;

/** Returns the addresses of a host name. */
export type Resolver = (hostname: string, signal: AbortSignal) => Promise<readonly string[]> | readonly string[];

/**
 * Returns the addresses of a host after checking them. A single blocked address is enough to deny the host.
 * @param host a name, or an address without brackets, which is not resolved
 * @param allowed addresses that may be connected to although they are not public
 * @throws {ToolError} CAPABILITY_DENIED for an address that is not public, TOOL_FAILED when the name cannot be resolved within 10 s
 */
export async function resolveChecked(
  host: string,
  allowed: AddressList,
  resolver: Resolver,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const addresses = isIP(host) === 0 ? await resolve(host, resolver, signal) : [host];
  for (const address of addresses) {
    const range = blockedRange(address, allowed);
    if (range === undefined) continue;
    const what = isIP(host) === 0 ? `${JSON.stringify(host)} resolves to an address` : `${host} is an address`;
    throw denied("address", `${what} that is not public (${range})`);
  }
  return addresses;
}

async function resolve(host: string, resolver: Resolver, signal: AbortSignal): Promise<readonly string[]> {
  const inTime = AbortSignal.any([signal, AbortSignal.timeout(RESOLVE_MS)]);
  const outcome = await runCallback(() => resolver(host, inTime), { timeoutMs: RESOLVE_MS, signal });
  signal.throwIfAborted();
  if ("failed" in outcome) {
    if (outcome.failed === "timed out") throw networkError("name lookup timed out", "ETIMEDOUT");
    throw lookupError(outcome.cause);
  }
  const { answer } = outcome;
  if (!Array.isArray(answer) || !answer.every((address) => typeof address === "string")) throw lookupError(undefined);
  if (answer.length === 0) throw networkError("name not found", "ENOTFOUND");
  return answer.slice(0, MAX_ADDRESSES);
}

/** Returns a lookup function that answers every query with the checked addresses. */
export const pinnedLookup =
  (addresses: readonly string[]): LookupFunction =>
  (_hostname, { all }, callback) => {
    const answers = addresses.map((address) => ({ address, family: isIP(address) }));
    const [first = { address: "", family: 0 }] = answers;
    if (all) callback(null, answers);
    else callback(null, first.address, first.family);
  };
