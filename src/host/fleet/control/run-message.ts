// Converts a job of the pool to the message with which an executor runs it.
import type { WorkerToolProfile } from "../../../sandbox/protocol/host-messages.ts";
import type { SessionOrder } from "../../workers/worker-job.ts";
import type { CallObjects } from "../objects/call-objects.ts";
import type { RunMessage } from "../protocol/control-messages.ts";
import type { RemoteAttempt } from "./remote-attempt.ts";

/** A message without the key of its executor, and its parts. */
export interface OutgoingRun {
  readonly message: Omit<RunMessage, "key">;
  readonly parts: readonly (string | Uint8Array)[];
}

/** Settings of tools as JSON text. They are the same object for all calls of a tool. */
const settingsTexts = new WeakMap<object, string>();

function toSettingsText(tool: WorkerToolProfile): string {
  const known = settingsTexts.get(tool);
  if (known !== undefined) return known;
  const text = JSON.stringify(tool);
  settingsTexts.set(tool, text);
  return text;
}

const toSession = (
  { token, isKept }: { readonly token: string; readonly isKept: boolean },
  { once }: SessionOrder,
): NonNullable<RunMessage["session"]> => ({
  id: token,
  once,
  ...(isKept ? { resumes: true } : {}),
});

export function toRunMessage(
  { call, token, isNested }: RemoteAttempt,
  control: string,
  { bundle, python, input }: CallObjects,
): OutgoingRun {
  const { order, claim, owner, memoryMiB, inputBytes, leftMs, ...job } = call.job;
  const { turns = [], ...start } = order.deterministic ?? { seed: "", now: 0 };
  const [header = "", bytes = ""] = inputBytes ?? [];
  const message: Omit<RunMessage, "key"> = {
    type: "run",
    control,
    token,
    isNested,
    owner,
    memoryMiB,
    callId: order.callId,
    tenantId: order.tenantId,
    toolKey: claim.toolKey,
    weight: claim.weight,
    ...(bundle === undefined ? {} : { bundle }),
    ...(python === undefined ? {} : { python }),
    ...(call.session === undefined || order.session === undefined
      ? {}
      : { session: toSession(call.session, order.session) }),
    ...(order.stream === undefined ? {} : { stream: order.stream }),
    ...(job.exclusive === true ? { exclusive: true } : {}),
    ...(job.dataBytes === undefined ? {} : { dataBytes: job.dataBytes }),
    ...(leftMs === undefined ? {} : { leftMs: Math.max(0, leftMs()) }),
    ...(order.deterministic === undefined ? {} : { deterministic: start }),
  };
  return {
    message,
    parts: [toSettingsText(order.tool), input, header, bytes, turns.length === 0 ? "" : JSON.stringify(turns)],
  };
}
