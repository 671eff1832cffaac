"""What a few-shot learner learns from, as data: the `data` section of a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.errors import InputError
from regard.models.config import check


@dataclass(frozen=True, kw_only=True, slots=True)
class FewShotData:
    """The `data` section of a recipe: pictures by class, classes by alphabet, and what an episode is.

    Arguments:
        train: a folder or zip archive of pictures, ALPHABET/CHARACTER/PICTURE, such as Omniglot's `images_background.zip`.
        validation: another, whose alphabets are held out; held out from `train` where null.
        alphabets: of `train`, to learn from; all that are not held out where null.
        validation_alphabets: held out; where null all of `validation`, or as many of `train` as `validation_share` says, drawn
            with the seed.
        validation_share: of the alphabets, to be held out.
        builtin: `digits`, the handwritten digits of scikit-learn, instead of files: 0 to 4 to learn from, 5 to 9 held out.
        ways: N, classes of an episode.
        shots: K, labelled pictures of each.
        side: rows and columns to shrink the pictures to, in pixels.
        turned: whether in training a character turned by quarters is four characters.
        asked: Q, pictures that an episode of training asks about, each read on its own after those with labels. In the paper it
            is 1; one of each class teaches far more of as many pictures.

    Raises:
        InputError: for files beside builtin data, alphabets that are both learnt from and held out, or a number out of range.
    """

    train: str | tuple[str, ...] | None = None
    validation: str | None = None
    alphabets: tuple[str, ...] | None = None
    validation_alphabets: tuple[str, ...] | None = None
    validation_share: float = 0.2
    builtin: Literal["digits"] | None = None
    ways: int = 5
    shots: int = 1
    side: int = 28
    turned: bool = True
    asked: int = 1

    def __post_init__(self) -> None:
        check(self.ways >= 2, "data.ways", self.ways, "at least 2", "5 and 20 are usual")
        check(self.shots >= 1, "data.shots", self.shots, "at least 1", "1 and 5 are usual")
        check(self.asked >= 1, "data.asked", self.asked, "at least 1", "1 and data.ways are usual")
        check(2 <= self.side <= 256, "data.side", self.side, "from 2 to 256", "28 is usual")
        share = self.validation_share
        check(0 < share < 1, "data.validation_share", share, "above 0 and below 1", "0.2 is usual")
        for name in ("train", "validation", "alphabets", "validation_alphabets"):
            if self.builtin is not None and getattr(self, name) is not None:
                raise InputError(f"data.{name} is given beside data.builtin={self.builtin}; choose one of the two")
        both = sorted(set(self.alphabets or ()) & set(self.validation_alphabets or ()))
        if both and self.validation is None:
            raise InputError(f"data.alphabets and data.validation_alphabets both name {both[0]!r}; leave it out of one")

    @property
    def place(self) -> str:
        """The folder or archive to learn from.

        Raises:
            InputError: where none is named, or several are.
        """
        places = (self.train,) if isinstance(self.train, str) else self.train or ()
        if len(places) != 1:
            raise InputError(
                f"data.train names {len(places) or 'no'} folders or archives of pictures; name one, or data.builtin=digits"
            )
        return places[0]
