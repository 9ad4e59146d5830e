// The doc comments of the public API: each export has one, and all examples compile with the declarations of the package, also those that
// docs.test.ts cannot run.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { type ESTree, parseSync } from "vite";
import { expect, test } from "vitest";
import { ENTRIES, listCodeBlocks, ROOT, read } from "./support/documentation.ts";

interface Statement {
  readonly node: ESTree.Program["body"][number];
  /** Whether a doc comment ends directly before the statement. */
  readonly isDocumented: boolean;
}

const statements = new Map<string, readonly Statement[]>();

function parse(path: string): readonly Statement[] {
  const known = statements.get(path);
  if (known !== undefined) return known;
  const source = read(path);
  const { program, comments } = parseSync(path, source);
  const docs = comments.filter(({ type, value }) => type === "Block" && value.startsWith("*"));
  const parsed = program.body.map((node) => ({
    node,
    isDocumented: docs.some(({ end }) => end <= node.start && source.slice(end, node.start).trim() === ""),
  }));
  statements.set(path, parsed);
  return parsed;
}

const nameOf = (node: { readonly name: string } | { readonly value: string }): string =>
  "value" in node ? node.value : node.name;

/** Returns the names that a statement declares. */
function declaredNames(node: Statement["node"]): readonly string[] {
  const declaration = "declaration" in node && node.declaration !== null ? node.declaration : node;
  if (declaration.type === "VariableDeclaration")
    return declaration.declarations.flatMap(({ id }) => (id.type === "Identifier" ? [id.name] : []));
  return "id" in declaration && declaration.id?.type === "Identifier" ? [declaration.id.name] : [];
}

/** Returns the exported names of an entry. */
function exportedNames(path: string): readonly string[] {
  return parse(path).flatMap(({ node }) => {
    // Its names would have to be looked up in the other module.
    if (node.type === "ExportAllDeclaration") throw new Error(`${path}: List the names instead of "export *"`);
    if (node.type !== "ExportNamedDeclaration") return [];
    return node.declaration === null ? node.specifiers.map(({ exported }) => nameOf(exported)) : declaredNames(node);
  });
}

/** Whether the declaration of a name has a doc comment, in this module or in the one that it is re-exported or imported from. */
function isDocumented(path: string, name: string): boolean {
  for (const { node } of parse(path)) {
    if (node.type !== "ExportNamedDeclaration" && node.type !== "ImportDeclaration") continue;
    for (const specifier of node.specifiers) {
      if (specifier.type !== "ExportSpecifier" && specifier.type !== "ImportSpecifier") continue;
      const isExport = specifier.type === "ExportSpecifier";
      if (nameOf(isExport ? specifier.exported : specifier.local) !== name) continue;
      const original = nameOf(isExport ? specifier.local : specifier.imported);
      if (node.source !== null) return isDocumented(join(dirname(path), node.source.value), original);
    }
  }
  const declarations = parse(path).filter(({ node }) => declaredNames(node).includes(name));
  return declarations.some((declaration) => declaration.isDocumented);
}

test.for(ENTRIES)("each export of %s has a doc comment", ([, path]) => {
  const names = exportedNames(path);
  expect(names.length).toBeGreaterThan(0);
  expect(names.filter((name) => !isDocumented(path, name))).toEqual([]);
});

/** The declarations that the package has for a source file. Reading the sources instead takes four times as long. */
const toDeclarations = (source: string): string => join(ROOT, source.replace(/^src\/(.+)\.ts$/, "dist/$1.d.ts"));

test("each example of the documents and doc comments compiles", async () => {
  const blocks = { ts: listCodeBlocks("ts"), typescript: listCodeBlocks("typescript") };
  expect(blocks.typescript.length).toBeGreaterThan(10);
  // Inside the repository, so that the packages which the examples import are found.
  const folder = mkdtempSync(join(ROOT, "test", ".docs-"));
  try {
    // The compiler prints the names of the files, which are those of the examples.
    for (const [language, examples] of Object.entries(blocks)) {
      for (const { name, code } of examples) {
        writeFileSync(join(folder, `${name.replaceAll("/", "+")} (${language}).mts`), code);
      }
    }
    const compilerOptions = {
      // An example may declare what it does not use.
      noUnusedLocals: false,
      noUnusedParameters: false,
      paths: Object.fromEntries(ENTRIES.map(([specifier, path]) => [specifier, [toDeclarations(path)]])),
    };
    const config = { extends: "../../tsconfig.json", compilerOptions, include: ["*.mts"], exclude: [] };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(config));
    const compiler = join(ROOT, "node_modules/typescript/bin/tsc");
    const child = spawn(process.execPath, [compiler, "-p", folder, "--pretty", "false"], { cwd: folder });
    const ended = new Promise<number | null>((resolve) => child.on("exit", resolve));
    const [stdout, stderr, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
    expect({ stdout, stderr, code }).toEqual({ stdout: "", stderr: "", code: 0 });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
