"""Runs cells of Python as a notebook would, and reports the outcome of each. It runs in CPython and in Glovebox, to compare both."""

import ast
import asyncio
import contextlib
import inspect
import io
import sys
import traceback
import types

VALUE = "__value_of_last_expression__"
# The file name that Glovebox shows in tracebacks of a snippet.
FILE_NAME = "snippet.py"


def compile_cell(source):
    tree = ast.parse(source, FILE_NAME)
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = tree.body[-1]
        target = ast.copy_location(ast.Name(VALUE, ast.Store()), last)
        tree.body[-1] = ast.copy_location(ast.Assign([target], last.value), last)
    return compile(tree, FILE_NAME, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def run(source):
    # pickle and similar modules look up a program's classes in its own module.
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            code = compile_cell(source)
            promised = eval(code, main.__dict__)
            if code.co_flags & inspect.CO_COROUTINE:
                asyncio.run(promised)
            outcome = {"value": main.__dict__.get(VALUE)}
        except BaseException as error:
            lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == FILE_NAME]
            if isinstance(error, SyntaxError):
                lines.append(error.lineno)
            outcome = {"error": {"type": type(error).__name__, "message": str(error), "lines": lines}}
    return {**outcome, "printed": printed.getvalue()}


def main(input):
    own = sys.modules["__main__"]
    try:
        return [run(source) for source in input]
    finally:
        sys.modules["__main__"] = own
