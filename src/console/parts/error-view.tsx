// The error of a call: its code and message, the author's lines around the place where it happened, and its stack trace.
import type { JSX } from "preact";
import { toVisibleText } from "../../host/util/visible-text.ts";
import { JsonView } from "./values/json-view.tsx";

export interface StoredError {
  readonly code: string;
  readonly message: string;
  readonly stack?: string;
  readonly details?: { readonly file?: unknown; readonly line?: unknown } & { readonly [name: string]: unknown };
}

/** The files of a tool by path. */
export type SourceFiles = { readonly [path: string]: string };

const LINES_AROUND = 3;

/** What to do about an error, by its code. */
const ADVICE: { readonly [code: string]: string } = {
  APPROVAL_REQUIRED: "Someone with the scope calls:approve must approve this call. See Approvals.",
  BUNDLE_FAILED: "Correct the code at the place that the message names, and deploy it again.",
  CAPABILITY_DENIED:
    "Request the capability in the tool (export const capabilities), allow it in the tenant's policy, and approve the version.",
  CPU_LIMIT: "Make the tool compute less, or raise limits.cpuMs in the tenant's policy.",
  INTERNAL: "The server's log has the cause. Run the call again; if it fails again, report it with the id of the call.",
  MEMORY_LIMIT: "Make the tool hold less at a time, or raise limits.memoryMiB in the tenant's policy.",
  OUTPUT_INVALID: "Make the tool return what its outputSchema describes, or change the schema.",
  OUTPUT_TOO_LARGE:
    "Return less, for example a page of the result, or raise limits.outputBytes in the tenant's policy.",
  OVERLOADED: "Too many calls run or wait. Call again later, or raise the limits of concurrent and queued calls.",
  PARAM_INVALID: "Correct the input, and call again. The tool did not run.",
  QUOTA_EXCEEDED: "Wait until the quota resets, or raise it in the tenant's settings.",
  SANDBOX_CRASHED:
    "The process of the call ended. Look for much memory or deep recursion in the tool, and run the call again.",
  TOOL_FAILED: "The tool threw this error. The stack trace names the line of its code.",
  TOOL_TIMEOUT: "Look in the timeline for what took long, or raise limits.timeoutMs in the tenant's policy.",
};

/** What to do about a tool that is not available, by `details.reason`. The messages of other reasons say it. */
const UNAVAILABLE_ADVICE: { readonly [reason: string]: string } = {
  circuit_open: "Wait until its circuit closes: too many of its calls have failed.",
  closed: "Call again: the server was being stopped.",
  needs_run: "Choose Start a run, under Runs.",
  not_found: "Release a version of the tool, or correct its name.",
  shutting_down: "Call again: the server was being stopped.",
};

function adviceFor({ code, details = {} }: StoredError): string | undefined {
  if (Object.hasOwn(ADVICE, code)) return ADVICE[code];
  const { reason } = details;
  return code === "TOOL_UNAVAILABLE" && typeof reason === "string" && Object.hasOwn(UNAVAILABLE_ADVICE, reason)
    ? UNAVAILABLE_ADVICE[reason]
    : undefined;
}

interface ErrorViewProps {
  readonly error: StoredError;
  readonly files?: SourceFiles | undefined;
}

export function ErrorView({ error, files }: ErrorViewProps): JSX.Element {
  const { code, message, stack, details = {} } = error;
  const advice = adviceFor(error);
  return (
    <div class="error-box" role="alert">
      <strong>{code}</strong> <span>{toVisibleText(message)}</span>
      {advice === undefined ? null : <p class="faint">{advice}</p>}
      <SourceLines details={details} files={files} />
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: long lines scroll by keyboard */}
      {stack === undefined ? null : <pre tabIndex={0}>{toVisibleText(stack)}</pre>}
      {Object.keys(details).length === 0 ? null : (
        <details>
          <summary>Details</summary>
          <JsonView value={details} label="Details of the error" />
        </details>
      )}
    </div>
  );
}

interface SourceLinesProps {
  readonly details: NonNullable<StoredError["details"]>;
  readonly files: SourceFiles | undefined;
}

function SourceLines({ details, files }: SourceLinesProps): JSX.Element | null {
  const { file, line } = details;
  if (typeof file !== "string" || typeof line !== "number" || files === undefined || !Object.hasOwn(files, file))
    return null;
  const all = toVisibleText(files[file] ?? "").split("\n");
  const first = Math.max(1, line - LINES_AROUND);
  const shown = all.slice(first - 1, line + LINES_AROUND);
  if (shown.length === 0) return null;
  const width = String(line + LINES_AROUND).length;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: long lines scroll by keyboard
    <pre class="source-lines" tabIndex={0}>
      {shown.map((text, index) => (
        <span key={first + index} class={first + index === line ? "removed" : ""}>
          {`${first + index === line ? ">" : " "} ${String(first + index).padStart(width)}  ${text}\n`}
        </span>
      ))}
    </pre>
  );
}
