// The whole public surface of "glovebox/agent".
/// <reference types="node" preserve="true" />

export type {
  ApprovalDecision,
  ApprovalDecisions,
  ApprovalPredicate,
  ApprovalQuestion,
  ApprovalRequest,
  ApprovalRule,
} from "./agent-approval-rule.ts";
export type { AgentContext } from "./agent-context.ts";
export type { AgentEvent, AgentOutcome, AgentStream } from "./agent-events.ts";
export { type AgentJournal, type AgentJournalOptions, openAgentJournal } from "./agent-journal.ts";
export { AgentLoop } from "./agent-loop.ts";
export type { AgentLoopOptions, AgentRunOptions } from "./agent-options.ts";
export type { AgentState, PendingApproval } from "./agent-state.ts";
export type { AgentRouter } from "./call-tool.ts";
export { type ConversationProblem, checkConversation, repairConversation, trimConversation } from "./conversation.ts";
export {
  createFileIdempotencyStore,
  createMemoryIdempotencyStore,
  type IdempotencyStore,
} from "./idempotency-store.ts";
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
export type { ToolFilter } from "./offered-tools.ts";
export type { RoutingDecision } from "./routing-decision.ts";
export type { SingleCall, SingleTurn } from "./single-turn.ts";
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
} from "./stop-conditions.ts";
export { ToolsRouterAgent } from "./tools-router-agent.ts";
export type { ToolsRouterEvent, ToolsRouterOutcome, ToolsRouterStream } from "./tools-router-events.ts";
export type { Fallback, FallbackStage, ToolsRequest, ToolsRouterOptions } from "./tools-router-options.ts";
