// Finds the project of a tool, so that commands find its packages from any working directory, as Node does.
import { existsSync, realpathSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { isInside } from "../../bundler/locate/contained-file.ts";
import { type Arguments, UsageError } from "../usage.ts";

/** Returns the outermost folder above a tool that has a package.json and packages: in a monorepo that of the workspaces. */
function findProject(path: string): string | undefined {
  if (path.includes("\0") || !existsSync(path)) return undefined;
  let found: string | undefined;
  for (let folder = realpathSync(resolve(path)); ; folder = dirname(folder)) {
    if (existsSync(join(folder, "package.json")) && existsSync(join(folder, "node_modules"))) found = folder;
    if (folder === dirname(folder)) return found;
  }
}

/** Returns the folders of `--linked-package`. @throws {UsageError} for a path that is not a folder */
function readLinkedPackages({ values }: Pick<Arguments, "values">): readonly string[] {
  const folders = (values["linked-package"] ?? []) as readonly string[];
  for (const folder of folders) {
    if (!folder.includes("\0") && statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true) continue;
    throw new UsageError(`--linked-package: expected a folder, got ${folder}`);
  }
  return folders;
}

/**
 * Returns options for the Glovebox of a command: the folder up to which packages of its tools are looked up, and the folders of
 * `--linked-package`. The first is the tools' project if they share one and the working directory does not contain it; otherwise the default.
 * @param paths paths of tools, as the user gave them
 * @throws {UsageError} for a linked package that is not a folder
 */
export function findPackages(
  paths: readonly string[],
  given: Pick<Arguments, "values">,
): { readonly bundler: { readonly root?: string; readonly linkedPackages: readonly string[] } } {
  const linkedPackages = readLinkedPackages(given);
  const [root, ...others] = new Set(paths.map(findProject));
  const isDefault = root === undefined || others.length > 0 || isInside(realpathSync(process.cwd()), root);
  return { bundler: isDefault ? { linkedPackages } : { root, linkedPackages } };
}
