"""How much a trained decoder attends to the first token, and how its loss changes if that token is hidden."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from statistics import median
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.claims.measuring import recut
from regard.inspection import look
from regard.inspection.editing import SetWeights, change
from regard.models.config import check
from regard.tasks.language_modelling import LanguageModel
from regard_claims.shared import check_counts, decoder, language_model, learning

SYMBOLS = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstToken:
    """The first token as an attention sink of a decoder (Xiao et al. 2023, section 3.1).

    The sequences are `</s> 0 w 0 w`, where w is a sequence of unpredictable symbols (`Repeats`): the first w has no earlier
    symbols to look up, and the first token carries no information about the rest. Measured on held-out sequences, over the query
    positions q after the `others`:

        weight of position k = mean of a_qk over q, heads, and all layers except the first
        loss without position k = mean of -log p(x_{q+1}) with a_qk = 0 for all q > k, and the other weights rescaled to sum 1

    Setting a weight to 0 has the effect of a sliding window that a token has left. The first position is compared with the
    `others` that follow it, which all queries can see: its weight with their largest weight, and its loss with the median of
    their losses; a median, because the second token, the 0, is informative.

    Arguments:
        path: a text file, or a folder with train.txt and valid.txt, split into sequences of `length` tokens. None: `Repeats`.
        positions: as in `DecoderConfig`.
        width, heads, layers: the decoder's sizes; its feed-forward networks are twice as wide.
        vocabulary: the size of the vocabulary for text from `path`.
        length: the length of a sequence, in tokens; w has (length - 3) / 2.
        test_size: the number of test sequences.
        others: the number of positions after the first to compare it with.
        steps: the number of updates.
        batch: the number of sequences in an update.
        learning_rate: the peak learning rate; it decreases to 0 along a cosine.

    Raises:
        InputError: for a size out of range.
    """

    precision: ClassVar[str] = "float32"
    path: str | None = None
    positions: Literal["rotary", "learned"] = "rotary"
    width: int = 48
    heads: int = 4
    layers: int = 2
    vocabulary: int = 300
    length: int = 51
    test_size: int = 100
    others: int = 7
    steps: int = 600
    batch: int = 24
    learning_rate: float = 4e-3

    def __post_init__(self) -> None:
        check_counts(self, "test_size", "others", "steps", "batch")
        check(self.layers >= 2, "experiment.layers", self.layers, "at least 2", "the first is not counted")
        most = self.length - 2
        check(self.others <= most, "experiment.others", self.others, f"at most {most}", "raise experiment.length")

    @property
    def measures(self) -> tuple[str, ...]:
        """Losses in nats per token, and attention weights from 0 to 1."""
        return ("loss", "loss without the first", "loss without another", "weight of the first", "largest other weight")

    def run(self, seed: int) -> dict[str, float]:
        """Train the decoder, and measure losses and weights."""
        with language_model(
            decoder(self, positions=self.positions, feedforward_width=2 * self.width),
            path=self.path,
            data={
                "repeats": {"symbols": SYMBOLS, "length": (self.length - 3) // 2, "validation_size": 2 * self.test_size}
            },
            tokenizer={"kind": "word", "size": 60}
            if self.path is None
            else {"kind": "byte_bpe", "size": self.vocabulary},
            length=self.length,
            seed=seed,
            training=learning(self, self.batch * self.length),
        ) as (model, store):
            stretches = recut(store, self.length, self.test_size)
            begin = self.others + 1
            weights = weights_by_place(model, stretches, begin)
            losses = [loss_without(model, stretches, place, begin) for place in (None, *range(self.others + 1))]
        found = (losses[0], losses[1], median(losses[2:]), weights[0], max(weights[1 : self.others + 1]))
        return dict(zip(self.measures, found, strict=True))


def weights_by_place(model: LanguageModel, stretches: list[list[int]], begin: int) -> list[float]:
    """The mean attention weight on each position over the queries from position `begin` on, as defined in `FirstToken`."""
    batch = model.task.batch(stretches)
    with look(model.model) as seen, torch.no_grad():
        model.model(batch.tokens)
    layers = [seen.weights(address)[:, :, begin:].mean(dim=(0, 1, 2)) for address in seen.addresses[1:]]
    return torch.stack(layers).mean(dim=0).tolist()


def loss_without(model: LanguageModel, stretches: list[list[int]], place: int | None, begin: int) -> float:
    """The mean loss from position `begin` on, in nats, with one position hidden from all later ones; None hides none."""
    batch = model.task.batch(stretches)
    edit = nullcontext() if place is None else change(model.model, SetWeights(address="*", to=_without(place)))
    with edit, torch.no_grad():
        logits = model.model(batch.tokens)
    return float(F.cross_entropy(logits[:, begin:].flatten(0, 1), batch.labels[:, begin:].flatten()))


def _without(place: int) -> Callable[[Tensor], Tensor]:
    def weights(given: Tensor) -> Tensor:
        kept = given.clone()
        kept[..., place + 1 :, place] = 0
        return kept / kept.sum(dim=-1, keepdim=True)

    return weights
