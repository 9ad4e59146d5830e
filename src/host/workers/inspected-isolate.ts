// Interface between a worker started for inspection and the inspector. Each worker exposes one isolate at a time.

/** The isolate of one call. Messages follow the DevTools protocol. */
export interface InspectedIsolate {
  send(text: string): void;
  /** Lets the call of a loaded tool continue. Calling it twice is a no-op. */
  go(): void;
  /** Pauses or resumes the call's clock. */
  setPaused(isPaused: boolean): void;
}

/** Receives the inspected isolates. Their messages come from a worker, so they are not trusted. */
export interface Inspector {
  /** The isolate waits, without its tool, until `go` is called. */
  onOpened(isolate: InspectedIsolate): void;
  onMessage(isolate: InspectedIsolate, text: string): void;
  /** Another isolate of the worker replaced this one, or it has ended. */
  onClosed(isolate: InspectedIsolate): void;
}
