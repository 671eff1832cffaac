"""What the encoder's layers are called and how wide their vectors are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from regard.embeddings.features import LayerChoice, layer_choice
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks.sentence_embedding.encoder import SentenceEncoder

Layers = LayerChoice | str | int | Sequence[int]


def chosen(encoder: SentenceEncoder, layers: Layers) -> tuple[LayerChoice, int]:
    """The choice of layers, and the width of the vectors it gives.

    Raises:
        InputError: for a layer that the model does not have, and for layers that are kept apart.
    """
    choice = layer_choice(layers, len(encoder.model.layers))
    if choice.combine == "stack":
        raise InputError(
            "one vector of a word is wanted, and the layers chosen are kept apart; sum or concatenate them"
        )
    wide = len(choice.layers) if choice.combine == "concatenate" else 1
    return choice, wide * int(encoder.model.config.width)


def described(choice: LayerChoice) -> dict[str, Any]:
    """A choice of layers as JSON values."""
    weights = None if choice.weights is None else list(choice.weights)
    return {"layers": list(choice.layers), "combine": choice.combine, "weights": weights}
