// Output of the command line contains no character that a terminal interprets or hides, and only one file writes it.
import { readdirSync, readFileSync } from "node:fs";
import { PassThrough, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { printError, printJson, printLog } from "../../src/cli/shared/print.ts";
import { CliOutput, styled } from "../../src/cli/terminal/output.ts";
import { withProgress } from "../../src/cli/terminal/progress.ts";
import { toVisibleLine, toVisibleText } from "../../src/host/util/visible-text.ts";

const HOSTILE =
  "\u001b[2J\u001b]0;title\u0007 \u0000 \u007f \u009b31m \r over \u202eevil\u2066 \u200b \u2028 \u{e0041}\u{e0100} \ufeff";
/** Every character that a terminal interprets or hides, except newline and tab. */
const UNSAFE = /[^\P{Cc}\n\t]|[\u202a-\u202e\u2066-\u2069\u200b\u2028\u2029\ufeff]|[\u{e0000}-\u{e01ef}]/u;
const CLI = fileURLToPath(new URL("../../src/cli/", import.meta.url));

function collect(): { readonly output: CliOutput; text(): string } {
  const stream = new PassThrough();
  const chunks: string[] = [];
  stream.setEncoding("utf8").on("data", (chunk: string) => chunks.push(chunk));
  return { output: new CliOutput(stream, () => {}), text: () => chunks.join("") };
}

test("repaints the screen of a terminal with as many lines as it has, and none of their control characters", () => {
  const written: string[] = [];
  const stream = new Writable({
    decodeStrings: false,
    write(text: string, _encoding, done) {
      written.push(text);
      done();
    },
  });
  new CliOutput(Object.assign(stream, { isTTY: true, rows: 4 }), () => {}).repaint(
    `one\n${HOSTILE}\nthree\nfour\nfive`,
  );
  const lines = written.join("").split("\n");
  expect(lines).toHaveLength(4);
  expect([lines[0], lines[2], lines[3]]).toEqual(["\u001b[Hone\u001b[K", "three\u001b[K", "\u001b[J"]);
  expect(lines[1]?.slice(0, -"\u001b[K".length)).not.toMatch(UNSAFE);
});

test("cuts the lines of a repainted screen at the width of the terminal, so that none wraps", () => {
  const stream = new PassThrough();
  new CliOutput(Object.assign(stream, { isTTY: true, rows: 24, columns: 10 }), () => {}).repaint(
    "0123456789\n0123456789a\n\u001b[31m-red-and-long",
  );
  const shown = String(stream.read())
    .replace("\u001b[H", "")
    .split("\n")
    .map((line) => line.replace("\u001b[K", ""));
  expect(shown.slice(0, -1)).toEqual(["0123456789", "012345678…", "\\u001b[31…"]);
});

describe("the progress of a command", () => {
  const start = (isTTY: boolean) => {
    const written: string[] = [];
    const stream = new Writable({
      decodeStrings: false,
      write(text: string, _encoding, done) {
        written.push(text);
        done();
      },
    });
    vi.useFakeTimers();
    onTestFinished(() => {
      vi.useRealTimers();
    });
    const output = new CliOutput(Object.assign(stream, { isTTY, columns: 30 }), () => {});
    const { promise, resolve } = Promise.withResolvers<string>();
    const done = withProgress(`Building ${HOSTILE}`, output, () => promise);
    return { written, done, resolve };
  };

  test("is one line of a terminal, which disappears at the end", async () => {
    const { written, done, resolve } = start(true);
    await vi.advanceTimersByTimeAsync(400);
    expect(written).toEqual([]);
    await vi.advanceTimersByTimeAsync(1_200);
    expect(written).toHaveLength(2);
    for (const text of written) {
      expect(text.startsWith("\rBuilding ")).toBe(true);
      expect(text.endsWith("\u001b[K\r")).toBe(true);
      expect(text.slice(1, -"\u001b[K\r".length)).not.toMatch(UNSAFE);
      expect(text.length).toBeLessThan(36);
    }
    resolve("built");
    expect(await done).toBe("built");
    expect(written.at(-1)).toBe("\r\u001b[K\r");
    await vi.advanceTimersByTimeAsync(5_000);
    expect(written).toHaveLength(3);
  });

  test("is not shown outside a terminal", async () => {
    const { written, done, resolve } = start(false);
    await vi.advanceTimersByTimeAsync(5_000);
    resolve("built");
    await done;
    expect(written).toEqual([]);
  });
});

const binary = (): fc.Arbitrary<string> => fc.string({ unit: "binary", maxLength: 200 });

describe("visible text", () => {
  test("has no control or invisible character, for any text", () => {
    fc.assert(
      fc.property(fc.oneof(binary(), fc.constant(HOSTILE)), (text) => {
        expect(toVisibleText(text)).not.toMatch(UNSAFE);
        expect(toVisibleLine(text)).not.toMatch(/[\p{Cc}]/u);
      }),
    );
  });

  test("keeps the value of JSON", () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: "binary" }), fc.constantFrom(undefined, 2), (value, indent) => {
        const text = JSON.stringify(value, null, indent);
        expect(JSON.parse(toVisibleText(text))).toEqual(JSON.parse(text));
      }),
    );
  });

  test("keeps text of every language, joiners, emoji, newlines and tabs", () => {
    for (const text of ["Grüße 日本語 עברית العربية", "می‌خواهم 👩‍👩‍👧 ❤️", "a\n\tb", "{}\\"]) {
      expect(toVisibleText(text)).toBe(text);
    }
    expect(toVisibleText("a\r\nb\rc")).toBe("a\nb\\u000dc");
  });
});

describe("an output of the command line", () => {
  test("escapes plain and styled text, logs, errors and JSON", async () => {
    const { output, text } = collect();
    output.print(HOSTILE, styled("red", HOSTILE), "\n");
    printLog(
      { level: "info", time: 0, message: HOSTILE, data: { [HOSTILE]: HOSTILE }, place: HOSTILE, callId: HOSTILE },
      output,
    );
    const problem = { file: HOSTILE, line: 1, column: 2, lineText: HOSTILE, message: HOSTILE };
    const stack = `Error: ${HOSTILE}\n    at ${HOSTILE} (${HOSTILE}:1:2)`;
    const base = {
      code: "TOOL_FAILED",
      message: HOSTILE,
      userMessage: HOSTILE,
      recoverable: false,
      docs: HOSTILE,
    } as const;
    printError({ ...base, details: { problems: [problem] }, stack }, output);
    const place = { file: HOSTILE, line: 1, column: 2 };
    printError({ ...base, details: place }, output, () => `> 1 | ${HOSTILE}\n    | ^`);
    printJson({ [HOSTILE]: HOSTILE }, output);
    printJson({ [HOSTILE]: HOSTILE }, output, 2);
    await expect.poll(text).toContain("\\u001b[2J");
    expect(text()).not.toMatch(UNSAFE);
  });

  test("reports the first failed write once, and prints nothing after it", async () => {
    const failures: string[] = [];
    const stream = new Writable({ write: (_chunk, _encoding, done) => done(new Error("no space")) });
    const output = new CliOutput(stream, ({ message }) => failures.push(message));
    for (let count = 0; count < 3; count += 1) output.print("text");
    await expect.poll(() => failures).toEqual(["no space"]);
    output.print("more");
    await output.drained();
    expect(failures).toEqual(["no space"]);
  });

  test("waits for a slow reader, but not for one that has disconnected", async () => {
    const stream = new PassThrough({ highWaterMark: 16 });
    const output = new CliOutput(stream, () => {});
    output.print("x".repeat(100));
    let isDrained = false;
    const drained = output.drained().then(() => {
      isDrained = true;
    });
    await new Promise(setImmediate);
    expect(isDrained).toBe(false);
    stream.resume();
    await drained;
    stream.pause();
    output.print("x".repeat(100));
    const gone = output.drained();
    stream.destroy(new Error("gone"));
    await gone;
  });
});

test("only CliOutput and the version check write to the process's streams", () => {
  const files = readdirSync(CLI, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts"));
  const writing = files.filter((file) =>
    /(?:stdout|stderr)\.write|console\.|writeSync\(|process\.emitWarning/.test(readFileSync(`${CLI}${file}`, "utf8")),
  );
  expect(writing).toEqual(["main.ts"]);
});
