"""What copying is to a model: numbers to vectors of bits, logits to a loss, and the files that say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.token_store import TokenStore
from regard.structure import from_mapping
from regard.tasks.card import write_with_card
from regard.tasks.task import LossSum, Task
from regard.text import Tokenizer

COLUMN = "numbers"
"""Of the token stores."""


@dataclass(frozen=True, slots=True, eq=False)
class CopyBatch:
    """What one step of training reads.

    Arguments:
        x: (B, T, width + 1): the vectors of each sequence, the delimiter, then blanks; shorter ones end in more of them.
        bits: (B, L, width), what is to be told, from the first blank on; zeros after the end of a shorter sequence.
        lengths: (B,) int64, vectors of each sequence.
    """

    x: Tensor
    bits: Tensor
    lengths: Tensor

    def to(self, device: torch.device) -> CopyBatch:
        """The same batch on another device."""
        return CopyBatch(self.x.to(device), self.bits.to(device), self.lengths.to(device))


@dataclass(frozen=True, slots=True)
class CopyingTask(Task):
    """What turns sequences of bits into a model's tensors, and its outputs into a loss.

    A sequence of n vectors is read one by one, then a delimiter on a channel of its own; while n blanks are read, the model is to
    give the vectors back in their order (Graves, Wayne, Danihelka 2014, section 4.1).

    Arguments:
        width: bits of one vector.
    """

    name: ClassVar[str] = "copying"
    unit: ClassVar[str] = "bits"

    width: int

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        """None: there is no text."""
        return {}

    def model_settings(self) -> dict[str, int]:
        """The sizes that the vectors decide."""
        return {"inputs": self.width + 1, "outputs": self.width}

    def batch(self, sequences: Sequence[Sequence[int] | np.ndarray]) -> CopyBatch:
        """Sequences of numbers, each the bits of a vector, the lowest first, to a batch."""
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

    def told(self, model: nn.Module, batch: CopyBatch) -> Tensor:
        """Logits of the bits, (B, L, width), from the first blank of each sequence on; of no meaning after its end."""
        logits = model(batch.x)
        places = batch.lengths[:, None] + 1 + torch.arange(batch.bits.shape[1], device=logits.device)
        places = places.clamp_max(max(logits.shape[1] - 1, 0))
        return logits.gather(1, places.unsqueeze(-1).expand(-1, -1, self.width))

    def lengths(self, data: TokenStore) -> np.ndarray:
        """Steps that each sequence takes, (N, 1)."""
        return 2 * data.lengths(COLUMN)[:, None] + 1

    def labels(self, data: TokenStore) -> np.ndarray:
        """Bits to be told of each sequence, (N,)."""
        return self.width * data.lengths(COLUMN)

    def read_batch(self, data: TokenStore, rows: Sequence[int]) -> CopyBatch:
        """The sequences of these rows as a batch."""
        return self.batch([data.sequence(COLUMN, row) for row in rows])

    def loss(self, model: nn.Module, batch: CopyBatch, *, smoothing: float = 0.0) -> LossSum:
        """Binary cross-entropy of the bits, natural log, summed."""
        logits = self.told(model, batch).float()
        real = real_steps(batch).unsqueeze(-1).expand_as(logits)
        wanted = batch.bits * (1 - smoothing) + smoothing / 2
        total = F.binary_cross_entropy_with_logits(logits, wanted, reduction="none").masked_fill(~real, 0.0).sum()
        correct = (((logits > 0) == (batch.bits > 0.5)) & real).sum()
        return LossSum(total, int(batch.lengths.sum()) * self.width, correct)

    def metrics_of(self, loss: float, right: float) -> dict[str, float]:
        """The loss of a bit; how many are wrong is among what the model is judged by."""
        del right
        return {"loss": loss}

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """Sequences and lengths in a few words."""
        lengths = train.lengths(COLUMN)
        return (
            f"{len(train):,} sequences of {lengths.min()} to {lengths.max()} vectors of {self.width} bits to learn from, "
            f"{len(validation):,} to validate on"
        )

    def check(self, model: Any, train: TokenStore, validation: TokenStore) -> None:
        """Nothing keeps a model from reading a sequence of any length."""
        del model, train, validation

    def save(self, folder: Path) -> dict[str, Any]:
        """What regard.json has to hold; there are no other files."""
        del folder
        return {"name": self.name, "width": self.width}

    @classmethod
    def load(cls, folder: Path, values: Mapping[str, Any]) -> CopyingTask:
        """The task that `save` told of."""
        settings = {key: value for key, value in values.items() if key != "name"}
        return from_mapping(cls, settings, f"{folder / 'regard.json'}: task")

    def write(
        self,
        folder: Path,
        config: Any,
        tensors: Mapping[str, Tensor],
        *,
        recipe: Mapping[str, Any],
        metrics: Mapping[str, float],
    ) -> None:
        """Write all files of a model into an existing folder."""
        row = [place % 2 for place in range(self.width)]
        use = [f"print(model.copy([{row}, {row[::-1]}]).bits)"]
        write_with_card(folder, config, tensors, task=self.save(folder), recipe=recipe, metrics=metrics, use=use)


def real_steps(batch: CopyBatch) -> Tensor:
    """(B, L) bool, which of the vectors to be told are of the sequence."""
    return torch.arange(batch.bits.shape[1], device=batch.lengths.device) < batch.lengths[:, None]
