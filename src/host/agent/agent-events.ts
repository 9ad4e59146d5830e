// What a run tells as it goes, and how it ended: plain data for a program's own interface.
import type { ToolErrorData } from "../../sandbox/contract/errors.ts";
import type { Progress } from "../../sandbox/protocol/messages.ts";
import type { ToolResult } from "../contract/tool-call.ts";
import type { LogEntry } from "../observability/call-log.ts";
import type { AgentState } from "./agent-state.ts";
import type { ApprovalRequest } from "./approval.ts";
import type { EventStream } from "./event-stream.ts";
import type { FinishReason, Message, ModelToolCall, ModelUsage } from "./model.ts";
import type { AgentStep } from "./stop-conditions.ts";

interface OutcomeBase {
  /** The whole conversation. Each call in it has its answer, unless the run is paused. */
  readonly messages: readonly Message[];
  /** What the model said in its last turn. */
  readonly text: string;
  /** Those of this run. */
  readonly steps: readonly AgentStep[];
  /** Of all steps, as far as the model has told, with those before a pause. */
  readonly usage: ModelUsage;
}

/** How a run ended. */
export type AgentOutcome =
  | (OutcomeBase & {
      readonly status: "finished";
      /** `stop-condition` and `max-steps`: it could have gone on. Else what the model said. */
      readonly reason: FinishReason | "stop-condition" | "max-steps";
    })
  /** Calls wait for approval; all others of the turn have been run. */
  | (OutcomeBase & {
      readonly status: "paused";
      readonly approvals: readonly ApprovalRequest[];
      readonly state: AgentState;
    })
  | (OutcomeBase & { readonly status: "cancelled" })
  /** The model failed, or something that the host gave; never because of a tool. */
  | (OutcomeBase & { readonly status: "failed"; readonly error: ToolErrorData });

/** What a run tells as it goes. `step` counts the model's turns from 1. */
export type AgentEvent =
  | { readonly type: "step-start"; readonly step: number }
  | { readonly type: "text-delta"; readonly step: number; readonly text: string }
  /** The model has made a call. */
  | { readonly type: "tool-call"; readonly step: number; readonly call: ModelToolCall }
  /** It runs: at once, or when a place is free. A call that cannot be run has a result without it. */
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
  /** The turn is over and its calls are answered, but for those that wait. */
  | ({ readonly type: "step-end"; readonly step: number } & AgentStep)
  /** The model's stream broke off. The run goes on where complete calls had come of it. */
  | { readonly type: "error"; readonly step: number; readonly error: ToolErrorData }
  /** The last one. */
  | ({ readonly type: "outcome" } & AgentOutcome);

/** Never rejects; its last item is the outcome. To leave it early cancels the run, and waits until nothing of it runs. */
export type AgentStream = EventStream<AgentEvent>;
