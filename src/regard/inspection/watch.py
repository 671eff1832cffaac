"""The attention of a few validation examples as it forms: looked at in each evaluation of a training, a file for each step.

    watched/step-00000500.bin    deflated: what `regard.inspection.viewer.packed` makes of the view of that step

A model is looked at while it reads an example together with its right answer, as for the validation loss: the tokens are then the
same at every step, and one pass through the model is enough.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.files import clear_partial, replace_file
from regard.inspection.hooks.interception import attention_addresses
from regard.inspection.record import look
from regard.inspection.view import AttentionMap, AttentionView
from regard.inspection.viewer import packed
from regard.reading import LARGEST, read_bytes
from regard.tasks.predictor import Predictor
from regard.training.callbacks import Callback
from regard.training.checkpoint import Progress

FOLDER = "watched"
FILE = re.compile(r"step-(\d{8,})\.bin")
MOST_WEIGHTS = 2**19
"""Of all examples of one step: with two bytes each a file of 1 MiB before it is deflated."""

MOST_STEPS = 200
"""Files that are kept; of more, every second is removed."""

TRIED = 20
"""Validation examples among which those are sought that are short enough."""


class Watch(Callback):
    """Keeps what a model attends to on a few validation examples, at each evaluation, in the run's folder.

    Training is the same bit for bit with and without it.

    Arguments:
        examples: how many; the first of the validation data that are short enough.
        say: receives sentences for the user.

    Raises:
        InputError: for fewer than one example.

    >>> watch = Watch(2)  # regard.train("dates", output="runs/dates", callbacks=[watch])
    """

    def __init__(self, examples: int = 2, *, say: Callable[[str], None] = lambda sentence: None) -> None:
        if examples < 1:
            raise InputError(f"{examples} examples to watch; give 1 or more")
        self._count = examples
        self._say = say
        self._folder: Path | None = None
        self._validation: TokenStore | None = None
        self._rows: list[int] | None = None

    def opened(self, folder: Path, validation: TokenStore) -> None:
        """Learn where to write, and what to look at."""
        self._folder, self._validation = folder / FOLDER, validation

    def started(self, model: nn.Module, progress: Progress, total_steps: int | None) -> None:
        """Remove the steps that come after a resumed run's checkpoint, as its log is cut back."""
        if self._folder is None:
            return
        if self._folder.is_symlink() or (self._folder.exists() and not self._folder.is_dir()):
            raise InputError(f"{self._folder}: is no folder of its own; remove it, or train into another folder")
        if self._folder.is_dir():
            clear_partial(self._folder)
        for step in watched_steps(self._folder.parent):
            if step > progress.step:
                _place(self._folder.parent, step).unlink(missing_ok=True)
        if not attention_addresses(model):
            self._say("there is no attention in this model to watch.")
            self._rows = []

    def evaluated(self, predictor: Predictor[Any], metrics: Mapping[str, float], progress: Progress) -> None:
        """Look, and write what was seen."""
        if self._folder is None or self._validation is None or self._rows == []:
            return
        if self._rows is None:
            self._rows = self._chosen(predictor)
            if not self._rows:
                return
        view = watched(predictor, self._validation, self._rows)
        body = zlib.compress(packed(view, {"step": progress.step}), 1)
        run = self._folder.parent
        replace_file(_place(run, progress.step), body)
        steps = watched_steps(run)
        for step in steps[1:-1:2] if len(steps) > MOST_STEPS else ():
            _place(run, step).unlink(missing_ok=True)

    def _chosen(self, predictor: Predictor[Any]) -> list[int]:
        """The first examples whose weights are few enough."""
        if self._validation is None:
            return []
        rows: list[int] = []
        for row in range(min(TRIED, len(self._validation))):
            try:
                view = watched(predictor, self._validation, [row])
            except InputError as error:  # what is watched is no reason to end a training
                self._say(f"the validation examples cannot be watched: {error}")
                return []
            if sum(item.weights.size for item in view.maps) <= MOST_WEIGHTS // self._count:
                rows.append(row)
            if len(rows) == self._count:
                return rows
        tried = min(TRIED, len(self._validation))
        self._say(
            f"{len(rows)} of {self._count} validation examples are watched: {tried} were tried, of which {tried - len(rows)} "
            f"have more than {MOST_WEIGHTS // self._count:,} weights."
        )
        return rows


def watched(predictor: Predictor[Any], data: TokenStore, rows: Sequence[int]) -> AttentionView:
    """What a model attends to while it reads these examples with their right answers, an example after the other.

    Arguments:
        predictor: the model.
        data: its task's examples, such as the validation data of a run.
        rows: which of them.
    """
    task, device = predictor.task, predictor.device
    maps: list[AttentionMap] = []
    examples: list[str] = []
    images: list[bytes | None] = []
    notes: dict[str, None] = {}
    for row in rows:  # one by one: nothing is padded, and an example of several texts has several
        with torch.no_grad(), look(predictor) as record:
            task.loss(predictor.model, task.read_batch(data, [row]).to(device))
        for run in range(len(record.runs)):
            if not record.runs[run].calls:
                continue
            view = record.view(run=run)
            maps += [replace(item, example=item.example + len(examples)) for item in view.maps]
            labels = [_labelled(label, row, number) for number, label in enumerate(view.examples)]
            examples += labels
            images += view.images or [None] * len(labels)
            notes[view.note] = None
    return AttentionView(
        title=examples[0] if examples else "",
        maps=tuple(maps),
        note=" ".join(filter(None, notes)),
        examples=tuple(examples),
        images=tuple(images) if any(images) else (),
    )


def _labelled(label: str, row: int, number: int) -> str:
    """A label that distinguishes examples, where a record knows no text of what was read."""
    plain = re.fullmatch(r"(example|image) \d+", label)
    return f"{plain[1]} {row + 1}" + (f", part {number + 1}" if number else "") if plain else label


def watched_steps(run: Path) -> list[int]:
    """The steps of a run at which it was watched, in their order.

    Arguments:
        run: its folder.
    """
    folder = run / FOLDER
    if not folder.is_dir():
        return []
    return sorted(int(found[1]) for path in folder.iterdir() if (found := FILE.fullmatch(path.name)))


def watched_at(run: Path, step: int) -> bytes:
    """What was seen at a step: what `regard.inspection.viewer.packed` gave.

    Raises:
        InputError: where that step was not watched, or is kept no longer; for a damaged file.
    """
    path = _place(run, step)
    if not path.is_file():
        raise InputError(f"{path}: no such file; step {step:,} was not watched, or is kept no longer")
    try:
        unpacker = zlib.decompressobj()
        seen = unpacker.decompress(read_bytes(path, "choose another step"), LARGEST)
    except zlib.error as error:
        raise InputError(f"{path}: is damaged ({error}); choose another step") from error
    if not unpacker.eof:
        fault = f"unpacks to more than {LARGEST >> 20} MiB" if unpacker.unconsumed_tail else "is cut short"
        raise InputError(f"{path}: {fault}; choose another step")
    return seen


def _place(run: Path, step: int) -> Path:
    return run / FOLDER / f"step-{step:08d}.bin"
