# %% int: arithmetic of any size
big = 2**521 - 1
[
    str(big)[:20], len(str(big)), big.bit_length(), pow(3, 10**6, 1_000_007), pow(7, -1, 31), -7 // 2, -7 % 3, divmod(-7, 3), 7 // -2,
    int("zz", 36), int("0x_ff", 16), int("-0b101", 0), (1023).to_bytes(4, "big").hex(), int.from_bytes(b"\xff\xfe", "little", signed=True),
    (0b1011).bit_count(), ~5, -1 >> 3, 1 << 40, 6 & 3 | 8 ^ 2, round(12345, -2), (-3) ** 3, hash(2) == hash(2.0), str(3**200 % 10**30),
]

# %% int: text of more digits than is sane is rejected
def told(work):
    try:
        return work()
    except ValueError as error:
        return type(error).__name__ + ": " + str(error).split(";")[0]
[told(lambda: int("9" * 5000)), told(lambda: len(str(10**5000))), told(lambda: int("12x")), told(lambda: int("")), told(lambda: len(hex(10**5000)))]

# %% float: text there and back, rounding, exact ratios
[
    0.1 + 0.2, repr(1e22), repr(1e16), 1e-7, 5e-324, 1.7976931348623157e308, round(2.5), round(3.5), round(2.675, 2), round(-0.5) == 0,
    (0.1).hex(), float.fromhex("0x1.8p+1"), (0.75).as_integer_ratio(), (3.0).is_integer(), float("1_0.5"), float("  -inf ") < 0,
    float("nan") != float("nan"), 7.5 // 2, -7.5 % 2, divmod(7.5, 2), 1e308 * 10 == float("inf"), int(1e20) == 10**20, 0.1 + 0.7, 3 * 1.1, 1 / 3,
]

# %% complex and cmath
import cmath
z = 3 + 4j
def pair(value):
    return [round(value.real, 12), round(value.imag, 12)]
[
    abs(z), pair(z.conjugate()), pair(z**2), pair(1 / z), str(z), repr(complex("1e2-3.5j")), pair(cmath.sqrt(-1)), pair(cmath.exp(1j * cmath.pi)),
    [round(each, 12) for each in cmath.polar(z)], pair(cmath.rect(2, cmath.pi / 3)), pair(cmath.log(-1)), round(cmath.phase(-1 + 0j), 12), cmath.isclose(1, 1 + 1e-12),
    pair(cmath.acos(2)), pair(cmath.tanh(1 + 1j)), cmath.isinf(complex("inf")),
]

# %% math: whole numbers
import math
[
    math.factorial(20), str(math.factorial(40)), math.comb(50, 6), math.perm(10, 3), math.gcd(84, 36, 60), math.lcm(4, 6, 10), math.isqrt(10**16 - 1),
    math.prod(range(1, 11)), math.ceil(-1.5), math.floor(-1.5), math.trunc(-1.5), [each for each in math.frexp(10.0)], math.ldexp(0.625, 4), list(math.modf(3.25)),
]

# %% math: real functions, to twelve digits
import math
[
    round(each, 12)
    for each in [
        math.sin(1), math.cos(1), math.tan(1), math.asin(0.5), math.atan2(1, -2), math.sinh(1), math.acosh(2), math.exp(1.5), math.expm1(1e-5),
        math.log(10), math.log(8, 2), math.log2(10), math.log10(2), math.log1p(1e-5), math.sqrt(2), math.cbrt(27), math.pow(2, 0.5), math.hypot(3, 4, 12),
        math.gamma(5.5), math.lgamma(10), math.erf(0.5), math.erfc(0.5), math.degrees(1), math.radians(180), math.dist([1, 2], [4, 6]), math.tau, math.e,
        math.fmod(-7, 3), math.remainder(7, 4), math.copysign(1, -0.0), math.nextafter(1, 2) - 1, math.ulp(1) * 2**52,
    ]
] + [math.fsum([0.1] * 10), math.isclose(0.1 + 0.2, 0.3), math.isnan(math.nan)]

# %% math: undefined results are rejected
import math
def told(work):
    try:
        return work()
    except (ValueError, OverflowError, ZeroDivisionError, TypeError) as error:
        return type(error).__name__
[told(lambda: math.sqrt(-1)), told(lambda: math.exp(1000)), told(lambda: math.log(0)), told(lambda: 1 / 0), told(lambda: 1 // 0), told(lambda: 1.0 % 0), told(lambda: math.factorial(-1)), told(lambda: 10.0**400), told(lambda: math.gcd(1.5)), told(lambda: 0**-1), told(lambda: int(math.inf))]

# %% decimal: contexts, rounding, quantize
import decimal
from decimal import Decimal
with decimal.localcontext() as context:
    context.prec = 28
    values = [str(Decimal(1) / Decimal(7)), str(Decimal("0.1") + Decimal("0.2")), str(Decimal("2").sqrt()), str(Decimal("1e3").normalize()), str(Decimal(2) ** Decimal("0.5"))]
    context.prec = 6
    values += [str(Decimal(1) / 3), str(Decimal("123456.789") + 0), str(Decimal("-7") % Decimal("3")), str(Decimal("1").exp()), str(Decimal("10").ln())]
modes = [decimal.ROUND_HALF_EVEN, decimal.ROUND_HALF_UP, decimal.ROUND_DOWN, decimal.ROUND_CEILING, decimal.ROUND_FLOOR, decimal.ROUND_UP, decimal.ROUND_05UP]
[
    values, [str(Decimal("-2.675").quantize(Decimal("0.01"), rounding=mode)) for mode in modes], f"{Decimal('1234567.891'):,.2f}",
    list(Decimal("-3.14").as_tuple()[1]), Decimal("3.14").as_integer_ratio(), str(Decimal("NaN").is_nan()), Decimal("0.5") == 0.5, str(Decimal(0.1))[:25],
    str(Decimal("1.20").compare(Decimal("1.2"))), Decimal("1e-5").adjusted(), str(Decimal("12.5").to_integral_value()), Decimal("123").to_eng_string(),
]

# %% decimal: signals are exceptions
import decimal
def told(work):
    try:
        return str(work())
    except decimal.DecimalException as error:
        return type(error).__name__
with decimal.localcontext() as context:
    context.traps[decimal.Inexact] = True
    strict = told(lambda: decimal.Decimal(1) / 3)
with decimal.localcontext() as context:
    context.traps[decimal.DivisionByZero] = False
    infinite = told(lambda: decimal.Decimal(1) / 0)
    raised = bool(context.flags[decimal.DivisionByZero])
[strict, infinite, raised, told(lambda: decimal.Decimal(1) / 0), told(lambda: decimal.Decimal("x")), told(lambda: decimal.Decimal("Infinity") - decimal.Decimal("Infinity"))]

# %% fractions: exact arithmetic and near ones
from fractions import Fraction
third = Fraction(1, 3)
[
    str(third + Fraction("0.25")), str(Fraction(0.75)), str(Fraction("3.1415926535").limit_denominator(1000)), str(third**-2), str(Fraction(-7, 3) // 2),
    str(Fraction(-7, 3) % 2), third < 0.34, [int(Fraction(7, 2)), round(Fraction(7, 2)), round(Fraction(22, 7), 2) == Fraction(157, 50)], str(sum([third] * 3)), hash(Fraction(1, 2)) == hash(0.5),
]

# %% statistics: averages, spread, regression
import statistics
data = [2.75, 1.75, 1.25, 0.25, 0.5, 1.25, 3.5]
x, y = [1, 2, 3, 4, 5], [2.1, 3.9, 6.2, 7.8, 10.1]
slope, intercept = statistics.linear_regression(x, y)
normal = statistics.NormalDist.from_samples(data)
rounded = [
    statistics.mean(data), statistics.fmean(data, weights=[1, 2, 3, 4, 5, 6, 7]), statistics.geometric_mean([54, 24, 36]), statistics.harmonic_mean([40, 60]), statistics.median(data),
    statistics.median_low([1, 3, 5, 7]), statistics.median_grouped([52, 52, 53, 54]), statistics.stdev(data), statistics.pstdev(data), statistics.variance(data), statistics.covariance(x, y),
    statistics.correlation(x, y), slope, intercept, normal.cdf(1), normal.inv_cdf(0.9), *statistics.quantiles(data, n=4), *statistics.quantiles(data, n=4, method="inclusive"),
]
[[round(each, 10) for each in rounded], statistics.mode("aabbb"), statistics.multimode("aabbc")]

# %% random: what a seed gives is the same everywhere
import random
source = random.Random(12345)
dice = random.Random("text seed")
[
    [source.random() for _ in range(3)], [source.randint(1, 100) for _ in range(8)], source.choice("abcdef"), source.sample(range(1000), 5), source.choices("xyz", weights=[5, 1, 1], k=6),
    (lambda items: (source.shuffle(items), items)[1])(list(range(10))), source.getrandbits(50), round(source.gauss(0, 1), 10), round(source.expovariate(2), 10), round(source.betavariate(2, 3), 10),
    source.randrange(0, 1000, 7), dice.randint(0, 10**9), round(source.triangular(0, 10, 3), 10), source.randbytes(4).hex(),
]

# %% random: a state put back gives the same again
import random
random.seed(7)
before = random.getstate()
first = [random.random() for _ in range(4)]
random.setstate(before)
[first, first == [random.random() for _ in range(4)], random.Random(b"bytes").random(), random.Random(2**70).random(), random.Random(-4).getrandbits(32)]

# %% numbers: the tower
import numbers, decimal, fractions
kinds = [numbers.Complex, numbers.Real, numbers.Rational, numbers.Integral]
{type(each).__name__: [isinstance(each, kind) for kind in kinds] for each in [1, 1.5, 1j, True, fractions.Fraction(1, 2), decimal.Decimal(1)]}

# %% array and struct: packed numbers
import array, struct
numbers = array.array("i", [1, -2, 3])
numbers.extend([4, 5])
numbers.byteswap()
[
    numbers.tolist(), numbers.itemsize, array.array("d", [0.5, 1.5]).tobytes().hex(), array.array("H", b"\x01\x00\x02\x00").tolist(), struct.pack(">IhB3s", 1, -2, 255, b"abc").hex(),
    list(struct.unpack("<d", b"\x00\x00\x00\x00\x00\x00\xf8?")), struct.calcsize("<bIq"), struct.calcsize(">bIq"), [list(each) for each in struct.iter_unpack("<HB", b"\x01\x00\x02\x03\x00\x04")],
    struct.pack("<e", 1.5).hex(), struct.unpack(">?", b"\x01")[0], struct.pack("5p", b"abcdef").hex(),
]

# %% bytes, bytearray, memoryview
view = memoryview(bytearray(b"abcdefgh"))
view[2:4] = b"XY"
grown = bytearray(b"abc")
grown += b"d"
grown[1:2] = b"zz"
del grown[0]
[
    view.tobytes().decode(), view[::2].tolist(), view.cast("H").shape[0], view.nbytes, bytes.fromhex("de ad be ef").hex("-", 2), grown.decode(), b"a-b-c".replace(b"-", b"+").decode(), b"abc".translate(bytes.maketrans(b"ab", b"xy")).decode(),
    b"%d-%s" % (5, b"x") == b"5-x", list(b"\x00\xff"), b"a" < b"b", bytes(3).hex(), b"one two".split()[1].decode(), bytearray(b"ab").hex(), b"x".isascii(), bytes(range(5))[-2:].hex(),
]
