// The error of a call: its code and message, the author's lines around the place where it happened, and its stack trace.
import type { JSX } from "preact";
import { JsonView } from "./json-view.tsx";

export interface StoredError {
  readonly code: string;
  readonly message: string;
  readonly stack?: string;
  readonly details?: { readonly file?: unknown; readonly line?: unknown } & { readonly [name: string]: unknown };
}

/** The files of a tool by path. */
export type SourceFiles = { readonly [path: string]: string };

const LINES_AROUND = 3;

interface ErrorViewProps {
  readonly error: StoredError;
  readonly files?: SourceFiles | undefined;
}

export function ErrorView({ error, files }: ErrorViewProps): JSX.Element {
  const { code, message, stack, details = {} } = error;
  return (
    <div class="error-box" role="alert">
      <strong>{code}</strong> <span>{message}</span>
      <SourceLines details={details} files={files} />
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: long lines scroll by keyboard */}
      {stack === undefined ? null : <pre tabIndex={0}>{stack}</pre>}
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
  const all = files[file]?.split("\n") ?? [];
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
