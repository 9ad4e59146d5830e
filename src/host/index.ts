// Re-exports the public API of the "glovebox" package.
/// <reference types="node" preserve="true" />
export type { BuiltinToolName } from "../bundler/artifacts/builtin-bundles.ts";
export type { ToolBundle, ToolSource } from "../bundler/tool-bundle.ts";
export type { CapabilityRequests } from "../sandbox/contract/capability-requests.ts";
export type { ContentAnnotations, ContentPart } from "../sandbox/contract/content.ts";
export type {
  DefinitionOverrides,
  JsonSchema,
  ToolDefinition,
  ToolOrigin,
} from "../sandbox/contract/definition.ts";
export { ENGINE_FEATURES, type EngineFeature } from "../sandbox/contract/engine-features.ts";
export {
  ERROR_CODES,
  type ErrorAudience,
  type ErrorCode,
  type ErrorDetails,
  type ErrorPolicy,
  type JsonValue,
  ToolError,
  type ToolErrorData,
  UNAVAILABLE_REASONS,
  type UnavailablePolicy,
  type UnavailableReason,
  unavailable,
} from "../sandbox/contract/errors.ts";
export { LIMITS, type LimitName, type Limits, type PartialLimits } from "../sandbox/contract/limits.ts";
export type { ToolAnnotations } from "../sandbox/contract/tool-annotations.ts";
export type { IsolateLifetime, LogLevel } from "../sandbox/protocol/message-fields.ts";
export type { Progress } from "../sandbox/protocol/worker-messages.ts";
export { type FailedCall, toHttpStatus, toRetryAfterSeconds } from "./adapters/http-status.ts";
export { type OpenApiDocument, type OpenApiOptions, toCallSchema, toOpenApi } from "./adapters/openapi.ts";
export {
  type Capability,
  type CapabilityContext,
  type CapabilityOptions,
  type CapabilitySchema,
  defineCapability,
} from "./capabilities/capability.ts";
export type { EgressAllow, EgressOptions, SecretOptions, Secrets } from "./capabilities/fetch/egress-policy.ts";
export {
  findBlockedRange,
  type GuardedRequest,
  type GuardedResponse,
  sendGuardedRequest,
} from "./capabilities/fetch/guarded-request.ts";
export type {
  KvDeleteOutcome,
  KvDeletion,
  KvEntry,
  KvListOptions,
  KvPage,
  KvQuota,
  KvSetOutcome,
  KvSpace,
  KvStore,
  KvTenantEntry,
  KvValue,
  KvWrite,
} from "./capabilities/kv/kv-store.ts";
export type {
  EngineOptions,
  GloveboxOptions,
  Hardening,
  Placement,
  ShutdownSignal,
  ToolsOptions,
  ToolWarning,
} from "./config/glovebox-options.ts";
export type { AddToolOptions, ToolInput, ToolInspection, UpdateToolOptions } from "./config/tool-options.ts";
export type {
  CallClient,
  ElicitRequest,
  ElicitResult,
  ListRootsResult,
  SampleRequest,
  SampleResult,
} from "./contract/client-requests.ts";
export { createToolFailureMessage } from "./contract/failure-message.ts";
export type { SpanDetails, TimelineSpan } from "./contract/timeline-span.ts";
export type {
  CallContext,
  CallerQuotas,
  NestedCall,
  NestedCallObserver,
  NestedCallStart,
  ToolCall,
  ToolInvocation,
  ToolResult,
  ToolUsage,
} from "./contract/tool-call.ts";
export type { StreamedResult, StreamItem, ToolChunk, ToolStream } from "./contract/tool-stream.ts";
export { type ToolValue, toJson } from "./contract/tool-value.ts";
export type { SourceKind } from "./executors/executor.ts";
export type { HostFunction, HostFunctionContext } from "./executors/host-function.ts";
export type {
  DrainOutcome,
  ExecutorInfo,
  ExecutorQueue,
  FleetState,
  LostExecutor,
} from "./fleet/control/fleet-state.ts";
export type { FleetEvent } from "./fleet/fleet-events.ts";
export type { ExecutorsOptions } from "./fleet/fleet-options.ts";
export { createGlovebox } from "./glovebox/create-glovebox.ts";
export type { Glovebox } from "./glovebox/glovebox.ts";
export type { ReleaseVersion, StoredCode } from "./glovebox/tool-releases.ts";
export type { McpManager } from "./mcp/client/manager.ts";
export type {
  McpAuthProvider,
  McpElicitationHook,
  McpHttpServer,
  McpOptions,
  McpRequestContext,
  McpSamplingHook,
  McpStdioServer,
  UpstreamServerOptions,
} from "./mcp/client/mcp-options.ts";
export type { McpOAuthOptions } from "./mcp/client/oauth/oauth-options.ts";
export type { ServerDiagnostics } from "./mcp/client/server-diagnostics.ts";
export type { ServerLayer, ServerSandbox } from "./mcp/client/server-sandbox.ts";
export type { McpServerStatus, McpToolIssue } from "./mcp/client/upstream-server.ts";
export type { LogEntry, LogListener } from "./observability/call-log.ts";
export type {
  AfterExecuteEvent,
  CapabilityEvent,
  CapabilityResultEvent,
  ExecuteEvent,
  Hook,
  HookCall,
  HookStage,
  ModifiedResult,
  ObservedEvent,
  PrepareEvent,
  Rejection,
  ResultEvent,
  ValidateEvent,
} from "./observability/hooks/hook-events.ts";
export type { LoggerOption } from "./observability/operator-log.ts";
export { createRedactor, type RedactOptions, redact } from "./observability/redaction/value-redactor.ts";
export type { TelemetryOptions } from "./observability/telemetry/telemetry-options.ts";
export type { ArgumentOptions, Coercion } from "./pipeline/coercion.ts";
export { digestOfTool } from "./pipeline/tool-digest.ts";
export type { JsonChange } from "./recording/json-changes.ts";
export type { RecordOptions } from "./recording/record-options.ts";
export type { ReplayMatch } from "./recording/recorded-answers.ts";
export { type CallRecording, parseRecording } from "./recording/recording.ts";
export { redactRecording } from "./recording/redact-recording.ts";
export type { RehearsalGroup, RehearsalOptions, RehearsalReport, ResourceChange } from "./recording/rehearsal.ts";
export type { ChunkDifference, ReplayedCall, ReplayOptions, ReplayVerdict } from "./recording/replay-call.ts";
export type { CircuitState } from "./routing/health/circuit.ts";
export type { HealthOptions, SourceHealth } from "./routing/health/source-health.ts";
export type { ListedTool, ToolMetadata } from "./routing/listed-tool.ts";
export { matchesName } from "./routing/name-wildcard.ts";
export type { CallInfo, CallState } from "./routing/open-calls.ts";
export type { OpenTimeline } from "./routing/open-timeline.ts";
export type { BatchContext } from "./routing/read-batch.ts";
export type { HostInput, HostSchema, HostToolDefinition, RegisterOptions } from "./routing/registration.ts";
export { MemoryToolRegistry, type RegisteredTool, type ToolRegistry } from "./routing/registry.ts";
export type { ToolRouterOptions } from "./routing/router-options.ts";
export type { SessionScope, TenantScope } from "./routing/tenant-scope.ts";
export type { FlagClient, FlagContext, FlagFunction, Flags } from "./routing/tool-gate.ts";
export { ToolInvoker, type ToolInvokerOptions } from "./routing/tool-invoker.ts";
export { ToolRouter } from "./routing/tool-router.ts";
export type { AddedToolProvider, SourceDiscovery, SourceToolOptions, SourceTransport } from "./routing/tool-source.ts";
export { MemoryRunStore } from "./runs/memory-run-store.ts";
export type { RunContext, RunStart, RunStarter, RunsOptions, TenantRunLimits } from "./runs/run-options.ts";
export type { RunCompensation } from "./runs/run-rollback.ts";
export type { RunSignal } from "./runs/run-signal.ts";
export type {
  DueFilter,
  NewRun,
  RunClaim,
  RunFilter,
  RunKey,
  RunLease,
  RunRecord,
  RunRelease,
  RunState,
  RunStore,
} from "./runs/run-store.ts";
export type { RunWait } from "./runs/run-wait.ts";
export { createRuns, Runs } from "./runs/runs.ts";
export { SqliteRunStore } from "./runs/sqlite-run-store.ts";
export type { Session, SessionRunOptions } from "./sessions/session.ts";
export type { SessionOptions } from "./sessions/session-options.ts";
export type { SessionInfo } from "./sessions/session-state.ts";
export type { TenantCacheOptions } from "./tenants/policy-cache.ts";
export type { PeriodQuotas, QuotaOptions, RateLimitOptions } from "./tenants/quotas/quota-options.ts";
export type { QuotaCharge, QuotaOutcome, QuotaStore, RateCharge, WindowCharge } from "./tenants/quotas/quota-store.ts";
export type { TenancyMode, TenantFilter, ToolOwner } from "./tenants/tenancy.ts";
export type { SuspendOptions, TenantDeletion } from "./tenants/tenant-lifecycle.ts";
export { checkTenantOptions, type TenantLookup, type TenantOptions, type Tenants } from "./tenants/tenant-policies.ts";
export { type HardeningReport, LAYERS, type Layer, type LayerState } from "./workers/hardening/layers.ts";
export type { QuarantinedTool } from "./workers/health/crash-quarantine.ts";
export type { WorkerIsolates } from "./workers/process/worker-contents.ts";
export type { WorkerInfo } from "./workers/worker-info.ts";
