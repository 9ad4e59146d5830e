// The configuration of a server: one schema for the config file, the environment (`environment.ts`) and the command line, with every default.
import * as z from "zod";
import { parseOptions } from "../../host/config/option-errors.ts";
import { NatsUrlSchema, SilenceSchema } from "../../host/fleet/fleet-options.ts";
import { ToolError } from "../../host/index.ts";
import { LOOPBACK_NAMES } from "../../host/util/address-host.ts";
import { PartialLimitsSchema } from "../../sandbox/contract/partial-limits.ts";
import { plainObject, strictObject } from "../../sandbox/contract/plain-object.ts";
import { isMasterKeyText, MASTER_KEY_RULE } from "../secrets/master-key.ts";
import { PackagesSchema } from "../tools/packages.ts";
import { AddressRangeSchema, HostNameSchema, SecureBaseUrlSchema, SecureUrlSchema } from "./network-options.ts";

const MAX_BODY_BYTES = 64 * 1024 * 1024;

const ReplicaUrlSchema = z
  .string()
  .max(1_024)
  .regex(/^https?:\/\/[^\s/?#@]+\/?$/i, { error: 'Expected a URL without a path, such as "http://10.0.0.7:7070"' })
  .refine((url) => URL.canParse(url), { error: "Expected a valid host and port" });

export const ServerOptionsSchema = z.strictObject({
  /** Address to listen on. */
  host: z.string().min(1).max(255).default("127.0.0.1"),
  /** Port to listen on; 0 picks a free one. */
  port: z.int().min(0).max(65_535).default(7_070),
  /**
   * Host names that clients use, with or without a port, in addition to the loopback names. Without any, a server that listens on an
   * address other than loopback accepts any IP address as Host header, and no name.
   */
  allowHosts: z.array(HostNameSchema).max(100).default([]),
  /**
   * Where other replicas with the same Postgres reach this one: `http://10.0.0.7:7070`. They pass on to it calls of the tool sessions that it has,
   * encrypted. Default: the address that it listens on; if that is every address of the machine, the one from which it connects to Postgres.
   */
  replicaUrl: ReplicaUrlSchema.optional(),
  /** URL of a Postgres database. Default: SQLite in `dataDir`. */
  database: z
    .string()
    .regex(/^postgres(?:ql)?:\/\//, { error: "Expected a URL that begins with postgres://" })
    .optional(),
  /** Folder of the SQLite files and caches. */
  dataDir: z.string().min(1).default("glovebox-data"),
  /** The master key that encrypts secrets: 32 bytes in base64 or hexadecimal. Default: `master.key` in `dataDir`, which is created. */
  masterKey: z.string().max(1_024).refine(isMasterKeyText, { error: MASTER_KEY_RULE }).optional(),
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
  /**
   * Maximum number of streams that a tenant may have open in one process of the server: events of calls, streamed
   * calls, requests over MCP, exports. More are answered with 429. The tenants together can have 2,048.
   */
  maxStreamsPerTenant: z.int().min(1).max(2_048).default(256),
  /** Maximum number of streams that one key or user of a tenant may have open. A key of the platform is limited per tenant only. */
  maxStreamsPerKey: z.int().min(1).max(2_048).default(64),
  /** Longest time in ms that events of a call, and notifications over MCP, are streamed over one connection. Clients resume afterwards. */
  maxStreamMs: z.int().min(1_000).max(86_400_000).default(1_800_000),
  /**
   * Time in ms that a server which stops still accepts requests while `/readyz` fails, so that load balancers notice before it does not. Choose
   * it longer than the interval of their checks. With the default, connections are refused as soon as `/readyz` fails.
   */
  stopDelayMs: z.int().min(0).max(60_000).default(0),
  /**
   * Level of the log on stderr: one JSON object a line. `info` has a line for each request; `debug` also for those to `/healthz`, `/readyz` and
   * `/metrics`; `warn` only failed authentications and what tools and the server report.
   */
  logLevel: z.enum(["silent", "error", "warn", "info", "debug"]).default("info"),
  /** Addresses and CIDR ranges that webhooks may reach although they are not public. */
  webhookAddresses: z.array(AddressRangeSchema).max(100).default([]),
  /** Accepts JWTs of an identity provider as well as API keys. A token must name its tenant; it never acts for the platform. */
  jwt: strictObject({
    /** The issuer of the tokens: an https URL, or http on this machine. */
    issuer: SecureUrlSchema,
    /** The audience that a token must be issued for. */
    audience: z.string().min(1).max(1_024),
    /** URL of the issuer's keys. Default: the `jwks_uri` of its metadata. */
    jwksUri: SecureUrlSchema.optional(),
    /** The claim that holds the id of the tenant. */
    tenantClaim: z.string().min(1).max(256).default("tenant"),
    /** Prefix of this server's scopes in a token. */
    scopePrefix: z.string().max(64).default(""),
  }).optional(),
  /** Lets people sign in to the console at an identity provider (OpenID Connect). A user must have a tenant, and never acts for the platform. */
  oidc: strictObject({
    /** The provider: an https URL, or http on this machine. */
    issuer: SecureBaseUrlSchema,
    /** The id of this server at the provider. */
    clientId: z.string().min(1).max(1_024),
    /** The secret of this server at the provider. Default: a public client, which PKCE protects. */
    clientSecret: z.string().min(1).max(4_096).optional(),
    /** The URL of this server for browsers. `/console/sign-in/callback` below it must be registered at the provider. */
    publicUrl: SecureBaseUrlSchema,
    /** Scopes that are requested of the provider, separated by spaces. */
    scopes: z.string().min(1).max(1_024).default("openid"),
    /** The claim of the ID token that holds the id of the tenant. */
    tenantClaim: z.string().min(1).max(256).default("tenant"),
    /** The claim that holds the scopes: a list, or text with spaces. */
    scopeClaim: z.string().min(1).max(256).default("scope"),
    /** Prefix of this server's scopes in the claim. */
    scopePrefix: z.string().max(64).default(""),
  }).optional(),
  /** Sends traces and metrics over OTLP, to the receiver that the `OTEL_EXPORTER_OTLP_…` variables name. */
  telemetry: z.boolean().default(false),
  /** Lets uploads install packages: those with a package.json and a package-lock.json. Default: such uploads are rejected. */
  packages: PackagesSchema.optional(),
  /**
   * Whether Postgres rewrites its tables (`VACUUM FULL`) after the deletion of a tenant, so that none of the tenant's bytes remain in their files.
   * Each table is locked meanwhile. Otherwise Postgres overwrites the pages when it uses them again. SQLite always rewrites its file.
   */
  vacuumFull: z.boolean().default(false),
  /** Limits of every call. A tenant, tool or call can only lower them. */
  limits: PartialLimitsSchema.default({}),
  /** URL of a NATS server, whose executors run the calls. Default: calls run on this machine. */
  natsUrl: NatsUrlSchema.optional(),
  /** Path of the control plane's credentials file; "glovebox executor credentials" creates it. */
  natsCredentials: z.string().min(1).optional(),
  /** Path of the certificates that sign the NATS server's, in PEM format. Default: those of the system. */
  natsTlsCa: z.string().min(1).optional(),
  /** Copies of the work queue in a cluster of NATS servers: 1, 3 or 5. All servers of one database need the same number. */
  natsReplicas: z.union([z.literal(1), z.literal(3), z.literal(5)], "Expected 1, 3 or 5").default(1),
  /** Time in ms without a message of an executor after which its calls end as lost. */
  executorSilenceMs: SilenceSchema,
  /** Maximum number of worker processes at one time. */
  maxWorkers: z.int().min(1).max(1_024).default(16),
  /** Worker processes that are kept started, and that no tenant has used yet. */
  warmProcesses: z.int().min(0).max(64).default(1),
  /** Worker processes with a loaded Python interpreter that are kept ready once a Python tool is called; each takes about 230 MiB. */
  warmPythonProcesses: z.int().min(0).max(16).default(1),
});
/** Options of `createServer`. All have a default. */
export type ServerOptions = z.input<typeof ServerOptionsSchema>;
/** The options of a server, with their defaults. */
export type ServerConfig = z.output<typeof ServerOptionsSchema>;

/** Host headers, and addresses to listen on, of this machine. */
const LOCAL_HOSTS: readonly string[] = [...LOOPBACK_NAMES, "::1"];

/** The Host headers that a server accepts. */
export interface AllowedHosts {
  /** Names under which clients reach the server, with or without a port. */
  readonly names: readonly string[];
  /** Whether any IP address is accepted as well. */
  readonly addresses: boolean;
}

/** Returns whether clients reach a server by any of its IP addresses: it listens on the network, and its operator has named no hosts. */
export const isReachedByAddress = ({ host, allowHosts }: Pick<ServerConfig, "host" | "allowHosts">): boolean =>
  allowHosts.length === 0 && !LOCAL_HOSTS.includes(host);

export const toAllowedHosts = (config: Pick<ServerConfig, "host" | "allowHosts">): AllowedHosts => ({
  names: [...LOCAL_HOSTS, ...config.allowHosts],
  addresses: isReachedByAddress(config),
});

const SourceSchema = plainObject(z.record(z.string(), z.unknown()));

/** Options from one place: a config file, the environment, or the command line. */
export interface OptionSource {
  readonly options: object;
  /** Returns the name that an option has there, for error messages. Default: `options.port` for `port`. */
  readonly nameOf?: ((option: string) => string | undefined) | undefined;
}

/**
 * Parses the options of a server.
 * @throws {ToolError} PARAM_INVALID, which names the path of each invalid option
 */
export const parseServerOptions = (options: object): ServerConfig => mergeServerOptions([{ options }]);

/**
 * Parses options from several places.
 * @param sources each source overrides the ones before it
 * @throws {ToolError} PARAM_INVALID, which names each invalid option as its source does
 */
export function mergeServerOptions(sources: readonly OptionSource[]): ServerConfig {
  for (const { options } of sources) parseOptions(SourceSchema, options, "options");
  const merged: object = Object.assign({}, ...sources.map(({ options }) => options));
  const nameOf = (path: string): string => {
    const [option = "", ...rest] = path.split(".");
    const source = sources.findLast(({ options }) => Object.hasOwn(options, option));
    return [source?.nameOf?.(option) ?? `options.${option}`, ...rest].join(".");
  };
  const config = parseOptions(plainObject(ServerOptionsSchema), merged, (path) =>
    path === "" ? "options" : nameOf(path),
  );
  const { masterKey, masterKeyFile, masterKeyCommand } = config;
  const given = [masterKey, masterKeyFile, masterKeyCommand].filter((value) => value !== undefined);
  if (given.length <= 1) return config;
  const message = `options: Expected one of masterKey, masterKeyFile and masterKeyCommand, got ${given.length}`;
  throw new ToolError("PARAM_INVALID", message);
}
