// What the host asks the Python runtime for: the input of each of its calls.
export interface PythonRun {
  readonly code: string;
  /** As tracebacks show it. */
  readonly fileName: string;
  readonly mode: "exec" | "tool" | "session";
  /** Further modules of the tool, by their paths; importable. */
  readonly files?: { readonly [path: string]: string };
  readonly input?: unknown;
  /** Answers with the tool's definition rather than calling it. */
  readonly describe?: true;
  /** What Python may have on top of what the interpreter has. */
  readonly memoryMiB: number;
}

/** Asked of an isolate in which nothing has run: its memory, to load others from. */
export interface SnapshotRequest {
  readonly snapshot: true;
}
