// The configuration of a server: one schema for the config file, the environment and the command line, with every default.
import { join } from "node:path";
import * as z from "zod";
import { ToolError } from "../../host/index.ts";
import { LimitsSchema } from "../records/tenant-policy.ts";
import { PackagesSchema } from "../tools/packages.ts";

const MAX_BODY_BYTES = 64 * 1024 * 1024;
const isSecureUrl = (text: string): boolean =>
  /^https:|^http:\/\/(?:localhost|127\.0\.0\.1|\[::1\])(?:[:/]|$)/i.test(text);

export const ServerOptionsSchema = z.strictObject({
  /** Address to listen on. */
  host: z.string().min(1).max(255).default("127.0.0.1"),
  /** Port to listen on; 0 picks a free one. */
  port: z.int().min(0).max(65_535).default(7_070),
  /** Host names that clients use, with or without a port, in addition to the loopback names. */
  allowHosts: z.array(z.string().min(1).max(255)).max(100).default([]),
  /** URL of a Postgres database. Default: SQLite in `dataDir`. */
  database: z
    .string()
    .regex(/^postgres(?:ql)?:\/\//, { error: "Expected a URL that begins with postgres://" })
    .optional(),
  /** Folder of the SQLite files and caches. */
  dataDir: z.string().min(1).default("glovebox-data"),
  /** The master key that encrypts secrets: 32 bytes in base64 or hexadecimal. Default: `master.key` in `dataDir`, which is created. */
  masterKey: z.string().min(1).max(1_024).optional(),
  /** File that holds the master key. */
  masterKeyFile: z.string().min(1).optional(),
  /** Command that prints the master key, such as the client of a key store: the program and its arguments. No shell runs it. */
  masterKeyCommand: z.array(z.string().max(4_096)).min(1).max(100).optional(),
  /** Origins of the pages that may show the console in a frame. */
  embedOrigins: z
    .array(
      z
        .string()
        .regex(/^https?:\/\/[a-z0-9.-]+(?::\d+)?$/i, { error: "Expected an origin such as https://app.example.com" }),
    )
    .max(100)
    .default([]),
  /** Largest body of a request in bytes. */
  maxBodyBytes: z
    .int()
    .min(1_024)
    .max(MAX_BODY_BYTES)
    .default(4 * 1024 * 1024),
  /** Longest time in ms that running calls have to finish when the server stops. */
  drainMs: z.int().min(0).max(300_000).default(25_000),
  /** Level of the log on stderr: one JSON object a line. */
  logLevel: z.enum(["silent", "error", "warn", "info", "debug"]).default("info"),
  /** Addresses and CIDR ranges that webhooks may reach although they are not public. */
  webhookAddresses: z.array(z.string().min(1).max(64)).max(100).default([]),
  /** Accepts JWTs of an identity provider as well as API keys. A token must name its tenant; it never acts for the platform. */
  jwt: z
    .strictObject({
      /** The issuer of the tokens: an https URL, or http on this machine. */
      issuer: z.url(),
      /** The audience that a token must be issued for. */
      audience: z.string().min(1).max(1_024),
      /** URL of the issuer's keys. Default: the `jwks_uri` of its metadata. */
      jwksUri: z.url().optional(),
      /** The claim that holds the id of the tenant. */
      tenantClaim: z.string().min(1).max(256).default("tenant"),
      /** What the scopes of this server begin with in a token. */
      scopePrefix: z.string().max(64).default(""),
    })
    .optional(),
  /** Lets people sign in to the console at an identity provider (OpenID Connect). A user must have a tenant, and never acts for the platform. */
  oidc: z
    .strictObject({
      /** The provider: an https URL, or http on this machine. */
      issuer: z.url().refine(isSecureUrl, { error: "Expected an https URL, or http on this machine" }),
      clientId: z.string().min(1).max(1_024),
      /** Default: a public client, which PKCE protects. */
      clientSecret: z.string().min(1).max(4_096).optional(),
      /** The URL of this server for browsers. `/console/sign-in/callback` below it must be registered at the provider. */
      publicUrl: z.url().refine(isSecureUrl, { error: "Expected an https URL, or http on this machine" }),
      /** What is requested of the provider. */
      request: z.string().min(1).max(1_024).default("openid"),
      /** The claim of the ID token that holds the id of the tenant. */
      tenantClaim: z.string().min(1).max(256).default("tenant"),
      /** The claim that holds the scopes: a list, or text with spaces. */
      scopeClaim: z.string().min(1).max(256).default("scope"),
      /** What the scopes of this server begin with in the claim. */
      scopePrefix: z.string().max(64).default(""),
    })
    .optional(),
  /** Sends traces and metrics over OTLP, to the receiver that the `OTEL_EXPORTER_OTLP_…` variables name. */
  telemetry: z.boolean().default(false),
  /** Lets uploads install packages: those with a package.json and a package-lock.json. Default: such uploads are rejected. */
  packages: PackagesSchema.optional(),
  /** Limits of every call. A tenant, tool or call can only lower them. */
  limits: LimitsSchema.default({}),
  /** Most worker processes at one time. */
  maxWorkers: z.int().min(1).max(1_024).default(16),
});
export type ServerOptions = z.input<typeof ServerOptionsSchema>;
export type ServerConfig = z.output<typeof ServerOptionsSchema>;

/** The environment variable of each option. */
export const ENVIRONMENT_NAMES = {
  host: "GLOVEBOX_HOST",
  port: "GLOVEBOX_PORT",
  allowHosts: "GLOVEBOX_ALLOW_HOSTS",
  database: "GLOVEBOX_DATABASE",
  dataDir: "GLOVEBOX_DATA_DIR",
  masterKey: "GLOVEBOX_MASTER_KEY",
  masterKeyFile: "GLOVEBOX_MASTER_KEY_FILE",
  maxBodyBytes: "GLOVEBOX_MAX_BODY_BYTES",
  drainMs: "GLOVEBOX_DRAIN_MS",
  logLevel: "GLOVEBOX_LOG_LEVEL",
  maxWorkers: "GLOVEBOX_MAX_WORKERS",
} as const;

const NUMBERS: ReadonlySet<string> = new Set(["port", "maxBodyBytes", "drainMs", "maxWorkers"]);

/** Returns the options that the environment sets. Lists are separated by commas. */
export function readEnvironment(env: { readonly [name: string]: string | undefined }): {
  readonly [name: string]: unknown;
} {
  const set = Object.entries(ENVIRONMENT_NAMES).flatMap(([option, name]): readonly [string, unknown][] => {
    const text = env[name];
    if (text === undefined || text === "") return [];
    if (option === "allowHosts") return [[option, text.split(",").map((host) => host.trim())]];
    return [[option, NUMBERS.has(option) && /^\d+$/.test(text) ? Number(text) : text]];
  });
  const receivers = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];
  if (receivers.some((name) => (env[name] ?? "") !== "")) set.push(["telemetry", true]);
  return Object.fromEntries(set);
}

/**
 * Parses the options of a server.
 * @param sources each source overrides the ones before it
 * @throws {ToolError} PARAM_INVALID, which names the path of each invalid option
 */
export function parseServerOptions(...sources: readonly object[]): ServerConfig {
  const parsed = ServerOptionsSchema.safeParse(Object.assign({}, ...sources));
  if (parsed.success) {
    const { masterKey, masterKeyFile, masterKeyCommand } = parsed.data;
    const given = [masterKey, masterKeyFile, masterKeyCommand].filter((value) => value !== undefined);
    if (given.length <= 1) return parsed.data;
    const message = `options: Expected one of masterKey, masterKeyFile and masterKeyCommand, got ${given.length}`;
    throw new ToolError("PARAM_INVALID", message);
  }
  const issues = parsed.error.issues.slice(0, 10).map(({ path, message }) => `options.${path.join(".")}: ${message}`);
  throw new ToolError("PARAM_INVALID", issues.join("; ").replaceAll("options.: ", "options: "));
}

const redactOidc = (oidc: ServerConfig["oidc"]): object =>
  oidc?.clientSecret === undefined ? {} : { oidc: { ...oidc, clientSecret: "redacted" } };

/** Returns the configuration without its secrets. */
export function toShownConfig({ database, ...given }: ServerConfig): object {
  const config = {
    ...given,
    ...(given.masterKey === undefined ? {} : { masterKey: "redacted" }),
    ...redactOidc(given.oidc),
  };
  if (database === undefined) return { ...config, database: `sqlite: ${join(config.dataDir, "glovebox.sqlite")}` };
  const url = URL.canParse(database) ? new URL(database) : undefined;
  if (url !== undefined && url.password !== "") url.password = "redacted";
  return { ...config, database: url?.href ?? "redacted" };
}
