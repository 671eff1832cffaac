"""The attention that a config names by `score` and `alignment`: the package's parts, or the user's own."""

from __future__ import annotations

from typing import TypeVar

from regard.attention import Alignment, Attention, Score, ScoredAttention, Soft
from regard.errors import InputError
from regard.models.config import check
from regard.parts import built, own

T = TypeVar("T")


def check_attention(score: str, alignment: str) -> None:
    """Refuse an alignment beside a mechanism of one's own, which has one already.

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
        InputError: where it is no `Score`.
    """
    return _of(built("score", name, width=width), Score, f"score {name!r}")


def _of(made: object, kind: type[T], what: str) -> T:
    if not isinstance(made, kind):
        raise InputError(f"the {what} is a {type(made).__name__}; derive it from regard.attention.{kind.__name__}")
    return made
