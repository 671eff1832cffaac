"""From what a model says of each word to tags that make sense together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

Decoding = Literal["constrained", "greedy"]

_ROLES = {"L": "E", "U": "S"}  # BILOU's letters in those of BIOES


class Transitions:
    """Which tag may follow which, by the rules of a scheme; nothing is learnt.

        BIO           I-X follows B-X or I-X
        IOB1          B-X follows B-X or I-X
        BIOES, BILOU  I-X and E-X follow B-X or I-X, and nothing else follows those two

    Arguments:
        tags: in the model's order.
        scheme: as in `regard.data.tags`; None for tags that may stand in any order.

    >>> rules = Transitions(["O", "B-PER", "I-PER"], "BIO")
    >>> rules.first.tolist(), rules.follows[0].tolist()
    ([True, True, False], [True, True, False])
    """

    def __init__(self, tags: Sequence[str], scheme: str | None) -> None:
        parted = [tag.partition("-") for tag in tags]
        roles = [_ROLES.get(mark, mark) if scheme is not None else "O" for mark, _, _ in parted]
        types = np.array([type for _, _, type in parted], dtype=object)
        same = types[:, None] == types[None, :]
        going_on = _among(roles, {"BIO": "I", "IOB1": "B"}.get(scheme or "", "IE"))
        opens = _among(roles, "BI")
        self.first = ~going_on
        self.follows = np.where(going_on[None, :], same & opens[:, None], True)
        self.last = np.ones(len(roles), dtype=bool)
        if scheme in ("BIOES", "BILOU"):
            self.follows &= ~opens[:, None] | going_on[None, :]
            self.last = ~opens

    def allows(self, tags: Sequence[int] | np.ndarray) -> bool:
        """Whether a sequence of tags, by number, keeps the rules."""
        path = np.asarray(tags)
        if not len(path):
            return True
        return bool(self.first[path[0]] and self.last[path[-1]] and self.follows[path[:-1], path[1:]].all())

    def best(self, scores: np.ndarray) -> np.ndarray:
        """The tags, by number, whose scores have the highest sum among all sequences that keep the rules (Viterbi 1967).

        Where no sequence does, because a tag that the rules need is missing, the best of each word.

        Arguments:
            scores: (L, T), of each tag at each word, such as log-probabilities.

        Returns:
            (L,) int64.
        """
        greedy = scores.argmax(axis=1)
        # What is best without rules, and keeps them, is best with them.
        if self.allows(greedy):
            return greedy
        forbidden = np.where(self.follows, 0.0, -np.inf)
        best = np.where(self.first, scores[0], -np.inf)
        came = np.zeros(scores.shape, dtype=np.int64)
        for place in range(1, len(scores)):
            reached = best[:, None] + forbidden
            came[place] = reached.argmax(axis=0)
            best = reached.max(axis=0) + scores[place]
        best = np.where(self.last, best, -np.inf)
        if best.max() == -np.inf:
            return greedy
        path = np.empty(len(scores), dtype=np.int64)
        path[-1] = best.argmax()
        for place in range(len(scores) - 1, 0, -1):
            path[place - 1] = came[place, path[place]]
        return path


def _among(roles: Sequence[str], wanted: str) -> np.ndarray:
    return np.array([role in set(wanted) for role in roles], dtype=bool)
