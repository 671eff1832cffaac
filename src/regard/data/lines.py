"""Reading text files line by line: plain or gzip, with a bounded line length and clear errors for unusable files."""

from __future__ import annotations

import contextlib
import gzip
import io
import itertools
import os
import shlex
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, NamedTuple, TypeVar

from regard.errors import InputError
from regard.reading import AnyPath, file_errors, open_regular, open_stream

T = TypeVar("T")

LONGEST_LINE = 1 << 20  # bytes; longer lines are malformed and are not kept in memory
ENDLESS = 1 << 28  # bytes; a file with a longer line is refused
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_SAMPLE_LINES = 1000
_SAMPLE_BYTES = 1 << 20
_WIDE_MARKS = {b"\xff\xfe\0\0": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
_PACKED = {
    b"PK\x03\x04": "a zip archive",
    b"BZh": "bzip2 data",
    b"\xfd7zXZ": "xz data",
    b"(\xb5/\xfd": "zstandard data",
    b"PAR1": "a Parquet file",
}
# Control characters that do not occur in text; tab, line feed, form feed, carriage return and escape do.
_CONTROL = bytes(sorted(set(range(32)) - {9, 10, 12, 13, 27}))


def files_of(path: AnyPath | Sequence[AnyPath], what: str) -> list[AnyPath]:
    """One path or several, as a list.

    Arguments:
        path: a path, or several.
        what: what the files contain, for the message.

    Raises:
        InputError: for an empty list.
    """
    files = [path] if isinstance(path, str | os.PathLike) else list(path)
    if not files:
        raise InputError(f"no file of {what} is given; name at least one")
    return files


def read_each(files: Sequence[AnyPath], read: Callable[[AnyPath], Iterator[T]]) -> Iterator[T]:
    """The items that `read` yields for each file in turn. The call opens the first file; the others are opened when reached."""
    return itertools.chain(read(files[0]), itertools.chain.from_iterable(map(read, files[1:])))


class Line(NamedTuple):
    """One line: its number from 1, its bytes without the line end, and whether it was too long and truncated."""

    number: int
    content: bytes
    too_long: bool = False


def read_lines(path: str | os.PathLike[str], *, pipes: bool = False) -> Iterator[Line]:
    r"""The lines of a UTF-8 text file, one by one; gzip (recognised by content), a byte-order mark and CRLF are handled.

    The call itself opens the file and checks its beginning.

    Arguments:
        path: the path of the file.
        pipes: whether a pipe is accepted, as in `open_file`.

    Raises:
        InputError: if the file does not exist, is a folder or a device, is not readable, is empty, is binary, has another
            encoding, or is broken gzip.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "a.txt"
    >>> _ = file.write_bytes(b"one\r\ntwo")
    >>> [line.content for line in read_lines(file)]
    [b'one', b'two']
    """
    name = os.fspath(path)
    stream = open_file(name, pipes=pipes)
    try:
        lines = _split(stream, name)
        sample = _sample(lines)
        _judge(name, sample)
    except BaseException:
        stream.close()
        raise
    return itertools.chain(sample, lines)


def open_file(name: str, *, pipes: bool = False) -> BinaryIO:
    """Open a file for reading bytes; a gzip file (recognised by content) is decompressed.

    Arguments:
        name: the path of the file.
        pipes: whether a pipe is accepted, which can be opened and read only once.

    Raises:
        InputError: if the file does not exist, is a folder or a device, or is not readable; if it is a pipe and `pipes` is
            False, or nothing is written into the pipe.
    """
    advice = "check the path and its permissions"
    stream = open_stream(name, advice) if pipes else open_regular(name, advice)
    with file_errors(name, advice):
        if stream.peek(2)[:2] == b"\x1f\x8b":  # type: ignore[attr-defined]
            return io.BufferedReader(_Gunzip(stream), 1 << 16)  # type: ignore[arg-type]
    return stream


class _Gunzip(gzip.GzipFile):
    """A gzip stream that closes its underlying file."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__(fileobj=stream, mode="rb")
        self._stream = stream

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        # Read in small steps, so that all data before a truncation is returned.
        content = self.read1(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        super().close()
        self._stream.close()


def _split(stream: BinaryIO, name: str) -> Iterator[Line]:
    number = 0
    with reading_errors(name, lambda: f"line {number}"), stream:
        for number in itertools.count(1):
            content = stream.readline(LONGEST_LINE + 2)
            if not content:
                return
            if number == 1:
                content = content.removeprefix(BYTE_ORDER_MARK)
            if content.endswith(b"\n"):
                content = content[:-1]
            elif len(content) > LONGEST_LINE:
                _pass_over(stream, name, number)
            too_long = len(content) > LONGEST_LINE
            yield Line(number, content[: 1 << 12] if too_long else content.removesuffix(b"\r"), too_long)


def _pass_over(stream: BinaryIO, name: str, number: int) -> None:
    """Read to the end of a line that is too long; refuse a line without an end, which a small gzip file may decompress to."""
    passed = LONGEST_LINE
    while (rest := stream.readline(1 << 16)) and not rest.endswith(b"\n"):
        passed += len(rest)
        if passed > ENDLESS:
            raise InputError(f"{name}: line {number} does not end within {ENDLESS >> 20} MiB; give a text file")


@contextlib.contextmanager
def reading_errors(name: str, where: Callable[[], str]) -> Iterator[None]:
    """Convert errors while reading the file `name` into an `InputError` of one sentence.

    Arguments:
        name: the path of the file.
        where: a function that returns how far reading has come, such as "line 7".

    Raises:
        InputError: for broken gzip data or a failure of the file system.
    """
    try:
        yield
    except EOFError:
        raise InputError(
            f"{name}: the gzip data ends too early, in {where()}; it was cut short, so fetch it again"
        ) from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{name}: the gzip data is corrupt at {where()} ({error}); fetch it again") from None
    except OSError as error:
        raise InputError(f"{name}: reading failed at {where()} ({error.strerror or error})") from None


def _sample(lines: Iterator[Line]) -> list[Line]:
    sample: list[Line] = []
    seen = 0
    for line in itertools.islice(lines, _SAMPLE_LINES):
        sample.append(line)
        seen += len(line.content)
        if seen > _SAMPLE_BYTES:
            break
    return sample


def _judge(name: str, sample: list[Line]) -> None:
    """Refuse a file that is not UTF-8 text at all. Single malformed lines are reported by the readers."""
    if not any(line.content.strip() for line in sample):
        raise InputError(f"{name}: is empty; give a file with text in it")
    head = b"\n".join(line.content for line in itertools.islice(sample, 100))[: 1 << 16]
    not_text = b"\0" in head or not is_utf_8(Line(1, head, too_long=True))
    for mark, packing in _PACKED.items():
        if not_text and head.startswith(mark):
            raise InputError(f"{name}: is {packing}, not text; unpack it first (gzip and plain text are read)")
    marked = (encoding for mark, encoding in _WIDE_MARKS.items() if head.startswith(mark))
    encoding = next(marked, None) or _wide(head)
    if encoding is not None:
        raise wrong_encoding(name, encoding)
    broken = binary = beyond_ascii = 0
    for line in sample:
        if line.content.isascii():
            binary += b"\0" in line.content
            continue
        if is_utf_8(line):
            beyond_ascii += 1
            binary += b"\0" in line.content
        else:
            broken += 1
            binary += any(byte in _CONTROL for byte in line.content[: 1 << 12])
    control = len(head) - len(head.translate(None, _CONTROL))
    if 2 * binary > len(sample) or (not_text and 5 * control > len(head)):
        raise InputError(f"{name}: is a binary file, not text; give a UTF-8 text file (TSV, CSV or JSONL)")
    # A few broken lines among many are reported one by one. If most non-ASCII lines are not UTF-8, the whole file has
    # another encoding, and skipping would drop exactly the sentences with accents.
    if broken >= 3 and broken > beyond_ascii and 5 * broken > len(sample):
        raise wrong_encoding(name, None)


def is_utf_8(line: Line) -> bool:
    """Whether the bytes are UTF-8; in a truncated line the last character may be incomplete."""
    try:
        line.content.decode()
    except UnicodeDecodeError as error:
        return line.too_long and error.start > len(line.content) - 4
    return True


def wrong_encoding(name: str, encoding: str | None) -> InputError:
    """The error for a text file that is not UTF-8; `encoding` is None if it is unknown."""
    what = f"is {encoding}" if encoding else "is not UTF-8 (perhaps LATIN1 or CP1252)"
    return InputError(
        f"{name}: the text {what}, and UTF-8 is needed; convert it: "
        f"iconv -f {encoding or 'LATIN1'} -t UTF-8 {shlex.quote(name)} > converted"
    )


def _wide(head: bytes) -> str | None:
    """The encoding if this is UTF-16 without a byte-order mark: for mostly ASCII text, every other byte is zero."""
    even, odd = head[::2], head[1::2]
    if len(head) < 4:
        return None
    if odd.count(0) > 0.6 * len(odd) and even.count(0) < 0.1 * len(even):
        return "UTF-16LE"
    if even.count(0) > 0.6 * len(even) and odd.count(0) < 0.1 * len(odd):
        return "UTF-16BE"
    return None
