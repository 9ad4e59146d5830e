// Serves durable runs as tasks of MCP. A key finds the runs that it has started, and no others.
import type { McpTaskRun, McpTaskRuns } from "../../host/mcp/server/index.ts";
import { type CallCaller, keyActorOf } from "../calls/call-request.ts";
import type { Db } from "../database/open-database.ts";
import { findRun, type RunRow } from "../records/calls/runs.ts";
import { RunConflict } from "../runs/run-answers.ts";
import type { RunService } from "../runs/run-service.ts";

const DAY_MS = 86_400_000;

function toTaskRun(row: RunRow, { tenant }: CallCaller): McpTaskRun {
  // A run that has ended is deleted after these days.
  const keptUntil = row.created_at + tenant.policy.retention.callDays * DAY_MS;
  return {
    id: row.id,
    toolName: row.tool_name,
    state: row.state,
    createdAt: row.created_at,
    waits: JSON.parse(row.waits) as McpTaskRun["waits"],
    expiresAt: Math.min(row.expires_at, keptUntil),
    ...(row.result === null ? {} : { result: JSON.parse(row.result) as NonNullable<McpTaskRun["result"]> }),
    ...(row.ended_at === null ? {} : { updatedAt: row.ended_at }),
  };
}

/** @param callerOf returns the caller of the request that is being answered */
export function createTaskRuns(runs: RunService, db: Db, callerOf: () => CallCaller): McpTaskRuns {
  const find = async (id: string): Promise<RunRow | undefined> => {
    const { tenant, keyId } = callerOf();
    const row = await findRun(db, { tenantId: tenant.id, id });
    return row?.key_id === keyId && row.kind === "tool" ? row : undefined;
  };
  return {
    begin: ({ toolName, arguments: input }, starter) => runs.begin({ toolName, input }, callerOf(), { starter }),
    get: async (id) => {
      const row = await find(id);
      return row && toTaskRun(row, callerOf());
    },
    answer: async (id, { content, ...answer }) => {
      const caller = callerOf();
      const signal = { ...answer, ...(content == null ? {} : { content }) };
      try {
        await (await runs.answer(caller.tenant, id, signal, keyActorOf(caller)))?.settled;
      } catch (thrown) {
        // It was answered meanwhile, or has ended.
        if (!(thrown instanceof RunConflict)) throw thrown;
      }
    },
    cancel: async (id) => {
      const caller = callerOf();
      await runs.cancel(caller.tenant, id, keyActorOf(caller));
    },
  };
}
