// Shows the configuration of a server without its secrets, wherever an operator may have put one: in an option, in a URL, or in the arguments of a
// command.
import { join } from "node:path";
import { SQLITE_FILE } from "./data-files.ts";
import type { ServerConfig } from "./server-options.ts";

const REDACTED = "redacted";
/** Names of query parameters whose values may be secrets. A few that are not, such as `sslkey`, are redacted too. */
const SECRET_PARAMETER = /pass|pwd|secret|token|key|auth|cred|sig/i;
const URL_PATTERN = /^[a-z][a-z0-9+.-]*:\/\//i;

function decode(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/** Returns a URL without its user info, which can be a token as well as a name and a password, and without passwords in its parameters. */
function redactUrl(text: string): string {
  // Only such a URL can have "@" in its path. Of others, such as those of several hosts, everything before the last "@" can be a password.
  const isPlain = /^https?:/i.test(text) && URL.canParse(text);
  const userInfo = isPlain
    ? /^([a-z]+:\/\/)[^/?#]*@/i
    : URL.canParse(text)
      ? /^([^/]+\/\/)[^?#]*@/
      : /^([^/]+\/\/).*@/s;
  return text
    .replace(userInfo, `$1${REDACTED}@`)
    .replaceAll(/([?&#;])([^=&#;]*)=([^&#;]*)/g, (all, start: string, name: string) =>
      SECRET_PARAMETER.test(decode(name)) ? `${start}${name}=${REDACTED}` : all,
    );
}

/** Redacts the URLs in a value, at any depth. */
function redactUrls(value: unknown): unknown {
  if (typeof value === "string") return URL_PATTERN.test(value) ? redactUrl(value) : value;
  if (Array.isArray(value)) return value.map(redactUrls);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, redactUrls(inner)]));
}

/** Returns the configuration without its secrets. */
export function toShownConfig(config: ServerConfig): object {
  const { masterKey, masterKeyCommand, oidc, dataDir } = config;
  const [program, ...args] = masterKeyCommand ?? [];
  return redactUrls({
    ...config,
    database: config.database ?? `sqlite: ${join(dataDir, SQLITE_FILE)}`,
    ...(masterKey === undefined ? {} : { masterKey: REDACTED }),
    // An argument can be the credential for the key store.
    ...(program === undefined ? {} : { masterKeyCommand: [program, ...args.map(() => REDACTED)] }),
    ...(oidc?.clientSecret === undefined ? {} : { oidc: { ...oidc, clientSecret: REDACTED } }),
  }) as object;
}
