// Records the files that a build reads: enforces the limits, and keeps what a later check of a cached bundle needs.
import { createHash } from "node:crypto";
import { type BuildDependency, BuildIssueError, MAX_PATH_LENGTH } from "../compile/child/build-messages.ts";
import type { BundleLimits } from "../tool-bundle.ts";
import type { ContainedFile } from "./contained-file.ts";

export type FileOwner = BuildDependency["owner"];

/**
 * Limits on bytes that are read. `packageBytes` limits what is bundled, which is known only at the end. A build may read several times as
 * much, since much of a package is often left out.
 */
const BYTE_LIMITS = {
  tool: { limit: "sourceBytes", times: 1, subject: "The tool's own files have" },
  package: { limit: "packageBytes", times: 4, subject: "The packages that the tool imports have files of" },
} as const satisfies Record<FileOwner, { limit: keyof BundleLimits; times: number; subject: string }>;

const HINTS: Readonly<Record<FileOwner, string>> = {
  tool: "a host sets the limit in limits.sourceBytes or bundler.limits.sourceBytes",
  package: "a host sets the limit in bundler.limits.packageBytes",
};

export class FileManifest {
  readonly #limits: BundleLimits;
  readonly #bytes: Record<FileOwner, number> = { tool: 0, package: 0 };
  readonly #dependencies = new Map<string, BuildDependency>();
  readonly #absent = new Set<string>();
  #files = 0;

  constructor(limits: BundleLimits) {
    this.#limits = limits;
  }

  get dependencies(): readonly BuildDependency[] {
    return [...this.#dependencies.values()];
  }

  get absent(): readonly string[] {
    return [...this.#absent];
  }

  /** Returns the number of bytes that may still be read from files of this owner. */
  bytesLeft(owner: FileOwner): number {
    const { limit, times } = BYTE_LIMITS[owner];
    return this.#limits[limit] * times - this.#bytes[owner];
  }

  /** @throws {BuildIssueError} when the file exceeds a limit */
  count(owner: FileOwner, bytes: number): void {
    this.#files += 1;
    this.#bytes[owner] += bytes;
    if (this.bytesLeft(owner) < 0) {
      const { limit, times, subject } = BYTE_LIMITS[owner];
      const most = times === 1 ? "" : `, and a build reads ${times} times as much at most`;
      throw new BuildIssueError({
        message: `${subject} ${this.#bytes[owner]} bytes or more together; the limit ${limit} is ${this.#limits[limit]} bytes${most}`,
        hint: HINTS[owner],
      });
    }
    if (this.#files > this.#limits.files) {
      throw new BuildIssueError({
        message: `The tool loads more than ${this.#limits.files} files, the limit files`,
        hint: "a package's smaller entry, such as lodash-es/pick instead of lodash-es, loads fewer; a host sets the limit in bundler.limits.files",
      });
    }
  }

  /** @throws {BuildIssueError} when the bundled package files exceed `packageBytes` */
  checkBundled(bytes: number): void {
    const { packageBytes } = this.#limits;
    if (bytes <= packageBytes) return;
    throw new BuildIssueError({
      message: `The bundled package files have ${bytes} bytes together; the limit packageBytes is ${packageBytes} bytes`,
      hint: HINTS.package,
    });
  }

  /** Records a dependency without counting it. Package manifests are read, but they are not an input of the bundle. Returns the hash of the file. */
  record(owner: FileOwner, file: ContainedFile): string {
    const sha256 = createHash("sha256").update(file.contents).digest("hex");
    this.#dependencies.set(file.realPath, {
      path: file.realPath,
      owner,
      size: file.stats.size,
      mtimeMs: file.stats.mtimeMs,
      ctimeMs: file.stats.ctimeMs,
      ino: file.stats.ino,
      sha256,
    });
    return sha256;
  }

  /** Ignores a path that is too long to appear later, such as a data: URL that code joins to its folder. */
  recordAbsent(path: string): void {
    if (path.length <= MAX_PATH_LENGTH) this.#absent.add(path);
  }
}
