"""Whether a word's neighbours belong together: a stranger among them should be easy to find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from regard.errors import InputError
from regard.vectors.neighbours import neighbours, odd_one_out
from regard.vectors.store import WordVectors

NEIGHBOURS = 2
WINDOW = 100
"""How many places of the table apart a query and its intruder may stand: they are about as frequent."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IntruderItem:
    """A word, its two nearest neighbours, and one word that is none.

    >>> IntruderItem(query="cat", neighbours=("dog", "horse"), intruder="tax").words
    ('cat', 'dog', 'horse', 'tax')
    """

    query: str
    neighbours: tuple[str, str]
    intruder: str

    @property
    def words(self) -> tuple[str, str, str, str]:
        """All four."""
        return self.query, *self.neighbours, self.intruder


@dataclass(frozen=True, kw_only=True, slots=True)
class CoherenceResult:
    """What `evaluate_coherence` found.

    Arguments:
        judge: whose vectors looked for the intruders.
        items: that were made.
        used: of which the judge has all words.
        found: intruders it found.
        accuracy: found over used, where guessing gives 1/4; None where none is used.
    """

    judge: str
    items: int
    used: int
    found: int
    accuracy: float | None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def intruder_items(
    vectors: WordVectors, queries: Sequence[str], *, among: int | None = None, seed: int = 0
) -> list[IntruderItem]:
    """For each word its two nearest neighbours and an intruder that is about as frequent (Schnabel et al. 2015, section 4).

    The intruder is drawn from the words at most 100 places before or after the query in the table, none of them among its hundred
    nearest neighbours (in a small table, among the nearest quarter of all words).

    Arguments:
        queries: words of the table; others are left out.
        among: neighbours and intruders are among so many words from the top; None for all.
        seed: of what is drawn.

    Raises:
        InputError: for a table of fewer than four words.

    >>> rows = np.eye(3, dtype=np.float32).repeat(3, axis=0) + 0.01 * np.arange(27, dtype=np.float32).reshape(9, 3)
    >>> item = intruder_items(WordVectors(words=tuple("abcdefghi"), matrix=rows), ["a"])[0]
    >>> item.neighbours, item.intruder in "defghi"
    (('b', 'c'), True)
    """
    size = len(vectors) if among is None else min(among, len(vectors))
    if size <= NEIGHBOURS + 1:
        raise InputError(f"{vectors.name}: {size} words are too few for intruders; give four at least")
    draw = np.random.default_rng([seed, 0x0DD])
    items = []
    for query in dict.fromkeys(query for query in queries if query in vectors):
        near = [each.word for each in neighbours(vectors, query, min(100, max(NEIGHBOURS, size // 4)), among=size)]
        row = min(vectors.rows[query], size - 1)
        around = range(max(0, row - WINDOW), min(size, row + WINDOW + 1))
        strangers = [vectors.words[at] for at in around if vectors.words[at] not in {query, *near}]
        if not strangers:  # a table of which all around is near
            strangers = [word for word in vectors.words[:size] if word not in {query, *near[:NEIGHBOURS]}]
        items.append(
            IntruderItem(
                query=query, neighbours=(near[0], near[1]), intruder=strangers[int(draw.integers(len(strangers)))]
            )
        )
    return items


def evaluate_coherence(items: Sequence[IntruderItem], judge: WordVectors) -> CoherenceResult:
    """The share of items whose intruder is the word that by a judge's vectors belongs least to the four.

    People are the judges in Schnabel et al.; here it is a table of vectors. Those that made the items mostly find their own
    intruders, so that another table tells more: whether what is near in one is near in the other.

    Arguments:
        items: made from the vectors that are evaluated.
        judge: other vectors, or the same.

    >>> table = WordVectors(words=("cat", "dog", "cow", "tax"), name="small", matrix=np.array(
    ...     [[1, 0], [1, 0.1], [1, 0.2], [0, 1]], dtype=np.float32))
    >>> evaluate_coherence([IntruderItem(query="cat", neighbours=("dog", "cow"), intruder="tax")], table).accuracy
    1.0
    """
    used = [item for item in items if all(judge.has(word) for word in item.words)]
    found = sum(odd_one_out(judge, item.words)[0].word == item.intruder for item in used)
    return CoherenceResult(
        judge=judge.name, items=len(items), used=len(used), found=found, accuracy=found / len(used) if used else None
    )
