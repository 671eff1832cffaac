"""Other forms of a word that a reader takes for the same: with a typing error, in the plural, in capitals, spelt elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal, get_args

import numpy as np

from regard.vectors.evaluation.builtin import IRREGULAR_PLURALS, SPELLINGS

Kind = Literal["typo", "plural", "capitalised", "upper case", "British spelling"]
KINDS: tuple[Kind, ...] = get_args(Kind)

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SHORTEST = 4
"""Letters of a word that gets a typing error; of shorter ones too little is left."""


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
