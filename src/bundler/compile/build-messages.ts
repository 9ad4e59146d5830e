// What the bundler and its child process say to each other: types, and frames of a length and JSON text. No zod here: the
// child starts for each build and must start fast; the parent's check of an answer is in build-response.ts.
import type { BundleInput, BundleLimits, CellLanguage } from "../tool-bundle.ts";

/** Where a tool's own files are: in memory, or below a real (symlink-free) folder that none of its imports may leave. */
export type ToolFilesLocation =
  | { readonly kind: "memory"; readonly files: { readonly [path: string]: string } }
  | { readonly kind: "folder"; readonly folder: string };

export interface BuildRequest {
  readonly files: ToolFilesLocation;
  readonly entry: string;
  /** Real paths of the `node_modules` folders that packages may come from, nearest first. */
  readonly stores: readonly string[];
  /** Real paths of the folders in which linked packages may lie. */
  readonly linked: readonly string[];
  /** The entry, the only file, is a script in sloppy mode. */
  readonly isScript?: true | undefined;
  /** Packages that the tool itself may import; those bring what they depend on. `null` allows all of the store. */
  readonly allowPackages: readonly string[] | null;
  readonly limits: BundleLimits;
  /** The file behind `glovebox/tool`. */
  readonly guestModule: string;
  /** The entry, which is in memory, is a cell of a session. */
  readonly cell?: { readonly language: CellLanguage; readonly version: number } | undefined;
}

/** One thing wrong with the source. `line` and `column` count from 1. */
export interface BuildProblem {
  readonly message: string;
  readonly file?: string | undefined;
  readonly line?: number | undefined;
  readonly column?: number | undefined;
  readonly lineText?: string | undefined;
  /** What would be allowed instead. */
  readonly hint?: string | undefined;
}

/** A file that a build read. A cached bundle is good for as long as its dependencies are what they were. */
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
  /** Paths that were looked for in vain: were one to appear, the same source could build to something else. */
  readonly absent: readonly string[];
}

export interface BuildFailure {
  readonly ok: false;
  readonly problems: readonly BuildProblem[];
}

export type BuildResponse = BuildSuccess | BuildFailure;

/** The source is at fault, and this says how. Thrown in the child and in the parent; becomes a BUNDLE_FAILED at the edge. */
export class BuildIssueError extends Error {
  override readonly name = "BuildIssueError";
  readonly problem: BuildProblem;

  constructor(problem: BuildProblem) {
    super(problem.message);
    this.problem = problem;
  }
}

const HEADER_BYTES = 4;

export function encodeFrame(message: BuildRequest | BuildResponse): Buffer {
  const body = Buffer.from(JSON.stringify(message), "utf8");
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeUInt32BE(body.length);
  return Buffer.concat([header, body]);
}

/** Gathers one frame from the chunks of a stream; a frame larger than `maxBytes` is refused by its header alone. */
export class FrameReader {
  readonly #maxBytes: number;
  readonly #chunks: Buffer[] = [];
  #received = 0;
  #expected: number | undefined;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /**
   * The frame's text once it is whole, `undefined` until then.
   * @throws {RangeError} when the frame is larger than it may be
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
