# %% list, tuple, slice: sorting, slicing, joining
items = [5, 3, 8, 1, 9, 2]
copy = items[:]
copy[1:4] = ["a", "b"]
copy.insert(-1, "last but one")
del copy[::3]
stable = sorted([("b", 2), ("a", 2), ("c", 1)], key=lambda pair: pair[1], reverse=True)
[items[::-2], items[-3:-1], copy, stable, [*items, *"xy"], sorted(items, key=lambda n: (n % 2, -n)), items.index(8), (1, 2) + (3,), (1, 2) < (1, 2, 0), [0] * 3, list(reversed(items)), max(items, key=lambda n: n % 5), [n for row in [[1, 2], [3]] for n in row if n != 2], slice(1, None, 2).indices(6)]

# %% dict: order, merging, views
one, two = {"a": 1, "b": 2}, {"b": 3, "c": 4}
merged = one | two
merged.setdefault("d", []).append(5)
popped = merged.pop("a")
one |= [("z", 26)]
[
    list(merged.items()), popped, list(one), one.keys() & two.keys() == {"b"}, dict(zip("xy", (1, 2))), dict.fromkeys("ab", 0), list(reversed(merged)), merged.get("nope", "default"), {**two, "b": 0},
    {len(word): word for word in ["a", "bb", "cc"]}[2], list(one.popitem()), [key for key, value in merged.items() if value == 3], {"a": 1} == {"a": 1.0}, sorted({True: "a", 1: "b"}.items()),
]

# %% set and frozenset
a, b = {1, 2, 3, 4}, {3, 4, 5}
a2 = set(a)
a2 ^= b
[sorted(a | b), sorted(a & b), sorted(a - b), sorted(a ^ b), sorted(a2), {3} < a, a.isdisjoint({9}), frozenset("ab") == {"a", "b"}, len({frozenset([1]), frozenset([1])}), sorted({n % 3 for n in range(10)})]

# %% collections: Counter, OrderedDict, defaultdict
from collections import Counter, OrderedDict, defaultdict
counts = Counter("mississippi")
counts.subtract({"s": 1})
ordered = OrderedDict.fromkeys("abcd")
ordered.move_to_end("b")
ordered.move_to_end("c", last=False)
groups = defaultdict(list)
for word in ["apple", "avocado", "banana"]:
    groups[word[0]].append(word)
[counts.most_common(2), dict(counts + Counter("mm")), sorted((Counter("ab") & Counter("bc")).elements()), counts.total(), list(ordered), groups, Counter(a=1, b=-1) == Counter(a=1, b=-1, c=0), dict(+Counter(a=2, b=-3))]

# %% collections: deque, namedtuple, ChainMap
from collections import ChainMap, deque, namedtuple
line = deque(range(6), maxlen=4)
line.rotate(1)
line.appendleft(9)
Point = namedtuple("Point", "x y z", defaults=[0])
point = Point(1, y=2)
scopes = ChainMap({"a": 1}, {"a": 2, "b": 3})
inner = scopes.new_child({"b": 9})
[list(line), line.maxlen, point, repr(point), point._asdict(), list(point._replace(z=5)), Point._fields, dict(inner), inner.parents["b"], list(scopes.maps[1])]

# %% collections: UserDict, UserList, UserString
from collections import UserDict, UserList, UserString
class Lower(UserDict):
    def __setitem__(self, key, value):
        super().__setitem__(key.lower(), value)
class Sums(UserList):
    @property
    def total(self):
        return sum(self.data)
[dict(Lower({"A": 1, "B": 2}) | {"C": 3}), "a" in Lower(A=1), Sums([1, 2, 3]).total, (Sums([1]) + [2]).total, str(UserString("ab").upper() * 2)]

# %% heapq: a queue by weight, merging, the largest
import heapq
heap = [5, 1, 8, 3]
heapq.heapify(heap)
heapq.heappush(heap, 2)
[[heapq.heappop(heap) for _ in range(3)], heapq.heappushpop(heap, 0), heapq.heapreplace(heap, 7), heapq.nlargest(2, ["bb", "a", "ccc"], key=len), heapq.nsmallest(3, [4, 1, 3, 2]), list(heapq.merge([1, 4], [2, 3], [0, 9])), list(heapq.merge([3, 1], [2], reverse=True))]

# %% bisect: where it belongs
import bisect
grades, breakpoints = "FDCBA", [60, 70, 80, 90]
line = [1, 3, 3, 5]
bisect.insort(line, 3)
bisect.insort_left(line, 4, key=lambda n: n)
[[grades[bisect.bisect(breakpoints, score)] for score in [33, 99, 77, 70, 89]], line, bisect.bisect_left(line, 3), bisect.bisect_right(line, 3), bisect.bisect_left([("a", 1), ("b", 2)], 2, key=lambda pair: pair[1])]

# %% itertools: the endless, the combined
from itertools import accumulate, chain, combinations, combinations_with_replacement, compress, count, cycle, islice, permutations, product, repeat
import operator
[
    list(islice(count(10, 2.5), 4)), list(islice(cycle("ab"), 5)), list(repeat("x", 3)), list(accumulate([1, 2, 3, 4], operator.mul)), list(accumulate([3, 1, 2], max, initial=0)), list(chain.from_iterable(["ab", "c"])), list(compress("abcd", [1, 0, 1, 1])),
    ["".join(each) for each in combinations("abcd", 2)], len(list(permutations(range(5)))), ["".join(each) for each in product("ab", repeat=2)], ["".join(each) for each in combinations_with_replacement("ab", 2)],
]

# %% itertools: grouping, slicing, pairs
from itertools import dropwhile, filterfalse, groupby, islice, pairwise, starmap, takewhile, tee, zip_longest
one, two = tee(iter(range(4)))
next(one)
[
    [[key, len(list(group))] for key, group in groupby("aaabbc")], [[even, list(group)] for even, group in groupby([2, 4, 1, 3, 6], key=lambda n: n % 2 == 0)], list(pairwise("abcd")), list(zip(two, one)), list(zip_longest("abc", "x", fillvalue="-")),
    list(takewhile(lambda n: n < 3, [1, 2, 5, 1])), list(dropwhile(lambda n: n < 3, [1, 2, 5, 1])), list(filterfalse(str.isdigit, "a1b2")), list(starmap(pow, [(2, 3), (3, 2)])), list(islice(range(100), 10, 30, 7)),
]

# %% queue: first in, last in, by weight
import queue
fifo, lifo, weighted = queue.Queue(maxsize=2), queue.LifoQueue(), queue.PriorityQueue()
fifo.put("a")
fifo.put("b")
try:
    fifo.put_nowait("c")
except queue.Full:
    full = True
for n in [3, 1, 2]:
    lifo.put(n)
    weighted.put((n, str(n)))
try:
    queue.SimpleQueue().get_nowait()
except queue.Empty:
    empty = True
[full, empty, [fifo.get(), fifo.get()], [lifo.get() for _ in range(3)], [weighted.get() for _ in range(3)], fifo.qsize()]

# %% graphlib: an order that respects what depends on what
import graphlib
graph = {"d": {"b", "c"}, "b": {"a"}, "c": {"a"}}
sorter = graphlib.TopologicalSorter(graph)
sorter.prepare()
levels = []
while sorter.is_active():
    ready = sorted(sorter.get_ready())
    levels.append(ready)
    sorter.done(*ready)
try:
    list(graphlib.TopologicalSorter({"a": ["b"], "b": ["a"]}).static_order())
except graphlib.CycleError as error:
    cycle = sorted(set(error.args[1]))
[levels, cycle]

# %% enum: members, flags, aliases, auto
import enum
class Colour(enum.Enum):
    RED = 1
    GREEN = 2
    CRIMSON = 1
class Permission(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()
    BOTH = READ | WRITE
class Level(enum.IntEnum):
    LOW = 1
    HIGH = 10
class Word(enum.StrEnum):
    HELLO = enum.auto()
@enum.unique
class Planet(enum.Enum):
    EARTH = (5.97, 6.37)
    MARS = (0.64, 3.39)
    def __init__(self, mass, radius):
        self.mass = mass
        self.radius = radius
    @property
    def density(self):
        return round(self.mass / self.radius**3, 6)
[
    [each.name for each in Colour], Colour.CRIMSON is Colour.RED, Colour(2).name, Colour["RED"].value, list(Colour.__members__), Permission.BOTH == Permission.READ | Permission.WRITE, Permission.READ in Permission.BOTH, (Permission.BOTH & ~Permission.READ).name,
    Level.HIGH > 5, sorted(Level, reverse=True)[0].name, Word.HELLO, str(Word.HELLO), Planet.EARTH.density, Planet((0.64, 3.39)).name, repr(Colour.RED), isinstance(Level.LOW, int),
]

# %% operator: functions instead of signs
import operator
from functools import reduce
rows = [{"n": 3, "name": "c"}, {"n": 1, "name": "a"}, {"n": 2, "name": "b"}]
[
    [row["name"] for row in sorted(rows, key=operator.itemgetter("n"))], reduce(operator.mul, range(1, 7)), operator.attrgetter("real", "imag")(3 + 4j), operator.methodcaller("replace", "a", "b")("banana"), operator.concat([1], [2]), operator.countOf([1, 2, 1], 1),
    operator.indexOf("abc", "c"), operator.itemgetter(1, 3)("abcd"), operator.xor(6, 3), operator.truth([]), operator.length_hint(iter([1, 2, 3])), operator.iadd([1], [2]), operator.matmul.__name__,
]
