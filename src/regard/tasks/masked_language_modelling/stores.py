"""Writing the inputs that are cut from documents, and counting what becomes of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regard.data.sentence_pairs import Drawn
from regard.tasks.encoders import PLACES, columns_of
from regard.tasks.masked_language_modelling.task import FOLLOWED, NEXT, ORDINARY, OTHER
from regard.tasks.preparation import write_store
from regard.text import Tokenizer


@dataclass(slots=True)
class Counts:
    """What was made of inputs.

    Arguments:
        inputs: how many there are.
        tokens: of all of them, special ones included.
        following: those whose second text followed the first.
        cut: tokens that were cut off.
    """

    inputs: int = 0
    tokens: int = 0
    following: int = 0
    cut: int = 0

    def sentence(self, maximum: int, *, paired: bool) -> str:
        """The numbers in words for the user.

        Arguments:
            maximum: the most tokens of an input.
            paired: whether inputs are pairs.
        """
        mean = self.tokens / max(1, self.inputs)
        pairs = f"; {self.following / max(1, self.inputs):.1%} have the true next text" if paired else ""
        return (
            f"{self.inputs:,} inputs of {mean:.1f} tokens on average ({self.tokens:,} in all; filled up to {maximum} each, "
            f"{1 - mean / maximum:.1%} would be padding){pairs}; {self.cut / max(1, self.tokens + self.cut):.1%} of the tokens "
            "were cut off"
        )


def write_inputs(
    folder: Path, split: str, tokenizer: Tokenizer, inputs: Iterable[Drawn], *, next_sentence: bool
) -> Counts:
    """Write the store of one split; inputs without a token that could be hidden are left out.

    Arguments:
        next_sentence: whether the store says if the second text followed.

    Raises:
        InputError: where there is no input.
    """
    special = np.zeros(tokenizer.size, dtype=bool)
    special[list(tokenizer.special_ids)] = True
    start, end = [tokenizer.start_id], [tokenizer.end_id]
    counts = Counts()

    def rows() -> Iterator[list[np.ndarray | list[int]]]:
        for drawn in inputs:
            ids = np.concatenate([start, drawn.first, end, *([] if drawn.second is None else [drawn.second, end])])
            ordinary = len(ids) - int(special[ids].sum())
            if not ordinary:
                continue
            counts.inputs += 1
            counts.tokens += len(ids)
            counts.following += drawn.follows
            counts.cut += drawn.cut
            second = 0 if drawn.second is None else len(drawn.first) + 2
            told = [[FOLLOWED if drawn.follows else OTHER]] if next_sentence else []
            yield [ids, [second], [ordinary], *told]

    columns = {**columns_of(tokenizer), ORDINARY: PLACES, **({NEXT: 2} if next_sentence else {})}
    write_store(folder, split, columns, rows())
    return counts
