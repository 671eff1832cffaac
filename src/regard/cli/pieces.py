"""Pieces of music that are named on the command line: MIDI files, pieces of a file of chorales, builtin motifs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import InputError

if TYPE_CHECKING:
    from regard.data.motifs import Motifs
    from regard.data.music import Writing
    from regard.tasks.language_modelling import LanguageModel

MOTIFS = "motifs"
NUMBERED = re.compile(r"(.+\.json):(\d+)", re.IGNORECASE)


def words_of(place: str, model: LanguageModel, writing: Writing) -> list[str]:
    """The words of one piece.

    Arguments:
        place: a MIDI file; `chorales.json:3`, the fourth test piece of a file of chorales; `motifs:3`, the fourth of the builtin
            test melodies, as the model was trained on them.
        model, writing: whose words they are to be.

    Raises:
        InputError: for a place where there is none, or motifs for a model of another number of voices.
    """
    match = re.fullmatch(rf"{MOTIFS}(?::(\d+))?", place)
    if match is not None and not Path(place).exists():
        number = int(match[1] or 0)
        return test_melodies(model, number + 1)[number].split()
    numbered = NUMBERED.fullmatch(place)
    if numbered is not None or Path(place).suffix.lower() == ".json":
        path, number = (numbered[1], int(numbered[2])) if numbered is not None else (place, 0)
        return _chorale(path, number, writing)
    return writing.of_file(place)


def test_melodies(model: LanguageModel, size: int) -> Motifs:
    """So many of the builtin melodies that the model has not seen, as it was trained on them.

    Raises:
        InputError: for a model that was trained on files.
    """
    from regard.structure import from_mapping
    from regard.tasks.language_task import TextData

    section = model.recipe.get("data")
    motifs = from_mapping(TextData, section, "the recipe's data").motifs if section else None
    if motifs is None:
        raise InputError("motifs are for a model that was trained on them (data.motifs); give a MIDI file to this one")
    return motifs.melodies("test", size, int(model.recipe.get("seed", 0)))


def _chorale(path: str, number: int, writing: Writing) -> list[str]:
    from regard.data.music.files import read_chorales

    pieces = read_chorales(path, "test", voices=writing.grid.voices)
    if number >= len(pieces):
        raise InputError(f"{path}: has {len(pieces)} test pieces, counted from 0; there is no {number}")
    return writing.of_steps(pieces[number])
