// Approval: which calls wait for a decision before they run, and how decisions are parsed.
import * as z from "zod";
import { believedAnnotations, type ToolDefinition } from "../../sandbox/contract/definition.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { describeKind, plainObject, strictObject } from "../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../config/option-errors.ts";
import { type CallbackOutcome, notifySafely, runCallback } from "../util/host-callback.ts";
import { GUARD_TIMEOUT_MS } from "./callback-bounds.ts";
import type { Message, ModelToolCall } from "./model.ts";
import { expected } from "./option-schemas.ts";

/** A call that waits for approval: what to show to the person who decides. */
export interface ApprovalRequest {
  readonly call: ModelToolCall;
  readonly definition: ToolDefinition;
  /**
   * `router.digestOf` of the tool: the approval is valid for this definition and, for a sandboxed tool, for this code and these capabilities.
   * If the tool has another digest when the run is resumed, its calls are not run and wait for approval again.
   */
  readonly toolDigest: string;
}

export interface ApprovalQuestion extends ApprovalRequest {
  readonly tenantId: string | undefined;
  /** The conversation before the turn that made the call. */
  readonly messages: readonly Message[];
}

/**
 * Returns whether a call has to wait. Only `false` lets it run: a predicate that throws, returns anything else, or takes longer than 30 s
 * makes it wait. `call.arguments` is always there for a function: a call whose text is not JSON waits without being asked about, because
 * the router may repair it.
 */
export type ApprovalPredicate = (question: ApprovalQuestion) => boolean | Promise<boolean>;

/**
 * Which calls wait for approval: those of the named tools; those for which a function returns true; or, with `"destructive"`, those of every
 * tool whose annotations have neither `readOnlyHint: true` nor `destructiveHint: false` (MCP's defaults: a tool without annotations may
 * destroy). Annotations come from the tool's author, and those of an upstream MCP server count only if the host trusts it: for untrusted
 * tools set them in the host's overrides, or use names or a function.
 */
export type ApprovalRule = "destructive" | readonly string[] | ApprovalPredicate;

function mayDestroy(definition: ToolDefinition): boolean {
  const annotations = believedAnnotations(definition);
  return annotations?.readOnlyHint !== true && annotations?.destructiveHint !== false;
}

/** Parameters of {@link needsApproval} that are not part of the question. */
export interface ApprovalParts {
  readonly onError?: ((error: ToolError) => void) | undefined;
  /** Ends the wait for a predicate. */
  readonly signal: AbortSignal;
}

/** Returns whether a call has to wait. Only a predicate that returns `false` lets it run: failures and other answers do not. */
export function needsApproval(
  rule: ApprovalRule | undefined,
  question: ApprovalQuestion,
  { onError, signal }: ApprovalParts,
): boolean | Promise<boolean> {
  if (rule === undefined) return false;
  if (rule === "destructive") return mayDestroy(question.definition);
  if (typeof rule !== "function") return rule.includes(question.definition.name);
  const isNeeded = (outcome: CallbackOutcome): boolean => {
    if ("answer" in outcome && typeof outcome.answer === "boolean") return outcome.answer;
    if (signal.aborted) return true;
    const problem = "answer" in outcome ? `returned ${describeKind(outcome.answer)}` : outcome.failed;
    const cause = "answer" in outcome ? undefined : outcome.cause;
    notifySafely(
      onError,
      new ToolError("INTERNAL", `needsApproval ${problem}: the call waits for approval`, { cause }),
    );
    return true;
  };
  const call = withArguments(question.call);
  // The router may repair what is not JSON, and a predicate would have decided without seeing that.
  if (call === undefined) return true;
  const outcome = runCallback(() => rule({ ...question, call }), { timeoutMs: GUARD_TIMEOUT_MS, signal });
  // Without an `await` a call that needs no approval starts while the model's stream is still read.
  return outcome instanceof Promise ? outcome.then(isNeeded) : isNeeded(outcome);
}

/** Text that a predicate's question parses; a call with longer text waits. */
const MAX_PARSED_CHARS = 1024 * 1024;

/** Returns the call with its arguments parsed; undefined if its text is not JSON, or too long to be parsed here. */
function withArguments(call: ModelToolCall): ModelToolCall | undefined {
  const { kind, argumentsText, arguments: parsed } = call;
  if (parsed !== undefined || kind === "custom") return call;
  if (argumentsText.length > MAX_PARSED_CHARS) return undefined;
  try {
    return { ...call, arguments: argumentsText.trim() === "" ? {} : JSON.parse(argumentsText) };
  } catch {
    return undefined;
  }
}

/** A decision about a call. The model receives the reason of a denial. */
export type ApprovalDecision = boolean | { readonly approved: boolean; readonly reason?: string | undefined };

const DecisionSchema = z.union(
  [z.boolean(), strictObject({ approved: z.boolean(), reason: z.string().max(2_000).optional() })],
  expected("true, false or { approved, reason? }"),
);
const DecisionsSchema = plainObject(z.record(z.string(), DecisionSchema));

/** One for each call that waits, by the call's id. */
export type ApprovalDecisions = { readonly [callId: string]: ApprovalDecision };

const invalid = (problem: string): ToolError => new ToolError("PARAM_INVALID", `options.decisions: ${problem}`);

const MAX_SHOWN = 5;

function shownIds(ids: readonly string[]): string {
  const shown = ids.slice(0, MAX_SHOWN).map((id) => JSON.stringify(id.slice(0, 100)));
  return shown.join(", ");
}

/** @throws {ToolError} PARAM_INVALID unless there is one decision for each of these calls, and none for another */
export function parseDecisions(
  decisions: unknown,
  callIds: readonly string[],
): ReadonlyMap<string, Extract<ApprovalDecision, object>> {
  const given = new Map(Object.entries(parseOptions(DecisionsSchema, decisions, "options.decisions")));
  const missing = callIds.filter((id) => !given.has(id));
  const unknown = [...given.keys()].filter((id) => !callIds.includes(id));
  if (missing.length > 0) throw invalid(`Expected one for each call that waits, but ${shownIds(missing)} has none`);
  if (unknown.length > 0) throw invalid(`Expected only calls that wait, got ${shownIds(unknown)}`);
  return new Map(
    [...given].map(([id, decision]) => [id, typeof decision === "boolean" ? { approved: decision } : decision]),
  );
}

/** Returns the answer to a call that was denied. */
export function denial(call: ModelToolCall, reason: string | undefined): ToolError {
  const why = reason === undefined || reason === "" ? "" : `: ${reason}`;
  return new ToolError("APPROVAL_REQUIRED", `The call of ${call.toolName} was denied and has not been run${why}`, {
    recoverable: false,
    details: { approved: false },
  });
}
