"""Numbers added to the logits of some tokens, and how such tokens are named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import InputError
from regard.generation.checks import number, whole
from regard.generation.paths import Paths
from regard.text import Tokenizer

Biases = tuple[tuple[int | str, float], ...]
"""Tokens, each an id or its text, and what is added to the logit of each."""


@dataclass(frozen=True, slots=True)
class LogitBias:
    """A number added to the logits of some tokens, whatever the text.

    Arguments:
        amounts: ids, and what is added to the logit of each; 100 makes one all but certain, -100 all but impossible.

    Raises:
        InputError: for what is no id or no finite number, and an id given twice.

    >>> LogitBias(((1, -2.0),))(torch.tensor([[1.0, 1.0]]), Paths.begin(1, "cpu")).tolist()
    [[1.0, -1.0]]
    """

    amounts: tuple[tuple[int, float], ...]

    def __post_init__(self) -> None:
        check_biases("logit_bias", self.amounts)
        for token, _ in self.amounts:
            whole("logit_bias", token, least=0)

    def __call__(self, logits: Tensor, paths: Paths) -> Tensor:
        """The logits with what is added.

        Raises:
            InputError: for an id that the model does not have.
        """
        ids = [token for token, _ in self.amounts]
        beyond = [token for token in ids if token >= logits.shape[-1]]
        if beyond:
            raise InputError(f"logit_bias: there is no token {beyond[0]}; the model has 0 to {logits.shape[-1] - 1}")
        amounts = torch.tensor([amount for _, amount in self.amounts], dtype=logits.dtype, device=logits.device)
        return logits.index_add(-1, torch.tensor(ids, device=logits.device), amounts.expand(*logits.shape[:-1], -1))


def check_biases(field: str, biases: object) -> None:
    """Refuse what are no pairs of a token and a number.

    Raises:
        InputError: naming the pair.

    >>> check_biases("logit_bias", (("the", 2.0), ("the", 1.0)))
    Traceback (most recent call last):
        ...
    regard.errors.InputError: logit_bias: 'the' is given twice; give it once
    """
    if not isinstance(biases, tuple | list) or not all(
        isinstance(pair, tuple | list) and len(pair) == 2 for pair in biases
    ):
        raise InputError(f"{field}: {biases!r} will not do; give pairs of a token and a number, such as [[' the', -2]]")
    seen: set[int | str] = set()
    for token, amount in biases:
        if isinstance(token, bool) or not isinstance(token, int | str) or token == "":
            raise InputError(f"{field}: {token!r} is no token; give an id or a text that is not empty")
        number(f"{field} of {token!r}", amount)
        if token in seen:
            raise InputError(f"{field}: {token!r} is given twice; give it once")
        seen.add(token)


def biases_by_id(biases: Sequence[tuple[int | str, float]], tokenizer: Tokenizer) -> tuple[tuple[int, float], ...]:
    """The ids of tokens that are named by their texts.

    A text is one that the tokenizer reads as a single token, such as " the", or a token as the vocabulary spells it.

    Raises:
        InputError: for a text of several tokens, or of none.

    >>> biases_by_id([("a", 1.5), (7, -1.0)], Tokenizer.train(["abc"], kind="character", size=9))
    ((2, 1.5), (7, -1.0))
    """
    return tuple((_id(token, tokenizer) if isinstance(token, str) else token, amount) for token, amount in biases)


def only_ids(biases: Biases) -> tuple[tuple[int, float], ...]:
    """The same pairs, where all tokens are ids.

    Raises:
        InputError: naming one that is not.
    """
    found = []
    for token, amount in biases:
        if isinstance(token, str):
            raise InputError(f"generation.logit_bias: {token!r} is a text, and there is no tokenizer here; give its id")
        found.append((token, amount))
    return tuple(found)


def _id(text: str, tokenizer: Tokenizer) -> int:
    ids = tokenizer.encode(text)
    if len(ids) == 1 and ids[0] != tokenizer.unknown_id:
        return ids[0]
    spelt = tokenizer.find(text)
    if spelt is not None:
        return spelt
    pieces = ", ".join(map(repr, tokenizer.tokens(ids))) or "no token"
    raise InputError(
        f"generation.logit_bias: {text!r} is {pieces} to this model; give a text that is one token, or an id"
    )
