// The messages between the bundler and its child process: their types, and frames of a length and JSON text. This file does not import zod,
// because the child must start fast. build-response.ts validates responses in the parent.
import type { BundleInput, BundleLimits, CellLanguage } from "../../tool-bundle.ts";

/** Location of the tool's own files: in memory, or below a real (symlink-free) folder that none of its imports may leave. */
export type ToolFilesLocation =
  | { readonly kind: "memory"; readonly files: { readonly [path: string]: string } }
  | {
      readonly kind: "folder";
      readonly folder: string;
      /** True if the tool was given as this folder, and not as one file in it. */
      readonly isWhole?: true | undefined;
    };

export interface BuildRequest {
  readonly files: ToolFilesLocation;
  readonly entry: string;
  /** Real paths of the `node_modules` folders that packages may come from, nearest first. */
  readonly stores: readonly string[];
  /** Real paths of the folders in which linked packages may lie. */
  readonly linked: readonly string[];
  /** True if the only file, the entry, is a script in sloppy mode. */
  readonly isScript?: true | undefined;
  /** True if the tool was given as one text, so that its author may choose `mode: "script"`. */
  readonly maySetMode?: true | undefined;
  /** Packages that the tool itself may import, together with their dependencies. `null` allows every package of the store. */
  readonly allowPackages: readonly string[] | null;
  readonly limits: BundleLimits;
  /** The file behind `glovebox/tool`. */
  readonly guestModule: string;
  /** Set if the entry, which is in memory, is a session cell. */
  readonly cell?: { readonly language: CellLanguage; readonly version: number } | undefined;
}

/** One issue of the source. `line` and `column` count from 1. */
export interface BuildIssue {
  readonly message: string;
  readonly file?: string | undefined;
  readonly line?: number | undefined;
  readonly column?: number | undefined;
  readonly lineText?: string | undefined;
  /** What to do instead. */
  readonly hint?: string | undefined;
}

/** A file that a build read. A cached bundle is valid as long as its dependencies are unchanged. */
export interface BuildDependency {
  readonly path: string;
  readonly owner: "tool" | "package";
  readonly size: number;
  readonly mtimeMs: number;
  readonly ctimeMs: number;
  readonly ino: number;
  readonly sha256: string;
}

export interface BuildSuccess {
  readonly ok: true;
  readonly code: string;
  readonly sourceMap: string;
  readonly exports: readonly string[];
  readonly inputs: readonly BundleInput[];
  readonly packages: readonly string[];
  readonly dynamicCode: readonly string[];
  readonly dependencies: readonly BuildDependency[];
  /** Paths that were looked up and missing. If one appears, the same source may build to a different bundle. */
  readonly absent: readonly string[];
}

export interface BuildFailure {
  readonly ok: false;
  readonly problems: readonly BuildIssue[];
}

export type BuildResponse = BuildSuccess | BuildFailure;

/** An issue of the source. Thrown in the child and in the parent, and reported to the caller as BUNDLE_FAILED. */
export class BuildIssueError extends Error {
  override readonly name = "BuildIssueError";
  readonly issue: BuildIssue;

  constructor(issue: BuildIssue) {
    super(issue.message);
    this.issue = issue;
  }
}

/** Maximum length of a path in a response. Linux has no longer ones. */
export const MAX_PATH_LENGTH = 4_096;

const HEADER_BYTES = 4;

export function encodeBuildFrame(message: BuildRequest | BuildResponse): Buffer {
  const body = Buffer.from(JSON.stringify(message), "utf8");
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeUInt32BE(body.length);
  return Buffer.concat([header, body]);
}

/** Collects one frame from the chunks of a stream. A frame larger than `maxBytes` is rejected as soon as its header has arrived. */
export class BuildFrameReader {
  readonly #maxBytes: number;
  readonly #chunks: Buffer[] = [];
  #received = 0;
  #expected: number | undefined;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Whether no byte followed the frame. The other side sends one frame at a time. */
  get isExact(): boolean {
    return this.#received === HEADER_BYTES + (this.#expected ?? 0);
  }

  /**
   * Returns the text of the frame once it is complete, `undefined` before.
   * @throws {RangeError} when the frame is larger than `maxBytes`
   */
  push(chunk: Buffer): string | undefined {
    this.#chunks.push(chunk);
    this.#received += chunk.length;
    if (this.#expected === undefined) {
      if (this.#received < HEADER_BYTES) return undefined;
      this.#expected = Buffer.concat(this.#chunks).readUInt32BE();
      if (this.#expected > this.#maxBytes) {
        throw new RangeError(`Expected a message of at most ${this.#maxBytes} bytes, got ${this.#expected}`);
      }
    }
    if (this.#received < HEADER_BYTES + this.#expected) return undefined;
    return Buffer.concat(this.#chunks).toString("utf8", HEADER_BYTES, HEADER_BYTES + this.#expected);
  }
}
