// Capability secrets: a tool receives a placeholder. The value replaces the placeholder when a request is sent to one of the secret's hosts.
import { randomBytes } from "node:crypto";
import * as z from "zod";
import { type CapabilityRequests, readRequestedList } from "../../../sandbox/contract/capability-requests.ts";
import { ToolError } from "../../../sandbox/contract/errors.ts";
import { Redactor } from "../../observability/redaction/call-redactor.ts";
import {
  plainLiterals,
  type Replace,
  type SecretLiteral,
  SecretLiteralSet,
} from "../../observability/redaction/secret-literal.ts";
import { runCallback } from "../../util/host-callback.ts";
import { runTimeSliced } from "../../util/time-slicing.ts";
import { cpuAccountOf } from "../call-scope.ts";
import { type Capability, type CapabilityContext, defineCapability } from "../capability.ts";
import { denied, type SecretPolicies } from "./egress-policy.ts";
import { type EgressRule, matchesRule } from "./egress-rules.ts";

/** Encoding of a value that replaces a placeholder. */
export type SecretEncoding = "plain" | "json" | "url";

const ENCODERS: { readonly [Encoding in SecretEncoding]: (value: string) => string } = {
  plain: (value) => value,
  json: (value) => JSON.stringify(value).slice(1, -1),
  url: (value) => encodeURIComponent(value.toWellFormed()),
};

const PLACEHOLDER = /^glovebox_secret_[0-9a-f]{40}$/;

/** Longest time in ms that a host's function may take to return a secret's value. */
const VALUE_TIMEOUT_MS = 10_000;

/** Returns the encoding of the found placeholder: an escaped placeholder is replaced by an escaped value. */
function encodingOf(found: string, encoding: SecretEncoding): SecretEncoding {
  if (found.includes("\\")) return "json";
  return found.includes("%") ? "url" : encoding;
}

/** Tells whether a secret may be sent to the URL: over https, or over http if the rule starts with `http://`. */
const isBound = (rules: readonly EgressRule[], url: URL): boolean =>
  rules.some((rule) => matchesRule(rule, url) && (url.protocol === "https:" || rule.scheme === "http:"));

interface IssuedSecret {
  readonly name: string;
  readonly value: string;
  readonly placeholder: string;
  /** Whether the placeholder is of a secret that the tool does not have any more. */
  readonly isDenied?: boolean;
}

/** Returns the secrets that the tool's definition names; all of them if it does not narrow them. */
function selectSecrets(
  policies: SecretPolicies,
  requested: CapabilityRequests,
): ReadonlyMap<string, SecretPolicies[string]> {
  const all = Object.entries(policies);
  const names = readRequestedList(requested, "secrets");
  return new Map(names === undefined ? all : all.filter(([name]) => names.includes(name)));
}

/** The secrets of one call. Each value is read once, and registered for redaction before any other use. */
export class CallSecrets {
  /** Redacts every value that this call may use. */
  readonly redactor: Redactor = new Redactor();
  readonly #granted: ReadonlyMap<string, SecretPolicies[string]>;
  readonly #context: CapabilityContext;
  readonly #values = new Map<string, Promise<string>>();
  readonly #issued = new Map<string, IssuedSecret>();
  #placeholders: { readonly issued: number; readonly literals: SecretLiteralSet } | undefined;

  constructor(policies: SecretPolicies, context: CapabilityContext) {
    this.#granted = selectSecrets(policies, context.requested);
    this.#context = context;
  }

  /** Returns the placeholder of a secret, which is the same for the whole call. @throws {ToolError} CAPABILITY_DENIED */
  async use(name: string): Promise<string> {
    if (!this.#granted.has(name)) {
      throw denied("secrets", `this tool has no secret ${JSON.stringify(name.slice(0, 128))}`);
    }
    const value = await this.#valueOf(name);
    const issued = this.#issued.get(name);
    if (issued !== undefined) return issued.placeholder;
    const placeholder = `glovebox_secret_${randomBytes(20).toString("hex")}`;
    this.#issued.set(name, { name, value, placeholder });
    return placeholder;
  }

  /**
   * Restores a placeholder that an earlier attempt of a durable run has received, with the secret's current value. If the tool has no such secret
   * any more, requests that contain the placeholder are denied.
   */
  async restore(name: string, placeholder: unknown): Promise<void> {
    if (typeof placeholder !== "string" || !PLACEHOLDER.test(placeholder)) return;
    const value = this.#granted.has(name) ? await this.#valueOf(name).catch(() => undefined) : undefined;
    const known = this.#issued.get(name);
    if (known === undefined || known.placeholder === placeholder)
      this.#issued.set(name, { name, value: value ?? "", placeholder, isDenied: value === undefined });
  }

  /** Registers every value that the tool has access to, since a response may contain a value that an earlier call has sent. */
  async registerAll(): Promise<void> {
    // A value that cannot be read cannot have been sent. `use` reports the failure.
    await Promise.allSettled([...this.#granted.keys()].map((name) => this.#valueOf(name)));
  }

  #valueOf(name: string): Promise<string> {
    const known = this.#values.get(name);
    if (known !== undefined) return known;
    const value = this.#readAndRegister(name);
    this.#values.set(name, value);
    return value;
  }

  async #readAndRegister(name: string): Promise<string> {
    const value = await this.#read(name);
    if (typeof value !== "string")
      throw new ToolError("TOOL_FAILED", `The value of the secret ${name} is not a string`);
    // Each secret is a slice of its own: the longest values take 4 ms, and a call may have 64 secrets.
    await runTimeSliced(
      () => {
        this.redactor.addSecret(name, value);
        this.#context.redact(name, value);
        return true;
      },
      this.#context.signal,
      cpuAccountOf(this.#context),
    );
    return value;
  }

  /** Returns the configured value or the result of the host's function, which may be of any type. */
  async #read(name: string): Promise<unknown> {
    const configured = this.#granted.get(name)?.value;
    if (typeof configured !== "function") return configured;
    const outcome = await runCallback(configured, { timeoutMs: VALUE_TIMEOUT_MS, signal: this.#context.signal });
    if ("answer" in outcome) return outcome.answer;
    if (outcome.failed !== "timed out") throw outcome.cause;
    const message = `The host's function for the secret ${name} did not return within ${VALUE_TIMEOUT_MS} ms`;
    throw new ToolError("TOOL_FAILED", message);
  }

  /** Finds placeholders, escaped or not. */
  get placeholders(): SecretLiteralSet {
    if (this.#placeholders?.issued !== this.#issued.size) {
      this.#placeholders = { issued: this.#issued.size, literals: this.#literals(() => () => "") };
    }
    return this.#placeholders.literals;
  }

  /**
   * Replaces placeholders with values, in data that is sent to this URL. If a placeholder is found whose secret is not bound to the URL, the
   * replacement throws CAPABILITY_DENIED.
   */
  replacements(url: URL, encoding: SecretEncoding): SecretLiteralSet {
    return this.#literals((secret) => this.#replacementOf(secret, url, encoding));
  }

  #replacementOf({ name, value, isDenied }: IssuedSecret, url: URL, encoding: SecretEncoding): Replace {
    const isAllowed = isDenied !== true && isBound(this.#granted.get(name)?.hosts ?? [], url);
    // A body may contain tens of thousands of placeholders, so each encoded form of the value is created once.
    const encoded = new Map<SecretEncoding, Buffer>();
    return (found) => {
      if (isDenied === true) throw denied("secrets", `the value of the secret ${name} cannot be read any more`);
      if (!isAllowed) throw unbound(name, url);
      const form = encodingOf(found, encoding);
      const bytes = encoded.get(form) ?? Buffer.from(ENCODERS[form](value));
      encoded.set(form, bytes);
      return bytes;
    };
  }

  #literals(replaceFor: (secret: IssuedSecret) => Replace): SecretLiteralSet {
    const literals: SecretLiteral[] = [...this.#issued.values()].flatMap((secret) =>
      plainLiterals(secret.placeholder, replaceFor(secret)),
    );
    return new SecretLiteralSet(literals);
  }
}

function unbound(name: string, url: URL): ToolError {
  const target = `${url.protocol}//${url.host.slice(0, 300)}`;
  return denied(
    "secrets",
    `the secret ${name} is not bound to ${target}; it is sent over http only to hosts whose rule starts with http://`,
  );
}

const InputSchema = z.strictObject({ op: z.literal("use"), args: z.tuple([z.string().max(1_024)]) });

/** @param secretsOf returns the secrets of a call, which fetch and secrets share */
export function createSecretsCapability(secretsOf: (context: CapabilityContext) => CallSecrets): Capability {
  const capability = defineCapability({
    name: "secrets",
    description: "Returns placeholders of secrets, for requests to the hosts that the secrets are bound to",
    members: ["use"],
    inputSchema: InputSchema,
    outputSchema: z.string(),
    handler: ({ args: [name] }, context) => secretsOf(context).use(name),
  });
  const restore = ({ args: [name] }: z.output<typeof InputSchema>, placeholder: unknown, context: CapabilityContext) =>
    secretsOf(context).restore(name, placeholder);
  return { ...capability, restore };
}
