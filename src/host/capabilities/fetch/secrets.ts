// secrets: a tool gets a placeholder; the value is put in its place as a request leaves, towards the secret's own hosts only.
import { randomBytes } from "node:crypto";
import * as z from "zod";
import { type JsonValue, ToolError } from "../../../sandbox/contract/errors.ts";
import { type Needle, NeedleSet, plainNeedles, type Replace } from "../../observability/redaction/needle.ts";
import { Redactor } from "../../observability/redaction/redactor.ts";
import { runCallback } from "../../util/host-callback.ts";
import { runTimeSliced } from "../../util/time-slicing.ts";
import { payerOf } from "../call-scope.ts";
import { type Capability, type CapabilityContext, defineCapability } from "../capability.ts";
import { denied, type SecretPolicies } from "./egress-policy.ts";
import { type EgressRule, matchesRule } from "./egress-rules.ts";

/** How a value is written where a placeholder stood. */
export type SecretEncoding = "plain" | "json" | "url";

const WRITERS: { readonly [How in SecretEncoding]: (value: string) => string } = {
  plain: (value) => value,
  json: (value) => JSON.stringify(value).slice(1, -1),
  url: (value) => encodeURIComponent(value.toWellFormed()),
};

/** How long a host's function may take to give a secret's value. */
const VALUE_MS = 10_000;

/** A placeholder that was escaped is replaced by a value that is escaped. */
function writingOf(found: string, stated: SecretEncoding): SecretEncoding {
  if (found.includes("\\")) return "json";
  return found.includes("%") ? "url" : stated;
}

/** Plain text on the wire is for hosts of which the rule says so. */
const isBound = (rules: readonly EgressRule[], url: URL): boolean =>
  rules.some((rule) => matchesRule(rule, url) && (url.protocol === "https:" || rule.scheme === "http:"));

interface IssuedSecret {
  readonly name: string;
  readonly value: string;
  readonly placeholder: string;
}

/** Of those that the tool names; all of them where it names none. */
function narrowed(policies: SecretPolicies, asked: JsonValue | undefined): ReadonlyMap<string, SecretPolicies[string]> {
  const all = Object.entries(policies);
  return new Map(Array.isArray(asked) ? all.filter(([name]) => asked.includes(name)) : all);
}

/** The secrets of one call. Values are asked for once, and concealed before anything else is done with them. */
export class CallSecrets {
  /** Of the values that this call may have had to do with. */
  readonly redactor: Redactor = new Redactor();
  readonly #granted: ReadonlyMap<string, SecretPolicies[string]>;
  readonly #context: CapabilityContext;
  readonly #values = new Map<string, Promise<string>>();
  readonly #issued = new Map<string, IssuedSecret>();
  #markers: { readonly issued: number; readonly needles: NeedleSet } | undefined;

  constructor(policies: SecretPolicies, asked: JsonValue | undefined, context: CapabilityContext) {
    this.#granted = narrowed(policies, asked);
    this.#context = context;
  }

  /** The placeholder of a secret: one for each call and secret. @throws {ToolError} CAPABILITY_DENIED */
  async use(name: string): Promise<string> {
    if (!this.#granted.has(name)) {
      throw denied("secrets", `there is no secret ${JSON.stringify(name.slice(0, 128))} for this tool`);
    }
    const value = await this.#valueOf(name);
    const issued = this.#issued.get(name);
    if (issued !== undefined) return issued.placeholder;
    const placeholder = `glovebox_secret_${randomBytes(20).toString("hex")}`;
    this.#issued.set(name, { name, value, placeholder });
    return placeholder;
  }

  /** Conceals every value that the tool may ever have a placeholder for: one may come back that an earlier call has sent. */
  async concealAll(): Promise<void> {
    // One that cannot be had cannot come back; whoever uses it is told.
    await Promise.allSettled([...this.#granted.keys()].map((name) => this.#valueOf(name)));
  }

  #valueOf(name: string): Promise<string> {
    const known = this.#values.get(name);
    if (known !== undefined) return known;
    const asking = this.#ask(name);
    this.#values.set(name, asking);
    return asking;
  }

  async #ask(name: string): Promise<string> {
    const value = await this.#read(name);
    if (typeof value !== "string") throw new ToolError("TOOL_FAILED", `The secret ${name} has no value`);
    // A turn for each: for the longest values it takes 4 ms, and a call may have 64.
    await runTimeSliced(
      () => {
        this.redactor.conceal(name, value);
        this.#context.conceal(name, value);
        return true;
      },
      this.#context.signal,
      payerOf(this.#context),
    );
    return value;
  }

  /** What the host states for it, which need not be a text. */
  async #read(name: string): Promise<unknown> {
    const stated = this.#granted.get(name)?.value;
    if (typeof stated !== "function") return stated;
    const outcome = await runCallback(stated, { timeoutMs: VALUE_MS, signal: this.#context.signal });
    if ("answer" in outcome) return outcome.answer;
    if (outcome.failed !== "timed out") throw outcome.cause;
    throw new ToolError("TOOL_FAILED", `The host gave no value for the secret ${name} within ${VALUE_MS} ms`);
  }

  /** Finds placeholders in any of their forms. */
  get markers(): NeedleSet {
    if (this.#markers?.issued !== this.#issued.size) {
      this.#markers = { issued: this.#issued.size, needles: this.#needles(() => () => "") };
    }
    return this.#markers.needles;
  }

  /**
   * Finds placeholders and puts values in their places, in what goes to this URL.
   * A value that is not bound to the URL throws CAPABILITY_DENIED when its placeholder is found.
   */
  fillers(url: URL, writing: SecretEncoding): NeedleSet {
    return this.#needles((secret) => this.#fillerOf(secret, url, writing));
  }

  #fillerOf({ name, value }: IssuedSecret, url: URL, writing: SecretEncoding): Replace {
    const mayGo = isBound(this.#granted.get(name)?.hosts ?? [], url);
    // A body may hold tens of thousands of placeholders: each way of writing the value is made once.
    const written = new Map<SecretEncoding, Buffer>();
    return (found) => {
      if (!mayGo) throw unbound(name, url);
      const how = writingOf(found, writing);
      const bytes = written.get(how) ?? Buffer.from(WRITERS[how](value));
      written.set(how, bytes);
      return bytes;
    };
  }

  #needles(replaceFor: (secret: IssuedSecret) => Replace): NeedleSet {
    const needles: Needle[] = [...this.#issued.values()].flatMap((secret) =>
      plainNeedles(secret.placeholder, replaceFor(secret)),
    );
    return new NeedleSet(needles);
  }
}

function unbound(name: string, url: URL): ToolError {
  const where = `${url.protocol}//${url.host.slice(0, 300)}`;
  return denied(
    "secrets",
    `the secret ${name} is not bound to ${where}; over http it goes only to hosts stated as http://`,
  );
}

/** @param secretsOf the secrets of a call, the same for each of its capabilities */
export function createSecretsCapability(secretsOf: (context: CapabilityContext) => CallSecrets): Capability {
  return defineCapability({
    name: "secrets",
    description: "Placeholders of secrets, for requests to the hosts that these are bound to",
    members: ["use"],
    inputSchema: z.strictObject({ op: z.literal("use"), args: z.tuple([z.string().max(1_024)]) }),
    outputSchema: z.string(),
    handler: ({ args: [name] }, context) => secretsOf(context).use(name),
  });
}
