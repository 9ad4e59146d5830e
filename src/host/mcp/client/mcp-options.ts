// Declares and parses the options of upstream MCP servers, with their defaults. The options are the host's and trusted; the servers are not.
import type { AuthProvider, OAuthClientProvider } from "@modelcontextprotocol/client";
import * as z from "zod";
import { LIMITS } from "../../../sandbox/contract/limits.ts";
import { strictObject } from "../../../sandbox/contract/plain-object.ts";
import type {
  CallClient,
  ElicitRequest,
  ElicitResult,
  SampleRequest,
  SampleResult,
} from "../../contract/client-requests.ts";
import { ownerFields, TenantIdSchema } from "../../routing/tenant-scope.ts";
import { type McpOAuthOptions, McpOAuthSchema } from "./oauth/oauth-options.ts";
import { type ServerSandbox, ServerSandboxSchema } from "./server-sandbox.ts";

/** The call during which a server sent a request. */
export interface McpRequestContext {
  readonly server: string;
  readonly tenantId: string;
  readonly callId: string;
  /** The server's own name of the tool. */
  readonly toolName: string;
  /** Sends requests to the client that made the call, if it supports them. */
  readonly client?: CallClient | undefined;
  /** Aborts when the call ends, or when the request is no longer needed. */
  readonly signal: AbortSignal;
}

/** Answers a server's elicitation request on behalf of a user. The text of the request comes from the server and is untrusted. */
export type McpElicitationHook = (
  request: ElicitRequest,
  context: McpRequestContext,
) => ElicitResult | Promise<ElicitResult>;

/** Answers a server's sampling request with a completion of a model. The text of the request comes from the server and is untrusted. */
export type McpSamplingHook = (
  request: SampleRequest,
  context: McpRequestContext,
) => SampleResult | Promise<SampleResult>;

interface McpServerBase {
  /** Prefix of the server's tool names in this Glovebox, up to 64 characters. Default: the server's name and `__`. */
  readonly prefix?: string | undefined;
  /** Selects tools by the server's own names. A `*` at the end of a name matches any suffix. Default: all tools. */
  readonly tools?: {
    /** Names of the tools to offer. Default: all of them. */
    readonly allow?: readonly string[] | undefined;
    /**
     * Names of the tools to leave out, also if `allow` has them.
     * @default []
     */
    readonly deny?: readonly string[] | undefined;
  };
  /** Ids of the tenants that can use the server's tools. With `tenancy: "multi"`, this or `scope` is required. */
  readonly tenants?: readonly string[] | undefined;
  /** `"global"`: all tenants can use the server's tools. */
  readonly scope?: "global" | undefined;
  /**
   * Whether each tenant has its own connection (a process or a session). `envFor`, `headersFor` and `authProviderFor` imply it.
   * @default false
   */
  readonly perTenant?: boolean | undefined;
  /**
   * Longest time in ms to start and connect to the server, and to list its tools, 10 to 300,000.
   * @default 15_000
   */
  readonly connectTimeoutMs?: number | undefined;
  /**
   * Longest time in ms that a call may go without a result or progress, 1 to 300,000.
   * @default 30_000
   */
  readonly timeoutMs?: number | undefined;
  /**
   * Longest time in ms for a whole call, even with progress, 1 to 300,000. A lower limit of the host, the tenant or the call takes
   * precedence.
   * @default 300_000
   */
  readonly maxTimeoutMs?: number | undefined;
  /**
   * Largest message in bytes that the server may send, 1 KiB to 64 MiB.
   * @default 4_194_304 (4 MiB)
   */
  readonly maxMessageBytes?: number | undefined;
  /**
   * Largest number of tools that are read from the server, 1 to 10,000.
   * @default 1_000
   */
  readonly maxTools?: number | undefined;
  /**
   * Protocol revision: `auto` requests 2026-07-28 and falls back to the revisions of 2025, `legacy` uses the revisions of 2025 only.
   * @default "auto"
   */
  readonly protocol?: "auto" | "legacy" | "2026-07-28" | undefined;
  /**
   * Lowest level of the log messages that the server should send during a call.
   * @default "info"
   */
  readonly logLevel?: "debug" | "info" | "warning" | "error" | undefined;
  /**
   * Whether the hints in the server's tool annotations are trusted like those of the host's own tools.
   * @default false
   */
  readonly trustAnnotations?: boolean | undefined;
  /** Answers the server's elicitation requests. Without it, the client does not declare the capability `elicitation`. */
  readonly onElicitation?: McpElicitationHook | undefined;
  /** Answers the server's sampling requests. Without it, the client does not declare the capability `sampling`. */
  readonly onSampling?: McpSamplingHook | undefined;
  /** Roots that the server can list, such as folders. Without them, the client does not declare the capability `roots`. */
  readonly roots?: readonly { readonly uri: string; readonly name?: string | undefined }[] | undefined;
}

/** A server that is a local program. It communicates over its stdin and stdout, and ends with the Glovebox. */
export interface McpStdioServer extends McpServerBase {
  /** Path of the program, or a name that is searched in `PATH`. */
  readonly command: string;
  /**
   * Arguments of the program.
   * @default []
   */
  readonly args?: readonly string[] | undefined;
  /**
   * Environment variables of the program: names to copy from the host's environment, or names and values. `PATH` and `HOME` are always set.
   * @default []
   */
  readonly env?: readonly string[] | { readonly [name: string]: string } | undefined;
  /** Returns additional environment variables for a tenant's own process. It must answer within `connectTimeoutMs`. */
  readonly envFor?: (
    tenantId: string,
  ) => { readonly [name: string]: string } | Promise<{ readonly [name: string]: string }>;
  /** Working directory of the program. Default: that of the host. */
  readonly cwd?: string | undefined;
  /**
   * Process isolation of the program. If the host runs as root, the program runs as another user; see `without` for a server that must
   * write the host user's files.
   */
  readonly sandbox?: ServerSandbox | undefined;
}

/** A remote server, over Streamable HTTP. Redirects are followed within the server's own origin only. */
export interface McpHttpServer extends McpServerBase {
  /** URL of the server's MCP endpoint. */
  readonly url: string | URL;
  /** Headers of each request to the server. */
  readonly headers?: { readonly [name: string]: string } | undefined;
  /**
   * Returns additional headers for a tenant's own connection. It is called again when the server answers with 401, and must answer within
   * `connectTimeoutMs`.
   */
  readonly headersFor?: (
    tenantId: string,
  ) => { readonly [name: string]: string } | Promise<{ readonly [name: string]: string }>;
  /**
   * A provider of bearer tokens, or of the whole OAuth flow, as defined by `@modelcontextprotocol/client`. Until the user has signed in,
   * calls fail with TOOL_UNAVAILABLE. After `auth(provider, { serverUrl, authorizationCode })` of that package has succeeded, the next call
   * connects. Client information and tokens that the provider returns must contain their `issuer`, as the package saves them. Those without
   * one, or with an issuer that `oauth` does not allow, are treated as absent. The provider must answer within `connectTimeoutMs`.
   */
  readonly authProvider?: McpAuthProvider | undefined;
  /**
   * Returns the provider of a tenant. It is called for each connection of the tenant, so a provider must keep state for later connections
   * itself.
   */
  readonly authProviderFor?: (tenantId: string) => McpAuthProvider | Promise<McpAuthProvider>;
  /** Authorization servers, endpoints and addresses that the server's authorization may use. */
  readonly oauth?: McpOAuthOptions | undefined;
}

/** A provider of bearer tokens or of an OAuth flow, as defined by `@modelcontextprotocol/client`. */
export type McpAuthProvider = AuthProvider | OAuthClientProvider;

/** Options of an upstream server: a program on this machine, or a URL. */
export type UpstreamServerOptions = McpStdioServer | McpHttpServer;

/** The option `mcp` of `createGlovebox`. */
export interface McpOptions {
  /** Servers by name. A name has 1 to 64 characters out of A-Z a-z 0-9 _ - . */
  readonly servers?: { readonly [name: string]: UpstreamServerOptions } | undefined;
}

const isFunction = (value: unknown): boolean => typeof value === "function";
const hook = <Hook>(): z.ZodOptional<z.ZodCustom<Hook, Hook>> =>
  z.custom<Hook>(isFunction, "Expected a function").optional();
const AUTH_PROVIDER_RULE =
  "Expected an auth provider: an object with token(), or with tokens() and clientInformation()";
/** Accepts objects of any class, because providers have methods. */
function isAuthProvider(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  const { token, tokens, clientInformation } = value as { readonly [name: string]: unknown };
  return isFunction(token) || (isFunction(tokens) && isFunction(clientInformation));
}
export const AuthProviderSchema: z.ZodType<McpAuthProvider> = z.custom<McpAuthProvider>(
  isAuthProvider,
  AUTH_PROVIDER_RULE,
);
const timeoutMs = z.int().min(LIMITS.timeoutMs.min).max(LIMITS.timeoutMs.max);
const toolNames = z.array(z.string().min(1).max(256)).max(10_000);
export const TextRecordSchema: z.ZodType<{ readonly [name: string]: string }> = z.record(
  z.string().min(1).max(256),
  z.string().max(65_536),
);

const common = {
  prefix: z
    .string()
    .regex(/^[A-Za-z0-9_.-]{0,64}$/, "Expected 0 to 64 characters out of A-Z a-z 0-9 _ - .")
    .optional(),
  tools: strictObject({ allow: toolNames.optional(), deny: toolNames.default([]) }).prefault({}),
  tenants: z.array(TenantIdSchema).max(10_000).optional(),
  scope: ownerFields.scope,
  perTenant: z.boolean().default(false),
  connectTimeoutMs: z.int().min(10).max(300_000).default(15_000),
  timeoutMs: timeoutMs.default(30_000),
  maxTimeoutMs: timeoutMs.default(LIMITS.timeoutMs.max),
  maxMessageBytes: z
    .int()
    .min(1_024)
    .max(64 * 1024 * 1024)
    .default(4 * 1024 * 1024),
  maxTools: z.int().min(1).max(10_000).default(1_000),
  protocol: z.enum(["auto", "legacy", "2026-07-28"]).default("auto"),
  logLevel: z.enum(["debug", "info", "warning", "error"]).default("info"),
  trustAnnotations: z.boolean().default(false),
  onElicitation: hook<McpElicitationHook>(),
  onSampling: hook<McpSamplingHook>(),
  roots: z
    .array(strictObject({ uri: z.string().min(1).max(8_192), name: z.string().optional() }))
    .max(100)
    .optional(),
};

const HttpUrlSchema = z.union([z.string().min(1), z.instanceof(URL)]).transform((url, context) => {
  const parsed = URL.parse(String(url));
  if (parsed !== null && /^https?:$/.test(parsed.protocol) && parsed.username === "" && parsed.password === "") {
    return parsed;
  }
  context.addIssue({ code: "custom", message: "Expected an http: or https: URL without a user name and password" });
  return z.NEVER;
});

const StdioServerSchema = strictObject({
  command: z.string().min(1),
  args: z.array(z.string()).default([]),
  env: z.union([z.array(z.string().min(1).max(256)), TextRecordSchema]).default([]),
  envFor: hook<NonNullable<McpStdioServer["envFor"]>>(),
  cwd: z.string().min(1).optional(),
  sandbox: ServerSandboxSchema.prefault({}),
  ...common,
});
const HttpServerSchema = strictObject({
  url: HttpUrlSchema,
  headers: TextRecordSchema.default({}),
  headersFor: hook<NonNullable<McpHttpServer["headersFor"]>>(),
  authProvider: AuthProviderSchema.optional(),
  authProviderFor: hook<NonNullable<McpHttpServer["authProviderFor"]>>(),
  oauth: McpOAuthSchema.prefault({}),
  ...common,
});

export const McpServerSchema = z.union(
  [StdioServerSchema, HttpServerSchema],
  "Expected { command, args?, env? … } or { url, headers? … }",
);
export type McpServerConfig = z.infer<typeof McpServerSchema>;

/** Shorter than a tool name, because it is part of the names of the server's tools. */
export const McpServerNameSchema: z.ZodString = z
  .string()
  .regex(/^[A-Za-z0-9_.-]{1,64}$/, "Expected 1 to 64 characters out of A-Z a-z 0-9 _ - .");

export const McpSchema = strictObject({
  servers: z.record(McpServerNameSchema, McpServerSchema).default({}),
});
