// Checks the URL of a webhook when it is created or changed, as far as that is possible without resolving its host: an address that no delivery
// may reach is an error of the request then, and not of each delivery.
import { findBlockedRange } from "../../host/index.ts";
import { RequestError } from "../http/request-error.ts";

/**
 * Checks a URL of the form that the route accepts. Names are resolved, and their addresses checked, for each delivery.
 * @param allowed the option `webhookAddresses`
 * @throws {RequestError} INVALID for an address that is not public and not allowed
 */
export function checkWebhookUrl(url: string, allowed: readonly string[]): void {
  const range = findBlockedRange(url, allowed);
  if (range === undefined) return;
  throw new RequestError(
    "INVALID",
    `url: ${new URL(url).hostname} is not a public address (${range}). Webhooks reach others only if the server's option webhookAddresses allows them`,
  );
}
