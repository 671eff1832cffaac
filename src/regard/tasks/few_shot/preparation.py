"""From pictures of characters to token stores that episodes are drawn from."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.data.characters import Characters, alphabets_of, digit_characters, read_characters
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.files import replace_file
from regard.tasks.few_shot.data import FewShotData
from regard.tasks.few_shot.task import CLASS, PIXELS, FewShotTask
from regard.tasks.preparation import SETTINGS, TRAIN, VALIDATION, Prepared, finish, is_prepared, opened, settings_of

"""What preparation decided of the task, beside the stores."""

MOST_CLASSES = 1 << 20

LEARNT, HELD_OUT = (0, 1, 2, 3, 4), (5, 6, 7, 8, 9)
"""Of the builtin digits."""


def prepare(
    data: FewShotData,
    folder: Path,
    *,
    seed: int,
    given: Characters | None = None,
    given_validation: Characters | None = None,
) -> Prepared[FewShotTask]:
    """Read the pictures, and leave them in `folder`.

    Arguments:
        folder: where to put them; taken as they are if they are there already (a resumed run).
        seed: of the choice of alphabets that are held out.
        given, given_validation: pictures in memory instead of what `data` names; both, or neither.

    Raises:
        InputError: for pictures that cannot be read, or too few alphabets to hold some out.
    """
    if not is_prepared(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name in (TRAIN, VALIDATION, ".*.partial"):  # of a preparation that was killed
            for path in folder.glob(name):
                shutil.rmtree(path, ignore_errors=True)
        read = _read(data, seed) if given is None and given_validation is None else (given, given_validation)
        for name, characters in zip((TRAIN, VALIDATION), read, strict=True):
            if characters is None or not len(characters):
                raise InputError(f"there are no {name} pictures; give some")
            write_pictures(folder / name, characters)
        task = FewShotTask(ways=data.ways, shots=data.shots, side=data.side, turned=data.turned, asked=data.asked)
        replace_file(folder / SETTINGS, json.dumps(task.save(folder)))
        finish(folder, [])
    return opened(FewShotTask.load(folder, settings_of(folder)), folder)


def write_pictures(place: Path, characters: Characters) -> TokenStore:
    """A store of pictures and their classes."""
    rows = zip(characters.pixels.reshape(len(characters), -1), characters.classes[:, None], strict=True)
    return TokenStore.write(place, {PIXELS: 256, CLASS: MOST_CLASSES}, rows)


def _read(data: FewShotData, seed: int) -> tuple[Characters, Characters]:
    if data.builtin is not None:
        return digit_characters(LEARNT, side=data.side), digit_characters(HELD_OUT, side=data.side)
    if data.validation is not None:
        return read_characters(data.place, data.alphabets, side=data.side), read_characters(
            data.validation, data.validation_alphabets, side=data.side
        )
    known = alphabets_of(data.place)
    held_out = data.validation_alphabets or _held_out(known, data, seed)
    left = tuple(name for name in known if name not in held_out)
    if not left:
        raise InputError(f"{data.place}: all alphabets are held out; leave some to learn from")
    return (
        read_characters(data.place, data.alphabets or left, side=data.side),
        read_characters(data.place, held_out, side=data.side),
    )


def _held_out(known: Sequence[str], data: FewShotData, seed: int) -> tuple[str, ...]:
    """Alphabets to hold out, of those that are not asked for to learn from: so many as the share says, one at least."""
    free = [name for name in known if name not in (data.alphabets or ())]
    if not free or len(known) < 2:
        raise InputError(
            f"{data.place}: there is no alphabet to hold out; name fewer in data.alphabets, or name data.validation"
        )
    generator = np.random.Generator(np.random.Philox(key=[seed, 0xA1FA]))
    count = min(len(free), max(1, round(data.validation_share * len(known))), len(known) - 1)
    return tuple(sorted(generator.choice(free, size=count, replace=False).tolist()))
