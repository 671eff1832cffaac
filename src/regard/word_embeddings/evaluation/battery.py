"""All tests at once: the battery, and the report of what it found of one table of vectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.data.malformed import MalformedRows
from regard.errors import InputError
from regard.metrics.regression import Interval
from regard.word_embeddings.evaluation.analogies import AnalogyResult, AnalogySet, evaluate_analogies, read_analogies
from regard.word_embeddings.evaluation.categories import (
    NOUNS,
    CategoryResult,
    CategorySet,
    CoherenceResult,
    builtin_categories,
    evaluate_categories,
    evaluate_coherence,
    intruder_items,
    read_categories,
)
from regard.word_embeddings.evaluation.probes import (
    PROBES,
    FrequencyProbe,
    Probe,
    ProbeResult,
    RobustnessResult,
    evaluate_robustness,
    frequency_probe,
    run_probes,
)
from regard.word_embeddings.evaluation.similarity import (
    Case,
    Lookup,
    SimilarityResult,
    SimilaritySet,
    Unknown,
    check_unknown,
    evaluate_similarity,
    known_case,
    read_similarity,
    set_files,
)
from regard.word_embeddings.neighbours import Method, check_method
from regard.word_embeddings.store import WordVectors

if TYPE_CHECKING:
    from rich.table import Table


FEWEST = 4
"""Words a table has at least for its neighbours to have intruders."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Battery:
    """What is asked of vectors, and how.

    Arguments:
        similarity, analogies: sets; none unless given.
        categories: sets; the built-in one unless given.
        probes: pairs of pairs.
        words: whose neighbours get intruders, and whose variants are looked for; None: common nouns.
        unknown, case, among: how words without a vector are treated, how words are found, and among how many; see `Lookup`.
        method, with_given: of analogies, see `evaluate_analogies`.
        resamples: for the intervals; 0 for none.
        seed: of all that is sampled.

    Raises:
        InputError: for a way that does not exist.
    """

    similarity: Sequence[SimilaritySet] = ()
    analogies: Sequence[AnalogySet] = ()
    categories: Sequence[CategorySet] = field(default_factory=lambda: (builtin_categories(),))
    probes: Sequence[Probe] = PROBES
    words: Sequence[str] | None = None
    unknown: Unknown = "skip"
    case: Case = "ignore"
    among: int | None = None
    method: Method = "add"
    with_given: bool = False
    resamples: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        check_unknown(self.unknown)
        known_case(self.case)
        check_method(self.method)


def read_battery(
    similarity: Iterable[Path] = (),
    analogies: Iterable[Path] = (),
    categories: Path | None = None,
    malformed: MalformedRows | None = None,
    **settings: Any,
) -> Battery:
    """A battery of files; of a folder every *.txt is taken.

    Arguments:
        malformed: where to count lines that could not be used.
        settings: the other fields of `Battery`.

    Raises:
        InputError: for a file that cannot be read, or is something else.
    """
    own = {} if categories is None else {"categories": (read_categories(categories, malformed),)}
    return Battery(
        similarity=[read_similarity(path, malformed) for path in set_files(similarity)],
        analogies=[read_analogies(path, malformed) for path in set_files(analogies)],
        **own,  # type: ignore[arg-type]
        **settings,
    )


def evaluate(vectors: WordVectors, battery: Battery, judges: Sequence[WordVectors] = ()) -> Report:
    """All tests of a battery, those without files too: categories, coherence, robustness, probes and frequency.

    Arguments:
        judges: other tables, which look for the intruders among the neighbours of this one's words; the table itself does too.

    Raises:
        InputError: for settings that do not exist, or where scikit-learn is missing.

    >>> import numpy as np
    >>> table = WordVectors(words=("man", "woman", "car"), matrix=np.array([[1, 0], [1, 0.1], [0, 1]], dtype=np.float32))
    >>> report = evaluate(table, Battery())
    >>> report.probes[1].nearer, report.to_json()["categories"][0]["unknown"]
    ('first', 99)
    """
    found: dict[str, Any] = {"case": battery.case, "among": battery.among}
    drawn: dict[str, Any] = {"resamples": battery.resamples, "seed": battery.seed}
    asked: dict[str, Any] = {"unknown": battery.unknown, "method": battery.method, "with_given": battery.with_given}
    here = vectors if battery.among is None else vectors.first(Lookup(vectors=vectors, among=battery.among).size)
    words = NOUNS if battery.words is None else battery.words
    items = intruder_items(here, words, seed=battery.seed) if len(here) >= FEWEST else []
    return Report(
        name=vectors.name,
        words=len(vectors),
        width=vectors.width,
        subwords=vectors.subwords is not None,
        settings=found | asked | drawn,
        similarity=tuple(
            evaluate_similarity(vectors, each, unknown=battery.unknown, **found, **drawn) for each in battery.similarity
        ),
        analogies=tuple(evaluate_analogies(vectors, each, **asked, **found, **drawn) for each in battery.analogies),
        categories=tuple(evaluate_categories(vectors, each, **found, seed=battery.seed) for each in battery.categories),
        coherence=tuple(evaluate_coherence(items, judge) for judge in (vectors, *judges)) if items else (),
        robustness=evaluate_robustness(here, battery.words, seed=battery.seed),
        probes=run_probes(vectors, battery.probes, case=battery.case),
        frequency=frequency_probe(vectors, seed=battery.seed),
    )


def in_common(tables: Sequence[WordVectors]) -> list[WordVectors]:
    """The tables with only the words that all of them have, in the order of the first; nothing is made of subwords.

    Raises:
        InputError: where they have no word in common.

    >>> import numpy as np
    >>> one, other = (WordVectors(words=tuple(words), matrix=np.eye(3, dtype=np.float32)) for words in ("abc", "cad"))
    >>> [table.words for table in in_common([one, other])]
    [('a', 'c'), ('a', 'c')]
    """
    if not tables:
        return []
    words = [word for word in tables[0].words if all(word in table for table in tables[1:])]
    if not words:
        raise InputError("the vectors have no word in common; give vectors of one language, spelt alike")
    return [_restricted(table, words) for table in tables]


def _restricted(table: WordVectors, words: Sequence[str]) -> WordVectors:
    chosen = table.only([table.rows[word] for word in words])
    return chosen.with_matrix(chosen.matrix)


# The report: all figures as JSON, and the main ones as text.

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
    """The names of all figures; one that an earlier table has not is where its own table has it."""
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
