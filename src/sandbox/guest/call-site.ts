// Where in the tool's script the code is that is running now, for a line of console that is to carry its place.
import { PRELUDE_SCRIPT_NAME, SCRIPT_ORIGIN } from "../protocol/guest-messages.ts";
import { ErrorConstructor, StringPrototypeIndexOf, StringPrototypeSlice } from "./primordials.ts";

/** Of a stack: a script's name, a line and a column are no longer. */
const MAX_PLACE = 64;

/**
 * `script:line:column` of the innermost frame that is the tool's. A guest that tampers with its stacks has lines without a place, or a wrong one.
 * @param of the stack of an error, instead of the present one
 */
export function toolPlace(of?: string): string | undefined {
  try {
    const stack: unknown = of ?? (new ErrorConstructor() as { readonly stack?: unknown }).stack;
    if (typeof stack !== "string") return undefined;
    let at = StringPrototypeIndexOf(stack, SCRIPT_ORIGIN);
    while (at >= 0 && at === StringPrototypeIndexOf(stack, PRELUDE_SCRIPT_NAME, at)) {
      at = StringPrototypeIndexOf(stack, SCRIPT_ORIGIN, at + 1);
    }
    if (at < 0) return undefined;
    const start = at + SCRIPT_ORIGIN.length;
    const place = StringPrototypeSlice(stack, start, start + MAX_PLACE);
    let end = 0;
    while (end < place.length && StringPrototypeIndexOf(")\n", place[end] as string) < 0) end += 1;
    return StringPrototypeSlice(place, 0, end);
  } catch {
    return undefined;
  }
}
