// Schemas of the options that name URLs, hosts and addresses. What would never match anything is an error.
import { isIP } from "node:net";
import * as z from "zod";
import { isSecureUrl } from "../../host/util/address-host.ts";

/** A URL of another server, whose answers are trusted. */
export const SecureUrlSchema = z
  .string()
  .max(2_048)
  .refine((text) => isSecureUrl(text) && !text.includes("#"), {
    error: "Expected an https URL without a fragment, or http on this machine",
  });

/** A URL to which paths are added. */
export const SecureBaseUrlSchema = z
  .string()
  .max(2_048)
  .refine((text) => isSecureUrl(text) && !/[?#]/.test(text), {
    error: "Expected an https URL without a query or fragment, or http on this machine",
  });

/** Returns the Host header that a client sends for this text as the host of a URL; undefined for any other text. */
function toHostHeader(text: string): string | undefined {
  const isHost = /^[^\s/\\?#@*]+$/.test(text) && URL.canParse(`http://${text}`);
  if (!isHost) return undefined;
  const port = /:\d+$/.exec(text)?.[0] ?? "";
  return new URL(`http://${text}`).hostname + port;
}

/** Says what to write instead of a text that matches no Host header. */
function hostError(text: string): string {
  const expected = "Expected a host name, or name:port, as in the Host header";
  if (text.includes("*")) return `${expected}. Patterns are not supported: list each name`;
  const bare = /^[a-z][a-z\d+.-]*:\/\//i.test(text) && URL.canParse(text) ? new URL(text).host : undefined;
  const meant = isIP(text) === 6 ? `[${text}]` : bare || toHostHeader(text);
  return meant === undefined ? expected : `${expected}: "${meant}"`;
}

/** A host name under which clients reach the server, with or without a port. */
export const HostNameSchema = z
  .string()
  .min(1)
  .max(255)
  .toLowerCase()
  .refine((text) => toHostHeader(text) === text, { error: ({ input }) => hostError(String(input)) });

/** Returns whether a text is an IP address or a CIDR range. */
function isAddressRange(text: string): boolean {
  const [, address = "", bits] = /^([^/%]*)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  const version = isIP(address);
  if (version === 0) return false;
  return bits === undefined || Number(bits) <= (version === 4 ? 32 : 128);
}

/** An address, or a range of addresses, that webhooks may reach. */
export const AddressRangeSchema = z.string().max(64).refine(isAddressRange, {
  error: 'Expected an IP address or a CIDR range, such as "10.1.0.0/16". Host names are not accepted',
});
