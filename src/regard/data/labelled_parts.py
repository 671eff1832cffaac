"""The parts of labelled texts as they stand in the rows of a file: text, pair and label, not yet checked."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from regard.data.file_format import guess
from regard.data.labelled_formats import Columns
from regard.data.lines import read_lines
from regard.data.malformed import MalformedRow
from regard.data.objects import HUB, Object, objects_of_hub, objects_of_jsonl, values_of
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

_SAMPLE_ROWS = 100


class Parts(NamedTuple):
    """What stands in the columns of one row."""

    text: object
    pair: object
    label: object
    place: object


FoundParts = Iterator[tuple[int, Parts] | MalformedRow]


def parts_of_file(
    name: str, format: str, chosen: tuple[Column, Column, Column], header: bool | str, labelled: bool
) -> FoundParts:
    """The parts of each row of a file of any format; columns and keys that are not chosen are found by their usual names."""
    if name.startswith(HUB):
        return _parts_of_objects(name, objects_of_hub(name), _keys(name, chosen), labelled)
    lines = read_lines(name)
    if format == "auto":
        format, lines = guess(name, lines)
    if format == "jsonl":
        return _parts_of_objects(name, objects_of_jsonl(name, lines), _keys(name, chosen), labelled)
    rows = tsv_rows(name, lines) if format == "tsv" else csv_rows(name, lines)
    sample = list(itertools.islice(rows, _SAMPLE_ROWS))
    columns, headed = _columns(name, sample, chosen, header, labelled)
    return parts_of_table(name, itertools.chain(sample, rows), columns, headed)


def _keys(name: str, chosen: tuple[Column, Column, Column]) -> tuple[str | None, str | None, str | None]:
    text, pair, label = chosen
    if isinstance(text, int) or isinstance(pair, int) or isinstance(label, int):
        raise InputError(f"{name}: text, pair and label are keys here, as 'review.text', not column numbers")
    return text, pair, label


def _parts_of_objects(
    name: str, rows: Iterator[Object], chosen: tuple[str | None, str | None, str | None], labelled: bool
) -> FoundParts:
    for row in rows:
        if isinstance(row, MalformedRow):
            yield row
            continue
        line, content = row
        text, pair = _texts(content, chosen[0], chosen[1])
        keys = [str(text), *([str(pair)] if pair else [])]
        keys += [chosen[2] or _label(content) or LABEL_NAMES[0]] if labelled else []
        values = values_of(name, line, content, keys)
        if isinstance(values, MalformedRow):
            yield values
        else:
            yield line, Parts(values[0], values[1] if pair else None, values[-1] if labelled else None, None)


def parts_of_mapping(
    row: Mapping[str, Any], where: str, chosen: tuple[str | None, str | None, str | None], wanted: str
) -> tuple[Any, Any, Any]:
    """Text, pair and label of a mapping in memory, by the same names as those of JSONL; None for a pair or label there is not.

    Raises:
        InputError: where it has no text, or lacks a key that was chosen.
    """
    text, pair = _texts(row, chosen[0], chosen[1])
    label = chosen[2] or _label(row)
    names = [[str(name)] for name in (text, pair, label) if name is not None]
    found = iter(parts_of(row, where, names, wanted))
    return next(found), next(found) if pair is not None else None, next(found) if label is not None else None


def _columns(
    name: str, sample: list[Row], chosen: tuple[Column, Column, Column], header: bool | str, labelled: bool
) -> tuple[Columns, bool]:
    """Which columns hold the parts, and whether the first row names the columns."""
    text, pair, label = chosen
    by_name = any(isinstance(column, str) for column in chosen)
    if by_name and header is False:
        raise InputError(
            f"{name}: columns are given by name, so the first line has to name them; leave out header=False"
        )
    first = sample[0]
    cells = [] if isinstance(first, MalformedRow) else [cell.strip() for cell in first[1]]
    headed = header is True or by_name
    if header == "auto" and all(column is None for column in chosen):
        headed = _usual(cells) is not None and not (labelled and _label(cells) is None)
    if headed:
        text, pair = _texts(cells, text, pair) if text is not None or _usual(cells) else (None, pair)
        label = label if label is not None else _label(cells)
    text = 0 if text is None else text
    if not labelled:
        return Columns(text, pair), headed
    if label is None:
        taken = {
            cells.index(column) if isinstance(column, str) and column in cells else column for column in (text, pair)
        }
        width = len(cells) if headed else usual_width(sample, 2)
        label = max((column for column in range(width) if column not in taken), default=width)
    return Columns(text, pair, label), headed


Present = Sequence[str] | Mapping[str, Any]


def _texts(present: Present, text: Column, pair: Column) -> tuple[Column, Column]:
    """Where text and pair stand: as chosen, else by their usual names; with a text that was chosen goes no pair that was not."""
    if text is not None:
        return text, pair
    usual = _usual(present) or TEXT_NAMES[-2]
    return usual[0], usual[1] if pair is None else pair


def _usual(present: Present) -> tuple[str, str | None] | None:
    return next(((text, pair) for text, pair in TEXT_NAMES if text in present and pair in (None, *present)), None)


def _label(present: Present) -> str | None:
    return next((name for name in LABEL_NAMES if name in present), None)


def parts_of_table(name: str, rows: Iterator[Row], columns: Columns, header: bool, ragged: bool = False) -> FoundParts:
    """The parts of each row of a table, by its columns."""
    held = [column for column in columns if column is not None]
    for row in columns_of_table(name, rows, held, header, ragged):
        if isinstance(row, MalformedRow):
            yield row
        else:
            cells = iter(row[1])
            yield row[0], Parts(*(None if column is None else next(cells) for column in columns))


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
