"""Where a run stands, everything about it that is not a tensor, and its log: one line per event, none twice."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.files import writing_errors
from regard.structure import finite, from_mapping
from regard.tasks.task import LossSum
from regard.training.workers import whole

Tally = tuple[float, int, int]
"""A sum of losses, over how many labels it is, and how many of them were right."""


@dataclass(kw_only=True, slots=True)
class Progress:
    """The counters of a run. Restoring them, the parameters and the optimiser's state continues the run bit for bit.

    Arguments:
        step: updates made.
        epoch, window: the next update's place: which pass over the data, which group of batches in it.
        tokens: target tokens learnt from.
        seconds: spent training, over all sittings.
        loss_sum, loss_tokens, correct: since the last line of the log.
        beside: the same three of each further loss, by name.
        best_value, best_step: the best evaluation so far; the value is None before the first.
        best_loss: the validation loss of that evaluation, which decides between equal values.
        worse: evaluations since the best.
        log_bytes: length of log.jsonl; what a killed process wrote beyond is cut off on resuming.
        finished: why the run ended; empty while it has not.
    """

    step: int = 0
    epoch: int = 0
    window: int = 0
    tokens: int = 0
    seconds: float = 0.0
    loss_sum: float = 0.0
    loss_tokens: int = 0
    correct: int = 0
    beside: dict[str, Tally] = field(default_factory=dict)
    best_value: float | None = None
    best_step: int = 0
    best_loss: float | None = None
    worse: int = 0
    log_bytes: int = 0
    finished: str = ""

    def count(self, loss: LossSum) -> None:
        """Add a batch's losses to the tallies."""
        self.loss_sum += whole(loss.total).item()
        self.loss_tokens += loss.tokens
        self.correct += int(loss.correct)
        for name, part in loss.beside.items():
            total, labels, right = self.beside.get(name, (0.0, 0, 0))
            self.beside[name] = (total + whole(part.total).item(), labels + part.tokens, right + int(part.correct))

    def tallies(self, names: Sequence[str]) -> list[Tally]:
        """The tally of the loss itself, then those of the further losses of these names."""
        own = (self.loss_sum, self.loss_tokens, self.correct)
        return [own, *(self.beside.get(name, (0.0, 0, 0)) for name in names)]

    def forget_tallies(self) -> None:
        """Begin to count anew for the next line of the log."""
        self.loss_sum, self.loss_tokens, self.correct, self.beside = 0.0, 0, 0, {}

    def to_mapping(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def of(cls, values: dict[str, Any], where: str) -> Progress:
        """From JSON values."""
        return from_mapping(cls, values, where)


class JsonLines:
    """log.jsonl: an append-only log that a resumed run first cuts back to where its checkpoint was made.

    Arguments:
        path: of the file.
        size: bytes to keep of what is there.

    Raises:
        InputError: for a place that cannot be written to, or one that is a link, a pipe or another thing than a file: what a
            link points to is not the run's to cut back.
    """

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise InputError(f"{path}: is no file of its own; remove it, or train into another folder")
        with writing_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.truncate(min(size, path.stat().st_size))

    def write(self, event: Mapping[str, Any]) -> None:
        """Append one line."""
        with writing_errors(self.path), self.path.open("ab") as file:
            file.write(json.dumps(finite(event), ensure_ascii=False, allow_nan=False).encode() + b"\n")

    def settled(self) -> int:
        """Force the file to disk and return its length in bytes, for the checkpoint to remember."""
        with writing_errors(self.path), self.path.open("ab") as file:
            os.fsync(file.fileno())
            return file.tell()
