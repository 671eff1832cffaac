"""Which tokens of a text are hidden from a masked language model, and what stands in their place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from regard.errors import InputError
from regard.models.config import check
from regard.text import Tokenizer


class Masked(NamedTuple):
    """Texts of which some tokens are hidden.

    Arguments:
        texts: their ids, others standing where one is hidden.
        places: for each text the places that are to be told, rising.
    """

    texts: list[np.ndarray]
    places: list[np.ndarray]


@dataclass(frozen=True, kw_only=True, slots=True)
class Masking:
    """How tokens are hidden (Devlin et al. 2019, section 3.1, task 1; counts as in the authors' create_pretraining_data.py).

        count = min(maximum_predictions, max(1, round(chosen_share * n))),   n = tokens of the input, special ones included

    So many tokens are chosen, none of them special, each set of so many as probable as another. Of each, independently, with
    probability `mask_share` the mask token takes the place, with probability `random_share` any token that is not special, with
    equal chances; else it stays. All that were chosen are to be told, those that stayed among them.

    Arguments:
        chosen_share: of the tokens, to be told.
        mask_share, random_share: of those, replaced by the mask token, and by a random one.
        maximum_predictions: the most in one input; no limit where null.
        whole_words: choose whole words, as in the authors' later models: words in random order, each taken with all its pieces if
            it still fits, the first in any case. So the count may be missed by a few.
        static: hide the same tokens in every epoch.
        seed: of all chances.

    Raises:
        InputError: for shares that are none.
    """

    chosen_share: float = 0.15
    mask_share: float = 0.8
    random_share: float = 0.1
    maximum_predictions: int | None = None
    whole_words: bool = False
    static: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        share = self.chosen_share
        check(0 < share <= 1, "data.chosen_share", share, "above 0 and at most 1", "0.15 is usual")
        for name in ("mask_share", "random_share"):
            value = getattr(self, name)
            check(0 <= value <= 1, f"data.{name}", value, "in [0, 1]", "0.8 and 0.1 are usual")
        both = self.mask_share + self.random_share
        check(both <= 1 + 1e-9, "data.mask_share + data.random_share", both, "at most 1", "what is left stays as it is")
        most = self.maximum_predictions
        check(most is None or most >= 1, "data.maximum_predictions", most, "at least 1", "20 is usual for 128 tokens")

    def counts(self, lengths: np.ndarray, ordinary: np.ndarray) -> np.ndarray:
        """How many tokens of each input are to be told; with whole words, how many are aimed at.

        Arguments:
            lengths: (N,), tokens of each input.
            ordinary: (N,), those of them that are not special: no more can be chosen.

        >>> Masking().counts(np.array([128, 3]), np.array([125, 1])).tolist()
        [19, 1]
        """
        counts = np.maximum(1, np.rint(self.chosen_share * lengths).astype(np.int64))
        if self.maximum_predictions is not None:
            counts = np.minimum(counts, self.maximum_predictions)
        return np.minimum(counts, ordinary)

    def hide(
        self, tokenizer: Tokenizer, texts: Sequence[np.ndarray], rows: Sequence[int], *, draw: int | None = None
    ) -> Masked:
        """Hide tokens of some inputs: a function of `seed`, `draw` and each input's row, whatever other inputs are there.

        Arguments:
            texts: the ids of each, special ones included.
            rows: a number for each.
            draw: a number that differs from epoch to epoch, without effect where `static`; None in evaluation.

        Raises:
            InputError: for a tokenizer without a mask token.
        """
        stream = 0 if draw is None else 1 if self.static else 2 + draw
        mask = tokenizer.mask_id
        if mask is None:
            raise InputError("the tokenizer has no mask token, so nothing can be hidden; use one of kind bert")
        key = np.random.SeedSequence([self.seed, 0x3A5C, stream]).generate_state(1, np.uint64)[0]
        ordinary = _ordinary(tokenizer)
        words = np.flatnonzero(ordinary)
        hidden, places = [], []
        for text, row in zip(texts, rows, strict=True):
            generator = np.random.Generator(np.random.Philox(key=[int(key), row]))
            order, fate, replacement = generator.random((3, len(text)))
            free = np.flatnonzero(ordinary[text])
            count = int(self.counts(np.array([len(text)]), np.array([len(free)]))[0])
            if self.whole_words:
                chosen = _whole_words(tokenizer.continues(text), free, order, count)
            else:
                chosen = np.sort(free[np.argsort(order[free])[:count]])
            ids = text.astype(np.int64)
            masked = chosen[fate[chosen] < self.mask_share]
            drawn = chosen[(fate[chosen] >= self.mask_share) & (fate[chosen] < self.mask_share + self.random_share)]
            ids[masked] = mask
            ids[drawn] = words[(replacement[drawn] * len(words)).astype(np.int64)]
            hidden.append(ids)
            places.append(chosen)
        return Masked(hidden, places)


def _ordinary(tokenizer: Tokenizer) -> np.ndarray:
    """(V,) bool, True = no special token."""
    ordinary = np.ones(tokenizer.size, dtype=bool)
    ordinary[list(tokenizer.special_ids)] = False
    return ordinary


def _whole_words(continues: np.ndarray, free: np.ndarray, order: np.ndarray, count: int) -> np.ndarray:
    """The places of words in random order, as long as they fit into `count`.

    Arguments:
        continues: (L,) bool, whether each piece goes on with the word before it.
        free: the places that may be chosen, rising.
        order: (L,), by which words are ordered: that of a word's first piece.
    """
    starts = np.flatnonzero(~continues[free])
    ends = np.append(starts[1:], len(free))
    chosen: list[np.ndarray] = []
    left = count
    for word in np.argsort(order[free[starts]]):
        size = int(ends[word] - starts[word])
        if size <= left or not chosen:
            chosen.append(free[starts[word] : ends[word]])
            left -= size
            if left <= 0:
                break
    return np.sort(np.concatenate(chosen)) if chosen else free[:0]
