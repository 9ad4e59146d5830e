// The input and output types of the bundler: ToolSource and ToolBundle. They are plain data, and all layers above import them.

/**
 * A tool's files. `path` is a file or a folder on the host. `files` maps relative POSIX paths to text. `source` is one TypeScript file or,
 * with `mode: "script"`, a script in sloppy mode: the body of a function of `input` and `ctx` whose last expression is its value.
 */
export type ToolSource =
  | { readonly path: string }
  | { readonly files: { readonly [path: string]: string }; readonly entry?: string | undefined }
  | { readonly source: string; readonly mode?: SourceMode | undefined };

export const SOURCE_MODES = ["module", "script"] as const;
export type SourceMode = (typeof SOURCE_MODES)[number];

/**
 * A compiled tool: content-addressed and immutable.
 *
 * `code` is one classic script whose completion value is `async function (register) {…}`. Calling that function evaluates the tool's top
 * level and calls `register(namespace)` with the namespace of the entry module. Running the script itself executes no code of the tool.
 */
export interface ToolBundle {
  /** Hex SHA-256 of `code`. */
  readonly sha256: string;
  readonly code: string;
  /** Source map v3 of `code` as JSON text. `sources` are the author's relative paths, `sourcesContent` is included. */
  readonly sourceMap: string;
  /** Relative path of the entry, e.g. `tool.ts`. */
  readonly entry: string;
  /** Names that the entry exports, e.g. `["default", "description"]`. */
  readonly exports: readonly string[];
  /** Files of the tool and of packages in the bundle, each with its bytes in the output, largest first. */
  readonly inputs: readonly BundleInput[];
  /** npm packages in the bundle, e.g. `["zod@4.6.7"]`. */
  readonly packages: readonly string[];
  /**
   * Packages, and files of the tool, whose code calls `eval` or `Function`, e.g. `["ajv@8.18.0", "tool.ts"]`. They need the grant
   * `stringToCode` where the host has disabled dynamic code. Found by parsing: a use through another name is missed, and a use that is
   * never reached is listed.
   */
  readonly dynamicCode: readonly string[];
}

export interface BundleInput {
  readonly path: string;
  readonly bytes: number;
}

export interface BundleLimits {
  /** Maximum bytes of all the tool's own files together. */
  readonly sourceBytes: number;
  /** Maximum bytes of the bundled package files, as on disk, and of the data files that they read. */
  readonly packageBytes: number;
  /** Maximum number of files that may be loaded, packages included. */
  readonly files: number;
  /** Maximum bytes of `code`. */
  readonly outputBytes: number;
  /** Longest wall time of one build in ms, including the start of the child process, which is then killed. */
  readonly timeoutMs: number;
  /** Maximum resident memory of one build in MiB, including esbuild (measured on Linux only). Above it the child process is killed. */
  readonly memoryMiB: number;
}

/**
 * Sized so that natural, typescript, sql.js, jsdom and @elevenlabs/elevenlabs-js (over 5,000 files) can be bundled, and
 * so that compiling the largest bundle stays near 0.6 s, because `dispose()` cannot interrupt compilation. A zod tool
 * builds in 60 MiB, one with natural in 450 MiB. 381 bytes of hostile TypeScript (an enum that doubles a string 30
 * times) took esbuild past 9 GiB in 10 s.
 */
export const DEFAULT_BUNDLE_LIMITS: BundleLimits = {
  sourceBytes: 2 * 1024 * 1024,
  packageBytes: 32 * 1024 * 1024,
  files: 20_000,
  outputBytes: 24 * 1024 * 1024,
  timeoutMs: 30_000,
  memoryMiB: 768,
};

export type CellLanguage = "javascript" | "typescript";
