// Functions of node:fs that concern whole folders: lists, copies and removal, and the resolution of links.
import { current, openNode, type PathLike, readFlag, toPath } from "./fs-call-volume.ts";
import { type FsNode, fsError } from "./fs-volume.ts";

interface CopyOptions {
  readonly recursive?: boolean;
  readonly force?: boolean;
  readonly errorOnExist?: boolean;
  readonly filter?: (from: string, to: string) => unknown;
}

export function list(
  node: FsNode,
  prefix: string,
  path: string,
  recursive: boolean,
): (readonly [name: string, parent: string, node: FsNode])[] {
  return [...node.entries].flatMap(([name, entry]) => {
    const own = [[prefix + name, path, entry] as const];
    return recursive && entry.kind === "folder"
      ? [...own, ...list(entry, `${prefix}${name}/`, `${path}/${name}`, true)]
      : own;
  });
}

export function makeFolders(path: string, mode: number): string | undefined {
  let first: string | undefined;
  let made = "";
  for (const segment of path.split("/").filter((part) => part !== "" && part !== ".")) {
    made += `/${segment}`;
    const found = current().find(made, "mkdir");
    if (found.node === undefined) {
      current().add(found, "folder", mode, "mkdir", made);
      first ??= made;
    } else if (found.node.kind !== "folder") {
      throw fsError(made === path.replace(/\/+$/, "") ? "EEXIST" : "ENOTDIR", "mkdir", path);
    }
  }
  return first;
}

export function removeTree(path: string, syscall: string): void {
  const found = current().find(path, syscall, false);
  if (found.node?.kind === "folder")
    for (const name of [...found.node.entries.keys()]) removeTree(`${path}/${name}`, syscall);
  if (found.name !== "") current().unlink(found);
}

export function copyFile(from: PathLike, to: PathLike, mode = 0): void {
  const [source, target] = [toPath(from, "src"), toPath(to, "dest")];
  const node = current().get(source, "copyfile");
  if (node.kind === "folder") throw fsError("EISDIR", "copyfile", source, target);
  if (mode & 1 && current().find(target, "copyfile").node !== undefined)
    throw fsError("EEXIST", "copyfile", source, target);
  const made = openNode(target, readFlag("w"), node.mode, "copyfile");
  current().setBytes(made, node.bytes, "copyfile");
}

/** Copies step by step. Each step yields the result of the filter, and receives the value that it stands for. */
export function* copyAll(from: string, to: string, options: CopyOptions): Generator<unknown, void, unknown> {
  const node = current().get(from, "cp");
  if (options.filter !== undefined && !(yield options.filter(from, to))) return;
  if (node.kind !== "folder") {
    const exists = current().find(to, "cp").node !== undefined;
    if (exists && options.force === false) {
      if (options.errorOnExist) throw fsError("EEXIST", "cp", from, to);
      return;
    }
    copyFile(from, to);
    return;
  }
  if (!options.recursive) throw fsError("EISDIR", "cp", from, to);
  if (`${to}/`.startsWith(`${from.replace(/\/$/, "")}/`)) throw fsError("EINVAL", "cp", from, to);
  makeFolders(to, node.mode);
  for (const name of [...node.entries.keys()]) yield* copyAll(`${from}/${name}`, `${to}/${name}`, options);
}

/** Resolves links and dot segments of an existing path. */
export function resolveLinks(path: string): string {
  let done: string[] = [];
  const rest = path.split("/").filter((segment) => segment !== "" && segment !== ".");
  for (let segment = rest.shift(); segment !== undefined; segment = rest.shift()) {
    if (segment === "..") {
      done.pop();
      continue;
    }
    const { node } = current().find(`/${[...done, segment].join("/")}`, "lstat", false);
    if (node?.kind !== "link") {
      done.push(segment);
      continue;
    }
    if (node.target.startsWith("/")) done = [];
    rest.unshift(...node.target.split("/").filter((part) => part !== "" && part !== "."));
  }
  return `/${done.join("/")}`;
}
