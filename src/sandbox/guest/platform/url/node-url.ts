// node:url (legacy functions from the package url, the others from the platform's URL), node:querystring and node:punycode.
import punycode from "punycode/punycode.js";
import { format as formatLegacy, parse as parseLegacy, resolve, resolveObject, Url } from "url/";
import { Buffer } from "../buffer/node-buffer.ts";
import { checkString, invalidArgument, nodeError } from "../shared/node-error.ts";
import { querystring } from "./querystring.ts";

interface UrlLike {
  readonly href: string;
  readonly protocol: string;
  readonly hostname: string;
  readonly hash: string;
  readonly search: string;
  readonly pathname: string;
  readonly port: string;
  readonly username: string;
  readonly password: string;
}
const web = globalThis as unknown as {
  readonly URL: new (url: string, base?: string) => UrlLike;
  readonly URLSearchParams: unknown;
  readonly URLPattern?: unknown;
};

/** Tells a URL from an object of the legacy API, which may have an `href` too, as Node does. */
function isUrl(value: unknown): value is UrlLike {
  if (typeof value !== "object" || value === null) return false;
  const { href, protocol, auth, path } = value as { readonly [key: string]: unknown };
  return Boolean(href) && Boolean(protocol) && auth === undefined && path === undefined;
}

function fileURLToPath(given: unknown): string {
  const url = typeof given === "string" ? new web.URL(given) : given;
  if (!isUrl(url)) throw invalidArgument("path", "of type string or an instance of URL", given);
  if (url.protocol !== "file:") throw nodeError(TypeError, "ERR_INVALID_URL_SCHEME", "The URL must be of scheme file");
  if (url.hostname !== "") {
    throw nodeError(TypeError, "ERR_INVALID_FILE_URL_HOST", 'File URL host must be "localhost" or empty on linux');
  }
  if (/%2f/i.test(url.pathname)) {
    throw nodeError(TypeError, "ERR_INVALID_FILE_URL_PATH", "File URL path must not include encoded / characters");
  }
  return decodeURIComponent(url.pathname);
}

function pathToFileURL(path: string): UrlLike {
  checkString(path, "path");
  const segments: string[] = [];
  for (const segment of path.split("/")) {
    if (segment === "..") segments.pop();
    else if (segment !== "" && segment !== ".") segments.push(segment);
  }
  const whole = `/${segments.join("/")}${path.endsWith("/") && segments.length > 0 ? "/" : ""}`;
  return new web.URL(`file://${whole.replace(/[%\\\n\r\t?#]/g, (character) => encodeURIComponent(character))}`);
}

/** Returns the options of http.request(). */
function urlToHttpOptions(url: UrlLike): { [name: string]: unknown } {
  const { protocol, hostname, hash, search, pathname, href, port, username, password } = url;
  return {
    __proto__: null,
    ...url,
    protocol,
    hostname: hostname.startsWith("[") ? hostname.slice(1, -1) : hostname,
    hash,
    search,
    pathname,
    path: `${pathname || ""}${search || ""}`,
    href,
    ...(port === "" ? {} : { port: Number(port) }),
    ...(username || password ? { auth: `${decodeURIComponent(username)}:${decodeURIComponent(password)}` } : {}),
  } as { [name: string]: unknown };
}

interface FormatOptions {
  readonly fragment?: boolean;
  readonly unicode?: boolean;
  readonly search?: boolean;
  readonly auth?: boolean;
}

function format(given: unknown, options: FormatOptions = {}): string {
  if (!isUrl(given)) return formatLegacy(given as string);
  const url = new web.URL(given.href) as { -readonly [Key in keyof UrlLike]: UrlLike[Key] };
  if (options.fragment === false) url.hash = "";
  if (options.search === false) url.search = "";
  if (options.auth === false) {
    url.username = "";
    url.password = "";
  }
  return options.unicode ? url.href.replace(url.hostname, punycode.toUnicode(url.hostname)) : url.href;
}

function hostOf(domain: string): string {
  try {
    return new web.URL(`ws://${domain}`).hostname;
  } catch {
    return "";
  }
}

function parse(text: unknown, ...rest: readonly unknown[]): unknown {
  if (!(text instanceof (Url as unknown as new () => object))) checkString(text, "url");
  return Reflect.apply(parseLegacy as (...args: unknown[]) => unknown, undefined, [text, ...rest]);
}

const url = {
  Url,
  parse,
  resolve,
  resolveObject,
  format,
  get URL(): unknown {
    return web.URL;
  },
  get URLSearchParams(): unknown {
    return web.URLSearchParams;
  },
  get URLPattern(): unknown {
    return web.URLPattern;
  },
  domainToASCII: (domain: string): string => hostOf(domain),
  domainToUnicode: (domain: string): string => punycode.toUnicode(hostOf(domain)),
  pathToFileURL,
  fileURLToPath,
  fileURLToPathBuffer: (url: unknown): Buffer => Buffer.from(fileURLToPath(url)),
  urlToHttpOptions,
};

export const builtins = { url, querystring, punycode };
