// What one build has read so far: holds it to its caps, and records each file so that a cached bundle can be checked later.
import { createHash } from "node:crypto";
import { type BuildDependency, BuildProblemError } from "./build-messages.ts";
import type { ContainedFile } from "./contained-file.ts";
import type { BundleLimits } from "./tool-bundle.ts";

export type FileOwner = BuildDependency["owner"];

/** One row a byte cap: its name in {@link BundleLimits}, and how a message speaks of what it bounds. */
const BYTE_CAPS = {
  tool: { limit: "sourceBytes", subject: "The tool's own files" },
  package: { limit: "packageBytes", subject: "The package files that the tool loads" },
} as const satisfies Record<FileOwner, { limit: keyof BundleLimits; subject: string }>;

export class BuildLedger {
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

  /** How many more bytes files of this owner may have. */
  bytesLeft(owner: FileOwner): number {
    return this.#limits[BYTE_CAPS[owner].limit] - this.#bytes[owner];
  }

  /** @throws {BuildProblemError} when the file passes a cap */
  count(owner: FileOwner, bytes: number): void {
    this.#files += 1;
    this.#bytes[owner] += bytes;
    if (this.bytesLeft(owner) < 0) {
      const { limit, subject } = BYTE_CAPS[owner];
      throw new BuildProblemError({
        message: `${subject} have ${this.#bytes[owner]} bytes or more together; the limit ${limit} is ${this.#limits[limit]} bytes`,
      });
    }
    if (this.#files > this.#limits.files) {
      throw new BuildProblemError({
        message: `The tool loads more than ${this.#limits.files} files, the limit files`,
        hint: "a package's smaller entry, such as lodash-es/pick instead of lodash-es, loads fewer",
      });
    }
  }

  /** Package manifests are dependencies, but no input: they are recorded without being counted. */
  record(owner: FileOwner, file: ContainedFile): void {
    this.#dependencies.set(file.realPath, {
      path: file.realPath,
      owner,
      size: file.stats.size,
      mtimeMs: file.stats.mtimeMs,
      ctimeMs: file.stats.ctimeMs,
      ino: file.stats.ino,
      sha256: createHash("sha256").update(file.contents).digest("hex"),
    });
  }

  recordAbsent(path: string): void {
    this.#absent.add(path);
  }
}
