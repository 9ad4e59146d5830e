// What a host states of its egress and its secrets, checked and with every default; and the questions that are asked of it.
import * as z from "zod";
import { type JsonValue, ToolError } from "../../../sandbox/contract/errors.ts";
import { describeKind, isPlainObject, strictObject } from "../../../sandbox/contract/plain-object.ts";
import { MAX_SECRET_BYTES, MIN_SECRET_BYTES } from "../../observability/redaction/redactor.ts";
import { type AddressList, parseCidr } from "./address-guard.ts";
import { type EgressRule, matchesRule, normalizeMethod, parseEgressRule, portOf } from "./egress-rules.ts";

/** An allow rule: `host[:port]`, `*.host` or an origin; or one of these with methods, ports and addresses of its own. */
export type EgressAllow =
  | string
  | {
      readonly to: string;
      readonly methods?: readonly string[] | undefined;
      readonly ports?: readonly number[] | undefined;
      /**
       * Addresses and CIDR ranges that requests of this rule may connect to although they are not public: private, loopback … They
       * hold for this rule only: a name that another rule allows is rejected when it resolves to one of them.
       * @default []
       */
      readonly addresses?: readonly string[] | undefined;
    };

/** Where tools with the capability `fetch` may send requests. All that no rule allows is denied. */
export interface EgressOptions {
  readonly allow: readonly EgressAllow[];
  /** GET, HEAD, POST, PUT, PATCH, DELETE and OPTIONS unless stated. */
  readonly methods?: readonly string[] | undefined;
  /** For rules that name no port; 80 and 443 unless stated. */
  readonly ports?: readonly number[] | undefined;
  /** Bytes of a request's body or a WebSocket message, as the tool writes it and with the values of secrets in it. @default 16 MiB */
  readonly requestBytes?: number | undefined;
  /**
   * Bytes of a response's body, before it is decoded, after that, and after values of secrets are redacted; and of a message that a
   * WebSocket receives.
   * @default 16 MiB
   */
  readonly responseBytes?: number | undefined;
  /** Bytes that all WebSockets of one call send together, and that they receive together. @default 256 MiB */
  readonly webSocketBytes?: number | undefined;
  /**
   * Time in ms of an exchange, from the request to the end of the response's body, and of a WebSocket's opening handshake. An open
   * WebSocket ends with the call at the latest, and an exchange does too.
   * @default 30000
   */
  readonly timeoutMs?: number | undefined;
  /** Redirects that one request may follow, 0 to 20; 10 unless stated. */
  readonly maxRedirects?: number | undefined;
  /** A host name's addresses; the operating system's resolver unless stated. All of them are checked, whoever gives them. */
  readonly resolve?: ((hostname: string) => Promise<readonly string[]> | readonly string[]) | undefined;
}

export interface SecretOptions {
  /** Or what gives it, asked once for each call that needs it. 8 to 8,192 bytes. */
  readonly value: string | (() => string | Promise<string>);
  /** Rules as in `egress.allow`: to these hosts it is sent, over https, or over http where the rule says `http://`. */
  readonly hosts: readonly string[];
}

/** By name: letters, digits, `_` and `-`. */
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
/** They turn a connection into something else, or show what a proxy has added. */
const NEVER_METHODS = ["CONNECT", "TRACE", "TRACK"];
const MethodSchema = z
  .string()
  .regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,32}$/)
  .refine((method) => !NEVER_METHODS.includes(method.toUpperCase()), `${NEVER_METHODS.join(", ")} cannot be allowed`)
  .transform(normalizeMethod);
const PortSchema = z.int().min(1).max(65_535);
const CidrSchema = z.string().transform((text, context) => {
  const cidr = parseCidr(text);
  if (cidr === undefined) context.addIssue(`Expected an address or a CIDR range, got "${text.slice(0, 100)}"`);
  return cidr ?? z.NEVER;
});

/** An allow rule, checked. */
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
      message: "Expected no ports for a rule that names its port, as host:port and origins do",
    })
    .transform(({ to, methods, ports, addresses }): AllowRule => ({ rule: to, methods, ports, addresses })),
]);

const ADDRESSES_MOVED =
  'Removed, because it opened these addresses to every rule. State them on the rule that needs them: allow: [{ to: "db.internal", addresses: ["10.0.0.0/8"] }]';

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

/** Options of the egress. For one that was removed, the message says what replaces it. */
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
          // A shorter one would be found everywhere, and is soon guessed.
          context.addIssue(`Expected ${MIN_SECRET_BYTES} to ${MAX_SECRET_BYTES} bytes, got ${bytes}`);
        }),
      hosts: z.array(RuleSchema).max(MAX_RULES),
    }),
  )
  .refine((secrets) => Object.keys(secrets).length <= MAX_SECRETS, `Expected at most ${MAX_SECRETS} secrets`);
export type SecretPolicies = z.infer<typeof SecretsSchema>;

/** What there is where a host states nothing. */
export const NO_EGRESS: EgressPolicy = EgressSchema.parse({ allow: [] });

/** Which of the egress's rules has refused a request. */
export type RefusedBy =
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

export const denied = (rule: RefusedBy, reason: string): ToolError =>
  new ToolError("CAPABILITY_DENIED", `Refused by the egress rule "${rule}": ${reason}`, { details: { rule } });

/** What a tool says of itself: rules, and what it may have is what both allow. Undefined where it says nothing. */
export function readAskedHosts(asked: JsonValue | undefined): readonly EgressRule[] | undefined {
  if (!Array.isArray(asked)) return undefined;
  return asked.map((text: JsonValue) => {
    const rule = typeof text === "string" ? parseEgressRule(text) : undefined;
    if (rule !== undefined) return rule;
    throw denied("capabilities.fetch", `${JSON.stringify(text).slice(0, 200)} is no host, *.host or origin`);
  });
}

/**
 * Checks whether a request may be sent there, by what its URL and method say alone.
 * @returns the addresses that are not public and may be connected to all the same: those of the rules that allow this very request
 * @throws {ToolError} CAPABILITY_DENIED
 */
export function checkTarget(
  url: URL,
  method: string,
  policy: EgressPolicy,
  asked: readonly EgressRule[] | undefined,
): AddressList {
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    throw denied("scheme", `expected http or https, got ${JSON.stringify(url.protocol.slice(0, 50))}`);
  }
  if (url.username !== "" || url.password !== "")
    throw denied("userinfo", "a URL may hold no user name and no password");
  const naming = policy.allow.filter(({ rule }) => matchesRule(rule, url));
  const shown = JSON.stringify(url.host.slice(0, 300));
  if (naming.length === 0) throw denied("allow", `no rule of the host allows ${url.protocol}//${shown.slice(1, -1)}`);
  const ported = naming.filter(
    ({ rule, ports }) => rule.port !== undefined || (ports ?? policy.ports).includes(portOf(url)),
  );
  if (ported.length === 0) throw denied("ports", `port ${portOf(url)} of ${shown} is not allowed`);
  if (asked !== undefined && !asked.some((rule) => matchesRule(rule, url))) {
    throw denied("capabilities.fetch", `the tool itself has not asked for ${shown}`);
  }
  const allowing = ported.filter(({ methods }) => (methods ?? policy.methods).includes(method));
  if (allowing.length === 0) throw denied("methods", `the method ${method.slice(0, 32)} is not allowed for ${shown}`);
  return allowing.flatMap(({ addresses }) => addresses);
}
