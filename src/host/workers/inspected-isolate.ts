// The seam between a worker that was started for inspection and whoever inspects: isolates that can be spoken to, one at a time in each.

/** The isolate of one call, in the DevTools protocol. */
export interface InspectedIsolate {
  send(text: string): void;
  /** The tool is loaded, and its call goes on. Twice is a no-op. */
  go(): void;
  /** While it is held its call's clock stands still. */
  hold(isHeld: boolean): void;
}

/** Hears of each isolate; what they say is a worker's word. */
export interface Inspector {
  /** It waits without its tool until it is told to go on. */
  onOpened(isolate: InspectedIsolate): void;
  onMessage(isolate: InspectedIsolate, text: string): void;
  /** Another one has come in its worker, or that has ended. */
  onClosed(isolate: InspectedIsolate): void;
}
