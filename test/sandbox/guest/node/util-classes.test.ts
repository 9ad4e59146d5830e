// Compares the newer members of node:util (media types, edits, system errors, call sites) in a guest with Node's own.
import { expect, test } from "vitest";
import { expectLikeNode, inGuest } from "../../../support/guest.ts";

test("MIMEType parses and serializes like Node", async () => {
  await expectLikeNode(() => {
    const { MIMEType } = process.getBuiltinModule("node:util");
    const texts = [
      "text/html",
      "  Text/HTML ; Charset=UTF-8 ;x",
      'text/plain;a="b\\"c";a=2;=x;y=;z=" "',
      'text/plain;a="unterminated\\',
      'text/plain;a="quoted"trailing;b=c',
      "text/plain;a=b c;d=e\t",
      "text/plain;;;a=b",
      "text/plain;a;b=c",
      "text/plain; bad name=x;ok=1",
      "text/plain;a=\u00ff;b=\u0100;c=\u0001",
      "text/plain;a=",
      "text/plain;a=;b=1",
      'text/plain;empty=""',
      "text/plain;\u0130=x",
      "text",
      "text/",
      "/plain",
      "te xt/plain",
      "text/pl ain",
      "text/plain/x",
      "",
      "text/x y;a=b",
    ];
    return texts.map((text) => {
      try {
        const type = new MIMEType(text);
        return [type.type, type.subtype, type.essence, [...type.params], `${type}`, JSON.stringify({ type })];
      } catch (error) {
        const { code, message, name } = error as NodeJS.ErrnoException;
        return [code, message, name];
      }
    });
  }, undefined);
});

test("MIMEType and MIMEParams change like Node's", async () => {
  await expectLikeNode(() => {
    const { MIMEType, MIMEParams, inspect } = process.getBuiltinModule("node:util");
    const type = new MIMEType("text/html;charset=utf-8");
    type.type = "APPLICATION";
    type.subtype = "JSON";
    type.params.set("Charset", 'a "b" \\c');
    type.params.set("n", 5 as never);
    type.params.set("e", "");
    const before = `${type}`;
    type.params.delete("N");
    const attempts = [
      () => {
        type.type = "";
      },
      () => {
        type.subtype = "a/b";
      },
      () => type.params.set("a b", "c"),
      () => type.params.set("", "c"),
      () => type.params.set("a", "\u0100"),
      () => (type.params as unknown as { keys: () => void }).keys.call({}),
    ].map((attempt) => {
      try {
        return [...((attempt() as Iterable<string> | undefined) ?? [])];
      } catch (error) {
        const { code, message } = error as NodeJS.ErrnoException;
        return code === undefined ? "another error" : [code, message];
      }
    });
    const { params } = type;
    const names = [
      MIMEType.name,
      MIMEParams.name,
      inspect(type),
      Object.keys(params),
      params.get("x"),
      params.has("E"),
    ];
    return [before, `${type}`, attempts, names, [...params.keys()], [...params.values()], `${new MIMEParams()}`];
  }, undefined);
});

test("diff() gives the edits that Node gives", async () => {
  await expectLikeNode(() => {
    const { diff } = process.getBuiltinModule("node:util") as unknown as {
      diff: (actual: unknown, expected: unknown) => unknown;
    };
    let seed = 7;
    const random = (limit: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
      return Math.floor((seed / 2_147_483_648) * limit);
    };
    const text = (): string => Array.from({ length: random(14) }, () => "abc"[random(3)]).join("");
    const texts = Array.from({ length: 300 }, () => [text(), text()]);
    const fail = (actual: unknown, expected: unknown): unknown => {
      try {
        return diff(actual, expected);
      } catch (error) {
        const { code, message } = error as NodeJS.ErrnoException;
        return [code, message];
      }
    };
    return [
      texts.map(([a, b]) => diff(a, b)),
      diff(["a line", "b", "c"], ["a line", "c", "d"]),
      diff("abc", ["a", "b"]),
      diff("", ""),
      diff("", "ab"),
      diff(["a"], []),
      fail("a", 5),
      fail(5, "a"),
      fail("a", ["b", 4]),
      fail(5, 5),
    ];
  }, undefined);
});

test("diff() of long lists stays within the memory of a tool", async () => {
  const edits = await inGuest(() => {
    const { diff } = process.getBuiltinModule("node:util") as unknown as {
      diff: (actual: readonly string[], expected: readonly string[]) => readonly (readonly [number, string])[];
    };
    // Node keeps 2,000 copies of 20,001 numbers for this: 160 MB.
    const lines = Array.from({ length: 10_000 }, (_, index) => `line ${index}`);
    const changed = lines.map((line, index) => (index % 10 === 0 ? `${line} changed` : line));
    return diff(lines, changed).filter(([operation]) => operation !== 0).length;
  });
  expect(edits).toBe(2_000);
});

test("system errors have Node's names and messages", async () => {
  await expectLikeNode(() => {
    const util = process.getBuiltinModule("node:util") as unknown as {
      getSystemErrorMap(): Map<number, unknown>;
      getSystemErrorMessage(error: unknown): string;
      getSystemErrorName(error: unknown): string;
      _errnoException(...args: unknown[]): NodeJS.ErrnoException;
      _exceptionWithHostPort(...args: unknown[]): NodeJS.ErrnoException;
    };
    const fail = (run: () => unknown): unknown => {
      try {
        return run();
      } catch (error) {
        const { code, message, name } = error as NodeJS.ErrnoException;
        return [code, message, name];
      }
    };
    const map = util.getSystemErrorMap();
    // Node 24 lacks two errors that newer versions of libuv name.
    const known = [...map].filter(([number]) => number > -3_000).sort(([a], [b]) => a - b);
    const show = (error: NodeJS.ErrnoException): unknown => [error.message, { ...error }, error instanceof Error];
    return [
      known,
      [-2, -111, -4095, 0, 5, -1.5, "2", undefined, -9_999].map((number) => [
        fail(() => util.getSystemErrorName(number)),
        fail(() => util.getSystemErrorMessage(number)),
      ]),
      show(util._errnoException(-2, "open", "x")),
      show(util._errnoException(-13, "open")),
      show(util._exceptionWithHostPort(-111, "connect", "1.2.3.4", 80)),
      show(util._exceptionWithHostPort(-111, "connect", "/socket", undefined, "here")),
      fail(() => util._errnoException(2, "open")),
    ];
  }, undefined);
});

test("getCallSites() names the calling functions", async () => {
  await expectLikeNode(() => {
    const { getCallSites } = process.getBuiltinModule("node:util");
    function inner(): unknown {
      return getCallSites(2).map(({ functionName, lineNumber, columnNumber, ...rest }) => {
        return [functionName, typeof lineNumber, columnNumber > 0, Object.keys(rest).sort()];
      });
    }
    function outer(): unknown {
      return inner();
    }
    const fail = (...args: unknown[]): unknown => {
      try {
        return (getCallSites as (...values: unknown[]) => unknown[])(...args).length > 0;
      } catch (error) {
        const { code, message } = error as NodeJS.ErrnoException;
        return [code, message];
      }
    };
    const prepare = (): string => "prepared";
    Error.prepareStackTrace = prepare;
    const limit = Error.stackTraceLimit;
    const sites = outer();
    const isKept = Error.prepareStackTrace === prepare && Error.stackTraceLimit === limit;
    delete (Error as { prepareStackTrace?: unknown }).prepareStackTrace;
    return [
      sites,
      isKept,
      "prepareStackTrace" in Error,
      fail(),
      fail({ sourceMap: false }),
      fail(0),
      fail(201),
      fail("1"),
      fail(1, { sourceMap: 5 }),
      fail(1, null),
    ];
  }, undefined);
});

test("the transferable abort classes and the exit codes of signals exist", async () => {
  const value = await inGuest(() => {
    const util = process.getBuiltinModule("node:util") as unknown as {
      transferableAbortController(): AbortController;
      transferableAbortSignal(signal: unknown): AbortSignal;
      convertProcessSignalToExitCode(signal: string): number;
      markPromiseAsHandled(promise: unknown): void;
    };
    const fail = (run: () => unknown): unknown => {
      try {
        return run();
      } catch (error) {
        return [(error as NodeJS.ErrnoException).code, (error as Error).message.slice(0, 70)];
      }
    };
    const controller = util.transferableAbortController();
    util.markPromiseAsHandled(Promise.reject(new Error("nobody waits")));
    return [
      util.transferableAbortSignal(controller.signal) === controller.signal,
      fail(() => util.transferableAbortSignal({})),
      util.convertProcessSignalToExitCode("SIGTERM"),
      fail(() => util.convertProcessSignalToExitCode("toString")),
      fail(() => util.markPromiseAsHandled(5)),
    ];
  });
  expect(value).toEqual([
    true,
    ["ERR_INVALID_ARG_TYPE", 'The "signal" argument must be an instance of AbortSignal. Received an '],
    143,
    ["ERR_INVALID_ARG_VALUE", "The argument 'signalCode' must be one of: 'SIGHUP', 'SIGINT', 'SIGQUIT"],
    ["ERR_INVALID_ARG_TYPE", 'The "promise" argument must be an instance of Promise. Received type n'],
  ]);
});
