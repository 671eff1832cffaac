"""What an evaluation found of one table of vectors: all figures as JSON, and the main ones as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from regard.metrics.bootstrap import Interval
from regard.vectors.evaluation.analogies import AnalogyResult
from regard.vectors.evaluation.categories import CategoryResult
from regard.vectors.evaluation.coherence import CoherenceResult
from regard.vectors.evaluation.frequency import FrequencyProbe
from regard.vectors.evaluation.probes import ProbeResult
from regard.vectors.evaluation.robustness import RobustnessResult
from regard.vectors.evaluation.similarity import SimilarityResult

if TYPE_CHECKING:
    from rich.table import Table

ABSENT = "-"


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """All that `evaluate` found of one table.

    Arguments:
        name: of the table.
        words, width: its size.
        subwords: whether it makes vectors for other words.
        settings: of the evaluation, as JSON values.
        similarity, analogies, categories: a result for each set.
        coherence: one for each table that looked for the intruders.
        robustness: one for each kind of variant.
        probes: one for each.
        frequency: what the vectors tell of frequency; None where it was not asked for.
    """

    name: str
    words: int
    width: int
    subwords: bool
    settings: Mapping[str, Any] = field(default_factory=dict)
    similarity: tuple[SimilarityResult, ...] = ()
    analogies: tuple[AnalogyResult, ...] = ()
    categories: tuple[CategoryResult, ...] = ()
    coherence: tuple[CoherenceResult, ...] = ()
    robustness: tuple[RobustnessResult, ...] = ()
    probes: tuple[ProbeResult, ...] = ()
    frequency: FrequencyProbe | None = None

    def to_json(self) -> dict[str, Any]:
        """All figures as JSON values; those that do not exist are null or NaN."""
        size = {name: getattr(self, name) for name in ("name", "words", "width", "subwords")}
        parts = ("similarity", "analogies", "categories", "coherence", "robustness", "probes")
        results = {part: [each.to_json() for each in getattr(self, part)] for part in parts}
        frequency = None if self.frequency is None else self.frequency.to_json()
        return size | {"settings": dict(self.settings)} | results | {"frequency": frequency}

    def figures(self) -> dict[str, str]:
        """The main figures as text, by what they measure."""
        return dict(self._figures())

    def _figures(self) -> Iterator[tuple[str, str]]:
        yield "words", f"{self.words:,} of width {self.width}" + (", and subwords" if self.subwords else "")
        for each in self.similarity:
            note = f"{_interval(each.interval)} {each.used}/{each.pairs}"
            yield f"{each.name}, Spearman", f"{_number(each.spearman)} {note.strip()}"
        for each in self.analogies:
            way = (" 3CosMul" if each.method == "multiply" else "") + (", the three let in" if each.with_given else "")
            for part in (each.semantic, each.syntactic, each.total):
                if part is not None:
                    name = f"{each.name}{way}" + ("" if part is each.total else f", {part.name}")
                    note = _interval(each.interval, 100) if part is each.total else ""
                    yield name, f"{_percent(part.accuracy)} {note} {part.correct}/{part.asked}".replace("  ", " ")
        for each in self.categories:
            yield f"{each.name} categories, purity", f"{_number(each.purity)} {each.words - each.unknown}/{each.words}"
        for each in self.coherence:
            whose = "themselves" if each.judge == self.name else each.judge
            yield f"intruders found by {whose}", f"{_percent(each.accuracy)} {each.found}/{each.used}"
        for each in self.robustness:
            yield f"{each.kind}: has a vector", f"{_percent(each.coverage)} {each.covered}/{each.words}"
            yield f"{each.kind}: word among its 10 nearest", f"{_percent(each.hit_rate)} {each.hits}/{each.covered}"
        if self.frequency is not None:
            yield "frequent or rare, told by the vector", _percent(self.frequency.accuracy)
        for each in self.probes:
            signs = {True: " as expected", False: " not as expected", None: ""}
            one, other = map(_number, each.cosines)
            sign = {"first": ">", "second": "<", None: " "}[each.nearer]
            yield each.probe.name, f"{one} {sign} {other}{signs[each.as_expected]}"


def table(reports: Sequence[Report]) -> Table:
    """The main figures of several tables side by side; square brackets hold 95 % intervals, a/b is of so many."""
    from rich.table import Table
    from rich.text import Text

    found = [report.figures() for report in reports]
    shown = Table(box=None, pad_edge=False, header_style="bold")
    shown.add_column("")
    for report in reports:
        shown.add_column(Text(report.name), no_wrap=True)
    for name in _merged(found):
        shown.add_row(Text(name), *(Text(figures.get(name, ABSENT)) for figures in found))
    return shown


def _merged(found: Sequence[Mapping[str, str]]) -> list[str]:
    """The names of all figures; one that an earlier table has not stands where its own table has it."""
    names: list[str] = []
    for figures in found:
        place = 0
        for name in figures:
            if name not in names:
                names.insert(place, name)
            place = names.index(name) + 1
    return names


def _number(value: float | None) -> str:
    return ABSENT if value is None or value != value else f"{value:.3f}"


def _percent(value: float | None) -> str:
    return ABSENT if value is None else f"{100 * value:.1f} %"


def _interval(interval: Interval | None, scale: float = 1) -> str:
    if interval is None:
        return ""
    places = 3 if scale == 1 else 1
    return f"[{scale * interval.low:.{places}f}, {scale * interval.high:.{places}f}]"
