# %% an uncaught exception
def inner(n):
    return 10 / n
def outer():
    return inner(0)
outer()

# %% an exception with a cause
try:
    {}["missing"]
except KeyError as error:
    raise LookupError("no such thing") from error

# %% a custom exception, in a class
class Rejected(Exception):
    pass
class Door:
    def open(self, key):
        if key != "right":
            raise Rejected(f"the key {key} does not fit")
Door().open("wrong")

# %% an assertion with a message, after something was printed
print("before")
assert 1 + 1 == 3, "sums are off"

# %% text that is not Python
x = 1
if x
    y = 2

# %% an awaited failure
import asyncio
async def late():
    await asyncio.sleep(0)
    raise ValueError("came late")
await asyncio.gather(late())

# %% a generator that fails at next()
def numbers():
    yield 1
    raise RuntimeError("out of numbers")
list(numbers())

# %% an unknown name, far down
def a():
    def b():
        return [undefined_name for _ in range(1)]
    return b()
a()

# %% recursion without an end
def down():
    return down()
down()

# %% a failure inside the library
import json
json.loads("{'single': 1}")

