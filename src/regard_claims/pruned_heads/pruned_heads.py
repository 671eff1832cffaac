"""The loss of a trained decoder with pruned attention heads, least important first, and with one head in a layer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from regard.claims.measure import Measure
from regard.claims.measuring import recut
from regard.inspection.editing import ScaleHeads, SetHeads, change
from regard.models.config import check
from regard.tasks.language_modelling import LanguageModel
from regard_claims.shared import check_counts, decoder, language_model, learning

Heads = Sequence[tuple[int, int]]
"""Pairs of a layer's number and a head's number, from 0."""

SHARE, AT_RANDOM = "worth left", "worth left, at random"
PRUNED = "pruned"
SAMPLE = 0x9D
"""Separates the random numbers of the random order from others of the same seed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PrunedHeads:
    """A decoder with pruned attention heads, without further training (Michel, Levy, Neubig 2019, sections 3.2, 3.3 and 4).

    The importance of a head is the mean absolute gradient of a sequence's loss by a mask xi_h on the head's output (section 4.1).
    The importances of a layer are divided by their Euclidean norm:

        I_h = E_x | dL(x) / dxi_h |

    Importances are computed on one half of the held-out sequences, losses on the other. With L(S) the loss with the heads S
    pruned, measured are:

    - `worth left` and `worth left, at random`: (L(all) - L(S)) / (L(all) - L(none)) with 20, 40, 60 and 80 % of all heads pruned,
      least important first and in a random order;
    - `worth left, one head`: the same number if one layer keeps only its most important head, for the layer where it is largest;
    - `loss` and `loss without attention`: L(none) and L(all), in nats per token.

    Arguments:
        path: a text file, or a folder with train.txt and valid.txt. None: the builtin reference documentation of Python.
        width, heads, layers: the decoder's sizes; its feed-forward networks are four times as wide.
        vocabulary: the size of the vocabulary.
        length: the length of a sequence, in tokens.
        test_size: the number of sequences in each half.
        steps: the number of updates.
        batch: the number of sequences in an update.
        learning_rate: the peak learning rate; it decreases to 0 along a cosine.

    Raises:
        InputError: for a size below its minimum.
    """

    precision: ClassVar[str] = "float32"
    path: str | None = None
    width: int = 48
    heads: int = 8
    layers: int = 4
    vocabulary: int = 300
    length: int = 48
    test_size: int = 100
    steps: int = 400
    batch: int = 16
    learning_rate: float = 3e-3

    def __post_init__(self) -> None:
        check_counts(self, "layers", "test_size", "steps", "batch")
        check(self.heads >= 2, "experiment.heads", self.heads, "at least 2", "one is kept")

    @property
    def measures(self) -> tuple[str | Measure, ...]:
        """Losses in nats per token; the other measures are ratios."""
        parted = [Measure(name=name, kind="computed", along=PRUNED) for name in (SHARE, AT_RANDOM)]
        return ("loss", "loss without attention", *parted, "worth left, one head")

    def run(self, seed: int) -> dict[str, float | Mapping[int, float]]:
        """Train the decoder, and measure its loss with pruned heads."""
        with language_model(
            decoder(self, positions="learned", feedforward_width=4 * self.width),
            path=self.path,
            data={"builtin": "python_docs", "unit": "paragraph"},
            tokenizer={"kind": "byte_bpe", "size": self.vocabulary},
            length=self.length,
            seed=seed,
            training=learning(self, self.batch * self.length),
        ) as (model, store):
            stretches = recut(store, self.length, 2 * self.test_size)
            first, second = stretches[::2], stretches[1::2]
            scores = importances(model, first, self.layers, self.heads)
            everything = [(layer, head) for layer in range(self.layers) for head in range(self.heads)]
            whole, none = loss_without(model, second, []), loss_without(model, second, everything)

            def left(heads: Heads) -> float:
                return (none - loss_without(model, second, heads)) / (none - whole)

            ordered = sorted(everything, key=lambda each: float(scores[each]))
            chance = np.random.Generator(np.random.Philox(key=[seed, SAMPLE])).permutation(len(everything))
            orders = {SHARE: ordered, AT_RANDOM: [everything[place] for place in chance]}
            pruned = {
                name: {part: left(order[: round(len(order) * part / 100)]) for part in (20, 40, 60, 80)}
                for name, order in orders.items()
            }
            best = scores.argmax(dim=1).tolist()
            alone = max(
                left([(layer, head) for head in range(self.heads) if head != best[layer]])
                for layer in range(self.layers)
            )
        return {"loss": whole, "loss without attention": none, **pruned, "worth left, one head": alone}


def importances(model: LanguageModel, stretches: list[list[int]], layers: int, heads: int) -> Tensor:
    """The importance of each head, (layers, heads), each row divided by its Euclidean norm."""
    batch = model.task.batch(stretches)
    masks = [torch.ones(len(stretches), heads, requires_grad=True) for _ in range(layers)]
    edits = [
        SetHeads(address=_address(layer), to=lambda outputs, mask=mask: outputs * mask[:, :, None, None])
        for layer, mask in enumerate(masks)
    ]
    with change(model.model, *edits):
        loss = model.task.loss(model.model, batch).total  # row i of a mask acts on sequence i only
    found = torch.stack([slope.abs().mean(dim=0) for slope in torch.autograd.grad(loss, masks)])
    return found / found.norm(dim=1, keepdim=True).clamp_min(math.ulp(0.0))


def loss_without(model: LanguageModel, stretches: list[list[int]], heads: Heads) -> float:
    """The mean loss per token, in nats, with the outputs of these heads set to 0."""
    layers = sorted({layer for layer, _ in heads})
    edits = [
        ScaleHeads(address=_address(layer), heads=[head for each, head in heads if each == layer]) for layer in layers
    ]
    batch = model.task.batch(stretches)
    with change(model.model, *edits), torch.no_grad():
        found = model.task.loss(model.model, batch)
    return float(found.total) / found.tokens


def _address(layer: int) -> str:
    return f"layers.{layer}.attention"
