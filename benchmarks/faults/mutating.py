"""Faults put into a folder, drawn by a generator: bytes, values, tensors, and what stands where a file was."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from safetensors import safe_open
from safetensors.numpy import save_file

from regard.checkpoints.tensors import digest

Draw = random.Random
MARK = "\ue000"
"""Around what is to stand in a JSON file as it is; and before a key that is to stand there twice."""


def raw(text: str) -> str:
    return f"{MARK}{text}{MARK}"


NUMBERS: list[Any] = [
    0, 1, -1, 2, 3, 7, 0.5, -0.5, 1e-320, 1e308, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63), 10**12,
    10**30, raw("NaN"), raw("Infinity"), raw("-Infinity"), raw("1e999"), raw("9" * 5000), raw("-0"), raw("1.0"),
]  # fmt: skip
TEXTS: list[Any] = [
    "", "x", " ", "../../outside/bait", "/dev/zero", "/", "..", "a\0b", raw('"\\ud800"'), "é" * 50, "x" * 100_000, "none",
    "auto",
    "nan", "1", "__class__", "%s{}", "\n", "\x1b[31m", "hub:owner/name",
]  # fmt: skip
SHAPES: list[Any] = [
    None, True, False, [], {}, [1], [[]], {"a": 1}, [None], [[1, 2], [3]], {"": {}}, list(range(1000)), raw("[" * 100_000),
    raw('{"a":' * 100_000), raw("[" * 900 + "]" * 900), raw("{"), raw(""),
]  # fmt: skip


def drawn_value(draw: Draw) -> Any:
    """A value that hardly any place allows."""
    return draw.choice(draw.choice([NUMBERS, TEXTS, SHAPES]))


def like(value: Any, draw: Draw) -> Any:
    """Another value of the same type, or near it."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return draw.choice(
            [value + 1, value - 1, -value, value * 2, value * 1000, float(value), str(value), value // 2]
        )
    if isinstance(value, float):
        return draw.choice([-value, value * 2, value * 1e6, value + 1, int(value), str(value)])
    if isinstance(value, str):
        cut = draw.randint(0, len(value))
        return draw.choice([value[:cut], value + "x", value.upper(), value[cut:] + value[:cut], value * 2, [value]])
    if isinstance(value, list):
        some = list(value)
        draw.shuffle(some)
        return draw.choice(
            [value[1:], value[:-1], value * 2, some, [value], value + value[:1], dict(enumerate(map(str, value)))]
        )
    if isinstance(value, dict):
        keys = list(value)
        draw.shuffle(keys)
        return draw.choice(
            [{key: value[key] for key in keys[: len(keys) // 2]}, [value], list(value.items()), list(value)]
        )
    return draw.choice([0, "", [], {}])


def places(value: Any, draw: Draw) -> list[Any]:
    """A way from the top to a value, as keys."""
    way: list[Any] = []
    while isinstance(value, dict | list) and value and (not way or draw.random() < 0.7):
        key = draw.choice(list(value)) if isinstance(value, dict) else draw.randrange(len(value))
        way.append(key)
        value = value[key]
    return way


def changed(value: Any, draw: Draw) -> Any:
    """A JSON value with one place in it changed."""
    value = json.loads(json.dumps(value))
    way = places(value, draw)
    if not way:
        return drawn_value(draw)
    holder = value
    for key in way[:-1]:
        holder = holder[key]
    key = way[-1]
    kind = draw.choice(
        ["any", "any", "any", "like", "like", "like", "gone", "twice", "unknown", "renamed", "exchanged"]
    )
    if kind == "like":
        holder[key] = like(holder[key], draw)
    elif kind == "gone":
        del holder[key]
    elif kind == "exchanged":
        other = draw.choice(list(holder)) if isinstance(holder, dict) else draw.randrange(len(holder))
        holder[key], holder[other] = holder[other], holder[key]
    elif kind == "twice" and isinstance(holder, dict):
        holder[MARK + str(key)] = draw.choice([holder[key], drawn_value(draw), like(holder[key], draw)])
    elif kind == "unknown" and isinstance(holder, dict):
        holder[draw.choice(["unknown", "", "x" * 5000, "__proto__", str(key).upper()])] = drawn_value(draw)
    elif kind == "renamed" and isinstance(holder, dict):
        holder[draw.choice(["", str(key) + "x", str(key)[1:], str(key).upper()])] = holder.pop(key)
    else:
        holder[key] = drawn_value(draw)
    return value


def dumped(value: Any, **settings: Any) -> str:
    """As JSON, what is raw as it is."""
    text = json.dumps(value, ensure_ascii=False, **settings)
    # What is raw was escaped as a text; here it is let out again.
    text = re.sub(f'"{MARK}([^{MARK}]*){MARK}"', lambda found: json.loads(f'"{found[1]}"', strict=False), text)
    text = text.replace(MARK, "")
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def with_change(path: Path, draw: Draw) -> None:
    """A JSON file with one place changed; of JSONL one line of it."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        lines = text.splitlines()
        number = draw.randrange(len(lines)) if lines else 0
        lines[number : number + 1] = [dumped(changed(json.loads(lines[number]), draw))] if lines else ["{"]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    else:
        path.write_text(dumped(changed(json.loads(text), draw), indent=2), encoding="utf-8")


YAML = [
    "!!python/object/apply:os.system ['touch ../../outside/run']", "!!python/name:os.system", "!unknown {}", ".nan", ".inf",
    "2001-01-01", "1:30:00", "0o17", "~", "yes", "&a [*a]", "*missing", "|\n  text", "!!binary aGFsbG8=", "!!set {a, b}",
    "0x7fffffffffffffffff",
    "'a\tb'", "? [1]\n: 2", "-", "[", "{a: 1, a: 2}", "1e400", "1_000", "12e03",
]  # fmt: skip
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
)


def changed_yaml(text: str, draw: Draw) -> str:
    """YAML with one value changed, or with what only YAML has."""
    if draw.random() < 0.6:
        return dumped(changed(yaml.safe_load(text), draw))
    lines = text.splitlines()
    kind = draw.choice(["value", "value", "value", "bomb", "tab", "documents", "deep", "anchored"])
    if kind == "value":
        spots = [number for number, line in enumerate(lines) if re.match(r"\s*\w+: \S", line)]
        number = draw.choice(spots)
        lines[number] = lines[number].split(": ")[0] + ": " + draw.choice(YAML)
    elif kind == "bomb":
        return BOMB + f"{draw.choice(['model', 'data', 'seed', 'training'])}: *a8\n" + draw.choice(["", text])
    elif kind == "tab":
        lines.insert(draw.randint(0, len(lines)), "\tseed: 1")
    elif kind == "documents":
        lines.insert(draw.randint(0, len(lines)), "---")
    elif kind == "deep":
        return text + "\ndeep: " + "[" * 50_000
    else:
        return "x: &x {a: 1}\n" + text + "\nmodel: {<<: *x}\n"
    return "\n".join(lines) + "\n"


def with_yaml(path: Path, draw: Draw) -> None:
    path.write_text(changed_yaml(path.read_text(encoding="utf-8"), draw), encoding="utf-8")


def flip(path: Path, draw: Draw) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(draw.choice([1, 1, 1, 2, 5, 50])):
        if content:
            # Half of them near the beginning, where headers are.
            place = draw.randrange(len(content)) if draw.random() < 0.5 else draw.randrange(min(200, len(content)))
            content[place] = draw.choice([content[place] ^ (1 << draw.randrange(8)), 0, 255, draw.randrange(256)])
    path.write_bytes(content)


def cut(path: Path, draw: Draw) -> None:
    content = path.read_bytes()
    start, end = sorted((draw.randint(0, len(content)), draw.randint(0, len(content))))
    kinds = [
        content[:end],
        content[start:],
        content[:start] + content[end:],
        content + content,
        content[:-1],
        content + b"\0",
    ]
    path.write_bytes(draw.choice(kinds))


def filled(path: Path, draw: Draw) -> None:
    size = path.stat().st_size
    path.write_bytes(
        draw.choice(
            [b"", b"\0" * size, b"\xff" * size, draw.randbytes(size), b"\n", b"{}", b"[]", b"null", b"\x80\x04."]
        )
    )


def replaced(path: Path, draw: Draw) -> None:
    """Something else where the file was: nothing, a folder, a link, a pipe, a device."""
    kind = draw.choice(
        ["gone", "gone", "folder", "itself", "outside", "outside folder", "nowhere", "pipe", "pipe", "device"]
    )
    path.unlink()
    outside = path.parents[len(path.parts) - 1 - path.parts.index("work")] / "outside"
    if kind == "folder":
        path.mkdir()
    elif kind == "itself":
        path.symlink_to(path)
    elif kind == "outside":
        path.symlink_to(outside / "bait")
    elif kind == "outside folder":
        path.symlink_to(outside)
    elif kind == "nowhere":
        path.symlink_to(outside / "nothing")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to(draw.choice(["/dev/zero", "/dev/null", "/dev/random", "/dev/full"]))


def other_folder(path: Path, draw: Draw) -> None:
    """Something else where one of the file's folders was."""
    place = draw.choice([each for each in path.parents if "work" in [part.name for part in each.parents]])
    shutil.rmtree(place)
    place.write_bytes(b"a file")
    replaced(place, draw)


DTYPES = ["F64", "F32", "F16", "BF16", "I64", "I32", "U8", "BOOL", "F8_E4M3", "C64", "U64", "f32", "X"]


def header(path: Path, draw: Draw) -> None:
    """A safetensors file whose header says something else than its bytes."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    said, rest = json.loads(content[8 : 8 + length]), content[8 + length :]
    names = [name for name in said if name != "__metadata__"]
    entry = said[draw.choice(names)] if names else {}
    kind = draw.choice(["json", "json", "length", "dtype", "shape", "offsets", "metadata"])
    if kind == "dtype":
        entry["dtype"] = draw.choice(DTYPES)
    elif kind == "shape":
        entry["shape"] = draw.choice([[], [0], [2**62, 4], [2**40, 0], [-1], [1.5], None, [1, *entry.get("shape", [])]])
    elif kind == "offsets":
        entry["data_offsets"] = draw.choice([[0, 0], [0, 2**63], [-4, 0], [8, 4], [0], None, [0, len(rest)]])
    elif kind == "metadata":
        said["__metadata__"] = changed(said.get("__metadata__") or {"format": "pt"}, draw)
    text = dumped(changed(said, draw) if kind == "json" else said).encode()
    size = draw.choice([0, 1, 2**31, 2**63, 2**64 - 1, length + 1, len(content) * 2]) if kind == "length" else len(text)
    path.write_bytes(struct.pack("<Q", size) + text + rest)


def tensors(path: Path, draw: Draw) -> None:
    """A safetensors file that is whole, and whose tensors are others."""
    with safe_open(path, framework="np") as file:
        said, found = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    name = draw.choice(sorted(found)) if found else "x"
    tensor = found.get(name, np.zeros(3, np.float32))
    kind = draw.choice(["shape", "dtype", "values", "values", "gone", "renamed", "more", "said"])
    if kind == "shape":
        flat = tensor.reshape(-1)
        shapes = (
            [tensor.T, tensor[:0], tensor[:1], tensor[None], flat, np.concatenate([tensor, tensor])]
            if tensor.ndim
            else [flat]
        )
        tensor = draw.choice(shapes)
    elif kind == "dtype":
        tensor = tensor.astype(draw.choice([np.float64, np.float16, np.int64, np.int32, np.uint8, np.bool_, np.int8]))
    elif kind == "values":
        fill = (
            draw.choice([0.0, np.nan, np.inf, 1e38, -1e38, 1e-40, 1.0])
            if tensor.dtype.kind == "f"
            else draw.choice([0, -1, 1, 100])
        )
        tensor = np.where(
            draw.random() < 0.5 or np.arange(tensor.size).reshape(tensor.shape) == 0, fill, tensor
        ).astype(tensor.dtype)
    elif kind == "said" and said:
        key = draw.choice(sorted(said))
        try:
            said[key] = dumped(changed(json.loads(said[key]), draw))
        except ValueError:
            said[key] = draw.choice(["", "x", "{}", "[]"])
    found[name] = np.ascontiguousarray(tensor)
    if kind == "gone":
        del found[name]
    elif kind in ("renamed", "more"):
        found[draw.choice(["x", name + ".x", name[1:], ""])] = found.pop(name) if kind == "renamed" else tensor
    save_file(found, path, metadata=said)


def lines(path: Path, draw: Draw) -> None:
    """A text with a line that is missing, twice, longer, or no text; or with numbers that are none."""
    content = path.read_bytes().split(b"\n")
    number = draw.randrange(len(content))
    odd = [
        b"",
        b"\0",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"x" * 200_000,
        b" ",
        b"\t",
        b"nan",
        b"99999999999999999999 6",
        b"-1 6",
        b"20 999999999",
        b"\r",
    ]
    kind = draw.choice(["gone", "twice", "odd", "odd", "before", "word", "word", "word", "joined"])
    words = content[number].split(b" ")
    place = draw.randrange(len(words))
    if kind == "gone":
        del content[number]
    elif kind == "twice":
        content.insert(draw.randint(0, len(content)), content[number])
    elif kind == "odd":
        content[number] = draw.choice(odd)
    elif kind == "before":
        content[number] = draw.choice(odd) + content[number]
    elif kind == "word":
        words[place : place + 1] = draw.choice(
            [[], [words[place]] * 2, [b"nan"], [b"inf"], [b"1e400"], [b"0x1p3"], [b""], [b"\xc3"], [b"1_0"]]
        )
        content[number] = b" ".join(words)
    else:
        content[number : number + 2] = [b"".join(content[number : number + 2])]
    path.write_bytes(b"\n".join(content))


def integers(path: Path, draw: Draw) -> None:
    """A binary file with a whole number of 4 or 8 bytes changed near its beginning."""
    content = bytearray(path.read_bytes())
    size = draw.choice([4, 8])
    place = draw.randrange(0, max(1, min(160, len(content) - size)), 4)
    value = draw.choice([0, 1, -1, 2, 100, 2**31 - 1, -(2**31), 2**30, 2**16, 2**62, 2**63 - 1])
    content[place : place + size] = (value % 256**size).to_bytes(size, "little")
    path.write_bytes(content)


def array(path: Path, draw: Draw) -> None:
    """A .npy file that is another array, or whose header says so."""
    with np.errstate(all="ignore"):
        _other_array(path, draw)


def _other_array(path: Path, draw: Draw) -> None:
    found = np.load(path)
    kind = draw.choice(["array", "header"])
    if kind == "array":
        others = [
            found.T,
            found[:-1],
            found[None],
            found.astype(np.float16),
            found.astype(np.int32),
            found.astype(object),
            found.reshape(-1),
        ]
        others += [
            np.full_like(found, value)
            for value in ((np.nan, np.inf, 0, 3e38) if found.dtype.kind == "f" else (-1, 0, 2**62))
        ]
        others += [np.asfortranarray(found), found.astype(found.dtype.newbyteorder())]
        np.save(path, draw.choice(others))
        return
    content = path.read_bytes()
    old = re.search(rb"\((\d+), ?(\d*)\)", content)
    new = draw.choice([b"(99999999999, 6)", b"(-1, 6)", b"(6,)", b"()", b"(True, 6)", b"(10**9, 6)", b"(" * 60])
    if old is not None:
        path.write_bytes(content[: old.start()] + new.ljust(len(old[0])) + content[old.end() :])


def packed(path: Path, draw: Draw) -> None:
    """A gzip file whose content has a fault; or one that unpacks to very much."""
    if draw.random() < 0.1:
        path.write_bytes(gzip.compress(draw.choice([b"\0", b"x", b"1 ", b"\n"]) * 5_000_000, compresslevel=1) * 500)
        return
    place = path.with_suffix(".unpacked" + path.with_suffix("").suffix)
    place.write_bytes(gzip.decompress(path.read_bytes()))
    fault(place, draw)
    path.write_bytes(gzip.compress(place.read_bytes()) if place.is_file() and not place.is_symlink() else b"\x1f\x8b")
    if place.is_dir() and not place.is_symlink():
        place.rmdir()
    else:
        place.unlink(missing_ok=True)


Mutator = Callable[[Path, Draw], None]
ANY: list[Mutator] = [flip, flip, cut, filled, replaced]
BY_ENDING: dict[str, list[Mutator]] = {
    ".json": [with_change] * 12,
    ".jsonl": [with_change] * 6 + [lines] * 2,
    ".yaml": [with_yaml] * 8,
    ".safetensors": [header, header, header, tensors, tensors, tensors],
    ".txt": [lines] * 6,
    ".vec": [lines] * 6,
    ".csv": [lines] * 6,
    ".tsv": [lines] * 6,
    ".bin": [integers] * 6,
    ".npy": [array] * 6,
    ".gz": [packed] * 5,
}


def fault(path: Path, draw: Draw) -> str:
    """Put one fault into a file; returns what kind it is."""
    mutator = draw.choice(ANY + BY_ENDING.get(path.suffix, []))
    try:
        mutator(path, draw)
    except Exception as error:
        # Of a file with a fault already, which cannot be read any more as what it was.
        if path.is_file() and not path.is_symlink():
            flip(path, draw)
        return f"{path.name}: {mutator.__name__} after another ({type(error).__name__})"
    return f"{path.name}: {mutator.__name__}"


def mutate(folder: Path, draw: Draw, others: Path) -> list[str]:
    """Put one to three faults into a folder, and write the digests in it anew half of the time.

    Arguments:
        others: valid folders, whose files may stand in place of one here.
    """
    said = []
    for _ in range(draw.choice([1, 1, 1, 1, 2, 3])):
        files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
        if not files:
            break
        path = draw.choice([path for path in files if path.name not in ("README.md",)] or files)
        chance = draw.random()
        if chance < 0.03 and path.parent != folder:
            other_folder(path, draw)
            said.append(f"{path.parent.name}: other folder")
        elif chance < 0.1:
            same = sorted(each for each in others.glob(f"*/**/{path.name}") if each.is_file())
            other = draw.choice(same + files)
            if other != path:
                shutil.copyfile(other, path)
            said.append(f"{path.name}: that of {other.parent.name}/{other.name}")
        else:
            said.append(fault(path, draw))
    if draw.random() < 0.5:
        for card in sorted(folder.rglob("*.json")):
            if card.name in FILES and refresh(card):
                said.append("digests written anew")
    return said


FILES = {"regard.json": "model.safetensors", "progress.json": "optimizer.safetensors"}
"""What the digests in a file are of."""


def refresh(card: Path) -> bool:
    """Write the digests of a folder's tensors anew, where all can be read."""
    file = card.with_name(FILES[card.name])
    if not all(path.is_file() and not path.is_symlink() for path in (card, file)):
        return False
    try:
        values = json.loads(card.read_text())
        with safe_open(file, framework="pt") as found:
            values["digests"] = {name: digest(found.get_tensor(name)) for name in found.keys()}  # noqa: SIM118
        card.write_text(json.dumps(values))
    except Exception:
        return False
    return True
