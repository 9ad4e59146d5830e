// Tests the standard library as shipped by Pyodide with a corpus of small programs: each must have the same outcome as in CPython.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ToolResult } from "../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../src/host/glovebox/glovebox.ts";
import type { JsonValue } from "../../src/sandbox/contract/errors.ts";
import { errorOf, expectPublishable, makeGlovebox, outputOf, PYTHON_CACHE } from "../support/host-zone.ts";
import { ABSENT } from "./absent.ts";
import { CPYTHON, judge, type Outcome, RUN_CELLS, readCells } from "./cells.ts";

const cells = readCells();
/** A separate interpreter takes a third of a second to prepare, so only every n-th successful program has its own. */
const EACH = 14;
/** A call of many programs would reach its time limit on a busy machine. */
const CELLS_PER_CALL = 25;
/** Time in ms for preparations, on a machine that runs other work too. */
const PATIENCE_MS = 600_000;
const CALL_MS = 300_000;

let glovebox: Glovebox;
beforeAll(async () => {
  glovebox = await makeGlovebox({
    cache: PYTHON_CACHE,
    tools: { enabled: true, builtinTools: ["python_exec"] },
    limits: { timeoutMs: CALL_MS, cpuMs: CALL_MS },
  });
}, PATIENCE_MS);
afterAll(() => glovebox.close());

function run(code: string, input?: JsonValue, sessionId?: string): Promise<ToolResult> {
  const args = input === undefined ? { code } : { code, input };
  return glovebox.execute({ id: "cell", toolName: "python_exec", arguments: args }, { sessionId });
}

const printedIn = ({ logs }: ToolResult): string =>
  logs
    .filter(({ level }) => level === "info")
    .map(({ message }) => `${message}\n`)
    .join("");

/** Returns the lines of the author's frames, innermost first, without consecutive duplicates. */
const distinct = (lines: readonly number[]): number[] => lines.filter((line, index) => line !== lines[index - 1]);
const linesIn = (stack: string): number[] =>
  [...stack.matchAll(/\(snippet\.py:(\d+):\d+\)/g)].map(([, line]) => Number(line));
/** Of more frames the outermost are omitted. */
const MAX_FRAMES = 50;

function expectFailure(result: ToolResult, { type, message, lines }: NonNullable<Outcome["error"]>): void {
  const { code, details, stack = "", ...rest } = errorOf(result);
  expect({ code, name: details?.errorName, message: rest.message }).toEqual({
    code: "TOOL_FAILED",
    name: type,
    message,
  });
  const frames = linesIn(stack);
  const own = distinct(frames);
  const judged = distinct(lines.toReversed());
  expect(own).toEqual(frames.length < MAX_FRAMES ? judged : judged.slice(0, own.length));
}

describe.skipIf(CPYTHON === undefined)("python_exec has the same outcome as CPython", () => {
  let judged: readonly Outcome[];
  let ours: readonly Outcome[];

  beforeAll(async () => {
    judged = await judge(cells);
    const sources = cells.map(({ source }) => source);
    const outcomes: Outcome[] = [];
    for (let start = 0; start < sources.length; start += CELLS_PER_CALL) {
      const part = outputOf(await run(RUN_CELLS, sources.slice(start, start + CELLS_PER_CALL)));
      outcomes.push(...(part as unknown as readonly Outcome[]));
    }
    ours = outcomes;
  }, PATIENCE_MS);

  test("has at least 130 programs with unique titles", () => {
    expect(cells.length).toBeGreaterThanOrEqual(130);
    expect(new Set(cells.map(({ title }) => title)).size).toBe(cells.length);
    expect(judged).toHaveLength(cells.length);
  });

  const programs = cells.map(({ title }, index) => [title, index] as const);

  test.for(programs)("%s", ([, index]) => {
    const { error, ...outcome } = ours[index] ?? { printed: "nothing" };
    const { error: judgedError, ...judgement } = judged[index] ?? { printed: "nothing" };
    expect(outcome).toEqual(judgement);
    expect(error && { type: error.type, message: error.message, line: error.lines.at(-1) }).toEqual(
      judgedError && { type: judgedError.type, message: judgedError.message, line: judgedError.lines.at(-1) },
    );
  });

  // As seen by a caller: the value, the printed text as the log, an exception with its author's lines.
  test(
    "each by itself, a part of them",
    async () => {
      const chosen = cells.filter((_, index) => judged[index]?.error !== undefined || index % EACH === 0);
      expect(chosen.length).toBeGreaterThanOrEqual(20);
      for (const cell of chosen) {
        const outcome = judged[cells.indexOf(cell)];
        // A failing program must not affect the next one.
        const result = await run(cell.source, undefined, outcome?.error && "failures");
        expectPublishable(result);
        expect(printedIn(result), cell.title).toBe(outcome?.printed);
        if (outcome?.error !== undefined) expectFailure(result, outcome.error);
        else expect(outputOf(result), cell.title).toEqual(outcome?.value);
      }
    },
    PATIENCE_MS,
  );
});

describe("missing parts of CPython fail with a clear error", () => {
  let outcomes: readonly Outcome[];
  beforeAll(async () => {
    const sources = ABSENT.map(([, code]) => code);
    outcomes = outputOf(await run(RUN_CELLS, sources)) as unknown as readonly Outcome[];
  }, PATIENCE_MS);

  test.for(ABSENT.map(([name, , type, says], index) => [name, type, says, index] as const))(
    "%s",
    ([, type, says, index]) => {
      expect(outcomes[index]?.error).toMatchObject({ type, message: expect.stringMatching(says) });
    },
  );
});
