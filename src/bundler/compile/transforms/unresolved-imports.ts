// Imports of packages that lead nowhere: to a package or file that is not installed, or to a path that is computed at
// run time. In Node they fail when they are reached, often inside try; in a bundle, too. Static imports, and imports of
// the tool's own files, fail the build.
import type { Message } from "esbuild";

/** The argument of an import in a file: esbuild's line, counted from 1, and its column and length in bytes. */
interface ComputedImport {
  readonly line: number;
  readonly column: number;
  readonly length: number;
}

/** Matches esbuild's message about a computed path, such as require("./build/" + name), that matches no file. */
export const NO_MATCH = /^Could not resolve (?:import|require)\(/;
/** Matches esbuild's message about a path that does not exist. */
export const UNRESOLVED = /^Could not resolve "((?:[^"\\]|\\.)*)"/;

/** Returns the path that a message is about. esbuild quotes rare characters as Go does; such an import still fails the build. */
function specifierOf(text: string): string | undefined {
  const [, quoted] = UNRESOLVED.exec(text) ?? [];
  if (quoted === undefined) return undefined;
  try {
    return JSON.parse(`"${quoted}"`) as string;
  } catch {
    return undefined;
  }
}

export class UnresolvedImports {
  readonly #computed = new Map<string, ComputedImport[]>();
  readonly #missing = new Map<string, Set<string>>();

  /**
   * Adds the imports that the errors of a build are about.
   * @param pathOf returns the path of a file that a package has, given esbuild's name of it
   * @returns whether there is an import that was not there before, so that another build may succeed
   */
  add(errors: readonly Pick<Message, "text" | "location">[], pathOf: (file: string) => string | undefined): boolean {
    let hasMore = false;
    for (const { text, location } of errors) {
      const path = location === null ? undefined : pathOf(location.file);
      if (path === undefined || location === null) continue;
      const specifier = specifierOf(text);
      if (NO_MATCH.test(text)) hasMore = this.#addComputed(path, location) || hasMore;
      else if (specifier !== undefined) hasMore = this.#addMissing(path, specifier) || hasMore;
    }
    return hasMore;
  }

  #addComputed(path: string, { line, column, length }: ComputedImport): boolean {
    const known = this.#computed.get(path) ?? [];
    if (known.some((one) => one.line === line && one.column === column)) return false;
    this.#computed.set(path, [...known, { line, column, length }]);
    return true;
  }

  #addMissing(path: string, specifier: string): boolean {
    const known = this.#missing.get(path) ?? new Set();
    if (known.has(specifier)) return false;
    this.#missing.set(path, known.add(specifier));
    return true;
  }

  isMissing(importer: string, specifier: string): boolean {
    return this.#missing.get(importer)?.has(specifier) === true;
  }

  /** Returns a file's text in which esbuild leaves its computed imports to the running tool: each path is the last part of a comma expression. */
  keepComputed<Text extends string | Buffer>(path: string, text: Text): Text | string {
    const imports = this.#computed.get(path);
    if (imports === undefined) return text;
    const lines = text.toString().split("\n");
    // From the end of a line to its start, so that the other columns stay right.
    for (const { line, column, length } of imports.toSorted((a, b) => b.column - a.column)) {
      const bytes = Buffer.from(lines[line - 1] ?? "");
      const [before, argument] = [bytes.subarray(0, column), bytes.subarray(column, column + length)];
      lines[line - 1] = `${before}(0,${argument})${bytes.subarray(column + length)}`;
    }
    return lines.join("\n");
  }
}
