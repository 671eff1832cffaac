"""A bar on the terminal that counts texts while a model answers them."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from regard.cli.console import on_terminal

if TYPE_CHECKING:
    from rich.progress import Progress

    from regard.tasks.predictor import Predictor


@contextlib.contextmanager
def text_bar(model: Predictor[Any], total: int | None, *, shown: bool = True) -> Iterator[None]:
    """Inside the block, show on standard error how many texts the model has answered; only where that is a terminal.

    Arguments:
        model: is watched from outside, and does nothing else than before.
        total: of texts; None where it is not known yet.
        shown: no bar where False, because the texts themselves are written to the terminal.
    """
    if not shown or not on_terminal(sys.stderr):
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("texts  {task.fields[speed]}"),
        *([] if total is None else [TimeRemainingColumn(compact=True), TextColumn("left")]),
        console=Console(stderr=True),
        auto_refresh=False,
        redirect_stdout=False,  # what is written there is for whoever reads it, not for the terminal
        expand=True,
    )
    bar.add_task("texts", total=total, speed="")
    with bar, model.observing(_Counter(bar)):
        yield


class _Counter:
    """Moves the bar with every batch of predictions."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._started = time.monotonic()
        self._done = 0

    def search_started(self, source: Any) -> None:
        """Nothing is done yet."""

    def search_finished(self, hypotheses: list[list[Any]]) -> None:
        """What was found becomes predictions at once."""

    def read(self, tokens: Any) -> None:
        """What was read is not counted."""

    def predicted(self, predictions: Sequence[Any], hypotheses: list[list[Any]]) -> None:
        """So many texts more."""
        self._done += len(predictions)
        speed = f"{self._done / max(1e-9, time.monotonic() - self._started):,.1f} texts/s"
        self._bar.update(self._bar.task_ids[0], completed=self._done, speed=speed)
        self._bar.refresh()
