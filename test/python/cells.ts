// A corpus of Python over the standard library, in the percent format of notebooks, and what CPython makes of it.
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

/** Those of library/*.py, in order of the files' names. */
export function readCells(): readonly Cell[] {
  const files = readdirSync(folder).filter((name) => name.endsWith(".py"));
  const texts = files.sort().map((name) => readFileSync(new URL(name, folder), "utf8"));
  return texts.flatMap((text) => text.split(/^# %% /m).slice(1)).map(toCell);
}

function toCell(text: string): Cell {
  const end = text.indexOf("\n");
  return { title: text.slice(0, end), source: text.slice(end + 1).trimEnd() };
}

/** What became of a cell: its value, or the exception with the cell's own lines, outermost first. */
export interface Outcome {
  readonly printed: string;
  readonly value?: JsonValue;
  readonly error?: { readonly type: string; readonly message: string; readonly lines: readonly number[] };
}

/** Debian's own before whatever a version manager puts in its place. */
const CANDIDATES = ["/usr/bin/python3", "/usr/local/bin/python3", "/bin/python3"];
/** Where the judge is; undefined on a machine that has none. */
export const CPYTHON: string | undefined = CANDIDATES.find(existsSync);

/** Python that defines main(sources), which gives an outcome for each. */
export const RUN_CELLS: string = readFileSync(new URL("judge.py", import.meta.url), "utf8");

const DRIVER =
  "import json, sys; names = {}; exec(sys.argv[1], names); json.dump(names['main'](json.load(sys.stdin)), sys.stdout)";

/** What CPython makes of them, in one process. */
export async function judge(cells: readonly Cell[]): Promise<readonly Outcome[]> {
  if (CPYTHON === undefined) throw new Error(`Expected CPython at one of ${CANDIDATES.join(", ")}`);
  // Isolated: no environment, no packages of this machine's.
  const args = ["-I", "-c", DRIVER, RUN_CELLS];
  const child = spawn(CPYTHON, args, { stdio: ["pipe", "pipe", "inherit"], env: { LC_ALL: "C.UTF-8" } });
  const closed = once(child, "close");
  child.stdin.end(JSON.stringify(cells.map(({ source }) => source)));
  const outcomes = (await json(child.stdout)) as readonly Outcome[];
  await closed;
  return outcomes;
}
