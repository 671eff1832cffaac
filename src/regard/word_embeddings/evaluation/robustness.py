"""Variants of words (typing errors, plurals, capitals, spellings): whether they have a vector, and one near the word's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from regard.embeddings.pooling import unit
from regard.errors import InputError
from regard.word_embeddings.evaluation.categories import NOUNS, word_list
from regard.word_embeddings.neighbours import cosines
from regard.word_embeddings.store import WordVectors

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
