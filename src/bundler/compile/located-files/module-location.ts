// Defines what `__dirname` and `import.meta.url` are in a package's file: a path in the guest's own file system, never a path of the host.
import { dirname } from "node:path/posix";

/** Guest folder of a tool's own files, with its packages below. It is the same on every machine. */
export const TOOL_FOLDER = "/tool";

/** Generated names that replace a module's location. They are hashed from the tool's text, which therefore cannot contain them. */
export interface LocationNames {
  readonly folder: string;
  readonly file: string;
  readonly url: string;
  /** Replaces `require.resolve`. */
  readonly resolve: string;
  /** Replaces `import.meta.resolve`. */
  readonly resolveUrl: string;
}

export const locationNames = (suffix: string): LocationNames => ({
  folder: `__glovebox_dirname_${suffix}`,
  file: `__glovebox_filename_${suffix}`,
  url: `__glovebox_url_${suffix}`,
  resolve: `__glovebox_resolve_${suffix}`,
  resolveUrl: `__glovebox_meta_resolve_${suffix}`,
});

/** Returns the `define` option that replaces locations by these names. Only packages have `require.resolve`. */
export const defineLocations = ({ folder, file, url, resolve, resolveUrl }: LocationNames, isLink: boolean) => ({
  ...(isLink ? { "require.resolve": resolve } : {}),
  __dirname: folder,
  __filename: file,
  "import.meta.dirname": folder,
  "import.meta.filename": file,
  "import.meta.url": url,
  "import.meta.resolve": resolveUrl,
});

const MENTIONS_LOCATION = /\b__(?:dirname|filename)\b|\bimport\s*\.\s*meta\b|\brequire\s*\.\s*resolve\b/;
export const mentionsLocation = (text: string): boolean => MENTIONS_LOCATION.test(text);

/** `require.resolve` of a relative path returns a path without checking that a file exists. */
const resolveText = (folder: string): string =>
  `(id)=>{if(/^\\.\\.?\\//.test(id))return ${folder}+"/"+id;throw Object.assign(new Error("Cannot find module '"+id+"'"),{code:"MODULE_NOT_FOUND"});}`;

/** `import.meta.resolve` of a URL, a built-in or a relative path returns a URL without checking that a file exists. */
const resolveUrlText = (url: string): string =>
  `(id)=>{id=String(id);if(/^(?:\\.{0,2}\\/|[a-z][a-z0-9+.-]*:)/i.test(id))return new URL(id,${url}).href;throw Object.assign(new Error("Cannot find package '"+id+"'"),{code:"ERR_MODULE_NOT_FOUND"});}`;

/** Declares the names for a file at this guest path. */
export function locationsText(names: LocationNames, path: string): string {
  const values = [
    [names.folder, JSON.stringify(dirname(path))],
    [names.file, JSON.stringify(path)],
    [names.url, JSON.stringify(`file://${encodeURI(path).replace(/[?#]/g, encodeURIComponent)}`)],
    [names.resolve, resolveText(names.folder)],
    [names.resolveUrl, resolveUrlText(names.url)],
  ];
  return `var ${values.map(([name, value]) => `${name}=${value}`).join(",")};`;
}

const DECLARATION_START = "var __glovebox_dirname_";
const DECLARATION =
  /var __glovebox_dirname_(\w+)=.*?,__glovebox_meta_resolve_\1=.*?code:"ERR_MODULE_NOT_FOUND"\}\);\};/y;

/** Returns the number of bytes before `column`, in bytes, that {@link declareLocations} has added to a line. */
export function declaredBytesBefore(lineText: string, column: number): number {
  // Only the first place is tried: searching a hostile line for each of them would take quadratic time.
  const start = lineText.indexOf(DECLARATION_START);
  DECLARATION.lastIndex = start;
  const match = start < 0 ? null : DECLARATION.exec(lineText);
  if (match === null || Buffer.byteLength(lineText.slice(0, start)) >= column) return 0;
  return Buffer.byteLength(match[0]) + (lineText[start - 1] === ";" && lineText[start - 2] === ";" ? 1 : 0);
}

const DIRECTIVE = /["']use strict["'][^\S\n]*;?/y;
const WHITE_SPACE = /\s*/y;

/** Returns the offset after white space and comments. */
function skipComments(text: string, start: number): number {
  for (let at = start; ; ) {
    WHITE_SPACE.lastIndex = at;
    WHITE_SPACE.exec(text);
    at = WHITE_SPACE.lastIndex;
    const isLine = text.startsWith("//", at);
    if (!isLine && !text.startsWith("/*", at)) return at;
    const end = isLine ? text.indexOf("\n", at) : text.indexOf("*/", at + 2);
    if (end < 0) return text.length;
    at = isLine ? end : end + 2;
  }
}

/** Inserts the declaration before a module's first statement, on the same line. A hashbang and a directive stay first. */
export function declareLocations(text: string, declaration: string): string {
  const hashbangEnd = text.startsWith("#!") ? text.indexOf("\n") + 1 : 0;
  const isHashbangOnly = text.startsWith("#!") && hashbangEnd === 0;
  const start = isHashbangOnly ? text.length : hashbangEnd;
  DIRECTIVE.lastIndex = skipComments(text, start);
  const hasDirective = DIRECTIVE.test(text);
  const at = hasDirective ? DIRECTIVE.lastIndex : start;
  const separator = hasDirective ? ";" : isHashbangOnly ? "\n" : "";
  return `${text.slice(0, at)}${separator}${declaration}${text.slice(at)}`;
}
