# %% functools: caches, partial, dispatch by type
import functools
calls = []
@functools.lru_cache(maxsize=2)
def square(n):
    calls.append(n)
    return n * n
for n in [1, 2, 1, 3, 2]:
    square(n)
@functools.singledispatch
def kind(value):
    return "something"
@kind.register
def _(value: int):
    return "int"
@kind.register(list)
def _(value):
    return "list"
class Page:
    loads = 0
    @functools.cached_property
    def body(self):
        Page.loads += 1
        return "body"
page = Page()
page.body, page.body
@functools.cache
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
[calls, list(square.cache_info()), [kind(each) for each in (1, [], "x", True)], Page.loads, fib(60), functools.partial(int, base=2)("101"), functools.reduce(lambda sum, n: sum * 10 + n, [1, 2, 3], 0)]

# %% functools: wraps, total_ordering, cmp_to_key, partialmethod
import functools
def loud(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs).upper()
    return wrapper
@loud
def greet(name):
    "Says hello"
    return f"hello {name}"
@functools.total_ordering
class Version:
    def __init__(self, *parts):
        self.parts = parts
    def __eq__(self, other):
        return self.parts == other.parts
    def __lt__(self, other):
        return self.parts < other.parts
class Cell:
    def set(self, value, alive):
        return [value, alive]
    kill = functools.partialmethod(set, alive=False)
[greet("tim"), greet.__name__, greet.__doc__, Version(1, 2) >= Version(1, 1), Version(1) <= Version(0), sorted("bca", key=functools.cmp_to_key(lambda a, b: (a < b) - (a > b))), Cell().kill(3)]

# %% contextlib: managers, stacks, suppress, redirect
import contextlib, io
events = []
@contextlib.contextmanager
def scope(name):
    events.append("enter " + name)
    try:
        yield name
    except KeyError:
        events.append("caught in " + name)
    finally:
        events.append("exit " + name)
with scope("a"), scope("b"):
    raise KeyError("x")
with contextlib.ExitStack() as stack:
    for name in "cd":
        stack.enter_context(scope(name))
    stack.callback(events.append, "callback")
with contextlib.suppress(ZeroDivisionError):
    1 / 0
buffer = io.StringIO()
with contextlib.redirect_stdout(buffer):
    print("kept")
@scope("decorator")
def work():
    return "done"
class Thing(contextlib.AbstractContextManager):
    def __exit__(self, *error):
        events.append("thing")
with Thing(), contextlib.nullcontext(5) as five, contextlib.closing(io.StringIO()) as file:
    pass
[events, buffer.getvalue(), work(), five, file.closed]

# %% dataclasses: defaults, order, frozen, post-init, replace
import dataclasses
from dataclasses import dataclass, field
@dataclass(order=True)
class Item:
    sort: int = field(init=False, repr=False)
    name: str
    price: float = 1.5
    tags: list = field(default_factory=list, compare=False)
    def __post_init__(self):
        self.sort = len(self.name)
@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = dataclasses.field(kw_only=True, default=0)
try:
    Point(1).x = 2
except dataclasses.FrozenInstanceError as error:
    frozen = str(error)
tea = Item("tea")
[repr(tea), dataclasses.asdict(Item("milk", 2, ["cold"])), tea < Item("milk"), dataclasses.astuple(Point(1, y=2)), repr(dataclasses.replace(Point(1), x=9)), frozen, [f.name for f in dataclasses.fields(Item)], hash(Point(1)) == hash(Point(1)), tea.tags is Item("x").tags, repr(dataclasses.make_dataclass("Made", ["a", ("b", int, 5)])(1))]

# %% typing: hints read back, protocols, generics, NamedTuple, TypedDict
import typing
from typing import Annotated, Generic, Literal, NamedTuple, Optional, Protocol, TypedDict, TypeVar, Union, get_args, get_origin, get_type_hints
T = TypeVar("T")
class Stack(Generic[T]):
    def __init__(self) -> None:
        self.items: list[T] = []
    def push(self, item: T) -> T:
        self.items.append(item)
        return item
@typing.runtime_checkable
class Closes(Protocol):
    def close(self) -> None: ...
class File:
    def close(self): ...
class Employee(NamedTuple):
    name: str
    id: int = 3
class Movie(TypedDict, total=False):
    name: str
    year: int
def f(a: Annotated[int, "positive"], b: Optional[str] = None) -> Literal["x", "y"]: ...
[
    Stack[int]().push(5), get_type_hints(f, include_extras=True)["a"].__metadata__, get_type_hints(f)["a"].__name__, get_args(get_type_hints(f)["return"]), get_origin(dict[str, int]).__name__, isinstance(File(), Closes), isinstance(5, Closes), Employee("x"), Employee("x")._asdict(),
    Movie(name="m"), sorted(Movie.__optional_keys__), len(get_args(Union[int, str, int])), typing.cast(int, "still text"), str(list[int]), typing.get_args(int | None)[0].__name__, T.__name__,
]

# %% abc: abstract classes cannot be instantiated
import abc
class Shape(abc.ABC):
    @property
    @abc.abstractmethod
    def area(self): ...
    @classmethod
    def __subclasshook__(cls, other):
        return True if hasattr(other, "area") else NotImplemented
class Square(Shape):
    def __init__(self, side):
        self.side = side
    @property
    def area(self):
        return self.side**2
class Duck:
    area = 1
class Registered: ...
class Sized(abc.ABC): ...
Sized.register(Registered)
try:
    Shape()
except TypeError as error:
    rejected = "abstract" in str(error)
[rejected, Square(3).area, isinstance(Duck(), Shape), issubclass(Registered, Sized), sorted(Shape.__abstractmethods__)]

# %% copy: shallow, deep, what is shared stays shared
import copy
inner = [1, 2]
outer = {"a": inner, "b": inner, "loop": None}
outer["loop"] = outer
deep = copy.deepcopy(outer)
shallow = copy.copy(outer)
class Custom:
    def __init__(self, n):
        self.n = n
    def __copy__(self):
        return Custom(self.n + 1)
    def __deepcopy__(self, memo):
        return Custom(self.n + 10)
[shallow["a"] is inner, deep["a"] is inner, deep["a"] is deep["b"], deep["loop"] is deep, copy.copy(Custom(1)).n, copy.deepcopy(Custom(1)).n, copy.copy((1,)) == (1,)]

# %% pickle: there and back, protocols, reducers
import pickle, pickletools, io, copyreg
class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y
    def __getstate__(self):
        return {"x": self.x, "y": self.y, "saved": True}
class Rejecting(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"{module}.{name} is rejected")
import sys
sys.modules[__name__].Point = Point
data = {"list": [1, (2, 3)], "set": {4}, "bytes": b"\x00\xff", "big": 2**80, "float": 0.1, "none": None}
data["self"] = data["list"]
back = [pickle.loads(pickle.dumps(data, protocol)) for protocol in range(6)]
try:
    Rejecting(io.BytesIO(pickle.dumps(pickle.PickleError))).load()
except pickle.UnpicklingError as error:
    rejected = str(error)
pickler_file = io.BytesIO()
pickler = pickle.Pickler(pickler_file)
pickler.dump("one")
pickler.dump(["two"])
pickler_file.seek(0)
[all(each == data for each in back), back[4]["self"] is back[4]["list"], rejected, pickle.load(pickler_file), pickle.load(pickler_file), pickle.dumps({"a": 1}, 0).decode(), [op.name for op, *_ in pickletools.genops(pickle.dumps((1, "a"), 2))]]

# %% weakref and gc: unreferenced objects are collected
import gc, weakref
class Node:
    def __init__(self, name):
        self.name = name
gone = []
node = Node("a")
reference = weakref.ref(node, lambda _: gone.append("callback"))
cache = weakref.WeakValueDictionary(a=node)
names = weakref.WeakKeyDictionary({node: "key"})
weakref.finalize(node, gone.append, "finalized")
alive = [reference() is node, len(cache), len(names)]
del node
one, two = Node("b"), Node("c")
one.other, two.other = two, one
cyclic = weakref.ref(one)
del one, two
collected = gc.collect() > 0
[alive, reference() is None, len(cache), len(names), sorted(gone), collected, cyclic() is None, gc.isenabled()]

# %% types: made at run time
import types
def body(namespace):
    namespace["double"] = lambda self: self.n * 2
Made = types.new_class("Made", (types.SimpleNamespace,), {}, body)
view = types.MappingProxyType({"a": 1})
try:
    view["a"] = 2
except TypeError as error:
    readonly = str(error)
def generator():
    got = yield 1
    yield got
def function(a, b=2, /, *args, c=3, **kwargs): ...
module = types.ModuleType("made", "A module")
exec("x = 1 + 1", module.__dict__)
[Made(n=21).double(), repr(types.SimpleNamespace(a=1, b="x")), readonly, isinstance(generator(), types.GeneratorType), module.x, module.__doc__, types.MethodType(lambda self: self + 1, 4)(), function.__code__.co_posonlyargcount, function.__defaults__, isinstance(int | str, types.UnionType), isinstance(list[int], types.GenericAlias)]

# %% inspect: signatures, source order, state of a generator
import inspect
class Base:
    "The base"
    def method(self, a: int, *, b="x") -> str: ...
class Child(Base):
    @staticmethod
    def static(): ...
    def method(self, a, *, b="y"): ...
def function(a, /, b: int = 2, *args: str, c, d=4, **kwargs) -> float: ...
bound = inspect.signature(function).bind(1, c=3, e=5)
bound.apply_defaults()
def counting():
    yield 1
counter = counting()
states = [inspect.getgeneratorstate(counter)]
next(counter)
states.append(inspect.getgeneratorstate(counter))
list(counter)
states.append(inspect.getgeneratorstate(counter))
[
    str(inspect.signature(function)), [[name, parameter.kind.name] for name, parameter in inspect.signature(function).parameters.items()], dict(bound.arguments), str(inspect.signature(Base.method)), states, [each.__name__ for each in inspect.getmro(Child)][:2], inspect.getdoc(Base),
    inspect.isgeneratorfunction(counting), inspect.iscoroutinefunction(function), [name for name, _ in inspect.getmembers(Child, inspect.isfunction)], inspect.cleandoc("  a\n    b\n    c"), list(inspect.getcallargs(lambda a, b=1: 0, 5).items()),
]

# %% ast: parse, walk, transform, unparse, literal_eval
import ast
tree = ast.parse("def f(x):\n    return x + 1 if x > 0 else [y ** 2 for y in range(-x)]\n")
class Double(ast.NodeTransformer):
    def visit_Constant(self, node):
        return ast.copy_location(ast.Constant(node.value * 2), node) if isinstance(node.value, int) else node
changed = ast.fix_missing_locations(Double().visit(ast.parse("a = 1 + 2\nb = a * 10")))
namespace = {}
exec(compile(changed, "made", "exec"), namespace)
def told(text):
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError) as error:
        return type(error).__name__
[sorted({type(node).__name__ for node in ast.walk(tree)}), ast.unparse(tree), namespace["a"], namespace["b"], told("{'a': [1, 2.5, None, -3], 'b': (True,)}"), told("__import__('os')"), told("1 +"), tree.body[0].lineno, tree.body[0].body[0].end_col_offset]

# %% symtable, tokenize, keyword, dis: a compiler's parts
import dis, io, keyword, symtable, token, tokenize
table = symtable.symtable("def f(a):\n    global g\n    g = a\n    b = 1\n    return lambda: b\n", "t", "exec")
function = next(each for each in table.get_children() if each.get_name() == "f")
tokens = [[token.tok_name[each.type], each.string] for each in tokenize.generate_tokens(io.StringIO("if x >= 1:\n    y = 'a'  # note\n").readline)]
names = {instruction.opname for instruction in dis.get_instructions(compile("x = [1]", "t", "exec"))}
[sorted(function.get_parameters()), sorted(function.get_globals()), function.lookup("b").is_local(), function.is_nested(), tokens, "STORE_NAME" in names, keyword.iskeyword("lambda"), keyword.issoftkeyword("match")]

# %% traceback: frames, causes, formatted
import traceback
def inner(n):
    raise ValueError(f"bad {n}")
def outer():
    try:
        inner(3)
    except ValueError as error:
        raise RuntimeError("outer failed") from error
try:
    outer()
except RuntimeError as error:
    caught = error
summary = traceback.extract_tb(caught.__traceback__)
[[frame.name for frame in summary][-1], [frame.lineno for frame in summary][-1], traceback.format_exception_only(caught), repr(caught.__cause__), caught.__suppress_context__, [frame.name for frame in traceback.extract_tb(caught.__cause__.__traceback__)], "direct cause" in "".join(traceback.format_exception(caught))]

# %% exceptions: groups, notes, chains, finally
log = []
def work():
    try:
        log.append("try")
        return "from try"
    finally:
        log.append("finally")
try:
    raise ExceptionGroup("many", [ValueError("v"), ExceptionGroup("inner", [TypeError("t"), KeyError("k")])])
except* TypeError as group:
    log.append(["types", [repr(each) for each in group.exceptions[0].exceptions]])
except* (ValueError, KeyError) as group:
    log.append(["others", len(group.exceptions)])
try:
    try:
        {}["missing"]
    except KeyError as error:
        error.add_note("a note")
        raise
except LookupError as error:
    log.append([repr(error), error.__notes__])
class Own(Exception):
    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code
try:
    raise Own(7)
except Own as error:
    log.append([str(error), error.code, error.args])
else:
    log.append("never")
[log[:], work(), log[-2:]]

# %% generators: send, throw, close, yield from, and their return values
def averager():
    total = count = 0
    average = None
    try:
        while True:
            value = yield average
            if value is None:
                return count
            total += value
            count += 1
            average = total / count
    finally:
        closed.append("closed")
closed = []
def delegating(results):
    while True:
        results.append((yield from averager()))
results = []
coroutine = delegating(results)
next(coroutine)
sent = [coroutine.send(10), coroutine.send(20), coroutine.send(None), coroutine.send(6)]
coroutine.close()
def guarded():
    while True:
        try:
            yield "ready"
        except ValueError as error:
            yield f"got {error}"
guard = guarded()
next(guard)
[sent, results, closed, guard.throw(ValueError("x")), next(guard), sum(n * n for n in range(10))]

# %% match: patterns of values, sequences, mappings, classes
from dataclasses import dataclass
@dataclass
class Point:
    x: int
    y: int
def tell(value):
    match value:
        case 0 | 1:
            return "bit"
        case int(n) if n > 100:
            return f"large {n}"
        case [first, *rest]:
            return f"first {first}, {len(rest)} more"
        case {"type": "circle", "r": r, **others}:
            return f"circle {r} {sorted(others)}"
        case Point(x=0, y=y):
            return f"on the axis at {y}"
        case Point(x, y):
            return f"at {x},{y}"
        case str() as text:
            return f"text {text}"
        case None:
            return "nothing"
        case _:
            return "other"
[tell(each) for each in [1, 500, [1, 2, 3], {"type": "circle", "r": 2, "z": 0}, Point(0, 5), Point(1, 2), "hi", None, 3.5, ()]]

# %% classes: descriptors, metaclasses, slots, operators, MRO
class Positive:
    def __set_name__(self, owner, name):
        self.name = "_" + name
    def __get__(self, instance, owner):
        return self if instance is None else getattr(instance, self.name)
    def __set__(self, instance, value):
        if value <= 0:
            raise ValueError(f"{self.name[1:]} must be positive")
        setattr(instance, self.name, value)
class Registry(type):
    names = []
    def __new__(meta, name, bases, namespace, **options):
        Registry.names.append([name, options])
        return super().__new__(meta, name, bases, namespace)
class Plugin(metaclass=Registry): ...
class Loud(Plugin, volume=11): ...
class Order:
    amount = Positive()
    __slots__ = ("_amount",)
    def __init__(self, amount):
        self.amount = amount
class Vector:
    def __init__(self, *parts):
        self.parts = parts
    def __add__(self, other):
        return Vector(*(a + b for a, b in zip(self.parts, other.parts)))
    def __rmul__(self, k):
        return Vector(*(k * a for a in self.parts))
    def __matmul__(self, other):
        return sum(a * b for a, b in zip(self.parts, other.parts))
    def __getitem__(self, index):
        return self.parts[index]
    def __len__(self):
        return len(self.parts)
    def __getattr__(self, name):
        return f"no {name}"
    def __call__(self, n):
        return self.parts[n]
class A:
    def who(self):
        return ["A"]
class B(A):
    def who(self):
        return ["B"] + super().who()
class C(A):
    def who(self):
        return ["C"] + super().who()
class D(B, C): ...
try:
    Order(-1)
except ValueError as error:
    rejected = str(error)
try:
    Order(1).other = 1
except AttributeError:
    slotted = True
[rejected, slotted, Registry.names, list((Vector(1, 2) + 2 * Vector(3, 4)).parts), Vector(1, 2) @ Vector(3, 4), Vector(1, 2).nothing, Vector(7, 8)(1), list(Vector(5, 6)), D().who(), [each.__name__ for each in D.__mro__]]

# %% closures, comprehensions, unpacking, walrus
def counter():
    n = 0
    def up(by=1):
        nonlocal n
        n += by
        return n
    return up
up = counter()
up()
first, *middle, last = range(6)
(a, (b, *c)), d = (1, (2, 3, 4)), 5
def f(*args, key="k", **kwargs):
    return [args, key, kwargs]
late = [lambda: i for i in range(3)]
bound = [lambda i=i: i for i in range(3)]
[up(5), middle, [a, b, c, d], f(*[1, 2], **{"key": "x", "z": 1}), [each() for each in late], [each() for each in bound], [half for n in range(6) if (half := n / 2) > 1], {k: v for k, v in zip("abc", range(3)) if v}, [[j for j in range(i)] for i in range(4)], up.__closure__[0].cell_contents]
