// Approval of calls that an AgentLoop makes: decides which calls wait, and parses the host's decisions.
import * as z from "zod";
import { type ToolDefinition, trustedAnnotations } from "../../../sandbox/contract/definition.ts";
import { ToolError } from "../../../sandbox/contract/errors.ts";
import { describeKind, plainObject, strictObject } from "../../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../../config/option-errors.ts";
import { type CallbackOutcome, notifySafely, runCallback } from "../../util/host-callback.ts";
import { GUARD_TIMEOUT_MS } from "../callback-bounds.ts";
import type { Message, ModelToolCall } from "../model.ts";
import { expected } from "../option-schemas.ts";

/** A call that waits for approval, with the data to show to the person who decides. */
export interface ApprovalRequest {
  readonly call: ModelToolCall;
  readonly definition: ToolDefinition;
  /**
   * `router.digestOf` of the tool. The approval is valid for this definition and, for a sandboxed tool, for this code and these
   * capabilities. If the tool's digest differs when the run is resumed, its calls are not run and wait for approval again.
   */
  readonly toolDigest: string;
}

/** What an {@link ApprovalPredicate} receives: the call, its tool, and the conversation that led to it. */
export interface ApprovalQuestion extends ApprovalRequest {
  /** Tenant of the run; undefined with `tenancy: "single"`. */
  readonly tenantId: string | undefined;
  /** The conversation before the turn that made the call. */
  readonly messages: readonly Message[];
}

/**
 * Returns whether a call must wait. Only `false` lets it run: if a predicate throws, returns anything else, or takes longer than 30 s, the
 * call waits. `call.arguments` is always set for a function tool: a call whose text is not JSON waits without calling the predicate,
 * because the router may repair the text.
 */
export type ApprovalPredicate = (question: ApprovalQuestion) => boolean | Promise<boolean>;

/**
 * Which calls wait for approval: those of the named tools, those for which a predicate returns true, or, with `"destructive"`, those of
 * every tool whose annotations have neither `readOnlyHint: true` nor `destructiveHint: false` (MCP's defaults: a tool without annotations
 * counts as destructive). Annotations come from the tool's author, and those of an upstream MCP server count only if the host trusts it.
 * For untrusted tools, set annotations in the host's overrides, or use names or a predicate.
 */
export type ApprovalRule = "destructive" | readonly string[] | ApprovalPredicate;

function mayDestroy(definition: ToolDefinition): boolean {
  const annotations = trustedAnnotations(definition);
  return annotations?.readOnlyHint !== true && annotations?.destructiveHint !== false;
}

/** Options of {@link needsApproval} that are not part of the question. */
export interface ApprovalCheckOptions {
  readonly onError?: ((error: ToolError) => void) | undefined;
  /** Ends the wait for a predicate. */
  readonly signal: AbortSignal;
}

/** Returns whether a call must wait. Only a predicate that returns `false` lets it run; a failure makes the call wait. */
export function needsApproval(
  rule: ApprovalRule | undefined,
  question: ApprovalQuestion,
  { onError, signal }: ApprovalCheckOptions,
): boolean | Promise<boolean> {
  if (rule === undefined) return false;
  if (rule === "destructive") return mayDestroy(question.definition);
  if (typeof rule !== "function") return rule.includes(question.definition.name);
  const isNeeded = (outcome: CallbackOutcome): boolean => {
    if ("answer" in outcome && typeof outcome.answer === "boolean") return outcome.answer;
    if (signal.aborted) return true;
    const issue = "answer" in outcome ? `returned ${describeKind(outcome.answer)}` : outcome.failed;
    const cause = "answer" in outcome ? undefined : outcome.cause;
    notifySafely(onError, new ToolError("INTERNAL", `needsApproval ${issue}: the call waits for approval`, { cause }));
    return true;
  };
  const call = withArguments(question.call);
  // The router may repair text that is not JSON. A predicate would have decided without seeing the repaired arguments.
  if (call === undefined) return true;
  const outcome = runCallback(() => rule({ ...question, call }), { timeoutMs: GUARD_TIMEOUT_MS, signal });
  // Without an `await` a call that needs no approval starts while the model's stream is still read.
  return outcome instanceof Promise ? outcome.then(isNeeded) : isNeeded(outcome);
}

/** Longest arguments text in UTF-16 code units that is parsed for a predicate; a call with longer text waits. */
const MAX_PARSED_LENGTH = 1024 * 1024;

/** Returns the call with parsed arguments; undefined if its text is not JSON or is too long to parse here. */
function withArguments(call: ModelToolCall): ModelToolCall | undefined {
  const { kind, argumentsText, arguments: parsed } = call;
  if (parsed !== undefined || kind === "custom") return call;
  if (argumentsText.length > MAX_PARSED_LENGTH) return undefined;
  try {
    return { ...call, arguments: argumentsText.trim() === "" ? {} : JSON.parse(argumentsText) };
  } catch {
    return undefined;
  }
}

/** A decision about a call. The model receives the reason for a denial. */
export type ApprovalDecision = boolean | { readonly approved: boolean; readonly reason?: string | undefined };

const DecisionSchema = z.union(
  [z.boolean(), strictObject({ approved: z.boolean(), reason: z.string().max(2_000).optional() })],
  expected("true, false or { approved, reason? }"),
);
const DecisionsSchema = plainObject(z.record(z.string(), DecisionSchema));

/** One decision for each pending call, by call id. */
export type ApprovalDecisions = { readonly [callId: string]: ApprovalDecision };

const invalid = (issue: string): ToolError => new ToolError("PARAM_INVALID", `options.approvals: ${issue}`);

const MAX_SHOWN = 5;

function shownIds(ids: readonly string[]): string {
  const shown = ids.slice(0, MAX_SHOWN).map((id) => JSON.stringify(id.slice(0, 100)));
  return shown.join(", ");
}

/** @throws {ToolError} PARAM_INVALID unless each of these calls has a decision and no other call has one */
export function parseDecisions(
  approvals: unknown,
  callIds: readonly string[],
): ReadonlyMap<string, Extract<ApprovalDecision, object>> {
  const given = new Map(Object.entries(parseOptions(DecisionsSchema, approvals, "options.approvals")));
  const missing = callIds.filter((id) => !given.has(id));
  const unknown = [...given.keys()].filter((id) => !callIds.includes(id));
  if (missing.length > 0) throw invalid(`Expected a decision for each pending call, missing: ${shownIds(missing)}`);
  if (unknown.length > 0) throw invalid(`Expected decisions only for pending calls, got ${shownIds(unknown)}`);
  return new Map(
    [...given].map(([id, decision]) => [id, typeof decision === "boolean" ? { approved: decision } : decision]),
  );
}

/** Returns the answer to a call that was denied. */
export function denial(call: ModelToolCall, reason: string | undefined): ToolError {
  const why = reason === undefined || reason === "" ? "" : `: ${reason}`;
  return new ToolError("APPROVAL_REQUIRED", `The call of "${call.toolName}" was denied and not run${why}`, {
    recoverable: false,
    details: { approved: false },
  });
}
