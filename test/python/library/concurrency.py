# %% asyncio: gather, tasks, sleep, order
import asyncio
order = []
async def work(name, seconds):
    order.append("start " + name)
    await asyncio.sleep(seconds)
    order.append("end " + name)
    return name.upper()
results = await asyncio.gather(work("slow", 0.5), work("quick", 0.001), work("now", 0))
[results, order]

# %% asyncio: sleeps that are over at the same time end in order of their times
import asyncio, time
async def nap(seconds, order, begun):
    begun.append(time.monotonic())
    await asyncio.sleep(seconds)
    order.append(seconds)
async def nap_while_busy():
    order, begun = [], []
    tasks = [asyncio.create_task(nap(seconds, order, begun)) for seconds in (0.05, 0.02, 0.01, 0.04, 0.03)]
    await asyncio.sleep(0)
    begun.append(time.monotonic())
    while time.monotonic() < begun[-1] + 0.1:
        pass
    await asyncio.gather(*tasks)
    return order, begun[-1] - begun[0]
# On a machine that stops between two beginnings the order may rightly be another one.
while (outcome := await nap_while_busy())[1] >= 0.01:
    pass
outcome[0]

# %% asyncio: timeouts, cancellation, task groups
import asyncio
events = []
async def forever():
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        events.append("cancelled")
        raise
try:
    await asyncio.wait_for(forever(), 0.005)
except TimeoutError:
    events.append("timeout")
try:
    async with asyncio.timeout(0.005):
        await asyncio.sleep(60)
except TimeoutError:
    events.append("timeout block")
async def failing():
    raise ValueError("x")
try:
    async with asyncio.TaskGroup() as group:
        group.create_task(forever())
        group.create_task(failing())
except* ValueError as errors:
    events.append([repr(each) for each in errors.exceptions])
done = await asyncio.gather(failing(), asyncio.sleep(0, "fine"), return_exceptions=True)
[events, [repr(each) for each in done]]

# %% asyncio: queue, event, lock, semaphore
import asyncio
items, log = asyncio.Queue(2), []
async def produce():
    for n in range(5):
        await items.put(n)
    await items.put(None)
async def consume():
    while (n := await items.get()) is not None:
        log.append(n)
        items.task_done()
gate = asyncio.Event()
async def waits():
    await gate.wait()
    return "through"
running = peak = 0
limit = asyncio.Semaphore(2)
async def bounded():
    global running, peak
    async with limit:
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(0)
        running -= 1
waiting = asyncio.create_task(waits())
await asyncio.gather(produce(), consume())
gate.set()
await asyncio.gather(*(bounded() for _ in range(6)))
lock = asyncio.Lock()
async with lock:
    locked = lock.locked()
[log, await waiting, peak, locked, lock.locked()]

# %% asyncio: async generators, comprehensions, context managers
import asyncio, contextlib
closed = []
async def ticks(n):
    try:
        for each in range(n):
            await asyncio.sleep(0)
            yield each
    finally:
        closed.append("closed")
@contextlib.asynccontextmanager
async def session():
    closed.append("open")
    yield "s"
    closed.append("shut")
async with session() as name:
    squares = [n * n async for n in ticks(5) if n % 2 == 0]
source = ticks(10)
first = await anext(source)
await source.aclose()
async def agather(source):
    return {n: n + 1 async for n in source}
[squares, first, closed, list((await agather(ticks(2))).values()), name]

# %% asyncio: futures, callbacks, run_in_executor's place, shield
import asyncio
loop = asyncio.get_running_loop()
future = loop.create_future()
calls = []
future.add_done_callback(lambda done: calls.append(done.result()))
loop.call_soon(future.set_result, "set")
value = await future
await asyncio.sleep(0)
task = asyncio.create_task(asyncio.sleep(0.001, "shielded"), name="named")
done, pending = await asyncio.wait([task, asyncio.create_task(asyncio.sleep(30))], return_when=asyncio.FIRST_COMPLETED)
for each in pending:
    each.cancel()
in_order = [await each for each in asyncio.as_completed([asyncio.sleep(0.5, "b"), asyncio.sleep(0.001, "a")])]
[value, calls, [each.get_name() for each in done], len(pending), in_order, await asyncio.shield(asyncio.sleep(0, "ok"))]

# %% contextvars: each task has its own
import asyncio, contextvars
user = contextvars.ContextVar("user", default="nobody")
async def handle(name):
    user.set(name)
    await asyncio.sleep(0)
    return user.get()
seen = await asyncio.gather(handle("ann"), handle("bob"))
token = user.set("main")
inside = contextvars.copy_context().run(lambda: (user.set("inner"), user.get())[1])
before = user.get()
user.reset(token)
[seen, inside, before, user.get()]

# %% threading and concurrent.futures: what needs no second thread
import threading, concurrent.futures
local = threading.local()
local.x = 5
lock = threading.RLock()
with lock:
    with lock:
        twice = True
future = concurrent.futures.Future()
future.set_result(9)
event = threading.Event()
event.set()
[threading.current_thread() is threading.main_thread(), local.x, twice, future.result(), event.is_set(), threading.active_count() >= 1, threading.Lock().acquire(blocking=False)]

# %% sched: in order of time, then of weight
import sched
now, log = [0.0], []
scheduler = sched.scheduler(lambda: now[0], lambda seconds: now.__setitem__(0, now[0] + seconds))
scheduler.enter(5, 1, log.append, ("late",))
scheduler.enter(1, 2, log.append, ("second",))
scheduler.enter(1, 1, log.append, ("first",))
cancelled = scheduler.enter(3, 1, log.append, ("never",))
scheduler.cancel(cancelled)
scheduler.run()
[log, now[0], scheduler.empty()]

# %% time: clocks that go on, and a date that is fixed
import time
one = time.monotonic()
two = time.perf_counter()
time.sleep(0.001)
[time.monotonic() >= one, time.perf_counter() > two, time.time() > 1.6e9, time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(86_400 * 365)), list(time.gmtime(0))[:6], time.strptime("28 Feb 26", "%d %b %y").tm_yday, time.time_ns() > 10**18, time.process_time() >= 0]

# %% time: short sleeps take at least their time
import asyncio, time
def lasts(seconds):
    begin = time.perf_counter()
    time.sleep(seconds)
    return time.perf_counter() - begin > seconds - 1e-6
async def wait(seconds):
    begin = time.perf_counter()
    await asyncio.sleep(seconds)
    return time.perf_counter() - begin > seconds - 1e-6
[all(lasts(0.001) for _ in range(20)), all(lasts(0.002) for _ in range(10)), all(lasts(0.004) for _ in range(30)), all([await wait(0.001) for _ in range(20)]), lasts(0)]

# %% signal, atexit, warnings, faulthandler: basic queries
import atexit, signal, warnings, faulthandler
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    warnings.warn("old", DeprecationWarning)
    warnings.warn("odd")
with warnings.catch_warnings():
    warnings.simplefilter("error")
    try:
        warnings.warn("now an error", RuntimeWarning)
    except RuntimeWarning as error:
        raised = str(error)
atexit.register(len, "x")
[[each.category.__name__ for each in caught], [str(each.message) for each in caught], raised, signal.Signals.SIGTERM.name, faulthandler.is_enabled() in (True, False)]
