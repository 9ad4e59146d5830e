// Events and outcomes of an AgentLoop run, as plain data.
import type { ToolErrorData } from "../../../sandbox/contract/errors.ts";
import type { Progress } from "../../../sandbox/protocol/worker-messages.ts";
import type { ToolResult } from "../../contract/tool-call.ts";
import type { LogEntry } from "../../observability/call-log.ts";
import type { EventStream } from "../event-stream.ts";
import type { FinishReason, Message, ModelToolCall, ModelUsage } from "../model.ts";
import type { ApprovalRequest } from "./agent-approval-rule.ts";
import type { AgentState } from "./agent-state.ts";
import type { AgentStep } from "./stop-conditions.ts";

interface OutcomeBase {
  /** The whole conversation. Each call in it has its answer, unless the run is paused. */
  readonly messages: readonly Message[];
  /** Text of the model's last turn. */
  readonly text: string;
  /** Steps of this run. */
  readonly steps: readonly AgentStep[];
  /** Total of all steps, including those before a pause, as far as the model reports it. */
  readonly usage: ModelUsage;
}

/** How a run ended. */
export type AgentOutcome =
  | (OutcomeBase & {
      readonly status: "finished";
      /** `stop-condition` and `max-steps` mean that the run could have gone on; otherwise the reason that the model gave. */
      readonly reason: FinishReason | "stop-condition" | "max-steps";
    })
  /** Calls wait for approval; all other calls of the turn have run. */
  | (OutcomeBase & {
      readonly status: "paused";
      readonly approvalRequests: readonly ApprovalRequest[];
      readonly state: AgentState;
    })
  | (OutcomeBase & { readonly status: "cancelled" })
  /** The model or a host function failed. A failing tool never fails the run. */
  | (OutcomeBase & { readonly status: "failed"; readonly error: ToolErrorData });

/** An event of a run. `step` counts the model's turns from 1. */
export type AgentEvent =
  | { readonly type: "step-start"; readonly step: number }
  | { readonly type: "text-delta"; readonly step: number; readonly text: string }
  /** The model completed a call. */
  | { readonly type: "tool-call"; readonly step: number; readonly call: ModelToolCall }
  /** The call starts, once a concurrency slot is free. A call that cannot run has a result without this event. */
  | { readonly type: "tool-start"; readonly step: number; readonly callId: string; readonly toolName: string }
  | {
      readonly type: "tool-progress";
      readonly step: number;
      readonly callId: string;
      readonly toolName: string;
      readonly progress: Progress;
    }
  | {
      readonly type: "tool-log";
      readonly step: number;
      readonly callId: string;
      readonly toolName: string;
      readonly entry: LogEntry;
    }
  | { readonly type: "tool-result"; readonly step: number; readonly result: ToolResult }
  | ({ readonly type: "approval-request"; readonly step: number } & ApprovalRequest)
  /** The turn ended, and all its calls have an answer except those that wait for approval. */
  | ({ readonly type: "step-end"; readonly step: number } & AgentStep)
  /** The model's stream failed. The run goes on if it contained complete calls. */
  | { readonly type: "error"; readonly step: number; readonly error: ToolErrorData }
  /** Always the last event. */
  | ({ readonly type: "outcome" } & AgentOutcome);

/** Never rejects; its last item is the outcome. Leaving the iteration early cancels the run and waits until it has stopped. */
export type AgentStream = EventStream<AgentEvent>;
