"""Copying sequences of bits, the first task of the neural Turing machine (Graves et al. 2014, section 4.1)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.batching import Batches
from regard.data.malformed import MalformedRows
from regard.data.rows import parts_of
from regard.data.sequences import BitCopies
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.layers.embeddings import check_finite
from regard.models.config import check
from regard.structure import from_mapping
from regard.tasks.examples import Examples
from regard.tasks.predictor import Evaluation, Predictor
from regard.tasks.preparation import TRAIN, VALIDATION, Prepared, prepare, write_store
from regard.tasks.spec import TaskSpec
from regard.tasks.task import LossSum, Task, TensorBatch
from regard.text import Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class CopyingData:
    """The `data` section of a recipe: sequences of random bits, sampled with the seed of the run.

    Arguments:
        width: the number of bits of one vector.
        shortest, longest: the range of the number of vectors of a sequence, which is sampled uniformly.
        size, validation_size: the number of sequences for training and for validation; no sequence is in both.

    Raises:
        InputError: for numbers out of range.
    """

    width: int = 8
    shortest: int = 1
    longest: int = 20
    size: int = 100_000
    validation_size: int = 500

    def __post_init__(self) -> None:
        for name in ("size", "validation_size"):
            value = getattr(self, name)
            check(value > 0, f"data.{name}", value, "above 0", "raise it")
        self.copies("train", 0, 0)

    def copies(self, split: str, size: int, seed: int) -> BitCopies:
        """The sequences of one split."""
        return BitCopies(split, width=self.width, shortest=self.shortest, longest=self.longest, size=size, seed=seed)


COLUMN = "numbers"
"""The column of the token stores."""


@dataclass(frozen=True, slots=True, eq=False)
class CopyBatch(TensorBatch):
    """A batch for one step of training.

    Arguments:
        x: (B, T, width + 1) float32: the vectors of each sequence, the delimiter, then blanks, also as padding.
        bits: (B, L, width) float32, the bits to predict, from the first blank on; zeros after the end of a shorter sequence.
        lengths: (B,) int64, the number of vectors of each sequence.
    """

    x: Tensor
    bits: Tensor
    lengths: Tensor


@dataclass(frozen=True, slots=True)
class CopyingTask(Task):
    """Turns sequences of bits into a model's tensors, and its outputs into a loss.

    The model reads the n vectors of a sequence one by one, then a delimiter in a separate channel, then n blanks, for which it
    has to output the vectors in their order (Graves, Wayne, Danihelka 2014, section 4.1).

    Arguments:
        width: the number of bits of one vector.
    """

    name: ClassVar[str] = "copying"
    unit: ClassVar[str] = "bits"

    width: int

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        """Empty, because there is no text."""
        return {}

    def model_settings(self) -> dict[str, int]:
        """The sizes of a model that follow from the width of vectors."""
        return {"inputs": self.width + 1, "outputs": self.width}

    def batch(self, sequences: Sequence[Sequence[int] | np.ndarray]) -> CopyBatch:
        """A batch of sequences; each number is a vector, whose bits are ordered from the lowest to the highest."""
        lengths = np.array([len(numbers) for numbers in sequences], dtype=np.int64)
        longest = int(lengths.max(initial=0))
        numbers = np.zeros((len(sequences), longest), dtype=np.int64)
        numbers[np.arange(longest) < lengths[:, None]] = np.concatenate(
            [np.asarray(each, dtype=np.int64) for each in sequences]
        )
        bits = (numbers[:, :, None] >> np.arange(self.width) & 1).astype(np.float32)
        x = np.zeros((len(sequences), 2 * longest + 1, self.width + 1), dtype=np.float32)
        x[:, :longest, :-1] = bits
        x[np.arange(len(sequences)), lengths, -1] = 1
        return CopyBatch(torch.from_numpy(x), torch.from_numpy(bits), torch.from_numpy(lengths))

    def bit_logits(self, model: nn.Module, batch: CopyBatch) -> Tensor:
        """Logits of the bits, (B, L, width), from the first blank of each sequence on; undefined after its end."""
        logits = model(batch.x)
        places = batch.lengths[:, None] + 1 + torch.arange(batch.bits.shape[1], device=logits.device)
        places = places.clamp_max(max(logits.shape[1] - 1, 0))
        return logits.gather(1, places.unsqueeze(-1).expand(-1, -1, self.width))

    def lengths(self, data: TokenStore) -> np.ndarray:
        """The number of steps of each sequence, (N, 1)."""
        return 2 * data.lengths(COLUMN)[:, None] + 1

    def labels(self, data: TokenStore) -> np.ndarray:
        """The number of bits to predict of each sequence, (N,)."""
        return self.width * data.lengths(COLUMN)

    def read_batch(self, data: TokenStore, rows: Sequence[int]) -> CopyBatch:
        """The sequences of these rows as a batch."""
        return self.batch([data.sequence(COLUMN, row) for row in rows])

    def loss(self, model: nn.Module, batch: CopyBatch, *, smoothing: float = 0.0) -> LossSum:
        """Binary cross-entropy of the bits, natural log, summed."""
        logits = self.bit_logits(model, batch).float()
        real = real_steps(batch).unsqueeze(-1).expand_as(logits)
        wanted = batch.bits * (1 - smoothing) + smoothing / 2
        total = F.binary_cross_entropy_with_logits(logits, wanted, reduction="none").masked_fill(~real, 0.0).sum()
        correct = (((logits > 0) == (batch.bits > 0.5)) & real).sum()
        return LossSum(total, int(batch.lengths.sum()) * self.width, correct)

    def metrics_of(self, loss: float, right: float) -> dict[str, float]:
        """The mean loss of a bit; `validate` computes the share of wrong bits."""
        del right
        return {"loss": loss}

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """The numbers of sequences and their lengths, as one line."""
        lengths = train.lengths(COLUMN)
        return (
            f"{len(train):,} sequences of {lengths.min()} to {lengths.max()} vectors of {self.width} bits to learn from, "
            f"{len(validation):,} to validate on"
        )

    def check(self, model: Any, train: TokenStore, validation: TokenStore) -> None:
        """Nothing to check: a model reads sequences of any length."""
        del model, train, validation

    def save(self, folder: Path) -> dict[str, Any]:
        """The values for regard.json; there are no other files."""
        del folder
        return {"name": self.name, "width": self.width}

    @classmethod
    def load(cls, folder: Path, values: Mapping[str, Any]) -> CopyingTask:
        """Rebuild the task from the state that `save` wrote."""
        settings = {key: value for key, value in values.items() if key != "name"}
        return from_mapping(cls, settings, f"{folder / 'regard.json'}: task")

    @property
    def use(self) -> list[str]:
        """Lines for the model card."""
        row = [place % 2 for place in range(self.width)]
        return [f"print(model.copy([{row}, {row[::-1]}]).bits)"]


def real_steps(batch: CopyBatch) -> Tensor:
    """(B, L) bool, True = a vector of the sequence, False = padding."""
    return torch.arange(batch.bits.shape[1], device=batch.lengths.device) < batch.lengths[:, None]


STEPS = 4096
"""The number of steps in one batch, padding included."""

Bits = Sequence[Sequence[int]]
"""A sequence of vectors, each with `width` zeros and ones."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Copied:
    """The output of a model for one sequence.

    Arguments:
        bits: the predicted vectors, as many as were read.
        probabilities: the probability of 1 for each bit.
        wrong: the number of bits that differ from the sequence that was read.
    """

    bits: tuple[tuple[int, ...], ...]
    probabilities: tuple[tuple[float, ...], ...]
    wrong: int


class Copier(Predictor[CopyingTask]):
    """A model that copies, ready to use: vectors of bits in, `Copied` out.

    Arguments:
        model: a `Transducer`.
        task: the width of a vector.
        recipe: how it was trained, as data; empty if unknown.
        metrics: its last evaluation.
    """

    metric_names: ClassVar[tuple[str, ...]] = ("bit_error", "exact_match")
    validates_all: ClassVar[bool] = True

    def copy(self, bits: Bits) -> Copied:
        """The output of the model for one sequence.

        Raises:
            InputError: for an empty sequence, or vectors with another width than the model's or with other numbers than 0 and 1.
        """
        return self.copy_batch([bits])[0]

    def copy_batch(self, sequences: Sequence[Bits]) -> list[Copied]:
        """The outputs of the model for many sequences, in their order.

        Raises:
            InputError: as `copy`.
        """
        return self.copies([self.numbers(bits, place) for place, bits in enumerate(sequences, start=1)])

    def copies(self, sequences: Sequence[Sequence[int]]) -> list[Copied]:
        """The same for vectors that are given as numbers, whose lowest bit is the first."""
        found: dict[int, Copied] = {}
        for rows, answers in self._batches(sequences):
            found.update(zip(rows, answers, strict=True))
        return [found[row] for row in range(len(sequences))]

    def validate(self, data: TokenStore, count: int) -> dict[str, float]:
        """`bit_error`, the share of wrong bits, and `exact_match`, the share of sequences without a wrong bit."""
        rows = range(min(count, len(data)))
        return copying_scores(self.copies([data.sequence(COLUMN, row).tolist() for row in rows]))

    def _batches(self, sequences: Sequence[Sequence[int]]) -> Iterator[tuple[list[int], list[Copied]]]:
        if not sequences:
            return
        lengths = np.array([[2 * len(numbers) + 1] for numbers in sequences], dtype=np.int64)
        for rows in Batches(lengths, maximum_tokens=STEPS).in_order():
            batch = self.task.batch([sequences[row] for row in rows]).to(self.device)
            with torch.no_grad():
                logits = check_finite(self.task.bit_logits(self.model, batch).float(), "these sequences")
                probabilities = torch.sigmoid(logits).cpu()
            wrong = (probabilities > 0.5) != (batch.bits.cpu() > 0.5)
            yield (
                rows.tolist(),
                [
                    _copied(probabilities[place, :length].tolist(), int(wrong[place, :length].sum()))
                    for place, length in enumerate(batch.lengths.tolist())
                ],
            )

    def numbers(self, bits: Bits, place: int = 1) -> list[int]:
        """The vectors of a sequence as numbers, whose lowest bit is the first.

        Arguments:
            bits: the sequence.
            place: its number in error messages.

        Raises:
            InputError: as `copy`.
        """
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
    """`bit_error` and `exact_match` of outputs, at least one."""
    bits = sum(len(answer.bits) * len(answer.bits[0]) for answer in copied)
    return {
        "bit_error": sum(answer.wrong for answer in copied) / bits,
        "exact_match": sum(not answer.wrong for answer in copied) / len(copied),
    }


def _row(row: Any, called: str, number: int, data: Any) -> tuple[int, ...]:
    del number, data
    numbers = parts_of(row, called, [["numbers"]], SEQUENCES.wanted)[0] if isinstance(row, Mapping) else row
    if isinstance(numbers, str) or not isinstance(numbers, Iterable):
        raise InputError(f"{called} is {row!r:.60}; give {SEQUENCES.wanted}")
    found = tuple(int(each) for each in numbers)
    if not found:
        raise InputError(f"{called} is empty; give {SEQUENCES.wanted}, of one vector at least")
    return found


SEQUENCES: Examples[tuple[int, ...]] = Examples(
    type=None,
    rows="sequences",
    wanted='a list of numbers, the bits of each vector, or a mapping with "numbers"',
    file="file of sequences",
    row=_row,
    read=lambda data, path, malformed: (),  # there are no files: the sequences are sampled
)


def prepare_copies(
    data: CopyingData, folder: Path, *, seed: int, given: Any = None, given_validation: Any = None
) -> Prepared[CopyingTask]:
    """Sample the sequences and write them into `folder`.

    Arguments:
        folder: where to write them; if they exist already (a resumed run), they are reused.
        seed: the seed of the samples.
        given, given_validation: sequences in memory instead, in a form that `SEQUENCES` accepts: numbers below 2^width, whose
            lowest bit is the first of a vector.

    Raises:
        InputError: for an empty sequence in memory, or numbers that are too large.
    """

    def write() -> tuple[CopyingTask, list[str]]:
        for split, size, rows in ((TRAIN, data.size, given), (VALIDATION, data.validation_size, given_validation)):
            sequences = data.copies(split, size, seed) if rows is None else SEQUENCES.in_memory(rows)
            write_store(folder, split, {COLUMN: 1 << data.width}, ((numbers,) for numbers in sequences))
        return CopyingTask(data.width), []

    return prepare(CopyingTask, folder, write)


USUAL_SIZE = 500
"""The default number of sequences to evaluate."""


def evaluate_copies(model: Copier, sequences: Any) -> Evaluation:
    """Have a model copy sequences, and count the errors.

    Its metrics are `bit_error`, the share of wrong bits; `exact_match`, the share of sequences without a wrong bit; and
    `bits_per_sequence`, the paper's cost: the mean over sequences of the sum of -log2 p of their bits.

    Arguments:
        sequences: sequences of numbers, whose lowest bit is the first of a vector, such as `regard.data.sequences.BitCopies`.

    Raises:
        InputError: for no sequences, an empty one, or numbers with more bits than the model's vectors.
    """
    given, most = SEQUENCES.to_measure(sequences), 1 << model.task.width
    for place, numbers in enumerate(given, start=1):
        if not all(0 <= number < most for number in numbers):
            raise InputError(f"sequence {place} is {numbers!r:.60}; give numbers from 0 to {most - 1}, one at least")
    copied = model.copies(given)
    costs = [_cost(answer, numbers) for answer, numbers in zip(copied, given, strict=True)]
    metrics = copying_scores(copied) | {"bits_per_sequence": math.fsum(costs) / len(costs)}
    return Evaluation(metrics=metrics, count=len(copied), predictions=tuple(copied))


def read_copies(data: CopyingData, malformed: MalformedRows) -> Iterator[tuple[int, ...]]:
    """The sequences of the test split, which do not depend on the run's seed."""
    del malformed
    return iter(data.copies("test", USUAL_SIZE, 0))


def _cost(answer: Copied, numbers: Sequence[int]) -> float:
    least = 1e-12
    return -math.fsum(
        math.log2(max(share if number >> place & 1 else 1 - share, least))
        for number, vector in zip(numbers, answer.probabilities, strict=True)
        for place, share in enumerate(vector)
    )


COPYING = TaskSpec(
    task=CopyingTask,
    predictor=Copier,
    interface="transducer",
    sections={"data": CopyingData},
    prepare=prepare_copies,
    evaluate=evaluate_copies,
    examples=SEQUENCES,
    read=read_copies,
    derived_config={"inputs": 9, "outputs": 8},
)
