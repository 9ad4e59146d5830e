"""The capabilities of a tool. Granted members are available from `from glovebox import ctx`, main's second parameter, or by name."""

from pyodide.ffi import JsException, create_proxy, run_sync, to_js

from _glovebox import values as _values

__all__ = ["CapabilityError", "NotGrantedError", "Response", "ctx", "run_sync"]

#: Built-in capabilities. A program that uses one without a grant gets an error that names it.
CAPABILITIES = frozenset(("fetch", "secrets", "kv", "tools", "elicit", "sample", "roots", "waitFor", "onRollback"))


class CapabilityError(Exception):
    """The host has denied a call of a capability, or the call has failed. `code` is a code of the table of errors."""

    def __init__(self, message, code=None):
        super().__init__(message)
        self.code = code


class NotGrantedError(CapabilityError, AttributeError):
    """A capability was used without a grant. It is also an AttributeError, so that hasattr and getattr work."""

    def __init__(self, use, capability):
        super().__init__(not_granted(use, capability), "CAPABILITY_DENIED")
        self.capability = capability


def not_granted(use, capability):
    request = f'capabilities = {{"{capability}": True}}'
    return f'{use} is not granted to this tool; request it with {request} and let the host grant it (grant: ["{capability}"])'


def grant_of(member):
    """Returns the name of the grant that gives a member of ctx: onRollback comes with waitFor."""
    return "waitFor" if member == "onRollback" else member


def _message_of(error):
    """Returns the message of a rejection. As in Node, that of a failed fetch has its reason and code only in its cause."""
    message = getattr(error, "message", None) or str(error)
    cause = getattr(error, "cause", None)
    reason, code = getattr(cause, "message", None), getattr(cause, "code", None)
    if getattr(cause, "name", None) != "Error" or not isinstance(reason, str):
        return message
    return f"{message}: {reason} ({code})" if isinstance(code, str) else f"{message}: {reason}"


def _to_exception(error):
    """Turns a rejection into a Python exception, which keeps the original error."""
    code = getattr(error.js_error if hasattr(error, "js_error") else error, "code", None)
    exception = CapabilityError(_message_of(error), code if isinstance(code, str) else None)
    exception._rejection = error
    return exception


def _camel(name):
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


class _Bridge:
    """The bridge and the grants of the current call."""

    js = None
    granted = frozenset()


def is_granted(name):
    return name in _Bridge.granted


def _check(name):
    if name not in _Bridge.granted:
        raise NotGrantedError(name, name)


async def _call_host(path, args):
    _check(path.partition(".")[0])
    text, header, data = _values.encode(args)
    try:
        response = await _Bridge.js.call(path, text, header, None if data is None else to_js(data))
    except JsException as error:
        raise _to_exception(error) from None
    text, header, data = response
    return _values.decode(text, header, None if data is None else data.to_bytes())


class _Member:
    """A capability: a function, or an object with functions as members."""

    def __init__(self, name):
        self._name = name

    def __repr__(self):
        return f"<capability {self._name}>"

    def __call__(self, *args, **fields):
        return _call_host(self._name, [*args, fields] if fields else args)

    def __getattr__(self, member):
        if member.startswith("_"):
            raise AttributeError(member)
        path = f"{self._name}.{_camel(member)}"

        def call(*args, **options):
            options = {_camel(key): value for key, value in options.items()}
            return _call_host(path, [*args, options] if options else args)

        call.__name__ = call.__qualname__ = path
        return call


class _Tool:
    """A tool: `await tool(field=…)`. A member of it is the tool with that name behind a dot: `await tools.server.name(field=…)`."""

    def __init__(self, tools, name):
        self._tools = tools
        self.__name__ = self.__qualname__ = name

    def __repr__(self):
        return f"<tool {self.__name__}>"

    def __call__(self, input=None, /, **fields):
        return self._tools.call(self.__name__, input, **fields)

    def __getattr__(self, member):
        if member.startswith("__"):
            raise AttributeError(member)
        return _Tool(self._tools, f"{self.__name__}.{member}")


class _Tools:
    """Other tools by name: `await tools.NAME(field=…)`."""

    def __repr__(self):
        return "<capability tools>"

    def call(self, name, input=None, /, **fields):
        return _call_host("tools.call", [name, fields if input is None else {**input, **fields}])

    def __getitem__(self, name):
        return _Tool(self, name)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]


class Headers(dict):
    """Headers of a response. Names are lower case, and lookup ignores case."""

    def __getitem__(self, name):
        return super().__getitem__(name.lower())

    def __contains__(self, name):
        return super().__contains__(name.lower())

    def get(self, name, default=None):
        return super().get(name.lower(), default)


class Response:
    """A response of fetch. Its body can be read once, by `text`, `json` or `bytes`."""

    def __init__(self, js):
        self._js = js
        self.status = js.status
        self.status_text = js.statusText
        self.ok = js.ok
        self.url = js.url
        self.redirected = js.redirected
        self.headers = Headers((name, value) for name, value in js.headers)

    def __repr__(self):
        return f"<Response {self.status} {self.url}>"

    async def _read(self, method):
        try:
            return await getattr(self._js, method)()
        except JsException as error:
            raise _to_exception(error) from None

    async def text(self):
        return await self._read("text")

    async def json(self):
        return _values.decode(await self.text())

    async def bytes(self):
        return (await self._read("arrayBuffer")).to_bytes()

    def raise_for_status(self):
        if self.status >= 400:
            raise OSError(f"The server responded with {self.status} {self.status_text} for {self.url}")


async def _fetch(url, *, method="GET", headers=None, body=None, json=None, **options):
    """Sends a request: `await fetch(url, method=…, headers={…}, body=… or json=…)`."""
    _check("fetch")
    headers = dict(headers or {})
    if json is not None:
        body = _values.encode(json, exact=False)[0]
        if not any(name.lower() == "content-type" for name in headers):
            headers["content-type"] = "application/json"
    init = {"method": method, "headers": headers, **{_camel(key): value for key, value in options.items()}}
    sent = to_js(bytes(body)) if isinstance(body, (bytes, bytearray, memoryview)) else body
    try:
        return Response(await _Bridge.js.fetch(str(url), _values.encode(init)[0], sent))
    except JsException as error:
        raise _to_exception(error) from None


_fetch.__name__ = _fetch.__qualname__ = "fetch"


class _Log:
    """Writes lines to the host's log, with optional data."""

    def __call__(self, message, data=None):
        self._write("info", message, data)

    def debug(self, message, data=None):
        self._write("debug", message, data)

    def info(self, message, data=None):
        self._write("info", message, data)

    def warn(self, message, data=None):
        self._write("warn", message, data)

    warning = warn

    def error(self, message, data=None):
        self._write("error", message, data)

    def _write(self, level, message, data):
        args = [str(message)] if data is None else [str(message), data]
        _Bridge.js.notify(f"log.{level}", _values.encode(args, exact=False)[0])


def _progress(progress, total=None, message=None):
    report = dict(progress) if isinstance(progress, dict) else {"progress": progress}
    report.update({key: value for key, value in (("total", total), ("message", message)) if value is not None})
    _Bridge.js.notify("progress", _values.encode([report], exact=False)[0])


_progress.__name__ = _progress.__qualname__ = "progress"

_OWN = {"log": _Log(), "progress": _progress}


class _Registration:
    """Can be awaited until the journal has a function of ctx.onRollback. The function is registered already."""

    def __init__(self, promise):
        self._promise = promise

    def __await__(self):
        return self._wait().__await__()

    async def _wait(self):
        try:
            await self._promise
        except JsException as error:
            raise _to_exception(error) from None


def _on_rollback(run):
    """Registers what undoes something if the run fails or is cancelled: `await ctx.onRollback(undo)`. Takes functions and coroutine functions."""
    if "onRollback" not in _Bridge.granted:
        raise NotGrantedError("ctx.onRollback", grant_of("onRollback"))
    if not callable(run):
        raise TypeError(f"ctx.onRollback() expected a function, got {type(run).__name__}")
    name = getattr(run, "__name__", "")
    try:
        return _Registration(_Bridge.js.onRollback(create_proxy(run, roundtrip=False), name if isinstance(name, str) and name != "<lambda>" else ""))
    except JsException as error:
        raise _to_exception(error) from None


_on_rollback.__name__ = _on_rollback.__qualname__ = "onRollback"


def _member(name):
    if name == "fetch":
        return _fetch
    if name == "onRollback":
        return _on_rollback
    return _Tools() if name == "tools" else _Member(name)


class Context:
    """The ids of the call and its tenant, and the granted capabilities."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotGrantedError(f"ctx.{name}", grant_of(name))


ctx = Context()


def __getattr__(name):
    """Supports `from glovebox import fetch, kv` at the top of a module. Grants are checked at each call."""
    if name.startswith("_"):
        raise AttributeError(name)
    return _OWN[name] if name in _OWN else _member(name)


def begin(bridge, granted):
    """Prepares ctx for a run with the given grants. Returns the names that a snippet can use without an import."""
    _Bridge.js = bridge
    _Bridge.granted = frozenset(granted)
    ctx.__dict__.clear()
    members = {**{name: _member(name) for name in granted}, **_OWN}
    ctx.__dict__.update(members, call_id=bridge.callId, tenant_id=bridge.tenantId)
    return {**members, "ctx": ctx, "run_sync": run_sync}
