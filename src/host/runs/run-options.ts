// Options of durable runs, and what their methods take: the types that users see, and the schemas that check them.
import * as z from "zod";
import { strictObject } from "../../sandbox/contract/plain-object.ts";
import type { CallClient } from "../contract/client-requests.ts";
import type { CallContext, ToolResult } from "../contract/tool-call.ts";
import type { RunRecord, RunStore } from "./run-store.ts";

/** Options of {@link createRuns}. */
export interface RunsOptions {
  /** Keeps the runs: `new MemoryRunStore()`, or a store of your own. */
  readonly store: RunStore;
  /**
   * Largest journal of a run in UTF-16 code units. A run that exceeds it fails.
   * @default 8388608
   */
  readonly maxJournalLength?: number | undefined;
  /**
   * Time in ms after which a run that has not ended fails.
   * @default 2592000000
   */
  readonly lifetimeMs?: number | undefined;
  /**
   * Runs of a tenant that have not ended.
   * @default 1000
   */
  readonly maxOpen?: number | undefined;
  /**
   * Length of a claim's lease in ms. It is renewed while the run is under way; after a crash, another process continues the run when it has expired.
   * @default 30000
   */
  readonly leaseMs?: number | undefined;
  /**
   * How often waiting and abandoned runs are looked for, in ms. 0: only when `poll()` is called.
   * @default 1000
   */
  readonly pollMs?: number | undefined;
  /**
   * Time in ms within which the functions of `ctx.onRollback` must have run after a run has failed or was cancelled.
   * @default 600000
   */
  readonly rollbackMs?: number | undefined;
  /** Limits of the runs of one tenant, in place of the ones above. Called at each start and continuation. */
  readonly tenantLimits?: ((tenantId: string) => TenantRunLimits | Promise<TenantRunLimits>) | undefined;
  /**
   * Called before each attempt to run, for example to register the version of the tool. Returns properties of the call's context. If it rejects
   * with a ToolError, the run fails with it; after another rejection, the run continues when its lease has expired.
   */
  readonly prepare?: ((run: RunRecord) => Promise<RunContext>) | undefined;
  /** Receives the result of each attempt, also of one after which the run waits: `isSuspended`, and the code of its error is CANCELLED. */
  readonly onAttempt?: ((run: RunRecord, result: ToolResult, isSuspended: boolean) => void) | undefined;
  /**
   * What happens to a run that began with another engine: another major or minor version of V8, or a version of Glovebox whose journals
   * differ. `"fail"`: it fails with TOOL_UNAVAILABLE (`details.reason: "engine_version"`). `"try"`: it is repeated; where the engines differ in
   * what the code asks for, it fails with REPLAY_DIVERGED, and other differences are not found.
   * @default "fail"
   */
  readonly otherEngines?: "fail" | "try" | undefined;
  /** Receives failures of the store in the background. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

/** Limits of the runs of a tenant. Default: those of all runs. */
export type TenantRunLimits = Partial<Pick<RunsOptions, "maxJournalLength" | "lifetimeMs" | "maxOpen">>;

/** The client of the caller that starts a run. It answers requests of `ctx.elicit` in the first attempt; the run waits for the answers to others. */
export interface RunStarter {
  readonly client: Pick<CallClient, "elicit">;
  /**
   * Which requests it answers. `keyed`: those with a `key`, which a client can answer with its response to the start of a task.
   * @default "keyed"
   */
  readonly answers?: "keyed" | "all" | undefined;
  /** Returns whether the client still waits for its response. */
  readonly isOpen: () => boolean;
}

/** Context of an attempt. `callId`: id of the call that it is. Default: the id of the run. */
export type RunContext = Pick<
  CallContext,
  "nestedCalls" | "callerQuotas" | "onLog" | "timeline" | "logSourceLocations" | "client" | "sessionId" | "timeoutMs"
> & {
  readonly callId?: string | undefined;
  /**
   * Whether the quotas have counted the attempt already, with the call that waits for the run. They are charged for what it uses all the same.
   * @internal
   */
  readonly isCounted?: boolean | undefined;
  /**
   * Returns for how long, in ms, a call that the run makes with `ctx.tools` waits for a person's approval (default: as
   * long as the run); undefined if it needs none. The run then waits, and `signal` decides as about
   * `ctx.waitFor({ approval })`. If it rejects, the call is not made, and the run continues later.
   * @default no call needs an approval
   */
  readonly approvalOf?: ((toolName: string) => Promise<{ readonly expiresInMs?: number } | undefined>) | undefined;
};

const limitFields = {
  maxJournalLength: z
    .int()
    .min(1_024)
    .max(256 * 1024 * 1024),
  lifetimeMs: z
    .int()
    .min(1)
    .max(366 * 86_400_000),
  maxOpen: z.int().min(1).max(1_000_000),
};
const isFunction = (value: unknown): boolean => typeof value === "function";
const STORE_METHODS = [
  "create",
  "find",
  "journal",
  "list",
  "claim",
  "renew",
  "append",
  "appendEvent",
  "release",
  "due",
  "deleteTenant",
] as const;
const isRunStore = (value: unknown): boolean =>
  typeof value === "object" &&
  value !== null &&
  STORE_METHODS.every((method) => isFunction((value as { readonly [name: string]: unknown })[method]));
const EXPECTED_FUNCTION = "Expected a function";

export const RunStoreSchema = z.custom<RunStore>(
  isRunStore,
  `Expected a RunStore, an object with the methods ${STORE_METHODS.join(", ")}`,
);

export const RunsOptionsSchema = strictObject({
  store: RunStoreSchema,
  maxJournalLength: limitFields.maxJournalLength.default(8 * 1024 * 1024),
  lifetimeMs: limitFields.lifetimeMs.default(30 * 86_400_000),
  maxOpen: limitFields.maxOpen.default(1_000),
  leaseMs: z.int().min(100).max(3_600_000).default(30_000),
  pollMs: z.int().min(0).max(3_600_000).default(1_000),
  rollbackMs: z.int().min(1).max(86_400_000).default(600_000),
  tenantLimits: z.custom<NonNullable<RunsOptions["tenantLimits"]>>(isFunction, EXPECTED_FUNCTION).optional(),
  prepare: z.custom<NonNullable<RunsOptions["prepare"]>>(isFunction, EXPECTED_FUNCTION).optional(),
  onAttempt: z.custom<NonNullable<RunsOptions["onAttempt"]>>(isFunction, EXPECTED_FUNCTION).optional(),
  otherEngines: z.enum(["fail", "try"]).default("fail"),
  onError: z.custom<(error: unknown) => void>(isFunction, EXPECTED_FUNCTION).optional(),
});
export const TenantLimitsSchema = strictObject({
  maxJournalLength: limitFields.maxJournalLength.optional(),
  lifetimeMs: limitFields.lifetimeMs.optional(),
  maxOpen: limitFields.maxOpen.optional(),
});

/** Options of {@link createRuns} with their defaults. */
export type ParsedRunsOptions = z.output<typeof RunsOptionsSchema>;

/** A run to start. */
export interface RunStart {
  readonly toolName: string;
  /** @default {} */
  readonly arguments?: unknown;
  /** Id of the run, unique for its tenant. @default a random one */
  readonly id?: string | undefined;
  /** Version of the tool, for a tool that was registered with `setRelease`. It is pinned: @default the version that a call would run now */
  readonly toolVersion?: string | undefined;
  /** Required with `tenancy: "multi"`. */
  readonly tenantId?: string | undefined;
}
export const StartSchema = strictObject({
  toolName: z.string().min(1).max(128),
  arguments: z.unknown().optional(),
  id: z.string().min(1).max(200).optional(),
  toolVersion: z.string().min(1).max(128).optional(),
  tenantId: z.string().optional(),
});

export const WhoseSchema = strictObject({ tenantId: z.string().optional() });
export const CloseSchema = strictObject({ drainMs: z.int().min(0).max(300_000).default(0) });
export const ListSchema = strictObject({
  tenantId: z.string().optional(),
  state: z.enum(["running", "suspended", "succeeded", "failed", "cancelled"]).optional(),
  before: z.string().optional(),
  limit: z.int().min(1).max(1_000).default(100),
});

/** Whose run it is. */
export interface RunOwner {
  /** Required with `tenancy: "multi"`. */
  readonly tenantId?: string | undefined;
}
