# %% a word count over a text
import re
from collections import Counter
text = """It was the best of times, it was the worst of times,
it was the age of wisdom, it was the age of foolishness"""
Counter(re.findall(r"[a-z]+", text.lower())).most_common(6)

# %% primes by sieve, and the n queens
def primes(limit):
    sieve = bytearray([1]) * (limit + 1)
    sieve[:2] = b"\0\0"
    for n in range(2, int(limit**0.5) + 1):
        if sieve[n]:
            sieve[n * n :: n] = bytes(len(range(n * n, limit + 1, n)))
    return [n for n, is_prime in enumerate(sieve) if is_prime]
def queens(n, row=0, columns=0, left=0, right=0):
    if row == n:
        return 1
    found = 0
    for column in range(n):
        bit = 1 << column
        if not (columns & bit or left & bit or right & bit):
            found += queens(n, row + 1, columns | bit, (left | bit) << 1, (right | bit) >> 1)
    return found
[primes(60), sum(primes(10_000)), queens(6)]

# %% shortest ways by Dijkstra
import heapq
graph = {"a": {"b": 7, "c": 9, "f": 14}, "b": {"c": 10, "d": 15}, "c": {"d": 11, "f": 2}, "d": {"e": 6}, "f": {"e": 9}, "e": {}}
def shortest(start):
    distances, heap = {start: 0}, [(0, start)]
    while heap:
        distance, node = heapq.heappop(heap)
        if distance > distances[node]:
            continue
        for to, length in graph[node].items():
            if distance + length < distances.get(to, float("inf")):
                distances[to] = distance + length
                heapq.heappush(heap, (distances[to], to))
    return distances
shortest("a")

# %% a small language: tokens, a parser, a machine
import re
def tokens(text):
    return re.findall(r"\d+\.?\d*|[-+*/()^]", text)
def parse(line):
    def atom():
        token = line.pop(0)
        if token == "(":
            value = expression()
            line.pop(0)
            return value
        return -atom() if token == "-" else float(token)
    def power():
        base = atom()
        if line and line[0] == "^":
            line.pop(0)
            return base ** power()
        return base
    def term():
        value = power()
        while line and line[0] in "*/":
            value = value * power() if line.pop(0) == "*" else value / power()
        return value
    def expression():
        value = term()
        while line and line[0] in "+-":
            value = value + term() if line.pop(0) == "+" else value - term()
        return value
    return expression()
[parse(tokens(text)) for text in ["1 + 2 * 3", "(1 + 2) * 3", "2 ^ 3 ^ 2", "-(4 - 6) / 8"]]

# %% records read, joined, grouped and written
import csv, io, json
from collections import defaultdict
from statistics import mean
orders = csv.DictReader(io.StringIO("id,customer,amount\n1,ann,10.5\n2,bob,7\n3,ann,2.25\n4,cy,100\n"))
customers = json.loads('[{"name": "ann", "city": "Oslo"}, {"name": "bob", "city": "Rome"}, {"name": "cy", "city": "Oslo"}]')
city = {each["name"]: each["city"] for each in customers}
by_city = defaultdict(list)
for order in orders:
    by_city[city[order["customer"]]].append(float(order["amount"]))
{name: {"orders": len(amounts), "sum": sum(amounts), "mean": round(mean(amounts), 4)} for name, amounts in sorted(by_city.items())}

# %% edit distance, longest common subsequence, permutations in order
from functools import cache
@cache
def distance(a, b):
    if not a or not b:
        return len(a) + len(b)
    return min(distance(a[1:], b) + 1, distance(a, b[1:]) + 1, distance(a[1:], b[1:]) + (a[0] != b[0]))
def common(a, b):
    table = [[""] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + x if x == y else max(table[i][j + 1], table[i + 1][j], key=len)
    return table[-1][-1]
[distance("kitten", "sitting"), distance("saturday", "sunday"), common("AGGTAB", "GXTXAYB")]

# %% matrices, linear equations and a fit, by hand
from fractions import Fraction
def solve(matrix, right):
    rows = [[Fraction(each) for each in row] + [Fraction(b)] for row, b in zip(matrix, right)]
    n = len(rows)
    for i in range(n):
        pivot = next(r for r in range(i, n) if rows[r][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [each / rows[i][i] for each in rows[i]]
        for r in range(n):
            if r != i:
                rows[r] = [a - rows[r][i] * b for a, b in zip(rows[r], rows[i])]
    return [str(row[-1]) for row in rows]
def multiply(a, b):
    return [[sum(x * y for x, y in zip(row, column)) for column in zip(*b)] for row in a]
[solve([[2, 1, -1], [-3, -1, 2], [-2, 1, 2]], [8, -11, -3]), multiply([[1, 2], [3, 4]], [[0, 1], [1, 0]])]

# %% a life of cells, ten steps of it
from collections import Counter
def step(cells):
    near = Counter((x + dx, y + dy) for x, y in cells for dx in (-1, 0, 1) for dy in (-1, 0, 1) if (dx, dy) != (0, 0))
    return {cell for cell, count in near.items() if count == 3 or (count == 2 and cell in cells)}
glider = {(1, 0), (2, 1), (0, 2), (1, 2), (2, 2)}
for _ in range(10):
    glider = step(glider)
sorted(glider)

# %% digits of pi, without end
from itertools import islice
def digits():
    q, r, t, k, n, l = 1, 0, 1, 1, 3, 3
    while True:
        if 4 * q + r - t < n * t:
            yield n
            q, r, n = 10 * q, 10 * (r - n * t), 10 * (3 * q + r) // t - 10 * n
        else:
            q, r, t, k, n, l = q * k, (2 * q + r) * l, t * l, k + 1, (q * (7 * k + 2) + r * l) // (t * l), l + 2
"".join(map(str, islice(digits(), 60)))

# %% bank accounts: classes, errors, a report
from dataclasses import dataclass, field
from decimal import Decimal
class Overdrawn(Exception): ...
@dataclass
class Account:
    owner: str
    balance: Decimal = Decimal(0)
    history: list = field(default_factory=list)
    def withdraw(self, amount):
        amount = Decimal(amount)
        if amount > self.balance:
            raise Overdrawn(f"{self.owner} has {self.balance}, not {amount}")
        self.balance -= amount
        self.history.append(-amount)
        return self
    def deposit(self, amount):
        self.balance += Decimal(amount)
        self.history.append(Decimal(amount))
        return self
ann = Account("ann").deposit("10.10").deposit("0.20").withdraw("3.05")
try:
    ann.withdraw("100")
except Overdrawn as error:
    rejected = str(error)
[str(ann.balance), [f"{each:+}" for each in ann.history], rejected]

# %% Roman numerals, Luhn, ISBN, Caesar: four small ones
def roman(n):
    out = ""
    for value, mark in [(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]:
        count, n = divmod(n, value)
        out += mark * count
    return out
def luhn(digits):
    total = sum(sum(divmod(int(digit) * (1 + place % 2), 10)) for place, digit in enumerate(reversed(digits)))
    return total % 10 == 0
def caesar(text, shift):
    return "".join(chr((ord(each.lower()) - 97 + shift) % 26 + 97) if each.isalpha() else each for each in text)
[[roman(n) for n in [4, 9, 14, 1994, 2026]], luhn("4539578763621486"), luhn("4539578763621487"), caesar(caesar("hello, you", 3), -3)]
