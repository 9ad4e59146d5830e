// Finds the source location of the running tool code, for console lines that include it.
import { PRELUDE_SCRIPT_NAME, SCRIPT_ORIGIN } from "../protocol/guest-messages.ts";
import { ErrorConstructor, StringPrototypeIndexOf, StringPrototypeSlice } from "./primordials.ts";

/** Maximum length of a source location: script name, line and column. */
const MAX_LOCATION_LENGTH = 64;

/**
 * Returns `script:line:column` of the innermost stack frame in the tool's code. A tool that tampers with stacks gets a wrong location or
 * none.
 * @param of stack of an error; the current stack by default
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
    const place = StringPrototypeSlice(stack, start, start + MAX_LOCATION_LENGTH);
    let end = 0;
    while (end < place.length && StringPrototypeIndexOf(")\n", place[end] as string) < 0) end += 1;
    return StringPrototypeSlice(place, 0, end);
  } catch {
    return undefined;
  }
}
