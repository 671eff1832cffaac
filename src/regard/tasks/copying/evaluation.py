"""How well a model copies sequences it has not seen."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from regard.data.malformed import MalformedRows
from regard.errors import InputError
from regard.tasks.copying.copier import Copied, Copier, copying_scores
from regard.tasks.copying.data import CopyingData

USUAL_SIZE = 500
"""Sequences that are read where nobody says how many."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CopyEvaluation:
    """What an evaluation found.

    Arguments:
        metrics: `bit_error`, the share of bits that are wrong; `exact_match`, of sequences without a wrong one; and
            `bits_per_sequence`, the mean over sequences of the sum of -log2 p of their bits, as the paper counts its cost.
        count: sequences.
        predictions: one for each.
    """

    metrics: dict[str, float]
    count: int
    predictions: tuple[Copied, ...] = field(repr=False, default=())


def evaluate_copies(model: Copier, sequences: Sequence[Sequence[int]]) -> CopyEvaluation:
    """Have a model copy sequences.

    Arguments:
        sequences: numbers, the bits of each vector, the lowest first, such as `regard.data.sequences.BitCopies`.

    Raises:
        InputError: for none, an empty one, or numbers that the model's vectors cannot hold.
    """
    if isinstance(sequences, str) or not len(sequences):
        raise InputError("there is nothing to evaluate; give a list with at least one sequence")
    most = 1 << model.task.width
    for place, numbers in enumerate(sequences, start=1):
        if not len(numbers) or not all(0 <= number < most for number in numbers):
            raise InputError(f"sequence {place} is {numbers!r:.60}; give numbers from 0 to {most - 1}, one at least")
    copied = model.copies(sequences)
    costs = [_cost(answer, numbers) for answer, numbers in zip(copied, sequences, strict=True)]
    metrics = copying_scores(copied) | {"bits_per_sequence": math.fsum(costs) / len(costs)}
    return CopyEvaluation(metrics=metrics, count=len(copied), predictions=tuple(copied))


def read_copies(data: CopyingData, malformed: MalformedRows) -> Iterator[tuple[int, ...]]:
    """Sequences of the test split, always the same."""
    del malformed
    return iter(data.copies("test", USUAL_SIZE, 0))


def _cost(answer: Copied, numbers: Sequence[int]) -> float:
    least = 1e-12
    return -math.fsum(
        math.log2(max(share if number >> place & 1 else 1 - share, least))
        for number, vector in zip(numbers, answer.probabilities, strict=True)
        for place, share in enumerate(vector)
    )
