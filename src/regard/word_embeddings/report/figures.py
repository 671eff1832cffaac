"""The tables of a report: a row for each measure, a column for each of the embeddings."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from regard.metrics.regression import Interval
from regard.word_embeddings.bias import Audit
from regard.word_embeddings.evaluation.analogies import AnalogyResult, SectionScore
from regard.word_embeddings.evaluation.battery import Report
from regard.word_embeddings.store import WordVectors

R = TypeVar("R")


def overview(subjects: Sequence[Subject]) -> Table:
    """The size, format and training method of each of the embeddings."""

    def row(name: str, of: Callable[[Subject], str]) -> Row:
        return Row(name=name, cells=tuple(Cell(text=of(subject) or "–") for subject in subjects))

    return Table(
        columns=names(subjects),
        rows=(
            row("words", lambda each: f"{len(each.vectors):,}"),
            row("width", lambda each: f"{each.vectors.width:,}"),
            row("unknown words", lambda each: "by subwords" if each.vectors.subwords else "no vector"),
            row("format", lambda each: str(each.vectors.metadata.get("format") or "")),
            *([row("method", _method)] if any(map(_method, subjects)) else []),
        ),
    )


def similarity(subjects: Sequence[Subject]) -> Table | None:
    """Spearman's correlation with human similarity scores, for each test set."""
    rows = [
        Row(
            name=name,
            larger_is_better=True,
            cells=tuple(
                NOTHING
                if each is None
                else figure(each.spearman, f"{_between(each.interval)}{each.used:,} of {each.pairs:,} pairs")
                for each in found
            ),
        )
        for name, found in _by_name(subjects, lambda subject: subject.report.similarity, lambda each: each.name)
    ]
    return _table(subjects, rows, "Spearman's correlation")


def analogies(subjects: Sequence[Subject]) -> Iterator[tuple[str, Table]]:
    """The accuracy on analogies: for each test set its name and a table of its sections."""
    for name, found in _by_name(subjects, lambda subject: subject.report.analogies, lambda each: each.name):
        parts: list[Callable[[AnalogyResult], Iterable[SectionScore | None]]] = [
            lambda result: (result.total,),
            lambda result: (result.semantic, result.syntactic),
            lambda result: result.sections,
        ]
        rows = [row for part in parts for row in _sections(found, part)]
        yield name, Table(columns=names(subjects), rows=tuple(rows), corner="right answers, per cent")


def categories(subjects: Sequence[Subject]) -> Table | None:
    """The purity of clusters, and the share of intruders among neighbours that are found."""
    rows = [
        Row(
            name=f"purity of clusters, {name}",
            larger_is_better=True,
            cells=tuple(
                NOTHING if each is None else figure(each.purity, f"{each.words - each.unknown} of {each.words} words")
                for each in found
            ),
        )
        for name, found in _by_name(subjects, lambda subject: subject.report.categories, lambda each: each.name)
    ]
    itself = [
        next((each for each in subject.report.coherence if each.judge == subject.name), None) for subject in subjects
    ]
    others = [[each for each in subject.report.coherence if each.judge != subject.name] for subject in subjects]
    if any(itself):
        cells = tuple(_percent(each.accuracy, f"{each.found} of {each.used}") if each else NOTHING for each in itself)
        rows.append(Row(name="intruders found by the vectors themselves, per cent", cells=cells, larger_is_better=True))
    if any(others):
        pooled = [(sum(each.found for each in judged), sum(each.used for each in judged)) for judged in others]
        cells = tuple(_percent(found / used, f"{found} of {used}") if used else NOTHING for found, used in pooled)
        rows.append(Row(name="intruders found by the other vectors, per cent", cells=cells, larger_is_better=True))
    return _table(subjects, rows)


def robustness(subjects: Sequence[Subject]) -> Table | None:
    """How well variants of words (typos, plurals, capitals, British spellings) are represented."""
    rows = []
    for name, found in _by_name(subjects, lambda subject: subject.report.robustness, lambda each: str(each.kind)):
        covered = tuple(
            NOTHING if each is None or not each.words else _percent(each.covered / each.words, f"of {each.words} words")
            for each in found
        )
        near = tuple(
            NOTHING
            if each is None
            else _percent(each.hit_rate, "" if each.cosine is None else f"mean cosine {each.cosine:.2f}")
            for each in found
        )
        rows.append(Row(name=f"{name}: has a vector", cells=covered, larger_is_better=True))
        rows.append(Row(name=f"{name}: of these, the word is among the ten nearest", cells=near, larger_is_better=True))
    return _table(subjects, rows, "per cent")


def probes(subjects: Sequence[Subject]) -> Table | None:
    """The cosines of two word pairs, whether the closer pair is the expected one, and the frequency probe."""
    signs = {"first": ">", "second": "<", None: "="}
    notes = {True: "as expected", False: "not as expected", None: ""}
    rows = [
        Row(
            name=name,
            cells=tuple(
                NOTHING
                if each is None or None in each.cosines
                else Cell(
                    text=f"{each.cosines[0]:.2f} {signs[each.nearer]} {each.cosines[1]:.2f}",
                    note=notes[each.as_expected],
                )
                for each in found
            ),
        )
        for name, found in _by_name(subjects, lambda subject: subject.report.probes, lambda each: each.probe.name)
    ]
    frequent = [subject.report.frequency for subject in subjects]
    if any(each is not None for each in frequent):
        cells = tuple(
            _percent(each.accuracy, f"by {each.by}; guessing gives 50") if each else NOTHING for each in frequent
        )
        rows.append(Row(name="frequent or rare, predicted from the vector, per cent", cells=cells))
    return _table(subjects, rows)


def _sections(
    found: Sequence[AnalogyResult | None], part: Callable[[AnalogyResult], Iterable[SectionScore | None]]
) -> Iterator[Row]:
    asked = [[] if each is None else [score for score in part(each) if score and score.asked] for each in found]
    scores = [{score.name: score for score in each} for each in asked]
    for name in dict.fromkeys(name for each in scores for name in each):
        cells = []
        for each in scores:
            score = each.get(name)
            cells.append(
                NOTHING if score is None else _percent(score.accuracy, f"{score.correct:,} of {score.asked:,}")
            )
        yield Row(name=name, cells=tuple(cells), larger_is_better=True)


def _by_name(
    subjects: Sequence[Subject], results: Callable[[Subject], Iterable[R]], name: Callable[[R], str]
) -> Iterator[tuple[str, list[R | None]]]:
    """For each result name, the results of all embeddings; None for embeddings without this result."""
    found = [{name(each): each for each in results(subject)} for subject in subjects]
    for one in dict.fromkeys(one for each in found for one in each):
        yield one, [each.get(one) for each in found]


def _table(subjects: Sequence[Subject], rows: Sequence[Row], corner: str = "") -> Table | None:
    return Table(columns=names(subjects), rows=tuple(rows), corner=corner) if rows else None


def _method(subject: Subject) -> str:
    """How the vectors were trained and changed, if their metadata has it."""
    metadata = subject.vectors.metadata
    settings = metadata.get("settings")
    method = metadata.get("method") or (settings.get("method") if isinstance(settings, dict) else None)
    return ", ".join([*([str(method)] if method else []), *(["debiased"] if "debiased" in metadata else [])])


def _percent(value: float | None, note: str = "") -> Cell:
    return figure(None if value is None else 100 * value, note, digits=1)


def _between(interval: Interval | None) -> str:
    return "" if interval is None else f"{interval.low:.2f} to {interval.high:.2f}; "


# Tables.


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """A cell of a table.

    Arguments:
        text: the content.
        note: text in small print after it.
        number: the value for finding the best cell of a row; None if there is none.
    """

    text: str
    note: str = ""
    number: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A row of a table.

    Arguments:
        name: the name of the measure.
        cells: one for each column.
        note: text in small print below the name.
        larger_is_better: whether the largest (True) or the smallest (False) number is highlighted; None for neither.
    """

    name: str
    cells: tuple[Cell, ...]
    note: str = ""
    larger_is_better: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A table.

    Arguments:
        columns: the column names, without the first column, which has the row names.
        rows: the rows in order.
        corner: the heading of the first column.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    corner: str = ""


NOTHING = Cell(text="–")
"""The cell for a missing value."""


def figure(value: float | None, note: str = "", *, digits: int = 3) -> Cell:
    """A cell with a number; a dash for None or nan.

    >>> figure(0.51239), figure(None).text
    (Cell(text='0.512', note='', number=0.51239), '–')
    """
    if value is None or value != value:
        return NOTHING if not note else Cell(text="–", note=note)
    return Cell(text=f"{value:.{digits}f}", note=note, number=value)


def table_html(table: Table) -> str:
    """A table as HTML; the best number of a row is highlighted."""
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in table.columns)
    body = "".join(_row(row) for row in table.rows)
    corner = f'<th scope="col">{html.escape(table.corner)}</th>' if table.corner else "<td></td>"
    return f'<div class="scroll"><table><thead><tr>{corner}{head}</tr></thead><tbody>{body}</tbody></table></div>'


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


# The embeddings of a report.


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Subject:
    """Word embeddings with their results.

    Arguments:
        vectors: the embeddings.
        report: the results of the evaluation.
        audit: the bias audit; None if it was not possible.
    """

    vectors: WordVectors
    report: Report
    audit: Audit | None = None

    @property
    def name(self) -> str:
        """The name of the vectors."""
        return self.vectors.name


def names(subjects: Sequence[Subject]) -> tuple[str, ...]:
    """The names of the embeddings, as column names."""
    return tuple(subject.name for subject in subjects)
