"""From drawn sequences to token stores that a model learns to copy from."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.files import replace_file
from regard.tasks.copying.data import CopyingData
from regard.tasks.copying.task import COLUMN, CopyingTask
from regard.tasks.preparation import SETTINGS, TRAIN, VALIDATION, Prepared, finish, is_prepared, opened, settings_of

"""What preparation decided of the task, beside the stores."""

Given = Sequence[Sequence[int]]


def prepare(
    data: CopyingData, folder: Path, *, seed: int, given: Given | None = None, given_validation: Given | None = None
) -> Prepared[CopyingTask]:
    """Draw the sequences, and leave them in `folder`.

    Arguments:
        folder: where to put them; taken as they are if they are there already (a resumed run).
        seed: of what is drawn.
        given, given_validation: sequences in memory instead: numbers below 2^width, the bits of each vector, the lowest first.

    Raises:
        InputError: for sequences in memory without any vector, or of numbers that are too large.
    """
    if not is_prepared(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name in (TRAIN, VALIDATION, ".*.partial"):  # of a preparation that was killed
            for path in folder.glob(name):
                shutil.rmtree(path, ignore_errors=True)
        drawn = {
            TRAIN: data.copies("train", data.size, seed) if given is None else given,
            VALIDATION: data.copies("validation", data.validation_size, seed)
            if given_validation is None
            else given_validation,
        }
        for name, sequences in drawn.items():
            if isinstance(sequences, str) or not len(sequences) or any(not len(numbers) for numbers in sequences):
                raise InputError(f"the {name} sequences are {sequences!r:.60}; give some, of one vector at least")
            TokenStore.write(folder / name, {COLUMN: 1 << data.width}, ((numbers,) for numbers in sequences))
        task = CopyingTask(data.width)
        replace_file(folder / SETTINGS, json.dumps(task.save(folder)))
        finish(folder, [])
    return opened(CopyingTask.load(folder, settings_of(folder)), folder)
