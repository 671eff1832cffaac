"""Tables of a report: a row for each thing measured, a column for each embedding."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """What stands in a table.

    Arguments:
        text: the number, or words.
        note: in small letters after it.
        number: for finding the best of a row; None for none.
    """

    text: str
    note: str = ""
    number: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A line of a table.

    Arguments:
        name: of what was measured.
        cells: one for each column.
        note: beneath the name.
        larger_is_better: which cell is set off; None where no number is better than another.
    """

    name: str
    cells: tuple[Cell, ...]
    note: str = ""
    larger_is_better: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Rows under names of columns.

    Arguments:
        columns: their names, without the first, which is that of the rows.
        rows: in order.
        corner: over the names of the rows.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    corner: str = ""


NOTHING = Cell(text="–")
"""Where nothing was measured."""


def figure(value: float | None, note: str = "", *, digits: int = 3) -> Cell:
    """A number as a cell, a dash for None.

    >>> figure(0.51239), figure(None).text
    (Cell(text='0.512', note='', number=0.51239), '–')
    """
    if value is None or value != value:
        return NOTHING if not note else Cell(text="–", note=note)
    return Cell(text=f"{value:.{digits}f}", note=note, number=value)


def drawn_table(table: Table) -> str:
    """A table as HTML; the best number of a row is strong where there are several."""
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in table.columns)
    body = "".join(_row(row) for row in table.rows)
    return (
        f'<div class="scroll"><table><thead><tr><th scope="col">{html.escape(table.corner)}</th>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _row(row: Row) -> str:
    best = _best(row)
    note = f"<small>{html.escape(row.note)}</small>" if row.note else ""
    cells = "".join(
        f'<td{" class=best" if place == best else ""} dir="auto">{html.escape(cell.text)}'
        f"{f'<small>{html.escape(cell.note)}</small>' if cell.note else ''}</td>"
        for place, cell in enumerate(row.cells)
    )
    return f'<tr><th scope="row" dir="auto">{html.escape(row.name)}{note}</th>{cells}</tr>'


def _best(row: Row) -> int | None:
    numbers: Sequence[tuple[float, int]] = [
        (cell.number, place) for place, cell in enumerate(row.cells) if cell.number is not None
    ]
    if row.larger_is_better is None or len(numbers) < 2:
        return None
    best = (max if row.larger_is_better else min)(number for number, _ in numbers)
    places = [place for number, place in numbers if number == best]
    return places[0] if len(places) == 1 else None
