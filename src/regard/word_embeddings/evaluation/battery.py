"""All intrinsic tests at once: the battery of tests, and the report on one set of word embeddings."""

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
"""The fewest words of a table for intruder items."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Battery:
    """The tests of an evaluation and their settings.

    Arguments:
        similarity, analogies: test sets; none by default.
        categories: test sets; the builtin one by default.
        probes: pairs of word pairs to compare, see `Probe`.
        words: the words for intruder items and for variants (typos, plurals, ...); None for common nouns.
        unknown: how words without a vector are treated, see `UNKNOWN` in `similarity`.
        case, among: how words are looked up, and in how many words of the table, see `Lookup`.
        method, with_given: how analogies are answered, see `evaluate_analogies`.
        resamples: the number of bootstrap resamples for the intervals; 0 for none.
        seed: random seed.

    Raises:
        InputError: for an unknown value of `unknown`, `case` or `method`.
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
    """A battery with test sets from files; of a folder, every *.txt and *.txt.gz file is read.

    Arguments:
        similarity, analogies: paths of files or folders.
        categories: the path of a file; None for the builtin categories.
        malformed: where malformed lines are recorded.
        settings: the other fields of `Battery`.

    Raises:
        InputError: for a file that cannot be read, or has another content.
    """
    own = {} if categories is None else {"categories": (read_categories(categories, malformed),)}
    return Battery(
        similarity=[read_similarity(path, malformed) for path in set_files(similarity)],
        analogies=[read_analogies(path, malformed) for path in set_files(analogies)],
        **own,  # type: ignore[arg-type]
        **settings,
    )


def evaluate(vectors: WordVectors, battery: Battery, judges: Sequence[WordVectors] = ()) -> Report:
    """Run all tests of a battery, including those that need no files: categories, coherence, robustness, probes, frequency.

    Arguments:
        vectors: the word embeddings to evaluate.
        battery: the tests and their settings.
        judges: other embeddings that also look for intruders among this one's neighbours, see `evaluate_coherence`.

    Raises:
        InputError: for unknown settings, or if scikit-learn is not installed.

    >>> import numpy as np
    >>> table = WordVectors(words=("man", "woman", "car"), matrix=np.array([[1, 0], [1, 0.1], [0, 1]], dtype=np.float32))
    >>> report = evaluate(table, Battery())
    >>> report.probes[1].nearer, report.to_json()["categories"][0]["unknown"]
    ('first', 99)
    """
    found: dict[str, Any] = {"case": battery.case, "among": battery.among}
    random: dict[str, Any] = {"resamples": battery.resamples, "seed": battery.seed}
    asked: dict[str, Any] = {"unknown": battery.unknown, "method": battery.method, "with_given": battery.with_given}
    here = vectors if battery.among is None else vectors.first(Lookup(vectors=vectors, among=battery.among).size)
    words = NOUNS if battery.words is None else battery.words
    items = intruder_items(here, words, seed=battery.seed) if len(here) >= FEWEST else []
    return Report(
        name=vectors.name,
        words=len(vectors),
        width=vectors.width,
        subwords=vectors.subwords is not None,
        settings=found | asked | random,
        similarity=tuple(
            evaluate_similarity(vectors, each, unknown=battery.unknown, **found, **random)
            for each in battery.similarity
        ),
        analogies=tuple(evaluate_analogies(vectors, each, **asked, **found, **random) for each in battery.analogies),
        categories=tuple(evaluate_categories(vectors, each, **found, seed=battery.seed) for each in battery.categories),
        coherence=tuple(evaluate_coherence(items, judge) for judge in (vectors, *judges)) if items else (),
        robustness=evaluate_robustness(here, battery.words, seed=battery.seed),
        probes=run_probes(vectors, battery.probes, case=battery.case),
        frequency=frequency_probe(vectors, seed=battery.seed),
    )


def in_common(tables: Sequence[WordVectors]) -> list[WordVectors]:
    """The embeddings restricted to their common words, in the order of the first; subwords are dropped.

    Raises:
        InputError: if they have no word in common.

    >>> import numpy as np
    >>> one, other = (WordVectors(words=tuple(words), matrix=np.eye(3, dtype=np.float32)) for words in ("abc", "cad"))
    >>> [table.words for table in in_common([one, other])]
    [('a', 'c'), ('a', 'c')]
    """
    if not tables:
        return []
    words = [word for word in tables[0].words if all(word in table for table in tables[1:])]
    if not words:
        raise InputError("the vectors have no word in common; give vectors of one language with the same spelling")
    return [_restricted(table, words) for table in tables]


def _restricted(table: WordVectors, words: Sequence[str]) -> WordVectors:
    chosen = table.only([table.rows[word] for word in words])
    return chosen.with_matrix(chosen.matrix)


# The report: all figures as JSON, and the main figures as text.

ABSENT = "-"


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """The results of `evaluate` for one set of word embeddings.

    Arguments:
        name: the name of the embeddings.
        words, width: the number of words, and the dimension of the vectors.
        subwords: whether vectors of unknown words are computed from subwords.
        settings: the settings of the evaluation, as JSON values.
        similarity, analogies, categories: one result for each test set.
        coherence: one result for each judge.
        robustness: one result for each kind of variant.
        probes: one result for each probe.
        frequency: the result of the frequency probe; None if it was not run.
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
        """All figures as JSON values; undefined ones are null or NaN."""
        size = {name: getattr(self, name) for name in ("name", "words", "width", "subwords")}
        parts = ("similarity", "analogies", "categories", "coherence", "robustness", "probes")
        results = {part: [each.to_json() for each in getattr(self, part)] for part in parts}
        frequency = None if self.frequency is None else self.frequency.to_json()
        return size | {"settings": dict(self.settings)} | results | {"frequency": frequency}

    def figures(self) -> dict[str, str]:
        """The main figures as text, by the name of the measure."""
        return dict(self._figures())

    def _figures(self) -> Iterator[tuple[str, str]]:
        yield "words", f"{self.words:,} of width {self.width}" + (", and subwords" if self.subwords else "")
        for each in self.similarity:
            note = f"{_interval(each.interval)} {each.used}/{each.pairs}"
            yield f"{each.name}, Spearman", f"{_number(each.spearman)} {note.strip()}"
        for each in self.analogies:
            way = (" 3CosMul" if each.method == "multiply" else "") + (
                ", question words allowed" if each.with_given else ""
            )
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
            yield "frequent or rare, predicted from the vector", _percent(self.frequency.accuracy)
        for each in self.probes:
            signs = {True: " as expected", False: " not as expected", None: ""}
            one, other = map(_number, each.cosines)
            sign = {"first": ">", "second": "<", None: " "}[each.nearer]
            yield each.probe.name, f"{one} {sign} {other}{signs[each.as_expected]}"


def table(reports: Sequence[Report]) -> Table:
    """The main figures of several reports in one table; square brackets contain 95% intervals, a/b are counts."""
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
    """The names of all figures in order; names that only later reports have keep their relative position."""
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
