// Hints about a tool, named as in MCP. Tool authors and the host share this type; ToolAnnotationsSchema in definition.ts parses it.

/** Hints about a tool's effects, as in MCP. They are the author's claim, and no security decision relies on them. */
export interface ToolAnnotations {
  /** Name for people. */
  readonly title?: string | undefined;
  /** The tool changes nothing. */
  readonly readOnlyHint?: boolean | undefined;
  /** The tool may delete or overwrite something. */
  readonly destructiveHint?: boolean | undefined;
  /** A repeated call with the same input has no further effect. */
  readonly idempotentHint?: boolean | undefined;
  /** The tool reaches systems outside of the host, such as the web. */
  readonly openWorldHint?: boolean | undefined;
}
