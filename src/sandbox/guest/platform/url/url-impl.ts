// Replaces the implementation class inside whatwg-url: its errors get the code and the properties that they have in Node.
import { implementation as Base } from "whatwg-url/lib/URL-impl.js";

/** Adds what Node's error has. The message keeps the URL, because a tool's result shows the message alone. */
function describe(error: unknown, input: string, base: string | undefined): unknown {
  if (error instanceof TypeError)
    Object.assign(error, { code: "ERR_INVALID_URL", input, ...(base === undefined ? {} : { base }) });
  return error;
}

export class implementation extends Base {
  constructor(globalObject: object, args: readonly [url: string, base?: string]) {
    try {
      super(globalObject, args);
    } catch (error) {
      throw describe(error, ...args);
    }
  }
}
