// Attacks on memory in Python: the interpreter's memory, JavaScript memory, and deep recursion.
import type { PythonAttack, PythonProbe } from "./support.ts";

/** Stopped by the interpreter (a MemoryError is the tool's failure), or by the host. */
const STOPPED = ["TOOL_FAILED", "MEMORY_LIMIT", "SANDBOX_CRASHED"] as const;

export const BOMB_MEMORY_MIB = 64;
const limits = { memoryMiB: BOMB_MEMORY_MIB };
const bomb = (name: string, code: string): PythonAttack => ({ name, code, codes: STOPPED, limits });

const OUT_OF_MEMORY = /^raised (?:MemoryError|OverflowError|ValueError|OSError|error)\b/;
const TOO_DEEP = /^raised (?:RecursionError|MemoryError|SyntaxError)\b/;

/** Rejected by the interpreter itself, which continues after each of them: all in one run. */
export const REJECTED_BOMBS: readonly PythonProbe[] = [
  ["a list that grows", "kept = []\nwhile True: kept.append(bytes(2**20))", OUT_OF_MEMORY],
  ["many small objects", "kept = []\nwhile True: kept.append([len(kept)] * 100)", OUT_OF_MEMORY],
  ["bytes at one go", "bytes(2**30)", OUT_OF_MEMORY],
  ["bytes past the address space", "bytes(2**62)", OUT_OF_MEMORY],
  ["a string repeated", "'x' * 2**30", OUT_OF_MEMORY],
  ["a string doubled", "text = 'x'\nwhile True: text += text", OUT_OF_MEMORY],
  ["a list repeated", "[0] * 2**28", OUT_OF_MEMORY],
  ["a list of a range", "list(range(10**9))", OUT_OF_MEMORY],
  ["a dictionary", "dict.fromkeys(range(10**9))", OUT_OF_MEMORY],
  ["a set of tuples", "import itertools\nset(itertools.product(range(1000), repeat=3))", OUT_OF_MEMORY],
  ["a number of billions of bits", "1 << 2**34", OUT_OF_MEMORY],
  ["a format of a billion columns", "'%*d' % (2**30, 1)", OUT_OF_MEMORY],
  ["an f-string of a billion columns", "f'{1:{2**30}d}'", OUT_OF_MEMORY],
  ["a buffer written far out", "import io\nfile = io.BytesIO()\nfile.seek(2**30)\nfile.write(b'x')", OUT_OF_MEMORY],
  ["an array", "import array\narray.array('d', [0]) * 2**27", OUT_OF_MEMORY],
  [
    "a bomb of zlib",
    "import zlib\npacker = zlib.compressobj(1)\npacked = b''.join(packer.compress(bytes(2**20)) for _ in range(150)) + packer.flush()\nzlib.decompress(packed)",
    OUT_OF_MEMORY,
  ],
  [
    "a bomb of bz2 in bz2",
    "import bz2\npacked = bz2.compress(bytes(2**20)) * 150\nbz2.decompress(packed)",
    OUT_OF_MEMORY,
  ],
  [
    "a pickle that says it is large",
    "import pickle\npickle.loads(b'\\x80\\x04\\x8e' + (2**31 - 2**20).to_bytes(8, 'little'))",
    /^raised/,
  ],
  [
    "a blob of SQLite's",
    "import sqlite3\nsqlite3.connect(':memory:').execute('select hex(zeroblob(400000000))').fetchone()",
    OUT_OF_MEMORY,
  ],
  ["memory mapped", "import mmap\nkept = [mmap.mmap(-1, 2**24) for _ in range(100)]", OUT_OF_MEMORY],
  ["memory by ctypes", "import ctypes\nkept = [ctypes.create_string_buffer(2**24) for _ in range(100)]", OUT_OF_MEMORY],
  ["recursion", "def down(n): return down(n + 1)\ndown(0)", TOO_DEEP],
  [
    "recursion that keeps memory",
    "def down(kept): return down([kept, bytes(2**20)])\ndown(None)",
    /^raised (?:RecursionError|MemoryError)/,
  ],
  ["recursion in the parser", "eval('(' * 100_000 + ')' * 100_000)", TOO_DEEP],
  ["recursion in ast", "import ast\nast.literal_eval('[' * 50_000 + ']' * 50_000)", TOO_DEEP],
  [
    "recursion in re",
    "import re\nre.compile('(' * 20_000 + ')' * 20_000)",
    /^raised (?:RecursionError|PatternError|OverflowError)/,
  ],
  [
    "entities in entities in XML",
    "import xml.etree.ElementTree as tree\nnames = 'abcdefghij'\nentities = '<!ENTITY a \"lol\">' + ''.join(f'<!ENTITY {y} \"{(chr(38) + x + chr(59)) * 10}\">' for x, y in zip(names, names[1:]))\ntree.fromstring(f'<!DOCTYPE x [{entities}]><x>&j;</x>')",
    /^raised (?:ParseError|MemoryError)/,
  ],
  ["nothing of it lasts", "len(bytes(2**24))", /^16777216$/],
];

export const MEMORY_ATTACKS: readonly PythonAttack[] = [
  bomb("a list that grows, until it is stopped", `kept = []\nwhile True: kept.append(bytes(2**20))`),
  {
    ...bomb(
      "a MemoryError that is swallowed, again and again",
      `kept = []\nwhile True:\n    try:\n        kept.append(bytes(2**20))\n    except MemoryError:\n        begin()`,
    ),
    codes: ["CANCELLED"],
  },
  // JavaScript memory does not count as Python memory.
  bomb("files in memory", `with open("large", "wb") as file:\n    while True: file.write(bytes(2**22))`),
  bomb(
    "a file cut longer than it is",
    `import os\nopen("large", "wb").close()\nos.truncate("large", 2**31 - 1)\nlen(open("large", "rb").read())`,
  ),
  bomb(
    "JavaScript's arrays",
    `from js import Array\nkept = Array.new()\nwhile True: kept.push(Array.new(10**6).fill(kept.length))`,
  ),
  bomb(
    "JavaScript's buffers",
    `from js import Uint8Array\nkept = []\nwhile True:\n    kept.append(Uint8Array.new(2**24))\n    kept[-1].fill(1)`,
  ),
  bomb(
    "another WebAssembly memory",
    `from js import WebAssembly, Object, Uint8Array\nkept = []\nwhile True:\n    memory = WebAssembly.Memory.new(Object.fromEntries([["initial", 1024]]))\n    Uint8Array.new(memory.buffer).fill(1)\n    kept.append(memory)`,
  ),
  bomb(
    "growth of the interpreter's own memory, past its guard",
    `from pyodide_js import _module\nfrom js import WebAssembly, Uint8Array, Reflect\nmemory = _module.memory\nwhile True:\n    Reflect.apply(WebAssembly.Memory.prototype.grow, memory, [1024])\n    Uint8Array.new(memory.buffer, memory.buffer.byteLength - 2**26).fill(1)`,
  ),
  bomb(
    "proxies that are never destroyed",
    `from pyodide.ffi import create_proxy\nkept = []\nwhile True: kept.append(create_proxy(bytearray(2**16)))`,
  ),
  // The machine's stack, where CPython's own limit was taken away.
  bomb(
    "recursion without a limit",
    `import sys\nsys.setrecursionlimit(2**31 - 1)\ndef down(n): return down(n + 1) + 1\ndown(0)`,
  ),
  bomb(
    "recursion through C",
    `import sys\nsys.setrecursionlimit(2**31 - 1)\nclass Deep:\n    def __repr__(self): return repr([self])\nrepr(Deep())`,
  ),
  bomb("recursion in json", `import json\njson.loads("[" * 10**6 + "]" * 10**6)`),
  bomb("recursion in the compiler", `eval("-" * 1_000_000 + "1")`),
  bomb(
    "recursion in pickle",
    `import pickle, sys\nsys.setrecursionlimit(2**31 - 1)\nkept = []\nfor _ in range(10**5): kept = [kept]\npickle.dumps(kept)`,
  ),
  bomb(
    "recursion in a comparison",
    `import sys\nsys.setrecursionlimit(2**31 - 1)\none, two = [], []\nfor _ in range(10**5): one, two = [one], [two]\none == two`,
  ),
  {
    ...bomb(
      "recursion between Python and JavaScript",
      `from pyodide.ffi import create_proxy\nfrom js import Reflect\nimport sys\nsys.setrecursionlimit(2**31 - 1)\ndef down():\n    Reflect.apply(proxy, None, [])\nproxy = create_proxy(down)\ndown()`,
    ),
    codes: [...STOPPED, "TOOL_TIMEOUT"],
    timeoutMs: 3_000,
  },
  {
    ...bomb("a long chain let go of", `kept = None\nfor _ in range(10**5): kept = (kept,)\nkept = None\n"gone"`),
    codes: ["ok", ...STOPPED],
  },
];
