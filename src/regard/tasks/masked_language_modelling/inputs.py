"""Texts with masks in them, as a user gives them to a model that is ready to use."""

from __future__ import annotations

from collections.abc import Sequence

from regard.errors import InputError
from regard.tasks.encoders import Joined
from regard.tasks.gaps import refuse_gaps
from regard.text import Tokenizer


def mask_of(tokenizer: Tokenizer) -> str:
    """How the mask token is spelt.

    Raises:
        InputError: where there is none.
    """
    if tokenizer.mask_id is None:
        raise InputError("the model's tokenizer has no mask token, so it has nothing to fill in; use another model")
    return tokenizer.tokens([tokenizer.mask_id])[0]


def read_masked(tokenizer: Tokenizer, texts: Sequence[str], *, maximum: int) -> list[Joined]:
    """What the model reads of texts in which something is masked.

    Arguments:
        maximum: the most tokens of one input; nothing is cut, because a mask could be lost.

    Raises:
        InputError: for a text that is no string, has no mask, or is too long.
    """
    if isinstance(texts, str):
        raise InputError("one string given where a list of texts is wanted; put it in a list")
    mask, joined = mask_of(tokenizer), []
    refuse_gaps(texts)
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            raise InputError(f"text {number} is {text!r:.80}; give strings")
        if mask not in text:
            raise InputError(
                f"text {number} ({text!r:.60}) has no {mask}; write {mask} where a word is to be filled in"
            )
        ids = [tokenizer.start_id, *tokenizer.encode_marked(text, (mask,)), tokenizer.end_id]
        if len(ids) > maximum:
            raise InputError(f"text {number} has {len(ids)} tokens and the model reads {maximum}; shorten it")
        joined.append(Joined(ids))
    return joined
