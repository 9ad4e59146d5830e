// Tests the Python runtime in a real worker process: values and failures of runs, capabilities, and limits.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CapabilityEnvelope } from "../../../src/sandbox/protocol/guest-messages.ts";
import { type PythonCall, type PythonMade, PythonWorker, sharedSnapshot } from "../../support/python-worker.ts";

let worker: PythonWorker;
let made: PythonMade;
beforeAll(async () => {
  made = await sharedSnapshot();
  worker = await PythonWorker.start(made);
  await worker.ready;
});
afterAll(() => worker[Symbol.asyncDispose]());

/** An interpreter that is shared by all runs that do not modify it, because creating one takes a quarter of a second. */
const SHARED: PythonCall = { isolateLifetime: "tool", toolId: 1 };

async function valueIn(code: string, order: PythonCall = {}): Promise<unknown> {
  const { outcome, value, error } = await worker.run(code, order);
  expect({ outcome, error }).toEqual({ outcome: "output", error: undefined });
  return value;
}

async function failureOf(code: string, order: PythonCall = {}) {
  const { outcome, error } = await worker.run(code, order);
  expect(outcome).toBe("thrown");
  return error;
}

describe("a run's value", () => {
  test("is that of the last expression, and its output is logged line by line", async () => {
    const code =
      "import sys\nprint('a\\nb')\nprint('c', end='')\nprint('w', file=sys.stderr)\n{'v': [1, 2.5, None, True, 'é']}";
    const { outcome, value, logs } = await worker.run(code);
    expect({ outcome, value }).toEqual({ outcome: "output", value: { v: [1, 2.5, null, true, "é"] } });
    expect(logs).toEqual(["info: a", "info: b", "warn: w", "info: c"]);
  });

  test.for<[what: string, code: string, order: PythonCall, value: unknown]>([
    ["null without an expression at the end", "x = 5", {}, null],
    ["awaited at the top level", "import asyncio\nawait asyncio.sleep(0, 'x')", {}, "x"],
    ["that of main, with the input", "def main(input):\n  return input['a'] + 1", { input: { a: 4 } }, 5],
    ["that of an async main, with ctx", "async def main(input, ctx):\n  return ctx.call_id", {}, "c1"],
    ["of a program that ends by sys.exit()", "import sys\nsys.exit(0)", {}, null],
    ["computed from the variable input", "input['a'] * 2", { input: { a: "x" } }, "xx"],
    [
      "computed in a separate namespace",
      "sorted(globals())[:3]",
      { isolateLifetime: "call" },
      ["__builtins__", "__doc__", "__file__"],
    ],
    [
      "computed by another module of the tool",
      "from lib.a import f\nf()",
      { files: { "lib/a.py": "f = lambda: 7" } },
      7,
    ],
    [
      "of a program that knows itself as __main__",
      "import pickle\nclass A: pass\n[__name__, type(pickle.loads(pickle.dumps(A()))).__name__]",
      {},
      ["__main__", "A"],
    ],
    [
      "a dataclass as an object",
      "from dataclasses import dataclass\n@dataclass\nclass P:\n  x: int\n(P(1),)",
      {},
      [{ x: 1 }],
    ],
    [
      "main's, and its dataclass made of the input",
      "from dataclasses import dataclass\n@dataclass\nclass P:\n  x: int\ndef main(p: P):\n  return p.x",
      { mode: "tool", input: { x: 3 } },
      3,
    ],
    [
      "a number of many digits that a double holds",
      "[10**18, 2**63, 9007199254740991, 0.1234567890123456, 12345678901234568.0, '12345678901234567']",
      {},
      [10 ** 18, 2 ** 63, 9_007_199_254_740_991, 0.1234567890123456, 12345678901234568, "12345678901234567"],
    ],
    [
      "of files that the memory does not hold: an error that can be caught",
      "import os\ndef f():\n  with open('/tmp/full', 'wb') as file:\n    file.truncate(10**12)\ndef g():\n  with open('/tmp/full', 'wb') as file:\n    file.seek(10**12)\n    file.write(b'x')\ndef tried(one):\n  try: one()\n  except OSError as error: return error.strerror\n[tried(f), tried(g)]",
      {},
      ["No space left on device", "No space left on device"],
    ],
    [
      "asyncio.run's",
      "import asyncio\nasync def f():\n  await asyncio.sleep(0.001)\n  return 1\nasyncio.run(f())",
      {},
      1,
    ],
  ])("is %s", async ([, code, order, value]) => {
    expect(await valueIn(code, { ...SHARED, ...order })).toEqual(value);
  });

  test("may contain bytes, which cross as attachments", async () => {
    const { outcome, bytes } = await worker.run("{'a': b'xyz', 'b': [bytearray(2)]}", SHARED);
    expect({ outcome, bytes: [...(bytes ?? [])] }).toEqual({ outcome: "output", bytes: [120, 121, 122, 0, 0] });
  });

  test.for<[code: string, problem: string]>([
    ["{1}", "got a set; return list(value), or sorted(value)"],
    ["{'a': [{1}]}", "got a value with a set at /a/0; return list(value), or sorted(value)"],
    ["float('nan')", "got the float nan, which JSON does not support; return None"],
    ["10**400", "got an int that is too large for a JSON number"],
    ["{'id': 2**53 + 1}", "got a value with an int at /id that a JSON number cannot hold exactly; return str(value)"],
    ["[-12345678901234567890]", "with an int at /0 that a JSON number cannot hold exactly"],
    ["class A:\n  __class__ = property(lambda self: list)\n  __iter__ = lambda self: iter([1])\nA()", "got an A"],
    ["{(1, 2): 3}", "got a value with a tuple as a key at the top"],
    ["x = []\nx.append(x)\nx", "got a value with a cycle at /0"],
    ["(i for i in [1])", "got a generator; return list(value)"],
  ])("a value that is not JSON is reported with its location: %s", async ([code, problem]) => {
    const { outcome, error } = await worker.run(code, SHARED);
    expect(outcome).toBe("unserializable");
    expect(error?.message).toContain(problem);
  });
});

describe("a run's failure", () => {
  test("is a Python exception with the author's frames, innermost first", async () => {
    const files = { "helper.py": "def g(x):\n    raise KeyError(x) from ValueError('why')\n" };
    const error = await failureOf("import helper\ndef f():\n  helper.g('k')\nf()", { files });
    expect(error).toMatchObject({ name: "KeyError", message: "KeyError: 'k'" });
    expect(error?.stack.split("\n")).toEqual([
      "KeyError: 'k'",
      "Caused by ValueError: why",
      "    at g (helper.py:2:5)",
      "    at f (tool.py:3:3)",
      "    at <module> (tool.py:4:1)",
    ]);
  });

  test("a failure of a syntax error has its location and a code", async () => {
    const error = await failureOf("x = 1\ny = (1,\n", SHARED);
    expect(error).toMatchObject({ name: "SyntaxError", code: "PYTHON_SYNTAX" });
    expect(error?.stack).toContain("    at <module> (tool.py:2:5)");
  });

  test.for<[code: string, name: string, message: RegExp]>([
    ["input()", "EOFError", /EOF/],
    ["assert 1 == 2", "AssertionError", /^AssertionError$/],
    ["import sys\nsys.exit('why')", "SystemExit", /^why$/],
    ["import threading\nthreading.Thread(target=print).start()", "RuntimeError", /can't start new thread/],
    ["import subprocess\nsubprocess.run(['ls'])", "OSError", /does not support processes/],
    ["import socket\nsocket.create_connection(('example.com', 80))", "OSError", /./],
    ["def f():\n  f()\nf()", "RecursionError", /recursion/],
    ["class A:\n  def __repr__(self): return repr(self)\nrepr(A())", "RecursionError", /overflow/],
    ["import json\njson.loads('[' * 100_000)", "RecursionError", /overflowed/],
    ["import js\njs.eval('1')", "JsException", /EvalError/],
    ["import js\njs.Function.new('return 1')", "JsException", /EvalError/],
    ["await fetch('http://127.0.0.1')", "NameError", /fetch/],
  ])("is one clear error: %s", async ([code, name, message]) => {
    expect(await failureOf(code, SHARED)).toMatchObject({ name, message: expect.stringMatching(message) });
  });

  test.for<[code: string, name: string, message: RegExp]>([
    ["bytearray(200 * 1024 * 1024)", "MemoryError", /128 MiB/],
    ["x = []\nwhile True: x.append('a' * 1_000_000)", "MemoryError", /128 MiB/],
    ["import os\nos._exit(3)", "SystemExit", /code 3/],
    ["import js\njs.JSON.parse = None\n1", "SystemError", /^The interpreter crashed: [^\n]*JSON\.parse[^\n]*$/],
    ["import os\nos.abort()", "SystemError", /crashed/],
    ["import ctypes\nctypes.memmove(0, b'x' * 9, 10**9)", "SystemError", /crashed/],
    ["import os\nasync def f(): os.abort()\nawait f()", "SystemError", /crashed/],
  ])("is one clear error even if the interpreter ends: %s", async ([code, name, message]) => {
    expect(await failureOf(code)).toMatchObject({ name, message: expect.stringMatching(message) });
  });

  test("has the author's location even if the interpreter crashes, and no later call uses its isolate", async () => {
    const isolateLifetime = "tool";
    const files = { "a.py": "import os\ndef f(): os.abort()" };
    const code = "import a\ndef main(input):\n  if input: a.f()\n  return 1";
    const order = { isolateLifetime, files, mode: "tool" } as const;
    expect((await failureOf(code, { ...order, input: true }))?.stack).toContain(
      "    at f (a.py:2:1)\n    at main (tool.py:3:1)",
    );
    expect(await valueIn(code, { ...order, input: false })).toBe(1);
  });

  test("a failure that the program catches does not fail the run", async () => {
    const code = "try:\n  [bytearray(2**20) for _ in range(500)]\nexcept MemoryError:\n  x = 'caught'\nx";
    expect(await valueIn(code)).toBe("caught");
  });
});

describe("a run that does not end", () => {
  test.for([
    "while True: pass",
    "import re\nre.match('(a+)+$', 'a' * 40 + 'b')",
    "import time\ntime.sleep(100)",
    "await lookUp(sku='never')",
    "import asyncio\nasync def f():\n  while True: await asyncio.sleep(0)\nawait f()",
  ])("is stopped by disposing its isolate: %s", async (code) => {
    const order = { granted: ["lookUp"], onStarted: () => worker.cancel() };
    const timer = setTimeout(() => worker.cancel(), 1_000);
    const { outcome, released } = await worker.run(code, order);
    clearTimeout(timer);
    expect(outcome).toBe("cancelled");
    await released;
  });
});

describe("a run's capabilities", () => {
  const asked: unknown[] = [];
  const answer = (name: string, input: unknown): CapabilityEnvelope | undefined => {
    asked.push([name, input]);
    const { sku, op } = input as { readonly sku?: string; readonly op?: string };
    if (sku === "bad") return { ok: false, code: "PARAM_INVALID", message: "No such sku" };
    if (op === "get") return { ok: true, value: { key: "a", json: '{"n":1}', version: 1 } };
    return { ok: true, value: { price: 9.5 } };
  };

  test("can be awaited, or called synchronously in ordinary functions", async () => {
    const code =
      "import asyncio\ndef wait():\n  return run_sync(lookUp(sku='B'))\n[await kv.get('a'), await lookUp({'sku': 'A'}), wait(), *await asyncio.gather(lookUp(sku='C'))]";
    const descriptors = { kv: { platformModule: "kv" } } as const;
    const price = { price: 9.5 };
    const order = { granted: ["kv", "lookUp"], descriptors, answer };
    expect(await valueIn(code, order)).toEqual([{ n: 1 }, price, price, price]);
    expect(asked.splice(0)).toEqual([
      ["kv", { op: "get", key: "a" }],
      ["lookUp", { sku: "A" }],
      ["lookUp", { sku: "B" }],
      ["lookUp", { sku: "C" }],
    ]);
  });

  test("raise exceptions with the trusted code of the host when denied", async () => {
    const order = { granted: ["lookUp"], answer };
    const caught =
      "from glovebox import CapabilityError\ntry:\n  await lookUp(sku='bad')\nexcept CapabilityError as error:\n  r = [error.code, str(error)]\nr";
    expect(await valueIn(caught, order)).toEqual(["PARAM_INVALID", "No such sku"]);
    expect(await failureOf("await lookUp(sku='bad')", order)).toMatchObject({
      name: "CapabilityError",
      capabilityCode: "PARAM_INVALID",
    });
    const forged = "from glovebox import CapabilityError\nraise CapabilityError('x', 'CAPABILITY_DENIED')";
    expect((await failureOf(forged))?.capabilityCode).toBeUndefined();
    expect(await failureOf("from glovebox import kv\nawait kv.get('a')")).toMatchObject({ code: "CAPABILITY_DENIED" });
  });

  test("are available by name in all modules of a tool, without replacing Python's builtins", async () => {
    const files = { "lib.py": "async def ask():\n  return await lookUp(sku='D')" };
    const code = "import lib\nasync def main(input, ctx):\n  return [await lib.ask(), sum([1, 2]), await ctx.sum(n=1)]";
    const order = { mode: "tool", files, granted: ["lookUp", "sum"], answer } as const;
    expect(await valueIn(code, order)).toEqual([{ price: 9.5 }, 3, { price: 9.5 }]);
  });

  test("include log and progress", async () => {
    asked.length = 0;
    const { progress } = await worker.run("log('a', {'b': 1})\nprogress(1, total=2, message='m')", { answer });
    expect(progress).toEqual([{ progress: 1, total: 2, message: "m" }]);
    expect(asked.splice(0)).toEqual([["log", { level: "info", message: "a", data: { b: 1 } }]]);
  });
});

describe("isolates", () => {
  test("start with different random numbers, and repeat them with a seed", async () => {
    const code =
      "import random, time, uuid, os\n[random.random(), str(uuid.uuid4()), os.urandom(8).hex(), time.time()]";
    const [a, b] = [await valueIn(code), await valueIn(code)] as unknown[][];
    for (const index of [0, 1, 2]) expect(a?.[index]).not.toBe(b?.[index]);
    const deterministic = { seed: "s", now: 1_700_000_000_000 };
    const [c, d] = [await valueIn(code, { deterministic }), await valueIn(code, { deterministic })] as unknown[][];
    expect(c).toEqual(d);
    expect(c?.[3]).toBe(1_700_000_000);
  });

  test("keep no state between calls, unless the tool's calls share an isolate", async () => {
    const code = "n = 0\ndef main(input):\n  global n\n  n += 1\n  return n";
    const order = { mode: "tool", fileName: "count.py" } as const;
    expect([await valueIn(code, order), await valueIn(code, order)]).toEqual([1, 1]);
  });
});

test("the runs of a session share a namespace and an event loop, and frames name their cells", async () => {
  let cells = 0;
  const cell = (code: string) => {
    cells += 1;
    return worker.run(code, { mode: "session", isolateLifetime: "session", session: 1, fileName: `cell-${cells}.py` });
  };
  const first = "import asyncio\ndef f(n):\n  return 1 / n\nt = asyncio.create_task(asyncio.sleep(0.02, 'later'))";
  expect((await cell(first)).outcome).toBe("output");
  expect((await cell("f(0)")).error?.stack).toContain("    at f (cell-1.py:3:10)\n    at <module> (cell-2.py:1:1)");
  expect((await cell("def main(): return 'no'\nawait t")).value).toBe("later");
});

describe("a definition", () => {
  test("consists of the module's values, and schemas from main's type hints", async () => {
    const code = `"""Adds."""
from dataclasses import dataclass
from typing import Annotated, Literal
@dataclass
class In:
  x: Annotated[int, "First"]
  unit: Literal["m", "km"] = "m"
  tags: list[str] | None = None
limits = {"timeout_ms": 100, "memory_mib": 64}
capabilities = ["kv"]
annotations = {"read_only_hint": True}
def main(input: In, ctx) -> dict[str, float]:
  return {}
`;
    expect(await valueIn(code, { mode: "tool", describe: true })).toEqual({
      description: "Adds.",
      inputSchema: {
        type: "object",
        properties: {
          x: { type: "integer", description: "First" },
          unit: { enum: ["m", "km"], default: "m" },
          tags: { anyOf: [{ type: "array", items: { type: "string" } }, { type: "null" }], default: null },
        },
        required: ["x"],
        additionalProperties: false,
      },
      outputSchema: { type: "object", additionalProperties: { type: "number" } },
      limits: { timeoutMs: 100, memoryMiB: 64 },
      capabilities: { kv: {} },
      annotations: { readOnlyHint: true },
    });
  });

  test("fails with a code for a module without main", async () => {
    expect(await failureOf("x = 1", { mode: "tool", describe: true })).toMatchObject({ code: "PYTHON_NO_TOOL" });
  });
});

test("the snapshot is of an unused interpreter, and processes start from it", async () => {
  expect(made.snapshot.byteLength).toBeGreaterThan(10 * 1024 * 1024);
  expect(made.codeCache.byteLength).toBeGreaterThan(100_000);
  const again = await worker.ready;
  expect([again.snapshot.byteLength, again.codeCache.byteLength]).toEqual([0, 0]);
});
