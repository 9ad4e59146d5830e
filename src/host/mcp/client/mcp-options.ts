// What a host states of upstream MCP servers: one schema with every default. The host is trusted; the servers are not.
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

/** Whose call a server's request is about. */
export interface McpRequestContext {
  readonly server: string;
  readonly tenantId: string;
  readonly callId: string;
  /** As the server calls it. */
  readonly toolName: string;
  /** What can be asked of whoever made the call. */
  readonly client?: CallClient | undefined;
  /** Aborts with the call. */
  readonly signal: AbortSignal;
}

/** What a server asks of a person. All of it is the server's own word. */
export type McpElicitationHook = (
  request: ElicitRequest,
  context: McpRequestContext,
) => ElicitResult | Promise<ElicitResult>;

/** What a server asks of a model. */
export type McpSamplingHook = (
  request: SampleRequest,
  context: McpRequestContext,
) => SampleResult | Promise<SampleResult>;

interface McpServerBase {
  /** What its tools' names begin with here; the server's name and `__` unless stated. `""`: nothing. */
  readonly prefix?: string | undefined;
  /** Which of its tools are taken, by their names there; a `*` at the end of one stands for anything. All unless stated. */
  readonly tools?: { readonly allow?: readonly string[] | undefined; readonly deny?: readonly string[] | undefined };
  /** Tenants that have its tools. With `tenancy: "multi"`, this or `scope` is required. */
  readonly tenants?: readonly string[] | undefined;
  /** `"global"`: all tenants have its tools. */
  readonly scope?: "global" | undefined;
  /** Whether every tenant has a connection (a process, a session) of its own; false unless stated. `envFor` and its like imply it. */
  readonly perTenant?: boolean | undefined;
  /** How long starting, negotiating, and a listing may take each, in ms, 10 to 300,000; 15,000 unless stated. */
  readonly connectTimeoutMs?: number | undefined;
  /** How long a call may go without an answer or a word of progress, in ms, 1 to 300,000; 30,000 unless stated. */
  readonly timeoutMs?: number | undefined;
  /** How long it may take with progress, in ms, 1 to 300,000, which is the default; what host, tenant or call state lower wins. */
  readonly maxTimeoutMs?: number | undefined;
  /** Of one message that it sends, 1 KiB to 64 MiB; 4 MiB unless stated. */
  readonly maxMessageBytes?: number | undefined;
  /** Tools that are taken of one listing, 1 to 10,000; 1,000 unless stated. */
  readonly maxTools?: number | undefined;
  /** Which protocol is spoken: `auto` (unless stated) asks for 2026-07-28 and falls back to 2025's, `legacy` is 2025's only. */
  readonly protocol?: "auto" | "legacy" | "2026-07-28" | undefined;
  /** Log messages of a call that the server is asked for, from this level on; `info` unless stated. */
  readonly logLevel?: "debug" | "info" | "warning" | "error" | undefined;
  /** True: hints of its annotations count as our own tools' do. False unless stated. */
  readonly trustAnnotations?: boolean | undefined;
  /** Answers what the server asks of a person. Without it, it is told that nobody can be asked. */
  readonly onElicitation?: McpElicitationHook | undefined;
  /** Answers what the server asks of a model. Without it, it is told that there is none. */
  readonly onSampling?: McpSamplingHook | undefined;
  /** Folders and such that the server is told of; none unless stated. */
  readonly roots?: readonly { readonly uri: string; readonly name?: string | undefined }[] | undefined;
}

/** A server that is a program: it speaks over its stdin and stdout, and ends with Glovebox. */
export interface McpStdioServer extends McpServerBase {
  readonly command: string;
  readonly args?: readonly string[] | undefined;
  /** Its environment: names that are let through from the host's, or names and values. Nothing of the host's but the path unless stated. */
  readonly env?: readonly string[] | { readonly [name: string]: string } | undefined;
  /** Names and values besides, for a tenant's own process. */
  readonly envFor?: (
    tenantId: string,
  ) => { readonly [name: string]: string } | Promise<{ readonly [name: string]: string }>;
  readonly cwd?: string | undefined;
  /** What it is wrapped in. A host that is root gives it a user of its own: see `without` for a server that is to write the host's files. */
  readonly sandbox?: ServerSandbox | undefined;
}

/** A server at an address, over Streamable HTTP. A redirect is followed within its own origin only. */
export interface McpHttpServer extends McpServerBase {
  readonly url: string | URL;
  readonly headers?: { readonly [name: string]: string } | undefined;
  /** Headers besides, for a tenant's own connection. Asked again when the server says 401. */
  readonly headersFor?: (
    tenantId: string,
  ) => { readonly [name: string]: string } | Promise<{ readonly [name: string]: string }>;
  /**
   * Bearer tokens, or all of OAuth, as `@modelcontextprotocol/client` has them. While somebody is still to sign in, calls fail with
   * TOOL_UNAVAILABLE; once `auth(provider, { serverUrl, authorizationCode })` of that package has ended well, the next one connects.
   * Client information and tokens that the provider returns must have the `issuer` that they are of, as the package saves them: those
   * without one, or of an issuer that `oauth` does not allow, count as absent. It must answer within `connectTimeoutMs`.
   */
  readonly authProvider?: McpAuthProvider | undefined;
  /** A tenant's own. Asked for each of its connections: what a provider is to remember of the last, it keeps itself. */
  readonly authProviderFor?: (tenantId: string) => McpAuthProvider | Promise<McpAuthProvider>;
  /** Where the server's authorization may lead: authorization servers, their endpoints and their addresses. */
  readonly oauth?: McpOAuthOptions | undefined;
}

/** Either of them, as `@modelcontextprotocol/client` has it. */
export type McpAuthProvider = AuthProvider | OAuthClientProvider;

export type UpstreamServerOptions = McpStdioServer | McpHttpServer;

export interface McpOptions {
  /** By a name of 1 to 64 of A-Z a-z 0-9 _ - . */
  readonly servers?: { readonly [name: string]: UpstreamServerOptions } | undefined;
}

const isFunction = (value: unknown): boolean => typeof value === "function";
const hook = <Hook>(): z.ZodOptional<z.ZodCustom<Hook, Hook>> =>
  z.custom<Hook>(isFunction, "Expected a function").optional();
const AUTH_PROVIDER_RULE =
  "Expected an auth provider: an object with token(), or with tokens() and clientInformation()";
/** An object of any class: providers have methods. */
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
    .regex(/^[A-Za-z0-9_.-]{0,64}$/, "Expected 0 to 64 of A-Z a-z 0-9 _ - .")
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
  context.addIssue({ code: "custom", message: "Expected an http: or https: URL without a user in it" });
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

/** Part of the name of each of its tools, so shorter than those may be. */
export const McpServerNameSchema: z.ZodString = z
  .string()
  .regex(/^[A-Za-z0-9_.-]{1,64}$/, "Expected 1 to 64 of A-Z a-z 0-9 _ - .");

export const McpSchema = strictObject({
  servers: z.record(McpServerNameSchema, McpServerSchema).default({}),
});
