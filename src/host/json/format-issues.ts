// Several problems as one line of an error's message; `details.problems` has them all.

/** How many a message tells: a model or a person mends these first. */
const SHOWN = 3;

/** @param truncated there are more than are in the list */
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
