"""Data turned into token ids, in a folder of the run: made once, and taken as it is by a run that goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.files import replace_file
from regard.tasks.task import Task

READY = "ready"
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


def opened(task: T, folder: Path) -> Prepared[T]:
    """What a finished preparation left in `folder`.

    Raises:
        InputError: for files that are damaged.
    """
    try:
        lines = (folder / READY).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{folder / READY}: cannot be read ({error}); train again in a new folder") from error
    notes = tuple(line for line in lines if line)
    return Prepared(task, TokenStore.open(folder / TRAIN), TokenStore.open(folder / VALIDATION), notes)
