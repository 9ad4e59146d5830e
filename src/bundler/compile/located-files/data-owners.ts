// Reads the data files of a package or of the tool itself for data-files.ts: from disk, or from the tool's files in memory.
import { lstatSync, readdirSync } from "node:fs";
import { basename, join, relative, sep } from "node:path";
import { isDirectory, isInside, realPathOf } from "../../locate/contained-file.ts";
import type { PackageStore } from "../../locate/package-store.ts";
import type { ToolFiles } from "../../locate/tool-files.ts";
import type { ToolFilesLocation } from "../child/build-messages.ts";
import type { DataOwner, FolderFiles } from "./data-files.ts";
import { TOOL_FOLDER } from "./module-location.ts";

/** Lists files on disk. Links are not followed. */
function listFolder(folder: string, maxFiles: number, isWanted: (name: string) => boolean): FolderFiles | undefined {
  const paths: string[] = [];
  const folders = [folder];
  let bytes = 0;
  for (let at = folders.pop(); at !== undefined; at = folders.pop()) {
    for (const entry of readdirSync(at, { withFileTypes: true })) {
      if (entry.name === "node_modules" || !isWanted(entry.name)) continue;
      const path = join(at, entry.name);
      if (entry.isDirectory()) folders.push(path);
      if (!entry.isFile()) continue;
      paths.push(path);
      bytes += lstatSync(path, { throwIfNoEntry: false })?.size ?? 0;
      if (paths.length > maxFiles) return undefined;
    }
  }
  return { paths: paths.sort(), bytes };
}

/** Lists files of a folder on disk that must lie in `root`. */
function onDisk(root: string): Pick<DataOwner, "isFolder" | "list"> {
  return {
    isFolder: isDirectory,
    list: (folder, maxFiles, isWanted) => {
      // A link in a package or a tool could lead anywhere on the host.
      const realPath = realPathOf(folder);
      if (realPath === undefined || !isInside(root, realPath) || !isDirectory(realPath)) return undefined;
      return listFolder(realPath, maxFiles, isWanted);
    },
  };
}

/** Returns the package of a module. */
export function packageOwner(store: PackageStore, module: string): DataOwner | undefined {
  const folder = store.packageOf(module)?.folder;
  if (folder === undefined) return undefined;
  return {
    ...onDisk(folder),
    folder,
    guestPath: (path) => store.guestPath(path),
    read: (path) => store.loadData(folder, path),
  };
}

/** Lists the files of a tool in memory, whose folder is {@link TOOL_FOLDER}. */
function inMemory(files: { readonly [path: string]: string }): Pick<DataOwner, "isFolder" | "list"> {
  const paths = Object.keys(files).map((path) => join(TOOL_FOLDER, path));
  const below = (folder: string) => paths.filter((path) => path !== folder && isInside(folder, path));
  return {
    isFolder: (path) => below(path).length > 0,
    list: (folder, maxFiles, isWanted) => {
      const wanted = below(folder).filter((path) => relative(folder, path).split(sep).every(isWanted));
      if (wanted.length > maxFiles) return undefined;
      const bytes = wanted.reduce((sum, path) => sum + (files[relative(TOOL_FOLDER, path)] ?? "").length, 0);
      return { paths: wanted.sort(), bytes };
    },
  };
}

/** Returns the tool itself, or undefined if it is one file on disk: the files next to it are not part of it. */
export function toolOwner(location: ToolFilesLocation, files: ToolFiles): DataOwner | undefined {
  if (location.kind === "folder" && location.isWhole !== true) return undefined;
  const folder = location.kind === "memory" ? TOOL_FOLDER : location.folder;
  const pathOf = (path: string) => relative(folder, path).split(sep).join("/");
  const { isFolder, list } = location.kind === "memory" ? inMemory(location.files) : onDisk(folder);
  return {
    folder,
    isFolder,
    // Hidden files, such as .env, are never data of a tool.
    list: (at, maxFiles, isWanted) => list(at, maxFiles, (name) => !basename(name).startsWith(".") && isWanted(name)),
    guestPath: (path) => join(TOOL_FOLDER, pathOf(path)),
    read: (path) => files.loadData(pathOf(path)),
  };
}
