"""What a sentence encoder learns from, as data: the `data` section of a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.data.file_format import FORMATS
from regard.data.labelled_formats import LABELLED_FORMATS
from regard.embeddings.pooling import PoolingMode, check_modes
from regard.errors import InputError, nearest
from regard.models.config import check

Place = str | tuple[str, ...]
Objective = Literal["auto", "ranking", "cosine", "triplet"]

PAIR_FORMATS = tuple(name for name, known in LABELLED_FORMATS.items() if known.number)
"""The known sets whose texts are rated pairs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SentenceData:
    """The `data` section of a recipe.

    Arguments:
        train: a TSV, CSV or JSONL file, or several; gzip is recognised.
        validation: likewise; held out from the training data where null.
        validation_share: of the training examples, to be held out.
        format: `auto` goes by the file's name; or that of a public set of rated pairs, `stsb`.
        text, pair: column index, column name or JSON key of the two texts that belong together; where null the usual names (text,
            pair; sentence1, sentence2; anchor, positive) or the first two columns.
        negative: the same of a third text, which does not belong to the first; null where there is none.
        label: the same of a number that says how alike the two are; null where there is none.
        objective: what is learnt. `ranking`: to tell a text's partner from all others in the batch, and from the third texts;
            `cosine`: that the cosine is the number; `triplet`: that the third text is farther than the second; `auto` is
            `cosine` where there are numbers, else `ranking`.
        scale: of the cosines in `ranking`.
        margin: by how much the third text is to be farther, for `triplet`.
        lowest, highest: the numbers that mean a cosine of 0 and of 1; where null the least and the largest of the training data.
        pooling: how the vectors of tokens become one: `mean`, `cls`, `max` and others, or several; `pooler` is the vector of a
            whole text that the model makes itself. Where null as in the folder that the model starts from, if
            sentence-transformers made it; of `infersent` and its like their own; else `mean`.
        normalise: whether vectors are brought to length one; where null likewise, else true.
        maximum_length: the most tokens of a text, special ones included; longer texts are cut.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    train: Place | None = None
    validation: Place | None = None
    validation_share: float = 0.1
    format: str = "auto"
    text: int | str | None = None
    pair: int | str | None = None
    negative: int | str | None = None
    label: int | str | None = None
    objective: Objective = "auto"
    scale: float = 20.0
    margin: float = 1.0
    lowest: float | None = None
    highest: float | None = None
    pooling: tuple[PoolingMode, ...] | None = None
    normalise: bool | None = None
    maximum_length: int = 128

    def __post_init__(self) -> None:
        names = (*FORMATS, *PAIR_FORMATS)
        if self.format not in names:
            raise InputError(f"data.format is {self.format!r}; {nearest(self.format, names)}")
        share = self.validation_share
        check(0 < share < 1, "data.validation_share", share, "above 0 and below 1", "0.1 is usual")
        check(self.maximum_length >= 3, "data.maximum_length", self.maximum_length, "at least 3", "128 is usual")
        check(self.scale > 0, "data.scale", self.scale, "above 0", "20 is usual")
        check(self.margin >= 0, "data.margin", self.margin, "0 or more", "1 is usual")
        if self.pooling is not None:
            check_modes(self.pooling)
        if self.lowest is not None and self.highest is not None:
            check(
                self.lowest < self.highest,
                "data.highest",
                self.highest,
                f"above {self.lowest}",
                "it means a cosine of 1",
            )
        self._check_objective()

    def _check_objective(self) -> None:
        rated = self.rated
        chosen = self.chosen
        if chosen == "triplet" and self.negative is None and self.format == "auto":
            raise InputError("data.objective is triplet and no third text is named; give its column as data.negative")
        if chosen == "cosine" and not rated:
            raise InputError("data.objective is cosine and no number is named; give its column as data.label")
        if chosen == "cosine" and self.negative is not None:
            raise InputError("data.negative is for the objectives ranking and triplet; leave it out for cosine")

    @property
    def rated(self) -> bool:
        """Whether there are numbers."""
        return self.label is not None or self.format in PAIR_FORMATS

    @property
    def chosen(self) -> Literal["ranking", "cosine", "triplet"]:
        """The objective, `auto` resolved."""
        if self.objective != "auto":
            return self.objective
        return "cosine" if self.rated else "ranking"
