"""Pictures that are named on the command line: files, folders, zip archives, and builtin scenes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from regard.errors import InputError

if TYPE_CHECKING:
    from regard.data.scenes import Scenes
    from regard.tasks.captioning import Captioner
    from regard.tasks.few_shot import FewShotClassifier
    from regard.tasks.picture_classification import PictureClassifierPredictor
    from regard.tasks.pictures import Picture

    Reader = Captioner | PictureClassifierPredictor | FewShotClassifier

BUILTIN = re.compile(r"(scenes|digits)(?::(\d+))?")
USUAL = 10


class NamedPicture(NamedTuple):
    """A picture, and what it is called in answers.

    Arguments:
        name: a file's, or a number's of builtin scenes.
        picture: as a captioner takes it.
        caption: the right one, or class, of a builtin picture; empty where nobody knows.
    """

    name: str
    picture: Picture
    caption: str = ""


def pictures_named(places: Sequence[str], model: Reader) -> list[NamedPicture]:
    """The pictures at some places, in order.

    Arguments:
        places: picture files; folders and zip archives, of which all pictures are taken; of a captioner `scenes`, the first ten
            of its own builtin test pictures, or `scenes:4`, the fifth alone; of a classifier `digits` or `digits:4`
            likewise.
        model: who is to read them.

    Raises:
        InputError: for a place where there is nothing, or builtin pictures that are not for this model.
    """
    return [found for place in places for found in _at(place, model)]


def _at(place: str, model: Reader) -> list[NamedPicture]:
    match = BUILTIN.fullmatch(place)
    if match is not None and not Path(place).exists():
        return _builtin(match[1], None if match[2] is None else int(match[2]), model)
    path = Path(place)
    if not path.is_dir() and path.suffix.lower() != ".zip":
        return [NamedPicture(place, place)]
    from regard.data.pictures import open_pictures

    found = open_pictures(path)
    colour = model.task.size.channels == 3
    return [NamedPicture(name, lambda name=name: found.read(name, colour=colour)) for name in found]


def _builtin(name: str, number: int | None, model: Reader) -> list[NamedPicture]:
    from regard.tasks.captioning import Captioner

    if isinstance(model, Captioner) != (name == "scenes"):
        raise InputError(
            f"{name} are for a model of another task than {model.task.name.replace('_', ' ')}; give picture files"
        )
    return _scenes(model, number) if isinstance(model, Captioner) else _digits(number)


def _digits(number: int | None) -> list[NamedPicture]:
    from regard.data.labelled_pictures import read_labelled_pictures

    found = read_labelled_pictures(None, "test")
    if number is not None and number >= len(found):
        raise InputError(f"digits:{number} is not there; they are numbered from 0 to {len(found) - 1}")
    rows = range(USUAL) if number is None else range(number, number + 1)
    return [NamedPicture(f"digits:{row}", found[row].picture, found[row].label) for row in rows]


def _scenes(captioner: Captioner, number: int | None) -> list[NamedPicture]:
    rows = range(USUAL) if number is None else range(number, number + 1)
    scenes = scenes_to_test(captioner, rows.stop)
    return [NamedPicture(f"scenes:{row}", scenes[row].frames, scenes[row].caption) for row in rows]


def scenes_to_test(captioner: Captioner, size: int) -> Scenes:
    """So many of the builtin pictures that the model has not seen, as it was trained on them.

    Raises:
        InputError: for a model that was trained on files.
    """
    from regard.structure import from_mapping
    from regard.tasks.caption_data import CaptionData

    section = captioner.recipe.get("data")
    data = from_mapping(CaptionData, section, "the recipe's data") if section else CaptionData()
    if data.scenes is None:
        raise InputError(
            "scenes are for a model that was trained on them (data.scenes); give picture files to this one"
        )
    return data.scenes.scenes("test", size, int(captioner.recipe.get("seed", 0)))
