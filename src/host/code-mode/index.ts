// Entry point of "glovebox/code-mode": two tools that stand for all tools of a tenant, and the type checker and declarations behind them.
/// <reference types="node" preserve="true" />
export { type CodeApi, type CodeTool, createCodeApi } from "./api/code-api.ts";
export type { CodePath } from "./api/code-names.ts";
export type { WaitingApproval } from "./code-approvals.ts";
export { CodeMode, createCodeMode } from "./code-mode.ts";
export {
  CODE_LANGUAGES,
  type CodeApprovalRequest,
  type CodeLanguage,
  type CodeModeOptions,
  type StoredValueOptions,
} from "./options.ts";
export type { RunOutput, RunStatus } from "./run-result.ts";
export { DETAILS, type SearchDetail, type SearchRequest } from "./search-tools.ts";
export type { CodeDiagnostic } from "./type-checker/diagnostics.ts";
export {
  type CheckOutcome,
  type CheckRequest,
  TypeChecker,
  type TypeCheckerOptions,
} from "./type-checker/type-checker.ts";
