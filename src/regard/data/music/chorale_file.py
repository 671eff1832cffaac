"""Files of chorales: JSON of splits, in each of them pieces, in each of these the pitches of every step."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal

from regard.data.music.grid import Steps
from regard.errors import InputError
from regard.reading import read_json

Split = Literal["train", "validation", "test"]
_NAMES = {"train": ("train",), "validation": ("valid", "validation", "val"), "test": ("test",)}

SILENT = -1


def read_chorales(path: str | os.PathLike[str], split: Split = "train", *, voices: int = 4) -> list[Steps]:
    """The pieces of one split of a file such as the JSB chorales' (Boulanger-Lewandowski et al. 2012).

    Where every step of a piece has as many numbers as there are voices, each is of its own voice, -1 for a rest; otherwise what
    sounds is dealt out from the top.

    Raises:
        InputError: for what is missing or no such file, and for a step of more pitches than voices.

    >>> import tempfile
    >>> from pathlib import Path
    >>> file = Path(tempfile.mkdtemp()) / "chorales.json"
    >>> _ = file.write_text('{"train": [[[60, 67], [62]]], "valid": [], "test": []}')
    >>> read_chorales(file, voices=3)
    [[(67, 60, None), (62, None, None)]]
    """
    values = _values(path)
    found = next((values[name] for name in _NAMES[split] if name in values), None)
    if found is None:
        raise InputError(f"{path}: has no {_NAMES[split][0]} pieces; it has {', '.join(map(str, values)) or 'nothing'}")
    if not isinstance(found, list):
        raise InputError(f"{path}: {_NAMES[split][0]} is no list of pieces; give a file of chorales")
    return [_piece(piece, voices, f"{path}, {split} piece {number}") for number, piece in enumerate(found, start=1)]


def has_split(path: str | os.PathLike[str], split: Split) -> bool:
    """Whether a file has pieces of that split.

    Raises:
        InputError: as `read_chorales`.
    """
    values = _values(path)
    return any(values.get(name) for name in _NAMES[split])


def _values(path: str | os.PathLike[str]) -> dict[str, Any]:
    values = read_json(path, "give a file of chorales, or MIDI files")
    if not isinstance(values, dict):
        raise InputError(
            f'{path}: holds no chorales; they are an object {{"train": [...], "valid": [...], "test": [...]}}'
        )
    return values


def _piece(piece: Any, voices: int, where: str) -> Steps:
    if not isinstance(piece, list) or not piece:
        raise InputError(f"{where}: is no list of steps; each step is a list of MIDI pitches")
    steps = [_pitches(step, f"{where}, step {number}") for number, step in enumerate(piece, start=1)]
    apart = all(len(step) == voices for step in steps)
    found: Steps = []
    for number, step in enumerate(steps, start=1):
        pitches: Sequence[int | None] = [None if pitch == SILENT else pitch for pitch in step]
        if not apart:
            pitches = sorted({pitch for pitch in step if pitch != SILENT}, reverse=True)
        if len(pitches) > voices:
            raise InputError(
                f"{where}, step {number}: {len(pitches)} pitches for {voices} voices; raise data.music.voices"
            )
        found.append((*pitches, *[None] * (voices - len(pitches))))
    return found


def _pitches(step: Any, where: str) -> list[int]:
    right = isinstance(step, list) and all(
        isinstance(pitch, int | float) and pitch == int(pitch) and SILENT <= pitch < 128 for pitch in step
    )
    if not right:
        raise InputError(f"{where}: {step!r} is no list of MIDI pitches, 0 to 127 or -1 for a rest")
    return [int(pitch) for pitch in step]
