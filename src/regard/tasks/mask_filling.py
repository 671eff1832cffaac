"""Filling masks: the inputs for texts with masks, and the results of a masked language model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from regard.errors import InputError
from regard.tasks.encoders import Joined
from regard.tasks.predictor import refuse_gaps
from regard.text import Tokenizer


def mask_of(tokenizer: Tokenizer) -> str:
    """The text of the mask token.

    Raises:
        InputError: if there is none.
    """
    if tokenizer.mask_id is None:
        raise InputError("the model's tokenizer has no mask token, so it cannot fill masks; use another model")
    return tokenizer.tokens([tokenizer.mask_id])[0]


def read_masked(tokenizer: Tokenizer, texts: Sequence[str], *, maximum: int) -> list[Joined]:
    """The model's inputs for texts with mask tokens.

    Arguments:
        maximum: the maximum number of tokens of one input; a longer one is an error, because truncation could remove a mask.

    Raises:
        InputError: for a text that is not a string, has no mask, or is too long.
    """
    if isinstance(texts, str):
        raise InputError("a single string was given instead of a list of texts; put it in a list")
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A candidate token for a mask.

    Arguments:
        token: a piece of the vocabulary; "##" continues the word before.
        probability: the probability of this token at this mask.
        text: the whole text with this token, and each other mask filled with its most probable token.
    """

    token: str
    probability: float
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Filled:
    """The model's predictions for the masks of a text, each mask independently.

    Arguments:
        text: the text as given.
        masks: the candidates of each mask, in order, the most probable first.
    """

    text: str
    masks: tuple[tuple[Candidate, ...], ...]

    @property
    def best(self) -> str:
        """The text with the most probable token at each mask."""
        return self.masks[0][0].text


@dataclass(frozen=True, kw_only=True, slots=True)
class PseudoScore:
    """How well a model predicts each token of a text from all the others (Salazar et al. 2020, section 2).

    Arguments:
        text: the text.
        tokens: its tokens.
        log_probabilities: log p(token | all other tokens), natural log, one for each token.
        right: whether each token was the most probable one.
    """

    text: str
    tokens: tuple[str, ...]
    log_probabilities: tuple[float, ...]
    right: tuple[bool, ...]

    @property
    def log_probability(self) -> float:
        """The sum of `log_probabilities`, the pseudo-log-likelihood. It is not the log-probability of the text."""
        return math.fsum(self.log_probabilities)

    @property
    def perplexity(self) -> float:
        """The pseudo-perplexity: exp of the mean of -log p over tokens."""
        return math.exp(min(700.0, -self.log_probability / len(self.log_probabilities)))


def filled(tokenizer: Tokenizer, text: str, found: Sequence[tuple[list[int], list[float]]]) -> Filled:
    """A text with the candidates for each of its masks.

    Arguments:
        found: for each mask the ids of the candidates and their probabilities, the most probable first.
    """
    between = text.split(mask_of(tokenizer))
    best = [_spelt(tokenizer, ids[0]) for ids, _ in found]
    masks = []
    for place, (ids, probabilities) in enumerate(found):
        candidates = []
        for index, token, probability in zip(ids, tokenizer.tokens(ids), probabilities, strict=True):
            words = [*best[:place], _spelt(tokenizer, index), *best[place + 1 :]]
            candidates.append(Candidate(token=token, probability=probability, text=_joined(between, words)))
        masks.append(tuple(candidates))
    return Filled(text=text, masks=tuple(masks))


def ids_of_targets(tokenizer: Tokenizer, targets: Sequence[str]) -> list[int]:
    """The distinct ids of target words.

    Raises:
        InputError: for targets that are not a list, or a word that is not one token of the vocabulary.
    """
    if isinstance(targets, str) or not targets:
        raise InputError(f"targets are {targets!r:.80}; give a list of words, or leave them out")
    found = []
    for target in targets:
        index = tokenizer.find(target)
        ids = tokenizer.encode(target) if index is None else [index]
        if len(ids) != 1 or ids[0] == tokenizer.unknown_id:
            raise InputError(f"the target {target!r:.60} is not one token of the vocabulary; leave it out")
        found += ids
    return list(dict.fromkeys(found))


def _spelt(tokenizer: Tokenizer, index: int) -> str:
    """A token as text, with "##" before it if it continues the word before."""
    (token,) = tokenizer.tokens([index])
    return token if _goes_on(token) else tokenizer.decode([index]).strip() or token


def _goes_on(token: str) -> bool:
    return token.startswith("##") and len(token) > 2


def _joined(between: Sequence[str], words: Sequence[str]) -> str:
    """A text with words in its gaps; a word that continues the one before is joined to it without a space."""
    text = between[0]
    for word, after in zip(words, between[1:], strict=True):
        text = (text.rstrip() + word[2:] if _goes_on(word) else text + word) + after
    return text
