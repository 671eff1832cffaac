"""Probes: which of two pairs of words is nearer, and whether a word's vector tells how frequent the word is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from regard.data.lines import open_file, reading_errors
from regard.embeddings.pooling import unit
from regard.errors import InputError
from regard.reading import LARGEST_YAML, parse_yaml
from regard.structure import from_mapping
from regard.word_embeddings.evaluation.lookup import Case, Lookup
from regard.word_embeddings.store import WordVectors

Which = Literal["first", "second"]
LARGEST = LARGEST_YAML
"""Bytes of a file of probes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """Two pairs of words, and perhaps which is expected to be nearer.

    >>> Probe(first=("driver", "car"), second=("king", "queen"), expected="second").name
    'driver-car, king-queen'
    """

    first: tuple[str, str]
    second: tuple[str, str]
    expected: Which | None = None

    @property
    def name(self) -> str:
        """The two pairs."""
        return f"{'-'.join(self.first)}, {'-'.join(self.second)}"


PROBES: tuple[Probe, ...] = (
    Probe(first=("driver", "car"), second=("king", "queen"), expected="second"),
    Probe(first=("man", "woman"), second=("man", "car"), expected="first"),
    Probe(first=("cat", "dog"), second=("cat", "car"), expected="first"),
    Probe(first=("car", "truck"), second=("car", "road"), expected="first"),
    Probe(first=("doctor", "hospital"), second=("doctor", "river"), expected="first"),
    Probe(first=("France", "Paris"), second=("France", "London"), expected="first"),
    Probe(first=("good", "bad"), second=("good", "table"), expected="first"),
    Probe(first=("king", "man"), second=("queen", "man"), expected="first"),
    Probe(first=("big", "large"), second=("big", "small")),
    Probe(first=("coffee", "tea"), second=("coffee", "cup")),
)
"""Words that stand for one another (king and queen) are expected nearer than words that stand beside one another (driver and
car), and either nearer than words that have nothing to do with one another; of the last two nothing is expected."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeResult:
    """What a probe found.

    Arguments:
        probe: what was asked.
        cosines: of the first and the second pair; None for a pair with a word that has no vector.
        nearer: which pair; None where one has no cosine, or both have the same.
        as_expected: whether it is the one expected; None where nothing is expected or known.
    """

    probe: Probe
    cosines: tuple[float | None, float | None]
    nearer: Which | None
    as_expected: bool | None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        probe = {name: asdict(self.probe)[name] for name in ("first", "second", "expected")}
        return probe | {"cosines": self.cosines, "nearer": self.nearer, "as_expected": self.as_expected}


def read_probes(path: Path | str) -> tuple[Probe, ...]:
    r"""Probes from a YAML or JSON file: a list of `first`, `second` and perhaps `expected`.

    Raises:
        InputError: for a file that cannot be read, or holds something else.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "small.yaml"
    >>> _ = file.write_text("- {first: [tea, milk], second: [tea, iron], expected: first}\n")
    >>> read_probes(file)[0].expected
    'first'
    """
    with reading_errors(str(path), lambda: "its beginning"), open_file(str(path)) as stream:
        content = stream.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise InputError(f"{path}: is too large for a list of probes; give a small YAML or JSON file")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text (byte {error.start:,}); give a list of probes") from None
    values = parse_yaml(text, str(path), "give a list of probes")
    if not isinstance(values, list) or not values or not all(isinstance(each, dict) for each in values):
        raise InputError(
            f"{path}: holds no list of probes; give lines such as - {{first: [tea, milk], second: [tea, iron]}}"
        )
    return tuple(from_mapping(Probe, each, f"{path}: probe {number}") for number, each in enumerate(values, 1))


def run_probes(
    vectors: WordVectors, probes: Sequence[Probe] = PROBES, *, case: Case = "ignore"
) -> tuple[ProbeResult, ...]:
    """The cosines of the pairs, and which of two is nearer.

    >>> table = WordVectors(words=("tea", "milk", "iron"), matrix=np.array([[1, 0], [1, 0.2], [0, 1]], dtype=np.float32))
    >>> run_probes(table, [Probe(first=("tea", "milk"), second=("tea", "iron"), expected="first")])[0].as_expected
    True
    """
    lookup = Lookup(vectors=vectors, case=case)
    return tuple(_run(lookup, probe) for probe in probes)


def _run(lookup: Lookup, probe: Probe) -> ProbeResult:
    one, other = _cosine(lookup, probe.first), _cosine(lookup, probe.second)
    nearer: Which | None = None
    if one is not None and other is not None and one != other:
        nearer = "first" if one > other else "second"
    expected = None if nearer is None or probe.expected is None else nearer == probe.expected
    return ProbeResult(probe=probe, cosines=(one, other), nearer=nearer, as_expected=expected)


def _cosine(lookup: Lookup, pair: tuple[str, str]) -> float | None:
    first, second = (lookup.vector(word) for word in pair)
    return None if first is None or second is None else float(np.dot(unit(first), unit(second)))


# The probe of frequency.

FOLDS = 5
FEWEST = 10
"""Words of each class below which nothing is trained."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FrequencyProbe:
    """What `frequency_probe` found.

    Arguments:
        accuracy: on the words that were held out, where guessing gives 0.5; None where there are too few words.
        folds: the accuracy on each fifth of the words.
        words: frequent and rare ones together, as many of each.
        by: what says how frequent a word is: its count, or its place in the table.
        share: of the words that are called frequent.
    """

    accuracy: float | None
    folds: tuple[float, ...]
    words: int
    by: str
    share: float

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def frequency_probe(vectors: WordVectors, *, share: float = 0.1, most: int = 20_000, seed: int = 0) -> FrequencyProbe:
    """How well logistic regression tells frequent from rare words by their unit vectors (Schnabel et al. 2015, section 5).

    The most frequent words, a tenth of them unless told otherwise, are held against as many drawn from the others; five folds,
    each held out once; scikit-learn's regression with its own settings.

    Arguments:
        share: of all words, how many are frequent.
        most: words of each class, drawn where there are more.
        seed: of what is drawn, and of the folds.

    Raises:
        InputError: for a share that is none, or where scikit-learn is missing.

    >>> matrix = np.random.default_rng(0).normal(size=(400, 8)).astype(np.float32)
    >>> matrix[:40, 0] += 6
    >>> table = WordVectors(words=tuple(map(str, range(400))), matrix=matrix)
    >>> frequency_probe(table).accuracy > 0.9
    True
    """
    if not 0 < share <= 0.5:
        raise InputError(f"share is {share}; it must lie above 0 and be at most 0.5, such as 0.1")
    counted = vectors.counts is not None
    order = np.argsort(-vectors.counts, kind="stable") if vectors.counts is not None else np.arange(len(vectors))
    draw = np.random.default_rng(seed)
    border = round(share * len(order))
    size = min(border, most)
    rows = np.concatenate([draw.permutation(part)[:size] for part in (order[:border], order[border:])])
    labels = np.repeat([1, 0], size)
    folds = _folds(unit(np.asarray(vectors.matrix[rows])), labels, seed) if size >= FEWEST else ()
    return FrequencyProbe(
        accuracy=float(np.mean(folds)) if folds else None,
        folds=folds,
        words=len(rows),
        by="counts" if counted else "order",
        share=share,
    )


def _folds(points: np.ndarray, labels: np.ndarray, seed: int) -> tuple[float, ...]:
    try:
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import StratifiedKFold, cross_val_score
    except ImportError as error:
        raise InputError("the probe is trained by scikit-learn: pip install 'regard[eval]'") from error
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    found: Iterable[float] = cross_val_score(LogisticRegression(max_iter=1000), points, labels, cv=folds)
    return tuple(float(each) for each in found)
