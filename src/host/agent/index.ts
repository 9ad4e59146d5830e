// The whole public surface of "glovebox/agent".
/// <reference types="node" preserve="true" />

export { type ConversationProblem, checkConversation, repairConversation, trimConversation } from "./conversation.ts";
export type {
  ApprovalDecision,
  ApprovalDecisions,
  ApprovalPredicate,
  ApprovalQuestion,
  ApprovalRequest,
  ApprovalRule,
} from "./loop/agent-approval-rule.ts";
export type { AgentContext } from "./loop/agent-context.ts";
export type { AgentEvent, AgentOutcome, AgentStream } from "./loop/agent-events.ts";
export { type AgentJournal, type AgentJournalOptions, openAgentJournal } from "./loop/agent-journal.ts";
export { AgentLoop } from "./loop/agent-loop.ts";
export type { AgentLoopOptions, AgentRunOptions } from "./loop/agent-options.ts";
export type { AgentState, PendingApproval } from "./loop/agent-state.ts";
export {
  createFileIdempotencyStore,
  createMemoryIdempotencyStore,
  type IdempotencyStore,
} from "./loop/idempotency-store.ts";
export type { SingleCall, SingleTurn } from "./loop/single-turn.ts";
export {
  type AgentStep,
  afterFailedSteps,
  afterOutputTokens,
  allOf,
  anyOf,
  type StopCondition,
  type StopState,
  whenCalled,
  whenSucceeded,
} from "./loop/stop-conditions.ts";
export type {
  AssistantMessage,
  AssistantPart,
  FinishReason,
  Message,
  Model,
  ModelEvent,
  ModelRequest,
  ModelToolCall,
  ModelUsage,
} from "./model.ts";
export type { RoutingDecision } from "./router/routing-decision.ts";
export { ToolsRouterAgent } from "./router/tools-router-agent.ts";
export type { ToolsRouterEvent, ToolsRouterOutcome, ToolsRouterStream } from "./router/tools-router-events.ts";
export type { Fallback, FallbackStage, ToolsRequest, ToolsRouterOptions } from "./router/tools-router-options.ts";
export type { AgentRouter } from "./tools/call-tool.ts";
export type { ToolFilter } from "./tools/offered-tools.ts";
