// Describes a build for its result: the files and packages that contribute to it, their names, and what uses dynamic code.
import { relative, resolve } from "node:path";
import type { Metafile } from "esbuild";
import { findDynamicCode, splitModules } from "../policy/dynamic-code-uses.ts";
import { NAMESPACES } from "../policy/import-resolver.ts";
import { displayFile } from "./build-issues.ts";
import { type OutputNames, sourcePathOf } from "./bundle-output.ts";
import type { BuildSuccess } from "./child/build-messages.ts";
import type { Build } from "./link-tool.ts";

export function codeOutput(metafile: Metafile | undefined): Metafile["outputs"][string] {
  const output = Object.values(metafile?.outputs ?? {}).find((candidate) => candidate.entryPoint !== undefined);
  if (output === undefined) throw new Error("Expected one output of the bundler");
  return output;
}

/** Display names of generated sources: entry stubs, built-ins, and modules that are switched off. */
const OWN_SOURCES = [
  [`${NAMESPACES.entry}:`, "glovebox/entry"],
  [`${NAMESPACES.builtin}:`, "glovebox/builtin"],
  [`${NAMESPACES.empty}:`, "glovebox/empty"],
  [`${NAMESPACES.absent}:`, "glovebox/absent"],
  ["(disabled):", "glovebox/empty"],
] as const;

export function namesFor(build: Build): OutputNames {
  const { store, context, files } = build;
  const printed = [...store.loaded].map((path) => {
    return [relative(context.workingDirectory, path), store.displayPath(path) ?? "package"] as const;
  });
  return {
    ofPrinted: new Map(printed),
    ofSource: (source) => {
      const name = displayFile(source, context);
      if (name !== undefined && /^\w+:/.test(source)) return name;
      const ours = OWN_SOURCES.find(([prefix]) => source.startsWith(prefix));
      if (ours !== undefined) return ours[1];
      const path = sourcePathOf(source);
      return store.loaded.has(path) ? store.displayPath(path) : undefined;
    },
    textOf: (name) => files.texts.get(name),
  };
}

/** Returns the source of a module that esbuild names: a file of the tool or of a package. */
export function sourceOf({ files, store, context }: Build, module: string): string | undefined {
  const prefix = `${NAMESPACES.tool}:`;
  if (module.startsWith(prefix)) return files.texts.get(module.slice(prefix.length));
  const path = resolve(context.workingDirectory, module);
  return store.loaded.has(path) ? store.load(path).contents.toString("utf8") : undefined;
}

/** Maps the module names that esbuild prints to a package or a file of the tool. Generated modules map to `undefined`. */
function labelsOf({ store, context }: Build, metafile: Metafile | undefined): ReadonlyMap<string, string | undefined> {
  const labels = Object.keys(metafile?.inputs ?? {}).map((file): [string, string | undefined] => {
    const path = displayFile(file, context);
    if (path === "glovebox/tool") return [file, undefined];
    return [file, store.labelOf(resolve(context.workingDirectory, file)) ?? path];
  });
  return new Map(labels);
}

/** Returns the packages and files of the tool that use dynamic code. A script is not part of the linked modules, so it is added. */
export function dynamicCodeOf(build: Build, linked: string, metafile: Metafile | undefined): readonly string[] {
  const { script, request, policy } = build;
  const modules = splitModules(linked, labelsOf(build, metafile));
  const all = script === undefined ? modules : [...modules, { label: request.entry, text: script.text }];
  return findDynamicCode(all, policy.facts);
}

export function summarize(build: Build, metafile: Metafile | undefined): Pick<BuildSuccess, "inputs" | "packages"> {
  const packages = new Set<string>();
  const inputs = Object.entries(codeOutput(metafile).inputs).flatMap(([file, { bytesInOutput }]) => {
    const path = displayFile(file, build.context);
    if (path === undefined) return [];
    const label = build.store.labelOf(resolve(build.context.workingDirectory, file));
    if (label !== undefined) packages.add(label);
    return [{ path, bytes: bytesInOutput }];
  });
  inputs.sort((a, b) => b.bytes - a.bytes || (a.path < b.path ? -1 : 1));
  return { inputs, packages: [...packages].sort() };
}

/** Returns the paths and sizes of the package files that contribute to the output. */
export function bundledFiles(
  build: Build,
  metafile: Metafile | undefined,
): readonly (readonly [path: string, bytes: number])[] {
  return Object.entries(codeOutput(metafile).inputs).flatMap(([input, { bytesInOutput }]) => {
    const path = resolve(build.context.workingDirectory, input);
    if (bytesInOutput === 0 || !build.store.loaded.has(path)) return [];
    return [[path, metafile?.inputs[input]?.bytes ?? 0] as const];
  });
}
