// Checks the target of each request against the egress rules: of a tool's fetch, of each redirect, and of a WebSocket.
import type { AddressList } from "./address-guard.ts";
import { denied, type EgressPolicy } from "./egress-policy.ts";
import { type EgressRule, matchesRule, portOf } from "./egress-rules.ts";

/**
 * Checks the URL and the method of a request against the egress rules.
 * @returns addresses that are not public, but that the rules for this request allow
 * @throws {ToolError} CAPABILITY_DENIED
 */
export function checkTarget(
  url: URL,
  method: string,
  policy: EgressPolicy,
  requested: readonly EgressRule[] | undefined,
): AddressList {
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    throw denied("scheme", `expected http or https, got ${JSON.stringify(url.protocol.slice(0, 50))}`);
  }
  if (url.username !== "" || url.password !== "")
    throw denied("userinfo", "a URL must not contain a user name or password");
  const matching = policy.allow.filter(({ rule }) => matchesRule(rule, url));
  const shown = JSON.stringify(url.host.slice(0, 300));
  if (matching.length === 0) throw denied("allow", `no rule of the host allows ${url.protocol}//${shown.slice(1, -1)}`);
  const withPort = matching.filter(
    ({ rule, ports }) => rule.port !== undefined || (ports ?? policy.ports).includes(portOf(url)),
  );
  if (withPort.length === 0) throw denied("ports", `port ${portOf(url)} of ${shown} is not allowed`);
  if (requested !== undefined && !requested.some((rule) => matchesRule(rule, url))) {
    throw denied("capabilities.fetch", `capabilities.fetch of the tool's definition does not list ${shown}`);
  }
  const allowing = withPort.filter(({ methods }) => (methods ?? policy.methods).includes(method));
  if (allowing.length === 0) throw denied("methods", `the method ${method.slice(0, 32)} is not allowed for ${shown}`);
  return allowing.flatMap(({ addresses }) => addresses);
}
