"""One run of an author's code: compiled, evaluated as CPython would, and its value or failure told."""

import ast
import builtins
import inspect
import json
import linecache
import logging
import os
import random
import sys
import time
import types

from pyodide.ffi import run_sync, to_js

import glovebox
from _glovebox import definition, errors, values
from _glovebox.wheels import wheels

_VALUE = "\N{MIDDLE DOT}value"
_BUILTINS = frozenset(vars(builtins))
_offered = set()
_tool = None
_given = object()
_has_begun = False


class Files:
    """The author's files, by the names that they are shown by: those of earlier runs in this interpreter, too."""

    _names = set()

    def __init__(self, home, memory_mib):
        self._home = home + "/"
        self.memory_mib = memory_mib

    def add(self, name, text):
        """Where frames and inspect look for it, and where imports do."""
        self._names.add(name)
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)

    def write(self, name, text):
        path = os.path.join(self._home, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def name_of(self, path):
        """None for what is not the author's."""
        if path in self._names:
            return path
        return path.removeprefix(self._home) if path.startswith(self._home) else None


class _Settled:
    """Told already."""


def _compile(order, wants_value):
    """The code, whose last expression's value is left in the namespace; top-level await is allowed."""
    name = order["fileName"]
    tree = compile(order["code"].removeprefix("\ufeff"), name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    has_value = wants_value and bool(tree.body) and isinstance(tree.body[-1], ast.Expr)
    if has_value:
        last = tree.body[-1]
        target = ast.copy_location(ast.Name(_VALUE, ast.Store()), last)
        tree.body[-1] = ast.copy_location(ast.Assign([target], last.value), last)
    return compile(tree, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True), tree, has_value


def _evaluate(code, namespace):
    if code.co_flags & inspect.CO_COROUTINE:
        run_sync(eval(code, namespace))
    else:
        exec(code, namespace)


def _awaited(value):
    return run_sync(value) if inspect.isawaitable(value) else value


def _call_main(main, value, context):
    """main(), main(input) or main(input, ctx), as it has parameters."""
    try:
        parameters = inspect.signature(main).parameters.values()
    except (TypeError, ValueError):
        return _awaited(main(value))
    places = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    takes_any = any(each.kind == each.VAR_POSITIONAL for each in parameters)
    count = 2 if takes_any else min(len(places), 2)
    # A second parameter with a default may be the author's own.
    if count == 2 and not takes_any and places[1].default is not places[1].empty and places[1].name != "ctx":
        count = 1
    named = {"ctx": context} if any(each.name == "ctx" and each.kind == each.KEYWORD_ONLY for each in parameters) else {}
    return _awaited(main(*(value, context)[:count], **named))


def _is_main_guard(node):
    return isinstance(node, ast.If) and "__name__" in {each.id for each in ast.walk(node.test) if isinstance(each, ast.Name)}


def _offer(names):
    """To be found without an import, in all of the author's modules. What Python itself calls so stays what everybody uses: ctx has the other."""
    global _offered
    for name in _offered:
        builtins.__dict__.pop(name, None)
    _offered = names.keys() - _BUILTINS
    builtins.__dict__.update({name: names[name] for name in _offered})


def _give_input(namespace, has_input, value):
    """An earlier run's input is not this one's; what the author has called so stays."""
    global _given
    if has_input:
        namespace["input"] = value
    elif namespace.get("input") is _given:
        namespace.pop("input", None)
    _given = value if has_input else object()


def _run_snippet(order, value):
    namespace = sys.modules["__main__"].__dict__
    namespace["__file__"] = order["fileName"]
    _give_input(namespace, order["hasInput"], value)
    code, tree, has_value = _compile(order, wants_value=True)
    namespace.pop("main", None) if order["mode"] == "exec" else None
    _evaluate(code, namespace)
    if has_value:
        return namespace.pop(_VALUE, None)
    main = namespace.get("main")
    if order["mode"] == "session" or not callable(main) or any(map(_is_main_guard, tree.body)):
        return None
    return _call_main(main, value, glovebox.ctx)


def _load_tool(order):
    """The author's module, evaluated once for as long as the isolate lives."""
    global _tool
    key = (order["fileName"], order["code"])
    if _tool is None or _tool[0] != key:
        name = os.path.basename(order["fileName"]).removesuffix(".py")
        module = types.ModuleType(name)
        module.__file__ = order["fileName"]
        # A module of the standard library that is called so stays what others import.
        if name not in sys.stdlib_module_names:
            sys.modules[name] = module
        code, _, _ = _compile(order, wants_value=False)
        _evaluate(code, module.__dict__)
        _tool = (key, module)
    return _tool[1]


def _run_tool(order, value):
    module = _load_tool(order)
    if order.get("describe"):
        return definition.describe(module)
    main = getattr(module, "main", None)
    if not callable(main):
        raise definition.SourceFault("Expected the tool to define main(input), got a module without main")
    return _call_main(main, definition.to_parameter(main, value), glovebox.ctx)


def _value_of(order, value):
    try:
        return _run_tool(order, value) if order["mode"] == "tool" else _run_snippet(order, value)
    except SystemExit as exit:
        # As a script that ends so: well, unless it says otherwise. A tool that ends while it is learned is none.
        if order.get("describe") or (exit.code is not None and exit.code != 0):
            raise
        return None


def _begin():
    """The interpreter's memory began as a copy of another's: its random numbers and its clocks must not."""
    global _has_begun
    if not _has_begun:
        _has_begun = True
        random.seed()
        logging._startTime = time.time_ns()
        sys.modules["__main__"].__dict__.pop("_pyodide_core", None)


def run(text, input_text, header, data, bridge):
    order = json.loads(text)
    files = Files(os.environ["HOME"], order["memoryMiB"])
    try:
        bridge.limitStack()
        wheels.open(bridge.readAsset)
        _begin()
        _offer(glovebox.begin(bridge, order["granted"]))
        value = values.decode(input_text, header, None if data is None else data.to_bytes())
        files.add(order["fileName"], order["code"])
        for name, source in (order.get("files") or {}).items():
            files.write(name, source)
        result = _value_of(order, value)
        text, header, data = values.encode(result)
        bridge.output(text, header, None if data is None else to_js(data))
    except values.NotJson as error:
        if order.get("describe"):
            bridge.fail(errors.describe(definition.SourceFault(f"The tool's definition is not JSON: it has {error}"), files))
        else:
            bridge.refuse(str(error))
    except BaseException as error:
        bridge.fail(errors.describe(error, files), getattr(error, "_rejection", None))
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except BaseException:
                pass
