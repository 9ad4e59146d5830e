// glovebox test: runs a tool's vitest files with the author's vitest. Tools that they open with glovebox/testing run in the real sandbox.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, realpathSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join, relative, resolve } from "node:path";
import { isatty } from "node:tty";
import { parseRecording } from "../../host/recording/recording.ts";
import { connectTenant, withServerErrors } from "../remote/connection.ts";
import { EXIT_INTERRUPTED, type Io, stopCodeOf } from "../terminal/process-io.ts";
import { type Arguments, toWriteError, UsageError } from "../usage.ts";

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

/** @throws {UsageError} if there are no tests */
function findTests(path: string): readonly string[] {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined) throw new UsageError(`There is no file or folder "${path}"`);
  const real = realpathSync(path);
  // The tests of `tool.ts` are in `tool.test.ts`, in the same folder.
  const files = stats.isDirectory() ? [...testsBelow(real)] : TEST_FILE.test(real) ? [real] : testsOf(real);
  if (files.length > 0) return files;
  throw new UsageError(`${path} has no tests. Expected a file such as tool.test.ts, which glovebox init creates`);
}

function testsOf(file: string): readonly string[] {
  const stem = file.replace(/\.[^.]+$/, "");
  return [...testsBelow(dirname(file))].filter((path) => path.replace(TEST_FILE, "") === stem);
}

/** Returns the path of the author's vitest. @throws {UsageError} if it is not installed */
function findVitest(folders: readonly string[]): string {
  for (const folder of folders) {
    try {
      const manifest = createRequire(join(folder, "from-here.js")).resolve("vitest/package.json");
      const { bin } = JSON.parse(readFileSync(manifest, "utf8")) as { readonly bin: { readonly vitest: string } };
      return join(dirname(manifest), bin.vitest);
    } catch {
      // Not installed for this folder.
    }
  }
  throw new UsageError(`The tests require vitest, which is not installed here. Run ${INSTALL}`);
}

const toTest = (
  id: string,
  tool: string,
  recordingFile: string,
): string => `import { readFile } from "node:fs/promises";
import { openTool } from "glovebox/testing";
import { expect, test } from "vitest";

// Building the tool and starting a sandbox can take longer than the 5 s of vitest's default.
test("has the recorded outcome of ${id}", { timeout: 120_000 }, async () => {
  await using tool = await openTool(new URL(${JSON.stringify(tool)}, import.meta.url));
  const recording = JSON.parse(await readFile(new URL(${JSON.stringify(recordingFile)}, import.meta.url), "utf8"));
  expect(await tool.replay(recording)).toMatchObject({ verdict: "identical" });
});
`;

/** Downloads the recording of a call, and writes it with a test next to the tool. Existing files are not replaced. */
async function writeRecordedTest(path: string, id: string, given: Arguments, io: Io): Promise<number> {
  // The id becomes a file name.
  if (!/^call_[0-9a-z]{26}$/.test(id)) throw new UsageError("--record: expected the id of a call: call_…");
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined) throw new UsageError(`There is no file or folder "${path}"`);
  const [folder, tool] = stats.isDirectory() ? [path, "./"] : [dirname(path), `./${basename(path)}`];
  return await withServerErrors(async () => {
    const recording = parseRecording(await (await connectTenant(given, io)).recording(id));
    const files = {
      [`${id}.recording.json`]: `${JSON.stringify(recording, null, 2)}\n`,
      [`${id}.test.ts`]: toTest(id, tool, `./${id}.recording.json`),
    };
    for (const [name, text] of Object.entries(files)) {
      const file = join(folder, name);
      try {
        writeFileSync(file, text, { flag: "wx" });
      } catch (thrown) {
        throw toWriteError(file, thrown);
      }
      io.stdout.print(`${file}\n`);
    }
    return 0;
  });
}

/** Exits with 0 if all tests pass, and with 1 if one fails. With `--record`, writes a test and runs none. */
export async function testCommand(given: Arguments, io: Io): Promise<number> {
  const { values, positionals } = given;
  const [path = "."] = positionals;
  if (values.record !== undefined) return await writeRecordedTest(path, values.record as string, given, io);
  const files = findTests(path);
  const folder = dirname(files[0] ?? resolve(path));
  const here = realpathSync(process.cwd());
  const vitest = findVitest([folder, here]);
  // Tests of another project run with that project as their root.
  const isHere = !relative(here, folder).startsWith("..");
  const root = isHere ? [] : ["--root", statSync(path).isDirectory() ? realpathSync(path) : folder];
  io.stop.throwIfAborted();
  const child = spawn(process.execPath, [vitest, "run", ...root, ...files], { stdio: "inherit" });
  // A terminal sends Ctrl-C to vitest as well, which then ends by itself; a second signal would interrupt its cleanup.
  const end = (): void => {
    if (stopCodeOf(io) !== EXIT_INTERRUPTED || !isatty(0)) child.kill("SIGTERM");
  };
  io.stop.addEventListener("abort", end, { once: true });
  const [code] = (await once(child, "exit")) as [number | null];
  return stopCodeOf(io) ?? (code === 0 ? 0 : 1);
}
