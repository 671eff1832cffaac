"""The attention that a config names by `score` and `alignment`: the package's parts, or the user's own."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor

from regard.attention import Alignment, Attention, AttentionInputs, Score, ScoredAttention, Soft
from regard.errors import InputError
from regard.models.config import check
from regard.parts import built, own

T = TypeVar("T")


def check_attention(score: str, alignment: str) -> None:
    """Refuse an alignment next to a mechanism of one's own, which has one already.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """
    whole = own("mechanism", score) is not None
    check(
        not whole or alignment == "softmax",
        "alignment",
        alignment,
        f"'softmax' beside the mechanism {score!r}",
        "a mechanism has its own alignment; leave it out",
    )


def attention_named(name: str, alignment: str, score: Score | None, *, width: int, dropout: float = 0.0) -> Attention:
    """The mechanism of a config.

    Arguments:
        name: of the score, or of a mechanism of one's own.
        alignment: its name.
        score: the package's score of that name; None for one's own.
        width: E, of a query and a key.
        dropout: probability of dropping a weight in training.

    Raises:
        InputError: where a part of one's own is no part of its kind.
    """
    if score is None:
        whole = built("mechanism", name, width=width, dropout=dropout)
        if whole is not None:
            return _of(whole, Attention, f"mechanism {name!r}")
        score = own_score(name, width)
    aligned = (
        Soft() if alignment == "softmax" else _of(built("alignment", alignment), Alignment, f"alignment {alignment!r}")
    )
    return ScoredAttention(score, aligned, dropout=dropout)


def own_score(name: str, width: int) -> Score:
    """A score of one's own, for queries and keys so wide.

    Raises:
        InputError: where it is no `Score`, or does not score two queries and three keys: said here, not amid training.
    """
    score = _of(built("score", name, width=width), Score, f"score {name!r}")
    inputs = AttentionInputs(query=torch.zeros(1, 1, 2, width), key=torch.zeros(1, 1, 3, width))
    if not inputs.query.is_meta:  # a model with shapes alone has been made, or will be, with numbers
        with torch.no_grad():
            _check_scores(score, name, inputs)
    return score


def _check_scores(score: Score, name: str, inputs: AttentionInputs) -> None:
    wanted = "forward(query, key, inputs) takes (B, H, L, E) and (B, H, S, E) and returns (B, H, L, S)"
    try:
        found = score(inputs.query, inputs.key, inputs)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise InputError(f"the score {name!r} failed on two queries and three keys ({said}); its {wanted}") from error
    shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
    if shape != (1, 1, 2, 3):
        raise InputError(
            f"the score {name!r} gives {shape} for two queries and three keys, not (1, 1, 2, 3); its {wanted}"
        )


def _of(made: object, kind: type[T], what: str) -> T:
    if not isinstance(made, kind):
        raise InputError(f"the {what} is a {type(made).__name__}; derive it from regard.attention.{kind.__name__}")
    return made
