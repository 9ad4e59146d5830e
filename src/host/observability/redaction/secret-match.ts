/** A secret found in a text. */
export interface SecretMatch {
  readonly start: number;
  readonly end: number;
  /** The label in the replacement, `[redacted:LABEL]`. */
  readonly label: string;
}
