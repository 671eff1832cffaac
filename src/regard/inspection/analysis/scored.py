"""What attribution knows of a score: a number, the tokens it depends on, and how they become tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn

from regard.errors import InputError
from regard.inspection.analysis.head_sums import SPACES
from regard.inspection.words import shown_tokens, token_texts
from regard.layers import Tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadTokens:
    """A sequence that a model reads.

    Arguments:
        name: what it is to the model, such as `source`.
        ids: its token ids.
        texts: the same as strings.
    """

    name: str
    ids: tuple[int, ...]
    texts: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Scored:
    """A score of one example, as a function of what the model reads.

    Arguments:
        module: the model.
        quantity: what the score is, such as `log p`.
        target: what it is of, such as a token.
        read: the sequences that the model embeds.
        score: from these, as so many equal rows each (N, S), to the scores (N,).
    """

    module: nn.Module
    quantity: str
    target: str
    read: tuple[ReadTokens, ...]
    score: Callable[[Sequence[Tokens]], Tensor]


class TaskScore(Protocol):
    """A question to a task's model whose answer is a number."""

    def of(self, model: Any) -> Scored:
        """The score of this model.

        Raises:
            InputError: where the model cannot be asked this.
        """
        ...


def place_of(token: int | str, texts: Sequence[str], where: str) -> int:
    """A token of a sequence by its number or its text, as a place from 0.

    Raises:
        InputError: where there is none, or several.

    >>> place_of("dog", ["▁a", "▁dog", "</s>"], "target"), place_of(-1, ["▁a", "</s>"], "target")
    (1, 1)
    """
    if isinstance(token, int):
        if not -len(texts) <= token < len(texts):
            raise InputError(f"token {token}: the {where} has {len(texts)} tokens, counted from 0: {_listed(texts)}")
        return token % len(texts)
    written = enumerate(zip(texts, token_texts(texts), strict=True))
    found = [place for place, (text, read) in written if token in (text, read, text.strip(SPACES), read.strip())]
    if len(found) != 1:
        often = "is not there" if not found else f"occurs {len(found)} times, at {', '.join(map(str, found))}"
        raise InputError(f"token {token!r} {often}; the {where} is {_listed(texts)}; give its number")
    return found[0]


def _listed(texts: Sequence[str]) -> str:
    return " ".join(shown_tokens(texts)[:40]) + (" ..." if len(texts) > 40 else "")
