// A place in a text, and what stands there.
export interface SecretMatch {
  readonly start: number;
  readonly end: number;
  /** It is replaced by `[redacted:LABEL]`. */
  readonly label: string;
}
