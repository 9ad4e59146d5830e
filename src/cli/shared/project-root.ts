// Finds the project of a tool, so that commands find its packages from any working directory, as Node does.
import { existsSync, realpathSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { isInside } from "../../bundler/locate/contained-file.ts";

/** Returns the outermost folder above a tool that has a package.json and packages: in a monorepo that of the workspaces. */
function findProject(path: string): string | undefined {
  if (path.includes("\0") || !existsSync(path)) return undefined;
  let found: string | undefined;
  for (let folder = realpathSync(resolve(path)); ; folder = dirname(folder)) {
    if (existsSync(join(folder, "package.json")) && existsSync(join(folder, "node_modules"))) found = folder;
    if (folder === dirname(folder)) return found;
  }
}

/**
 * Returns options for the Glovebox of a command: the folder up to which packages of its tools are looked up. That is the tools' project if they
 * share one and the working directory does not contain it; otherwise the default.
 * @param paths paths of tools, as the user gave them
 */
export function findPackageRoot(paths: readonly string[]): { readonly bundler?: { readonly root: string } } {
  const [root, ...others] = new Set(paths.map(findProject));
  if (root === undefined || others.length > 0 || isInside(realpathSync(process.cwd()), root)) return {};
  return { bundler: { root } };
}
