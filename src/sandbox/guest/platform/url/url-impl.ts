// Replaces the implementation class inside whatwg-url: its errors get the message, the code and the properties that they have in Node.

import { implementation as Base } from "whatwg-url/lib/URL-impl.js";
import { withReason } from "../../error-text.ts";

/** Returns Node's error. The error of a call also has the URL, because a tool's result shows the message alone. */
function toNodeError(error: unknown, input: string, base: string | undefined): unknown {
  if (!(error instanceof TypeError)) return error;
  const details = { code: "ERR_INVALID_URL", input, ...(base === undefined ? {} : { base }) };
  return withReason(Object.assign(new TypeError("Invalid URL"), details), input);
}

export class implementation extends Base {
  constructor(globalObject: object, args: readonly [url: string, base?: string]) {
    try {
      super(globalObject, args);
    } catch (error) {
      throw toNodeError(error, ...args);
    }
  }
}
