// Lets esbuild bundle the files that a package requires by a path that it builds from its own location: `require(__dirname + "/x.js")`.
import { posix } from "node:path";
import { childrenOf, type Syntax } from "../transforms/syntax.ts";
import { LocationValues } from "./location-values.ts";
import { ModuleNames, nameOf } from "./module-names.ts";
import { parseModule } from "./parse-module.ts";

/** Matches a call of `require` with something else than a literal in a module that knows its location. */
const COMPUTED_REQUIRE = /\brequire\s*\((?!\s*["'])/;
const MENTIONS_FOLDER = /\b__(?:dirname|filename)\b/;
const CODE = /\.(?:c?js|json)$/;
/** What Node appends to a path without an extension. */
const EXTENSIONS = ["", ".js", ".json"];

interface Edit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** Returns the path if all values of the expression name the same file, which has code or JSON. */
function requiredFile(
  values: LocationValues,
  argument: Syntax,
  module: string,
  isFile: (path: string) => boolean,
): string | undefined {
  const paths = values.valuesOf(argument).map((value) => {
    if (value.kind === "place") return value.isPrefix ? undefined : value.path;
    // Code that also runs without `__dirname` has "." in its place.
    return value.kind === "text" && /^\.\.?\//.test(value.text)
      ? posix.join(posix.dirname(module), value.text)
      : undefined;
  });
  const [path, ...others] = new Set(paths);
  if (path === undefined || others.length > 0) return undefined;
  return EXTENSIONS.map((extension) => path + extension).find((file) => CODE.test(file) && isFile(file));
}

function* findEdits(
  node: Syntax,
  module: string,
  names: ModuleNames,
  values: LocationValues,
  isFile: (path: string) => boolean,
  text: string,
): Generator<Edit> {
  const given = node.arguments as readonly Syntax[] | undefined;
  const callee = node.callee as Syntax | undefined;
  const [argument] = given ?? [];
  // A `require` that the module declares itself is another function.
  if (node.type === "CallExpression" && given?.length === 1 && argument !== undefined && callee !== undefined) {
    if (nameOf(callee) === "require" && argument.type !== "Literal" && !names.isDeclared(callee)) {
      const file = requiredFile(values, argument, module, isFile);
      if (file !== undefined) {
        const path = posix.relative(posix.dirname(module), file);
        const { start, end } = argument;
        // The lines keep their numbers.
        const lines = "\n".repeat(text.slice(start, end).split("\n").length - 1);
        yield { start, end, text: JSON.stringify(path.startsWith("../") ? path : `./${path}`) + lines };
        return;
      }
    }
  }
  for (const child of childrenOf(node)) yield* findEdits(child, module, names, values, isFile, text);
}

/**
 * Replaces such a path by a relative one, which esbuild resolves under the same rules as any import.
 * @param module the module's absolute path
 * @param isFile tells whether the module's package has this file
 */
export function requireLocatedFiles(text: string, module: string, isFile: (path: string) => boolean): string {
  if (!MENTIONS_FOLDER.test(text) || !COMPUTED_REQUIRE.test(text)) return text;
  const program = parseModule(text);
  if (program === undefined) return text;
  try {
    const names = new ModuleNames(program);
    const edits = [...findEdits(program, module, names, new LocationValues(module, names), isFile, text)];
    return edits.reduceRight((code, { start, end, text: path }) => code.slice(0, start) + path + code.slice(end), text);
  } catch (error) {
    // The walk is recursive, and generated code may be nested too deeply for the stack.
    if (error instanceof RangeError) return text;
    throw error;
  }
}
