"""Tests without a test set: which of two word pairs is closer, predicting frequency, and misspelt or inflected variants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from regard.data.lines import open_file, reading_errors
from regard.embeddings.pooling import unit
from regard.errors import InputError
from regard.reading import LARGEST_YAML, parse_yaml
from regard.structure import from_mapping
from regard.word_embeddings.evaluation.categories import NOUNS, word_list
from regard.word_embeddings.evaluation.similarity import Case, Lookup
from regard.word_embeddings.neighbours import cosines
from regard.word_embeddings.store import WordVectors

Which = Literal["first", "second"]
LARGEST = LARGEST_YAML
"""The most bytes of a file of probes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """Two pairs of words, and optionally which pair is expected to have the larger cosine.

    >>> Probe(first=("driver", "car"), second=("king", "queen"), expected="second").name
    'driver-car, king-queen'
    """

    first: tuple[str, str]
    second: tuple[str, str]
    expected: Which | None = None

    @property
    def name(self) -> str:
        """The two pairs as text."""
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
"""Words that can replace each other (king and queen) are expected to be closer than words that occur together (driver and car),
and both closer than unrelated words. The last two probes have no expectation."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeResult:
    """The result of a probe.

    Arguments:
        probe: the probe.
        cosines: the cosines of the first and of the second pair; None for a pair with a word that has no vector.
        nearer: the pair with the larger cosine; None if a cosine is missing or both are equal.
        as_expected: whether it is the expected pair; None without an expectation or a result.
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
    r"""Read probes from a YAML or JSON file: a list of objects with `first`, `second` and optionally `expected`.

    Raises:
        InputError: if the file cannot be read or has another content.

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
            f"{path}: is not a list of probes; give lines such as - {{first: [tea, milk], second: [tea, iron]}}"
        )
    return tuple(from_mapping(Probe, each, f"{path}: probe {number}") for number, each in enumerate(values, 1))


def run_probes(
    vectors: WordVectors, probes: Sequence[Probe] = PROBES, *, case: Case = "ignore"
) -> tuple[ProbeResult, ...]:
    """The cosines of both pairs of each probe, and which pair is closer.

    Arguments:
        vectors: the word embeddings.
        probes: the probes.
        case: how words are looked up, see `Lookup`.

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


# The frequency probe.

FOLDS = 5
FEWEST = 10
"""The fewest words per class for training."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FrequencyProbe:
    """The result of `frequency_probe`.

    Arguments:
        accuracy: accuracy on held-out words; guessing gives 0.5. None with too few words.
        folds: the accuracy on each of the five folds.
        words: the number of words, half of them frequent and half rare.
        by: how frequency is measured: "counts", or "order" for the order of words in the table.
        share: the share of all words that counts as frequent.
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
    """The accuracy of predicting from a unit vector whether its word is frequent or rare (Schnabel et al. 2015, section 5).

    The classes are the most frequent words (by default the first tenth) and equally many words sampled from the others. The
    accuracy is from five-fold cross-validation of scikit-learn's logistic regression with its default regularization.

    Arguments:
        vectors: the word embeddings.
        share: the share of all words that counts as frequent, in (0, 0.5].
        most: the most words per class; larger classes are sampled.
        seed: seed of the sampling and of the folds.

    Raises:
        InputError: for a share outside (0, 0.5], or if scikit-learn is not installed.

    >>> matrix = np.random.default_rng(0).normal(size=(400, 8)).astype(np.float32)
    >>> matrix[:40, 0] += 6
    >>> table = WordVectors(words=tuple(map(str, range(400))), matrix=matrix)
    >>> frequency_probe(table).accuracy > 0.9
    True
    """
    if not 0 < share <= 0.5:
        raise InputError(f"share is {share}; give a number above 0 and at most 0.5, such as 0.1")
    counted = vectors.counts is not None
    order = np.argsort(-vectors.counts, kind="stable") if vectors.counts is not None else np.arange(len(vectors))
    rng = np.random.default_rng(seed)
    border = round(share * len(order))
    size = min(border, most)
    rows = np.concatenate([rng.permutation(part)[:size] for part in (order[:border], order[border:])])
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
        raise InputError("the frequency probe needs scikit-learn: pip install 'regard[eval]'") from error
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    found: Iterable[float] = cross_val_score(LogisticRegression(max_iter=1000), points, labels, cv=folds)
    return tuple(float(each) for each in found)


# Variants of words: whether they have a vector, and whether it is close to the word's vector.


Kind = Literal["typo", "plural", "capitalised", "upper case", "British spelling"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""The kinds of variants of a word."""

COSINES = 1 << 23
"""The number of cosines that are in memory at a time."""
NEAR = 10
"""A variant is a hit if the word is among this many nearest neighbours."""


class VariantFound(NamedTuple):
    """A word and a variant of it that has a vector.

    Arguments:
        word: the word, which is in the table.
        variant: the variant.
        made: whether the variant's vector was computed from subwords.
        cosine: the cosine of their vectors.
        rank: the rank of the word among the variant's neighbours, from 1.
    """

    word: str
    variant: str
    made: bool
    cosine: float
    rank: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RobustnessResult:
    """The result of `evaluate_robustness` for one kind of variant.

    Arguments:
        kind: the kind of variants.
        words: the number of words that are in the table and have a variant of this kind.
        unknown: the number of words that are not in the table; they are left out.
        covered: the number of words whose variant has a vector, from the table or from subwords.
        made: the number of these whose variant's vector was computed from subwords.
        cosine: the mean cosine of word and variant over the covered words; None if there are none.
        median_rank: the median rank of the word among its variant's neighbours; None if no word is covered.
        hits: the number of words that are among the ten nearest neighbours of their variant.
        hit_rate: hits / covered; None if no word is covered.
        found: the details of each covered word; not in the JSON.
    """

    kind: Kind
    words: int
    unknown: int
    covered: int
    made: int
    cosine: float | None
    median_rank: float | None
    hits: int
    hit_rate: float | None
    found: tuple[VariantFound, ...]

    @property
    def coverage(self) -> float | None:
        """Covered / words; None without words."""
        return self.covered / self.words if self.words else None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        values = asdict(self)
        del values["found"]
        return values | {"coverage": self.coverage}


def evaluate_robustness(
    vectors: WordVectors, words: Sequence[str] | None = None, *, kinds: Sequence[Kind] = KINDS, seed: int = 0
) -> tuple[RobustnessResult, ...]:
    """How well variants of words are represented: typos, plurals, capitals, British spellings.

    For each kind, this measures how many variants have a vector, and how close it is to the word's vector. Embeddings without
    subwords have no vector for most typos; with subwords nearly all variants have one. A typo that happens to be in the table
    counts as covered, whether it is another word or a typo in the training text.

    Arguments:
        vectors: the word embeddings.
        words: words in lower case; None for common nouns, and for British spellings a list of words whose spellings differ.
        kinds: the kinds of variants.
        seed: seed of the typos.

    Raises:
        InputError: for an unknown kind.

    >>> table = WordVectors(words=("dog", "dogs", "red"), matrix=np.array([[1, 0], [1, 0.2], [0, 1]], dtype=np.float32))
    >>> found = evaluate_robustness(table, ["dog", "cat"], kinds=["plural"])[0]
    >>> found.words, found.unknown, found.covered, found.hits
    (1, 1, 1, 1)
    """
    results = []
    for kind in kinds:
        if kind not in KINDS:
            raise InputError(f"there is no kind of variant {kind!r}; choose from {', '.join(KINDS)}")
        own = words if words is not None else NOUNS if kind != "British spelling" else tuple(SPELLINGS)
        rng = np.random.default_rng([seed, KINDS.index(kind)])
        forms = [(word, variant(word, kind, rng)) for word in dict.fromkeys(own)]
        asked = [(word, form) for word, form in forms if form is not None]
        results.append(_result(vectors, kind, asked))
    return tuple(results)


def _result(vectors: WordVectors, kind: Kind, asked: Sequence[tuple[str, str]]) -> RobustnessResult:
    there = [(word, form) for word, form in asked if word in vectors]
    found = tuple(_found(vectors, there))
    hits = sum(each.rank <= NEAR for each in found)
    return RobustnessResult(
        kind=kind,
        words=len(there),
        unknown=len(asked) - len(there),
        covered=len(found),
        made=sum(each.made for each in found),
        cosine=float(np.mean([each.cosine for each in found])) if found else None,
        median_rank=float(np.median([each.rank for each in found])) if found else None,
        hits=hits,
        hit_rate=hits / len(found) if found else None,
        found=found,
    )


def _found(vectors: WordVectors, pairs: Sequence[tuple[str, str]]) -> Iterator[VariantFound]:
    known = [(word, form, vector) for word, form in pairs if (vector := vectors.get(form)) is not None]
    together = max(1, COSINES // len(vectors)) if known else 1
    for start in range(0, len(known), together):
        here = known[start : start + together]
        scores = cosines(vectors, np.stack([vector for _, _, vector in here]))
        for (word, form, vector), row in zip(here, scores, strict=True):
            yield VariantFound(
                word,
                form,
                form not in vectors,
                float(unit(vector) @ unit(vectors[word])),
                _rank(vectors, row, word, form),
            )


def _rank(vectors: WordVectors, scores: NDArray[np.float32], word: str, form: str) -> int:
    """The rank of the word: 1 plus the number of words with a larger cosine, without the variant itself."""
    nearer = int((scores > scores[vectors.rows[word]]).sum())
    own = vectors.rows.get(form)
    return 1 + nearer - int(own is not None and scores[own] > scores[vectors.rows[word]])


# Generating variants of words.

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SHORTEST = 4
"""The fewest letters of a word that gets a typo; shorter words would not be recognisable."""


IRREGULAR_PLURALS: Mapping[str, str] = MappingProxyType(
    {
        "foot": "feet",
        "fish": "fishes",
        "sheep": "sheep",
        "wolf": "wolves",
        "wife": "wives",
        "child": "children",
        "woman": "women",
        "man": "men",
    }
)

SPELLINGS: Mapping[str, str] = MappingProxyType(
    dict(
        pair.split("/")  # type: ignore[misc]
        for pair in word_list(
            """color/colour center/centre theater/theatre favorite/favourite honor/honour harbor/harbour labor/labour
            neighbor/neighbour defense/defence offense/offence organization/organisation organized/organised
            recognized/recognised realized/realised gray/grey meter/metre liter/litre fiber/fibre program/programme
            catalog/catalogue dialog/dialogue traveled/travelled canceled/cancelled jewelry/jewellery plow/plough armor/armour
            behavior/behaviour flavor/flavour rumor/rumour humor/humour analyze/analyse license/licence aluminum/aluminium
            airplane/aeroplane"""
        )
    )
)
"""American spellings and the British spellings of the same words."""


def variant(word: str, kind: Kind, rng: np.random.Generator) -> str | None:
    """The variant of a word of this kind; None if there is none, or it equals the word.

    >>> rng = np.random.default_rng(0)
    >>> [variant("city", kind, rng) for kind in ("plural", "capitalised", "upper case", "British spelling")]
    ['cities', 'City', 'CITY', None]
    """
    made = _VARIANTS[kind](word, rng)
    return made if made != word else None


def typo(word: str, rng: np.random.Generator) -> str | None:
    """The word with one random typo: a letter inserted, deleted or replaced, or two swapped. The first letter is kept.

    Returns:
        The misspelt word; None for words of fewer than four letters.

    >>> [typo("house", np.random.default_rng(seed)) for seed in range(3)]
    ['housq', 'houes', 'housge']
    """
    if len(word) < SHORTEST:
        return None
    place = int(rng.integers(1, len(word)))
    letter = LETTERS[int(rng.integers(len(LETTERS)))]
    kind = int(rng.integers(4))
    if kind == 3:  # swap two adjacent letters that differ, if there are any
        places = [at for at in range(1, len(word) - 1) if word[at] != word[at + 1]]
        if places:
            at = places[place % len(places)]
            return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
        kind = 1
    if kind == 2 and letter == word[place]:
        letter = LETTERS[(LETTERS.index(letter) + 1) % len(LETTERS)]
    return (
        word[:place] + letter + word[place:],
        word[:place] + word[place + 1 :],
        word[:place] + letter + word[place + 1 :],
    )[kind]


def plural(word: str) -> str:
    """The plural of an English noun by the common rules, with a few exceptions.

    >>> plural("city"), plural("church"), plural("boy"), plural("man")
    ('cities', 'churches', 'boys', 'men')
    """
    if word in IRREGULAR_PLURALS:
        return IRREGULAR_PLURALS[word]
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and word[-2:-1] not in ("a", "e", "i", "o", "u", ""):
        return word[:-1] + "ies"
    return word + "s"


_VARIANTS: Mapping[Kind, Callable[[str, np.random.Generator], str | None]] = MappingProxyType(
    {
        "typo": typo,
        "plural": lambda word, _: plural(word),
        "capitalised": lambda word, _: word.capitalize(),
        "upper case": lambda word, _: word.upper(),
        "British spelling": lambda word, _: SPELLINGS.get(word),
    }
)
