// Attacks by the output of a Python run: values that are not JSON, floods, and forged results.
import { expect } from "vitest";
import type { JsonValue } from "../../../src/sandbox/contract/errors.ts";
import { errorOf } from "../../support/host-zone.ts";
import type { PythonAttack } from "./support.ts";

/** The host rejects the output with the type and the path of the value. No part of it arrives. */
const rejectedOutput = (name: string, code: string, says: RegExp): PythonAttack => ({
  name,
  code,
  codes: ["OUTPUT_INVALID", "TOOL_FAILED"],
  isHarmless: true,
  check: (result) => expect(errorOf(result).message).toMatch(says),
});

const kept = (name: string, code: string, output: JsonValue): PythonAttack => ({
  name,
  code,
  codes: ["ok"],
  isHarmless: true,
  output,
});

export const OUTPUT_ATTACKS: readonly PythonAttack[] = [
  rejectedOutput("NaN", `{"a": [1, float("nan")]}`, /nan.*\/a\/1/i),
  rejectedOutput("infinity", `[float("inf")]`, /inf.*\/0/i),
  rejectedOutput("a set", `{"a": {1, 2}}`, /set.*\/a/),
  rejectedOutput("an object of its own", `class Thing: pass\n[Thing()]`, /Thing.*\/0/),
  rejectedOutput("a function", `lambda: 1`, /function/),
  rejectedOutput("a module", `import json\njson`, /module/),
  rejectedOutput("a coroutine that was not awaited", `async def later(): return 1\n[later()]`, /coroutine.*\/0/),
  rejectedOutput("a complex number", `1j`, /complex/),
  rejectedOutput("a datetime", `import datetime\n{"at": datetime.datetime(2026, 1, 1)}`, /datetime.*\/at/),
  rejectedOutput("a key that is not text", `{(1, 2): 3}`, /tuple.*key/),
  rejectedOutput("a cycle", `loop = {}\nloop["me"] = [loop]\nloop`, /cycle/i),
  rejectedOutput("a number past all doubles", `10**400`, /int|large/),
  rejectedOutput("an object of JavaScript's", `import js\njs.Object.new()`, /JsProxy/),
  rejectedOutput("values nested too deep", `deep = []\nfor _ in range(100_000): deep = [deep]\ndeep`, /./),
  { name: "a string of 20 MB", code: `"x" * 20_000_000`, codes: ["OUTPUT_TOO_LARGE"] },
  { name: "a list of millions", code: `[0] * 5_000_000`, codes: ["OUTPUT_TOO_LARGE", "OUTPUT_INVALID"] },
  {
    name: "a shared list that doubles",
    code: `wide = [0]\nfor _ in range(40): wide = [wide, wide]\nwide`,
    codes: ["TOOL_FAILED", "MEMORY_LIMIT", "OUTPUT_TOO_LARGE", "OUTPUT_INVALID", "TOOL_TIMEOUT", "CPU_LIMIT"],
    timeoutMs: 3_000,
  },
  kept("a lone surrogate", `"\\ud800|"`, "\ud800|"),
  kept("text that is like our own marks", `["glovebox:python:0", b"x" and "glovebox:python:0:"]`, [
    "glovebox:python:0",
    "glovebox:python:0:",
  ]),
  kept("keys of prototypes", `{"__proto__x": 1, "toJSON": 3}`, {
    __proto__x: 1,
    toJSON: 3,
  }),
  {
    name: "the key __proto__",
    isHarmless: true,
    code: `{"__proto__": {"polluted": 1}, "a": 1}`,
    codes: ["ok", "OUTPUT_INVALID"],
    check: () => expect({}).not.toHaveProperty("polluted"),
  },
  {
    name: "keys that come twice",
    isHarmless: true,
    code: `{1: "a", "1": "b", 1.5: "c", None: "d", True and 2: "e"}`,
    codes: ["ok"],
  },
  kept(
    "a subclass of str, int and dict",
    `class S(str):\n    def __repr__(self): return "forged"\nclass I(int):\n    def __repr__(self): return "forged"\nclass D(dict): pass\n[S("s"), I(5), D(a=1)]`,
    ["s", 5, { a: 1 }],
  ),
  // A run may spoil its own result, and nothing else.
  {
    name: "json replaced",
    code: `import json\njson.dumps = lambda *args, **more: '{"forged": true}'\njson.loads = None\njson.JSONEncoder.default = None\n{"honest": 1}`,
    codes: ["ok", "TOOL_FAILED", "OUTPUT_INVALID"],
  },
  {
    name: "json.dumps returns text that is not JSON",
    code: `import json\njson.dumps = lambda *args, **more: '{"success": true'\n{"honest": 1}`,
    codes: ["TOOL_FAILED", "OUTPUT_INVALID", "SANDBOX_CRASHED"],
  },
  {
    name: "builtins emptied",
    code: `import builtins\nfor name in list(vars(builtins)):\n    if name not in ("__import__", "BaseException"): delattr(builtins, name)\n1`,
    codes: ["ok", "TOOL_FAILED", "OUTPUT_INVALID", "SANDBOX_CRASHED"],
  },
  {
    name: "isinstance, type, str and id replaced",
    code: `import builtins\nbuiltins.isinstance = builtins.type = builtins.str = builtins.id = lambda *args: "forged"\n{"honest": [1]}`,
    codes: ["ok", "TOOL_FAILED", "OUTPUT_INVALID"],
  },
  {
    name: "the harness's own modules replaced",
    code: `import sys\nfor name in list(sys.modules): sys.modules[name] = None\n1`,
    codes: ["ok", "TOOL_FAILED", "OUTPUT_INVALID", "SANDBOX_CRASHED"],
  },
  {
    name: "the harness's frames and their variables",
    code: `import sys, gc\nframe, seen = sys._getframe(), []\nwhile frame:\n    seen += list(frame.f_locals)\n    for value in list(frame.f_locals.values()):\n        if type(value).__name__ == "JsProxy":\n            for name in ("output", "reject", "fail"):\n                try: getattr(value, name)('"forged"')\n                except BaseException: pass\n    frame = frame.f_back\n"mine"`,
    codes: ["ok", "TOOL_FAILED", "OUTPUT_INVALID", "SANDBOX_CRASHED"],
  },
  {
    name: "an exception that names another code",
    isHarmless: true,
    code: `class Error(Exception):\n    code = "INTERNAL"\n    details = {"errorCode": "INTERNAL"}\nError.__name__ = "ToolError"\nraise Error("CAPABILITY_DENIED: Script execution timed out.")`,
    codes: ["TOOL_FAILED"],
  },
  {
    name: "an exception with forged frames",
    isHarmless: true,
    code: `raise ValueError("x\\n    at host (/etc/passwd:1:1)\\n    at inner (src/host/routing/tool-router.ts:1:1)")`,
    codes: ["TOOL_FAILED"],
  },
  {
    name: "an exception of 20 MB",
    code: `raise ValueError("x" * 20_000_000)`,
    codes: ["TOOL_FAILED"],
    check: (result) => expect(JSON.stringify(result).length).toBeLessThan(100_000),
  },
  {
    name: "an exception that cannot be shown",
    isHarmless: true,
    code: `class Error(Exception):\n    def __str__(self): raise self\n    __repr__ = __str__\nraise Error`,
    codes: ["TOOL_FAILED"],
  },
  {
    name: "a group of many exceptions, with notes",
    isHarmless: true,
    code: `error = ExceptionGroup("g" * 1000, [ValueError(n) for n in range(2_000)])\nfor n in range(2_000): error.add_note("n" * 1000)\nraise error`,
    codes: ["TOOL_FAILED"],
    check: (result) => expect(JSON.stringify(result).length).toBeLessThan(200_000),
  },
  {
    name: "a chain of causes, closed to a ring",
    isHarmless: true,
    code: `one, two = ValueError(1), ValueError(2)\none.__cause__, two.__cause__ = two, one\nraise one`,
    codes: ["TOOL_FAILED"],
  },
  {
    name: "a class named at length",
    isHarmless: true,
    code: `raise type("E" * 1_000_000, (Exception,), {})("x")`,
    codes: ["TOOL_FAILED"],
    check: (result) => expect(JSON.stringify(result).length).toBeLessThan(100_000),
  },
  {
    name: "a flood of lines",
    code: `for n in range(200_000): print("line", n)\n"done"`,
    codes: ["ok", "CPU_LIMIT", "TOOL_TIMEOUT"],
    check: ({ logs }) => expect(JSON.stringify(logs).length).toBeLessThan(1_000_000),
  },
  {
    name: "one line of 100 MB",
    code: `import sys\nfor _ in range(100): sys.stdout.write("x" * 10**6)\n"done"`,
    codes: ["ok", "MEMORY_LIMIT"],
    check: ({ logs }) => expect(JSON.stringify(logs).length).toBeLessThan(1_000_000),
  },
  {
    name: "lines without end, by descriptor",
    code: `import os\nfor n in range(2_000): os.write(1, b"x" * 1000 + b"\\n")\n"done"`,
    codes: ["ok"],
    check: ({ logs }) => expect(JSON.stringify(logs).length).toBeLessThan(1_000_000),
  },
  {
    name: "lines with control characters and forged levels",
    code: `print("\\x1b[31m{\\"level\\":\\"error\\"}\\r\\u2028\\x00 forged")\nimport sys\nprint("w", file=sys.stderr)\n1`,
    codes: ["ok"],
  },
  {
    name: "stdout replaced",
    code: `import sys\nclass Out:\n    def write(self, text): raise ValueError("no")\n    def flush(self):\n        raise KeyboardInterrupt\nsys.stdout = sys.stderr = Out()\n5`,
    codes: ["ok"],
    output: 5,
  },
  {
    name: "stdout closed",
    code: `import os, sys\nsys.stdout.close()\nos.close(1)\nos.close(2)\n5`,
    codes: ["ok"],
    output: 5,
  },
  // Ends of the interpreter.
  { name: "sys.exit", isHarmless: true, code: `import sys\nsys.exit(3)`, codes: ["TOOL_FAILED"] },
  { name: "os._exit", code: `import os\nos._exit(0)`, codes: ["TOOL_FAILED", "SANDBOX_CRASHED"] },
  { name: "os.abort", code: `import os\nos.abort()`, codes: ["TOOL_FAILED", "SANDBOX_CRASHED"] },
  {
    name: "a signal to itself",
    code: `import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\nsignal.raise_signal(signal.SIGABRT)\n1`,
    codes: ["ok", "TOOL_FAILED", "SANDBOX_CRASHED"],
  },
  {
    name: "a segmentation fault",
    code: `import faulthandler\nfaulthandler._sigsegv()`,
    codes: ["TOOL_FAILED", "SANDBOX_CRASHED", "ok"],
  },
  {
    name: "a read of no address",
    code: `import ctypes\nctypes.string_at(2**31)`,
    codes: ["TOOL_FAILED", "SANDBOX_CRASHED", "ok"],
  },
  {
    name: "the interpreter's memory overwritten",
    code: `import ctypes\nctypes.memset(1024, 255, 2**24)\n1`,
    codes: ["TOOL_FAILED", "SANDBOX_CRASHED"],
  },
  {
    name: "an invalid thread state",
    code: `import ctypes\nctypes.pythonapi.PyEval_RestoreThread(None)`,
    codes: ["TOOL_FAILED", "SANDBOX_CRASHED", "ok"],
  },
  {
    name: "Python ended",
    code: `import ctypes\nctypes.pythonapi.Py_FinalizeEx()\n1`,
    codes: ["ok", "TOOL_FAILED", "SANDBOX_CRASHED", "OUTPUT_INVALID"],
  },
  {
    name: "an invalid code object",
    code: `import types\ndef f(): pass\nf.__code__ = f.__code__.replace(co_code=b"\\xff" * 100)\nf()`,
    codes: ["TOOL_FAILED", "SANDBOX_CRASHED", "ok"],
  },
  {
    name: "reference counts taken away",
    code: `import ctypes\nfor _ in range(100): ctypes.pythonapi.Py_DecRef(ctypes.py_object(str))\nstr(5)`,
    codes: ["ok", "TOOL_FAILED", "SANDBOX_CRASHED"],
  },
  {
    name: "the generator that runs itself",
    code: `def me():\n    yield from own\nown = me()\nnext(own)`,
    codes: ["TOOL_FAILED"],
  },
  {
    name: "JavaScript's eval, from C",
    code: `import ctypes\nctypes.CDLL(None).emscripten_run_script(b"globalThis.ran = 1")`,
    codes: ["TOOL_FAILED"],
  },
  {
    name: "the interpreter ended, inside an awaited function",
    code: `import ctypes\nasync def end():\n    ctypes.CDLL(None).emscripten_run_script(b"1")\nawait end()`,
    codes: ["TOOL_FAILED"],
  },
  // Texts that are not Python.
  { name: "no syntax", isHarmless: true, code: `def f(:`, codes: ["TOOL_FAILED"] },
  { name: "a null character", isHarmless: true, code: `x = 1\0`, codes: ["TOOL_FAILED", "PARAM_INVALID"] },
  {
    name: "an invalid encoding",
    isHarmless: true,
    code: `# -*- coding: nothing-known -*-\n1`,
    codes: ["ok", "TOOL_FAILED"],
  },
  {
    name: "a lone surrogate in the code",
    isHarmless: true,
    code: `x = "\ud800"`,
    codes: ["ok", "TOOL_FAILED", "PARAM_INVALID"],
  },
  { name: "two thousand statements in one line", isHarmless: true, code: `x = 1;`.repeat(2_000), codes: ["ok"] },
  {
    name: "names of JavaScript's",
    code: `__proto__ = constructor = toString = 5\n__proto__`,
    codes: ["ok"],
    output: 5,
  },
];
