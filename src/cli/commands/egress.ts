// Converts --allow-fetch and --secret to options of createGlovebox and to grants.

import { isIP } from "node:net";
import {
  type EgressAllow,
  type EgressOptions,
  type Secrets,
  SecretsSchema,
} from "../../host/capabilities/fetch/egress-policy.ts";
import { hostOf, parseEgressRule } from "../../host/capabilities/fetch/egress-rules.ts";
import { MAX_SECRET_BYTES, MIN_SECRET_BYTES } from "../../host/observability/redaction/call-redactor.ts";
import { type Arguments, UsageError } from "../usage.ts";

export interface EgressRequest {
  /** Options of createGlovebox. */
  readonly host: { readonly egress?: EgressOptions; readonly secrets?: Secrets };
  readonly grant: readonly string[];
}

const list = (value: Arguments["values"][string]): readonly string[] => (Array.isArray(value) ? value : []);

const LOOPBACK = ["127.0.0.0/8", "::1"] as const;

/**
 * Returns the egress rule of `--allow-fetch`. An explicit address is allowed even if it is not public, and `localhost` means this machine;
 * both apply to this rule only.
 */
function toRule(to: string): EgressAllow {
  const rule = parseEgressRule(to);
  if (rule === undefined || rule.isWildcard) return to;
  const host = hostOf(new URL(`http://${rule.host}`));
  if (host === "localhost") return { to, addresses: LOOPBACK };
  return isIP(host) === 0 ? to : { to, addresses: [host] };
}

function readSecret(text: string, env: NodeJS.ProcessEnv, hosts: readonly string[]): Secrets {
  const [, name, variable] = /^([^=]+)=(.+)$/.exec(text) ?? [];
  if (name === undefined || variable === undefined)
    throw new UsageError(`--secret: expected NAME=ENV, got "${name ?? text.split("=")[0]}"`);
  const value = env[variable];
  if (value === undefined) throw new UsageError(`--secret ${name}: there is no environment variable ${variable}`);
  const bytes = Buffer.byteLength(value);
  if (bytes < MIN_SECRET_BYTES || bytes > MAX_SECRET_BYTES) {
    const expected = `${MIN_SECRET_BYTES} to ${MAX_SECRET_BYTES} bytes`;
    throw new UsageError(
      `--secret ${name}: expected ${expected} in the environment variable ${variable}, got ${bytes}`,
    );
  }
  if (!SecretsSchema.safeParse({ [name]: { value, hosts: [] } }).success) {
    throw new UsageError(`--secret: expected a name of letters, digits, _ and -, got "${name}"`);
  }
  return { [name]: { value, hosts } };
}

/** @throws {UsageError} */
export function readEgress(values: Arguments["values"], env: NodeJS.ProcessEnv): EgressRequest {
  const allow = list(values["allow-fetch"]);
  const invalidRule = allow.find((text) => parseEgressRule(text) === undefined);
  if (invalidRule !== undefined)
    throw new UsageError(`--allow-fetch: expected host, host:port, *.host or an origin, got "${invalidRule}"`);
  const secretArguments = list(values.secret);
  if (secretArguments.length > 0 && allow.length === 0)
    throw new UsageError("--secret: expected --allow-fetch as well, for the host that receives it");
  const names = secretArguments.map((text) => text.split("=", 1)[0]);
  const repeated = names.find((name, index) => names.indexOf(name) < index);
  if (repeated !== undefined)
    throw new UsageError(`--secret: expected each name at most once, got "${repeated}" several times`);
  const secrets: Secrets = Object.assign({}, ...secretArguments.map((text) => readSecret(text, env, allow)));
  if (allow.length === 0) return { host: {}, grant: [] };
  const egress: EgressOptions = { allow: allow.map(toRule) };
  if (secretArguments.length === 0) return { host: { egress }, grant: ["fetch"] };
  return { host: { egress, secrets }, grant: ["fetch", "secrets"] };
}
