"""What a classifier of pictures learns from, as data: the `data` section of a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.data.labelled_pictures import Part
from regard.data.pictures import Fit
from regard.errors import InputError
from regard.models.config import check


@dataclass(frozen=True, kw_only=True, slots=True)
class PictureData:
    """The `data` section of a recipe.

    Arguments:
        train: a folder or zip archive with a folder of pictures for each class, called as the class; a folder with MNIST's files;
            or `hub:owner/name[:configuration][@split]`, a dataset of the Hugging Face hub.
        validation: another of these; pictures are held out of `train` where null.
        validation_size: how many to hold out, at most a tenth of all.
        builtin: `digits`, the handwritten digits of scikit-learn, instead of files.
        part: of MNIST's files, the hub and builtin digits: `train`, or `test`.
        size: learn from so many pictures alone, drawn with the seed from what is not held out; all where null.
        height, width: every picture becomes so large, in pixels; as the first one where null.
        fit: how: `crop` cuts off what stands over, `pad` puts black beside, `stretch` changes proportions.
        colour: red, green and blue; one channel of grey where false. MNIST's and builtin digits are grey in any case.
        shift: in training each picture is moved by up to so many pixels each way, anew each time; black comes in.
        flip: whether in training a picture is mirrored left to right half of the time.
        on_error: what to do about a picture that cannot be read: `skip` leaves it out and says so, `stop` ends with an error.

    Raises:
        InputError: for files beside builtin data, or a number out of range.
    """

    train: str | tuple[str, ...] | None = None
    validation: str | None = None
    validation_size: int = 1_000
    builtin: Literal["digits"] | None = None
    part: Part = "train"
    size: int | None = None
    height: int | None = None
    width: int | None = None
    fit: Fit = "pad"
    colour: bool = True
    shift: int = 0
    flip: bool = False
    on_error: Literal["skip", "stop"] = "skip"

    def __post_init__(self) -> None:
        for name in ("train", "validation"):
            if self.builtin is not None and getattr(self, name) is not None:
                raise InputError(f"data.{name} is given beside data.builtin={self.builtin}; choose one of the two")
        for name in ("validation_size", "size", "height", "width"):
            value = getattr(self, name)
            check(value is None or value > 0, f"data.{name}", value, "above 0", "raise it")
        check(self.shift >= 0, "data.shift", self.shift, "0 or more", "2 is usual for digits")

    @property
    def place(self) -> str | None:
        """The folder, archive or dataset to learn from; None for builtin digits.

        Raises:
            InputError: where none is named, or several are.
        """
        if self.builtin is not None:
            return None
        places = (self.train,) if isinstance(self.train, str) else self.train or ()
        if len(places) != 1:
            raise InputError(
                f"data.train names {len(places) or 'no'} places of pictures; name one folder, archive or dataset, or "
                "data.builtin=digits"
            )
        return places[0]
