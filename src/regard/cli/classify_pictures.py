"""`regard classify` for models that tell the class of a picture."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.console import print_json
from regard.cli.new_file import NewFile
from regard.cli.opening import opened
from regard.cli.pictures import NamedPicture, pictures_named
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks.picture_classification.classifier import PictureClassification, PictureClassifierPredictor

TOGETHER = 256
"""Pictures read at once."""


def classify_pictures(
    model: Path, places: Sequence[str], file: NewFile | None, as_json: bool, device: str, unfit: Sequence[str]
) -> None:
    """Tell the class of pictures: a line for each, its name, the class and its probability.

    Arguments:
        places: picture files, folders or zip archives of them, or `digits`, builtin ones.
        file: where the lines go instead of standard output.
        as_json: whether one object is printed, with the probability of every class.
        unfit: options that were given and are only for models of texts.

    Raises:
        InputError: for such an option, no picture, or one that cannot be read.
    """
    if unfit:
        raise InputError(f"{unfit[0]} is for models that read texts; this one reads pictures, name them instead")
    if not places:
        raise InputError(
            "this model reads pictures, and there is none; name files, a folder or a zip archive, or digits:0"
        )
    predictor: PictureClassifierPredictor = opened(model, device, "picture_classification")
    named = pictures_named(places, predictor)
    objects: list[dict[str, Any]] = []
    for each, found in _told(predictor, named):
        line = f"{' '.join(each.name.split())}\t{' '.join(found.label.split())}\t{found.probability:.4f}\n"
        if file is not None:
            file.write(line)
        if as_json:
            right = {"reference": each.caption} if each.caption else {}
            objects.append({"picture": each.name, "label": found.label, "probabilities": found.probabilities, **right})
        elif file is None:
            sys.stdout.write(line)
    if as_json:
        print_json({"classifications": objects})


def _told(
    predictor: PictureClassifierPredictor, named: Sequence[NamedPicture]
) -> Iterator[tuple[NamedPicture, PictureClassification]]:
    for start in range(0, len(named), TOGETHER):
        some = named[start : start + TOGETHER]
        yield from zip(some, predictor.classify_batch([each.picture for each in some]), strict=True)
