"""Data turned into token ids, in a folder of the run: made once, and taken as it is by a run that goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from regard.data.token_store import TokenStore
from regard.files import replace_file
from regard.reading import read_json_object, read_text
from regard.tasks.task import Task

READY = "ready"
SETTINGS = "task.json"
TRAIN, VALIDATION = "train", "validation"
"""Where in the folder the token stores are."""

T = TypeVar("T", bound=Task)


@dataclass(frozen=True, slots=True, eq=False)
class Prepared(Generic[T]):
    """What training starts from.

    Arguments:
        task: tokenizers and settings.
        train, validation: the examples as token ids.
        notes: sentences for the user about what was found in the data.
    """

    task: T
    train: TokenStore
    validation: TokenStore
    notes: tuple[str, ...]


def is_prepared(folder: Path) -> bool:
    """Whether the preparation in `folder` has come to its end."""
    return (folder / READY).is_file()


def finish(folder: Path, notes: Sequence[str]) -> None:
    """Say that the preparation in `folder` has come to its end."""
    replace_file(folder / READY, "\n".join(notes))


def settings_of(folder: Path) -> dict[str, Any]:
    """What a finished preparation in `folder` wrote of its task.

    Raises:
        InputError: for a file that is missing or damaged.
    """
    return read_json_object(folder / SETTINGS, "train again in a new folder")


def opened(task: T, folder: Path) -> Prepared[T]:
    """What a finished preparation left in `folder`.

    Raises:
        InputError: for files that are damaged.
    """
    lines = read_text(folder / READY, "train again in a new folder").splitlines()
    notes = tuple(line for line in lines if line)
    return Prepared(task, TokenStore.open(folder / TRAIN), TokenStore.open(folder / VALIDATION), notes)
