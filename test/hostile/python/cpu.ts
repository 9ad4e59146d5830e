// Attacks on time in Python: endless work, and C code that blocks the interpreter. Each reports its start and is then stopped.
import type { PythonAttack } from "./support.ts";

const STOPPED = ["CANCELLED"] as const;

/** Python that loops in a way of its own; `begin()` tells that it does. */
export const CPU_ATTACKS: readonly PythonAttack[] = [
  { name: "a loop", codes: STOPPED, code: `begin()\nwhile True: pass` },
  { name: "a loop in main", codes: STOPPED, code: `def main(input):\n    begin()\n    while True: pass` },
  { name: "a power of whole numbers, in C", codes: STOPPED, code: `begin()\n10**10**8` },
  { name: "products of huge numbers", codes: STOPPED, code: `n = 3**2_000_000\nbegin()\nwhile True: n * n` },
  { name: "a sum over a range, in C", codes: STOPPED, code: `begin()\nsum(range(10**12))` },
  { name: "a factorial", codes: STOPPED, code: `import math\nbegin()\nmath.factorial(10**7)` },
  {
    name: "a regular expression that backtracks",
    codes: STOPPED,
    code: `import re\nbegin()\nre.match(r"(a+)+$", "a" * 50 + "!")`,
  },
  { name: "a sleep", codes: STOPPED, code: `import time\nbegin()\ntime.sleep(10**6)` },
  { name: "an asynchronous sleep", codes: STOPPED, code: `import asyncio\nbegin()\nawait asyncio.sleep(10**6)` },
  {
    name: "a future that never settles",
    codes: STOPPED,
    code: `import asyncio\nbegin()\nawait asyncio.get_running_loop().create_future()`,
  },
  {
    name: "a storm of tasks",
    codes: STOPPED,
    code: `import asyncio\nasync def spin():\n    while True: await asyncio.sleep(0)\nbegin()\nawait asyncio.gather(*(spin() for _ in range(50)))`,
  },
  {
    name: "a promise of JavaScript's that is never kept",
    codes: STOPPED,
    code: `from js import Promise\nfrom pyodide.ffi import create_once_callable, run_sync\nbegin()\nrun_sync(Promise.new(create_once_callable(lambda keep, fail: None)))`,
  },
  {
    name: "select() without a descriptor",
    codes: STOPPED,
    code: `import select\nbegin()\nselect.select([], [], [], 10**6)\nwhile True: select.select([], [], [], 1)`,
  },
  {
    name: "an exception that shows itself for ever",
    codes: STOPPED,
    code: `class Error(Exception):\n    def __str__(self):\n        begin()\n        while True: pass\nraise Error`,
  },
  {
    name: "a destructor",
    codes: STOPPED,
    code: `class Thing:\n    def __del__(self):\n        begin()\n        while True: pass\nThing()\n1`,
  },
  {
    name: "a finally that starts again",
    codes: STOPPED,
    code: `begin()\nwhile True:\n    try:\n        while True: pass\n    except BaseException:\n        pass\n    finally:\n        continue`,
  },
  {
    name: "a comparison inside sort",
    codes: STOPPED,
    code: `class Thing:\n    def __lt__(self, other):\n        while True: pass\nbegin()\nsorted([Thing(), Thing()])`,
  },
  {
    name: "an endless iterator, taken in C",
    codes: STOPPED,
    code: `import collections, itertools\nbegin()\ncollections.deque(itertools.count(), maxlen=0)`,
  },
  {
    name: "numbers that all have one hash",
    codes: STOPPED,
    code: `import sys\nbegin()\n{n * sys.hash_info.modulus: 1 for n in range(1_000_000)}`,
  },
  {
    name: "an endless query of SQLite's",
    codes: STOPPED,
    code: `import sqlite3\nbegin()\nsqlite3.connect(":memory:").execute("with recursive c(x) as (select 1 union all select x + 1 from c) select count(*) from c").fetchone()`,
  },
  {
    name: "digests in C",
    codes: STOPPED,
    code: `import hashlib\ndata = bytes(10**7)\nbegin()\nwhile True: hashlib.sha512(data)`,
  },
  {
    name: "decimals of a million places",
    codes: STOPPED,
    code: `import decimal\ndecimal.getcontext().prec = 10**7\nbegin()\ndecimal.Decimal(2).sqrt()`,
  },
  {
    name: "compression",
    codes: STOPPED,
    code: `import lzma, random\ndata = random.randbytes(10**7)\nbegin()\nwhile True: lzma.compress(data, preset=4)`,
  },
  {
    name: "a dictionary whose items never end",
    codes: STOPPED,
    code: `class Items(dict):\n    def items(self):\n        begin()\n        while True: yield "a", 1\nItems(a=1)`,
  },
  {
    name: "a lock that is taken",
    codes: STOPPED,
    code: `import threading\nlock = threading.Lock()\nlock.acquire()\nbegin()\nwhile True: lock.acquire(timeout=1)`,
  },
  {
    name: "a trace function",
    codes: STOPPED,
    code: `import sys\ndef trace(*args):\n    while True: pass\nbegin()\nsys.settrace(trace)\n(lambda: 1)()`,
  },
  {
    name: "an import that never ends",
    codes: STOPPED,
    code: `import pathlib, sys\npathlib.Path("endless.py").write_text("while True: pass")\nsys.path.insert(0, ".")\nbegin()\nimport endless`,
  },
  {
    name: "a copy of memory by ctypes, again and again",
    codes: STOPPED,
    code: `import ctypes\none, two = ctypes.create_string_buffer(10**7), ctypes.create_string_buffer(10**7)\nbegin()\nwhile True: ctypes.memmove(one, two, 10**7)`,
  },
  {
    name: "a loop of JavaScript's timers",
    codes: STOPPED,
    code: `from js import setTimeout\nfrom pyodide.ffi import create_proxy\nimport asyncio\ndef again():\n    setTimeout(again_proxy, 0)\nagain_proxy = create_proxy(again)\nagain()\nbegin()\nawait asyncio.sleep(10**6)`,
  },
  // Stopped by its limits instead of by the caller.
  {
    name: "a loop, until its deadline",
    codes: ["TOOL_TIMEOUT"],
    timeoutMs: 2_000,
    code: `begin()\nwhile True: pass`,
    runsOn: true,
  },
  {
    name: "a loop, until its CPU time is used up",
    codes: ["CPU_LIMIT"],
    limits: { cpuMs: 1_000 },
    code: `begin()\nwhile True: pass`,
    runsOn: true,
  },
  // Work that continues after the result is stopped with its isolate.
  {
    name: "tasks left behind a result",
    codes: ["ok"],
    code: `import asyncio\nasync def spin():\n    while True: await asyncio.sleep(0)\ntask = asyncio.create_task(spin())\nawait asyncio.sleep(0)\n"done"`,
    output: "done",
  },
  {
    name: "a function for the interpreter's end",
    codes: ["ok"],
    code: `import atexit\ndef loop():\n    while True: pass\natexit.register(loop)\n"done"`,
    output: "done",
  },
  {
    name: "a destructor that is left for the end",
    codes: ["ok"],
    code: `class Thing:\n    def __del__(self):\n        while True: pass\nimport builtins\nbuiltins.kept = Thing()\n"done"`,
    output: "done",
  },
  {
    name: "input() and breakpoint() do not wait",
    codes: ["ok"],
    code: `def told(work):\n    try:\n        return str(work())\n    except BaseException as error:\n        return type(error).__name__\nimport builtins, sys\n[told(builtins.input), sys.stdin.read(), told(breakpoint)]`,
  },
];
