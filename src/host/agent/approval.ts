// Which calls wait for somebody's word before they run, and what that word may be.
import * as z from "zod";
import { strictObject } from "../../sandbox/contract/plain-object.ts";
import { believedAnnotations, type ToolDefinition } from "../../sandbox/definition.ts";
import { ToolError } from "../../sandbox/errors.ts";
import { notifySafely } from "../util/host-callback.ts";
import type { Message, ModelToolCall } from "./model.ts";

/** A call that waits: what whoever decides is to be shown. */
export interface ApprovalRequest {
  readonly call: ModelToolCall;
  readonly definition: ToolDefinition;
}

export interface ApprovalQuestion extends ApprovalRequest {
  readonly tenantId: string | undefined;
  /** The conversation before the turn that made the call. */
  readonly messages: readonly Message[];
}

export type ApprovalPredicate = (question: ApprovalQuestion) => boolean | Promise<boolean>;

/**
 * Which calls are asked about: those of the tools named; those that a function says; or, with `"destructive"`, those of every tool whose
 * annotations do not say `readOnlyHint: true` or `destructiveHint: false` (MCP's own defaults: what says nothing may destroy).
 * Annotations are their author's word, and those of an upstream MCP server count only where the host trusts it: for tools of strangers
 * state them in the host's overrides, or give names or a function.
 */
export type ApprovalRule = "destructive" | readonly string[] | ApprovalPredicate;

function mayDestroy(definition: ToolDefinition): boolean {
  const annotations = believedAnnotations(definition);
  return annotations?.readOnlyHint !== true && annotations?.destructiveHint !== false;
}

/** Whether a call has to wait. A function that fails has not said that it need not. */
export function needsApproval(
  rule: ApprovalRule | undefined,
  question: ApprovalQuestion,
  onError: ((error: ToolError) => void) | undefined,
): boolean | Promise<boolean> {
  if (rule === undefined) return false;
  if (rule === "destructive") return mayDestroy(question.definition);
  if (typeof rule !== "function") return rule.includes(question.definition.name);
  const failed = (cause: unknown): boolean => {
    notifySafely(onError, new ToolError("INTERNAL", "needsApproval failed: the call waits for approval", { cause }));
    return true;
  };
  // What is not false is no word that the call may run.
  const isAsked = (answer: boolean): boolean => answer !== false;
  try {
    const answer = rule(question);
    return answer instanceof Promise ? answer.then(isAsked, failed) : isAsked(answer);
  } catch (thrown) {
    return failed(thrown);
  }
}

/** What was decided about a call. The model is told the reason of a refusal. */
export type ApprovalDecision = boolean | { readonly approved: boolean; readonly reason?: string | undefined };

const DecisionSchema = z.union([
  z.boolean(),
  strictObject({ approved: z.boolean(), reason: z.string().max(2_000).optional() }),
]);

/** One for each call that waits, by the call's id. */
export type ApprovalDecisions = { readonly [callId: string]: ApprovalDecision };

const refused = (message: string): ToolError => new ToolError("PARAM_INVALID", message);

/** @throws {ToolError} PARAM_INVALID unless there is one decision for each of these calls, and none for another */
export function parseDecisions(
  decisions: unknown,
  callIds: readonly string[],
): ReadonlyMap<string, Extract<ApprovalDecision, object>> {
  const parsed = z.record(z.string(), DecisionSchema).safeParse(decisions);
  if (!parsed.success) {
    throw refused("decisions: expected { [callId]: true, false or { approved, reason? } }, got something else");
  }
  const given = new Map(Object.entries(parsed.data));
  const missing = callIds.filter((id) => !given.has(id));
  const unknown = [...given.keys()].filter((id) => !callIds.includes(id));
  const show = (ids: readonly string[]): string =>
    ids
      .slice(0, 5)
      .map((id) => JSON.stringify(id.slice(0, 100)))
      .join(", ");
  if (missing.length > 0)
    throw refused(`decisions: expected one for each call that waits; there is none for ${show(missing)}`);
  if (unknown.length > 0) throw refused(`decisions: expected calls that wait, got ${show(unknown)}`);
  return new Map(
    [...given].map(([id, decision]) => [id, typeof decision === "boolean" ? { approved: decision } : decision]),
  );
}

/** What the model is told of a call that was not allowed. */
export function refusal(call: ModelToolCall, reason: string | undefined): ToolError {
  const why = reason === undefined || reason === "" ? "" : `: ${reason}`;
  return new ToolError("APPROVAL_REQUIRED", `The call of ${call.toolName} was refused, and has not been run${why}`, {
    recoverable: false,
    details: { approved: false },
  });
}
