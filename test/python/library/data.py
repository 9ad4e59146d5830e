# %% json: text there and back
import json
data = {"name": "Zoë", "n": [1, 2.5, -3e-7, True, None], "nested": {"a": {"b": []}}, "text": "tab\t\"quote\" \u2028 \x00 𝒳"}
[
    json.dumps(data), json.dumps(data, ensure_ascii=False, sort_keys=True), json.dumps(data, indent=2, separators=(",", ": ")), json.loads(json.dumps(data)) == data, json.dumps({1: "a", None: "b", True: "c", 2.5: "d"}), json.dumps((1, 2)), json.loads(' [1e3, -0.5, "\\ud83d\\ude00"] '), json.dumps([float("inf")]),
    json.dumps("</script>"), json.dumps([], indent=1), json.loads('{"a": 1, "a": 2}'),
]

# %% json: hooks, encoders, and what is rejected
import json, datetime, decimal, io
class Encoder(json.JSONEncoder):
    def default(self, value):
        if isinstance(value, (datetime.date, decimal.Decimal)):
            return str(value)
        if isinstance(value, set):
            return sorted(value)
        return super().default(value)
def told(work):
    try:
        return work()
    except (ValueError, TypeError) as error:
        return [type(error).__name__, getattr(error, "pos", None)]
loop = []
loop.append(loop)
out = io.StringIO()
json.dump({"a": [1]}, out)
[
    json.dumps({"d": datetime.date(2026, 1, 2), "m": decimal.Decimal("1.50"), "s": {3, 1}}, cls=Encoder), json.loads("[1.10, 2]", parse_float=str, parse_int=lambda text: text + "i"), json.loads('{"b": 1, "a": 2}', object_pairs_hook=list), told(lambda: json.dumps({1, 2})), told(lambda: json.loads('{"a": }')),
    told(lambda: json.loads("[1, 2")), told(lambda: json.dumps(loop)), told(lambda: json.dumps(float("nan"), allow_nan=False)), told(lambda: json.dumps({(1, 2): 3})), json.dumps({(1, 2): 3, "a": 1}, skipkeys=True), out.getvalue(), json.JSONDecoder().raw_decode('{"a": 1} tail'), told(lambda: json.loads("NaN") != 0),
]

# %% csv: readers, writers, dialects, sniffing
import csv, io
text = 'name,price,note\n"Tea, green",3.5,"said ""hi"""\nMilk,1.25,"two\nlines"\n'
rows = list(csv.DictReader(io.StringIO(text)))
out = io.StringIO()
writer = csv.writer(out, delimiter=";", quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
writer.writerows([["a", 1, 2.5], ["b;c", None, 'say "x"']])
dict_out = io.StringIO()
dict_writer = csv.DictWriter(dict_out, ["x", "y"], restval="-", extrasaction="ignore")
dict_writer.writeheader()
dict_writer.writerow({"x": 1, "z": 2})
try:
    list(csv.reader(["a,\"b\"c"], strict=True))
except csv.Error as error:
    strict = type(error).__name__
[rows, out.getvalue(), dict_out.getvalue(), csv.Sniffer().sniff("a;b;c\n1;2;3\n4;5;6\n").delimiter, csv.Sniffer().has_header("n,v\na,1\nb,2\n"), list(csv.reader(["a\\,b,c"], escapechar="\\")), strict, sum(float(row["price"]) for row in rows), csv.list_dialects()]

# %% configparser: sections, interpolation, defaults
import configparser, io
parser = configparser.ConfigParser(allow_no_value=True)
parser.read_string("[DEFAULT]\nroot = /srv\n[web]\npath = %(root)s/www\nport: 8080\ndebug = yes\nflag\n[empty]\n; comment\nlong = one\n  two\n")
extended = configparser.ConfigParser(interpolation=configparser.ExtendedInterpolation())
extended.read_dict({"a": {"x": "1"}, "b": {"y": "${a:x}2"}})
out = io.StringIO()
parser.write(out)
def told(work):
    try:
        return work()
    except configparser.Error as error:
        return type(error).__name__
[parser.sections(), dict(parser["web"]), parser.getint("web", "port"), parser.getboolean("web", "debug"), parser["empty"]["long"], extended["b"]["y"], parser.get("web", "none", fallback="f"), out.getvalue(), told(lambda: parser.get("web", "none")), told(lambda: parser.read_string("[a]\n[a]\n")), told(lambda: parser.read_string("x = 1")), parser.has_option("web", "ROOT")]

# %% tomllib: all features of TOML
import tomllib
text = '''
title = "T"
[owner]
dob = 1979-05-27T07:32:00-08:00
day = 1979-05-27
[[fruit]]
name = "apple"
sizes = [1, 2.5, 0xff, 1_000, inf]
[fruit.taste]
sweet = true
[[fruit]]
name = 'raw\\n'
inline = { a.b = 1, c = """
multi
line""" }
'''
data = tomllib.loads(text)
try:
    tomllib.loads("a = 1\na = 2")
except tomllib.TOMLDecodeError as error:
    rejected = type(error).__name__
[data["owner"]["dob"].isoformat(), data["owner"]["day"].isoformat(), data["fruit"][0]["sizes"][:4], data["fruit"][0]["sizes"][4] > 1e308, data["fruit"][0]["taste"], data["fruit"][1], rejected, tomllib.loads("x = 1.5", parse_float=str)]

# %% xml.etree: parse, search, change, write
import io
import xml.etree.ElementTree as ET
root = ET.fromstring('<shop xmlns:x="urn:x"><item id="1" x:k="v">Tea &amp; more</item><item id="2"><sub/>tail</item><!-- c --></shop>')
root.append(ET.Element("item", {"id": "3", "note": 'a "b" <c>'}))
root.find("item[@id='2']/sub").text = "é"
ET.indent(root)
events = [[event, element.tag] for event, element in ET.iterparse(io.StringIO("<a><b/><c/></a>"), ["start", "end"])]
try:
    ET.fromstring("<a><b></a>")
except ET.ParseError as error:
    rejected = [error.code, error.position]
[ET.tostring(root, encoding="unicode"), [item.get("id") for item in root.iter("item")], root[0].text, root[0].attrib["{urn:x}k"], events, rejected, ET.tostring(ET.XML("<a>é</a>")).decode(), root.findtext("nothing", "default"), ET.canonicalize("<a  z='1' b='2'/>")]

# %% xml.dom.minidom, xml.sax: the older ways
import xml.dom.minidom, xml.sax, xml.sax.saxutils
document = xml.dom.minidom.parseString("<a><b c='1'>text</b></a>")
document.documentElement.appendChild(document.createElement("new"))
class Handler(xml.sax.ContentHandler):
    def __init__(self):
        super().__init__()
        self.seen = []
    def startElement(self, name, attrs):
        self.seen.append([name, dict(attrs)])
    def characters(self, content):
        self.seen.append(content)
handler = Handler()
xml.sax.parseString(b"<a x='1'>hi<b/></a>", handler)
[document.toxml(), document.getElementsByTagName("b")[0].getAttribute("c"), handler.seen, xml.sax.saxutils.escape("<&>"), xml.sax.saxutils.quoteattr('a"b')]

# %% plistlib, netrc, mimetypes: small formats
import mimetypes, plistlib, datetime
data = {"name": "x", "list": [1, 2.5, True], "data": b"\x00\x01", "when": datetime.datetime(2026, 1, 2, 3, 4, 5)}
[plistlib.loads(plistlib.dumps(data)) == data, plistlib.loads(plistlib.dumps(data, fmt=plistlib.FMT_BINARY)) == data, plistlib.dumps({"a": [1]}).decode().count("<integer>"), mimetypes.guess_type("a.html")[0], mimetypes.guess_type("x.tar.gz"), mimetypes.guess_extension("application/json")]

# %% sqlite3: tables, parameters, transactions, rows
import sqlite3
connection = sqlite3.connect(":memory:")
connection.row_factory = sqlite3.Row
connection.executescript("create table item (id integer primary key, name text unique, price real, data blob); create index by_price on item (price);")
connection.executemany("insert into item (name, price, data) values (?, ?, ?)", [("tea", 3.5, b"\x01"), ("milk", 1.25, None), ("é", 9, b"")])
connection.commit()
try:
    with connection:
        connection.execute("update item set price = price * 2")
        connection.execute("insert into item (name) values ('tea')")
except sqlite3.IntegrityError as error:
    rejected = str(error)
rows = connection.execute("select name, price from item where price > :least order by price desc", {"least": 1}).fetchall()
[[dict(row) for row in rows], rejected, connection.total_changes > 0, connection.execute("select count(*), sum(price), avg(price), max(name) from item").fetchone()[:], connection.execute("select typeof(data) from item").fetchall()[1][0], connection.in_transaction]

# %% sqlite3: functions and aggregates in Python, window functions, CTEs, JSON
import sqlite3, math
connection = sqlite3.connect(":memory:")
connection.create_function("hyp", 2, math.hypot, deterministic=True)
class Product:
    def __init__(self):
        self.value = 1
    def step(self, n):
        self.value *= n
    def finalize(self):
        return self.value
connection.create_aggregate("product", 1, Product)
connection.create_collation("backwards", lambda a, b: (a < b) - (a > b))
connection.execute("create table n (k text, v integer)")
connection.executemany("insert into n values (?, ?)", [("a", 1), ("a", 2), ("b", 3), ("b", 4)])
def all(sql):
    return [list(row) for row in connection.execute(sql)]
out = [all("select hyp(3, 4)"), all("select k, product(v) from n group by k"), all("select distinct k from n order by k collate backwards"), all("select v, sum(v) over (partition by k order by v) from n"), all("with recursive f(a, b) as (select 0, 1 union all select b, a + b from f where b < 50) select a from f"), all("select json_extract('{\"a\": [1, 2]}', '$.a[1]')"), list(connection.iterdump())[1:3]]
try:
    connection.execute("select * from nothing")
except sqlite3.OperationalError as error:
    out.append(str(error))
connection.commit()
connection.backup(target := sqlite3.connect(":memory:"))
out + [target.execute("select count(*) from n").fetchone()[0]]

# %% shelve-like storage: pickle in files, marshal
import marshal, os, pickle, tempfile
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "state.pickle")
    with open(path, "wb") as file:
        pickle.dump({"n": [1, 2]}, file)
    with open(path, "rb") as file:
        back = pickle.load(file)
[back, marshal.loads(marshal.dumps([1, "a", (2.5, None)])), eval(marshal.loads(marshal.dumps(compile("6 * 7", "c", "eval"))))]
