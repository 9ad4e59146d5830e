// The schemas of the options `egress` and `secrets`, with their defaults, and the error of a request that a rule denies.
import * as z from "zod";
import { type CapabilityRequests, readRequestedList } from "../../../sandbox/contract/capability-requests.ts";
import { ToolError } from "../../../sandbox/contract/errors.ts";
import { describeKind, isPlainObject, strictObject } from "../../../sandbox/contract/plain-object.ts";
import { MAX_SECRET_BYTES, MIN_SECRET_BYTES } from "../../observability/redaction/call-redactor.ts";
import { type AddressList, parseCidr } from "./address-guard.ts";
import { type EgressRule, normalizeMethod, parseEgressRule } from "./egress-rules.ts";

/** An allow rule: `host[:port]`, `*.host` or an origin; or an object that adds methods, ports and addresses to such a rule. */
export type EgressAllow =
  | string
  | {
      /** `host[:port]`, `*.host` or an origin. */
      readonly to: string;
      /** @default `egress.methods` */
      readonly methods?: readonly string[] | undefined;
      /** @default `egress.ports` */
      readonly ports?: readonly number[] | undefined;
      /**
       * Addresses and CIDR ranges that requests of this rule may connect to although they are not public: private, loopback and so on.
       * They apply to this rule only: a name that another rule allows is denied if it resolves to one of them.
       * @default []
       */
      readonly addresses?: readonly string[] | undefined;
    };

/** Hosts that tools with the capability `fetch` may send requests to. A request that no rule allows is denied. */
export interface EgressOptions {
  /** Destinations that requests may go to: origins or host names, each with its own ports, methods and addresses if it needs them. */
  readonly allow: readonly EgressAllow[];
  /** Methods that rules without `methods` allow. @default GET, HEAD, POST, PUT, PATCH, DELETE and OPTIONS */
  readonly methods?: readonly string[] | undefined;
  /** Ports that rules without a port or `ports` allow. @default 80 and 443 */
  readonly ports?: readonly number[] | undefined;
  /**
   * Longest request body or sent WebSocket message, in bytes: both as the tool writes it, and with the values of secrets inserted.
   * @default 16 MiB
   */
  readonly requestBytes?: number | undefined;
  /**
   * Longest response body or received WebSocket message, in bytes. For a body, the limit applies before decoding, after it, and after
   * secret values are redacted.
   * @default 16 MiB
   */
  readonly responseBytes?: number | undefined;
  /** Bytes that all WebSockets of one call may send, and bytes that they may receive. @default 256 MiB */
  readonly webSocketBytes?: number | undefined;
  /**
   * Longest time in ms of an exchange, from the request to the end of the response body, and of a WebSocket's opening handshake. Open
   * exchanges and WebSockets are closed when the call ends.
   * @default 30000
   */
  readonly timeoutMs?: number | undefined;
  /** Redirects that one request may follow, 0 to 20. @default 10 */
  readonly maxRedirects?: number | undefined;
  /**
   * Returns the addresses of a host name. Every address is checked, also those from this function.
   * @default the operating system's resolver
   */
  readonly resolve?: ((hostname: string) => Promise<readonly string[]> | readonly string[]) | undefined;
}

/** A secret that tools can send without knowing its value. */
export interface SecretOptions {
  /** The value, 8 to 8,192 bytes; or a function that returns it, which is called once for each tool call that needs the secret. */
  readonly value: string | (() => string | Promise<string>);
  /** Rules as in `egress.allow`. The secret is sent only to these hosts: over https, or over http if the rule starts with `http://`. */
  readonly hosts: readonly string[];
}

/** Secrets by name. A name consists of letters, digits, `_` and `-`, and starts with a letter or `_`. */
export type Secrets = { readonly [name: string]: SecretOptions };

const MAX_RULES = 1_000;
const MAX_SECRETS = 64;
const MAX_BODY_BYTES = 1024 * 1024 * 1024;
const MAX_SOCKET_BYTES = 64 * MAX_BODY_BYTES;
const MiB = 1024 * 1024;
const isFunction = (value: unknown): boolean => typeof value === "function";
const isText = (value: unknown): value is string => typeof value === "string";

const RuleSchema = z.string().transform((text, context) => {
  const rule = parseEgressRule(text);
  if (rule === undefined)
    context.addIssue(`Expected host, host:port, *.host or an http or https origin, got "${text.slice(0, 200)}"`);
  return rule ?? z.NEVER;
});
/** CONNECT turns a connection into a tunnel; TRACE and TRACK return the headers that a proxy has added. */
const FORBIDDEN_METHODS = ["CONNECT", "TRACE", "TRACK"];
const MethodSchema = z
  .string()
  .regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,32}$/)
  .refine(
    (method) => !FORBIDDEN_METHODS.includes(method.toUpperCase()),
    `${FORBIDDEN_METHODS.join(", ")} cannot be allowed`,
  )
  .transform(normalizeMethod);
const PortSchema = z.int().min(1).max(65_535);
const CidrSchema = z.string().transform((text, context) => {
  const cidr = parseCidr(text);
  if (cidr === undefined) context.addIssue(`Expected an address or a CIDR range, got "${text.slice(0, 100)}"`);
  return cidr ?? z.NEVER;
});

/** A parsed allow rule. */
export interface AllowRule {
  readonly rule: EgressRule;
  readonly methods: readonly string[] | undefined;
  readonly ports: readonly number[] | undefined;
  readonly addresses: AddressList;
}
const AllowSchema = z.union([
  RuleSchema.transform((rule): AllowRule => ({ rule, methods: undefined, ports: undefined, addresses: [] })),
  strictObject({
    to: RuleSchema,
    methods: z.array(MethodSchema).optional(),
    ports: z.array(PortSchema).optional(),
    addresses: z.array(CidrSchema).max(MAX_RULES).default([]),
  })
    .refine(({ to, ports }) => to.port === undefined || ports === undefined, {
      path: ["ports"],
      message: "Expected no ports for a rule that contains its port, as host:port and origins do",
    })
    .transform(({ to, methods, ports, addresses }): AllowRule => ({ rule: to, methods, ports, addresses })),
]);

const ADDRESSES_MOVED =
  'Removed, because it allowed these addresses for every rule. Set addresses in the rule that needs them: allow: [{ to: "db.internal", addresses: ["10.0.0.0/8"] }]';

const EgressOptionsSchema = z.strictObject({
  allow: z.array(AllowSchema).max(MAX_RULES),
  methods: z.array(MethodSchema).default(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]),
  ports: z.array(PortSchema).default([80, 443]),
  requestBytes: z
    .int()
    .min(0)
    .max(MAX_BODY_BYTES)
    .default(16 * MiB),
  responseBytes: z
    .int()
    .min(0)
    .max(MAX_BODY_BYTES)
    .default(16 * MiB),
  webSocketBytes: z
    .int()
    .min(0)
    .max(MAX_SOCKET_BYTES)
    .default(256 * MiB),
  timeoutMs: z.int().min(1).max(300_000).default(30_000),
  maxRedirects: z.int().min(0).max(20).default(10),
  resolve: z.custom<NonNullable<EgressOptions["resolve"]>>(isFunction, "Expected a function").optional(),
});

/** The schema of the option `egress`. For a removed option, the message names its replacement. */
export const EgressSchema: z.ZodType<
  z.output<typeof EgressOptionsSchema>,
  z.input<typeof EgressOptionsSchema>
> = z.preprocess((value, context) => {
  if (isPlainObject(value) && !Object.hasOwn(value, "allowAddresses")) return value;
  if (isPlainObject(value)) context.addIssue({ code: "custom", path: ["allowAddresses"], message: ADDRESSES_MOVED });
  else context.addIssue({ code: "custom", message: `Expected a plain object, got ${describeKind(value)}` });
  return z.NEVER;
}, EgressOptionsSchema) as never;
export type EgressPolicy = z.infer<typeof EgressSchema>;

export const SecretsSchema = z
  .record(
    z.string().regex(/^[A-Za-z_][A-Za-z0-9_-]{0,127}$/),
    strictObject({
      value: z
        .custom<SecretOptions["value"]>((value) => isText(value) || isFunction(value), "Expected text or a function")
        .superRefine((value, context) => {
          if (typeof value !== "string") return;
          const bytes = Buffer.byteLength(value);
          if (bytes >= MIN_SECRET_BYTES && bytes <= MAX_SECRET_BYTES) return;
          // A shorter value would match too much text when it is redacted, and is easy to guess.
          context.addIssue(`Expected ${MIN_SECRET_BYTES} to ${MAX_SECRET_BYTES} bytes, got ${bytes}`);
        }),
      hosts: z.array(RuleSchema).max(MAX_RULES),
    }),
  )
  .refine((secrets) => Object.keys(secrets).length <= MAX_SECRETS, `Expected at most ${MAX_SECRETS} secrets`);
export type SecretPolicies = z.infer<typeof SecretsSchema>;

/** The policy of a host without the option `egress`: denies every request. */
export const NO_EGRESS: EgressPolicy = EgressSchema.parse({ allow: [] });

/** The check that has denied a request. */
export type DenyingRule =
  | "url"
  | "scheme"
  | "userinfo"
  | "allow"
  | "capabilities.fetch"
  | "ports"
  | "methods"
  | "address"
  | "headers"
  | "redirect"
  | "secrets"
  | "capabilities.secrets";

/**
 * Returns the error of a request that an egress rule denies. A colon directly after the rule's name would make the reason the value of a
 * secret where the text is redacted: `"secrets": …`.
 */
export const denied = (rule: DenyingRule, reason: string): ToolError =>
  new ToolError("CAPABILITY_DENIED", `Denied by the rule "${rule}" of the egress policy: ${reason}`, {
    details: { rule },
  });

/**
 * Parses the rules in the `capabilities.fetch` of a tool's definition, which narrow the host's rules. Returns undefined if the definition
 * does not narrow them.
 */
export function parseRequestedHosts(requested: CapabilityRequests): readonly EgressRule[] | undefined {
  return readRequestedList(requested, "fetch")?.map((text) => {
    const rule = typeof text === "string" ? parseEgressRule(text) : undefined;
    if (rule !== undefined) return rule;
    throw denied("capabilities.fetch", `expected host, *.host or an origin, got ${JSON.stringify(text).slice(0, 200)}`);
  });
}
