"""How much a trained decoder attends to the first token, whatever it is, and what becomes of its loss without it."""

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
    """What the first token of a stretch is to a decoder (Xiao et al. 2023, section 3.1).

    Texts are `</s> 0 w 0 w`, w a row of symbols that cannot be predicted (`Repeats`), so that in the first w there is nothing to
    look for, and the first token says nothing of what comes. Measured on held-out texts, over the places q behind the `others`:

        weight of place k = mean of a_qk over q, heads, and the layers from the second on
        loss without place k = mean of -log p(x_{q+1}), where a_qk = 0 for all q > k, and the others are divided by their sum

    This is what is left where a sliding window has let go of a token. The first is compared with the `others` after it, all of
    them seen from every q: with the largest of their weights, and with the median of the losses without one of them, because
    the second token, the 0, has a use.

    Arguments:
        path: a file of text, or a folder with train.txt and valid.txt, read in stretches of that length; repeats where null.
        positions: as in `DecoderConfig`.
        width, heads, layers: of the decoder; its feed-forward nets are twice as wide.
        vocabulary: tokens, of a text from a path.
        length: of a stretch; that of w is (length - 3) / 2.
        test_size: stretches to measure on.
        others: places after the first that it is compared with.
        steps: updates.
        batch: stretches in an update.
        learning_rate: the peak, which falls to 0 along a cosine.

    Raises:
        InputError: for sizes that are none.
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
        """Losses in nats, weights as shares."""
        return ("loss", "loss without the first", "loss without another", "weight of the first", "largest other weight")

    def run(self, seed: int) -> dict[str, float]:
        """Train the decoder, and measure it."""
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
    """The mean weight of each place, from those that begin with `begin`, as `FirstToken` says."""
    batch = model.task.batch(stretches)
    with look(model.model) as seen, torch.no_grad():
        model.model(batch.tokens)
    layers = [seen.weights(address)[:, :, begin:].mean(dim=(0, 1, 2)) for address in seen.addresses[1:]]
    return torch.stack(layers).mean(dim=0).tolist()


def loss_without(model: LanguageModel, stretches: list[list[int]], place: int | None, begin: int) -> float:
    """The loss from place `begin` on where a place is hidden from all after it; as it is where None."""
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
