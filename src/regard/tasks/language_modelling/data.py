"""What a language model learns from, as data: the `data` section of a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.data.texts import Unit
from regard.errors import InputError
from regard.models.config import check

Place = str | tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TextData:
    """The `data` section of a recipe.

    The documents are laid end to end, an end token after each, and the stream is cut into stretches of equal length.

    Arguments:
        train: a file of plain text, or several; gzip is recognised.
        validation: likewise; held out from the training data, document by document, where null.
        validation_share: of the documents, to be held out.
        builtin: `python_docs`, the reference text that comes with Python, instead of files.
        unit: what one document is: a `line`, or a `paragraph` up to the next empty line.
        length: tokens of one stretch.

    Raises:
        InputError: for files beside builtin data, or a number out of range.
    """

    train: Place | None = None
    validation: Place | None = None
    validation_share: float = 0.05
    builtin: Literal["python_docs"] | None = None
    unit: Unit = "line"
    length: int = 128

    def __post_init__(self) -> None:
        for name in ("train", "validation"):
            if self.builtin is not None and getattr(self, name) is not None:
                raise InputError(f"data.{name} is given beside data.builtin={self.builtin}; choose one of the two")
        share = self.validation_share
        check(0 < share < 1, "data.validation_share", share, "above 0 and below 1", "0.05 is usual")
        check(self.length >= 1, "data.length", self.length, "at least 1", "128 to 1024 is usual")
