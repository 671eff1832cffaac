"""From pictures with classes to stores that a classifier is trained on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from regard.data.labelled_pictures import LabelledPicture, read_labelled_pictures
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.files import replace_file
from regard.tasks.picture_classification.data import PictureData
from regard.tasks.picture_classification.examples import Given, listed, pixels_of
from regard.tasks.picture_classification.store import LABEL, MOST_CLASSES, PictureStore
from regard.tasks.picture_classification.task import PictureClassificationTask
from regard.tasks.pictures import PictureSize, frames_as_given, frames_file, write_frames
from regard.tasks.preparation import (
    READY,
    SETTINGS,
    TRAIN,
    VALIDATION,
    Prepared,
    cleared,
    finish,
    is_prepared,
    settings_of,
)

"""What preparation decided of the task, beside the stores."""

HELD_OUT = 0x1ABE
"""Sets the choice of held-out pictures apart from other draws of the same seed."""


def prepare(
    data: PictureData,
    folder: Path,
    *,
    seed: int,
    given: Given | None = None,
    given_validation: Given | None = None,
) -> Prepared[PictureClassificationTask]:
    """Read the pictures once, make them one size, and leave them in `folder`.

    Arguments:
        folder: where to put them; taken as they are if they are there already (a resumed run).
        seed: of the choice of pictures that are held out, and of those that are learnt from where `data.size` says how many.
        given, given_validation: pictures in memory instead of what `data` names.

    Raises:
        InputError: for pictures that cannot be read, or too few of them.
    """
    if not is_prepared(folder):
        train, validation = _split(data, seed, given, given_validation)
        cleared(folder)
        for split in (TRAIN, VALIDATION):
            frames_file(folder / split).unlink(missing_ok=True)
        task = _task(data, [*train, *validation])
        notes = []
        for name, examples in ((TRAIN, train), (VALIDATION, validation)):
            writing = _Writing(task, skips=data.on_error == "skip")
            writing.write(folder / name, examples)
            notes += writing.notes()
        replace_file(folder / SETTINGS, json.dumps(task.save(folder)))
        finish(folder, notes)
    task = PictureClassificationTask.load(folder, settings_of(folder))
    notes = [line for line in (folder / READY).read_text(encoding="utf-8").splitlines() if line]
    return Prepared(task, PictureStore.open(folder / TRAIN), PictureStore.open(folder / VALIDATION), tuple(notes))


def _split(
    data: PictureData, seed: int, given: Given | None, given_validation: Given | None
) -> tuple[list[LabelledPicture], list[LabelledPicture]]:
    """Examples to learn from and to validate on."""
    train = _read(data.place, data) if given is None else listed(given, "training pictures")
    generator = np.random.Generator(np.random.Philox(key=[seed, HELD_OUT]))
    order = generator.permutation(len(train)).tolist()
    if given_validation is not None:
        validation = listed(given_validation, "validation pictures")
    elif data.validation is not None and given is None:
        validation = _read(data.validation, data)
    else:
        held = min(data.validation_size, len(train) // 10)
        if held == 0:
            raise InputError(
                f"{len(train)} pictures are too few to hold some out for validation; give at least 10, or data.validation"
            )
        validation, order = [train[row] for row in sorted(order[:held])], order[held:]
    if data.size is not None and data.size > len(order):
        raise InputError(
            f"data.size is {data.size:,}, and there are {len(order):,} pictures to learn from; lower it, or leave it out"
        )
    return [train[row] for row in sorted(order[: data.size])], validation


def _read(place: str | None, data: PictureData) -> list[LabelledPicture]:
    return list(read_labelled_pictures(place, data.part, colour=data.colour))


def _task(data: PictureData, examples: Sequence[LabelledPicture]) -> PictureClassificationTask:
    classes = tuple(sorted({example.label for example in examples}))
    if len(classes) < 2:
        raise InputError(f"all pictures are of one class, {', '.join(classes)}; give pictures of two classes at least")
    height, width, channels = _shape_of(examples, colour=data.colour)
    size = PictureSize(height=data.height or height, width=data.width or width, channels=channels, fit=data.fit)
    return PictureClassificationTask(size=size, classes=classes, shift=data.shift, flip=data.flip)


def _shape_of(examples: Sequence[LabelledPicture], *, colour: bool) -> tuple[int, int, int]:
    """Height, width and channels of the first picture that can be read; the others become like it."""
    wrong = InputError("there are no pictures; give some")
    for number, example in enumerate(examples):
        try:
            height, width, channels = frames_as_given(example.picture, colour=colour)[0].shape
            return height, width, channels if colour else 1
        except InputError as error:
            wrong = wrong if number else error
    raise wrong


@dataclass(slots=True)
class _Writing:
    """Writes the pictures and classes of one split, and counts what it leaves out."""

    task: PictureClassificationTask
    skips: bool
    damaged: list[InputError] = field(default_factory=list)

    def write(self, place: Path, examples: Sequence[LabelledPicture]) -> None:
        size, labels = self.task.size, list[int]()

        def pictures() -> Iterator[np.ndarray]:
            for example in examples:
                try:
                    pixels = pixels_of(example, size)
                except InputError as error:
                    if not self.skips:
                        raise
                    self.damaged.append(error)
                    continue
                labels.append(self.task.number_of(example.label, example.name))
                yield pixels

        count = sum(1 for _ in write_frames(place, pictures(), (size.height, size.width, size.channels)))
        if count == 0:
            raise self.damaged[0] if self.damaged else InputError(f"there are no {place.name} pictures; give some")
        TokenStore.write(place, {LABEL: MOST_CLASSES}, ([[label]] for label in labels))

    def notes(self) -> Iterator[str]:
        """What the user ought to know."""
        if self.damaged:
            yield f"{len(self.damaged)} pictures could not be read and were left out; the first: {self.damaged[0]}"
