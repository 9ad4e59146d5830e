// Loads a corpus of Python programs over the standard library, in the percent format of notebooks, and runs it in CPython.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { json } from "node:stream/consumers";
import type { JsonValue } from "../../src/sandbox/contract/errors.ts";

export interface Cell {
  readonly title: string;
  readonly source: string;
}

const folder = new URL("library/", import.meta.url);

/** The cells of library/*.py in the order of file names. */
export function readCells(): readonly Cell[] {
  const files = readdirSync(folder).filter((name) => name.endsWith(".py"));
  const texts = files.sort().map((name) => readFileSync(new URL(name, folder), "utf8"));
  return texts.flatMap((text) => text.split(/^# %% /m).slice(1)).map(toCell);
}

function toCell(text: string): Cell {
  const end = text.indexOf("\n");
  return { title: text.slice(0, end), source: text.slice(end + 1).trimEnd() };
}

/** Outcome of a cell: its value, or the exception with the cell's own lines, outermost first. */
export interface Outcome {
  readonly printed: string;
  readonly value?: JsonValue;
  readonly error?: { readonly type: string; readonly message: string; readonly lines: readonly number[] };
}

/** Prefers Debian's interpreter to that of a version manager. */
const CANDIDATES = ["/usr/bin/python3", "/usr/local/bin/python3", "/bin/python3"];
/** Path of the CPython interpreter, or undefined on a machine without one. */
export const CPYTHON: string | undefined = CANDIDATES.find(existsSync);

/** Python source that defines main(sources), which returns an outcome for each. */
export const RUN_CELLS: string = readFileSync(new URL("judge.py", import.meta.url), "utf8");

const DRIVER =
  "import json, sys; names = {}; exec(sys.argv[1], names); json.dump(names['main'](json.load(sys.stdin)), sys.stdout)";

/** Runs cells in CPython, in one process. */
export async function judge(cells: readonly Cell[]): Promise<readonly Outcome[]> {
  if (CPYTHON === undefined) throw new Error(`Expected CPython at one of ${CANDIDATES.join(", ")}`);
  // Isolated mode: no environment variables and no installed packages.
  const args = ["-I", "-c", DRIVER, RUN_CELLS];
  const child = spawn(CPYTHON, args, { stdio: ["pipe", "pipe", "inherit"], env: { LC_ALL: "C.UTF-8" } });
  const closed = once(child, "close");
  child.stdin.end(JSON.stringify(cells.map(({ source }) => source)));
  const outcomes = (await json(child.stdout)) as readonly Outcome[];
  await closed;
  return outcomes;
}
