// The result of a validation: plain data for the `details` of errors, with short texts that a model can act on.

/** One issue of an invalid value. All texts are bounded (see describe.ts) and contain no control characters. */
export type SchemaIssue = {
  /** RFC 6901 pointer to the value, "" for the root. If it has more than 1,024 characters, the pointer of the nearest ancestor that fits. */
  readonly pointer: string;
  /** The schema keyword that failed; "false" for the schema `false`. */
  readonly keyword: string;
  readonly expected: string;
  readonly got: string;
  /** `expected` and `got` as one sentence. */
  readonly message: string;
};

/** Why a validation was stopped: its time was used up, or value and schema are nested too deeply for the stack. */
export type ValidationStopReason = "time" | "depth";

export type ValidationOutcome =
  | { readonly valid: true }
  | {
      readonly valid: false;
      readonly stopped: false;
      readonly issues: readonly SchemaIssue[];
      /** Whether there are more issues than are listed. */
      readonly truncated: boolean;
    }
  | { readonly valid: false; readonly stopped: true; readonly reason: ValidationStopReason; readonly message: string };
