"""Pieces of music from MIDI files, folders of them, and files of chorales, as the words that a language model reads."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from regard.data.malformed import MalformedRow, MalformedRows
from regard.data.music.chorale_file import Split, has_split, read_chorales
from regard.data.music.midi import SUFFIXES
from regard.data.music.writing import Writing
from regard.errors import InputError

AnyPath = str | os.PathLike[str]


def read_pieces(
    places: AnyPath | Sequence[AnyPath],
    writing: Writing,
    *,
    split: Split = "train",
    malformed: MalformedRows | None = None,
) -> Iterator[str]:
    """The pieces at some places, the words of each with spaces between; no more than one file is held in memory.

    Arguments:
        places: MIDI files, folders in which all of them are taken, files of chorales (.json) with their splits.
        split: of files of chorales.
        malformed: where files of a folder are recorded that cannot be used, and left out.

    Raises:
        InputError: for a place that is missing, a file named by itself that cannot be used, a folder without a usable one.
    """
    for place in [places] if isinstance(places, str | os.PathLike) else places:
        path = Path(place)
        if path.is_dir():
            yield from _in_folder(path, writing, MalformedRows() if malformed is None else malformed)
        elif path.suffix.lower() == ".json":
            pieces = read_chorales(path, split, voices=writing.grid.voices)
            yield from (" ".join(writing.of_steps(piece)) for piece in pieces)
        else:
            yield " ".join(writing.of_file(path))


def own_split(places: AnyPath | Sequence[AnyPath], split: Split) -> bool:
    """Whether the places are files of chorales with pieces of that split in each.

    Raises:
        InputError: for a file of chorales that is none.
    """
    each = [Path(place) for place in ([places] if isinstance(places, str | os.PathLike) else places)]
    return all(path.suffix.lower() == ".json" and has_split(path, split) for path in each)


def _in_folder(folder: Path, writing: Writing, malformed: MalformedRows) -> Iterator[str]:
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    if not files:
        others = sorted(path.name for path in folder.glob("*.json"))
        hint = f"name the file of chorales itself, {folder / others[0]}" if others else "give one with .mid files in it"
        raise InputError(f"{folder}: has no MIDI files in it; {hint}")
    used, reason = 0, ""
    for path in files:
        try:
            words = writing.of_file(path)
        except InputError as error:
            reason = reason or str(error)
            said = str(error).removeprefix(f"{path}: ").split(";")[0]
            malformed.record(MalformedRow(file=str(path), line=1, unit="piece", reason="unusable piece", detail=said))
            continue
        used += 1
        yield " ".join(words)
    if not used:
        raise InputError(f"{folder}: none of its {len(files)} MIDI files can be used; the first: {reason}")
