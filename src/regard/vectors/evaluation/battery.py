"""All tests at once, and the same for several tables of vectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.data.malformed import MalformedRows
from regard.errors import InputError
from regard.vectors.evaluation.analogies import AnalogySet, check_method, evaluate_analogies, read_analogies
from regard.vectors.evaluation.builtin import NOUNS
from regard.vectors.evaluation.categories import CategorySet, builtin_categories, evaluate_categories, read_categories
from regard.vectors.evaluation.coherence import evaluate_coherence, intruder_items
from regard.vectors.evaluation.frequency import frequency_probe
from regard.vectors.evaluation.lookup import Case, Lookup, Unknown, check_unknown, known_case
from regard.vectors.evaluation.probes import PROBES, Probe, run_probes
from regard.vectors.evaluation.reading import set_files
from regard.vectors.evaluation.report import Report
from regard.vectors.evaluation.robustness import evaluate_robustness
from regard.vectors.evaluation.similarity import SimilaritySet, evaluate_similarity, read_similarity
from regard.vectors.neighbours import Method
from regard.vectors.store import WordVectors

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
        seed: of all that is drawn.

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
