"""Reading what others wrote: regular files alone, of bounded size, and JSON and YAML strictly. Nothing else reads these."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import re
import stat
import time
from collections.abc import Iterator
from typing import Any, BinaryIO

from regard.errors import InputError

AnyPath = str | os.PathLike[str]

LARGEST = 1 << 28
"""Bytes of a file that is read as a whole; the largest tokenizer.json in use are some tens of MB."""
LARGEST_YAML = 1 << 20
"""Bytes of a YAML file, which is written by hand, and read a hundred times more slowly than JSON."""
DEEPEST = 100
"""How deep lists and mappings may be nested."""
LARGEST_NUMBER = 1 << 1000
"""Whole numbers are smaller, so that each has a float; `structure.coerced` asks for less."""
PATIENCE = 2.0
"""Seconds until a pipe has to be open to be written to."""
MOST_NODES = 50_000
"""Values that a YAML text may write."""
MOST_VALUES = 200_000
"""Values that it may have when each alias is replaced by what it names."""

_HALF = re.compile(r"\\u[dD][89a-fA-F]")


# --- files ------------------------------------------------------------------------------------------------


def open_regular(path: str | os.PathLike[str], advice: str) -> BinaryIO:
    """A regular file, opened to be read; never waits, as opening a pipe does, and touches no device.

    Arguments:
        advice: what to do about it, as the end of the sentence.

    Raises:
        InputError: no such file, a folder, a pipe, a socket or a device, or one that may not be read.

    >>> open_regular("/dev/null", "give a file")
    Traceback (most recent call last):
        ...
    regard.errors.InputError: /dev/null: is a device, not a regular file; give a file
    """
    check_regular(path, advice)
    with file_errors(path, advice):
        # Between the look and the opening another file may have come; without blocking, a pipe is opened at once.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        file = os.fdopen(descriptor, "rb")
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        file.close()
        raise InputError(f"{os.fspath(path)}: is not a regular file; {advice}")
    return file


def open_stream(path: str | os.PathLike[str], advice: str) -> BinaryIO:
    """A regular file, or a pipe such as `<(command)` of the shell, opened to be read once from its beginning to its end.

    Arguments:
        advice: as for `open_regular`.

    Raises:
        InputError: as `open_regular`, and for a pipe that nobody has opened to write into it within `PATIENCE` seconds.
    """
    check_regular(path, advice, pipes=True)
    with file_errors(path, advice):
        is_pipe = stat.S_ISFIFO(os.stat(path).st_mode)
        if not is_pipe:
            return open_regular(path, advice)
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            return io.BufferedReader(_Pipe(descriptor, _first_byte(descriptor, path)))
        except BaseException:
            os.close(descriptor)
            raise


def _first_byte(descriptor: int, path: str | os.PathLike[str]) -> bytes:
    """What of a pipe had to be read to know that it is written to; opening it without that would wait for a writer for ever."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            first = os.read(descriptor, 1)
        except BlockingIOError:  # it is open to be written to, and empty so far
            first = None
        if first is None or first:
            os.set_blocking(descriptor, True)
            return first or b""
        time.sleep(0.02)
    raise InputError(f"{os.fspath(path)}: is a pipe that nothing is written into; start what writes, or give a file")


class _Pipe(io.RawIOBase):
    """A pipe of which the first byte has been read."""

    def __init__(self, descriptor: int, first: bytes) -> None:
        super().__init__()
        self._descriptor, self._first = descriptor, first

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._first or os.read(self._descriptor, len(buffer))
        self._first = b""
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
        super().close()


def check_regular(path: str | os.PathLike[str], advice: str, *, pipes: bool = False) -> None:
    """Refuse what is not a regular file; for the libraries that open a file by its path themselves.

    Arguments:
        pipes: whether a pipe will do, because the file is read once, from its beginning to its end.

    Raises:
        InputError: as `open_regular`.
    """
    with file_errors(path, advice):
        mode = os.stat(path).st_mode
    if stat.S_ISREG(mode) or (pipes and stat.S_ISFIFO(mode)):
        return
    if stat.S_ISDIR(mode):
        raise InputError(f"{os.fspath(path)}: is a folder, not a file; {advice}")
    if stat.S_ISFIFO(mode):
        raise InputError(
            f"{os.fspath(path)}: is a pipe, and a regular file is needed; write what it gives to a file first"
        )
    kind = "a socket" if stat.S_ISSOCK(mode) else "a device"
    raise InputError(f"{os.fspath(path)}: is {kind}, not a regular file; {advice}")


@contextlib.contextmanager
def file_errors(path: str | os.PathLike[str], advice: str) -> Iterator[None]:
    """Turn what the file system says about a file that is opened or read into one sentence.

    Raises:
        InputError: in place of an `OSError`, and of the `ValueError` for a name with a null character.
    """
    name = os.fspath(path)
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{name}: no such file; {advice}") from None
    except OSError as error:
        raise InputError(f"{name}: cannot be read ({(error.strerror or str(error)).lower()}); {advice}") from None
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{name!r}: cannot be read ({error}); {advice}") from None


def read_bytes(path: str | os.PathLike[str], advice: str, *, largest: int = LARGEST) -> bytes:
    """The content of a regular file of at most `largest` bytes.

    Raises:
        InputError: as `open_regular`, and for a larger one.
    """
    with open_regular(path, advice) as file, file_errors(path, advice):
        size = os.fstat(file.fileno()).st_size
        content = bytearray()
        # What the system writes while it is read, as in /proc, says that its size is 0.
        while size <= largest and len(content) <= largest and (piece := file.read(max(size, 1 << 16) + 1)):
            content += piece
    if size > largest or len(content) > largest:
        raise InputError(f"{os.fspath(path)}: is larger than {_spoken(largest)}, the most that is read here; {advice}")
    return bytes(content)


def read_text(path: str | os.PathLike[str], advice: str, *, largest: int = LARGEST) -> str:
    """The text of a regular UTF-8 file of at most `largest` bytes; all ends of lines as a line feed, no byte-order mark.

    Raises:
        InputError: as `read_bytes`, and for another encoding.
    """
    try:
        text = read_bytes(path, advice, largest=largest).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{os.fspath(path)}: is not UTF-8 text (byte {error.start:,}); {advice}") from None
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _spoken(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size:,} bytes"


# --- JSON -------------------------------------------------------------------------------------------------


def read_json(path: str | os.PathLike[str], advice: str, *, largest: int = LARGEST) -> Any:
    """The value in a JSON file, read strictly as by `json_value`.

    Raises:
        InputError: as `read_text`, and for what `json_value` refuses.
    """
    return parse_json(read_text(path, advice, largest=largest), os.fspath(path), advice)


def read_json_object(path: str | os.PathLike[str], advice: str, *, largest: int = LARGEST) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        InputError: as `read_json`, and for another value.
    """
    return as_object(read_json(path, advice, largest=largest), os.fspath(path), advice)


def parse_json(text: str | bytes, where: str, advice: str) -> Any:
    """The value in a JSON text, read strictly as by `json_value`.

    Arguments:
        where: how the message calls the text.

    Raises:
        InputError: for what `json_value` refuses.

    >>> parse_json('{"width": 8, "width": 9}', "config.json", "copy it again")
    Traceback (most recent call last):
        ...
    regard.errors.InputError: config.json: is not JSON (the key 'width' is there twice); copy it again
    """
    try:
        return json_value(text)
    except ValueError as error:
        raise InputError(f"{where}: is not JSON ({error}); {advice}") from None


def as_object(value: Any, where: str, advice: str) -> dict[str, Any]:
    """A JSON value that has to be an object.

    Raises:
        InputError: for another.
    """
    if not isinstance(value, dict):
        raise InputError(f"{where}: holds {spoken_kind(value)}, not a JSON object; {advice}")
    return value


def spoken_kind(value: Any) -> str:
    """What kind of value it is, in JSON's words.

    >>> spoken_kind([1]), spoken_kind(None), spoken_kind("a")
    ('a list', 'null', 'text')
    """
    kinds = ((bool, "true or false"), (int | float, "a number"), (str, "text"), (list, "a list"), (dict, "an object"))
    return "null" if value is None else next((name for kind, name in kinds if isinstance(value, kind)), "something")


def json_value(text: str | bytes, *, halves: bool = False) -> Any:
    """The value in a JSON text, by the standard's rules, which Python's own reader is laxer than.

    Arguments:
        halves: whether half of a surrogate pair is let through, for one who looks for it himself.

    Raises:
        ValueError: with the reason as half a sentence: no JSON or no UTF-8, a key that is there twice, NaN, an infinite number
            or a whole one of hundreds of digits, nesting of more than `DEEPEST` levels, half of a surrogate pair.

    >>> json_value('{"rate": 1e-3, "sizes": [1, 2]}')
    {'rate': 0.001, 'sizes': [1, 2]}
    """
    try:
        if isinstance(text, bytes | bytearray):
            text = text.decode("utf-8-sig")
        if not text.strip():
            raise ValueError("it is empty")
        value = _STRICT.decode(text)
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start:,} is not UTF-8") from None
    except RecursionError:
        raise ValueError(_too_deep()) from None
    except ValueError as error:
        raise ValueError(_own(error)) from None
    _check(value, halves=not halves and _HALF.search(text) is not None)
    return value


def json_value_at(text: str, place: int) -> tuple[Any, int]:
    """The JSON value that begins at `place` in a text, and where it ends; for values that stand one after another.

    Raises:
        ValueError: as `json_value`.

    >>> json_value_at("[1] [2]", 4)
    ([2], 7)
    """
    try:
        value, end = _STRICT.raw_decode(text, place)
    except RecursionError:
        raise ValueError(_too_deep()) from None
    except ValueError as error:
        raise ValueError(_own(error)) from None
    _check(value, halves=_HALF.search(text, place, end) is not None)
    return value, end


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice[:60]!r} is there twice")
    return found


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number that JSON has")


_TOO_LARGE = "a whole number has hundreds of digits"
_STRICT = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_number)


def _check(value: Any, *, halves: bool) -> None:
    """Refuse numbers that are not finite or too large, deep nesting and, where there may be any, half surrogate pairs."""
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        inner: list[Any] = []
        for part in level:
            kind = type(part)
            if kind is dict:
                inner.extend(part.values())
                if halves:
                    inner.extend(part)
            elif kind is list:
                inner.extend(part)
            elif kind is float:
                if not math.isfinite(part):
                    raise ValueError("a number is too large to be finite")
            elif kind is int:
                if not -LARGEST_NUMBER < part < LARGEST_NUMBER:
                    raise ValueError(_TOO_LARGE)
            elif halves and kind is str:
                _check_text(part)
        if not inner:
            return
        level = inner
    raise ValueError(_too_deep())


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("a text holds half of a surrogate pair") from None


def _own(error: ValueError) -> str:
    """The reason of an error; Python's own for a number of thousands of digits speaks of its settings."""
    return _TOO_LARGE if "integer string conversion" in str(error) else " ".join(str(error).split())


def _too_deep() -> str:
    return f"it is nested too deeply, more than {DEEPEST} levels"


# --- YAML -------------------------------------------------------------------------------------------------


def read_yaml(path: str | os.PathLike[str], advice: str, *, largest: int = LARGEST_YAML) -> Any:
    """The value in a YAML file, read strictly as by `yaml_value`.

    Raises:
        InputError: as `read_text`, and for what `yaml_value` refuses.
    """
    return parse_yaml(read_text(path, advice, largest=largest), os.fspath(path), advice)


def parse_yaml(text: str, where: str, advice: str) -> Any:
    """The value in a YAML text, read strictly as by `yaml_value`.

    Arguments:
        where: how the message calls the text.

    Raises:
        InputError: for what `yaml_value` refuses.
    """
    try:
        return yaml_value(text)
    except ValueError as error:
        raise InputError(f"{where}: is not YAML ({error}); {advice}") from None


def yaml_value(text: str) -> Any:
    r"""The value in a YAML text: null, true, false, numbers, texts, dates, lists and mappings; null for an empty one.

    An alias gives the value of its anchor; what would be too much when all are replaced is refused before any is.

    Raises:
        ValueError: with the reason as half a sentence: no YAML, a key that is there twice, a tag of another kind, nesting of more
            than `DEEPEST` levels, more than `MOST_NODES` values, or `MOST_VALUES` with aliases replaced, an alias within its
            own anchor, a number of hundreds of digits.

    >>> yaml_value("rate: 0.1\nsizes: [1, 2]")
    {'rate': 0.1, 'sizes': [1, 2]}
    """
    if len(text) > LARGEST_YAML:
        raise ValueError(f"it is longer than {_spoken(LARGEST_YAML)}")
    from regard.yaml_nodes import value_of  # which `--help` does not wait for

    try:
        value = value_of(text.removeprefix("\ufeff"), deepest=DEEPEST, most_nodes=MOST_NODES, most_values=MOST_VALUES)
    except RecursionError:  # where the caller stands deep already
        raise ValueError(_too_deep()) from None
    except ValueError as error:
        raise ValueError(_own(error)) from None
    _check_plain(value)
    return value


def _check_plain(value: Any) -> None:
    """Refuse whole numbers of hundreds of digits, and nesting that aliases made deep; NaN and infinity are the reader's."""
    level: dict[int, Any] = {id(value): value}
    for _ in range(DEEPEST):
        inner: dict[int, Any] = {}
        for part in level.values():
            if isinstance(part, dict):
                inner.update((id(each), each) for pair in part.items() for each in pair)
            elif isinstance(part, list):
                inner.update((id(each), each) for each in part)
            elif type(part) is int and not -LARGEST_NUMBER < part < LARGEST_NUMBER:
                raise ValueError(_TOO_LARGE)
        if not inner:
            return
        level = inner
    raise ValueError(_too_deep())
