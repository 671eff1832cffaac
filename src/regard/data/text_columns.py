"""Finding and reading the columns (or keys of objects) of text, pair and label; the values are not yet checked."""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.data.lines import read_lines
from regard.data.malformed import (
    MalformedRow,
    MalformedRows,
    decoded,
    first_fault,
    malformed_row,
    read_rows,
)
from regard.data.objects import Object, has_objects, objects_of, objects_of_jsonl, values_of
from regard.data.rows import parts_of
from regard.data.tables import (
    LABEL_COLUMNS,
    SAMPLE_ROWS,
    TEXT_COLUMNS,
    Row,
    columns_of_table,
    columns_read,
    csv_rows,
    guess_format,
    has_header,
    is_number_of_rows,
    place_of,
    tsv_rows,
    usual_width,
)
from regard.errors import InputError

# Usual names of text and pair; the first entry whose names are all present is used.
TEXT_NAMES: tuple[tuple[str, str | None], ...] = (
    ("text", "pair"),
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("text", None),
    ("sentence", None),
)
LABEL_NAMES = ("label", "score", "gold_label")

Column = int | str | None
LabelColumn = Column | tuple[int | str, ...]
"""Several columns if the label is several numbers."""


class Parts(NamedTuple):
    """The values in the columns of one row."""

    text: object
    pair: object
    label: object
    place: object
    rest: Mapping[str, Any] | None = None
    """The other columns, if they were requested."""


Keys = tuple[str | None, str | None, str | tuple[str, ...] | None]
FoundParts = Iterator[tuple[int, Parts] | MalformedRow]


def parts_of_file(
    name: str,
    format: str,
    chosen: tuple[Column, Column, LabelColumn],
    header: bool | str,
    labelled: bool,
    malformed: MalformedRows | None = None,
    rest: bool = False,
) -> FoundParts:
    """The parts of each row of a file of any format.

    Arguments:
        name: the path of the file.
        format: `tsv`, `csv`, `jsonl` or `auto`.
        chosen: the columns or keys of text, pair and label; those that are None are found by their usual names.
        header: whether the first line of a table is a header; "auto" to detect it.
        labelled: whether labels are read.
        malformed: where the columns that were read are recorded.
        rest: whether the other columns are kept.
    """
    if has_objects(name):
        return _parts_of_objects(name, objects_of(name), _keys(name, chosen), labelled, rest)
    lines = read_lines(name)
    if format == "auto":
        format, lines = guess_format(name, lines)
    if format == "jsonl":
        return _parts_of_objects(name, objects_of_jsonl(name, lines), _keys(name, chosen), labelled, rest)
    rows = tsv_rows(name, lines) if format == "tsv" else csv_rows(name, lines)
    sample = list(itertools.islice(rows, SAMPLE_ROWS))
    columns, headed, read = _columns(name, sample, chosen, header, labelled)
    if malformed is not None and read is not None:
        malformed.columns[name] = read
    others = other_columns(sample, columns, headed) if rest else ()
    return parts_of_table(name, itertools.chain(sample, rows), columns, headed, others=others)


def other_columns(sample: Sequence[Row], columns: Columns, headed: bool) -> list[tuple[int, str]]:
    """(index, name) of each column that is not read as a part; names come from the header, else `column_2` and so on."""
    first = next((row[1] for row in sample if not isinstance(row, MalformedRow)), [])
    header = [cell.strip() for cell in first] if headed else []
    several = columns.label if isinstance(columns.label, tuple) else ()
    held = {_place(header, part) for part in (*columns, *several) if isinstance(part, int | str)}
    width = len(header) if headed else usual_width(sample, 1)
    return [(place, header[place] if headed else f"column_{place}") for place in range(width) if place not in held]


def _keys(name: str, chosen: tuple[Column, Column, LabelColumn]) -> Keys:
    text, pair, label = chosen
    several = label if isinstance(label, tuple) else (label,)
    if isinstance(text, int) or isinstance(pair, int) or any(isinstance(key, int) for key in several):
        raise InputError(f"{name}: text, pair and label are keys here, as 'review.text', not column numbers")
    return text, pair, label  # type: ignore[return-value]  # no number among them


def _parts_of_objects(
    name: str, rows: Iterator[Object], chosen: Keys, labelled: bool, rest: bool = False
) -> FoundParts:
    def read(line: int, content: dict) -> tuple[int, Parts] | MalformedRow:
        text, pair = _texts(content, chosen[0], chosen[1])
        keys = [str(text), *([str(pair)] if pair else [])]
        label = chosen[2] or _label(content) or LABEL_NAMES[0]
        named = list(label) if isinstance(label, tuple) else [label]
        keys += named if labelled else []
        values = values_of(name, line, content, keys)
        if isinstance(values, MalformedRow):
            return values
        held = values[-len(named) :] if isinstance(label, tuple) else values[-1]
        others = {key: value for key, value in content.items() if key not in keys} if rest else None
        return line, Parts(values[0], values[1] if pair else None, held if labelled else None, None, others)

    return read_rows(rows, read)


def parts_of_mapping(row: Mapping[str, Any], where: str, chosen: Keys, wanted: str) -> tuple[Any, Any, Any]:
    """Text, pair and label of a mapping in memory, found by the same names as in JSONL; None for a missing pair or label.

    Raises:
        InputError: if it has no text, or lacks a key that was chosen.
    """
    text, pair = _texts(row, chosen[0], chosen[1])
    label = chosen[2] or _label(row)
    several = label if isinstance(label, tuple) else () if label is None else (label,)
    names = [[str(name)] for name in (text, pair, *several) if name is not None]
    found = iter(parts_of(row, where, names, wanted))
    first, second, held = next(found), next(found) if pair is not None else None, list(found)
    return first, second, held if isinstance(label, tuple) else next(iter(held), None)


def _columns(
    name: str, sample: list[Row], chosen: tuple[Column, Column, LabelColumn], header: bool | str, labelled: bool
) -> tuple[Columns, bool, str | None]:
    """The columns of the parts, whether the first row is a header, and a note for the user if not all columns were chosen."""
    text, pair, label = chosen
    several = label if isinstance(label, tuple) else ()
    label = label[0] if isinstance(label, tuple) else label
    by_name = any(isinstance(column, str) for column in (text, pair, label, *several))
    if by_name and header is False:
        raise InputError(
            f"{name}: columns are given by name, so the first line must be a header; leave out header=False"
        )
    first = sample[0]
    cells = [] if isinstance(first, MalformedRow) else [cell.strip() for cell in first[1]]
    open_choice = all(column is None for column in chosen)
    usual = usual_texts(cells) is not None and not (labelled and _label(cells) is None)
    say = "say which columns they are, by name where the first line has names, such as data.text=message" + (
        " data.label=kind, else counted from 0: data.text=0 data.label=1"
        if labelled
        else ", else counted from 0: data.text=0"
    )
    headed = header is True or by_name
    if header == "auto" and not by_name:
        headed = usual or has_header(name, sample, say if open_choice else None)
    if headed and open_choice and header == "auto" and not usual:
        text, label = _by_other_names(name, cells, labelled, say)
    elif headed:
        text, pair = _texts(cells, text, pair) if text is not None or usual_texts(cells) else (None, pair)
        label = label if label is not None else _label(cells)
    elif open_choice and header == "auto" and usual_width(sample, 1) > 2 and is_number_of_rows(sample, 0):
        raise InputError(f"{name}: has no header, and its first column contains row numbers; {say}")
    text = 0 if text is None else text
    width = len(cells) if headed else usual_width(sample, 2 if labelled else 1)
    places = {side: _place(cells, column) for side, column in (("text", text), ("pair", pair), ("label", label))}
    if labelled and label is None:
        label = max((place for place in range(width) if place not in places.values()), default=width)
        places["label"] = label
    places |= {f"label {number}": _place(cells, column) for number, column in enumerate(several[1:], start=2)}
    if not labelled:
        places = {side: place for side, place in places.items() if not side.startswith("label")}
        label, several = None, ()
    note = None
    held = [place for place in places.values() if place is not None]
    named = by_name and chosen[0] is not None and (label is None or chosen[2] is not None)
    clear = named or (usual and open_choice and len(held) == width)  # only the usual names, and no other columns
    if not clear and all(0 <= place < width for place in held):
        note = columns_read(list(places.items()), cells if headed else None, width)
    return Columns(text, pair, several or label), headed, note


def _by_other_names(name: str, header: list[str], labelled: bool, say: str) -> tuple[int, int | None]:
    """The column indices of text and label in a header that does not have the usual names of both.

    Raises:
        InputError: if they cannot be identified, or several columns qualify.
    """
    text, label = place_of(header, TEXT_COLUMNS), place_of(header, LABEL_COLUMNS)
    if len(header) == 2 and labelled and (text is None) != (label is None):
        text, label = (1 - label, label) if label is not None else (text, 1 - (text or 0))
    if len(header) == 1:
        text = 0
    if text is None or (labelled and label is None):
        raise InputError(f"{name}: its columns are {', '.join(map(repr, header))}; {say}")
    return text, label


def _place(header: Sequence[str], column: Column) -> int | None:
    return (
        header.index(column)
        if isinstance(column, str) and column in header
        else column
        if isinstance(column, int)
        else None
    )


Present = Sequence[str] | Mapping[str, Any]


def _texts(present: Present, text: Column, pair: Column) -> tuple[Column, Column]:
    """The columns of text and pair: the chosen ones, else by usual names. If only the text is chosen, there is no pair."""
    if text is not None:
        return text, pair
    usual = usual_texts(present) or TEXT_NAMES[-2]
    return usual[0], usual[1] if pair is None else pair


def usual_texts(present: Present) -> tuple[str, str | None] | None:
    """The usual names of text and pair (or None) that are present; None if there are none."""
    return next(((text, pair) for text, pair in TEXT_NAMES if text in present and pair in (None, *present)), None)


def _label(present: Present) -> str | None:
    return next((name for name in LABEL_NAMES if name in present), None)


def parts_of_table(
    name: str,
    rows: Iterator[Row],
    columns: Columns,
    header: bool,
    ragged: bool = False,
    others: Sequence[tuple[int, str]] = (),
) -> FoundParts:
    """The parts of each row of a table.

    Arguments:
        name: the name of the file in messages.
        rows: the rows, beginning with the header if there is one.
        columns: the columns of the parts.
        header: whether the first row is a header.
        ragged: whether rows may have additional columns.
        others: (index, name) of other columns that are kept.
    """
    several = columns.label if isinstance(columns.label, tuple) else ()
    held = [column for column in columns if column is not None and not isinstance(column, tuple)]
    held += several

    def read(line: int, values: list[str]) -> tuple[int, Parts]:
        cells = iter(values)
        alone = [None if column is None or isinstance(column, tuple) else next(cells) for column in columns]
        found = Parts(*alone, rest=None)
        if several:
            found = found._replace(label=list(itertools.islice(cells, len(several))))
        if others:
            found = found._replace(rest=dict(zip((called for _, called in others), cells, strict=True)))
        return line, found

    return read_rows(columns_of_table(name, rows, [*held, *(place for place, _ in others)], header, ragged), read)


def with_labels(name: str, rows: FoundParts, label_name: str) -> FoundParts:
    """The rows, with line i of another file as the label of row i."""
    lines = read_lines(label_name)

    def joined() -> FoundParts:
        for count, (row, line) in enumerate(itertools.zip_longest(rows, lines)):
            if row is None or line is None:
                more, fewer = (label_name, name) if row is None else (name, label_name)
                detail = (
                    f"{fewer} has {count:,} and {more} more; if a line was lost before, the labels after it are wrong"
                )
                number = count + 1 if row is None else row.line if isinstance(row, MalformedRow) else row[0]
                yield malformed_row(more, number, "different numbers of texts and labels", detail)
                return
            label = decoded(label_name, line)
            if isinstance(row, MalformedRow):
                yield row
            elif isinstance(label, MalformedRow):
                yield label
            else:
                yield row[0], row[1]._replace(label=label)

    return joined()


class Columns(NamedTuple):
    """The columns of a labelled text, each an index from 0 or a name in the header; None if there is no such column.

    The column `place` contains the index of a word among the words separated by spaces: "7" in the text, or "7-2" in the text
    and in its pair.
    """

    text: int | str
    pair: int | str | None = None
    label: int | str | tuple[int | str, ...] | None = None
    place: int | str | None = None


SUFFIXES = (".csv", ".jsonl", ".ndjson", ".parquet")


class RowText(NamedTuple):
    """The text of a row (empty if the cell is empty), and the whole row by column name."""

    line: int
    text: str
    row: dict[str, Any]


class Table(NamedTuple):
    """A table: its format (`csv`, `tsv` or `jsonl`), an iterator over its rows, and a note that says which columns are read.

    The note is empty if the column was named.
    """

    kind: str
    rows: Iterator[RowText]
    note: str = ""


def is_table(path: Path, column: str | None, known: Sequence[str] = ()) -> bool:
    """Whether a file is read as a table: if a column is named, if its suffix says so, or if it is TSV with a header.

    Arguments:
        path: the path of the file.
        column: the column that the user named; None if none.
        known: column names; a TSV file whose first row has all of them has a header.
    """
    name = path.name.lower().removesuffix(".gz")
    if column is not None or name.endswith(SUFFIXES):
        return True
    if not name.endswith((".tsv", ".tab")):
        return False
    sample = list(itertools.islice(tsv_rows(str(path), read_lines(path)), SAMPLE_ROWS))
    return _named_all(known, _cells(sample)) or has_header(str(path), sample, None)


def _cells(sample: Sequence[Row]) -> list[str]:
    """The cells of the first row."""
    return [] if not sample or isinstance(sample[0], MalformedRow) else [cell.strip() for cell in sample[0][1]]


def _named_all(known: Sequence[str], present: Container[str]) -> bool:
    return bool(known) and all(name in present for name in known)


def read_table(path: Path, column: str | None, *, pairs: bool = False, known: Sequence[str] = ()) -> Table:
    """Read the texts of a table.

    Arguments:
        path: the path of the file.
        column: the column of the text, by name or by index from 0; if None, the columns in `known`, else the usual names of
            text columns.
        known: the columns that the model was trained on (text, and pair if any); used if the table has all of them.
        pairs: whether two texts may be read from the usual columns of text and pair; they are joined by a tab.

    Raises:
        InputError: if the file cannot be read, or the column is missing or ambiguous; while reading, for an unusable row.
    """
    name = str(path)
    if has_objects(name):
        return Table("jsonl", _of_objects(name, objects_of(name), column, pairs, known))
    format, lines = guess_format(name, read_lines(path, pipes=True))
    if format == "jsonl":
        return Table(format, _of_objects(name, objects_of_jsonl(name, lines), column, pairs, known))
    rows = tsv_rows(name, lines) if format == "tsv" else csv_rows(name, lines)
    sample = list(itertools.islice(rows, SAMPLE_ROWS))
    say = "say which column holds the text, by its name or counted from 0: --text 0"
    cells = _cells(sample)
    as_trained = column is None and len(known) <= 1 + pairs and _named_all(known, cells)
    counted = column is not None and column not in cells and column.isdecimal()
    headed = (column is not None and not counted) or as_trained or has_header(name, sample, None if counted else say)
    names = cells if headed else [f"column_{place}" for place in range(usual_width(sample, 1))]
    if column is not None:
        wanted: list[int | str] = [int(column) if counted else column]
    elif as_trained:
        wanted = list(known)
    else:
        usual = usual_texts(cells) if headed and pairs else None
        if usual is not None and usual[1] is not None:
            wanted = [usual[0], usual[1]]
        else:
            place = 0 if len(names) == 1 else place_of(cells, TEXT_COLUMNS) if headed else None
            if place is None:
                raise InputError(f"{name}: its columns are {', '.join(map(repr, names))}; {say}")
            wanted = [place]
    chosen = [*wanted, *range(len(names))]
    every = columns_of_table(name, itertools.chain(sample, rows), chosen, headed)
    return Table(
        format, _of_rows(every, names, len(wanted)), "" if column is not None else _note(name, wanted, names, headed)
    )


def _note(name: str, wanted: Sequence[int | str], names: Sequence[str], headed: bool) -> str:
    """A sentence that says which columns are read, and whether the first line is a header."""
    read = [each if isinstance(each, str) else names[each] for each in wanted]
    if not headed:
        return f"{name}: has no header, so its first line is read as a text; if it is a header, give --text NAME"
    columns = " and ".join(map(repr, read))
    return f"{name}: the first line names the columns, of which {columns} {'is' if len(read) == 1 else 'are'} read"


def _of_rows(rows: Iterator[Row], names: list[str], texts: int) -> Iterator[RowText]:
    for row in rows:
        if isinstance(row, MalformedRow):
            if row.reason == "empty line":
                continue
            raise InputError(f"{row}; correct the row, or remove it")
        line, cells = row
        yield RowText(line, "\t".join(cells[:texts]), dict(zip(names, cells[texts:], strict=True)))


def _of_objects(
    name: str, rows: Iterator[Object], column: str | None, pairs: bool, known: Sequence[str]
) -> Iterator[RowText]:
    for row in rows:
        if isinstance(row, MalformedRow):
            raise InputError(f"{row}; correct the row, or remove it")
        line, content = row
        usual = usual_texts(content) if column is None else None
        keys = [column] if column is not None else [usual[0]] if usual is not None else ["text"]
        if usual is not None and usual[1] is not None and pairs:
            keys.append(usual[1])
        if column is None and len(known) <= 1 + pairs and _named_all(known, content):
            keys = list(known)
        found = values_of(name, line, content, [str(key) for key in keys])
        if isinstance(found, MalformedRow):
            raise InputError(f"{found}; name the key of the text with --text")
        fault = first_fault(("text", each) for each in found if each != "")
        if fault is not None and not fault[0].startswith("empty"):
            raise InputError(f"{name}, line {line}: {fault[0]} ({fault[1]}); correct the row, or remove it")
        yield RowText(line, "\t".join(map(str, found)), content)
