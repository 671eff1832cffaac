"""A walk on the terminal: numbers with bars, vectors as strips of colour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.rule import Rule
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from regard.inspection.terminal import colour_of
from regard.inspection.walk.steps import (
    BARRED,
    Numbers,
    Shown,
    SourceLine,
    Step,
    Strips,
    Table,
    blocks,
    decimals,
    first_entries,
    kept,
    left_out,
    legend,
    query_text,
    subject,
    three,
    with_whole,
    written,
)
from regard.inspection.words import readable

if TYPE_CHECKING:
    from regard.inspection.walk.walking import Walk

LABEL = 16  # columns of a token
BAR = 32  # columns of the longest bar
INDENT = 3
HEIGHTS, ASCII_HEIGHTS = "▁▂▃▄▅▆▇", "_,-=+*#"  # the middle one is zero


def render(walk: Walk, *, colour: bool = True) -> Walked:
    """What a console prints of a walk.

    Arguments:
        walk: the walk.
        colour: strips in colour where the console has it; otherwise, and on a console without, the height of a mark says where a
            number is between the smallest and the largest of its tensor.

    >>> import torch
    >>> from regard.attention import AttentionInputs, Dot, ScoredAttention
    >>> from regard.inspection.walk import walk_attention
    >>> inputs = AttentionInputs(query=torch.ones(1, 1, 1, 2), key=torch.tensor([[[[1.0, 0.0], [3.0, 0.0]]]]))
    >>> walk = walk_attention(ScoredAttention(Dot()), inputs, torch.eye(2).view(1, 1, 2, 2), keys=["a", "b"])
    >>> Console(width=60).print(render(walk, colour=False))  # doctest: +ELLIPSIS
    A mechanism alone
    attention · ScoredAttention(Dot, Soft)
    ...
    2 · Scores ─────...
    """
    return Walked(walk, colour)


class Walked:
    """What `render` returns: prints itself as wide as the console that asks."""

    def __init__(self, walk: Walk, colour: bool) -> None:
        self.walk = walk
        self.colour = colour

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The heading, then step after step."""
        walk = self.walk
        paint = _Paint(
            self.colour and console.color_system is not None and not console.no_color,
            ASCII_HEIGHTS if options.ascii_only else HEIGHTS,
            max(options.max_width - INDENT, 20),
        )
        keep = kept(walk)
        yield Text(readable(walk.title), style="bold")
        yield Text(readable(subject(walk)))
        yield Text.assemble(
            "query: ",
            (query_text(walk), "bold"),
            f", position {walk.position} of positions 0 to {len(walk.queries) - 1}",
        )
        yield Text(legend(walk), style="dim")
        for note in (*walk.notes, left_out(walk, keep)):
            if note:
                yield Text(note, style="dim")
        number = 0
        for step in walk.steps:
            number += step.kind == "step"
            yield Text()
            name = f"{number} · {step.title}" if step.kind == "step" else step.title
            yield Rule(
                Text(name, style="bold"), align="left", style="dim", characters="-" if options.ascii_only else "─"
            )
            for indent, part in _step(walk, step, keep, paint):
                yield from _indented(console, options, part, indent)


class _Paint:
    """Turns numbers into characters, in colour or by height."""

    def __init__(self, coloured: bool, heights: str, width: int) -> None:
        self.coloured = coloured
        self.heights = heights
        self.width = width
        self.bullet = "*" if heights.isascii() else "•"

    def strip(self, values: np.ndarray, largest: float, width: int) -> Text:
        """A vector in at most `width` columns; of equally many numbers in each column the largest in size is shown."""
        if len(values) > width:
            each = -(-len(values) // width)
            parts = (values[start : start + each] for start in range(0, len(values), each))
            values = np.array([part[np.abs(part).argmax()] for part in parts])
        shares = np.clip(np.nan_to_num(values / largest), -1, 1)
        if not self.coloured:
            top = len(self.heights) - 1
            return Text("".join(self.heights[round((share + 1) / 2 * top)] for share in shares.tolist()))
        strip = Text()
        for share in shares.tolist():
            strip.append(" ", Style(bgcolor=colour_of(share, signed=True)))
        return strip

    def bar(self, value: float, largest: float, width: int) -> Text:
        """A number as a length, its sign by the kind of mark."""
        length = round(min(abs(value) / largest, 1.0) * min(width, BAR)) if np.isfinite(value) else 0
        full, negative = ("#", "-") if self.heights.isascii() else ("█", "░")
        bar = (full if value >= 0 else negative) * length
        return Text(
            bar, style=Style(color=colour_of(0.75 if value >= 0 else -0.75, signed=True)) if self.coloured else ""
        )


def _indented(console: Console, options: ConsoleOptions, part: RenderableType, indent: int) -> Iterator[Segment]:
    """Lines further to the right, without blanks at their ends."""
    for line in console.render_lines(part, options.update(width=options.max_width - indent), pad=False):
        yield Segment(" " * indent)
        yield from line
        yield Segment.line()


def _step(walk: Walk, step: Step, keep: Sequence[int], paint: _Paint) -> Iterator[tuple[int, Text]]:
    """What is printed of a step, and how far to the right."""
    yield 0, Text(step.sentence)
    if step.equation:
        yield INDENT, Text(step.equation, style="bold")
    for line in step.lines:
        yield INDENT, _source(line)
    for block in blocks(step, keep, walk.keys):
        if isinstance(block, Numbers):
            for item in block.shown:
                text = f"{item.name} = {three(float(item.values))}" + (f"   {item.note}" if item.note else "")
                yield INDENT, Text(text)
        else:
            rows = _table(walk, block, paint) if isinstance(block, Table) else _strips(block, paint)
            for row in rows:
                yield INDENT, row
    for note in step.notes:
        yield 0, Text(f"{paint.bullet} {note}")


def _source(line: SourceLine) -> Text:
    place = Text(f"{line.file}:{line.line}  {line.symbol}", style="dim")
    return Text.assemble(place, "\n", Text(line.text, style="cyan"))


def _table(walk: Walk, table: Table, paint: _Paint) -> Iterator[Text]:
    """A table, or where it is too wide several with a part of the columns each."""
    of_keys = table.columns[-1].letters == "S"
    size = min(max(map(cell_len, table.labels), default=0), LABEL)
    columns = [_Column.of(item, table.rows) for item in table.columns]
    while columns:
        fitting, room = columns[:1], paint.width - size - columns[0].width - 4
        while len(fitting) < len(columns) and (room := room - columns[len(fitting)].width - 2) >= 0:
            fitting = columns[: len(fitting) + 1]
        columns = columns[len(fitting) :]
        room = paint.width - size - sum(column.width + 2 for column in fitting) - 2
        height = max(len(column.heading) for column in fitting)
        for line in range(height):
            cells = (column.head(line, height) for column in fitting)
            yield Text(" " * size + "".join(cells), style="dim")
        for place, row in enumerate(table.rows):
            text = _label(table.labels[place], size)
            text.append("".join(f"  {column.cells[place]:>{column.width}}" for column in fitting))
            last = fitting[-1].item
            if of_keys and row in walk.hidden:
                text.append("  may not be seen" if room >= 15 else "")
                text.stylize("dim")
            elif len(table.columns) <= BARRED and room >= 4:
                text.append("  ")
                text.append(paint.bar(float(last.values[row]), last.largest, room))
            text.rstrip()
            yield text
    for item in table.columns:
        if item.note:
            yield Text(f"{item.name}: {item.note}", style="dim")


@dataclass(frozen=True, slots=True)
class _Column:
    item: Shown
    heading: tuple[str, ...]
    cells: tuple[str, ...]
    width: int

    @classmethod
    def of(cls, item: Shown, rows: Sequence[int]) -> _Column:
        places = decimals(item.values)
        cells = tuple(written(float(item.values[row]), places) for row in rows)
        # "content · position" over two lines, so that six such columns stand side by side.
        first, dot, second = item.name.partition(" · ")
        heading = (f"{first} ·", second) if dot else (item.name,)
        return cls(item, heading, cells, max(map(len, (*heading, *cells))))

    def head(self, line: int, height: int) -> str:
        place = line - (height - len(self.heading))
        return f"  {self.heading[place] if place >= 0 else '':>{self.width}}"


def _strips(block: Strips, paint: _Paint) -> Iterator[Text]:
    item = block.shown
    whole = with_whole(item)
    yield Text(f"{item.name} {item.shape}" + (f"; {whole}" if whole else ""), style="dim")
    labels = block.labels
    size = 0 if labels is None else min(max(map(cell_len, labels), default=0), LABEL)
    room = max(paint.width - size - (2 if size else 0), 8)
    for place, row in enumerate(block.values):
        line = Text() if labels is None else _label(labels[place], size)
        if size:
            line.append("  ")
        line.append(paint.strip(row, item.largest, room))
        yield line
    low, high = float(item.values.min(initial=0.0)), float(item.values.max(initial=0.0))
    ends = f"from {three(low)} to {three(high)}"
    width = item.values.shape[-1]
    if width > room:
        ends += f"; each mark is the largest in size of {-(-width // room)} numbers of {width}"
    yield Text(f"{ends}   {first_entries(item)}" if block.labels is None else ends, style="dim")


def _label(label: str, size: int) -> Text:
    text = Text(label, no_wrap=True)
    text.truncate(size, overflow="ellipsis")
    return Text(" " * max(size - text.cell_len, 0)) + text
