"""What a tagger learns from, as data: the `data` section of a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.data.tagged import FORMATS
from regard.errors import InputError, nearest
from regard.models.config import check

Place = str | tuple[str, ...]
SchemeChoice = Literal["auto", "bio", "bioes", "as_given", "none"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TaggedData:
    """The `data` section of a recipe.

    Arguments:
        train: a file of tagged words, or several: CoNLL's columns or JSONL; gzip is recognised.
        validation: likewise; held out from the training data where null.
        validation_share: of the training sentences, to be held out.
        format: `columns`, `jsonl`, or `auto`: by the first line.
        word, tag: the columns of words and tags, from 0, or from the last as -1; in JSONL their keys. Null: the first and the
            last; `words` or `tokens`, and `tags` or `labels`.
        scheme: how the model writes spans of words as tags: `bio` or `bioes`, into which the data's are turned from whatever
            scheme they are in; `as_given`, in theirs; `none` where tags are no spans, such as parts of speech; `auto` is `bio`
            where the data's tags are of a scheme, else `none`.
        tags: the model's tags in their order; found in the training data where null.
        context: the most tokens of the sentences before, and of those after, in the same document that are read with a sentence.
        maximum_length: the most tokens read at once, special ones included; longer sentences are read in overlapping windows.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    train: Place | None = None
    validation: Place | None = None
    validation_share: float = 0.1
    format: str = "auto"
    word: int | str | None = None
    tag: int | str | None = None
    scheme: SchemeChoice = "auto"
    tags: tuple[str, ...] | None = None
    context: int = 0
    maximum_length: int = 128

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise InputError(f"data.format is {self.format!r}; {nearest(self.format, FORMATS)}")
        share = self.validation_share
        check(0 < share < 1, "data.validation_share", share, "above 0 and below 1", "0.1 is usual")
        check(self.maximum_length >= 5, "data.maximum_length", self.maximum_length, "at least 5", "128 is usual")
        check(self.context >= 0, "data.context", self.context, "0 or more", "0 reads each sentence alone")
        tags = self.tags
        check(
            tags is None or (len(tags) >= 2 and len(set(tags)) == len(tags)),
            "data.tags",
            tags,
            "two different names or more",
            "leave it out to find them in the data",
        )
