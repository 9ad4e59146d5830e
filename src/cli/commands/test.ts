// glovebox test: a tool's own vitest files, run by the author's own vitest. What they call runs in the real sandbox, by glovebox/testing.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, realpathSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative, resolve } from "node:path";
import { isatty } from "node:tty";
import { EXIT_INTERRUPTED, type Io, stopCodeOf } from "../terminal/process-io.ts";
import { type Arguments, UsageError } from "../usage.ts";

const TEST_FILE = /\.test\.[cm]?[jt]sx?$/;
const INSTALL = "npm install --save-dev vitest";

function* testsBelow(folder: string): Generator<string> {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (entry.name === "node_modules" || entry.name.startsWith(".")) continue;
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* testsBelow(path);
    else if (TEST_FILE.test(entry.name)) yield path;
  }
}

/** @throws {UsageError} where there are none */
function findTests(path: string): readonly string[] {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined) throw new UsageError(`There is no file or folder "${path}"`);
  const real = realpathSync(path);
  // Beside `tool.ts` lies `tool.test.ts`.
  const files = stats.isDirectory() ? [...testsBelow(real)] : TEST_FILE.test(real) ? [real] : testsOf(real);
  if (files.length > 0) return files;
  throw new UsageError(`${path} has no tests; expected a file like tool.test.ts, as glovebox init writes one`);
}

function testsOf(file: string): readonly string[] {
  const stem = file.replace(/\.[^.]+$/, "");
  return [...testsBelow(dirname(file))].filter((path) => path.replace(TEST_FILE, "") === stem);
}

/** The script of the vitest that the author has installed. @throws {UsageError} where there is none */
function findVitest(folders: readonly string[]): string {
  for (const folder of folders) {
    try {
      const manifest = createRequire(join(folder, "from-here.js")).resolve("vitest/package.json");
      const { bin } = JSON.parse(readFileSync(manifest, "utf8")) as { readonly bin: { readonly vitest: string } };
      return join(dirname(manifest), bin.vitest);
    } catch {
      // Not from here.
    }
  }
  throw new UsageError(`The tests need vitest, which is not installed here: ${INSTALL}`);
}

/** Exit code 0 when all tests pass, 1 when one fails. */
export async function testCommand({ positionals: [path = "."] }: Arguments, io: Io): Promise<number> {
  const files = findTests(path);
  const folder = dirname(files[0] ?? resolve(path));
  const here = realpathSync(process.cwd());
  const vitest = findVitest([folder, here]);
  // Tests of another project are run there.
  const isHere = !relative(here, folder).startsWith("..");
  const root = isHere ? [] : ["--root", statSync(path).isDirectory() ? realpathSync(path) : folder];
  io.stop.throwIfAborted();
  const child = spawn(process.execPath, [vitest, "run", ...root, ...files], { stdio: "inherit" });
  // A terminal sends Ctrl-C to vitest too, which then ends by itself; a second signal would cut it short.
  const end = (): void => {
    if (stopCodeOf(io) !== EXIT_INTERRUPTED || !isatty(0)) child.kill("SIGTERM");
  };
  io.stop.addEventListener("abort", end, { once: true });
  const [code] = (await once(child, "exit")) as [number | null];
  return stopCodeOf(io) ?? (code === 0 ? 0 : 1);
}
