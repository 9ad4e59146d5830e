// Reports what a compiler with the classic API (TypeScript 5 and 6) finds in a consumer's files and in the declarations of Glovebox, with
// `skipLibCheck: false`. Declarations of other packages are read, but not checked: another test does that, and it takes most of the time.
// Run: node check-declarations.ts TYPESCRIPT_FOLDER TSCONFIG…. Each project is a program of its own; they share what is parsed.
import { createRequire } from "node:module";
import { dirname, sep } from "node:path";

interface Diagnostic {
  readonly file?: { readonly fileName: string };
}
interface SourceFile {
  readonly fileName: string;
}
interface Program {
  getSourceFiles(): readonly SourceFile[];
  getOptionsDiagnostics(): readonly Diagnostic[];
  getGlobalDiagnostics(): readonly Diagnostic[];
  getSyntacticDiagnostics(file: SourceFile): readonly Diagnostic[];
  getSemanticDiagnostics(file: SourceFile): readonly Diagnostic[];
}
interface ParsedConfig {
  readonly fileNames: readonly string[];
  readonly options: object;
  readonly errors: readonly Diagnostic[];
}
interface TypeScript {
  readonly sys: { readFile(path: string): string | undefined };
  readConfigFile(path: string, read: (path: string) => string | undefined): { readonly config: unknown };
  parseJsonConfigFileContent(config: unknown, host: unknown, folder: string): ParsedConfig;
  createCompilerHost(options: object): {
    getSourceFile(path: string, ...rest: readonly unknown[]): SourceFile | undefined;
  };
  createProgram(files: readonly string[], options: object, host: object): Program;
  formatDiagnostics(diagnostics: readonly Diagnostic[], host: object): string;
}

const [compiler = "", ...tsconfigs] = process.argv.slice(2);
const ts = createRequire(import.meta.url)(compiler) as TypeScript;
const parsedFiles = new Map<string, SourceFile | undefined>();
const isOurs = ({ fileName }: SourceFile): boolean =>
  !fileName.includes("/node_modules/") || fileName.includes("/node_modules/glovebox/");

function check(tsconfig: string): readonly Diagnostic[] {
  const { config } = ts.readConfigFile(tsconfig, ts.sys.readFile);
  const parsed = ts.parseJsonConfigFileContent(config, ts.sys, dirname(tsconfig));
  const host = ts.createCompilerHost(parsed.options);
  const parse = host.getSourceFile.bind(host);
  // The projects have the same options.
  host.getSourceFile = (path, ...rest) => {
    if (!parsedFiles.has(path)) parsedFiles.set(path, parse(path, ...rest));
    return parsedFiles.get(path);
  };
  const program = ts.createProgram(parsed.fileNames, parsed.options, host);
  return [
    ...parsed.errors,
    ...program.getOptionsDiagnostics(),
    ...program.getGlobalDiagnostics(),
    ...program
      .getSourceFiles()
      .filter(isOurs)
      .flatMap((file) => [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)]),
  ];
}

for (const tsconfig of tsconfigs) {
  const folder = `${dirname(tsconfig)}${sep}`;
  process.stdout.write(
    ts.formatDiagnostics(check(tsconfig), {
      getCurrentDirectory: () => folder,
      getCanonicalFileName: (name: string) => name,
      getNewLine: () => "\n",
    }),
  );
}
