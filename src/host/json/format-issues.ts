// Formats the issues of an invalid value as one line of an error message. `details.problems` lists all of them.

/** Number of issues in a message: a model or a person fixes these first. */
const MAX_SHOWN = 3;

/**
 * Returns text such as `/a: Expected number, got string "1"; /b: …; and 2 more`.
 * @param truncated whether there are more issues than in the list
 */
export function formatIssues(
  issues: readonly { readonly pointer: string; readonly message: string }[],
  truncated = false,
): string {
  const shown = issues
    .slice(0, MAX_SHOWN)
    .map(({ pointer, message }) => `${pointer === "" ? "at the top" : pointer}: ${message}`);
  const left = issues.length - shown.length;
  if (left === 0 && !truncated) return shown.join("; ");
  return `${shown.join("; ")}; and ${truncated ? "more" : `${left} more`}`;
}
