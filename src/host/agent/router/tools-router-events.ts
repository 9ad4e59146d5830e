// Events and outcomes of a ToolsRouterAgent request.
import type { ToolErrorData } from "../../../sandbox/contract/errors.ts";
import type { Progress } from "../../../sandbox/protocol/worker-messages.ts";
import type { ToolResult } from "../../contract/tool-call.ts";
import type { ToolValue } from "../../contract/tool-value.ts";
import type { LogEntry } from "../../observability/call-log.ts";
import type { EventStream } from "../event-stream.ts";
import type { ModelUsage } from "../model.ts";
import type { RoutingDecision } from "./routing-decision.ts";

interface OutcomeBase {
  /** Text for the user: the model's answer, or the fallback. It discloses no internals. */
  readonly text: string;
  /** How often the model chose a tool, and how often a tool was run. */
  readonly attempts: { readonly routing: number; readonly tool: number };
  /** Total of all model requests, as far as the model reports it. */
  readonly usage: ModelUsage;
}

/** How a request ended. Errors are for developers; show only `text` to a user. */
export type ToolsRouterOutcome =
  | (OutcomeBase & {
      readonly status: "answered";
      readonly decision: RoutingDecision;
      /** The `output` is `null` for a tool that streamed and returned nothing; its chunks were sent as events. */
      readonly result: Extract<ToolResult, { success: true }>;
      /** Why the model did not word the answer. */
      readonly error?: ToolErrorData;
    })
  /** No tool fits. */
  | (OutcomeBase & { readonly status: "none" })
  | (OutcomeBase & { readonly status: "failed"; readonly stage: "routing"; readonly error: ToolErrorData })
  | (OutcomeBase & {
      readonly status: "failed";
      readonly stage: "tool";
      readonly error: ToolErrorData;
      readonly decision: RoutingDecision;
      readonly result: ToolResult;
    })
  | (OutcomeBase & { readonly status: "cancelled" });

/** An event of {@link ToolsRouterAgent.stream}. The last one is the `outcome`. */
export type ToolsRouterEvent =
  /** A search picked the tools that the model is shown, best match first. */
  | { readonly type: "candidates"; readonly total: number; readonly toolNames: readonly string[] }
  | { readonly type: "decision"; readonly decision: RoutingDecision; readonly attempt: number }
  /** The current stage failed. Discard its events; it starts again after `delayMs`. */
  | {
      readonly type: "retry";
      readonly stage: "routing" | "tool";
      /** Number of the retry, from 1. */
      readonly attempt: number;
      readonly delayMs: number;
      /** For developers. */
      readonly problem: string;
    }
  | { readonly type: "tool-start"; readonly callId: string; readonly toolName: string }
  | { readonly type: "tool-progress"; readonly callId: string; readonly progress: Progress }
  | { readonly type: "tool-log"; readonly callId: string; readonly entry: LogEntry }
  /** A value that the tool yielded. */
  | { readonly type: "tool-chunk"; readonly callId: string; readonly value: ToolValue }
  | { readonly type: "tool-result"; readonly result: ToolResult }
  /** A piece of the answer's text. */
  | { readonly type: "text-delta"; readonly text: string }
  /** Always the last event. */
  | ({ readonly type: "outcome" } & ToolsRouterOutcome);

/** Never rejects; its last item is the outcome. Leaving the iteration early cancels the request and waits until it has stopped. */
export type ToolsRouterStream = EventStream<ToolsRouterEvent>;
