// Lowers a cell whose syntax is more than JavaScript and types (enums, namespaces, parameter properties, decorators) with esbuild.
import { originalPositionFor, TraceMap } from "@jridgewell/trace-mapping";
import type { BuildFailure as EsbuildFailure } from "esbuild";
import { BuildIssueError } from "../compile/child/build-messages.ts";
import type { RunEsbuild } from "../compile/link-tool.ts";
import type { CellLanguage } from "../tool-bundle.ts";
import { type CellModule, toCellModule } from "./cell.ts";
import type { CellLocation } from "./cell-edits.ts";

const OPTIONS = {
  bundle: false,
  write: false,
  format: "esm",
  target: "node24",
  charset: "ascii",
  legalComments: "none",
  sourcemap: "external",
  sourcesContent: false,
  outfile: "/glovebox/cell.js",
  absWorkingDir: "/",
  // Imports of a cell stay even if it does not use them: later cells may.
  tsconfigRaw: { compilerOptions: { verbatimModuleSyntax: true, experimentalDecorators: false } },
  logLevel: "silent",
} as const;

function toIssueError({ errors: [first] }: EsbuildFailure, file: string): BuildIssueError {
  const { text = "The bundler failed on this cell", location } = first ?? {};
  if (!location) return new BuildIssueError({ file, message: text });
  const { line, column, lineText } = location;
  return new BuildIssueError({ file, message: text, line, column: column + 1, lineText });
}

const isFailure = (thrown: unknown): thrown is EsbuildFailure =>
  Error.isError(thrown) && Array.isArray((thrown as Partial<EsbuildFailure>).errors);

/** @throws {BuildIssueError} for a syntax error or an export */
export async function lowerCell(
  source: string,
  file: string,
  language: CellLanguage,
  esbuild: RunEsbuild,
): Promise<CellModule> {
  const loader = language === "typescript" ? "ts" : "js";
  const built = await esbuild({ ...OPTIONS, stdin: { contents: source, sourcefile: file, loader } }).catch((thrown) => {
    throw isFailure(thrown) ? toIssueError(thrown, file) : thrown;
  });
  const textOf = (ending: string): string => built.outputFiles?.find(({ path }) => path.endsWith(ending))?.text ?? "";
  const map = new TraceMap(textOf(".map"));
  const toAuthor = ({ line, column }: CellLocation): CellLocation | undefined => {
    const at = originalPositionFor(map, { line: line + 1, column });
    return at.line === null ? undefined : { line: at.line - 1, column: at.column };
  };
  try {
    const module = await toCellModule(textOf(".js"), file, "javascript");
    return {
      ...module,
      toCellLocation: (location) => {
        const own = module.toCellLocation(location);
        return own && toAuthor(own);
      },
    };
  } catch (thrown) {
    if (!(thrown instanceof BuildIssueError) || thrown.issue.line === undefined) throw thrown;
    const { line, column = 1, lineText: _, ...rest } = thrown.issue;
    const at = toAuthor({ line: line - 1, column: column - 1 });
    if (at === undefined) throw new BuildIssueError(rest);
    const lineText = source.split("\n")[at.line];
    throw new BuildIssueError({ ...rest, line: at.line + 1, column: at.column + 1, lineText });
  }
}
