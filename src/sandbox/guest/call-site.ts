// Where in the tool's script the code is that is running now, for a line of console that is to carry its place.
import { TOOL_SCRIPT_NAME } from "../guest-protocol.ts";
import { ErrorConstructor, StringPrototypeIndexOf, StringPrototypeSlice } from "./primordials.ts";

/** Of a stack: a line and a column of a script are no longer. */
const MAX_PLACE = 20;

/** `line:column` of the innermost frame that is the tool's. A guest that tampers with its stacks has lines without a place, or a wrong one. */
export function toolPlace(): string | undefined {
  try {
    const { stack } = new ErrorConstructor() as { readonly stack?: unknown };
    if (typeof stack !== "string") return undefined;
    const at = StringPrototypeIndexOf(stack, `${TOOL_SCRIPT_NAME}:`);
    if (at < 0) return undefined;
    const start = at + TOOL_SCRIPT_NAME.length + 1;
    const place = StringPrototypeSlice(stack, start, start + MAX_PLACE);
    let end = 0;
    while (end < place.length && StringPrototypeIndexOf("0123456789:", place[end] as string) >= 0) end += 1;
    return StringPrototypeSlice(place, 0, end);
  } catch {
    return undefined;
  }
}
