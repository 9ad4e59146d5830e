// Parses the input of a run: a conversation, or the state of a paused run with the decisions about its calls.

import { ToolError } from "../../../sandbox/contract/errors.ts";
import { parseMessages } from "../check-messages.ts";
import { mend } from "../conversation.ts";
import type { Message, ModelToolCall, ModelUsage } from "../model.ts";
import { denial, parseDecisions } from "./agent-approval-rule.ts";
import type { AgentRunInput, RunSettings } from "./agent-options.ts";
import { parseAgentState } from "./agent-state.ts";
import { claimState, readClaim } from "./idempotency-store.ts";

/** A call of a paused run, and the decision about it. */
export interface DecidedCall {
  readonly call: ModelToolCall;
  /** Digest of the tool that the decision applies to. */
  readonly toolDigest: string;
  /** The error that answers a denied call; undefined for an approved one. */
  readonly error: ToolError | undefined;
}

export interface AgentRunStart {
  readonly messages: readonly Message[];
  readonly stepCount: number;
  readonly usage: ModelUsage;
  readonly decided: readonly DecidedCall[];
}

const NO_USAGE: ModelUsage = { inputTokens: 0, outputTokens: 0 };

/** Resumes a paused run. All checks precede the claim, so that a rejected state can still be resumed later. */
async function resume(settings: RunSettings, input: AgentRunInput, signal: AbortSignal): Promise<AgentRunStart> {
  const { state, approvals, idempotencyStore } = input;
  const claim = readClaim(idempotencyStore);
  // parseRunOptions requires a key.
  const { id, tenantId, messages, stepCount, usage, pending } = await parseAgentState(
    state,
    settings.signingKey as string | Uint8Array,
    signal,
  );
  if (tenantId !== settings.context.tenantId) {
    throw new ToolError(
      "PARAM_INVALID",
      "options.state: This state belongs to a tenant other than options.context.tenantId",
    );
  }
  const callIds = pending.map(({ call }) => call.id);
  const decided = parseDecisions(approvals, callIds);
  await claimState(claim, id, signal);
  return {
    messages,
    stepCount,
    usage,
    decided: pending.map(({ call, toolDigest }) => {
      const decision = decided.get(call.id);
      return { call, toolDigest, error: decision?.approved === true ? undefined : denial(call, decision?.reason) };
    }),
  };
}

/** Returns the start of a run. Rejects with PARAM_INVALID for invalid input, and as {@link claimState} does. */
export async function startRun(
  settings: RunSettings,
  input: AgentRunInput,
  signal: AbortSignal,
): Promise<AgentRunStart> {
  const hasState = input.state !== undefined;
  if (hasState === (input.messages !== undefined)) {
    const got = hasState ? "both" : "neither";
    throw new ToolError("PARAM_INVALID", `Expected one of options.messages and options.state, got ${got}`);
  }
  if (hasState) return await resume(settings, input, signal);
  const messages = parseMessages(input.messages, "options.messages");
  return { messages: mend(messages), stepCount: 0, usage: NO_USAGE, decided: [] };
}
