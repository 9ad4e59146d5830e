// Formats several issues as one line of an error message. `details.problems` has all of them.

/** Number of issues in a message: a model or a person fixes these first. */
const SHOWN = 3;

/** @param truncated whether there are more issues than in the list */
export function formatIssues(
  problems: readonly { readonly pointer: string; readonly message: string }[],
  truncated = false,
): string {
  const shown = problems
    .slice(0, SHOWN)
    .map(({ pointer, message }) => `${pointer === "" ? "at the top" : pointer}: ${message}`);
  const left = problems.length - shown.length;
  if (left === 0 && !truncated) return shown.join("; ");
  return `${shown.join("; ")}; and ${truncated ? "more" : `${left} more`}`;
}
