"""Faults put into bytes, drawn by a generator: fast. `mutating` has those that know a format by its library."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable
from random import Random
from typing import Literal

EXTREMES = [
    0, 1, -1, 2, 3, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**16, 2**24, 2**28, 2**30, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40,
    2**48, 2**53, 2**60, 2**62, 2**63 - 1, 2**63, 2**64 - 1,
]  # fmt: skip
"""Numbers at whose borders counts, lengths and places go wrong."""

SPELT = [
    b"0", b"-0", b"-1", b"1", b"0.0", b"1e308", b"-1e308", b"1e400", b"1e-400", b"NaN", b"nan", b"Infinity", b"-inf", b".nan",
    b"2147483648", b"9223372036854775807", b"9223372036854775808", b"18446744073709551616", b"-9223372036854775809",
    b"9" * 400, b"9" * 5000, b"0x10", b"1_0", b"1.5", b"01", b"+1", b"1e5", b"true", b"null", b'"1"', b"", "٣".encode(),
]  # fmt: skip
"""The same as text, and what is hardly a number."""

BITS = [
    b"\0", b"\xff", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x80\xa8",
    b"\x85", b"\r",
    b"\r\n", b"\n", b"\t", b" ", b'"', b"'", b"\\", b"{", b"}", b"[", b"]", b",", b":", b"#", b"\x1a", b"\x1b[31m",
    b"{{", b"%}", b"../", b"/etc/passwd", b"\\ud800", b"&a", b"*a", b"<<", b"!!", b"---\n", b"__class__", b"%s", b"x" * 70_000,
]  # fmt: skip
"""What breaks text in one place or another."""

NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def flipped(content: bytes, draw: Random) -> bytes:
    changed = bytearray(content)
    for _ in range(draw.choice([1, 1, 1, 2, 4, 16])):
        place = _place(changed, draw)
        changed[place] = draw.choice([changed[place] ^ (1 << draw.randrange(8)), 0, 255, draw.randrange(256)])
    return bytes(changed)


def cut(content: bytes, draw: Random) -> bytes:
    start, end = sorted((_place(content, draw), _place(content, draw)))
    return draw.choice([content[:end], content[:start] + content[end:], content[start:], content[:-1]])


def inserted(content: bytes, draw: Random) -> bytes:
    place = _place(content, draw)
    some = draw.choice([draw.choice(BITS), draw.randbytes(draw.choice([1, 2, 4, 8, 64]))])
    return content[:place] + some + content[place:]


def doubled(content: bytes, draw: Random) -> bytes:
    """A block once more, somewhere else or behind itself; or very often."""
    start, size = _place(content, draw), draw.choice([1, 4, 8, 32, 200])
    block, place = content[start : start + size], draw.choice([start, _place(content, draw)])
    return content[:place] + block * draw.choice([1, 1, 2, 1 + 20_000 // size]) + content[place:]


def exchanged(content: bytes, draw: Random) -> bytes:
    """Two blocks in each other's place."""
    size = draw.choice([1, 4, 8, 16, 64])
    one, other = sorted((_place(content, draw), _place(content, draw)))
    if other < one + size:
        return content[one:] + content[:one]
    return (
        content[:one]
        + content[other : other + size]
        + content[one + size : other]
        + content[one : one + size]
        + content[other + size :]
    )


def counted(content: bytes, draw: Random) -> bytes:
    """A whole number of 1 to 8 bytes, either way round, replaced by an extreme one or one near it."""
    size = draw.choice([1, 2, 4, 4, 8, 8])
    orders: list[Literal["little", "big"]] = ["little", "little", "big"]
    order = draw.choice(orders)
    place = _place(content, draw)
    place = place // size * size if draw.random() < 0.6 else place
    was = int.from_bytes(content[place : place + size], order)
    value = draw.choice(
        [draw.choice(EXTREMES), was + 1, was - 1, was * 2, was // 2, -was, len(content), len(content) - place]
    )
    return content[:place] + (value % 256**size).to_bytes(size, order) + content[place + size :]


def respelt(content: bytes, draw: Random) -> bytes:
    """A number in text replaced by an extreme one, or one near it."""
    found = list(NUMBER.finditer(content[: 1 << 16]))
    if not found:
        return inserted(content, draw)
    number = draw.choice(found)
    near = [number[0] + b"0", b"-" + number[0], number[0] * 30, number[0][:-1], number[0] + b".5"]
    return content[: number.start()] + draw.choice([draw.choice(SPELT), draw.choice(near)]) + content[number.end() :]


def nested(content: bytes, draw: Random) -> bytes:
    """Nesting where a value stands, or at the end."""
    deep = draw.choice([5, 90, 101, 500, 990, 1100, 20_000, 60_000])
    opening, closing = draw.choice(
        [(b"[", b"]"), (b'{"a":', b"}"), (b"{a: ", b"}"), (b"- ", b""), (b"(", b")"), (b"{% if a %}", b"{% endif %}")]
    )
    closing = draw.choice([b"", closing])
    found = list(NUMBER.finditer(content[: 1 << 14])) or [re.match(rb"", content)]
    number = draw.choice(found)
    start, end = number.span() if number is not None else (0, 0)
    return content[:start] + opening * deep + b"1" + closing * deep + content[end:]


def reencoded(content: bytes, draw: Random) -> bytes:
    """Text in another encoding, or with a mark of one."""
    text = content.decode("utf-8", "surrogateescape")
    kind = draw.choice(
        ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252", "utf-7", "utf-8-sig", "cr", "crlf"]
    )
    if kind in ("cr", "crlf"):
        return content.replace(b"\n", b"\r" if kind == "cr" else b"\r\n")
    return text.encode(kind, "replace" if kind in ("latin-1", "cp1252") else "surrogatepass")


def fields(content: bytes, draw: Random) -> bytes:
    """A line with a field more or less, or two exchanged; a line twice, gone, or at another place."""
    lines = content.split(b"\n")
    place = draw.randrange(len(lines))
    mark = draw.choice([mark for mark in (b"\t", b",", b" ", b";", b":") if mark in lines[place]] or [b" "])
    parts = lines[place].split(mark)
    one, other = draw.randrange(len(parts)), draw.randrange(len(parts))
    kind = draw.choice(["exchanged", "gone", "twice", "empty", "many", "line", "lines", "moved"])
    if kind == "exchanged":
        parts[one], parts[other] = parts[other], parts[one]
    elif kind == "gone":
        del parts[one]
    elif kind == "twice":
        parts.insert(other, parts[one])
    elif kind == "empty":
        parts[one] = b""
    elif kind == "many":
        parts += [parts[one][:20]] * draw.choice([3, 100, 3000])
    lines[place] = mark.join(parts)
    if kind == "line":
        del lines[place]
    elif kind == "lines":
        lines[place:place] = [lines[place][:200]] * draw.choice([1, 2, 300])
    elif kind == "moved":
        lines.insert(draw.randrange(len(lines)), lines.pop(place))
    return b"\n".join(lines)


# --- by the format ----------------------------------------------------------------------------------------------


def chunks(content: bytes, draw: Random) -> bytes:
    """A PNG with a chunk changed and its checksum right again, so that what is behind the checksum reads it."""
    parts, place = [], 8
    while place + 8 <= len(content):
        (size,) = struct.unpack(">I", content[place : place + 4])
        parts.append((content[place + 4 : place + 8], content[place + 8 : place + 8 + size]))
        place += 12 + size
    if not parts:
        return counted(content, draw)
    number = draw.randrange(len(parts))
    name, body = parts[number]
    kind = draw.choice(["body", "body", "body", "head", "unpacked", "gone", "twice", "moved", "other", "bomb"])
    if kind == "body":
        parts[number] = (name, draw.choice([flipped, cut, counted, inserted])(body or b"\0", draw))
    elif kind == "head":
        sizes = [draw.choice([0, 1, 2, 8, 9, 1000, 8000, 20_000, 2**31 - 1]) for _ in range(2)]
        rest = bytes(
            [
                draw.choice([1, 2, 4, 8, 16, 3]),
                draw.choice([0, 2, 3, 4, 6, 7]),
                0,
                draw.choice([0, 1]),
                draw.choice([0, 1]),
            ]
        )
        parts[0] = (b"IHDR", struct.pack(">2I", *sizes) + rest)
    elif kind == "unpacked":
        parts[number] = (name, _repacked(body, draw))
    elif kind == "gone":
        del parts[number]
    elif kind == "twice":
        parts.insert(number, parts[number])
    elif kind == "moved":
        parts.insert(draw.randrange(len(parts)), parts.pop(number))
    elif kind == "other":
        parts.insert(
            number, (draw.choice([b"tRNS", b"PLTE", b"iCCP", b"zTXt", b"eXIf", b"acTL", b"fdAT", b"abCD"]), body)
        )
    else:
        packed = zlib.compress(b"\0" * 3_000_000, 1)
        parts.insert(
            number, draw.choice([(b"zTXt", b"a\0\0" + packed), (b"iCCP", b"a\0\0" + packed), (b"IDAT", packed)])
        )
    body = b"".join(
        struct.pack(">I", len(each)) + called + each + struct.pack(">I", zlib.crc32(called + each))
        for called, each in parts
    )
    return content[:8] + body


def _repacked(body: bytes, draw: Random) -> bytes:
    try:
        return zlib.compress(flipped(zlib.decompressobj().decompress(body, 1 << 20) or b"\0", draw))
    except zlib.error:
        return flipped(body or b"\0", draw)


def deflated(content: bytes, draw: Random) -> bytes:
    """What zlib packed: its content changed, or one that unpacks to very much."""
    if draw.random() < 0.02:
        packer = zlib.compressobj(9)
        return b"".join(packer.compress(b"\0" * 10_000_000) for _ in range(draw.choice([10, 110]))) + packer.flush()
    return _repacked(content, draw)


NAME = re.compile(rb"[a-z][a-z0-9_.]{4,}")


def named(content: bytes, draw: Random) -> bytes:
    """A GGUF with one of the numbers that follow a name changed: its length, a type, a count, a size or a place."""
    found = draw.choice(list(NAME.finditer(content[: 1 << 14])) or [re.search(rb"", content)])
    start, end = found.span() if found is not None else (0, 0)
    size = draw.choice([4, 8])
    place = draw.choice([start - 8, end, end + 4, end + 8, end + 12, end + 16, end + 20, end + 24])
    place = max(0, place)
    was = int.from_bytes(content[place : place + size], "little")
    value = draw.choice([draw.choice(EXTREMES), draw.randrange(14), was + 1, was - 1, was * 2])
    return content[:place] + (value % 256**size).to_bytes(size, "little") + content[place + size :]


Fault = Callable[[bytes, Random], bytes]
ANY: list[Fault] = [flipped, flipped, cut, inserted, doubled, exchanged]
BINARY: list[Fault] = [counted] * 4
TEXT: list[Fault] = [respelt, respelt, nested, reencoded, fields, fields]
OWN: dict[str, list[Fault]] = {".png": [chunks] * 8, ".gguf": [named] * 8, ".watched": [deflated] * 4}
TEXTS = (
    ".json", ".jsonl", ".yaml", ".txt", ".tsv", ".csv", ".conll", ".vec", ".jinja", ".ppm",
)  # fmt: skip


def damaged(content: bytes, suffix: str, draw: Random) -> bytes:
    """A content with one fault, or a few, of those that suit a file whose name ends so."""
    kinds = ANY + (TEXT if suffix in TEXTS else BINARY) + OWN.get(suffix, [])
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        content = draw.choice(kinds)(content or b"\0", draw)
    return content


def _place(content: bytes | bytearray, draw: Random) -> int:
    """A place, half of the time near the beginning, where headers are."""
    if not content:
        return 0
    return draw.randrange(len(content) if draw.random() < 0.5 else min(len(content), 300))
