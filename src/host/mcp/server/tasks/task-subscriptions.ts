// Answers requests for notifications about tasks (extension io.modelcontextprotocol/tasks, SEP-2663). The server does not send them, which the
// extension leaves to it: an acknowledgement without `taskIds` tells the client to poll. A client that does not declare the extension gets an error.
import { CLIENT_CAPABILITIES_META_KEY, type JSONRPCMessage } from "@modelcontextprotocol/server";
import * as z from "zod";
import { missingTasks, TASKS_EXTENSION } from "./task-runs.ts";

const TaskSubscriptionSchema = z.object({
  jsonrpc: z.literal("2.0"),
  id: z.union([z.string(), z.number()]),
  method: z.literal("subscriptions/listen"),
  params: z.object({
    notifications: z.object({ taskIds: z.unknown() }),
    _meta: z.record(z.string(), z.unknown()),
  }),
});
const CapabilitiesSchema = z.object({ extensions: z.record(z.string(), z.unknown()) });

/** Returns the error for a client that requests notifications about tasks and does not declare the extension; undefined for other messages. */
export function rejectTaskSubscription(message: unknown): JSONRPCMessage | undefined {
  const { data } = TaskSubscriptionSchema.safeParse(message);
  // Zod adds the key `taskIds` to no object that is without it.
  if (data === undefined || !("taskIds" in data.params.notifications)) return undefined;
  const declared = CapabilitiesSchema.safeParse(data.params._meta[CLIENT_CAPABILITIES_META_KEY]).data;
  if (declared !== undefined && Object.hasOwn(declared.extensions, TASKS_EXTENSION)) return undefined;
  const { code, message: text, data: details } = missingTasks();
  return { jsonrpc: "2.0", id: data.id, error: { code, message: text, data: details } };
}
