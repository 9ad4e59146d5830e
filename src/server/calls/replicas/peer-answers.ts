// Converts the messages between replicas about a call: its events, its record, and the reason why it was not run.
import { type ErrorDetails, ToolError } from "../../../host/index.ts";
import type { CallRow, WholeCall } from "../../records/calls/calls.ts";
import { PeerProtocolError } from "../../replicas/peers/frames.ts";
import {
  type AnswerMessage,
  type DeclineReason,
  RESULT_TEXTS,
  ResultRowSchema,
  type ResultText,
} from "../../replicas/peers/messages.ts";
import type { CallRequest } from "../call-request.ts";
import { keyRevokedError, tenantDeletedError } from "../call-results.ts";
import { inputTextOf } from "../input-text.ts";
import type { StreamSink } from "../running/journaled-call-runner.ts";

type MessageOf<Type extends AnswerMessage["type"]> = Extract<AnswerMessage, { readonly type: Type }>;
type EventMessage = MessageOf<"alive" | "log" | "progress" | "chunk">;
/** A message that ends a call, apart from its record. */
export type LastMessage = MessageOf<"declined" | "waiting" | "conflict" | "thrown">;

const EVENTS: ReadonlySet<AnswerMessage["type"]> = new Set(["alive", "log", "progress", "chunk"]);

/** Whether the call goes on after a message. */
export const isEvent = (message: Exclude<AnswerMessage, MessageOf<"result">>): message is EventMessage =>
  EVENTS.has(message.type);

/** Passes an event on to the client that waits for the call. @throws {PeerProtocolError} for a chunk that is not JSON */
export function passOn(message: EventMessage, texts: readonly string[], sink: StreamSink | undefined): void {
  switch (message.type) {
    case "log":
      sink?.onLog(message.entry as Parameters<StreamSink["onLog"]>[0]);
      break;
    case "progress":
      sink?.onProgress(message.progress);
      break;
    case "chunk": {
      const [text = ""] = texts;
      try {
        sink?.onChunk(JSON.parse(text));
      } catch {
        throw new PeerProtocolError("A chunk is not JSON");
      }
    }
  }
}

/** Returns the error of a call that another replica has not run; undefined if its session has to be looked for again. */
export function declinedError(reason: DeclineReason, { tool_name }: Pick<CallRow, "tool_name">): ToolError | undefined {
  switch (reason) {
    case "busy":
      return overloadedError(`The replica with the session of "${tool_name}" runs too many calls of others`);
    case "no_tenant":
      return tenantDeletedError();
    case "key_revoked":
      return keyRevokedError();
    case "stopping":
    case "expired":
    case "not_home":
      return undefined;
  }
}

const RETRY_AFTER_MS = 1_000;

/** Returns the error of a call for which there is no room. */
export const overloadedError = (message: string): ToolError =>
  new ToolError("OVERLOADED", message, { details: { retryAfterMs: RETRY_AFTER_MS } });

/** Returns the error with which a request has failed at the other replica. */
export const toThrown = ({ code, message, recoverable, details }: MessageOf<"thrown">): ToolError =>
  new ToolError(code, message, { recoverable, ...(details === undefined ? {} : { details: details as ErrorDetails }) });

/** Returns the message with the record of a call, and its texts. */
export function toResult(
  call: WholeCall,
  request: CallRequest,
): { readonly message: MessageOf<"result">; readonly texts: readonly string[] } {
  const { timeline: _, ...all } = call;
  // The other replica has the input of its own request.
  const hasInput = call.input !== inputTextOf(request.input);
  const kept = RESULT_TEXTS.filter((name) => all[name] != null && (name !== "input" || hasInput));
  // Not those that a later release has added to the table.
  const names = Object.keys(ResultRowSchema.shape) as (keyof typeof ResultRowSchema.shape)[];
  const row = ResultRowSchema.parse(Object.fromEntries(names.map((name) => [name, all[name]])));
  return {
    message: { type: "result", row, hasInput, texts: [...kept] },
    texts: kept.map((name) => all[name] as string),
  };
}

/**
 * Returns the record of a call from a message.
 * @param own the row that the call was to have
 * @throws {PeerProtocolError} for the record of another tenant, or one whose texts are missing
 */
export function toWholeCall(
  { row, texts: names, hasInput }: MessageOf<"result">,
  texts: readonly string[],
  own: CallRow,
  request: CallRequest,
): WholeCall {
  if (row.tenant_id !== own.tenant_id || row.tool_name !== own.tool_name || texts.length !== names.length)
    throw new PeerProtocolError("The record is not that of the call");
  const none = Object.fromEntries(RESULT_TEXTS.map((name) => [name, null])) as { readonly [Name in ResultText]: null };
  const given = Object.fromEntries(names.map((name, index) => [name, texts[index] ?? null]));
  return { ...row, ...none, timeline: null, ...(hasInput ? {} : { input: inputTextOf(request.input) }), ...given };
}
