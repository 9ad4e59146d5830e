// Selects tools by name: a whole name, or its beginning followed by `*`. The rule for a valid name is in sandbox/contract/tool-name.ts.
import { checkString } from "./tenant-scope.ts";

/**
 * Returns whether a pattern names a tool: its whole name, or the beginning of it followed by `*`.
 * @throws {ToolError} PARAM_INVALID for an argument that is not a string
 * @example
 * ```ts
 * import { matchesName } from "glovebox";
 *
 * console.log(matchesName("delete_*", "delete_user")); // true
 * ```
 */
export function matchesName(pattern: string, name: string): boolean {
  checkString(pattern, "pattern");
  checkString(name, "name");
  return pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : pattern === name;
}
