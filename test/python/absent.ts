// Parts of CPython that Pyodide lacks or that cannot work in an isolate, and the errors that programs receive when they use them.

/** [part, a program that needs it, type of the exception, pattern of its message] */
export type Absent = readonly [name: string, code: string, type: string, says: RegExp];

const NOT_THERE = /removed from the Python standard library|No module named/;

export const ABSENT: readonly Absent[] = [
  ...["tkinter", "turtle", "curses", "dbm", "readline", "pwd", "grp", "resource", "syslog", "ensurepip", "venv"].map(
    (name): Absent => [name, `import ${name}`, "ModuleNotFoundError", NOT_THERE],
  ),
  ["multiprocessing", "import multiprocessing\nmultiprocessing.Queue()", "ModuleNotFoundError", /_multiprocessing/],
  ["threads", "import threading\nthreading.Thread(target=print).start()", "RuntimeError", /can't start new thread/],
  [
    "a pool of threads",
    "from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor().submit(print)",
    "RuntimeError",
    /can't start new thread/,
  ],
  ["processes", "import subprocess\nsubprocess.run(['true'])", "OSError", /does not support processes/],
  ["fork", "import os\nos.fork()", "OSError", /not implemented/],
  // Without OpenSSL, ssl can be imported but cannot encrypt.
  ["pbkdf2_hmac", "import hashlib\nhashlib.pbkdf2_hmac('sha256', b'', b'', 1)", "AttributeError", /pbkdf2_hmac/],
  ["scrypt", "import hashlib\nhashlib.scrypt(b'', salt=b'', n=2, r=1, p=1)", "AttributeError", /scrypt/],
  ["ripemd160", "import hashlib\nhashlib.new('ripemd160')", "ValueError", /unsupported hash type/],
  ["names of time zones", "import zoneinfo\nzoneinfo.ZoneInfo('Europe/Oslo')", "ZoneInfoNotFoundError", /Europe\/Oslo/],
  ["alarms", "import signal\nsignal.alarm(1)", "AttributeError", /alarm/],
  [
    "extensions of SQLite's",
    "import sqlite3\nsqlite3.connect(':memory:').enable_load_extension(True)",
    "AttributeError",
    /./,
  ],
  ["packages", "import numpy", "ModuleNotFoundError", /numpy/],
  ["pip", "import pip", "ModuleNotFoundError", /pip/],
];
