"""Probes without a test set: which of two pairs is nearer, how frequent a word is, and misspelt or inflected variants."""

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
"""Words that stand for one another (king and queen) are expected nearer than words that are next to one another (driver and
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

    The most frequent words, a tenth of them by default, are held against as many sampled from the others; five
    folds, each held out once; scikit-learn's regression with its own settings.

    Arguments:
        share: of all words, how many are frequent.
        most: words of each class, sampled where there are more.
        seed: of what is sampled, and of the folds.

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


# Variants: whether they have a vector, and one near the word's own.


Kind = Literal["typo", "plural", "capitalised", "upper case", "British spelling"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""Of variants of a word."""

COSINES = 1 << 23
"""That are in memory together."""
NEAR = 10


class VariantFound(NamedTuple):
    """A word and its variant.

    Arguments:
        word: that has a row in the table.
        variant: of it.
        made: whether its vector is one of subwords.
        cosine: of the two.
        rank: of the word among the variant's neighbours, from 1.
    """

    word: str
    variant: str
    made: bool
    cosine: float
    rank: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RobustnessResult:
    """What `evaluate_robustness` found of one kind of variant.

    Arguments:
        kind: of the variants.
        words: with a row in the table, and a variant of that kind.
        unknown: words without a row, which are left out.
        covered: whose variant has a vector, a row of the table or one made of subwords.
        made: of these, made of subwords.
        cosine: mean, over those covered; None where there are none.
        median_rank: of the word among the neighbours of its variant; likewise.
        hits: words among the ten nearest neighbours of their variant.
        hit_rate: hits over covered; likewise.
        found: each that is covered; not in the JSON.
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
        """Covered over words."""
        return self.covered / self.words if self.words else None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        values = asdict(self)
        del values["found"]
        return values | {"coverage": self.coverage}


def evaluate_robustness(
    vectors: WordVectors, words: Sequence[str] | None = None, *, kinds: Sequence[Kind] = KINDS, seed: int = 0
) -> tuple[RobustnessResult, ...]:
    """How variants of words fare, kind by kind: typing errors, plurals, capitals, British spellings.

    A table alone has no vector for most typing errors; one with subwords makes one for nearly all, and it may be near the word's.
    A typing error that is a row of the table counts as covered, be it a word of its own or an error the training text had too.

    Arguments:
        words: in small letters; None: common nouns, and for spellings a list of words that differ.
        kinds: of variants.
        seed: of the typing errors.

    Raises:
        InputError: for a kind that does not exist.

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
        draw = np.random.default_rng([seed, KINDS.index(kind)])
        forms = [(word, variant(word, kind, draw)) for word in dict.fromkeys(own)]
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
    """How many words are nearer than the word, the variant itself left out, and one."""
    nearer = int((scores > scores[vectors.rows[word]]).sum())
    own = vectors.rows.get(form)
    return 1 + nearer - int(own is not None and scores[own] > scores[vectors.rows[word]])


# Variants: forms of a word that a reader takes for the same.

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SHORTEST = 4
"""Letters of a word that gets a typing error; of shorter ones too little is left."""


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
"""The same word as it is spelt in America, and in Britain."""


def variant(word: str, kind: Kind, draw: np.random.Generator) -> str | None:
    """A word's variant of a kind; None where it has none, or it is the word itself.

    >>> draw = np.random.default_rng(0)
    >>> [variant("city", kind, draw) for kind in ("plural", "capitalised", "upper case", "British spelling")]
    ['cities', 'City', 'CITY', None]
    """
    made = _VARIANTS[kind](word, draw)
    return made if made != word else None


def typo(word: str, draw: np.random.Generator) -> str | None:
    """The word with one letter wrong: one too many, one missing, another one, or two exchanged; the first letter is right.

    Returns:
        None for words of fewer than four letters.

    >>> [typo("house", np.random.default_rng(seed)) for seed in range(3)]
    ['housq', 'houes', 'housge']
    """
    if len(word) < SHORTEST:
        return None
    place = int(draw.integers(1, len(word)))
    letter = LETTERS[int(draw.integers(len(LETTERS)))]
    kind = int(draw.integers(4))
    if kind == 3:  # two neighbours that differ, if there are such
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
    """The plural of an English noun by the common rules, and of a few that follow none.

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
