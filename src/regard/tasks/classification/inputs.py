"""Texts, and pairs of texts, as a user gives them to a model that is ready to use."""

from __future__ import annotations

from collections.abc import Sequence

from regard.errors import InputError
from regard.tasks.classification.task import LabelledTask
from regard.tasks.encoders import Joined, join, tokens_of
from regard.tasks.gaps import refuse_gaps
from regard.text.unknown import warn_of_cut, warn_of_unknown

Text = str | tuple[str, str]


def joined(task: LabelledTask, texts: Sequence[Text], *, pairs: bool | None, maximum: int) -> list[Joined]:
    """What the model reads of each text, or pair of texts; of unknown characters and of texts that are cut it warns.

    Arguments:
        pairs: whether the model takes two texts; None where it takes either.
        maximum: the most tokens of one input.

    Raises:
        InputError: for a text that is empty or no string, or a pair where the model takes one text, or the other way round.
    """
    if isinstance(texts, str):
        raise InputError("one string given where a list of texts is wanted; put it in a list")
    firsts: list[str] = []
    seconds: list[str | None] = []
    for number, text in enumerate(texts, start=1):
        parts = tuple(text) if isinstance(text, tuple | list) else (text,)
        if len(parts) not in ((1, 2) if pairs is None else (2,) if pairs else (1,)):
            wanted = "two texts, as (first, second)" if pairs else "one text" if pairs is False else "one text or two"
            raise InputError(f"text {number} is {text!r:.80}; the model reads {wanted}")
        for part in parts:
            if not isinstance(part, str):
                raise InputError(f"text {number} is {text!r:.80}; give strings")
        firsts.append(parts[0])
        seconds.append(parts[1] if len(parts) == 2 else None)
    refuse_gaps(list(zip(firsts, (text if text is not None else "-" for text in seconds), strict=True)))
    first = tokens_of(task.tokenizer, firsts, sentences=task.sentences)
    others = [text for text in seconds if text is not None]
    warn_of_unknown(task.tokenizer, firsts, first)
    second = iter(tokens_of(task.tokenizer, others, sentences=task.sentences))
    found = [
        join(task.tokenizer, ids, None if other is None else next(second), maximum=maximum)
        for ids, other in zip(first, seconds, strict=True)
    ]
    warn_of_cut([each.cut for each in found], maximum)
    return found
