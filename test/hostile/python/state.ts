// State that one run leaves behind: written in one call, and searched for in the next call of the same tenant and of another tenant.

/** [what is left, how it is left, an expression that is what it says where nothing was] */
export type Trace = readonly [name: string, write: string, read: string, clean: RegExp];

/** Names of those after which their own run's result is not what it was. */
export const SPOILS_OWN_RESULT: RegExp = /^(?:json's|the harness's) functions|^JavaScript's JSON/;

const UNDEFINED = /NameError|AttributeError|ImportError|ModuleNotFoundError|KeyError/;

export const TRACES: readonly Trace[] = [
  ["a global", "global left_here\nleft_here = 'secret'", "left_here", UNDEFINED],
  [
    "a variable of __main__",
    "import __main__\n__main__.left_here = 'secret'",
    "__import__('__main__').left_here",
    UNDEFINED,
  ],
  ["a builtin", "import builtins\nbuiltins.left_here = 'secret'", "left_here", UNDEFINED],
  ["a builtin replaced", "import builtins\nbuiltins.abs = lambda *args: 'secret'", "abs(-2)", /^2$/],
  [
    "a module of its own",
    "import sys, types\nsys.modules['left_here'] = types.ModuleType('left_here')",
    "__import__('left_here')",
    UNDEFINED,
  ],
  [
    "a module's function replaced",
    "import math\nmath.sqrt = lambda n: 'secret'",
    "__import__('math').sqrt(4)",
    /^2\.0$/,
  ],
  ["json's functions replaced", "import json\njson.dumps = lambda *args, **more: '\"secret\"'", "[1]", /^\[1\]$/],
  ["a file", "open('/tmp/left_here', 'w').write('secret')", "open('/tmp/left_here').read()", /FileNotFoundError/],
  ["a file at home", "open('left_here.py', 'w').write('x = \"secret\"')", "__import__('left_here').x", UNDEFINED],
  [
    "a working directory",
    "import os\nos.mkdir('/tmp/d')\nos.chdir('/tmp/d')",
    "__import__('os').getcwd()",
    /^'?\/home\/[a-z]+'?$/,
  ],
  [
    "a path of imports",
    "import sys\nsys.path.insert(0, '/tmp/secret')",
    "'/tmp/secret' in __import__('sys').path",
    /^False$/,
  ],
  [
    "an environment variable",
    "import os\nos.environ['LEFT_HERE'] = 'secret'",
    "__import__('os').environ['LEFT_HERE']",
    UNDEFINED,
  ],
  [
    "the decimal context",
    "import decimal\ndecimal.getcontext().prec = 3",
    "__import__('decimal').getcontext().prec",
    /^28$/,
  ],
  [
    "the random numbers' seed",
    "import random\nrandom.seed(1)",
    "__import__('random').random() == 0.13436424411240122",
    /^False$/,
  ],
  [
    "a context variable",
    "import contextvars, builtins\nbuiltins.var = contextvars.ContextVar('left_here')\nbuiltins.var.set('secret')",
    "[v.name for v in __import__('contextvars').copy_context() if v.name == 'left_here']",
    /^\[\]$/,
  ],
  [
    "a logger",
    "import logging\nlogging.getLogger('left_here').setLevel(5)",
    "__import__('logging').getLogger('left_here').level",
    /^0$/,
  ],
  [
    "warnings' filters",
    "import warnings\nwarnings.simplefilter('error')",
    "__import__('warnings').filters[0][0] == 'error'",
    /^False$/,
  ],
  [
    "a codec",
    "import codecs\ncodecs.register(lambda name: ('secret', None, None, None)[0] and None)\ncodecs.register_error('left_here', lambda error: ('secret', error.end))",
    "'é'.encode('ascii', 'left_here')",
    /LookupError/,
  ],
  [
    "a handler of a copy",
    "import copyreg\ncopyreg.pickle(complex, lambda value: (str, ('secret',)))",
    "__import__('pickle').loads(__import__('pickle').dumps(1j))",
    /1j/,
  ],
  [
    "a cached regular expression's type",
    "import re\nre._cache = {}\nre.compile = lambda *args: 'secret'",
    "type(__import__('re').compile('a')).__name__",
    /Pattern/,
  ],
  [
    "an import hook",
    "import sys\nclass Finder:\n    def find_spec(self, *args): print('secret')\nsys.meta_path.insert(0, Finder())",
    "[type(each).__name__ for each in __import__('sys').meta_path if type(each).__name__ == 'Finder']",
    /^\[\]$/,
  ],
  [
    "an excepthook and a display hook",
    "import sys\nsys.excepthook = sys.displayhook = lambda *args: None",
    "__import__('sys').displayhook.__name__",
    /displayhook/,
  ],
  [
    "a limit of recursion",
    "import sys\nsys.setrecursionlimit(77_777)",
    "__import__('sys').getrecursionlimit() == 77777",
    /^False$/,
  ],
  ["a trace function", "import sys\nsys.setprofile(lambda *args: None)", "__import__('sys').getprofile()", /^None$/],
  [
    "a task",
    "import asyncio, builtins\nasync def later():\n    await asyncio.sleep(0.05)\n    print('secret')\nbuiltins.task = asyncio.ensure_future(later())",
    "[each.get_name() for each in __import__('asyncio').all_tasks() if 'later' in str(each)]",
    /^\[\]$/,
  ],
  [
    "an object kept alive",
    "import builtins\nclass LeftHere: pass\nbuiltins.kept = LeftHere()",
    "[type(each).__name__ for each in __import__('gc').get_objects() if type(each).__name__ == 'LeftHere']",
    /^\[\]$/,
  ],
  [
    "a subclass",
    "import builtins\nclass LeftHereToo(dict): pass\nbuiltins.kept_too = LeftHereToo",
    "[each.__name__ for each in dict.__subclasses__() if each.__name__ == 'LeftHereToo']",
    /^\[\]$/,
  ],
  [
    "an interned string in memory",
    "import builtins\nbuiltins.text = 'needle in ' + 'the heap'",
    "any('needle in ' + 'the heap' == each for each in __import__('gc').get_referents(*__import__('gc').get_objects()) if isinstance(each, str) and len(each) == 18)",
    /^False$/,
  ],
  ["a global of JavaScript's", "import js\njs.leftHere = 'secret'", "__import__('js').leftHere", UNDEFINED],
  [
    "Object.prototype polluted",
    "import js\njs.Object.prototype.leftHere = 'secret'",
    "__import__('js').Object.new().leftHere",
    UNDEFINED,
  ],
  [
    "JavaScript's JSON replaced",
    "import js\nfrom pyodide.ffi import create_proxy\njs.JSON.parse = create_proxy(lambda *args: 'secret')",
    "__import__('js').JSON.parse('[1]').length",
    /^1$/,
  ],
  [
    "Array's iterator replaced",
    "import js\nfrom pyodide.ffi import create_proxy\njs.Array.prototype.map = create_proxy(lambda *args: 'secret')",
    "'native' in str(__import__('js').Array.prototype.map.toString())",
    /^True$/,
  ],
  [
    "Promise's then replaced",
    "import js\nfrom pyodide.ffi import create_proxy\njs.Promise.prototype.leftHere = create_proxy(lambda *args: 'secret')",
    "__import__('js').Promise.prototype.leftHere",
    UNDEFINED,
  ],
  [
    "a module registered with Pyodide",
    "import pyodide_js, js\npyodide_js.registerJsModule('left_here_js', js.Object.fromEntries([['x', 'secret']]))",
    "__import__('left_here_js').x",
    UNDEFINED,
  ],
  [
    "a variable of Pyodide's globals",
    "import pyodide_js\npyodide_js.globals['left_here'] = 'secret'",
    "__import__('pyodide_js').globals.get('left_here')",
    /^None$|NameError|AttributeError/,
  ],
  [
    "the harness's own state",
    "import glovebox\nglovebox.ctx.left_here = 'secret'\nglovebox.left_here = 'secret'",
    "vars(__import__('glovebox')).get('left_here')",
    /^None$/,
  ],
  [
    "the harness's functions",
    "import sys\nfor name, module in list(sys.modules.items()):\n    if name.startswith('_glovebox.'):\n        for each in list(vars(module)):\n            if each in ('encode', 'describe'): setattr(module, each, lambda *args: ('\"secret\"', None, None))",
    "'fine'",
    /^'fine'$/,
  ],
];
