"""Formats exceptions as text: type, message, and the frames of the author's files, innermost first in V8's format."""

import errno
import json
import os

from _glovebox.definition import SourceFault
from glovebox import CAPABILITIES, CapabilityError, NotGrantedError, grant_of, is_granted, not_granted

_MAX_FRAMES = 50
_MAX_MESSAGE = 8_000
_MAX_CAUSES = 8


def _text_of(error):
    try:
        return str(error)[:_MAX_MESSAGE]
    except BaseException:
        return "an exception that cannot be shown"


def _is_syntax(error, files):
    """Tells whether the author's own source cannot be compiled, in contrast to text that it compiles while it runs."""
    return isinstance(error, SyntaxError) and error.filename is not None and files.name_of(error.filename) is not None


def _frames(error, files):
    found = []
    if _is_syntax(error, files):
        line, column = error.lineno or 1, error.offset or 1
        found.append(f"    at <module> ({files.name_of(error.filename)}:{line}:{max(column, 1)})")
    frames = []
    walk = error.__traceback__
    while walk is not None:
        name = files.name_of(walk.tb_frame.f_code.co_filename)
        if name is not None:
            frames.append((walk, name))
            if len(frames) > 2 * _MAX_FRAMES:
                del frames[_MAX_FRAMES]
        walk = walk.tb_next
    for entry, name in reversed(frames):
        if len(found) >= _MAX_FRAMES:
            break
        found.append(f"    at {entry.tb_frame.f_code.co_qualname} ({name}:{entry.tb_lineno}:{_column(entry)})")
    return found


def _column(entry):
    try:
        positions = list(entry.tb_frame.f_code.co_positions())
        column = positions[entry.tb_lasti // 2][2]
        return 1 if column is None else column + 1
    except (IndexError, ValueError):
        return 1


def _causes(error):
    """Returns the causes of an error: from `raise … from …`, or from an exception inside an `except` block."""
    lines = []
    seen = {id(error)}
    while len(lines) < _MAX_CAUSES:
        link = "Caused by"
        following = error.__cause__
        if following is None and not error.__suppress_context__:
            link, following = "While handling", error.__context__
        if following is None or id(following) in seen:
            break
        error = following
        seen.add(id(error))
        lines.append(f"{link} {type(error).__name__}: {_text_of(error)}")
    return lines


def _missing_capability(error):
    """Granted capabilities are builtins during a call, so an unknown name may be a capability without a grant."""
    name = getattr(error, "name", None) if isinstance(error, NameError) else None
    return name if isinstance(name, str) and name in CAPABILITIES else None


NO_SOCKETS = "Python has no sockets here; use await fetch(url), or run_sync(fetch(url)) in an ordinary function"


def _is_connection(error):
    """Returns whether a program tried to connect by itself, with a socket or a library such as urllib."""
    reason = getattr(error, "reason", error)
    # What Emscripten answers to each connection.
    is_unreachable = isinstance(reason, OSError) and reason.errno == errno.EHOSTUNREACH
    return is_unreachable and reason.strerror == os.strerror(reason.errno)


def _missing_fetch(error):
    """Returns the message for a program that tried to reach the network without `fetch`: with Pyodide's own functions, or with a socket."""
    # The type is JsException or AbortError, and the text that of the platform's own fetch, whose hint is for JavaScript.
    if type(error).__module__.startswith("pyodide") and "fetch is not granted to this tool" in _text_of(error):
        return not_granted("fetch", "fetch")
    return f"{NO_SOCKETS}. {not_granted('fetch', 'fetch')}" if _is_connection(error) else None


def describe(error, files):
    """Returns a failure as JSON text for bridge.ts."""
    name = "Error" if isinstance(error, SourceFault) else type(error).__name__
    message = _text_of(error)
    if isinstance(error, MemoryError) and not message:
        message = f"Python ran out of memory; its limit is {files.memory_mib} MiB"
    notes = [str(note) for note in getattr(error, "__notes__", []) or []]
    # As in CPython. An empty message is replaced by the name.
    title = f"{name}: {message}" if message else name
    stack = "\n".join([title, *notes, *_causes(error), *_frames(error, files)])
    # The text of a KeyError is only the key, so its name is added.
    shown = title if isinstance(error, KeyError) else message or name
    failure = {"name": name, "message": shown, "stack": stack}
    missing = _missing_capability(error)
    if missing is not None:
        text = not_granted(missing, grant_of(missing))
        failure |= {"message": text, "stack": stack.replace(title, f"{name}: {text}", 1), "code": "CAPABILITY_DENIED"}
        failure["capability"] = grant_of(missing)
    missing_fetch = None if is_granted("fetch") else _missing_fetch(error)
    if missing_fetch is None and _is_connection(error):
        failure |= {"message": NO_SOCKETS, "stack": stack.replace(title, f"{name}: {NO_SOCKETS}", 1)}
    if missing_fetch is not None:
        failure |= {"message": missing_fetch, "stack": stack.replace(title, f"{name}: {missing_fetch}", 1)}
        failure |= {"code": "CAPABILITY_DENIED", "capability": "fetch"}
    if _is_syntax(error, files):
        failure["code"] = "PYTHON_SYNTAX"
    elif isinstance(error, NotGrantedError):
        failure |= {"code": error.code, "capability": error.capability}
    elif isinstance(error, (CapabilityError, SourceFault)) and isinstance(error.code, str):
        failure["code"] = error.code
    return json.dumps(failure)
