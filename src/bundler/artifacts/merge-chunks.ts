// Merges the chunks that an import of the package loads into few files. esbuild makes a chunk for each set of entry points that share code, and
// to find and link each of 60 files takes half a millisecond.
import { basename, dirname, join } from "node:path";
import type { BuildOptions, BuildResult, Metafile, OutputFile } from "esbuild";

type Outputs = Metafile["outputs"];
type BuildFiles = (options: BuildOptions & { readonly write: false }) => Promise<BuildResult<{ write: false }>>;

/** A merged file: its name, and the chunks in it. */
interface Group {
  readonly name: string;
  readonly chunks: readonly string[];
}

/** The file of the entry point itself, and of what only the package needs. */
const CORE = "core.js";

/** Commands of the command line count as one start: they are merged for each other. */
const COMMAND = /^dist\/cli\/commands\//;
/** Modules that the host starts by their path, as processes and threads. The last one is the program of a doctor's check. */
export const PROGRAM: RegExp = /(?:-entry|host\/doctor\/orphan)\.js$/;
/** The command line and the programs must not load what they do not need. */
const isLight = (start: string): boolean => start.startsWith("dist/cli/") || PROGRAM.test(start);

/** Adds what loading an output loads: its static imports, theirs, and so on. */
function addLoaded(outputs: Outputs, path: string, found: Set<string>): Set<string> {
  if (found.has(path)) return found;
  found.add(path);
  for (const { path: imported, kind } of outputs[path]?.imports ?? [])
    if (kind === "import-statement" && imported in outputs) addLoaded(outputs, imported, found);
  return found;
}

/**
 * Groups the chunks that the entry point loads by the light starts that load them too. The chunks that a chunk imports have its light starts
 * and maybe more, so that groups do not import each other in a cycle.
 */
function groupChunks(outputs: Outputs, entry: string): readonly Group[] {
  const startOf = (path: string): string | undefined => outputs[path]?.entryPoint;
  const sizeOf = (path: string): number => Object.keys(outputs[path]?.inputs ?? {}).length;
  const chunks = [...addLoaded(outputs, entry, new Set())].filter((path) => startOf(path) === undefined);
  const [largest = ""] = chunks.toSorted((one, other) => sizeOf(other) - sizeOf(one));
  const startsOf = new Map<string, Set<string>>();
  for (const path of Object.keys(outputs)) {
    const start = startOf(path) ?? "";
    const loaded = addLoaded(outputs, path, new Set());
    if (!isLight(start) || loaded.has(largest)) continue;
    for (const chunk of loaded) {
      const starts = startsOf.get(chunk) ?? new Set();
      startsOf.set(chunk, starts.add(COMMAND.test(start) ? "command" : start));
    }
  }
  const groups = Map.groupBy(chunks, (path) => [...(startsOf.get(path) ?? [])].sort().join());
  return [...groups].flatMap(([starts, found], index) => {
    if (starts === "") return [{ name: CORE, chunks: [entry, ...found] }];
    return found.length > 1 ? [{ name: `shared-${index}.js`, chunks: found }] : [];
  });
}

/** An import of a chunk, as esbuild writes it. */
const IMPORT = /^import (?:\{([^}]*)\} from )?"\.\/([^"/]+)";$/gm;

/** An import of a module of Node, as esbuild writes it. */
const BUILTIN_IMPORT = /^import (?:([\w$]+)(?:, )?)?(?:\{([^}]*)\})? from "(node:[^"]+)";$/gm;

/** Versions of Node that are too old for `process.getBuiltinModule` must get as far as the message that says so. */
const GET_BUILTIN = `import { createRequire as __createRequire } from "node:module";
const __builtin = process.getBuiltinModule ?? __createRequire(import.meta.url);
`;

/**
 * Replaces imports of Node's modules. An import needs a module object with all exports, for which Node reads each of them, and so loads the
 * parts that it would load when they are used. The first line of a program is in the file that imports the bundle.
 */
function withoutBuiltinImports(text: string): string {
  const replaced = text.replace(
    BUILTIN_IMPORT,
    (_, whole: string | undefined, list: string | undefined, name: string) => {
      const parts = list === undefined ? [] : [`{ ${list.trim().replaceAll(" as ", ": ")} }`];
      const targets = whole === undefined ? parts : [whole, ...parts];
      return targets.map((target) => `const ${target} = __builtin("${name}");`).join("\n");
    },
  );
  return replaced === text ? text : GET_BUILTIN + replaced.replace(/^#!.*\n/, "");
}

/** Names under which a merged file exports the parts of its chunks, which may have the same names. */
const nameIn = (exported: string, index: number): string => `${exported}_${index}`;

/**
 * Replaces chunks by merged files.
 * @param built the result of a build with `splitting`
 * @param entry path of the entry point's output, as the metafile has it
 */
export async function mergeChunks(
  buildFiles: BuildFiles,
  { metafile: { outputs }, outputFiles }: BuildResult<{ write: false; metafile: true }>,
  entry: string,
): Promise<readonly OutputFile[]> {
  const texts = new Map(outputFiles.map(({ path, text }) => [basename(path), text]));
  const folder = dirname(outputFiles[0]?.path ?? "");
  const placeOf = new Map<string, { readonly group: string; readonly index: number }>();
  const groups = groupChunks(outputs, entry);
  for (const { name, chunks } of groups)
    for (const [index, path] of chunks.entries()) placeOf.set(basename(path), { group: name, index });

  const importMerged = (text: string): string =>
    text.replace(IMPORT, (statement, list: string | undefined, chunk: string) => {
      const place = placeOf.get(chunk);
      if (place === undefined) return statement;
      if (list === undefined) return `import "./${place.group}";`;
      const parts = list.split(",").map((part) => {
        const [exported = "", local = exported] = part.trim().split(" as ");
        return `${nameIn(exported, place.index)} as ${local}`;
      });
      return `import { ${parts.join(", ")} } from "./${place.group}";`;
    });

  const mergeGroup = async ({ name, chunks }: Group): Promise<readonly OutputFile[]> => {
    const exports = chunks.map((path, index) => {
      const parts = (outputs[path]?.exports ?? []).map((exported) => `${exported} as ${nameIn(exported, index)}`);
      return `export { ${parts.join(", ")} } from "./${basename(path)}";`;
    });
    const merged = await buildFiles({
      stdin: { contents: exports.join("\n"), resolveDir: folder, sourcefile: name },
      outfile: join(folder, name),
      write: false,
      bundle: true,
      format: "esm",
      target: "node24",
      platform: "node",
      legalComments: "none",
      logLevel: "warning",
      plugins: [
        {
          name: "chunks",
          setup({ onLoad, onResolve }) {
            onResolve({ filter: /./ }, ({ path, kind }) => {
              const isOwn = kind === "import-statement" && placeOf.get(basename(path))?.group === name;
              return isOwn ? { path: basename(path), namespace: "chunk" } : { path, external: true };
            });
            onLoad({ filter: /./, namespace: "chunk" }, ({ path }) => ({ contents: texts.get(path) ?? "" }));
          },
        },
      ],
    });
    return merged.outputFiles;
  };
  const merged = (await Promise.all(groups.map(mergeGroup))).flat();
  const rest = outputFiles.filter(({ path }) => !placeOf.has(basename(path)));
  const files = [...rest, ...merged].map((file) => ({
    ...file,
    contents: Buffer.from(withoutBuiltinImports(importMerged(file.text))),
  }));
  const exported = (outputs[entry]?.exports ?? []).map((name) => `${nameIn(name, 0)} as ${name}`);
  const contents = Buffer.from(`export { ${exported.join(", ")} } from "./${CORE}";\n`);
  const [core] = merged;
  return core === undefined ? files : [...files, { ...core, path: join(folder, basename(entry)), contents }];
}
