// The history of a chaos test: what clients sent and saw, and when; what the tools themselves report; and what the server's records say at the
// end. All times are of one clock, that of the test's process.

/** State of a call, as a client sees it. */
export interface CallView {
  readonly callId: string;
  readonly state: string;
  readonly effects: string;
  /** Code of the error; null if there is none. */
  readonly code: string | null;
  /** JSON text of the output. */
  readonly output: string | null;
}

/**
 * What a client did:
 * - `call`: a call whose result is the response
 * - `submit`: a call for the queue, with an idempotency key
 * - `read`: a read of a call's record
 */
export type OperationKind = "call" | "submit" | "read";

export interface Operation {
  readonly kind: OperationKind;
  /** Number of the call, which is also in its input. */
  readonly n: number;
  readonly invokedAt: number;
  /** Undefined if no response arrived: whether it had an effect is unknown. */
  readonly returnedAt?: number;
  /** The call that the response contains. Undefined without a response, and if there is no such call. */
  readonly view?: CallView;
  /** Whether the response says that there is no such call. */
  readonly isMissing?: boolean;
}

/** A report of a tool: its first line runs, or its last one. Each execution has a token of its own. */
export interface ToolStep {
  readonly n: number;
  readonly callId: string;
  readonly token: string;
  readonly step: "begun" | "done";
  readonly at: number;
}

export interface History {
  readonly operations: readonly Operation[];
  readonly steps: readonly ToolStep[];
  /** The records at the end, by number of the call. */
  readonly records: readonly (CallView & { readonly n: number })[];
  readonly isIdempotent: (n: number) => boolean;
}
