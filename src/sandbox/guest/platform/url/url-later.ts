// Shim that loads whatwg-url's parser lazily: many tools load its classes without parsing a URL.
import type { UrlParser } from "./url-parser.ts";

declare function require(name: "./url-parser.ts"): UrlParser;

const later =
  (name: keyof UrlParser) =>
  (first: unknown, second?: unknown): unknown =>
    require("./url-parser.ts")[name](first, second);

export const basicURLParse = later("basicURLParse");
export const cannotHaveAUsernamePasswordPort = later("cannotHaveAUsernamePasswordPort");
export const hasAnOpaquePath = later("hasAnOpaquePath");
export const serializeHost = later("serializeHost");
export const serializeInteger = later("serializeInteger");
export const serializePath = later("serializePath");
export const serializeURL = later("serializeURL");
export const serializeURLOrigin = later("serializeURLOrigin");
export const setThePassword = later("setThePassword");
export const setTheUsername = later("setTheUsername");
export const parseUrlencodedString = later("parseUrlencodedString");
export const serializeUrlencoded = later("serializeUrlencoded");
