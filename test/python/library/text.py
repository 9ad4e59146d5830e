# %% re: named groups, lookaround, and what a function puts in their place
import re
text = "2026-02-28 tea 3.50\n2026-03-01 coffee 4.25"
row = re.compile(r"(?P<day>\d{4}-\d\d-\d\d)\s+(?P<what>\w+)\s+(?P<price>\d+\.\d+)")
rows = [match.groupdict() for match in row.finditer(text)]
raised = re.sub(r"(?<=\s)\d+\.\d+", lambda match: f"{float(match[0]) * 2:.2f}", text)
[rows, raised]

# %% re: split, flags, possessive and atomic groups
import re
[
    re.split(r"([,;])\s*", "a, b;c"),
    re.findall(r"^\w+$", "one\nTwo\nthree", re.MULTILINE),
    re.fullmatch(r"(?ix) a  b+  # verbose", "ABB") is not None,
    re.match(r"(?>a+)ab", "aaab") is None,
    re.match(r"a++b", "aaab").span(),
    re.sub(r"(\w)(\w)", r"\2\1", "abcd"),
    re.escape("a.b*c"),
]

# %% re: a pattern that is wrong says where
import re
try:
    re.compile(r"(a|b")
except re.error as error:
    told = [error.pos, error.lineno, error.colno, error.pattern]
told

# %% string: templates, formatters and constants
import string
class Shouting(string.Formatter):
    def format_field(self, value, spec):
        return super().format_field(value, spec).upper()
[
    string.Template("$who likes ${what}, $$5").substitute(who="tim", what="kung pao"),
    string.Template("$a $b").safe_substitute(a=1),
    Shouting().format("{0}-{name!r:>8}", "x", name="y"),
    list(string.Formatter().parse("a{b!r:>{c}}d")),
    string.ascii_letters + string.digits + string.punctuation,
    string.capwords("the quick  brown"),
]

# %% str: formats of numbers, alignment and nesting
width, value = 12, 1234567.891
[
    f"{value:,.2f}", f"{value:_.1f}", f"{value:>{width}.1f}|", f"{value:e}", f"{value:g}", f"{0.256:.1%}",
    f"{255:#x} {255:#o} {255:#b} {255:08b}", f"{-5:+d} {5:+d} {5: d}", f"{'mid':*^9}", f"{'cut':.2}", f"{value!r}",
    "%5.1f|%-5s|%05d|%x|%%" % (3.14159, "ab", 42, 255), f"{1e100:.3g}", f"{123456789:,}", f"{True:>6}", f"{width=}",
]

# %% str: methods on more than ASCII
[
    "straße".upper(), "ǅ".lower(), "İ".lower().encode("utf-8").hex(), "ΑΣ".lower(), "STRASSE".casefold() == "straße".casefold(),
    "a\u0300b".encode("unicode_escape").decode(), "１２３".isdigit(), "½".isnumeric(), "½".isdecimal(), "a,b,,c".split(","), "  a b ".split(),
    "a\x1cb\u2028c\r\nd".splitlines(), "title case's".title(), "abc".translate({97: "x", 98: None}), "x=1=2".partition("="),
    "x=1=2".rpartition("="), "prefix-body".removeprefix("prefix-"), "tab\tx".expandtabs(4), "𝒳".isalpha(), "nai\u0308ve".center(11, "·"),
    "-42".zfill(6), "abcabc".rindex("bc"), "é" < "z", sorted(["b", "A", "a", "Z"], key=str.casefold),
]

# %% textwrap: wrap, fill, dedent, indent, shorten
import textwrap
text = "The quick brown fox jumped over the lazy dog, and hyphen-ated words-that-break were not harmed."
[
    textwrap.wrap(text, 24),
    textwrap.fill(text, 30, initial_indent="* ", subsequent_indent="  "),
    textwrap.dedent("\n    a\n      b\n    c\n"),
    textwrap.indent("a\n\nb", "> "),
    textwrap.shorten(text, 40, placeholder=" …"),
]

# %% difflib: unified difference, matching blocks, close matches
import difflib
old, new = "one\ntwo\nthree\n".splitlines(True), "zero\none\ntree\nfour\n".splitlines(True)
matcher = difflib.SequenceMatcher(None, "private Thread currentThread;", "private volatile Thread currentThread;")
[
    list(difflib.unified_diff(old, new, "old", "new")),
    list(difflib.ndiff(old, new)),
    [list(block) for block in matcher.get_matching_blocks()],
    round(matcher.ratio(), 12),
    matcher.get_opcodes(),
    difflib.get_close_matches("appel", ["ape", "apple", "peach", "puppy"]),
]

# %% unicodedata: names, categories, normal forms
import unicodedata
[
    unicodedata.name("ß"), unicodedata.lookup("SNOWMAN"), [unicodedata.category(each) for each in "aA1 _-$\n"],
    unicodedata.normalize("NFD", "é").encode("utf-8").hex(), unicodedata.normalize("NFKC", "ﬁ①"), unicodedata.bidirectional("א"),
    unicodedata.combining("\u0301"), unicodedata.decimal("٣"), unicodedata.numeric("½"), unicodedata.east_asian_width("カ"),
    unicodedata.is_normalized("NFC", "e\u0301"), unicodedata.mirrored("("), unicodedata.decomposition("é"),
]

# %% codecs: encodings, error handlers, incremental decoding
import codecs
decoder = codecs.getincrementaldecoder("utf-8")()
[
    "Grüße".encode("latin-1").hex(), "日本".encode("shift_jis").hex(), "日本".encode("koi8-r", "replace").decode("ascii"),
    "é€".encode("cp1252").hex(), "hi".encode("utf-16").hex(), "hi".encode("utf-32-be").hex(), b"\xff\xfea\x00".decode("utf-16"),
    "a\u20ac".encode("ascii", "xmlcharrefreplace").decode(), "a\u20ac".encode("ascii", "namereplace").decode(),
    b"a\xff".decode("utf-8", "backslashreplace"), b"a\xffb".decode("utf-8", "surrogateescape").encode("utf-8", "surrogateescape").hex(),
    codecs.encode("Hello", "rot13"), "bücher".encode("idna").decode(), "bücher".encode("punycode").decode(),
    [decoder.decode(bytes([each])) for each in "é€".encode()], codecs.lookup("UTF8").name,
]

# %% shlex: split, quote, join
import shlex
[
    shlex.split("ls -l 'a file' \"b \\\" c\" # comment", comments=True),
    [shlex.quote(each) for each in ["plain", "two words", "it's", ""]],
    shlex.join(["echo", "a b", "$HOME"]),
    list(shlex.shlex("a&&b || c; d", punctuation_chars=True)),
]

# %% pprint and reprlib: what is wide is broken, what is deep is cut
import pprint, reprlib
data = {"name": "x" * 30, "list": list(range(12)), "deep": {"a": [{"b": (1, 2, {"c": "d" * 40})}]}}
cut = reprlib.Repr()
cut.maxlist, cut.maxstring, cut.maxlevel = 3, 12, 2
loop = [1]
loop.append(loop)
[pprint.pformat(data, width=60), pprint.pformat(data, depth=2, compact=True), cut.repr(data["list"]), cut.repr("y" * 50), cut.repr([[[[1]]]]), pprint.isreadable(loop), repr(loop)]

# %% fnmatch and glob: patterns and files
import fnmatch, glob, os, pathlib, tempfile
with tempfile.TemporaryDirectory() as folder:
    for name in ["a.txt", "b.py", "sub/c.txt", "sub/deep/d.txt", ".hidden.txt"]:
        path = pathlib.Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    found = [sorted(glob.glob(pattern, root_dir=folder, recursive=True)) for pattern in ["*.txt", "**/*.txt", "[ab].*", "*/"]]
[fnmatch.filter(["data1", "data23", "Data3"], "data?"), fnmatch.fnmatchcase("a.TXT", "*.txt"), glob.escape("a[1]*"), found]

# %% html: escape, unescape, and a parser
import html, html.parser
class Links(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.events = []
    def handle_starttag(self, tag, attrs):
        self.events.append(["start", tag, attrs])
    def handle_endtag(self, tag):
        self.events.append(["end", tag])
    def handle_data(self, data):
        self.events.append(["data", data])
    def handle_comment(self, data):
        self.events.append(["comment", data])
links = Links()
links.feed('<p class="x" hidden>Caf&eacute; <a href="/?a=1&amp;b=2">go</a><br/><!-- note --></p>')
links.close()
[html.escape("<a href=\"x\">'&'</a>"), html.unescape("&lt;&#8364;&eacute;&hearts;&notanentity;"), links.events]

# %% gettext, locale and stringprep: the plain locale
import gettext, locale, stringprep
locale.setlocale(locale.LC_ALL, "C")
[
    gettext.ngettext("%d file", "%d files", 2) % 2,
    locale.localeconv()["decimal_point"],
    locale.format_string("%.2f", 1234.5, grouping=True),
    locale.strxfrm("abc") == "abc",
    locale.atof("3.25"),
    stringprep.in_table_c11(" "),
]
