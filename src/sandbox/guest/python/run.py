"""Runs an author's code once: compiles it, evaluates it as CPython does, and reports its value or failure."""

import ast
import asyncio
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

from pyodide import webloop
from pyodide.ffi import run_sync, to_js

import glovebox
from _glovebox import definition, errors, values
from _glovebox.wheels import wheels

_VALUE = "\N{MIDDLE DOT}value"
_BUILTINS = frozenset(vars(builtins))
_added_builtins = set()
_tool = None
_last_input = object()
_has_begun = False
#: The files of the current run.
_files = None

class Files:
    """The author's files by display name, including those of earlier runs in this interpreter."""

    _names = set()

    def __init__(self, home, memory_mib):
        self._home = home + "/"
        self.memory_mib = memory_mib

    def add(self, name, text):
        """Registers a source text for frames and inspect."""
        self._names.add(name)
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)

    def write(self, name, text):
        path = os.path.join(self._home, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def name_of(self, path):
        """Returns the display name of a path, or None if the file is not the author's."""
        if path in self._names:
            return path
        return path.removeprefix(self._home) if path.startswith(self._home) else None


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def _own_nodes(nodes):
    """Yields the nodes that run as part of the top level, without the bodies of functions and classes."""
    for node in nodes:
        yield node
        if not isinstance(node, _SCOPES):
            yield from _own_nodes(ast.iter_child_nodes(node))


def _names_of(node):
    """Returns the names that a node of the top level binds."""
    if isinstance(node, ast.Name):
        return [] if isinstance(node.ctx, ast.Load) else [node.id]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [(each.asname or each.name).split(".")[0] for each in node.names if each.name != "*"]
    if isinstance(node, ast.MatchMapping):
        return [node.rest] if node.rest else []
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
        return [node.name] if node.name else []
    return []


class _WithoutAnnotations(ast.NodeTransformer):
    """Removes annotations of variables, which a function cannot give to global names."""

    def visit_AnnAssign(self, node):
        if not isinstance(node.target, ast.Name):
            return node
        return ast.copy_location(ast.Assign([node.target], node.value) if node.value else ast.Pass(), node)

    def generic_visit(self, node):
        return node if isinstance(node, _SCOPES) else super().generic_visit(node)


def _to_function(tree):
    """Makes a function of code that returns at the top level. Its variables stay global, as without `return`."""
    is_future = [isinstance(each, ast.ImportFrom) and each.module == "__future__" for each in tree.body]
    head = [each for each, is_head in zip(tree.body, is_future) if is_head]
    body = [each for each, is_head in zip(tree.body, is_future) if not is_head]
    own = list(_own_nodes(body))
    waits = any(isinstance(each, (ast.Await, ast.AsyncFor, ast.AsyncWith)) or getattr(each, "is_async", 0) for each in own)
    names = sorted({name for each in own for name in _names_of(each)})
    if isinstance(body[-1], ast.Expr):
        body[-1] = ast.copy_location(ast.Return(body[-1].value), body[-1])
    kind = ast.AsyncFunctionDef if waits else ast.FunctionDef
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    scope = [ast.Global(names)] if names else []
    function = kind("<module>", nothing, [*scope, *map(_WithoutAnnotations().visit, body)], [], type_params=[])
    return ast.fix_missing_locations(ast.Module([*head, ast.copy_location(function, body[0])], []))


def _run_function(tree, name, namespace):
    """Runs a snippet that returns at the top level, and returns its value."""
    exec(compile(_to_function(tree), name, "exec", dont_inherit=True), namespace)
    return _await_if_needed(namespace.pop("<module>")())


def _parse(order):
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    return compile(order["code"].removeprefix("\ufeff"), order["fileName"], "exec", flags, dont_inherit=True)


def _compile(order, wants_value):
    """Compiles the code. The value of the last expression is stored in the namespace. Top-level await is allowed."""
    name = order["fileName"]
    tree = _parse(order)
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


def _await_if_needed(value):
    return run_sync(value) if inspect.isawaitable(value) else value


def _call_main(main, value, context):
    """Calls main(), main(input) or main(input, ctx), depending on its parameters."""
    try:
        parameters = inspect.signature(main).parameters.values()
    except (TypeError, ValueError):
        return _await_if_needed(main(value))
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    takes_any = any(each.kind == each.VAR_POSITIONAL for each in parameters)
    count = 2 if takes_any else min(len(positional), 2)
    # A second parameter with a default value may not be meant for ctx.
    if count == 2 and not takes_any and positional[1].default is not positional[1].empty and positional[1].name != "ctx":
        count = 1
    named = {"ctx": context} if any(each.name == "ctx" and each.kind == each.KEYWORD_ONLY for each in parameters) else {}
    return _await_if_needed(main(*(value, context)[:count], **named))


def _is_main_guard(node):
    return isinstance(node, ast.If) and "__name__" in {each.id for each in ast.walk(node.test) if isinstance(each, ast.Name)}


def _add_builtins(names):
    """Adds names to the builtins, so that they need no import. Python's own builtins are not replaced: ctx has the others."""
    global _added_builtins
    for name in _added_builtins:
        builtins.__dict__.pop(name, None)
    _added_builtins = names.keys() - _BUILTINS
    builtins.__dict__.update({name: names[name] for name in _added_builtins})


def _set_input(namespace, has_input, value):
    """Sets `input` for this run, or removes that of an earlier run. A variable of the author with this name is kept."""
    global _last_input
    if has_input:
        namespace["input"] = value
    elif namespace.get("input") is _last_input:
        namespace.pop("input", None)
    _last_input = value if has_input else object()


def _run_snippet(order, value):
    namespace = sys.modules["__main__"].__dict__
    namespace["__file__"] = order["fileName"]
    _set_input(namespace, order["hasInput"], value)
    if "return" in order["code"]:
        tree = _parse(order)
        own = list(_own_nodes(tree.body))
        # With `yield`, it would be a generator. Python rejects it at the top level.
        if any(isinstance(each, ast.Return) for each in own) and not any(isinstance(each, (ast.Yield, ast.YieldFrom)) for each in own):
            return _run_function(tree, order["fileName"], namespace)
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
    """Returns the author's module, which is evaluated once per isolate."""
    global _tool
    key = (order["fileName"], order["code"])
    if _tool is None or _tool[0] != key:
        name = os.path.basename(order["fileName"]).removesuffix(".py")
        module = types.ModuleType(name)
        module.__file__ = order["fileName"]
        # The name must not replace a module of the standard library.
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


def _evaluate_order(order, value):
    try:
        return _run_tool(order, value) if order["mode"] == "tool" else _run_snippet(order, value)
    except SystemExit as exit:
        # Exit code 0 is a success, as for a script. While the definition is extracted, any exit is a failure.
        if order.get("describe") or (exit.code is not None and exit.code != 0):
            raise
        return None


def _take_over_scheduling(start_timer, until_forgotten):
    """Pyodide runs callbacks with a delay of at most 2 ms at once, so that the clock may not advance during time.sleep(0.001)."""
    run_soon = webloop.scheduleCallback

    def schedule(callback, delay_ms=0):
        start_timer(callback, delay_ms) if delay_ms > 0 else run_soon(until_forgotten(callback))

    webloop.scheduleCallback = schedule


def _begin(bridge):
    """Resets state of the snapshot that must differ between interpreters: random numbers and clocks."""
    global _has_begun
    if not _has_begun:
        _has_begun = True
        _take_over_scheduling(bridge.startTimer, bridge.untilForgotten)
        random.seed()
        logging._startTime = time.time_ns()
        sys.modules["__main__"].__dict__.pop("_pyodide_core", None)


def _flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            pass


def _leave_task():
    """Leaves the task that waits in run_sync for ever, so that others can run."""
    loop = asyncio.get_event_loop()
    task = asyncio.current_task(loop)
    if task is not None:
        asyncio.tasks._leave_task(loop, task)


def undo(function, bridge):
    """Runs a function of ctx.onRollback. Returns why it failed as JSON text, or None."""
    try:
        bridge.limitStack()
        _leave_task()
        _await_if_needed(function())
        return None
    except BaseException as error:
        return errors.describe(error, _files)
    finally:
        _flush()


def run(text, input_text, header, data, bridge):
    global _files
    order = json.loads(text)
    files = _files = Files(os.environ["HOME"], order["memoryMiB"])
    try:
        bridge.limitStack()
        wheels.open(bridge.readAsset)
        _begin(bridge)
        _add_builtins(glovebox.begin(bridge, order["granted"]))
        value = values.decode(input_text, header, None if data is None else data.to_bytes())
        files.add(order["fileName"], order["code"])
        for name, source in (order.get("files") or {}).items():
            files.write(name, source)
        result = _evaluate_order(order, value)
        # A schema may say `"maximum": 2**63 - 1`.
        text, header, data = values.encode(result, exact=not order.get("describe"))
        bridge.output(text, header, None if data is None else to_js(data))
    except values.NotJson as error:
        if order.get("describe"):
            bridge.fail(errors.describe(definition.SourceFault(f"The tool's definition is not JSON: it is {error}"), files))
        else:
            bridge.rejectOutput(str(error))
    except BaseException as error:
        bridge.fail(errors.describe(error, files), getattr(error, "_rejection", None))
    finally:
        _flush()
