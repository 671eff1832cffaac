"""The vector of a word that stands alone before the model: decontextualised."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from regard.errors import InputError
from regard.vectors.contextual.origin import Layers, chosen, described
from regard.vectors.store import Counts, WordVectors

if TYPE_CHECKING:
    from regard.tasks.sentence_embedding.encoder import SentenceEncoder

TOGETHER = 1024
"""Words whose vectors are in memory at once, beside the table."""


def vectors_alone(
    encoder: SentenceEncoder,
    words: Sequence[str],
    *,
    layers: Layers = "last",
    counts: Counts | None = None,
    precision: str | None = None,
    name: str = "words alone",
    progress: Callable[[int, int], None] | None = None,
) -> WordVectors:
    """What an encoder makes of each word as a text of its own: the mean of its pieces' vectors between the special tokens.

    Arguments:
        encoder: any model that `regard.load(folder, task="sentence_embedding")` gives.
        words: all different.
        layers: as for `features`.
        counts: how often each occurs somewhere, (N,) int64, to be kept with them; None for nothing.
        precision: to compute in; the model's own where None.
        name: what messages and tables call the vectors.
        progress: is told how many words are done, and of how many.

    Raises:
        InputError: for no word, a word given twice, and layers that the model does not have.
    """
    if isinstance(words, str) or not words:
        raise InputError("words: none are given; give a list of one or more")
    choice, width = chosen(encoder, layers)
    matrix = np.empty((len(words), width), dtype=np.float32)
    for start in range(0, len(words), TOGETHER):
        some = [[word] for word in words[start : start + TOGETHER]]
        found = encoder.features(some, layers=choice, precision=precision)
        matrix[start : start + len(some)] = np.stack([each.merged().array[0] for each in found])
        if progress is not None:
            progress(start + len(some), len(words))
    return WordVectors(
        words=tuple(words),
        matrix=matrix,
        counts=counts,
        metadata={"method": "words alone", **described(choice)},
        name=name,
    )
