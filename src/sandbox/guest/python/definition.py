"""Extracts a tool's definition from its module. Missing schemas are derived from the type hints of main."""

import collections.abc
import dataclasses
import enum
import inspect
import types
import typing

_SCALARS = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
_LISTS = (list, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection)
_DICTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_BYTES = {"type": "string", "contentEncoding": "base64"}
_MAX_DEPTH = 16
_FIELDS = ("name", "description", "input_schema", "output_schema", "annotations", "capabilities", "limits", "durable")


# Wrong names of schemas that authors use, in lower case, and the correct names.
_MISNAMED = {
    **dict.fromkeys(
        ("inputschema", "input_schema", "inputs_schema", "input_json_schema", "inputs", "parameters", "parameter")
        + ("params", "params_schema", "parameters_schema", "args", "args_schema", "arguments", "arguments_schema")
        + ("schema", "json_schema", "jsonschema"),
        "input_schema",
    ),
    **dict.fromkeys(
        ("outputschema", "output_schema", "output_json_schema", "outputs", "output", "result_schema", "returns")
        + ("return_schema", "response_schema"),
        "output_schema",
    ),
}


class SourceFault(Exception):
    """The module does not define a tool."""

    code = "PYTHON_NO_TOOL"


def _camel(name):
    head, *rest = name.split("_")
    return head + "".join("MiB" if word == "mib" else word.capitalize() for word in rest)


def _hints(target):
    """Returns the type hints of a function or a class, or none if they cannot be evaluated."""
    try:
        return typing.get_type_hints(target, include_extras=True)
    except Exception:
        return {}


def _object_schema(properties, required, description=None):
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    if description:
        schema["description"] = description
    return schema


def _own_doc(kind):
    doc = kind.__dict__.get("__doc__")
    # The generated docstring of a dataclass is its signature.
    return None if doc is None or doc.startswith(f"{kind.__name__}(") else inspect.cleandoc(doc)


def _with_default(schema, field):
    default = field.default
    plain = default is None or isinstance(default, (str, int, float, bool))
    return {**schema, "default": default} if plain and default is not dataclasses.MISSING else schema


def _dataclass_schema(kind, depth):
    hints = _hints(kind)
    fields = [field for field in dataclasses.fields(kind) if field.init]
    properties = {each.name: _with_default(to_schema(hints.get(each.name), depth), each) for each in fields}
    missing = dataclasses.MISSING
    required = [each.name for each in fields if each.default is missing and each.default_factory is missing]
    return _object_schema(properties, required, _own_doc(kind))


def _typed_dict_schema(kind, depth):
    properties = {name: to_schema(hint, depth) for name, hint in _hints(kind).items()}
    required = [name for name in properties if name in kind.__required_keys__]
    return _object_schema(properties, required, _own_doc(kind))


def _union_schema(hints, depth):
    schemas = [to_schema(hint, depth) for hint in hints]
    if any(not schema for schema in schemas):
        return {}
    if all(schema.keys() == {"type"} for schema in schemas):
        return {"type": [schema["type"] for schema in schemas]}
    return {"anyOf": schemas}


def _generic_schema(origin, hints, depth):
    if origin is typing.Annotated:
        schema = to_schema(hints[0], depth)
        text = next((each for each in hints[1:] if isinstance(each, str)), None)
        return schema if text is None else {**schema, "description": text}
    if origin in (typing.Required, typing.NotRequired, typing.Final, typing.ClassVar):
        return to_schema(hints[0], depth)
    if origin is typing.Literal:
        return {"enum": [each.value if isinstance(each, enum.Enum) else each for each in hints]}
    if origin in (typing.Union, types.UnionType):
        return _union_schema(hints, depth)
    if origin in _LISTS:
        return {"type": "array", "items": to_schema(hints[0], depth)} if hints else {"type": "array"}
    if origin is tuple:
        if len(hints) == 2 and hints[1] is Ellipsis:
            return {"type": "array", "items": to_schema(hints[0], depth)}
        return {
            "type": "array",
            "prefixItems": [to_schema(hint, depth) for hint in hints],
            "minItems": len(hints),
            "maxItems": len(hints),
        }
    if origin in _DICTS:
        values = to_schema(hints[1], depth) if len(hints) == 2 else {}
        return {"type": "object", "additionalProperties": values} if values else {"type": "object"}
    return {}


def to_schema(hint, depth=_MAX_DEPTH):
    """Returns a JSON Schema for a type hint, or `{}` if the hint has no equivalent."""
    if depth == 0:
        return {}
    depth -= 1
    if hint in _SCALARS if isinstance(hint, collections.abc.Hashable) else False:
        return {"type": _SCALARS[hint]}
    origin = typing.get_origin(hint)
    if origin is not None:
        return _generic_schema(typing.Annotated if hasattr(hint, "__metadata__") else origin, _arguments(hint), depth)
    if isinstance(hint, typing.NewType):
        return to_schema(hint.__supertype__, depth)
    if isinstance(hint, typing.TypeAliasType):
        return to_schema(hint.__value__, depth)
    if typing.is_typeddict(hint):
        return _typed_dict_schema(hint, depth)
    if not isinstance(hint, type):
        return {}
    if dataclasses.is_dataclass(hint):
        return _dataclass_schema(hint, depth)
    if issubclass(hint, enum.Enum):
        return {"enum": [each.value for each in hint]}
    if hint in (bytes, bytearray):
        return dict(_BYTES)
    if hint in _DICTS:
        return {"type": "object"}
    return {"type": "array"} if hint in (*_LISTS, tuple) else {}


def _arguments(hint):
    if hasattr(hint, "__metadata__"):
        return (hint.__origin__, *hint.__metadata__)
    return typing.get_args(hint)


def _input_hint(main):
    try:
        parameters = list(inspect.signature(main).parameters)
    except (TypeError, ValueError):
        return None
    return _hints(main).get(parameters[0]) if parameters else None


def to_parameter(main, value):
    """Converts the input to the type hint of main: dataclasses become instances, at any depth."""
    return _build(_input_hint(main), value)


def _build(hint, value):
    if hasattr(hint, "__metadata__"):
        return _build(hint.__origin__, value)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint) and isinstance(value, dict):
        hints = _hints(hint)
        return hint(**{name: _build(hints.get(name), item) for name, item in value.items()})
    if isinstance(hint, type) and issubclass(hint, enum.Enum) and not isinstance(value, hint):
        return hint(value)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        others = [each for each in arguments if each is not type(None)]
        return _build(others[0], value) if len(others) == 1 and value is not None else value
    if origin in _LISTS and isinstance(value, list) and arguments:
        return [_build(arguments[0], item) for item in value]
    if origin in _DICTS and isinstance(value, dict) and len(arguments) == 2:
        return {key: _build(arguments[1], item) for key, item in value.items()}
    return value


def _in_camel_case(declared):
    """Returns other values unchanged. The host rejects them when it validates the definition."""
    return {_camel(str(key)): value for key, value in declared.items()} if isinstance(declared, dict) else declared


def _capabilities(declared):
    """Turns a list of names into a dict without settings."""
    return {name: {} for name in declared} if isinstance(declared, (list, tuple, set)) else declared


def _misnamed(names):
    """Returns the names of dicts that look like schemas under a wrong name."""
    found = []
    for name, value in names.items():
        expected = _MISNAMED.get(name.lower())
        if expected is not None and name != expected and expected not in names and isinstance(value, dict):
            found.append(name)
    return found[:8]


def _checked(declared, name, kind, expected):
    """Returns a declared field, or None without one. A value of another type would be dropped, and with it the validation."""
    value = declared.get(name)
    if value is None or isinstance(value, kind):
        return value
    shown = type(value).__name__
    if inspect.iscoroutine(value):
        value.close()
        shown += ". Await it first"
    raise SourceFault(f"Expected {name} to be {expected}, got a value of type {shown}")


def describe(module):
    main = getattr(module, "main", None)
    if not callable(main):
        raise SourceFault("Expected the tool to define main(input) or main(input, ctx), got a module without main")
    declared = {name: module.__dict__[name] for name in _FIELDS if name in module.__dict__}
    schemas = {name: _checked(declared, name, dict, "a JSON Schema as a dict") for name in ("input_schema", "output_schema")}
    for name in ("annotations", "limits"):
        _checked(declared, name, dict, "a dict")
    _checked(declared, "capabilities", (dict, list, tuple, set), "a dict or a list of names")
    description = _checked(declared, "description", str, "a str")
    definition = {"description": description or inspect.getdoc(module) or inspect.getdoc(main) or ""}
    if _checked(declared, "name", str, "a str") is not None:
        definition["name"] = declared["name"]
    definition["inputSchema"] = schemas["input_schema"] or to_schema(_input_hint(main)) or {"type": "object"}
    output = schemas["output_schema"] or to_schema(_hints(main).get("return"))
    if output:
        definition["outputSchema"] = output
    if "annotations" in declared:
        definition["annotations"] = _in_camel_case(declared["annotations"])
    if "capabilities" in declared:
        definition["capabilities"] = _capabilities(declared["capabilities"])
    misnamed = _misnamed(dict(module.__dict__))
    if misnamed:
        definition["misnamed"] = misnamed
    if "limits" in declared:
        definition["limits"] = _in_camel_case(declared["limits"])
    if "durable" in declared:
        definition["durable"] = declared["durable"]
    return definition
