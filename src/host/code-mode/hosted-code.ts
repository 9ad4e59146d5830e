// What a server uses of code mode to run the code of its tenants in durable runs of its own.
import type { Glovebox } from "../glovebox/glovebox.ts";
import type { CodeHost } from "./code-host.ts";
import { CodeMode } from "./code-mode.ts";
import { type CodeModeOptions, parseCodeModeOptions } from "./options.ts";

export type { CodeHost } from "./code-host.ts";
export { noSuchRun, toFailedOutput, toOpenOutput } from "./code-runs.ts";
export { RUN_CODE } from "./run-definition.ts";

/**
 * Creates a code mode whose durable runs a server starts and keeps: each call of `run_code` is an attempt of such a run.
 * @throws {ToolError} as {@link createCodeMode}
 */
export function createHostedCodeMode(
  glovebox: Glovebox,
  options: Omit<CodeModeOptions, "runs" | "needsApproval" | "onApproval">,
  hosted: CodeHost,
): CodeMode {
  return new CodeMode(glovebox, parseCodeModeOptions(options), hosted);
}
