"""Pictures that are named on the command line: files, folders, zip archives, and builtin scenes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from regard.errors import InputError

if TYPE_CHECKING:
    from regard.data.scenes import Scenes
    from regard.tasks.captioning.captioner import Captioner
    from regard.tasks.captioning.examples import Picture

SCENES = re.compile(r"scenes(?::(\d+))?")
USUAL = 10


class NamedPicture(NamedTuple):
    """A picture, and what it is called in answers.

    Arguments:
        name: a file's, or a number's of builtin scenes.
        picture: as a captioner takes it.
        caption: the right one, of a builtin scene; empty where nobody knows.
    """

    name: str
    picture: Picture
    caption: str = ""


def pictures_named(places: Sequence[str], captioner: Captioner) -> list[NamedPicture]:
    """The pictures at some places, in order.

    Arguments:
        places: picture files; folders and zip archives, of which all pictures are taken; `scenes`, the first ten of the model's
            own builtin test pictures, or `scenes:4`, the fifth alone.
        captioner: whose scenes they are.

    Raises:
        InputError: for a place where there is nothing, or scenes of a model that was trained on files.
    """
    return [found for place in places for found in _at(place, captioner)]


def _at(place: str, captioner: Captioner) -> list[NamedPicture]:
    match = SCENES.fullmatch(place)
    if match is not None and not Path(place).exists():
        return _scenes(captioner, None if match[1] is None else int(match[1]))
    path = Path(place)
    if not path.is_dir() and path.suffix.lower() != ".zip":
        return [NamedPicture(place, place)]
    from regard.data.pictures import open_pictures

    found = open_pictures(path)
    colour = captioner.task.size.channels == 3
    return [NamedPicture(name, lambda name=name: found.read(name, colour=colour)) for name in found]


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
    from regard.tasks.captioning.data import CaptionData

    section = captioner.recipe.get("data")
    data = from_mapping(CaptionData, section, "the recipe's data") if section else CaptionData()
    if data.scenes is None:
        raise InputError(
            "scenes are for a model that was trained on them (data.scenes); give picture files to this one"
        )
    return data.scenes.scenes("test", size, int(captioner.recipe.get("seed", 0)))
