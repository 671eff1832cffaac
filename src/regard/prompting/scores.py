"""By what choices are compared."""

from __future__ import annotations

import math
from typing import Literal, get_args

from regard.prompting.likelihood import Told

Score = Literal["sum", "token", "character", "byte", "unconditional"]
SCORES: tuple[Score, ...] = get_args(Score)


def score_of(kind: Score, text: str, told: Told, alone: Told | None = None) -> float:
    """The score of a choice y after a context x; the largest is the answer.

        sum              log p(y | x)
        token            log p(y | x) / number of tokens
        character, byte  log p(y | x) / number of characters, or of bytes in UTF-8
        unconditional    log p(y | x) - log p(y | prefix), as Brown et al. 2020 have it for ARC, OpenBookQA and RACE (section 2.4)

    A sum favours short choices, and a ratio to the length those whose end is easy to tell. What is normalised by the choice's own
    probability is how much the context makes it more likely.

    Arguments:
        kind: see above.
        text: y, as it stands behind the context, a space before it included.
        told: log p(y | x).
        alone: log p(y | prefix), for `unconditional`.

    >>> score_of("byte", " yes", Told((-1.0, -3.0), (True, False)))
    -1.0
    """
    total = math.fsum(told.log_probabilities)
    if kind == "token":
        return total / len(told.log_probabilities)
    if kind == "character":
        return total / len(text)
    if kind == "byte":
        return total / len(text.encode())
    if kind == "unconditional":
        if alone is None:
            raise ValueError("unconditional needs the choice's probability without the context")
        return total - math.fsum(alone.log_probabilities)
    return total
