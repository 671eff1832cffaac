"""How well the vectors of texts tell which are alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.malformed import MalformedRows
from regard.embeddings.pooling import unit
from regard.errors import InputError
from regard.metrics.regression import pearson, spearman
from regard.tasks.sentence_embedding.data import SentenceData
from regard.tasks.sentence_embedding.encoder import SentenceEncoder
from regard.tasks.sentence_embedding.examples import Given, SentenceExample, in_memory, reader
from regard.tasks.sentence_embedding.task import SentenceEmbeddingTask

CHUNK = 1024
"""Rows of cosines held at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Similarity:
    """How alike two texts were found.

    Arguments:
        first, second: the texts.
        cosine: of their vectors.
    """

    first: str
    second: str
    cosine: float


@dataclass(frozen=True, kw_only=True, slots=True)
class SentenceEvaluation:
    """What an evaluation found.

    Arguments:
        metrics: of rated pairs `spearman` and `pearson` of cosines with the numbers; of pairs that belong together `recall_at_1`,
            `recall_at_10` and `mean_reciprocal_rank` of each partner among all; of triples `accuracy`, the share in which the
            third text is farther than the second.
        count: examples.
        predictions: one for each example.
    """

    metrics: dict[str, float]
    count: int
    predictions: tuple[Similarity, ...] = field(repr=False, default=())


def evaluate_sentences(model: SentenceEncoder, examples: Given, *, precision: str | None = None) -> SentenceEvaluation:
    """Measure the vectors of a model on examples.

    Arguments:
        examples: `SentenceExample`s, or (first, second, number), (first, second), (first, second, one that does not belong).
        precision: to compute in; the model's own where None.

    Raises:
        InputError: for an empty list, or examples of different forms.
    """
    if isinstance(examples, str) or not examples:
        raise InputError("there is nothing to evaluate; give a list with at least one example")
    found = in_memory(examples) or []
    form = len(found[0].texts), found[0].score is None
    for example in found:
        if (len(example.texts), example.score is None) != form:
            raise InputError(f"{example.where}: is of another form than the first example; all must be of one")
    vectors = [
        unit(model.embed([example.texts[side] for example in found], precision=precision)) for side in range(form[0])
    ]
    cosines = (vectors[0] * vectors[1]).sum(axis=1)
    if not form[1]:
        right = np.array([example.score for example in found], dtype=np.float64)
        metrics = {"spearman": spearman(right, cosines), "pearson": pearson(right, cosines)}
    elif form[0] == 3:
        metrics = {"accuracy": float(np.mean(cosines > (vectors[0] * vectors[2]).sum(axis=1)))}
    else:
        ranks = _ranks(vectors[0], vectors[1], [example.texts[1] for example in found])
        metrics = {
            "recall_at_1": float(np.mean(ranks == 1)),
            "recall_at_10": float(np.mean(ranks <= 10)),
            "mean_reciprocal_rank": float(np.mean(1 / ranks)),
        }
    predictions = (
        Similarity(first=example.texts[0], second=example.texts[1], cosine=float(cosine))
        for example, cosine in zip(found, cosines, strict=True)
    )
    return SentenceEvaluation(metrics=metrics, count=len(found), predictions=tuple(predictions))


def similarity_beside(task: SentenceEmbeddingTask, example: SentenceExample, said: Similarity) -> dict[str, Any]:
    """Two texts, how alike they are said to be, and the cosine of their vectors, by name."""
    del task
    score = {} if example.score is None else {"score": example.score}
    return {"first": said.first, "second": said.second, **score, "cosine": said.cosine}


def read_sentences(data: SentenceData, malformed: MalformedRows) -> Iterator[SentenceExample]:
    """The examples that `data.train` names."""
    read = reader(data, data.train)
    if read is None:
        raise InputError("no file of pairs of texts is named; name one")
    return iter(read(malformed))


def _ranks(first: NDArray[np.float32], second: NDArray[np.float32], texts: Sequence[str]) -> NDArray[np.int64]:
    """The place of each row's partner among all second texts by cosine, from 1; the same text again does not count."""
    numbers: dict[str, int] = {}
    which = np.array([numbers.setdefault(text, len(numbers)) for text in texts])
    _, keep = np.unique(which, return_index=True)
    candidates = second[keep]
    ranks = np.empty(len(first), dtype=np.int64)
    for start in range(0, len(first), CHUNK):
        rows = slice(start, start + CHUNK)
        scores = first[rows] @ candidates.T
        own = np.take_along_axis(scores, which[rows, None], axis=1)
        ranks[rows] = 1 + (scores > own).sum(axis=1)
    return ranks
