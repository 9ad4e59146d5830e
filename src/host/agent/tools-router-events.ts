// What a routed request tells as it goes, and how it ended.
import type { ToolErrorData } from "../../sandbox/contract/errors.ts";
import type { Progress } from "../../sandbox/protocol/messages.ts";
import type { ToolResult } from "../contract/tool-call.ts";
import type { ToolValue } from "../contract/tool-value.ts";
import type { LogEntry } from "../observability/call-log.ts";
import type { EventStream } from "./event-stream.ts";
import type { ModelUsage } from "./model.ts";
import type { RoutingDecision } from "./routing-decision.ts";

interface OutcomeBase {
  /** For the user: the model's answer, or the fallback; it says nothing of how things work inside. */
  readonly text: string;
  /** How often the model was asked to choose, and the tool was run. */
  readonly attempts: { readonly routing: number; readonly tool: number };
  /** Of all that the model was asked, as far as it has told. */
  readonly usage: ModelUsage;
}

/** How a request ended. Errors are for developers; `text` is what a user may see. */
export type ToolsRouterOutcome =
  | (OutcomeBase & {
      readonly status: "answered";
      readonly decision: RoutingDecision;
      /** Its output is `null` for a tool that streamed and returned nothing: what it yielded was told as events. */
      readonly result: Extract<ToolResult, { success: true }>;
      /** Why the model did not put it into words. */
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

export type ToolsRouterEvent =
  /** A search has chosen the tools that the model is shown; the best first. */
  | { readonly type: "candidates"; readonly total: number; readonly toolNames: readonly string[] }
  | { readonly type: "decision"; readonly decision: RoutingDecision; readonly attempt: number }
  /** What came of the stage so far is void, and it is begun again after `delayMs`. */
  | {
      readonly type: "retry";
      readonly stage: "routing" | "tool";
      /** Of the retry, from 1. */
      readonly attempt: number;
      readonly delayMs: number;
      /** For developers. */
      readonly problem: string;
    }
  | { readonly type: "tool-start"; readonly callId: string; readonly toolName: string }
  | { readonly type: "tool-progress"; readonly callId: string; readonly progress: Progress }
  | { readonly type: "tool-log"; readonly callId: string; readonly entry: LogEntry }
  /** What the tool has yielded. */
  | { readonly type: "tool-chunk"; readonly callId: string; readonly value: ToolValue }
  | { readonly type: "tool-result"; readonly result: ToolResult }
  /** Of the answer. */
  | { readonly type: "text-delta"; readonly text: string }
  /** The last one. */
  | ({ readonly type: "outcome" } & ToolsRouterOutcome);

/** Never rejects; its last item is the outcome. To leave it early cancels the request, and waits until nothing of it runs. */
export type ToolsRouterStream = EventStream<ToolsRouterEvent>;
