// Approval of calls that code makes, by the rule of an AgentLoop. The host or the client decides while the code waits; without either the call
// is denied, and the host can let it through for the next run.
import { createHash, randomBytes } from "node:crypto";
import type { ToolDefinition } from "../../sandbox/contract/definition.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { isPlainObject } from "../../sandbox/contract/plain-object.ts";
import {
  type ApprovalDecision,
  type ApprovalQuestion,
  type ApprovalRule,
  needsApproval,
} from "../agent/loop/agent-approval-rule.ts";
import type { ModelToolCall } from "../agent/model.ts";
import { callOf } from "../capabilities/call-scope.ts";
import type { CapabilityContext } from "../capabilities/capability.ts";
import { elicit, whilePaused } from "../capabilities/client-requests.ts";
import { canElicit } from "../contract/client-requests.ts";
import { approvalMessage } from "../runs/call-approval.ts";
import { runCallback } from "../util/host-callback.ts";
import type { CodeApprovalRequest, CodeModeOptions } from "./options.ts";

/** A call that code wants to make. */
export interface CodeCall {
  readonly definition: ToolDefinition;
  readonly toolDigest: string;
  /** The arguments as JSON. */
  readonly args: unknown;
}

/** A call that was denied because no person could decide about it. */
export interface WaitingApproval {
  readonly id: string;
  readonly tenantId: string;
  readonly toolName: string;
  readonly arguments: unknown;
  readonly toolDigest: string;
  /** In ms since 1970. */
  readonly requestedAt: number;
}

/** Waiting calls that are kept for each code mode, and how long, in ms. */
const MAX_WAITING = 200;
/** Longest JSON text of the arguments of all waiting calls together, in UTF-16 code units: they are kept for a day, in the host's memory. */
const MAX_WAITING_LENGTH = 4 * 1024 * 1024;
const WAITING_MS = 24 * 3_600_000;
const APPROVAL_FORM = {
  type: "object",
  properties: { approve: { type: "boolean", title: "Approve", description: "Whether the call may run" } },
  required: ["approve"],
} as const;

const keyOf = (tenantId: string, toolDigest: string, argumentsText: string): string =>
  createHash("sha256")
    .update(JSON.stringify([tenantId, toolDigest]))
    .update(argumentsText)
    .digest("hex");

type CallOrigin = Pick<CapabilityContext, "tenantId" | "callId" | "signal">;

function toQuestion(
  { definition, toolDigest, args }: CodeCall,
  tenantId: string,
  callId: string,
): ApprovalQuestion & { readonly tenantId: string } {
  const call: ModelToolCall = {
    id: callId,
    toolName: definition.name,
    kind: "function",
    arguments: args,
    argumentsText: JSON.stringify(args),
  };
  return { call, definition, toolDigest, tenantId, messages: [] };
}

interface Kept extends Omit<WaitingApproval, "arguments"> {
  readonly key: string;
  /** The arguments as JSON text, which takes a small part of the memory of the value. */
  readonly argumentsText: string;
  /** Whether the host has approved it. */
  isApproved: boolean;
}

export interface ApprovalGateOptions {
  readonly rule: ApprovalRule | undefined;
  readonly onApproval: CodeModeOptions["onApproval"];
}

/** Decides about the calls of code. */
export class ApprovalGate {
  readonly #options: ApprovalGateOptions;
  readonly #waiting = new Map<string, Kept>();

  constructor(options: ApprovalGateOptions) {
    this.#options = options;
  }

  /** The calls that wait for a decision, oldest first. */
  get waiting(): readonly WaitingApproval[] {
    this.#forgetOld();
    return [...this.#waiting.values()]
      .filter(({ isApproved }) => !isApproved)
      .map(({ key: _key, isApproved: _is, argumentsText, ...shown }) => ({
        ...shown,
        arguments: JSON.parse(argumentsText) as unknown,
      }));
  }

  /** Lets a waiting call through, once, when code makes it again with the same arguments. Returns false for an unknown id. */
  approve(id: string): boolean {
    const kept = this.#waiting.get(id);
    if (kept !== undefined) kept.isApproved = true;
    return kept !== undefined;
  }

  /** Drops a waiting call. Returns false for an unknown id. */
  deny(id: string): boolean {
    return this.#waiting.delete(id);
  }

  /** Drops the calls of a tenant that was deleted, also those that were approved. */
  deleteTenant(tenantId: string): void {
    for (const kept of [...this.#waiting.values()]) if (kept.tenantId === tenantId) this.#waiting.delete(kept.id);
  }

  /** Returns whether a person must approve the call. */
  async isNeeded(call: CodeCall, { tenantId, callId, signal }: CallOrigin): Promise<boolean> {
    return await this.#isNeeded(toQuestion(call, tenantId, callId), signal);
  }

  async #isNeeded(question: ApprovalQuestion, signal: AbortSignal): Promise<boolean> {
    return await needsApproval(this.#options.rule, question, { signal });
  }

  /** Whether the host's function decides while the code waits. */
  get decidesAtOnce(): boolean {
    return this.#options.onApproval !== undefined;
  }

  /** @throws {ToolError} APPROVAL_REQUIRED if the call is denied, or waits for a decision */
  async check(call: CodeCall, context: CapabilityContext): Promise<void> {
    const { definition, toolDigest } = call;
    const { tenantId, callId, signal } = context;
    const question = toQuestion(call, tenantId, callId);
    if (!(await this.#isNeeded(question, signal))) return;
    const { argumentsText } = question.call;
    const key = keyOf(tenantId, toolDigest, argumentsText);
    const earlier = [...this.#waiting.values()].find((kept) => kept.key === key);
    if (earlier?.isApproved === true) {
      this.#waiting.delete(earlier.id);
      return;
    }
    const id = earlier?.id ?? `approval_${randomBytes(9).toString("base64url")}`;
    const decision = await this.#decide({ ...question, id, signal }, context);
    if (decision === undefined)
      throw this.#keep({ id, key, tenantId, toolName: definition.name, toolDigest, argumentsText });
    const { approved, reason } = typeof decision === "boolean" ? { approved: decision, reason: undefined } : decision;
    if (approved === true) return;
    const why = reason === undefined ? "" : `: ${reason}`;
    throw new ToolError("APPROVAL_REQUIRED", `The call of "${definition.name}" was denied and not run${why}`, {
      recoverable: false,
    });
  }

  /** Returns the decision; undefined if no person can decide. */
  async #decide(request: CodeApprovalRequest, context: CapabilityContext): Promise<ApprovalDecision | undefined> {
    const { onApproval } = this.#options;
    if (onApproval !== undefined) {
      const { signal } = request;
      const call = callOf(context);
      const { clientWaitMs } = call.limits;
      const asking = runCallback(() => onApproval(request), { timeoutMs: clientWaitMs, signal });
      const outcome = asking instanceof Promise ? await whilePaused(call, context, asking) : asking;
      return "answer" in outcome ? readDecision(outcome.answer) : false;
    }
    if (!canElicit(callOf(context).context.client)) return undefined;
    const message = approvalMessage("The code", request.definition.name, request.call.argumentsText);
    const key = `approval.${createHash("sha256").update(message).digest("hex").slice(0, 32)}`;
    try {
      const { action, content } = await elicit({ message, requestedSchema: APPROVAL_FORM, key } as never, context);
      return action === "accept" && content?.approve === true;
    } catch (thrown) {
      // A client that has no elicitation cannot decide. Any other failure denies.
      return Error.isError(thrown) && thrown instanceof ToolError && thrown.code === "CAPABILITY_DENIED"
        ? undefined
        : false;
    }
  }

  #keep(call: Omit<Kept, "requestedAt" | "isApproved">): ToolError {
    const { id, toolName, argumentsText } = call;
    if (argumentsText.length > MAX_WAITING_LENGTH) {
      const tooLong = `The call of "${toolName}" needs approval and was not run: its arguments have more than ${MAX_WAITING_LENGTH} characters, which is too long to wait for a decision`;
      return new ToolError("APPROVAL_REQUIRED", tooLong, { recoverable: false, details: { tool: toolName } });
    }
    this.#forgetOld();
    this.#waiting.set(id, { ...call, requestedAt: Date.now(), isApproved: false });
    this.#makeRoom(id);
    const message = `The call of "${toolName}" needs approval (${id}) and was not run. Run the code again when it is approved`;
    return new ToolError("APPROVAL_REQUIRED", message, { details: { approvalId: id, tool: toolName } });
  }

  /** Drops the oldest calls for a new one: those without a decision first, since code may make any number of calls. */
  #makeRoom(newId: string): void {
    const others = [...this.#waiting.values()].filter(({ id }) => id !== newId);
    const oldest = [
      ...others.filter(({ isApproved }) => !isApproved),
      ...others.filter(({ isApproved }) => isApproved),
    ];
    let length = [...this.#waiting.values()].reduce((sum, { argumentsText }) => sum + argumentsText.length, 0);
    for (const { id, argumentsText } of oldest) {
      if (this.#waiting.size <= MAX_WAITING && length <= MAX_WAITING_LENGTH) return;
      this.#waiting.delete(id);
      length -= argumentsText.length;
    }
  }

  #forgetOld(): void {
    const oldest = Date.now() - WAITING_MS;
    for (const { id, requestedAt } of this.#waiting.values()) if (requestedAt < oldest) this.#waiting.delete(id);
  }
}

/** Only `true` and `{ approved: true }` approve. */
function readDecision(answer: unknown): Exclude<ApprovalDecision, boolean> {
  if (answer === true) return { approved: true };
  if (!isPlainObject(answer)) return { approved: false };
  const { approved, reason } = answer as { readonly approved?: unknown; readonly reason?: unknown };
  return { approved: approved === true, ...(typeof reason === "string" ? { reason: reason.slice(0, 2_000) } : {}) };
}
