"""`regard classify` for models that tell the class of a picture."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from regard.cli.console import NewFile, print_json
from regard.cli.inputs import NamedPicture, opened, pictures_named
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks.few_shot import FewShotClassifier
    from regard.tasks.picture_classification import PictureClassifierPredictor
    from regard.tasks.pictures import Picture, PictureClassification

TOGETHER = 256
"""Pictures read at once."""


def classify_pictures(
    model: Path,
    places: Sequence[str],
    file: NewFile | None,
    as_json: bool,
    device: str,
    *,
    shown: Path | None,
    unfit: Sequence[str],
) -> None:
    """Tell the class of pictures: a line for each, its name, the class and its probability.

    Arguments:
        places: picture files, folders or zip archives of them, or `digits`, builtin ones.
        file: where the lines go instead of standard output.
        as_json: whether one object is printed, with the probability of every class.
        shown: for a model that learns from a few labelled pictures, where these are: CLASS/PICTURE in a folder or zip archive.
        unfit: options that were given and are only for models of texts.

    Raises:
        InputError: for such an option, no picture, one that cannot be read, or labelled ones that the model does not want, or
            needs and does not get.
    """
    if unfit:
        raise InputError(f"{unfit[0]} is for models that read texts; this one reads pictures, name them instead")
    if not places:
        raise InputError(
            "this model reads pictures, and there is none; name files, a folder or a zip archive, or digits:0"
        )
    predictor = opened(model, device)
    named = pictures_named(places, predictor)
    objects: list[dict[str, Any]] = []
    for each, found in _told(named, _ask(predictor, shown)):
        line = f"{' '.join(each.name.split())}\t{' '.join(found.label.split())}\t{found.probability:.4f}\n"
        if as_json:
            right = {"reference": each.caption} if each.caption else {}
            objects.append({"picture": each.name, "label": found.label, "probabilities": found.probabilities, **right})
        elif file is None:
            sys.stdout.write(line)
        else:
            file.write(line)
    if as_json:
        print_json({"classifications": objects}, file)


def _ask(
    predictor: PictureClassifierPredictor | FewShotClassifier, shown: Path | None
) -> Callable[[Sequence[Picture]], Sequence[PictureClassification]]:
    """What tells the classes of some pictures; a few-shot learner has seen the labelled ones already."""
    from regard.tasks.few_shot import FewShotClassifier

    if not isinstance(predictor, FewShotClassifier):
        if shown is not None:
            raise InputError(
                "--shown is for models that learn from a few pictures; this one knows its classes, leave it out"
            )
        return predictor.classify_batch
    if shown is None:
        task = predictor.task
        raise InputError(
            f"this model learns classes from a few pictures, and is shown none; give {task.ways} classes with {task.shots} "
            "picture(s) of each as CLASS/PICTURE in a folder: --shown FOLDER"
        )
    return partial(predictor.classify_batch, _labelled(shown))


def _labelled(place: Path) -> list[tuple[Picture, str]]:
    """The pictures in a folder or archive, each with the name of the folder it lies in."""
    from regard.data.pictures import open_pictures

    pictures = open_pictures(place)
    bare = [name for name in pictures if "/" not in name]
    if bare:
        raise InputError(f"{place}: {bare[0]} lies in no folder; put each picture in a folder named as its class")
    return [(pictures.read(name, colour=False), PurePosixPath(name).parent.name) for name in pictures]


def _told(
    named: Sequence[NamedPicture], ask: Callable[[Sequence[Picture]], Sequence[PictureClassification]]
) -> Iterator[tuple[NamedPicture, PictureClassification]]:
    for start in range(0, len(named), TOGETHER):
        some = named[start : start + TOGETHER]
        yield from zip(some, ask([each.picture for each in some]), strict=True)
