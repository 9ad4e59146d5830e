// The requests of the host to the Python runtime: the input of each of its calls.
export interface PythonRun {
  readonly code: string;
  /** File name in tracebacks. */
  readonly fileName: string;
  readonly mode: "exec" | "tool" | "session";
  /** Further modules of the tool by path, which it can import. */
  readonly files?: { readonly [path: string]: string };
  readonly input?: unknown;
  /** Return the definition of the tool instead of calling it. */
  readonly describe?: true;
  /** Memory in MiB that Python may allocate in addition to the interpreter's own. */
  readonly memoryMiB: number;
}

/** Requests a snapshot of an isolate in which no tool has run. Other isolates are loaded from it. */
export interface SnapshotRequest {
  readonly snapshot: true;
}
