// Types of what the server returns, from the schemas of its HTTP API, and of what its callers pass.
import type * as z from "zod";
import type { RunningCallSchema } from "../server/http/routes/call-records.ts";
import type { ConsoleSessionSchema } from "../server/http/routes/console-sessions.ts";
import type { ExecutorSchema, FleetSchema } from "../server/http/routes/fleet.ts";
import type { KvEntrySchema } from "../server/http/routes/kv.ts";
import type { RehearsalSchema, ReplaySchema } from "../server/http/routes/recordings.ts";
import type { RunAnswerSchema } from "../server/http/routes/runs.ts";
import type { ScheduleSchema } from "../server/http/routes/schedules.ts";
import type { CreatedTriggerSchema, TriggerSchema } from "../server/http/routes/triggers.ts";
import type { CreatedWebhookSchema, DeliverySchema, WebhookSchema } from "../server/http/routes/webhooks.ts";
import type {
  ApprovalSchema,
  CallApprovalSchema,
  CallSchema,
  RejectedCallSchema,
  TimelineSchema,
  TreeCallSchema,
} from "../server/http/schemas/calls.ts";
import type {
  AuditEntrySchema,
  KeyWithUseSchema,
  QuotasResponseSchema,
  SecretSchema,
  UsageSchema,
} from "../server/http/schemas/operation.ts";
import type {
  OverviewSchema,
  ProblemSchema,
  VersionStatsSchema,
  WorkersResponseSchema,
} from "../server/http/schemas/overview.ts";
import type { RunEntrySchema, RunSchema, RunSummarySchema } from "../server/http/schemas/runs.ts";
import type { CreatedKeySchema, KeySchema, TenantSchema } from "../server/http/schemas/tenants.ts";
import type {
  DeployedSchema,
  ReleaseSchema,
  ToolSummarySchema,
  VersionSummarySchema,
} from "../server/http/schemas/tools.ts";

/** A schedule that calls a tool at the times of a cron expression. Times are in ms since 1970. */
export type Schedule = z.output<typeof ScheduleSchema>;
/** An endpoint that receives the events of a tenant, without its signing secret. */
export type Webhook = z.output<typeof WebhookSchema>;
/** A new webhook with its signing secret, which is shown only once. */
export type CreatedWebhook = z.output<typeof CreatedWebhookSchema>;
/** An event that is or was sent to a webhook, with its attempts. Times are in ms since 1970. */
export type Delivery = z.output<typeof DeliverySchema>;
/** An entry of a tenant's key-value store: `value` if it is JSON, `base64` if it is bytes. */
export type StoredValue = z.output<typeof KvEntrySchema>;
/** A URL at which other services call a tool, without its signing secret. */
export type Trigger = z.output<typeof TriggerSchema>;
/** A new trigger with its signing secret, which is shown only once. */
export type CreatedTrigger = z.output<typeof CreatedTriggerSchema>;
/** A tenant with its state and its policy. Times are in ms since 1970. */
export type Tenant = z.output<typeof TenantSchema>;
/** An API key without the key itself. `tenantId` is null for a key of the platform. Times are in ms since 1970. */
export type ApiKey = z.output<typeof KeySchema>;
/** An API key with what it uses of its limits now. */
export type ApiKeyWithUse = z.output<typeof KeyWithUseSchema>;
/** A new API key with the key itself, which is shown only once. */
export type CreatedApiKey = z.output<typeof CreatedKeySchema>;
/** A tool in a list: its name, the number of its versions, and the latest one. */
export type ToolSummary = z.output<typeof ToolSummarySchema>;
/** A version of a tool: its definition, what it is granted, its limits, and whether it is approved. A version never changes. */
export type ToolVersion = z.output<typeof VersionSummarySchema>;
/** What an alias of a tool, such as `live`, points to: one version, or several by weight. */
export type Release = z.output<typeof ReleaseSchema>;
/**
 * Result of an upload: the version, the capabilities that it requests compared with the live version, and the release if it was released.
 */
export type Deployed = z.output<typeof DeployedSchema>;
/** A version of a tool that waits for approval, with the capabilities that it requests. */
export type Approval = z.output<typeof ApprovalSchema>;
/** A call that needs or needed approval, with its redacted arguments and the decision. */
export type CallApproval = z.output<typeof CallApprovalSchema>;
/** A call in a tree of nested calls, with its place in the tree. Times are in ms since 1970. */
export type TreeCall = z.output<typeof TreeCallSchema>;
/** A problem that an operator or a tenant should look at, such as a tool that fails or a quota that is used up. */
export type Problem = z.output<typeof ProblemSchema>;
/** The record of a call: its input, output or error, usage and state. Times are in ms since 1970. */
export type Call = z.output<typeof CallSchema>;
/** A call of a batch that was rejected, such as one whose idempotency key is in use. The others of the batch went on. */
export type RejectedCall = z.output<typeof RejectedCallSchema>;
/** A call that is queued or runs now. */
export type RunningCall = z.output<typeof RunningCallSchema>;
/** Result of a replay: whether the outcome equals the recorded one, and where it differs. */
export type Replay = z.output<typeof ReplaySchema>;
/**
 * Result of a rehearsal, which replays recorded calls on another version: counts, the differences in groups, and the use of resources
 * before and after.
 */
export type Rehearsal = z.output<typeof RehearsalSchema>;
/** A durable run with its input, and its output or error. Times are in ms since 1970. */
export type Run = z.output<typeof RunSchema>;
/** A durable run in a list, without input, output and error. */
export type RunSummary = z.output<typeof RunSummarySchema>;
/** An entry of the journal of a durable run. Fields other than `position`, `at` and `type` depend on the type. */
export type RunEntry = z.output<typeof RunEntrySchema>;
/** A person's answer to an elicitation. */
export type RunAnswer = z.output<typeof RunAnswerSchema>;
/** Calls, failures, durations and problems of a time span, in total, over time and by tool. */
export type Overview = z.output<typeof OverviewSchema>;
/** Calls, failures and durations of one version of a tool. */
export type VersionStats = z.output<typeof VersionStatsSchema>;
/**
 * The process that has answered, its worker processes (language, tenants, isolates and memory) with their hardening layers, and the calls that
 * run in it.
 */
export type Workers = z.output<typeof WorkersResponseSchema>;
/** An executor, which runs calls for the replicas of a server, with its slots and its state. */
export type Executor = z.output<typeof ExecutorSchema>;
/** The executors, their pools, and the replicas of a server. */
export type Fleet = z.output<typeof FleetSchema>;
/** A browser that is signed in to the console. */
export type ConsoleSession = z.output<typeof ConsoleSessionSchema>;
/** What happened in a call, as spans in ms after the call was accepted, with its nested calls. */
export type CallTimeline = z.output<typeof TimelineSchema>;
/** A secret of a tenant without its value, with the hosts that may receive the value. */
export type Secret = z.output<typeof SecretSchema>;
/** Use of one tool in one hour, by outcome. CPU time and wall time are in ms. */
export type Usage = z.output<typeof UsageSchema>;
/** Limits of a tenant and how much of them is used: quotas by period, number of tools, and stored bytes. */
export type Quotas = z.output<typeof QuotasResponseSchema>;
/** An entry of the audit log. `hash` covers the entry before it, so that a change of the log can be detected. */
export type AuditEntry = z.output<typeof AuditEntrySchema>;

/** An event of a streamed call. The last one is the `result`. */
export type CallEvent =
  | { readonly event: "started"; readonly data: { readonly id: string } }
  | { readonly event: "approval"; readonly data: { readonly approvalId: string; readonly callId: string } }
  | { readonly event: "log" | "progress" | "chunk"; readonly data: unknown }
  | { readonly event: "result"; readonly data: Call };

/** Input of a durable run. */
export interface RunInput {
  /** Input of the tool: any JSON value. Default: `{}` */
  readonly input?: unknown;
  /** Default: the version that a call would run now. */
  readonly version?: number | undefined;
  /** Alias whose release selects the version. Default: `live` */
  readonly alias?: string | undefined;
  /** Approves the run, if its tool needs an approval and the key may. */
  readonly approve?: boolean | undefined;
}

/** Input of a call. */
export interface CallInput {
  /** Input of the tool: any JSON value. Default: `{}` */
  readonly input?: unknown;
  /** Version to call. Default: the one that `alias` selects */
  readonly version?: number | undefined;
  /** Alias whose release selects the version. Default: `live` */
  readonly alias?: string | undefined;
  /** Session of the call. With `isolateLifetime: "session"`, the calls of a session share an isolate. */
  readonly sessionId?: string | undefined;
  /** Longest time of the call in ms, 1 to 300,000. It can only lower the tenant's and the tool's limit. */
  readonly timeoutMs?: number | undefined;
  /** Approves the call at once, if it needs an approval and the key may. */
  readonly approve?: boolean | undefined;
}

/** Which calls a list has. */
export interface CallListFilter {
  readonly tool?: string | undefined;
  readonly state?: string | undefined;
  /** Calls per request. Default: 50 */
  readonly limit?: number | undefined;
}

/** Which durable runs a list has. */
export interface RunListFilter {
  readonly kind?: Run["kind"] | undefined;
  readonly tool?: string | undefined;
  readonly state?: Run["state"] | undefined;
  /** Runs that wait for something of this kind. */
  readonly wait?: Run["waits"][number]["kind"] | undefined;
}

/** Options of the start of a durable run. */
export interface StartRunOptions {
  /** With it, the request is repeated after a network error, and the run still starts at most once. */
  readonly idempotencyKey?: string | undefined;
  /** `false` returns the run at once. Default: when it waits or has ended */
  readonly wait?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** An API key to create. */
export interface NewKey {
  readonly name: string;
  readonly scopes: readonly string[];
  /** Default: no expiry. */
  readonly expiresInDays?: number;
  /** Not together with `expiresInDays`. */
  readonly expiresInMinutes?: number;
  /** Limit of the key's requests. */
  readonly rateLimit?: ApiKey["rateLimit"] & object;
  /** Limits of the key's calls, in addition to those of the tenant. */
  readonly limits?: ApiKey["limits"] & object;
  /** Quotas of the key's calls, in addition to those of the tenant. */
  readonly quotas?: ApiKey["quotas"] & object;
  /** Maximum number of calls of the key that wait in the queue. */
  readonly maxAsyncCalls?: number;
}

/** A schedule to create. */
export interface NewSchedule {
  readonly name: string;
  readonly tool: string;
  readonly cron: string;
  /** Default: UTC. */
  readonly timeZone?: string;
  readonly input?: unknown;
  readonly alias?: string;
  /** Default: `skip`, so that runs do not overlap. */
  readonly overlap?: Schedule["overlap"];
  readonly catchUp?: Schedule["catchUp"];
}

/** A trigger to create. */
export interface NewTrigger {
  readonly name: string;
  readonly tool: string;
  readonly alias?: string;
  readonly verification?: Trigger["verification"];
  /** Signing secret of the sender. Default: a new one */
  readonly secret?: string;
}
