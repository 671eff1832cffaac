"""What a masked language model says of a text."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """What may stand at a mask.

    Arguments:
        token: a piece of the vocabulary; "##" goes on with the word before.
        probability: of this token at this mask.
        text: the whole text with it, the other masks filled with the most probable of theirs.
    """

    token: str
    probability: float
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Filled:
    """What a model puts in place of the masks of a text, each for itself.

    Arguments:
        text: as given.
        masks: for each mask, in order, its candidates, the most probable first.
    """

    text: str
    masks: tuple[tuple[Candidate, ...], ...]

    @property
    def best(self) -> str:
        """The text with the most probable token at each mask."""
        return self.masks[0][0].text


@dataclass(frozen=True, kw_only=True, slots=True)
class PseudoScore:
    """How well a model guesses each token of a text from all the others (Salazar et al. 2020).

    Arguments:
        text: what was read.
        tokens: of the text.
        log_probabilities: log p(token | all others), natural log, one for each.
        right: whether each was the most probable one.
    """

    text: str
    tokens: tuple[str, ...]
    log_probabilities: tuple[float, ...]
    right: tuple[bool, ...]

    @property
    def log_probability(self) -> float:
        """Their sum: the pseudo-log-likelihood. It is no logarithm of a probability of the text."""
        return math.fsum(self.log_probabilities)

    @property
    def perplexity(self) -> float:
        """The pseudo-perplexity: exp of the mean of -log p over tokens."""
        return math.exp(min(700.0, -self.log_probability / len(self.log_probabilities)))
