"""What all models that make one vector of a text have alike: checks of their configs, and their head."""

from __future__ import annotations

from typing import Any

from torch import nn

from regard.layers import FIXED_OUTPUTS, LayeredHead
from regard.layers.heads import NoHead
from regard.models.config import check, check_sizes


def check_vector_reader(config: Any) -> None:
    """Refuse a vocabulary, dropout or head that no such model can have.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """
    check_sizes(config, "vocabulary")
    check(0 <= config.dropout < 1, "dropout", config.dropout, "in [0, 1)", "0.1 is usual")
    check(config.texts in (1, 2), "texts", config.texts, "1 or 2", "the head is told of one text, or of a pair")
    check(
        0 <= config.padding_id < config.vocabulary,
        "padding_id",
        config.padding_id,
        f"in [0, {config.vocabulary})",
        "it is one of the vocabulary's tokens",
    )
    wanted = FIXED_OUTPUTS.get(config.head)
    check(
        config.outputs >= 1 if wanted is None else config.outputs == wanted,
        "outputs",
        config.outputs,
        "at least 1" if wanted is None else str(wanted),
        f"for the head {config.head!r}",
    )


def vector_head(config: Any, hidden_width: int) -> nn.Module:
    """The head that a config asks for, on the vector of one text or on what two are compared by.

    Arguments:
        hidden_width: of its hidden layer; 0 for a linear map.
    """
    if config.head == "none":
        return NoHead()
    width = config.width if config.texts == 1 else 4 * config.width
    return LayeredHead(width, hidden_width, config.outputs, dropout=config.dropout)
