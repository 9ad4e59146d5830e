// Handles tasks/get, tasks/update and tasks/cancel (extension io.modelcontextprotocol/tasks, SEP-2663): a client polls a task, answers its
// questions, and ends it.
import { setTimeout as pause } from "node:timers/promises";
import { ProtocolError, ProtocolErrorCode, type Server, type ServerContext } from "@modelcontextprotocol/server";
import * as z from "zod";
import { ToolError } from "../../../../sandbox/contract/errors.ts";
import { ElicitResultSchema } from "../../../contract/client-requests.ts";
import type { ToolResult } from "../../../contract/tool-call.ts";
import { type McpCaller, ownerOf } from "../authorization/caller.ts";
import type { McpHost } from "../tools/call-tool.ts";
import { toCallToolResult } from "../tools/tool-result.ts";
import {
  declaresTasks,
  inputRequestsOf,
  type McpTaskOwner,
  type McpTaskRun,
  type McpTaskRuns,
  missingTasks,
  toTask,
} from "./task-runs.ts";

/** Longest time in ms that the response to tasks/update waits for the run to go on. */
const UPDATE_MS = 10_000;
const MAX_ID_LENGTH = 256;

/** Leaves out bytes that a store has not kept as such. */
const storedResult = (result: ToolResult): ToolResult =>
  result.success
    ? {
        ...result,
        content: (result.content ?? []).filter((part) => !("data" in part) || ArrayBuffer.isView(part.data)),
      }
    : result;

interface TaskDependencies {
  readonly host: McpHost;
  readonly caller: McpCaller;
  readonly server: Server;
  readonly runs: McpTaskRuns;
}

// With messages of their own, because the SDK puts those of zod into the protocol error.
const ID_ERROR = `Expected the id of a task: a string of 1 to ${MAX_ID_LENGTH} characters`;
const IdSchema = z.string(ID_ERROR).min(1, ID_ERROR).max(MAX_ID_LENGTH, ID_ERROR);
const TaskParamsSchema = z.looseObject({ taskId: IdSchema }, "Expected parameters with the taskId");
/** Adds the methods of the extension to a server. @param guard turns errors into what a client may see */
export function addTaskMethods(
  { host, caller, server, runs }: TaskDependencies,
  guard: <Result>(run: () => Promise<Result>) => Promise<Result>,
): void {
  const owner: McpTaskOwner = { ...host.router.tenancy.optionOf(caller.tenantId), owner: ownerOf(caller) };
  const add = (method: string, handle: (run: McpTaskRun, { mcpReq }: ServerContext) => Promise<object>): void =>
    server.setRequestHandler(method, { params: TaskParamsSchema }, ({ taskId }, ctx) =>
      guard(async () => {
        if (ctx.mcpReq.envelope === undefined)
          throw new ProtocolError(ProtocolErrorCode.MethodNotFound, "Method not found");
        if (!declaresTasks(ctx)) throw missingTasks();
        const run = await runs.get(taskId, owner);
        if (run === undefined) throw new ProtocolError(ProtocolErrorCode.InvalidParams, "There is no such task");
        return (await handle(run, ctx)) as Record<string, unknown>;
      }),
    );

  add("tasks/get", async (run, { mcpReq }) => {
    const task = toTask(run);
    const { result } = run;
    if (task.status === "input_required") return { ...task, inputRequests: inputRequestsOf(run) };
    if (result === undefined || task.status === "working" || task.status === "cancelled") return task;
    if (task.status === "failed")
      return {
        ...task,
        error: { code: ProtocolErrorCode.InternalError, message: result.success ? "" : result.error.message },
      };
    await host.prepareTool?.(run.toolName, host.router.tenancy.optionOf(caller.tenantId));
    const outputSchema = host.router.registry.get(run.toolName, caller.tenantId)?.definition.outputSchema;
    const shown = await toCallToolResult(storedResult(result), outputSchema !== undefined, mcpReq.signal);
    return { ...task, result: server.projectCallToolResult(shown, outputSchema) };
  });
  add("tasks/update", async (run, { mcpReq }) => {
    // The SDK takes them out of the parameters of every method.
    const inputResponses: { readonly [key: string]: unknown } = mcpReq.inputResponses ?? {};
    const answers = run.waits.flatMap(({ id, kind }) => {
      const parsed = kind === "elicitation" ? ElicitResultSchema.safeParse(inputResponses[`w${id}`]) : undefined;
      return parsed?.success === true ? [{ elicitation: id, ...parsed.data }] : [];
    });
    const answering = (async () => {
      for (const answer of answers) await runs.answer(run.id, answer, owner);
    })();
    await Promise.race([answering.catch(rethrowInvalid), pause(UPDATE_MS, undefined, { ref: false })]);
    return {};
  });
  add("tasks/cancel", async (run) => {
    if (run.state === "running" || run.state === "suspended") await runs.cancel(run.id, owner);
    return {};
  });
}

/** An answer that does not match its form is an error of the client; one to a question that was answered meanwhile has no effect. */
function rethrowInvalid(thrown: unknown): void {
  if (!(thrown instanceof ToolError)) throw thrown;
  if (thrown.code === "PARAM_INVALID") throw new ProtocolError(ProtocolErrorCode.InvalidParams, thrown.message);
}
