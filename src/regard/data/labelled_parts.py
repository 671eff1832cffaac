"""The parts of labelled texts as they stand in the rows of a file: text, pair and label, not yet checked."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from regard.data.file_format import guess
from regard.data.header import LABEL, SAMPLE, TEXT, columns_read, has_header, is_number_of_rows, place_of
from regard.data.labelled_formats import Columns
from regard.data.lines import read_lines
from regard.data.malformed import MalformedRow, MalformedRows
from regard.data.objects import Object, has_objects, objects_of, objects_of_jsonl, values_of
from regard.data.pair import decoded, malformed_row
from regard.data.rows import parts_of
from regard.data.tables import Row, columns_of_table, csv_rows, tsv_rows, usual_width
from regard.errors import InputError

# How text and pair are usually called; the first that are all there are meant.
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
"""Several, where a text has several numbers."""


class Parts(NamedTuple):
    """What stands in the columns of one row."""

    text: object
    pair: object
    label: object
    place: object
    rest: Mapping[str, Any] | None = None
    """The other columns, where they were asked for."""


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
    """The parts of each row of a file of any format; columns and keys that are not chosen are found by their usual names.

    Arguments:
        rest: whether the other columns are kept.
    """
    if has_objects(name):
        return _parts_of_objects(name, objects_of(name), _keys(name, chosen), labelled, rest)
    lines = read_lines(name)
    if format == "auto":
        format, lines = guess(name, lines)
    if format == "jsonl":
        return _parts_of_objects(name, objects_of_jsonl(name, lines), _keys(name, chosen), labelled, rest)
    rows = tsv_rows(name, lines) if format == "tsv" else csv_rows(name, lines)
    sample = list(itertools.islice(rows, SAMPLE))
    columns, headed, read = _columns(name, sample, chosen, header, labelled)
    if malformed is not None and read is not None:
        malformed.columns[name] = read
    others = other_columns(sample, columns, headed) if rest else ()
    return parts_of_table(name, itertools.chain(sample, rows), columns, headed, others=others)


def other_columns(sample: Sequence[Row], columns: Columns, headed: bool) -> list[tuple[int, str]]:
    """Place and name of each column that holds no part; names are those of the header, else `column_2` and so on."""
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
    for row in rows:
        if isinstance(row, MalformedRow):
            yield row
            continue
        line, content = row
        text, pair = _texts(content, chosen[0], chosen[1])
        keys = [str(text), *([str(pair)] if pair else [])]
        label = chosen[2] or _label(content) or LABEL_NAMES[0]
        named = list(label) if isinstance(label, tuple) else [label]
        keys += named if labelled else []
        values = values_of(name, line, content, keys)
        if isinstance(values, MalformedRow):
            yield values
        else:
            held = values[-len(named) :] if isinstance(label, tuple) else values[-1]
            others = {key: value for key, value in content.items() if key not in keys} if rest else None
            yield line, Parts(values[0], values[1] if pair else None, held if labelled else None, None, others)


def parts_of_mapping(row: Mapping[str, Any], where: str, chosen: Keys, wanted: str) -> tuple[Any, Any, Any]:
    """Text, pair and label of a mapping in memory, by the same names as those of JSONL; None for a pair or label there is not.

    Raises:
        InputError: where it has no text, or lacks a key that was chosen.
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
    """Which columns hold the parts, whether the first row names the columns, and what to tell of it where not all are chosen."""
    text, pair, label = chosen
    several = label if isinstance(label, tuple) else ()
    label = label[0] if isinstance(label, tuple) else label
    by_name = any(isinstance(column, str) for column in (text, pair, label, *several))
    if by_name and header is False:
        raise InputError(
            f"{name}: columns are given by name, so the first line has to name them; leave out header=False"
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
        raise InputError(f"{name}: has no header, and its first column holds a number for each row; {say}")
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
    told = None
    held = [place for place in places.values() if place is not None]
    named = by_name and chosen[0] is not None and (label is None or chosen[2] is not None)
    clear = named or (usual and open_choice and len(held) == width)  # the usual names and no other column
    if not clear and all(0 <= place < width for place in held):
        told = columns_read(list(places.items()), cells if headed else None, width)
    return Columns(text, pair, several or label), headed, told


def _by_other_names(name: str, header: list[str], labelled: bool, say: str) -> tuple[int, int | None]:
    """The places of text and label in a header without the usual names of both.

    Raises:
        InputError: where it does not say, or says several.
    """
    text, label = place_of(header, TEXT), place_of(header, LABEL)
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
    """Where text and pair stand: as chosen, else by their usual names; with a text that was chosen goes no pair that was not."""
    if text is not None:
        return text, pair
    usual = usual_texts(present) or TEXT_NAMES[-2]
    return usual[0], usual[1] if pair is None else pair


def usual_texts(present: Present) -> tuple[str, str | None] | None:
    """The usual names of a text, and of its pair or None, that are there; None where none are."""
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
    """The parts of each row of a table, by its columns.

    Arguments:
        others: further columns that are kept, each with its name.
    """
    several = columns.label if isinstance(columns.label, tuple) else ()
    held = [column for column in columns if column is not None and not isinstance(column, tuple)]
    held += several
    for row in columns_of_table(name, rows, [*held, *(place for place, _ in others)], header, ragged):
        if isinstance(row, MalformedRow):
            yield row
            continue
        cells = iter(row[1])
        alone = [None if column is None or isinstance(column, tuple) else next(cells) for column in columns]
        found = Parts(*alone, rest=None)
        if several:
            found = found._replace(label=list(itertools.islice(cells, len(several))))
        if others:
            found = found._replace(rest=dict(zip((called for _, called in others), cells, strict=True)))
        yield row[0], found


def with_labels(name: str, rows: FoundParts, label_name: str) -> FoundParts:
    """The rows with the lines of another file as their labels."""
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
