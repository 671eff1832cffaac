"""Reading pairs of texts one by one: TSV, CSV, JSONL or two parallel files, optionally gzipped, or a hub dataset."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from regard.data.lines import Line, read_lines
from regard.data.malformed import (
    MalformedRow,
    MalformedRows,
    decoded,
    first_fault,
    malformed_row,
    read_rows,
    usable,
)
from regard.data.objects import Object, has_objects, objects_of, objects_of_jsonl, values_of
from regard.data.rows import listed, parts_of, sound
from regard.data.tables import (
    FORMATS,
    PAIR_COLUMNS,
    SAMPLE_ROWS,
    Row,
    columns_of_table,
    columns_read,
    csv_rows,
    guess_format,
    has_header,
    header_of,
    is_number_of_rows,
    place_of,
    tsv_rows,
    usual_width,
)
from regard.errors import InputError, nearest
from regard.reading import AnyPath

__all__ = ["FORMATS", "MalformedRow", "MalformedRows", "Pair", "pairs_in_memory", "read_pairs", "read_parallel"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """A source text and its target, with the file and line (from 1) they were read from.

    >>> Pair(source="9 May 2017", target="2017-05-09", file="dates.tsv", line=3).target
    '2017-05-09'
    """

    source: str
    target: str
    file: str
    line: int


Found = Iterator[Pair | MalformedRow]


def read_pairs(
    path: AnyPath | Sequence[AnyPath],
    *,
    format: str = "auto",
    source: int | str | None = None,
    target: int | str | None = None,
    on_error: Literal["skip", "stop"] | str = "skip",
    malformed: MalformedRows | None = None,
) -> Iterator[Pair]:
    r"""The pairs in a file, one by one, in order; the file is never held in memory.

    Files are UTF-8, plain or gzip (recognised by content), with or without a byte-order mark, with LF or CRLF line ends.
    Texts are returned unchanged, including surrounding spaces.

    Arguments:
        path: a file; or two parallel files, source first; or a dataset of the Hugging Face hub,
            `hub:owner/name[:configuration][@split]` (the default split is `train`).
        format: `tsv` (no quoting), `csv` (quoting as in RFC 4180), `jsonl` (one object per line), or `auto` (by the file's
            name, else by its first line).
        source: the column or key of the source. In TSV and CSV an index from 0 or a name in the header. If neither source
            nor target is given, they are found by their usual names in a header, else they are the first two columns; the
            file is refused if its columns cannot be identified. `malformed.columns` records which columns were read. In JSONL
            and hub datasets a key (default "source"); "translation.en" means key "en" of the object under "translation".
        target: the same for the target (default "target").
        on_error: what to do with a malformed row: `skip` (record it and leave it out) or `stop` (raise `InputError`).
        malformed: where malformed rows are recorded.

    Raises:
        InputError: if the file cannot be used at all (missing, empty, binary, wrong encoding, broken gzip, a column is
            missing, no usable row); raised by the call or while reading. Also for a malformed row if `on_error` is `stop`.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "pairs.tsv"
    >>> _ = file.write_text("one\tun\ntwo\nthree\ttrois\n")
    >>> malformed = MalformedRows()
    >>> [(pair.source, pair.target, pair.line) for pair in read_pairs(file, malformed=malformed)]
    [('one', 'un', 1), ('three', 'trois', 3)]
    >>> malformed.by_reason
    {'wrong number of columns': 1}
    """
    if format not in FORMATS:
        raise InputError(f"data format {format!r} is not known; {nearest(format, FORMATS)}")
    if not isinstance(path, str | os.PathLike):
        files = list(path)
        if len(files) != 2:
            raise InputError(f"data path: {len(files)} files given; give one file, or two: source and target")
        if format != "auto" or source is not None or target is not None:
            raise InputError("data path: two parallel files have no columns; leave out format, source and target")
        return read_parallel(files[0], files[1], on_error=on_error, malformed=malformed)
    name = os.fspath(path)
    if has_objects(name):
        keys = _keys(name, source, target)
        needed = f"each row needs texts under {keys[0]!r} and {keys[1]!r}; name others as source and target"
        return usable(_from_objects(name, objects_of(name), keys), name, needed, on_error, malformed)
    lines = read_lines(name)
    if format == "auto":
        format, lines = guess_format(name, lines)
    if format == "jsonl":
        keys = _keys(name, source, target)
        needed = (
            f"each line needs to be a JSON object with texts under {keys[0]!r} and {keys[1]!r}; "
            "name other keys as source and target"
        )
        return usable(_from_objects(name, objects_of_jsonl(name, lines), keys), name, needed, on_error, malformed)
    rows = tsv_rows(name, lines) if format == "tsv" else csv_rows(name, lines)
    rows, columns, headed = _columns(name, rows, source, target, MalformedRows() if malformed is None else malformed)
    delimiter = "tab" if format == "tsv" else "comma"
    needed = f"each line needs two {delimiter}-separated columns, source and target"
    if columns != (0, 1) or headed:
        needed = f"each line needs the {delimiter}-separated columns {columns[0]!r} and {columns[1]!r}"
    cells = columns_of_table(name, rows, columns, headed)
    pairs = read_rows(cells, lambda line, texts: pair_or_fault(name, line, *texts))
    return usable(pairs, name, needed, on_error, malformed)


def _columns(
    name: str, rows: Iterator[Row], source: int | str | None, target: int | str | None, malformed: MalformedRows
) -> tuple[Iterator[Row], tuple[int | str, int | str], bool]:
    """The rows, the columns of source and target, and whether the first row names the columns."""
    if isinstance(source, str) or isinstance(target, str):
        return rows, (0 if source is None else source, 1 if target is None else target), True
    chosen = 0 if source is None else source, 1 if target is None else target
    sample = list(itertools.islice(rows, SAMPLE_ROWS))
    rows = itertools.chain(sample, rows)
    say = (
        "say which columns are source and target, by name or counted from 0: data.source=0 data.target=1 in training, "
        "--source 0 --target 1 in evaluation"
    )
    unnamed = source is None and target is None
    headed = has_header(name, sample, say if unnamed else None)
    header = header_of(name, iter(sample)) if headed else None
    width = usual_width(sample, 2)
    if unnamed and header is not None:
        found = [(place_of(header, [left]), place_of(header, [right])) for left, right in PAIR_COLUMNS]
        known = [(left, right) for left, right in found if left is not None and right is not None]
        if not known and len(header) > 2:
            raise InputError(f"{name}: its columns are {', '.join(map(repr, header))}; {say}")
        chosen = known[0] if known else chosen
    elif unnamed and width > 2 and is_number_of_rows(sample, 0):
        raise InputError(f"{name}: has {width} columns and no header, and the first contains row numbers; {say}")
    if max(chosen) < width and (
        header is not None or width > 2 or not unnamed
    ):  # a table of only two columns without a header needs no note
        malformed.columns[name] = columns_read(list(zip(("source", "target"), chosen, strict=True)), header, width)
    return rows, chosen, headed


def pairs_in_memory(
    given: Any, source: int | str | None = None, target: int | str | None = None, split: str = "given"
) -> list[Pair]:
    """Pairs from rows in memory: (source, target), or mappings such as rows of the library `datasets`.

    Arguments:
        given: the rows.
        source, target: the keys in mappings, by default "source" and "target". "translation.en" means key "en" of the mapping
            under "translation".
        split: the name of the split in messages, such as "train".

    Raises:
        InputError: for the first row that is not a pair of two non-empty texts.

    >>> [pair.target for pair in pairs_in_memory([("one", "un"), {"source": "two", "target": "deux"}])]
    ['un', 'deux']
    """
    wanted = "(source, target), two texts"
    names = [[source if isinstance(source, str) else "source"], [target if isinstance(target, str) else "target"]]
    found = []
    for number, row in enumerate(listed(given, f"{split} pairs", wanted), start=1):
        if isinstance(row, Pair):
            row = (row.source, row.target)
        left, right = parts_of(row, f"pair {number}", names, wanted)
        found.append(sound(pair_or_fault("pairs", number, left, right), wanted))
    return found


def read_parallel(
    source_path: AnyPath,
    target_path: AnyPath,
    *,
    on_error: Literal["skip", "stop"] | str = "skip",
    malformed: MalformedRows | None = None,
) -> Iterator[Pair]:
    r"""The pairs of two parallel files: line i of one with line i of the other. Each may be gzip.

    If one file has more lines, its first line without a partner is recorded as malformed, with both line counts.

    Arguments:
        source_path: the file with one source per line.
        target_path: the file with one target per line.
        on_error: as in `read_pairs`.
        malformed: as in `read_pairs`.

    Raises:
        InputError: as `read_pairs`.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.en").write_text("one\ntwo\n"), (folder / "a.fr").write_text("un\ndeux\n")
    >>> [pair.target for pair in read_parallel(folder / "a.en", folder / "a.fr")]
    ['un', 'deux']
    """
    names = os.fspath(source_path), os.fspath(target_path)
    found = _from_parallel(names[0], read_lines(names[0]), names[1], read_lines(names[1]))
    needed = "each line needs a text that is not empty in both files"
    return usable(found, f"{names[0]} and {names[1]}", needed, on_error, malformed)


def _from_parallel(source_name: str, sources: Iterator[Line], target_name: str, targets: Iterator[Line]) -> Found:
    for count, (left, right) in enumerate(itertools.zip_longest(sources, targets)):
        if left is None or right is None:
            over, rest = (source_name, sources) if right is None else (target_name, targets)
            longer = count + 1 + sum(1 for _ in rest)
            left_count, right_count = (longer, count) if right is None else (count, longer)
            detail = (
                f"{source_name} has {left_count:,} lines and {target_name} {right_count:,}; the last "
                f"{longer - count:,} have no partner; if a line was lost before, the pairs after it are wrong"
            )
            yield malformed_row(over, count + 1, "different numbers of lines", detail)
            return
        yield _pair_of_lines(source_name, left, target_name, right)


def _pair_of_lines(source_name: str, left: Line, target_name: str, right: Line) -> Pair | MalformedRow:
    source = decoded(source_name, left)
    if isinstance(source, MalformedRow):
        return source
    target = decoded(target_name, right)
    if isinstance(target, MalformedRow):
        return target
    if source.strip() and not target.strip():
        return malformed_row(target_name, right.number, "empty target")
    return pair_or_fault(source_name, left.number, source, target)


def pair_or_fault(name: str, line: int, source: object, target: object) -> Pair | MalformedRow:
    """The pair of two values, or a `MalformedRow` if one of them is not a usable text."""
    fault = first_fault([("source", source), ("target", target)])
    if fault is not None:
        return malformed_row(name, line, *fault)
    return Pair(source=str(source), target=str(target), file=name, line=line)


def _keys(name: str, source: int | str | None, target: int | str | None) -> tuple[str, str]:
    """The keys of source and target; the default names if none were given."""
    if isinstance(source, int) or isinstance(target, int):
        raise InputError(f"{name}: source and target are keys here, as 'translation.en', not column numbers")
    return source or "source", target or "target"


def _from_objects(name: str, rows: Iterator[Object], keys: tuple[str, str]) -> Found:
    def pair(line: int, row: dict) -> Pair | MalformedRow:
        values = values_of(name, line, row, keys)
        return values if isinstance(values, MalformedRow) else pair_or_fault(name, line, *values)

    return read_rows(rows, pair)
