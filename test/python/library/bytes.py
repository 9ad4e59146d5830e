# %% base64, binascii, quopri: bytes as text
import base64, binascii, quopri
data = bytes(range(0, 256, 15)) + "é".encode()
def told(work):
    try:
        return work()
    except (ValueError, binascii.Error) as error:
        return type(error).__name__
[
    base64.b64encode(data).decode(), base64.urlsafe_b64encode(b"\xfb\xff").decode(), base64.b32encode(data).decode(), base64.b16encode(b"\xab\x01").decode(), base64.b85encode(data).decode(), base64.a85encode(b"\0\0\0\0abc").decode(), base64.b64decode("aGk=").decode(), told(lambda: base64.b64decode("a")),
    told(lambda: base64.b64decode("a$$$", validate=True)), binascii.hexlify(b"\x01\xff", ":").decode(), binascii.crc32(b"hello"), binascii.crc_hqx(b"hello", 0), quopri.encodestring("é = ü".encode()).decode(), quopri.decodestring("=C3=A9").decode(), binascii.b2a_uu(b"hello").decode(), base64.b32hexdecode(base64.b32hexencode(data)) == data,
]

# %% hashlib: digests of every kind
import hashlib
data = b"The quick brown fox jumps over the lazy dog"
names = ["md5", "sha1", "sha224", "sha256", "sha384", "sha512", "sha3_256", "sha3_512", "blake2b", "blake2s"]
grown = hashlib.sha256()
for byte in data:
    grown.update(bytes([byte]))
half = hashlib.sha1(data[:10])
copy = half.copy()
copy.update(data[10:])
[{name: hashlib.new(name, data).hexdigest() for name in names}, hashlib.shake_128(data).hexdigest(20), grown.hexdigest() == hashlib.sha256(data).hexdigest(), copy.hexdigest(), half.digest_size, half.block_size, hashlib.blake2b(data, digest_size=16, key=b"k", salt=b"s", person=b"p").hexdigest(), sorted(hashlib.algorithms_guaranteed)[:4]]

# %% hmac: keys from passwords, by hand where there is no OpenSSL
import hashlib, hmac
def pbkdf2(name, password, salt, rounds):
    block = hmac.digest(password, salt + (1).to_bytes(4, "big"), name)
    key = int.from_bytes(block, "big")
    for _ in range(rounds - 1):
        block = hmac.digest(password, block, name)
        key ^= int.from_bytes(block, "big")
    return key.to_bytes(len(block), "big").hex()
[pbkdf2("sha256", b"password", b"salt", 100), pbkdf2("sha1", b"password", b"salt", 2)]

# %% hmac: signatures and their comparison
import hmac, hashlib
mac = hmac.new(b"key", b"part one ", hashlib.sha256)
mac.update(b"part two")
[mac.hexdigest(), hmac.digest(b"key", b"data", "sha1").hex(), hmac.compare_digest("abc", "abc"), hmac.compare_digest(b"abc", b"abd"), hmac.new(b"k" * 200, b"", "sha512").hexdigest()[:32], mac.name]

# %% secrets, os.urandom, uuid4: the shape of random values
import os, re, secrets, uuid
tokens = {secrets.token_hex(16) for _ in range(50)}
[len(tokens), all(re.fullmatch("[0-9a-f]{32}", token) for token in tokens), len(secrets.token_bytes(10)), len(os.urandom(16)), os.urandom(16) != os.urandom(16), secrets.choice([7]), 0 <= secrets.randbelow(5) < 5, secrets.compare_digest("a", "a"), uuid.uuid4().version, uuid.uuid4() != uuid.uuid4(), len(secrets.token_urlsafe(9))]

# %% uuid: names, fields, text
import uuid
one = uuid.UUID("12345678-1234-5678-1234-567812345678")
[str(uuid.uuid5(uuid.NAMESPACE_DNS, "python.org")), str(uuid.uuid3(uuid.NAMESPACE_URL, "http://x/")), one.hex, one.fields[:3], str(one.int), one.urn, str(uuid.UUID(int=5)), uuid.UUID(bytes=one.bytes_le).hex, one.variant, one < uuid.UUID(int=0), uuid.uuid1(node=1, clock_seq=2).node]

# %% zlib: streams, levels, checksums
import zlib
data = b"abc" * 1000 + bytes(range(256))
compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
raw = compressor.compress(data[:500]) + compressor.compress(data[500:]) + compressor.flush()
decompressor = zlib.decompressobj()
packed = zlib.compress(data)
part = decompressor.decompress(packed, 100)
rest = decompressor.decompress(decompressor.unconsumed_tail) + decompressor.flush()
try:
    zlib.decompress(b"not zlib")
except zlib.error as error:
    rejected = type(error).__name__
[zlib.decompress(packed) == data, zlib.decompress(raw, -15) == data, part + rest == data, len(part), len(packed) < 400, zlib.crc32(data), zlib.adler32(data), rejected, zlib.crc32(b"c", zlib.crc32(b"ab")) == zlib.crc32(b"abc")]

# %% gzip, bz2, lzma: there and back, and headers
import bz2, gzip, io, lzma
data = "line\n".encode() * 500
buffer = io.BytesIO()
with gzip.GzipFile(fileobj=buffer, mode="wb", filename="x.txt", mtime=0) as file:
    file.write(data)
head = buffer.getvalue()[:4].hex()
buffer.seek(0)
with gzip.open(buffer, "rt", encoding="utf-8") as file:
    lines = [file.readline(), sum(1 for _ in file)]
stream = bz2.BZ2Decompressor()
packed = bz2.compress(data)
halves = stream.decompress(packed[:20]) + stream.decompress(packed[20:])
[head, lines, gzip.decompress(gzip.compress(data)) == data, halves == data, bz2.decompress(packed) == data, stream.eof, lzma.decompress(lzma.compress(data)) == data, lzma.decompress(lzma.compress(data, format=lzma.FORMAT_ALONE)) == data, lzma.is_check_supported(lzma.CHECK_CRC64), lzma.compress(b"")[:6].hex(), gzip.decompress(gzip.compress(b"a") + gzip.compress(b"b")).decode()]

# %% zipfile: written, read, listed, checked
import io, zipfile
buffer = io.BytesIO()
with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
    archive.writestr("a.txt", "alpha" * 100)
    archive.writestr("folder/b.bin", bytes(10), zipfile.ZIP_STORED)
    archive.comment = b"note"
    with archive.open("c.txt", "w") as file:
        file.write(b"streamed")
with zipfile.ZipFile(buffer) as archive:
    told = [[info.filename, info.file_size, info.compress_type, info.CRC] for info in archive.infolist()]
    read = archive.read("c.txt").decode()
    fine = archive.testzip()
    inside = sorted(each.name for each in zipfile.Path(archive).iterdir())
try:
    zipfile.ZipFile(io.BytesIO(b"nothing of it"))
except zipfile.BadZipFile as error:
    rejected = type(error).__name__
[told, read, fine, inside, rejected, zipfile.is_zipfile(buffer)]

# %% tarfile: made and read, by every compression
import io, tarfile
def make(mode):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w" + mode) as archive:
        for name, data in [("a.txt", b"alpha"), ("d/b.txt", b"beta" * 50)]:
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.mode = len(data), 86400, 0o640
            archive.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "a.txt"
        archive.addfile(link)
    return buffer.getvalue()
def read(data):
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return [[each.name, each.size, each.mtime, oct(each.mode), each.issym()] for each in archive], archive.extractfile("d/b.txt").read(8).decode()
try:
    tarfile.open(fileobj=io.BytesIO(b"x" * 600))
except tarfile.ReadError as error:
    rejected = type(error).__name__
[read(make("")), [read(make(mode)) == read(make("")) for mode in [":gz", ":bz2", ":xz"]], rejected]

# %% io: text over bytes, newlines, seeking
import io
raw = io.BytesIO()
text = io.TextIOWrapper(raw, encoding="utf-16-le", newline="\r\n", write_through=True)
text.write("a\né\n")
stream = io.StringIO("one\ntwo\r\nthree", newline=None)
lines = stream.readlines()
buffered = io.BufferedReader(io.BytesIO(b"abcdefgh"), 4)
peeked = buffered.peek(2)[:2]
class Upper(io.RawIOBase):
    def readable(self):
        return True
    def readinto(self, target):
        target[:2] = b"XY"
        return 2
into = bytearray(3)
io.BytesIO(b"12345").readinto(into)
[raw.getvalue().hex(), lines, peeked.decode(), buffered.read(3).decode(), buffered.tell(), io.BufferedReader(Upper(), 2).read(6).decode(), into.decode(), io.StringIO("abc").read(2), io.BytesIO(b"a\nb").readline().decode(), text.encoding, io.StringIO().writable()]

# %% ctypes: structures, unions and arrays in own memory
import ctypes
class Point(ctypes.LittleEndianStructure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = [("x", ctypes.c_int16), ("y", ctypes.c_uint8), ("z", ctypes.c_float)]
class Either(ctypes.Union):
    _fields_ = [("n", ctypes.c_uint32), ("parts", ctypes.c_uint8 * 4)]
point = Point(-2, 255, 1.5)
either = Either(n=0x01020304)
buffer = ctypes.create_string_buffer(b"hey", 8)
[bytes(point).hex(), ctypes.sizeof(point), list(either.parts), buffer.value.decode(), len(buffer), ctypes.c_uint8(300).value, ctypes.cast(ctypes.pointer(ctypes.c_int(7)), ctypes.POINTER(ctypes.c_int)).contents.value, list((ctypes.c_int * 3)(1, 2, 3)), Point.from_buffer_copy(bytes(point)).z]
