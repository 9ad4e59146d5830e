// Interface between a worker started for inspection and the inspector. Each worker exposes the isolate of one call, and ends with it.

/** The isolate of one call. Messages follow the DevTools protocol. */
export interface InspectedIsolate {
  /** Whether the call has neither ended nor been cancelled. */
  readonly isRunning: boolean;
  send(text: string): void;
  /** Lets the call of a loaded tool continue. Calling it twice is a no-op. */
  go(): void;
  /** Pauses or resumes the call's clock. */
  setPaused(isPaused: boolean): void;
  /** Ends the process as soon as no call runs in it. It takes no other calls. Calling it twice is a no-op. */
  release(): void;
}

/** Receives the inspected isolates. Their messages come from a worker, so they are not trusted. */
export interface Inspector {
  /** The isolate waits, without its tool, until `go` is called. */
  onOpened(isolate: InspectedIsolate): void;
  onMessage(isolate: InspectedIsolate, text: string): void;
  /** The process has ended. */
  onClosed(isolate: InspectedIsolate): void;
}
