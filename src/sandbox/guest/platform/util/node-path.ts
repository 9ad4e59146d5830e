// node:path, posix and win32: one implementation, parameterized with the separators and roots of a platform.
import { checkString, invalidArgument } from "../shared/node-error.ts";

interface ParsedPath {
  readonly root: string;
  readonly dir: string;
  readonly base: string;
  readonly ext: string;
  readonly name: string;
}

interface Flavour {
  readonly separator: string;
  readonly delimiter: string;
  readonly isSeparator: (character: string | undefined) => boolean;
  /** Returns the part of a path before its first segment. `device` names a drive or a share. */
  readonly rootOf: (path: string) => { readonly device: string; readonly slash: string; readonly length: number };
  /** Normalizes a segment for comparison. */
  readonly fold: (text: string) => string;
}

const POSIX: Flavour = {
  separator: "/",
  delimiter: ":",
  isSeparator: (character) => character === "/",
  rootOf: (path) => {
    const slash = path.startsWith("/") ? "/" : "";
    return { device: "", slash, length: slash.length };
  },
  fold: (text) => text,
};

const WIN32: Flavour = {
  separator: "\\",
  delimiter: ";",
  isSeparator: (character) => character === "/" || character === "\\",
  rootOf: (path) => {
    const share = /^[\\/]{2}([^\\/]+)[\\/]+([^\\/]+)([\\/]?)/.exec(path);
    if (share !== null) return { device: `\\\\${share[1]}\\${share[2]}`, slash: "\\", length: share[0].length };
    const drive = /^([A-Za-z]:)([\\/]?)/.exec(path);
    if (drive !== null) return { device: drive[1] as string, slash: drive[2] ? "\\" : "", length: drive[0].length };
    return /^[\\/]/.test(path) ? { device: "", slash: "\\", length: 1 } : { device: "", slash: "", length: 0 };
  },
  fold: (text) => text.toLowerCase(),
};

const split = (path: string, { isSeparator }: Flavour): string[] => {
  const segments: string[] = [];
  let from = 0;
  for (let index = 0; index <= path.length; index += 1) {
    if (index < path.length && !isSeparator(path[index])) continue;
    if (index > from) segments.push(path.slice(from, index));
    from = index + 1;
  }
  return segments;
};

/** Removes "." segments, and ".." segments together with their parents. */
function collapse(segments: readonly string[], isAbsolute: boolean): string[] {
  const kept: string[] = [];
  for (const segment of segments) {
    if (segment === ".") continue;
    if (segment !== "..") kept.push(segment);
    else if (kept.length > 0 && kept.at(-1) !== "..") kept.pop();
    else if (!isAbsolute) kept.push("..");
  }
  return kept;
}

/** Returns the start and end of the last segment, without the root and trailing separators. */
function lastSegment(path: string, flavour: Flavour): readonly [from: number, to: number] {
  const { length } = flavour.rootOf(path);
  let to = path.length;
  while (to > length && flavour.isSeparator(path[to - 1])) to -= 1;
  let from = to;
  while (from > length && !flavour.isSeparator(path[from - 1])) from -= 1;
  return [from, to];
}

/** Returns the index of the dot before the extension, or -1. A leading dot does not start an extension. */
function dotOf(base: string): number {
  const dot = base.lastIndexOf(".");
  return dot <= 0 || base === ".." ? -1 : dot;
}

function makePath(flavour: Flavour) {
  const { separator, delimiter, isSeparator, rootOf, fold } = flavour;

  function normalize(path: string): string {
    checkString(path, "path");
    if (path === "") return ".";
    const { device, slash, length } = rootOf(path);
    const rest = path.slice(length);
    let body = collapse(split(rest, flavour), slash !== "").join(separator);
    if (body === "" && slash === "")
      return device === "" ? (isSeparator(path.at(-1)) ? `.${separator}` : ".") : `${device}.`;
    if (body !== "" && isSeparator(rest.at(-1))) body += separator;
    return device + slash + body;
  }

  function isAbsolute(path: string): boolean {
    checkString(path, "path");
    return rootOf(path).slash !== "";
  }

  function join(...parts: string[]): string {
    for (const part of parts) checkString(part, "path");
    const joined = parts.filter((part) => part !== "").join(separator);
    return joined === "" ? "." : normalize(joined);
  }

  function resolve(...parts: string[]): string {
    let device = "";
    let slash = "";
    let tail = "";
    for (
      let index = parts.length - 1;
      index >= 0 && (slash === "" || (device === "" && separator === "\\"));
      index -= 1
    ) {
      const part: unknown = parts[index];
      checkString(part, `paths[${index}]`);
      if (part === "") continue;
      const root = rootOf(part);
      if (root.device !== "" && device !== "" && fold(root.device) !== fold(device)) continue;
      if (device === "") device = root.device;
      if (slash !== "") continue;
      tail = tail === "" ? part.slice(root.length) : `${part.slice(root.length)}${separator}${tail}`;
      slash = root.slash;
    }
    // The working directory is the root.
    const body = collapse(split(tail, flavour), true).join(separator);
    return device === "" && separator === "\\" ? `\\${body}` : `${device}${separator}${body}`;
  }

  function relative(from: string, to: string): string {
    checkString(from, "from");
    checkString(to, "to");
    if (from === to) return "";
    const [start, end] = [resolve(from), resolve(to)];
    if (fold(rootOf(start).device) !== fold(rootOf(end).device)) return end;
    const a = split(start.slice(rootOf(start).length), flavour);
    const b = split(end.slice(rootOf(end).length), flavour);
    let shared = 0;
    while (shared < a.length && shared < b.length && fold(a[shared] as string) === fold(b[shared] as string))
      shared += 1;
    return [...a.slice(shared).map(() => ".."), ...b.slice(shared)].join(separator);
  }

  function dirname(path: string): string {
    checkString(path, "path");
    const { length } = rootOf(path);
    let [end] = lastSegment(path, flavour);
    if (end <= length) return length > 0 ? path.slice(0, rootEnd(path, length)) : ".";
    end -= 1;
    return end === 0 ? "." : path.slice(0, Math.max(end, rootEnd(path, length)));
  }

  /** Node's posix.dirname keeps both slashes of "//a". */
  function rootEnd(path: string, length: number): number {
    return separator === "/" && length === 1 && path[1] === "/" && lastSegment(path, flavour)[0] === 2 ? 2 : length;
  }

  function basename(path: string, suffix?: string): string {
    if (suffix !== undefined) checkString(suffix, "suffix");
    checkString(path, "path");
    const [from, to] = lastSegment(path, flavour);
    const base = path.slice(from, to);
    if (suffix === undefined || suffix === "" || !base.endsWith(suffix)) return base;
    if (path === suffix) return "";
    if (base === suffix) return base;
    return base.slice(0, -suffix.length);
  }

  function extname(path: string): string {
    checkString(path, "path");
    const base = basename(path);
    const dot = dotOf(base);
    return dot < 0 ? "" : base.slice(dot);
  }

  function parse(path: string): ParsedPath {
    checkString(path, "path");
    const { length } = rootOf(path);
    const root = path.slice(0, length);
    const base = basename(path);
    const [from] = lastSegment(path, flavour);
    const dot = dotOf(base);
    const [name, ext] = dot < 0 ? [base, ""] : [base.slice(0, dot), base.slice(dot)];
    const dir = from > length ? path.slice(0, from - 1) : root;
    return { root, dir, base, ext, name };
  }

  function format(path: Partial<ParsedPath>): string {
    if (typeof path !== "object" || path === null) throw invalidArgument("pathObject", "of type object", path);
    const extension = path.ext ? (path.ext.startsWith(".") ? path.ext : `.${path.ext}`) : "";
    const dir = path.dir || path.root;
    const base = path.base || `${path.name || ""}${extension}`;
    if (!dir) return base;
    return dir === path.root ? `${dir}${base}` : `${dir}${separator}${base}`;
  }

  return {
    resolve,
    normalize,
    isAbsolute,
    join,
    relative,
    toNamespacedPath: (path: string): string => path,
    dirname,
    basename,
    extname,
    format,
    parse,
    matchesGlob: (path: string, pattern: string): boolean => globToRegExp(pattern, flavour).test(path),
    sep: separator,
    delimiter,
    _makeLong: (path: string): string => path,
  };
}

/** Compiles a glob for a whole path: `**`, `*`, `?`, character sets and braces. */
function globToRegExp(pattern: string, { separator }: Flavour): RegExp {
  checkString(pattern, "pattern");
  const edge = separator === "/" ? "/" : "[\\\\/]";
  const segment = separator === "/" ? "[^/]" : "[^\\\\/]";
  const source = pattern.replace(/\*\*\/|\*\*|\*|\?|\{[^{}]*\}|\[[^\]]*\]|[/\\]|[.+^$()|]/g, (token) => {
    if (token === "**/") return `(?:${segment}+${edge})*`;
    if (token === "**") return ".*";
    if (token === "*") return `${segment}*`;
    if (token === "?") return segment;
    if (token.startsWith("{"))
      return `(?:${token
        .slice(1, -1)
        .split(",")
        .map((one) => one.replace(/[.+^$()|*?]/g, "\\$&"))
        .join("|")})`;
    if (token.startsWith("[")) return token.replace(/^\[!/, "[^");
    return token === "/" || token === "\\" ? edge : `\\${token}`;
  });
  return new RegExp(`^${source}$`);
}

export const posix = makePath(POSIX);
export const win32 = makePath(WIN32);
for (const flavour of [posix, win32]) Object.assign(flavour, { posix, win32 });

export const builtins = { path: posix, "path/posix": posix, "path/win32": win32 };
