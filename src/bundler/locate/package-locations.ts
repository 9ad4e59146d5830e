// Where a package's file says that it is (`__dirname`, `import.meta.url`): a path in the guest's own file system, never one of the host.
import { dirname } from "node:path/posix";

/** The folder of the guest in which a tool's own files lie; packages lie below it. The same on every machine. */
export const TOOL_FOLDER = "/tool";

/** Names that stand for a module's place. They are made from the tool's text, which cannot have them. */
export interface PlaceNames {
  readonly folder: string;
  readonly file: string;
  readonly url: string;
  /** Stands for `require.resolve`. */
  readonly resolve: string;
}

export const placeNames = (suffix: string): PlaceNames => ({
  folder: `__glovebox_dirname_${suffix}`,
  file: `__glovebox_filename_${suffix}`,
  url: `__glovebox_url_${suffix}`,
  resolve: `__glovebox_resolve_${suffix}`,
});

/** What esbuild replaces by these names, in packages; a tool's own files do not have `require.resolve`. */
export const definePlaces = ({ folder, file, url, resolve }: PlaceNames, isLink: boolean) => ({
  ...(isLink ? { "require.resolve": resolve } : {}),
  __dirname: folder,
  __filename: file,
  "import.meta.dirname": folder,
  "import.meta.filename": file,
  "import.meta.url": url,
});

const MENTIONS_PLACE = /\b__(?:dirname|filename)\b|\bimport\s*\.\s*meta\b|\brequire\s*\.\s*resolve\b/;
export const mentionsPlace = (text: string): boolean => MENTIONS_PLACE.test(text);

/** `require.resolve` of a relative path gives a path, whether something is there or not. */
const resolveText = (folder: string): string =>
  `(id)=>{if(/^\\.\\.?\\//.test(id))return ${folder}+"/"+id;throw Object.assign(new Error("Cannot find module '"+id+"'"),{code:"MODULE_NOT_FOUND"});}`;

/** A declaration of the names, for a file at this path of the guest. */
export function placesText(names: PlaceNames, path: string): string {
  const values = [
    [names.folder, JSON.stringify(dirname(path))],
    [names.file, JSON.stringify(path)],
    [names.url, JSON.stringify(`file://${encodeURI(path).replace(/[?#]/g, encodeURIComponent)}`)],
    [names.resolve, resolveText(names.folder)],
  ];
  return `var ${values.map(([name, value]) => `${name}=${value}`).join(",")};`;
}

const DIRECTIVE = /["']use strict["'][^\S\n]*;?/y;
const WHITE_SPACE = /\s*/y;

/** Where white space and comments end. */
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

/** Adds the declaration before a module's first statement, on the same line; a hashbang and a directive stay first. */
export function declarePlaces(text: string, declaration: string): string {
  const lineEnd = text.startsWith("#!") ? text.indexOf("\n") : 0;
  const start = lineEnd < 0 ? text.length : lineEnd;
  DIRECTIVE.lastIndex = skipComments(text, start);
  const hasDirective = DIRECTIVE.test(text);
  const at = hasDirective ? DIRECTIVE.lastIndex : start;
  const separator = hasDirective ? ";" : start > 0 ? "\n" : "";
  return `${text.slice(0, at)}${separator}${declaration}${text.slice(at)}`;
}
