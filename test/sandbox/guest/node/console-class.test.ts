// Compares Console of node:console in a guest with Node's own.
import { expect, test } from "vitest";
import { expectLikeNode, inGuest } from "../../../support/guest.ts";

test("writes to the streams that it is given as Node does", async () => {
  await expectLikeNode(() => {
    const { Console } = process.getBuiltinModule("node:console");
    const { Writable } = process.getBuiltinModule("node:stream");
    const lines: string[] = [];
    const open = (name: string): InstanceType<typeof Writable> =>
      new Writable({
        write(chunk, _encoding, done) {
          lines.push(`${name}: ${String(chunk)}`);
          done();
        },
      });
    const codeOf = (run: () => unknown): unknown => {
      try {
        return run();
      } catch (error) {
        return (error as { code?: string }).code;
      }
    };
    const both = new Console(open("out"), open("err"));
    both.log("x %d", 5, { a: 1 });
    both.error("y");
    both.table([{ a: 1, b: "x" }]);
    both.table(5);
    both.dir({ a: { b: { c: 1 } } }, { depth: 0 });
    both.assert(true, "no");
    both.assert(false, "m %s", 1);
    both.assert(0, { a: 1 });
    both.count();
    both.count("l");
    both.count();
    both.countReset();
    both.count();
    both.time("t");
    both.timeEnd("t");

    const one = new Console({ stdout: open("one"), groupIndentation: 4 });
    one.group("g");
    one.log("two\nlines");
    one.group();
    one.warn("deep");
    one.groupEnd();
    one.groupEnd();
    one.groupEnd();
    const { log } = one;
    log("alone");

    const called = (Console as unknown as (stream: unknown) => Console)(open("called"));
    called.info("z");
    class Own extends Console {
      hi(): void {
        this.log("hi");
      }
    }
    new Own(open("own")).hi();
    return [
      lines.map((line) => line.replace(/[\d.]+ms/, "ms")),
      called instanceof Console,
      codeOf(() => new Console(undefined as never)),
      codeOf(() => new Console({ stdout: {} as never })),
    ];
  }, undefined);
});

test("is console.Console", async () => {
  const isSame = await inGuest(
    () => (console as unknown as { Console: unknown }).Console === process.getBuiltinModule("node:console").Console,
  );
  expect(isSame).toBe(true);
});
