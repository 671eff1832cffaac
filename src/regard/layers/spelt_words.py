"""From the bytes of words to words: where each begins, and its letters in a row of fixed length."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.layers.tokens import Tokens

BYTES = 256
MARK = 0x20
"""The byte that stands before each word; no word has it in it."""

BEGIN, END, BLANK = 258, 259, 260
"""What a word's letters stand between, and what fills its row; below are the bytes, 256 and 257 begin and end a text."""

SYMBOLS = 261


class SpeltWords(NamedTuple):
    """The words of a batch of texts.

    Arguments:
        letters: (U, C) int64 in [0, SYMBOLS), each different word once.
        which: (B, W) int64, the row of `letters` that each word of each text is; of no meaning where there is none.
        valid: (B, W) bool, True = a word; those of a text stand first.
        word_of: (B, L) int64, the word of its text that each token is of; 0 at padding before the first.
        begins: (B, L) bool, True = the first token of a word.
    """

    letters: Tensor
    which: Tensor
    valid: Tensor
    word_of: Tensor
    begins: Tensor

    def to_tokens(self, words: Tensor) -> Tensor:
        """What was said of each word (B, W, D), said of each of its tokens: (B, L, D)."""
        return words.gather(1, self.word_of.unsqueeze(-1).expand(-1, -1, words.shape[-1]))


def spelt_words(tokens: Tokens, characters: int) -> SpeltWords:
    """The words of texts that are given as `regard.text.spelling` has them.

    A word begins at a mark and at every special token, which is a word of its own; after one, and where a text begins, also
    without a mark. Its letters are (Peters et al. 2018, in the authors' code)

        BEGIN byte ... byte END BLANK ... BLANK

    and of a word that is longer than `characters` - 2 bytes the rest is cut.

    Arguments:
        tokens: (B, L).
        characters: C, of a row.

    >>> words = spelt_words(Tokens.pad([[256, 32, 72, 105, 257]]), characters=5)
    >>> words.letters[words.which[0]].tolist()
    [[258, 256, 259, 260, 260], [258, 72, 105, 259, 260], [258, 257, 259, 260, 260]]
    """
    ids, valid = tokens.ids, tokens.valid
    rows, length = ids.shape
    if not ids.numel():
        none = ids.new_zeros(rows, 0)
        return SpeltWords(ids.new_zeros(0, characters), none, none.bool(), ids, valid)
    special = valid & (ids >= BYTES)
    first = valid & (valid.cumsum(dim=1) == 1)
    begins = valid & (special | (ids == MARK) | first | F.pad(special, (1, -1)))
    word_of = (begins.cumsum(dim=1) - 1).clamp_min(0)
    count = int(begins.sum(dim=1).max())
    flat = word_of + count * torch.arange(rows, device=ids.device).unsqueeze(1)
    places = torch.arange(length, device=ids.device).expand(rows, length)
    start = places.where(begins, 0).cummax(dim=1).values
    marked = ids.gather(1, start) == MARK
    place = places - start + (~marked).long()  # BEGIN stands where the mark does
    kept = valid & (place > 0) & (place <= characters - 2)
    letters = ids.new_full((rows * count, characters), BLANK)
    letters[:, :1] = BEGIN
    letters[flat[kept], place[kept]] = ids[kept]
    ends = (
        ids.new_zeros(rows * count).scatter_reduce(0, flat[valid], place[valid], "amax").clamp_max(characters - 2) + 1
    )
    letters.scatter_(1, ends.unsqueeze(1), END)
    real = torch.arange(count, device=ids.device) < begins.sum(dim=1, keepdim=True)
    different, rank = torch.unique(letters[real.flatten()], dim=0, return_inverse=True)
    which = ids.new_zeros(rows, count).masked_scatter(real, rank)
    return SpeltWords(different, which, real, word_of, begins)
