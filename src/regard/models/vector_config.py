"""What all models that make one vector of a text have alike: checks of their configs, and their head."""

from __future__ import annotations

from typing import Any

from torch import nn

from regard.layers import LayeredHead
from regard.layers.encoder import NoHead
from regard.models.config import check, check_outputs, check_shares, check_sizes, check_tokens


def check_vector_reader(config: Any) -> None:
    """Refuse a vocabulary, dropout or head that no such model can have.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """
    check_sizes(config, "vocabulary")
    check_shares(config, "dropout", usual="0.1 is usual")
    check(config.texts in (1, 2), "texts", config.texts, "1 or 2", "the head is told of one text, or of a pair")
    check_tokens(config, "padding_id")
    check_outputs(config)


def vector_head(config: Any, hidden_width: int) -> nn.Module:
    """The head that a config asks for, on the vector of one text or on what two are compared by.

    Arguments:
        hidden_width: of its hidden layer; 0 for a linear map.
    """
    if config.head == "none":
        return NoHead()
    width = config.width if config.texts == 1 else 4 * config.width
    return LayeredHead(width, hidden_width, config.outputs, dropout=config.dropout)
