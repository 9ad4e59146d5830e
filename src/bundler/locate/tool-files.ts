// The tool's own files, from memory or from its folder: resolves an import to a file, and reads each file once, within the limits.
import { join, relative, sep } from "node:path";
import { BuildIssueError, type ToolFilesLocation } from "../compile/child/build-messages.ts";
import { readContainedFile } from "./contained-file.ts";
import type { FileManifest } from "./file-manifest.ts";
import { candidatesOf, toolPathIssue } from "./tool-paths.ts";

export class ToolFiles {
  readonly #location: ToolFilesLocation;
  readonly #fileManifest: FileManifest;
  readonly #texts = new Map<string, string>();

  constructor(location: ToolFilesLocation, fileManifest: FileManifest) {
    this.#location = location;
    this.#fileManifest = fileManifest;
    if (location.kind === "memory") this.#takeAll(location.files);
  }

  /** Text of each file that was read, by its relative path. */
  get texts(): ReadonlyMap<string, string> {
    return this.#texts;
  }

  /**
   * Finds and reads the file that an import of `path` means. Returns `undefined` if there is none.
   * @throws {BuildIssueError} when the file is not allowed or exceeds a limit
   */
  find(path: string): string | undefined {
    for (const candidate of candidatesOf(path)) {
      if (this.#has(candidate)) return candidate;
    }
    return undefined;
  }

  /**
   * Reads a data file of a tool's folder. Returns undefined if there is none, or if the tool may not have it.
   * @throws {BuildIssueError} when it exceeds a limit
   */
  loadData(path: string): Buffer | undefined {
    const text = this.#texts.get(path);
    if (text !== undefined) return Buffer.from(text);
    if (this.#location.kind === "memory" || toolPathIssue(path) !== undefined) return undefined;
    const { folder } = this.#location;
    const read = readContainedFile([folder], join(folder, path), this.#fileManifest.bytesLeft("tool"));
    if (read.kind === "absent") this.#fileManifest.recordAbsent(join(folder, path));
    if (read.kind === "too-large") this.#fileManifest.count("tool", read.size);
    if (read.kind !== "file") return undefined;
    // A link must not lead to a hidden file.
    if (toolPathIssue(relative(folder, read.file.realPath).split(sep).join("/")) !== undefined) return undefined;
    this.#fileManifest.count("tool", read.file.contents.length);
    this.#fileManifest.record("tool", read.file);
    return read.file.contents;
  }

  #takeAll(files: { readonly [path: string]: string }): void {
    for (const [path, text] of Object.entries(files)) {
      this.#fileManifest.count("tool", Buffer.byteLength(text));
      this.#texts.set(path, text);
    }
  }

  #has(path: string): boolean {
    if (this.#texts.has(path)) return true;
    if (this.#location.kind === "memory") return false;
    return this.#readFromFolder(this.#location.folder, path);
  }

  #readFromFolder(folder: string, path: string): boolean {
    const absolute = join(folder, path);
    const read = readContainedFile([folder], absolute, this.#fileManifest.bytesLeft("tool"));
    if (read.kind === "absent") {
      this.#fileManifest.recordAbsent(absolute);
      return false;
    }
    if (read.kind === "too-large") this.#fileManifest.count("tool", read.size);
    if (read.kind !== "file") {
      const reason = read.kind === "unreadable" ? read.reason : "a link leads out of the tool's folder";
      throw new BuildIssueError({ message: `Cannot read ${JSON.stringify(path)}: ${reason}` });
    }
    // A symlink inside the folder must not lead to a real path that is not allowed, such as a hidden file.
    const fault = toolPathIssue(relative(folder, read.file.realPath).split(sep).join("/"));
    if (fault !== undefined) throw new BuildIssueError({ message: `Cannot read ${JSON.stringify(path)}: ${fault}` });
    this.#fileManifest.count("tool", read.file.contents.length);
    this.#fileManifest.record("tool", read.file);
    this.#texts.set(path, read.file.contents.toString("utf8"));
    return true;
  }
}
