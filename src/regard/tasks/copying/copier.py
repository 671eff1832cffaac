"""A model that copies, ready to use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from regard.data.batching import Batches
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.layers.output import check_finite
from regard.tasks.copying.task import COLUMN, CopyingTask
from regard.tasks.predictor import Predictor

STEPS = 4096
"""Steps read together, those of shorter sequences included that are waited through."""

Bits = Sequence[Sequence[int]]
"""The vectors of a sequence, each of so many zeros and ones."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Copied:
    """What a model gave back of a sequence.

    Arguments:
        bits: the vectors told, as many as were read.
        probabilities: that each bit is a one.
        wrong: how many of the bits are not those that were read.
    """

    bits: tuple[tuple[int, ...], ...]
    probabilities: tuple[tuple[float, ...], ...]
    wrong: int


class Copier(Predictor[CopyingTask]):
    """A model that copies, ready to use: vectors of bits in, `Copied` out.

    Arguments:
        model: a `Transducer`.
        task: the width of a vector.
        recipe: how it was trained, as data; empty where unknown.
        metrics: its last evaluation.
    """

    judged: ClassVar[tuple[str, ...]] = ("bit_error", "exact_match")
    judged_always: ClassVar[bool] = True

    def copy(self, bits: Bits) -> Copied:
        """What the model gives back of one sequence.

        Raises:
            InputError: for an empty sequence, or vectors that are not of the model's width or not of zeros and ones.
        """
        return self.copy_batch([bits])[0]

    def copy_batch(self, sequences: Sequence[Bits]) -> list[Copied]:
        """What the model gives back of many; the answers come in the order of the sequences.

        Raises:
            InputError: as `copy`.
        """
        return self.copies([self._numbers(bits, place) for place, bits in enumerate(sequences, start=1)])

    def copies(self, sequences: Sequence[Sequence[int]]) -> list[Copied]:
        """The same for vectors that are numbers already, the lowest bit first."""
        found: dict[int, Copied] = {}
        for rows, answers in self._batches(sequences):
            found.update(zip(rows, answers, strict=True))
        return [found[row] for row in range(len(sequences))]

    def judge(self, data: TokenStore, count: int) -> dict[str, float]:
        """The share of bits that are wrong, and of sequences without a wrong one."""
        rows = range(min(count, len(data)))
        return copying_scores(self.copies([data.sequence(COLUMN, row).tolist() for row in rows]))

    def _batches(self, sequences: Sequence[Sequence[int]]) -> Iterator[tuple[list[int], list[Copied]]]:
        if not sequences:
            return
        lengths = np.array([[2 * len(numbers) + 1] for numbers in sequences], dtype=np.int64)
        for rows in Batches(lengths, maximum_tokens=STEPS).in_order():
            batch = self.task.batch([sequences[row] for row in rows]).to(self.device)
            with torch.no_grad():
                told = check_finite(self.task.told(self.model, batch).float(), "these sequences")
                probabilities = torch.sigmoid(told).cpu()
            wrong = (probabilities > 0.5) != (batch.bits.cpu() > 0.5)
            yield (
                rows.tolist(),
                [
                    _copied(probabilities[place, :length].tolist(), int(wrong[place, :length].sum()))
                    for place, length in enumerate(batch.lengths.tolist())
                ],
            )

    def _numbers(self, bits: Bits, place: int) -> list[int]:
        width = self.task.width
        if isinstance(bits, str) or not len(bits):
            raise InputError(f"sequence {place} is {bits!r}; give a list of vectors, one at least")
        for vector in bits:
            if isinstance(vector, int) or len(vector) != width or not set(vector) <= {0, 1}:
                raise InputError(f"sequence {place} has the vector {vector!r}; give {width} zeros and ones each")
        return [sum(bit << shift for shift, bit in enumerate(vector)) for vector in bits]


def _copied(probabilities: list[list[float]], wrong: int) -> Copied:
    return Copied(
        bits=tuple(tuple(int(share > 0.5) for share in vector) for vector in probabilities),
        probabilities=tuple(tuple(vector) for vector in probabilities),
        wrong=wrong,
    )


def copying_scores(copied: Sequence[Copied]) -> dict[str, float]:
    """`bit_error` and `exact_match` of some answers."""
    bits = sum(len(answer.bits) * len(answer.bits[0]) for answer in copied)
    return {
        "bit_error": sum(answer.wrong for answer in copied) / bits,
        "exact_match": sum(not answer.wrong for answer in copied) / len(copied),
    }
