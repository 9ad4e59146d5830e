// What a validation answers: plain data for errors' `details`, with short texts that a model can act on.

/** One thing wrong with an instance. All texts are bounded (see describe.ts) and free of control characters. */
export type SchemaProblem = {
  /** RFC 6901 pointer into the instance, "" for the whole; names the nearest ancestor when it would pass 1,024 characters. */
  readonly pointer: string;
  /** The schema keyword that failed; "false" where a schema admits nothing. */
  readonly keyword: string;
  readonly expected: string;
  readonly got: string;
  /** The three above as one sentence. */
  readonly message: string;
};

/** Why a validation ended without an answer: the clock, or an instance and schema nested past the stack. */
export type StopReason = "time" | "depth";

export type ValidationOutcome =
  | { readonly valid: true }
  | {
      readonly valid: false;
      readonly stopped: false;
      readonly problems: readonly SchemaProblem[];
      /** True when there are more problems than are listed. */
      readonly truncated: boolean;
    }
  | { readonly valid: false; readonly stopped: true; readonly reason: StopReason; readonly message: string };
