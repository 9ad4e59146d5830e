// Finds the compiler: the native program of TypeScript 7, an optional peer of this package.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import * as z from "zod";
import { unavailable } from "../../../sandbox/contract/errors.ts";

/** The compiler's program, and the folder of its own declaration files. */
export interface Compiler {
  readonly path: string;
  readonly folder: string;
  /** Names of the files in the folder that the program may read. */
  readonly libraries: ReadonlySet<string>;
  readonly version: string;
}

const OLDEST = 7;
const PackageSchema = z.looseObject({ version: z.string() });

const missing = (what: string) =>
  unavailable(
    "unsupported",
    `Type checking of code needs TypeScript ${OLDEST}; ${what}. Run "npm install typescript@${OLDEST}", or turn it off with typeCheck: false`,
  );

const versionOf = (path: string): string => PackageSchema.parse(JSON.parse(readFileSync(path, "utf8"))).version;

/**
 * Finds the compiler that is installed next to this package.
 * @param names packages to look in, in this order
 * @throws {ToolError} TOOL_UNAVAILABLE (`details.reason: "unsupported"`) if TypeScript is missing, too old, or not made for this machine
 */
export function findCompiler(names: readonly string[] = ["typescript"]): Compiler {
  const require = createRequire(import.meta.url);
  const resolve = (name: string, from: NodeJS.Require = require): string | undefined => {
    try {
      return from.resolve(`${name}/package.json`);
    } catch {
      return undefined;
    }
  };
  let found = "it is not installed";
  for (const name of names) {
    const path = resolve(name);
    if (path === undefined) continue;
    const version = versionOf(path);
    found = `version ${version} is installed`;
    if (Number.parseInt(version, 10) < OLDEST) continue;
    const platform = `@typescript/typescript-${process.platform}-${process.arch}`;
    const manifest = resolve(platform, createRequire(path));
    const folder = manifest === undefined ? undefined : join(dirname(manifest), "lib");
    const program = folder === undefined ? "" : join(folder, process.platform === "win32" ? "tsc.exe" : "tsc");
    if (folder === undefined || !existsSync(program)) throw missing(`its package ${platform} is not installed`);
    const libraries = new Set(readdirSync(folder).filter((file) => /^lib\.[\w.]*d\.ts$/.test(file)));
    return { path: program, folder, libraries, version };
  }
  throw missing(found);
}
