// The URL parser and serializer of whatwg-url without its classes. Evaluated when the first URL is parsed.
type Step = (first: unknown, second?: unknown) => unknown;
/** Members that the package's classes use. */
export interface UrlParser {
  readonly basicURLParse: Step;
  readonly cannotHaveAUsernamePasswordPort: Step;
  readonly hasAnOpaquePath: Step;
  readonly serializeHost: Step;
  readonly serializeInteger: Step;
  readonly serializePath: Step;
  readonly serializeURL: Step;
  readonly serializeURLOrigin: Step;
  readonly setThePassword: Step;
  readonly setTheUsername: Step;
  readonly parseUrlencodedString: Step;
  readonly serializeUrlencoded: Step;
}
declare function require(
  name: "whatwg-url/lib/url-state-machine.js" | "whatwg-url/lib/urlencoded.js",
): Readonly<Record<keyof UrlParser, Step>>;

export const {
  basicURLParse,
  cannotHaveAUsernamePasswordPort,
  hasAnOpaquePath,
  serializeHost,
  serializeInteger,
  serializePath,
  serializeURL,
  serializeURLOrigin,
  setThePassword,
  setTheUsername,
} = require("whatwg-url/lib/url-state-machine.js");
export const { parseUrlencodedString, serializeUrlencoded } = require("whatwg-url/lib/urlencoded.js");
