// Declares and parses the options that limit the OAuth flow of an upstream server.
import * as z from "zod";
import { strictObject } from "../../../../sandbox/contract/plain-object.ts";
import { type AddressList, parseCidr } from "../../../capabilities/fetch/address-guard.ts";

/** Limits which URLs the OAuth flow of a server may use. */
export interface McpOAuthOptions {
  /**
   * URLs of the issuers that are accepted as the server's authorization server. Default: issuers at the server's own origin.
   */
  readonly issuers?: readonly string[] | undefined;
  /**
   * Origins where an issuer's endpoints are allowed, in addition to the issuer's own origin.
   * @default []
   */
  readonly endpointOrigins?: readonly string[] | undefined;
  /**
   * Private, loopback and link-local addresses and CIDR ranges that requests for metadata and tokens may connect to. A literal address in
   * the URL of the server or of an issuer is always allowed for that URL.
   * @default []
   */
  readonly allowAddresses?: readonly string[] | undefined;
}

const MAX_ITEMS = 100;

const UrlSchema = z.string().refine((text) => {
  const url = URL.parse(text);
  return url !== null && /^https?:$/.test(url.protocol) && url.username === "" && url.password === "";
}, "Expected an http: or https: URL without a user name and password");

const OriginSchema = UrlSchema.transform((text, context) => {
  const { origin, href } = new URL(text);
  if (href === `${origin}/`) return origin;
  context.addIssue({ code: "custom", message: "Expected an origin: a scheme, a host and a port" });
  return z.NEVER;
});

const CidrSchema = z.string().transform((text, context) => {
  const cidr = parseCidr(text);
  if (cidr === undefined) context.addIssue({ code: "custom", message: "Expected an address or a CIDR range" });
  return cidr ?? z.NEVER;
});

export const McpOAuthSchema = strictObject({
  issuers: z.array(UrlSchema).min(1).max(MAX_ITEMS).optional(),
  endpointOrigins: z.array(OriginSchema).max(MAX_ITEMS).default([]),
  allowAddresses: z.array(CidrSchema).max(MAX_ITEMS).default([]) as unknown as z.ZodDefault<z.ZodType<AddressList>>,
});
export type McpOAuthConfig = z.output<typeof McpOAuthSchema>;
