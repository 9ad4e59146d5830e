// Parses the state of a task that an upstream server sends (extension io.modelcontextprotocol/tasks, SEP-2663). All of it is untrusted.
import * as z from "zod";
import { ToolError } from "../../../../sandbox/contract/errors.ts";
import { isJsonObject } from "../../../../sandbox/contract/value-kind.ts";
import { hasAtMost, type JsonObject } from "../reading/json-size.ts";
import { toVisible } from "../text/visible-text.ts";

export const TASKS_EXTENSION = "io.modelcontextprotocol/tasks";

/** Longest id of a task, which is sent as an HTTP header too. */
const MAX_ID_LENGTH = 1_024;
const MAX_STATUS_LENGTH = 2_048;
/** Largest number of values in the requests for input of one response. */
const MAX_INPUT_VALUES = 10_000;
/** Largest number of requests for input in one response. A task can send as many as a call. */
const MAX_INPUTS = 16;
const MAX_KEY_LENGTH = 1_024;

/** Shortest and longest time in ms between two polls, whatever the server says, and the time if it says nothing. */
const MIN_INTERVAL_MS = 250;
const MAX_INTERVAL_MS = 30_000;
const DEFAULT_INTERVAL_MS = 1_000;

const TaskSchema = z.looseObject({
  taskId: z.string().min(1).max(MAX_ID_LENGTH),
  status: z.enum(["working", "input_required", "completed", "failed", "cancelled"]),
});

/** A request for input by its key. */
export type TaskInputs = ReadonlyMap<string, JsonObject>;

/** The state of a task, within limits. */
export interface UpstreamTask {
  readonly taskId: string;
  readonly status: "working" | "input_required" | "completed" | "failed" | "cancelled";
  /** What a person may see of the status. */
  readonly statusMessage: string | undefined;
  /** Time of the last change as the server states it, which is only compared with others. */
  readonly lastUpdatedAt: unknown;
  /** Time to wait before the next poll. */
  readonly intervalMs: number;
  /** Time in ms from its creation after which the server may discard the task; undefined for no limit. */
  readonly ttlMs: number | undefined;
  readonly inputs: TaskInputs;
  /** Result of a completed task. */
  readonly result: JsonObject | undefined;
  /** Error of a failed task. */
  readonly error: { readonly code: number; readonly message: string } | undefined;
}

/** Creates the error for a server that breaks the rules of the extension. */
export const invalidTask = (server: string, toolName: string, problem: string): ToolError =>
  new ToolError("OUTPUT_INVALID", `The MCP server "${server}" sent an invalid task for "${toolName}": ${problem}`, {
    details: { server },
  });

function intervalOf(value: unknown): number {
  if (typeof value !== "number" || Number.isNaN(value)) return DEFAULT_INTERVAL_MS;
  return Math.min(MAX_INTERVAL_MS, Math.max(MIN_INTERVAL_MS, value));
}

/** @throws {Error} with the problem as its message */
function inputsOf(value: unknown): TaskInputs {
  if (!isJsonObject(value) || !hasAtMost(value, MAX_INPUT_VALUES)) throw new Error("Expected a map of inputRequests");
  const entries = Object.entries(value);
  if (entries.length > MAX_INPUTS) throw new Error(`Expected at most ${MAX_INPUTS} inputRequests`);
  return new Map(
    entries.map(([key, request]) => {
      if (key.length > MAX_KEY_LENGTH || !isJsonObject(request)) throw new Error("Expected inputRequests of objects");
      return [key, request];
    }),
  );
}

function errorOf(value: unknown): UpstreamTask["error"] {
  const { code, message } = isJsonObject(value) ? value : {};
  if (Number.isSafeInteger(code) && typeof message === "string") return { code: code as number, message };
  throw new Error("Expected an error with a code and a message");
}

/** @throws {Error} with the problem as its message */
function resultOf(value: unknown): JsonObject {
  if (!isJsonObject(value)) throw new Error("Expected a result");
  const { resultType = "complete" } = value;
  if (resultType !== "complete") throw new Error("Expected a complete result");
  return value;
}

/**
 * Parses a task.
 * @param knownId id of the task that was polled; undefined for a task that was just created
 * @throws {ToolError} OUTPUT_INVALID
 */
export function parseTask(
  value: JsonObject,
  knownId: string | undefined,
  { server, toolName }: { readonly server: string; readonly toolName: string },
): UpstreamTask {
  const parsed = TaskSchema.safeParse(value);
  if (!parsed.success) {
    const [{ path = [], message = "" } = {}] = parsed.error.issues;
    throw invalidTask(server, toolName, `/${path.join("/")}: ${message}`);
  }
  const { taskId, status } = parsed.data;
  if (!taskId.isWellFormed()) throw invalidTask(server, toolName, "/taskId: Expected well-formed text");
  if (knownId !== undefined && taskId !== knownId)
    throw invalidTask(server, toolName, "/taskId: Expected the id of the task that was requested");
  const { statusMessage, lastUpdatedAt, ttlMs, pollIntervalMs } = value;
  // The content follows only in the response to a poll.
  const isPolled = knownId !== undefined;
  try {
    return {
      taskId,
      status,
      lastUpdatedAt,
      statusMessage:
        typeof statusMessage === "string" ? toVisible(statusMessage.slice(0, MAX_STATUS_LENGTH)) : undefined,
      intervalMs: intervalOf(pollIntervalMs),
      ttlMs: typeof ttlMs === "number" && ttlMs >= 0 ? ttlMs : undefined,
      inputs: isPolled && status === "input_required" ? inputsOf(value.inputRequests) : new Map(),
      result: isPolled && status === "completed" ? resultOf(value.result) : undefined,
      error: isPolled && status === "failed" ? errorOf(value.error) : undefined,
    };
  } catch (thrown) {
    throw invalidTask(server, toolName, (thrown as Error).message);
  }
}
