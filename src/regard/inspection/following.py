"""The map of one answer of a search, put together from the rows in which it stood at every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard.errors import InputError
from regard.generation import Hypothesis
from regard.inspection.calls import Call

if TYPE_CHECKING:
    from regard.inspection.run import Run

Index = int | slice | Sequence[int] | Tensor


def followed(
    seen: Run, calls: Sequence[Call], rows: Index | None, heads: Tensor | None, hypothesis: int, *, growing: bool
) -> Tensor:
    """One map per source row of a search: at every step the row in which the hypothesis then stood.

    Arguments:
        growing: whether the keys are what was written so far. Those of all hypotheses about a source may stand side by side.
    """
    answers = seen.hypotheses or []
    sources = list(range(len(answers))) if rows is None else indices(rows, len(answers)).tolist()
    for source in sources:
        check_hypothesis(answers, source, hypothesis)
    paths = [answers[source][hypothesis].rows for source in sources]
    steps = max((len(path) for path in paths), default=0)
    count = calls[0].shape[1] if heads is None else len(heads)
    longest = len(calls) if growing else max((call.shape[3] for call in calls), default=0)
    weights = torch.zeros(len(sources), count, steps, longest)
    for step in range(steps):
        present = [place for place, path in enumerate(paths) if step < len(path)]
        # Hypotheses about one source may have been so many queries of one batch row.
        rows_then = torch.tensor([paths[place][step] for place in present])
        width = calls[step].shape[2]
        part = calls[step].read(rows_then // width, heads)
        found = part[torch.arange(len(present)), :, rows_then % width].cpu()
        places = calls[step].places
        if growing and places is not None:
            # Of the keys at one place a hypothesis sees one; the weights of the others are zero.
            own = places.cpu()[rows_then // width].unsqueeze(1).expand_as(found)
            found = torch.zeros(*found.shape[:2], step + 1).scatter_add_(2, own, found)
        weights[present, :, step, : found.shape[2]] = found
    return weights


def check_hypothesis(answers: Sequence[Sequence[Hypothesis]], row: int, hypothesis: int) -> None:
    """Make sure that a search found so many answers.

    Raises:
        InputError: where it did not.
    """
    if not 0 <= hypothesis < len(answers[row]):
        raise InputError(
            f"hypothesis {hypothesis} of {len(answers[row])} found for row {row}; search with a larger n_best"
        )


def indices(index: Index, size: int) -> Tensor:
    """An index of any kind as a list of places, counted from 0.

    Raises:
        InputError: for a place outside.
    """
    if isinstance(index, slice):
        return torch.arange(size)[index]
    places = torch.as_tensor([index] if isinstance(index, int) else index, dtype=torch.long).reshape(-1)
    if len(places) and not -size <= int(places.min()) <= int(places.max()) < size:
        raise InputError(f"index {places.tolist()} is outside 0 to {size - 1}")
    return places % max(size, 1)
