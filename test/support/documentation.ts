// The documents, the code blocks in them and in doc comments, and the public entries with their source files.
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const ROOT: string = fileURLToPath(new URL("../..", import.meta.url));
export const read = (path: string): string => readFileSync(join(ROOT, path), "utf8");

/** Documents whose examples are run or compiled, and whose links must resolve. */
export const DOCUMENTS: readonly string[] = [
  "README.md",
  ...globSync("docs/{*,guides/*,tutorials/*,decisions/*,reference/{platforms,dependencies},reference/errors/*}.md", {
    cwd: ROOT,
  }),
];

const { exports: published } = JSON.parse(read("package.json")) as {
  readonly exports: { readonly [path: string]: string | { readonly types: string } };
};

/** The published names with their source files, which the package has as declarations. */
export const ENTRIES: readonly (readonly [specifier: string, source: string])[] = Object.entries(published).flatMap(
  ([path, target]) =>
    typeof target === "string"
      ? []
      : [[`glovebox${path.slice(1)}`, target.types.replace(/^\.\/dist\/(.+)\.d\.ts$/, "src/$1.ts")] as const],
);

/** The text of each doc comment, without its stars. */
const docComments = (source: string): string =>
  [...source.matchAll(/\/\*\*[\s\S]*?\*\//g)].map(([comment]) => comment.replace(/^\s*\/?\*+ ?/gm, "")).join("\n");

export interface CodeBlock {
  /** The file of the block, and its number among the file's blocks of this language. */
  readonly name: string;
  readonly code: string;
}

/**
 * Returns the code blocks of a language in all documents and doc comments. Those with `ts` are run and compiled; those with `typescript` need a
 * server, a model or a test runner, and are compiled only.
 */
export function listCodeBlocks(language: "ts" | "typescript"): readonly CodeBlock[] {
  const pattern = new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``, "g");
  const blocksOf = (path: string, markdown: string): CodeBlock[] =>
    [...markdown.matchAll(pattern)].map(([, code = ""], index) => ({ name: `${path}, example ${index + 1}`, code }));
  return [
    ...DOCUMENTS.flatMap((path) => blocksOf(path, read(path))),
    ...globSync("src/**/*.ts", { cwd: ROOT }).flatMap((path) => blocksOf(path, docComments(read(path)))),
  ];
}
