"""Converts values to JSON text with binary attachments, and back. In the text a placeholder with a number replaces each value of bytes."""

import dataclasses
import json
import math
import re

_MAX_ATTEMPTS = 8
#: Integers of this length may not be a double, which is what a JSON number becomes on the host. Python's json writes integers of any length.
_LONG_NUMBER = re.compile(r"(?<![0-9.])[0-9]{16}")
#: Integers of this length may exceed the range of a double.
_HUGE_NUMBER = re.compile(r"[0-9]{309}")
_BYTES = (bytes, bytearray, memoryview)

_HINTS = {
    "set": "list(value), or sorted(value)",
    "frozenset": "list(value), or sorted(value)",
    "generator": "list(value)",
    "async_generator": "[each async for each in value]",
    "coroutine": "await value",
    "datetime": "value.isoformat()",
    "date": "value.isoformat()",
    "time": "value.isoformat()",
    "timedelta": "value.total_seconds()",
    "Decimal": "str(value), or float(value)",
    "Fraction": "str(value), or float(value)",
    "UUID": "str(value)",
    "complex": "[value.real, value.imag]",
}


class NotJson(Exception):
    """A value cannot be converted to JSON. The message names the value, its location and an alternative."""


def _is_record(value):
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _fields(value):
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _plain(value):
    """Converts a dataclass to its fields, and a numpy value to the Python equivalent. Returns None for other values."""
    if _is_record(value):
        return _fields(value)
    if type(value).__module__.partition(".")[0] == "numpy" and hasattr(value, "tolist"):
        return value.tolist()
    return None


def _article(name):
    return f"an {name}" if name[:1].lower() in "aeiou" else f"a {name}"


def _describe(value):
    name = type(value).__name__
    hint = _HINTS.get(name)
    if hint is None and hasattr(value, "__iter__"):
        hint = "list(value)"
    return _article(name), hint


def _at(what, pointer, more=""):
    """Describes a value that is not JSON: the value itself, or the one that contains it."""
    return (f"a value with {what} at {pointer}" if pointer else what) + more


def _find_problem(root, exact):
    """Describes the first part of a value that json.dumps cannot convert, or that is another value as a JSON number."""
    path = set()

    def visit(value, pointer):
        if value is None or isinstance(value, (str, bool, *_BYTES)):
            return None
        if isinstance(value, int):
            try:
                same = int.__eq__(value, int(int.__float__(value)))
            except OverflowError:
                return _at("an int", pointer, " that is too large for a JSON number; return str(value)")
            return None if same or not exact else _at("an int", pointer, " that a JSON number cannot hold exactly; return str(value), or float(value)")
        if isinstance(value, float):
            return None if math.isfinite(value) else _at(f"the float {value}", pointer, ", which JSON does not support; return None")
        plain = _plain(value)
        if plain is not None:
            return visit(plain, pointer)
        if isinstance(value, dict):
            items = value.items()
        elif isinstance(value, (list, tuple)):
            items = enumerate(value)
        else:
            what, hint = _describe(value)
            return _at(what, pointer, "" if hint is None else f"; return {hint}")
        if id(value) in path:
            return _at("a cycle", pointer)
        path.add(id(value))
        for key, item in items:
            if not isinstance(key, (str, int, float, type(None))):
                what, _ = _describe(key)
                return f"a value with {what} as a key at {pointer or 'the top'}; JSON keys are strings"
            problem = visit(item, f"{pointer}/{key}")
            if problem is not None:
                return problem
        path.discard(id(value))
        return None

    try:
        return visit(root, "")
    except RecursionError:
        return "values nested too deep"


def encode(value, exact=True):
    """Returns JSON text and, if the value contains bytes, a header and the bytes. Raises NotJson. Without `exact`, integers may be rounded."""
    for attempt in range(_MAX_ATTEMPTS):
        mark = "glovebox:python:" + (f"{attempt}:" if attempt else "")
        found = []

        def default(each):
            if isinstance(each, _BYTES):
                found.append(bytes(each))
                return f"{mark}{len(found) - 1}"
            plain = _plain(each)
            if plain is None:
                raise NotJson
            return plain

        try:
            text = json.dumps(value, allow_nan=False, default=default, separators=(",", ":"))
        except (NotJson, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise NotJson(_find_problem(value, exact) or str(error) or _describe(value)[0]) from None
        if (_LONG_NUMBER if exact else _HUGE_NUMBER).search(text):
            problem = _find_problem(value, exact)
            if problem is not None:
                raise NotJson(problem)
        if not found:
            return text, None, None
        if text.count(f'"{mark}') == len(found):
            header = json.dumps({"mark": mark, "lengths": [len(each) for each in found]})
            return text, header, b"".join(found)
    raise NotJson("text that collides with binary placeholders")


def decode(text, header=None, data=None):
    """Parses the text, and replaces placeholders by bytes."""
    value = json.loads(text)
    if header is None:
        return value
    metadata = json.loads(header)
    mark = metadata["mark"]
    parts = []
    offset = 0
    for length in metadata["lengths"]:
        parts.append(bytes(data[offset : offset + length]))
        offset += length

    def restore(each):
        if isinstance(each, str):
            return parts[int(each[len(mark) :])] if each.startswith(mark) else each
        if isinstance(each, list):
            return [restore(item) for item in each]
        if isinstance(each, dict):
            return {key: restore(item) for key, item in each.items()}
        return each

    return restore(value)
