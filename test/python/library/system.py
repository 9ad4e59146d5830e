# %% os.path, posixpath, ntpath: paths as text
import ntpath, os.path, posixpath
[
    os.path.join("a", "/b", "c"), os.path.normpath("a//b/../c/./d"), os.path.splitext("x.tar.gz"), os.path.split("/a/b/"), os.path.basename("/a/b"), os.path.relpath("/a/b/c", "/a/d"), os.path.commonpath(["/a/b/c", "/a/b/d"]), os.path.commonprefix(["abc", "abd"]), os.path.isabs("/x"), posixpath.expandvars("$NOT_SET_AT_ALL/x"),
    ntpath.join("C:\\a", "b"), ntpath.splitdrive("C:\\x\\y"), ntpath.normpath("a/b\\..\\c"), os.path.dirname("a/b/c"),
]

# %% pathlib: pure paths
from pathlib import PurePosixPath, PureWindowsPath
path = PurePosixPath("/srv/data/x.tar.gz")
[str(path.parent), path.name, path.stem, path.suffix, path.suffixes, str(path.with_suffix(".zip")), str(path.with_name("y")), path.parts, str(path.relative_to("/srv")), path.is_relative_to("/etc"), [str(each) for each in path.parents], path.match("*.gz"), str(path / "../z"), str(PureWindowsPath("c:/a/b")), PureWindowsPath("C:\\A") == PureWindowsPath("c:\\a"), path.as_posix(), str(path.with_stem("q"))]

# %% pathlib, tempfile, shutil: files that are there and gone
import errno, os, pathlib, shutil, tempfile
with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder)
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "one.txt").write_text("é\nline two\n", encoding="utf-8")
    (root / "a" / "b" / "two.bin").write_bytes(bytes(5))
    shutil.copytree(root / "a", root / "copy")
    (root / "copy" / "one.txt").rename(root / "moved.txt")
    with (root / "moved.txt").open("a+", encoding="utf-8") as file:
        file.write("three")
        file.seek(0)
        lines = file.read().splitlines()
    (root / "link").symlink_to("moved.txt")
    walked = sorted([os.path.relpath(at, folder), sorted(folders), sorted(files)] for at, folders, files in os.walk(folder))
    told = [(root / "link").is_symlink(), (root / "link").read_text(encoding="utf-8") == "\n".join(lines), (root / "a" / "b" / "two.bin").stat().st_size, sorted(each.name for each in root.rglob("*.txt")), (root / "nope").exists()]
    try:
        (root / "nope").read_text()
    except FileNotFoundError as error:
        told.append([errno.errorcode[error.errno], error.strerror])
    shutil.rmtree(root / "a")
    told.append(sorted(os.listdir(folder)))
with tempfile.NamedTemporaryFile("w+", suffix=".txt") as file:
    file.write("temp")
    file.flush()
    told.append([os.path.getsize(file.name), file.name.endswith(".txt")])
spooled = tempfile.SpooledTemporaryFile(max_size=10)
spooled.write(b"x" * 20)
spooled.seek(0)
[lines, walked, told, os.path.exists(folder), len(spooled.read())]

# %% os: descriptors, stat, own environment variables
import errno, os, stat, tempfile
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "f")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.write(descriptor, b"hello world")
    os.lseek(descriptor, 6, os.SEEK_SET)
    read = os.read(descriptor, 5).decode()
    os.ftruncate(descriptor, 5)
    size = os.fstat(descriptor).st_size
    os.close(descriptor)
    os.rename(path, path + "2")
    entries = [[entry.name, entry.is_file()] for entry in os.scandir(folder)]
    mode = stat.filemode(0o100644)
    os.remove(path + "2")
    try:
        os.remove(path)
    except OSError as error:
        gone = type(error).__name__
os.environ["MADE_HERE"] = "1"
[read, size, entries, mode, gone, os.environ.pop("MADE_HERE"), os.getenv("MADE_HERE", "none"), os.sep, os.linesep, os.name, os.fspath("x"), os.strerror(errno.ENOENT)]

# %% filecmp, fileinput, linecache: over files
import filecmp, fileinput, linecache, os, tempfile
with tempfile.TemporaryDirectory() as folder:
    one, two = os.path.join(folder, "1"), os.path.join(folder, "2")
    for path, text in [(one, "a\nb\n"), (two, "a\nc\n")]:
        with open(path, "w") as file:
            file.write(text)
    same = filecmp.cmp(one, two, shallow=False)
    with fileinput.input([one, two]) as lines:
        numbered = [[lines.lineno(), lines.filelineno(), line.strip()] for line in lines]
    second = linecache.getline(two, 2)
[same, numbered, second]

# %% urllib.parse: urls taken apart and put together
from urllib.parse import parse_qs, parse_qsl, quote, quote_plus, unquote, unquote_plus, urldefrag, urlencode, urljoin, urlsplit, urlunsplit
parts = urlsplit("https://user:pw@Example.com:8080/a/b;p?q=1&q=2&e=%C3%A9#frag")
[
    parts.hostname, parts.port, parts.username, parts.path, parse_qs(parts.query), parse_qsl("a=1&b=&c", keep_blank_values=True), urlencode({"a": "x y", "é": ["1", "2"]}, doseq=True), quote("a/b c&é"), quote("a/b", safe=""), quote_plus("a b+c"), unquote("%E2%82%AC%20x"), unquote_plus("a+b%2B"),
    urljoin("http://x/a/b", "../c?d"), urljoin("http://x/a/", "//y/z"), urlunsplit(parts) == parts.geturl(), urldefrag("http://x/#f").fragment, parts._replace(netloc="y").geturl(),
]

# %% http, email: headers, messages, cookies
import email, email.utils, http, http.cookies
from email.message import EmailMessage
from email.policy import default
message = EmailMessage()
message["Subject"], message["From"], message["To"] = "Grüße", "Ann <ann@example.com>", "bob@example.com, Éva <eva@example.com>"
message.set_content("Hello é\n")
message.add_attachment(b"\x00\x01", maintype="application", subtype="octet-stream", filename="x.bin")
parsed = email.message_from_bytes(message.as_bytes(), policy=default)
cookie = http.cookies.SimpleCookie('a=1; b="x y"')
cookie["c"] = "z"
cookie["c"]["max-age"], cookie["c"]["httponly"] = 60, True
[
    parsed["subject"], [address.addr_spec for address in parsed["to"].addresses], parsed.get_body().get_content(), [part.get_filename() for part in parsed.iter_attachments()], next(parsed.iter_attachments()).get_content().hex(), email.utils.parseaddr("A B <a@b.c>"), email.utils.format_datetime(email.utils.parsedate_to_datetime("Mon, 20 Nov 1995 19:12:08 -0500")),
    cookie["b"].value, cookie["c"].OutputString(), http.HTTPStatus(404).phrase, http.HTTPMethod.PATCH.value, email.header.decode_header("=?utf-8?q?=C3=A9?=")[0][1],
]

# %% ipaddress: addresses, networks, arithmetic
import ipaddress
network = ipaddress.ip_network("192.168.4.0/22")
six = ipaddress.ip_address("2001:db8::1")
def told(text):
    try:
        return str(ipaddress.ip_network(text))
    except ValueError as error:
        return type(error).__name__
[
    network.num_addresses, str(network.broadcast_address), str(network.netmask), ipaddress.ip_address("192.168.5.9") in network, [str(each) for each in network.subnets(new_prefix=23)], str(six), six.exploded, six.is_private, ipaddress.ip_address("8.8.8.8").is_global, ipaddress.ip_address("127.0.0.1").is_loopback, str(ipaddress.ip_address("10.0.0.255") + 1),
    [str(each) for each in ipaddress.collapse_addresses([ipaddress.ip_network("10.0.0.0/25"), ipaddress.ip_network("10.0.0.128/25")])], [str(each) for each in ipaddress.summarize_address_range(ipaddress.ip_address("10.0.0.1"), ipaddress.ip_address("10.0.0.4"))], told("10.0.0.1/8"), told("x"), str(ipaddress.ip_interface("10.1.2.3/8").network), six.reverse_pointer[:10], str(ipaddress.ip_address("::ffff:1.2.3.4").ipv4_mapped),
]

# %% argparse: options, positionals, subcommands, errors
import argparse, contextlib, io
parser = argparse.ArgumentParser(prog="tool", exit_on_error=False)
parser.add_argument("files", nargs="+")
parser.add_argument("-n", "--number", type=int, default=5)
parser.add_argument("-v", action="count", default=0)
parser.add_argument("--mode", choices=["fast", "slow"])
parser.add_argument("--flag", action=argparse.BooleanOptionalAction)
group = parser.add_mutually_exclusive_group()
group.add_argument("--a", action="store_true")
group.add_argument("--b", action="store_const", const=7)
commands = argparse.ArgumentParser(prog="git")
sub = commands.add_subparsers(dest="command", required=True)
sub.add_parser("push").add_argument("--force", action="store_true")
errors = io.StringIO()
with contextlib.redirect_stderr(errors):
    try:
        commands.parse_args(["pull"])
    except SystemExit as end:
        code = end.code
[vars(parser.parse_args(["x", "y", "-vv", "--number=3", "--no-flag", "--b"])), vars(commands.parse_args(["push", "--force"])), code, "pull" in errors.getvalue(), vars(parser.parse_known_args(["x", "--other"])[0])["files"], "usage: tool" in parser.format_usage()]

# %% getopt, optparse, cmd: the older command lines
import cmd, getopt, io, optparse
parser = optparse.OptionParser()
parser.add_option("-q", action="store_false", dest="verbose", default=True)
parser.add_option("--size", type="int")
options, rest = parser.parse_args(["-q", "--size", "3", "x"])
class Shell(cmd.Cmd):
    def do_greet(self, line):
        print("hello", line, file=self.stdout)
    def do_end(self, line):
        return True
out = io.StringIO()
shell = Shell(stdin=io.StringIO("greet tim\nend\n"), stdout=out)
shell.use_rawinput, shell.prompt = False, "> "
shell.cmdloop()
[getopt.gnu_getopt(["x", "-a", "1", "--long=2"], "a:", ["long="]), [options.verbose, options.size, rest], out.getvalue()]

# %% logging: levels, handlers, filters, formats, exceptions
import io, logging
stream = io.StringIO()
logger = logging.getLogger("corpus.one")
logger.handlers.clear()
logger.setLevel(logging.INFO)
logger.propagate = False
handler = logging.StreamHandler(stream)
handler.setFormatter(logging.Formatter("{levelname}:{name}:{message}:{extra}", style="{", defaults={"extra": "-"}))
handler.addFilter(lambda record: "secret" not in record.getMessage())
logger.addHandler(handler)
logger.debug("unseen")
logger.info("n is %d", 5)
logger.warning("with", extra={"extra": "more"})
logger.error("secret")
child = logging.getLogger("corpus.one.child")
child.info("from below")
try:
    1 / 0
except ZeroDivisionError:
    logger.exception("failed")
lines = stream.getvalue().splitlines()
[lines[:3], lines[3], lines[-1], logger.isEnabledFor(logging.DEBUG), child.getEffectiveLevel(), logging.getLevelName(30), logging.LoggerAdapter(logger, {"a": 1}).process("m", {})[1]]

# %% print and sys.stdout: what is printed is seen, line by line
import sys
print("one", 2, [3], sep="-")
print("no end", end="; ")
print("same line")
print("é 𝒳")
sys.stdout.write("written\n")
print(*range(3), sep="\n")
sys.stdout.flush()
"printed"

# %% sys: common queries
import sys
[sys.byteorder, sys.maxunicode, sys.version_info >= (3, 11), sys.implementation.name, sys.float_info.dig, sys.hash_info.modulus in (2**31 - 1, 2**61 - 1), sys.getsizeof([]) > 0, sys.intern("a" + "b") is sys.intern("ab"), sys.getdefaultencoding(), sys.getfilesystemencoding(), sys.exc_info()[0] is None, "json" in sys.stdlib_module_names, sys.getrefcount(object()) >= 1, sys.getrecursionlimit() >= 500]

# %% importlib: modules made, found, reloaded
import importlib, importlib.util, sys, tempfile, pathlib
with tempfile.TemporaryDirectory() as folder:
    pathlib.Path(folder, "made_here.py").write_text("count = 1\ndef f():\n    return __name__\n")
    package = pathlib.Path(folder, "made_package")
    package.mkdir()
    (package / "__init__.py").write_text("from .part import VALUE\n")
    (package / "part.py").write_text("VALUE = 'relative'\n")
    sys.path.insert(0, folder)
    importlib.invalidate_caches()
    import made_here, made_package
    made_here.count = 5
    reloaded = importlib.reload(made_here).count
    spec = importlib.util.spec_from_file_location("loaded", str(pathlib.Path(folder, "made_here.py")))
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    sys.path.remove(folder)
try:
    import not_there_at_all
except ModuleNotFoundError as error:
    missing = [error.name, str(error)]
[made_here.f(), made_package.VALUE, reloaded, loaded.f(), missing, importlib.util.find_spec("json").name, importlib.import_module("os.path").join("a", "b")]

# %% unittest and doctest: a program tests itself
import doctest, io, unittest
from unittest import mock
class Sums(unittest.TestCase):
    def test_good(self):
        self.assertEqual(1 + 1, 2)
    def test_bad(self):
        self.assertEqual(1 + 1, 3)
    @unittest.skip("later")
    def test_skipped(self): ...
    def test_raises(self):
        with self.assertRaisesRegex(ValueError, "bad"):
            raise ValueError("bad one")
result = unittest.TextTestRunner(stream=io.StringIO()).run(unittest.defaultTestLoader.loadTestsFromTestCase(Sums))
fake = mock.Mock(return_value=3)
fake(1, key="x")
with mock.patch("math.floor", lambda n: "patched"):
    import math
    patched = math.floor(2.5)
examples = doctest.DocTestParser().get_doctest(">>> 1 + 1\n2\n>>> [1, 2]\n[1, 2]\n", {}, "d", None, 0)
runner = doctest.DocTestRunner(verbose=False)
runner.run(examples)
[result.testsRun, len(result.failures), len(result.skipped), result.wasSuccessful(), fake.call_args.kwargs, fake.call_count, patched, math.floor(2.5), list(runner.summarize(verbose=False))[:2]]

# %% cProfile, pstats, timeit, tracemalloc: programs measured
import cProfile, io, pstats, timeit, tracemalloc
def work():
    return sum(range(100))
profile = cProfile.Profile()
profile.enable()
for _ in range(3):
    work()
profile.disable()
stats = pstats.Stats(profile, stream=io.StringIO())
calls = {key[2]: value[0] for key, value in stats.stats.items()}
tracemalloc.start()
kept = [bytes(1000) for _ in range(50)]
grown = tracemalloc.get_traced_memory()[0] > 50_000
tracemalloc.stop()
[calls["work"], timeit.timeit("x = 1", number=10) >= 0, grown]

# %% code, codeop, runpy: Python in Python
import code, codeop, contextlib, io, pathlib, runpy, tempfile
out = io.StringIO()
console = code.InteractiveConsole({"x": 20})
with contextlib.redirect_stdout(out):
    more = [console.push("def f(n):"), console.push("    return n + x"), console.push(""), console.push("f(22)")]
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, "script.py")
    path.write_text("result = __name__\n")
    ran = runpy.run_path(str(path), run_name="__main__")["result"]
[more, out.getvalue(), codeop.compile_command("if x:") is None, ran, eval("1 + n", {"n": 2}), eval(compile("[i for i in 'ab']", "<s>", "eval"))]

# %% compile: what is wrong, and where
def told(text):
    try:
        compile(text, "given.py", "exec")
        return "fine"
    except SyntaxError as error:
        return [type(error).__name__, error.filename, error.lineno]
[told(each) for each in ["x = 1", "x = = 1", "def f(:\n  pass", "if x:\npass", "  x", "x = 'a", "return 1", "f(a=1, 2)", "\tx\n        y", "1 = x", "a b", "print 'x'", "await = 1", "nonlocal x", "(", "x = 5 +", "break"]]

# %% wave, colorsys: sound and colour
import colorsys, io, struct, wave
buffer = io.BytesIO()
with wave.open(buffer, "wb") as sound:
    sound.setnchannels(1)
    sound.setsampwidth(2)
    sound.setframerate(8000)
    sound.writeframes(struct.pack("<4h", 0, 1000, -1000, 0))
buffer.seek(0)
with wave.open(buffer) as sound:
    told = [sound.getnframes(), sound.getframerate(), list(struct.unpack("<4h", sound.readframes(10)))]
[told, buffer.getvalue()[:4].decode(), [round(each, 10) for each in colorsys.rgb_to_hsv(0.2, 0.4, 0.4)], [round(each, 10) for each in colorsys.hls_to_rgb(0.5, 0.25, 1)]]

# %% platform, sysconfig, getpass, site: they answer, whatever they say
import getpass, platform, site, sysconfig
[platform.python_implementation(), platform.python_version_tuple()[0], isinstance(platform.system(), str), isinstance(sysconfig.get_paths()["stdlib"], str), isinstance(site.getsitepackages(), list), bool(platform.machine())]
