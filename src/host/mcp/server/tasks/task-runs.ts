// Shows durable runs as tasks (extension io.modelcontextprotocol/tasks, SEP-2663): which calls become tasks, whose they are, and what a task says.
import { createHash, randomUUID } from "node:crypto";
import {
  CLIENT_CAPABILITIES_META_KEY,
  type InputRequests,
  inputRequired,
  MissingRequiredClientCapabilityError,
  type ServerContext,
} from "@modelcontextprotocol/server";
import type * as z from "zod";
import type { ToolDefinition } from "../../../../sandbox/contract/definition.ts";
import type { ErrorCode } from "../../../../sandbox/contract/errors.ts";
import type { ElicitResultSchema } from "../../../contract/client-requests.ts";
import type { RunStarter } from "../../../runs/run-options.ts";
import type { RunRecord } from "../../../runs/run-store.ts";
import type { Runs } from "../../../runs/runs.ts";

export const TASKS_EXTENSION = "io.modelcontextprotocol/tasks";
const POLL_INTERVAL_MS = 1_000;

/** Errors that are not the tool's: the task has failed instead of having a result that says so. */
const HOST_ERRORS: ReadonlySet<ErrorCode> = new Set([
  ...(["INTERNAL", "SANDBOX_CRASHED", "TOOL_UNAVAILABLE", "REPLAY_DIVERGED", "QUOTA_EXCEEDED", "OVERLOADED"] as const),
]);

/** A run as a task shows it. */
export type McpTaskRun = Pick<
  RunRecord,
  "id" | "toolName" | "state" | "waits" | "result" | "createdAt" | "expiresAt"
> & {
  /** Time in ms since 1970 of its last change. Default: its creation. */
  readonly updatedAt?: number | undefined;
};

/** Whose tasks: those of one caller only. */
export interface McpTaskOwner {
  readonly tenantId?: string | undefined;
  readonly owner: string;
}

/** Durable runs of the callers of an MCP server. */
export interface McpTaskRuns {
  /** Starts a run. `settled` settles when the run waits or has ended. */
  begin(
    run: McpTaskOwner & { readonly toolName: string; readonly arguments: unknown },
    starter: RunStarter,
  ): Promise<{ readonly id: string; readonly settled: Promise<unknown> }>;
  /** Returns a run; undefined if the owner has none of this id. */
  get(id: string, owner: McpTaskOwner): Promise<McpTaskRun | undefined>;
  /** Answers an elicitation. Resolves when the run waits again or has ended. */
  answer(
    id: string,
    answer: { readonly elicitation: number } & z.output<typeof ElicitResultSchema>,
    owner: McpTaskOwner,
  ): Promise<void>;
  /** Cancels a run. */
  cancel(id: string, owner: McpTaskOwner): Promise<void>;
}

const whoseOf = ({ tenantId }: McpTaskOwner): { readonly tenantId?: string } =>
  tenantId === undefined ? {} : { tenantId };
const hashOf = (owner: string): string => createHash("sha256").update(owner).digest("base64url").slice(0, 22);

/** Uses runs of the library as tasks. The id of a run names its owner, so that no other caller finds it. */
export function toTaskRuns(runs: Runs): McpTaskRuns {
  const isOwn = (id: string, { owner }: McpTaskOwner): boolean => id.endsWith(`.${hashOf(owner)}`);
  return {
    begin: ({ owner, tenantId, toolName, arguments: input }, starter) =>
      runs.begin(
        { id: `${randomUUID()}.${hashOf(owner)}`, toolName, arguments: input, ...whoseOf({ owner, tenantId }) },
        starter,
      ),
    get: async (id, owner) => (isOwn(id, owner) ? await runs.get(id, whoseOf(owner)) : undefined),
    answer: async (id, { content, ...answer }, owner) => {
      await runs.signal(id, { ...answer, ...(content == null ? {} : { content }) }, whoseOf(owner));
    },
    cancel: async (id, owner) => {
      await runs.cancel(id, whoseOf(owner));
    },
  };
}

/** Whether calls of a tool can be tasks: it is durable, or requests `waitFor`. */
export const supportsTasks = (definition: ToolDefinition | undefined): boolean =>
  definition !== undefined && (definition.durable === true || definition.capabilities?.waitFor !== undefined);

/** Whether a request declares the extension. Requests of the revisions of 2025 cannot. */
export function declaresTasks({ mcpReq }: ServerContext): boolean {
  const declared = (mcpReq.envelope as Record<string, unknown> | undefined)?.[CLIENT_CAPABILITIES_META_KEY];
  const { extensions } = (declared ?? {}) as { readonly extensions?: { readonly [name: string]: unknown } };
  return extensions?.[TASKS_EXTENSION] !== undefined;
}

/** Returns the error for a client that does not declare the extension. */
export const missingTasks = (): MissingRequiredClientCapabilityError =>
  new MissingRequiredClientCapabilityError({ requiredCapabilities: { extensions: { [TASKS_EXTENSION]: {} } } });

const isoOf = (ms: number): string => new Date(ms).toISOString();

/** Returns the questions of a run by the ids with which a client answers them. */
export function inputRequestsOf({ waits }: McpTaskRun): InputRequests {
  const asked = waits.flatMap(({ id, kind, message = "", requestedSchema, url }) => {
    if (kind !== "elicitation") return [];
    const request =
      requestedSchema === undefined
        ? inputRequired.elicitUrl({ message, url: url ?? "" })
        : inputRequired.elicit({ message, requestedSchema } as Parameters<typeof inputRequired.elicit>[0]);
    return [[`w${id}`, request] as const];
  });
  return Object.fromEntries(asked);
}

function statusOf(run: McpTaskRun): "working" | "input_required" | "completed" | "failed" | "cancelled" {
  const { state, result, waits } = run;
  if (state === "running") return "working";
  if (state === "suspended") return waits.some(({ kind }) => kind === "elicitation") ? "input_required" : "working";
  if (state === "cancelled") return "cancelled";
  return result?.success === false && HOST_ERRORS.has(result.error.code) ? "failed" : "completed";
}

/** Returns the task of a run, without its content. */
export const toTask = (run: McpTaskRun): { readonly [field: string]: unknown } => ({
  taskId: run.id,
  status: statusOf(run),
  createdAt: isoOf(run.createdAt),
  lastUpdatedAt: isoOf(run.updatedAt ?? run.createdAt),
  ttlMs: Math.max(1, Math.round(run.expiresAt - run.createdAt)),
  pollIntervalMs: POLL_INTERVAL_MS,
});
