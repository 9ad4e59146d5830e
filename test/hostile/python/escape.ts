// Escapes that work in other Python environments. One run tries each line and reports its outcome.

import type { PythonProbe } from "./support.ts";

/** Begins the text of what a line raised. */
const raises = (...names: readonly string[]): RegExp => new RegExp(`^raised (?:${names.join("|")})\\b`);
const NO_PROCESS = raises("OSError", "PermissionError", "AttributeError", "NotImplementedError", "ModuleNotFoundError");
/** Access through JavaScript: absent, or rejected. */
const RAISED = /^raised /;

export const PROBES: readonly PythonProbe[] = [
  // Processes and threads.
  ["fork", "import os\nos.fork()", NO_PROCESS],
  ["execv", "import os\nos.execv('/bin/sh', ['sh', '-c', 'id'])", NO_PROCESS],
  ["posix_spawn", "import os\nos.posix_spawn('/bin/sh', ['sh'], {})", NO_PROCESS],
  ["system", "import os\nos.system('id')", /^raised |^-?[1-9]\d*$/],
  ["popen", "import os\nos.popen('id').read()", NO_PROCESS],
  ["subprocess", "import subprocess\nsubprocess.run(['id'], capture_output=True).stdout", NO_PROCESS],
  ["subprocess with a shell", "import subprocess\nsubprocess.check_output('id', shell=True)", NO_PROCESS],
  ["asyncio's subprocess", "import asyncio\nawait asyncio.create_subprocess_shell('id')", NO_PROCESS],
  ["multiprocessing", "import multiprocessing\nmultiprocessing.Process(target=print).start()", NO_PROCESS],
  ["pty", "import pty\npty.spawn('/bin/sh')", NO_PROCESS],
  ["a thread", "import threading\nthreading.Thread(target=print).start()", raises("RuntimeError")],
  [
    "a thread, lower down",
    "import _thread\n_thread.start_new_thread(print, ())",
    raises("RuntimeError", "AttributeError"),
  ],
  ["kill of the parent", "import os\nos.kill(os.getppid(), 9)", NO_PROCESS],
  ["kill of the first process", "import os\nos.kill(1, 9)", NO_PROCESS],
  // The network.
  ["a socket", "import socket\ns = socket.create_connection(('127.0.0.1', 80), 1)\ns.sendall(b'x')\ns.recv(1)", RAISED],
  [
    "a socket to metadata",
    "import socket\ns = socket.socket()\ns.settimeout(1)\ns.connect(('169.254.169.254', 80))\ns.sendall(b'x')\ns.recv(1)",
    RAISED,
  ],
  [
    "a datagram",
    "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.settimeout(1)\ns.sendto(b'x', ('127.0.0.1', 53))\ns.recv(1)",
    RAISED,
  ],
  ["a Unix socket", "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('/var/run/docker.sock')", RAISED],
  [
    "a server",
    "import socket\ns = socket.socket()\ns.settimeout(0.1)\ns.bind(('127.0.0.1', 0))\ns.listen()\ns.accept()",
    RAISED,
  ],
  [
    "a name looked up is no address of the world",
    "import socket\nsocket.getaddrinfo('localhost.example.com', 80)[0][4][0]",
    /^raised |^'172\.29\./,
  ],
  ["urllib", "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:1/').read()", RAISED],
  [
    "http.client",
    "import http.client\nc = http.client.HTTPConnection('127.0.0.1', 1, timeout=1)\nc.request('GET', '/')\nc.getresponse()",
    RAISED,
  ],
  ["a file by URL", "import urllib.request\nurllib.request.urlopen('file:///etc/passwd').read()", RAISED],
  ["pyfetch", "from pyodide.http import pyfetch\nawait pyfetch('http://127.0.0.1:1/')", RAISED],
  ["open_url", "from pyodide.http import open_url\nopen_url('http://127.0.0.1:1/')", RAISED],
  ["js.fetch", "import js\nawait js.fetch('http://127.0.0.1:1/')", RAISED],
  ["fetch by name", "await fetch('http://127.0.0.1:1/')", RAISED],
  ["XMLHttpRequest", "import js\njs.XMLHttpRequest.new()", RAISED],
  ["WebSocket", "import js\njs.WebSocket.new('ws://127.0.0.1:1')", RAISED],
  ["smtplib", "import smtplib\nsmtplib.SMTP('127.0.0.1', 1, timeout=1)", RAISED],
  // Packages from elsewhere.
  ["micropip", "import micropip\nawait micropip.install('six')", RAISED],
  ["pip", "import pip", RAISED],
  ["loadPackage", "import pyodide_js\nawait pyodide_js.loadPackage('numpy')\nimport numpy", RAISED],
  [
    "loadPackage by URL",
    "import pyodide_js\nawait pyodide_js.loadPackage('https://127.0.0.1:1/x-1-py3-none-any.whl')\nimport x",
    RAISED,
  ],
  ["ensurepip", "import ensurepip\nensurepip.bootstrap()", RAISED],
  // The host's files and environment.
  ["/etc/passwd", "open('/etc/passwd').read()", raises("FileNotFoundError")],
  ["/proc/self/environ", "open('/proc/self/environ').read()", raises("FileNotFoundError")],
  ["/proc/1/cmdline", "open('/proc/1/cmdline').read()", raises("FileNotFoundError")],
  [
    "/proc/self/maps by a descriptor",
    "import os\nos.open('/proc/self/maps', os.O_RDONLY)",
    raises("FileNotFoundError"),
  ],
  [
    "descriptors that were not opened",
    "import os\nfound = []\nfor n in range(3, 200):\n    try: os.fstat(n); found.append(n)\n    except OSError: pass\nfound",
    /^\[\]$/,
  ],
  [
    "folders of the host",
    "import os\nsorted(set(os.listdir('/')) - {'tmp', 'home', 'dev', 'proc', 'lib', 'assets', 'etc', 'usr'})",
    /^\[\]$/,
  ],
  [
    "the environment",
    "import os\nsorted(name for name in os.environ if name not in ('HOME', 'LANG', 'PATH', 'PWD', 'USER', 'LOGNAME', '_', 'PYTHONINSPECT', 'PYTHONPATH', 'PYTHONHOME', 'LD_LIBRARY_PATH', 'PYTHONHASHSEED'))",
    /^\[\]$/,
  ],
  [
    "what the environment tells of the machine",
    "import os\n[value for value in os.environ.values() if any(word in value for word in ('/work', '/root', 'node', '.ts', '.js'))]",
    /^\[\]$/,
  ],
  [
    "what sys tells of the machine",
    "import sys, sysconfig\n[each for each in [sys.executable, sys.prefix, *sys.argv, *sys.path, *map(str, sysconfig.get_paths().values())] if any(word in str(each) for word in ('/work', '/root', 'node_modules'))]",
    /^\[\]$/,
  ],
  [
    "a link out of the file system",
    "import os\nos.symlink('/etc/passwd', '/tmp/link')\nopen('/tmp/link').read()",
    raises("FileNotFoundError"),
  ],
  ["a path through ..", "open('/tmp/' + '../' * 30 + 'etc/passwd').read()", raises("FileNotFoundError")],
  [
    "NODEFS mounted",
    "from pyodide_js import FS\nFS.mkdir('/host')\nFS.mount(FS.filesystems.NODEFS, {'root': '/'}, '/host')\nimport os\nos.listdir('/host')",
    RAISED,
  ],
  ["NODERAWFS mounted", "from pyodide_js import FS\nFS.filesystems.NODERAWFS.new()", RAISED],
  [
    "a native folder mounted",
    "import pyodide_js\nawait pyodide_js.mountNodeFS('/host', '/')\nimport os\nos.listdir('/host')",
    RAISED,
  ],
  ["a host's library", "import ctypes\nctypes.CDLL('libc.so.6')", RAISED],
  ["a host's library by path", "import ctypes\nctypes.CDLL('/lib/x86_64-linux-gnu/libc.so.6')", RAISED],
  ["a system call", "import ctypes\nctypes.CDLL(None).syscall(57)", RAISED],
  ["system by ctypes", "import ctypes\nctypes.CDLL(None).system(b'id')", /^raised |^-?[1-9]\d*$/],
  // JavaScript from Python: the guest's own globals, and no more.
  ["js.eval", "import js\njs.eval('40 + 2')", RAISED],
  ["js.Function", "import js\njs.Function.new('return 42')()", RAISED],
  ["a constructor of functions", "import js\njs.setTimeout.constructor('return 42')()", RAISED],
  [
    "the constructor of async functions",
    "import js\njs.Object.getPrototypeOf(js.fetch if hasattr(js, 'fetch') else js.setTimeout).constructor('return 42')()",
    RAISED,
  ],
  ["run_js", "from pyodide.code import run_js\nrun_js('40 + 2')", RAISED],
  [
    "setTimeout with text",
    "import js\njs.setTimeout('globalThis.ran = 1', 0)\nimport asyncio\nawait asyncio.sleep(0.01)\njs.ran",
    RAISED,
  ],
  ["_module.ENV's eval", "from pyodide_js import _module\n_module.eval('42')", RAISED],
  ["require", "import js\njs.require('child_process')", RAISED],
  ["process", "import js\nlist(js.Object.keys(js.process.env))", /^\[\]$/],
  ["process.binding", "import js\njs.process.binding('spawn_sync')", RAISED],
  ["Deno, Bun", "import js\njs.Deno or js.Bun", RAISED],
  ["Worker", "import js\njs.Worker.new('x')", RAISED],
  ["SharedArrayBuffer", "import js\njs.SharedArrayBuffer.new(8)", RAISED],
  ["Atomics", "import js\njs.Atomics.wait", RAISED],
  ["importScripts", "import js\njs.importScripts('x')", RAISED],
  ["dynamic import by the loader", "import pyodide_js\npyodide_js._api.loadScript('/etc/passwd')", RAISED],
  ["an asset by its name alone", "import pyodide_js\nawait pyodide_js._api.loadBinaryFile('/etc/passwd')", RAISED],
  [
    "the worker's own message channel",
    "import js\n[name for name in ('postMessage', 'onmessage', 'ivm', 'Reference', '_ivm', 'ask', '$0', 'global', 'parent', 'top') if hasattr(js, name)]",
    /^\[('global')?\]$/,
  ],
  // Grants that were not given.
  ["kv", "await kv.get('x')", RAISED],
  ["secrets", "await secrets.use('API_KEY')", RAISED],
  ["tools", "await tools.python_exec(code='1')", RAISED],
  ["ctx.kv", "from glovebox import ctx\nawait ctx.kv.get('x')", RAISED],
  ["ctx.fetch", "from glovebox import ctx\nawait ctx.fetch('http://127.0.0.1:1/')", RAISED],
  ["ctx.secrets", "from glovebox import ctx\nawait ctx.secrets.use('API_KEY')", RAISED],
  ["a capability forged by name", "import glovebox\nawait glovebox._call_host('kv.get', ['x'])", RAISED],
  [
    "a request to the bridge by path",
    "import glovebox\nawait glovebox._Bridge.js.call('constructor.constructor', '[\"return 42\"]')",
    RAISED,
  ],
  [
    "a request to the bridge for a method of a prototype",
    "import glovebox\nawait glovebox._Bridge.js.call('__proto__.valueOf', '[]')",
    /^raised |^\{\}/,
  ],
  ["a request for a snapshot", "import glovebox\nawait glovebox._Bridge.js.call('snapshot', '[]')", RAISED],
];
