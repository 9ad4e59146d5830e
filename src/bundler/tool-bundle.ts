// The bundler's words: what goes in (ToolSource) and what comes out (ToolBundle). Plain data, imported by every zone above.

/** A tool's files. `path` is a file or a folder on the host; `files` maps relative POSIX paths to text; `source` is one TypeScript file, or
 * with `mode: "script"` a script in sloppy mode: the body of a function of `input` and `ctx`, whose last expression is its value. */
export type ToolSource =
  | { readonly path: string }
  | { readonly files: { readonly [path: string]: string }; readonly entry?: string | undefined }
  | { readonly source: string; readonly mode?: SourceMode | undefined };

export const SOURCE_MODES = ["module", "script"] as const;
export type SourceMode = (typeof SOURCE_MODES)[number];

/**
 * A compiled tool: content-addressed and immutable.
 *
 * `code` is one classic script whose completion value is `async function (register) {…}`; calling it evaluates the
 * tool's top level and calls `register(namespace)` with the entry module's namespace. Nothing runs when the script itself is run.
 */
export interface ToolBundle {
  /** Hex SHA-256 of `code`. */
  readonly sha256: string;
  readonly code: string;
  /** Source map v3 as JSON text, for `code` as it stands; `sources` are the author's relative paths, `sourcesContent` included. */
  readonly sourceMap: string;
  /** The entry's relative path, e.g. `tool.ts`. */
  readonly entry: string;
  /** Names that the entry exports, e.g. `["default", "description"]`. */
  readonly exports: readonly string[];
  /** Files of the tool and of packages that went in, each with its bytes in the output, largest first. */
  readonly inputs: readonly BundleInput[];
  /** npm packages that went in, e.g. `["zod@4.6.7"]`. */
  readonly packages: readonly string[];
  /**
   * Packages, and files of the tool, whose code calls `eval` or `Function`, e.g. `["ajv@8.18.0", "tool.ts"]`: what would need the grant
   * `stringToCode` where the host has turned dynamic code off. Found in the syntax, so a use by another name is missing, and one that is
   * never reached is listed.
   */
  readonly dynamicCode: readonly string[];
}

export interface BundleInput {
  readonly path: string;
  readonly bytes: number;
}

export interface BundleLimits {
  /** Bytes of all the tool's own files together. */
  readonly sourceBytes: number;
  /** Bytes of the package files that are bundled, as they are on disk, and of the data files that they read. */
  readonly packageBytes: number;
  /** Files that may be loaded, packages included. */
  readonly files: number;
  /** Bytes of `code`. */
  readonly outputBytes: number;
  /** Wall time of one build, child start included; the child is killed then. */
  readonly timeoutMs: number;
  /** Resident memory of one build, esbuild's included (watched on Linux); the child is killed past it. */
  readonly memoryMiB: number;
}

/**
 * Sized so that natural, typescript, sql.js and jsdom can be bundled, and so that compiling the largest bundle stays near 0.6 s:
 * compilation ignores `dispose()`. A zod tool builds in 60 MiB, one with natural in 450; 381 bytes of hostile TypeScript (an enum that
 * doubles a string 30 times) took esbuild past 9 GiB in 10 s.
 */
export const DEFAULT_BUNDLE_LIMITS: BundleLimits = {
  sourceBytes: 2 * 1024 * 1024,
  packageBytes: 32 * 1024 * 1024,
  files: 2_000,
  outputBytes: 24 * 1024 * 1024,
  timeoutMs: 10_000,
  memoryMiB: 768,
};

export type CellLanguage = "javascript" | "typescript";
