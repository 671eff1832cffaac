"""What was seen inside a model: weights by address, and pictures of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard.attention import AttentionLayer
from regard.attention.layer import Side
from regard.errors import InputError, nearest
from regard.generation import Hypothesis
from regard.inspection.calls import Call
from regard.inspection.labels import Labels
from regard.inspection.recorder import Recorder, Run
from regard.inspection.view import AttentionMap, AttentionView

if TYPE_CHECKING:
    from regard.tasks import TranslationTask

Index = int | slice | Sequence[int] | Tensor


class Record:
    """What `regard.look` saw. Weights are exact, before dropout, and computed when read.

    Arguments:
        recorder: what kept it.
        task: turns token ids into strings for labels; ids are shown where None.
    """

    def __init__(self, recorder: Recorder, task: TranslationTask | None = None) -> None:
        self.recorder = recorder
        self.task = task

    @property
    def addresses(self) -> list[str]:
        """The attention layers that were looked at."""
        return list(self.recorder.layers)

    @property
    def runs(self) -> list[Run]:
        """The forward passes and searches that were seen, in order."""
        return self.recorder.runs

    def weights(
        self,
        address: str,
        *,
        rows: Index | None = None,
        heads: Index | None = None,
        queries: Index | None = None,
        run: int = -1,
        hypothesis: int = 0,
    ) -> Tensor:
        """The attention weights of one layer in one run.

        A forward pass that called the layer once per step (a recurrent decoder) and a search give one map all the same, a
        row for each step. In a search, row b is the `hypothesis`-th best answer to source b, followed back through every
        step to the beam it then stood in; steps after its end are zero, and so are keys that a growing cache did not yet have.

        Arguments:
            address: such as `decoder.layers.0.cross_attention`; see `addresses`.
            rows: which batch rows; all where None.
            heads: which heads; all where None.
            queries: which query positions; all where None.
            run: which of `runs`; the last by default.
            hypothesis: in a search, which answer of each n-best list.

        Returns:
            (rows, heads, queries, keys) float32.

        Raises:
            InputError: for an unknown address, a run that did not call it, or parameters that changed since.
        """
        seen = self._run(run)
        calls = self._calls(seen, address)
        chosen = None if heads is None else _indices(heads, calls[0].shape[1])
        queries_from, keys_from = self._between(address)
        if seen.searched and queries_from == "target":
            weights = _followed(seen, calls, rows, chosen, hypothesis, growing=keys_from == "target")
        else:
            picked = None if rows is None else _indices(rows, calls[0].shape[0])
            parts = [call.read(picked, chosen) for call in calls]
            weights = parts[0] if len(parts) == 1 else torch.cat(_widened(parts), dim=2)
        return weights if queries is None else weights[:, :, _indices(queries, weights.shape[2])]

    def view(
        self,
        row: int | None = None,
        *,
        run: int = -1,
        hypothesis: int = 0,
        addresses: Sequence[str] | None = None,
    ) -> AttentionView:
        """The maps of all layers for one batch row, or for every row, with tokens as labels and padding left out.

        Arguments:
            row: which batch row; all of them, as examples to choose from, where None.
            run: which of `runs`.
            hypothesis: in a search, which answer of the n-best list.
            addresses: which layers; all where None.

        Raises:
            InputError: for a row, run, hypothesis or address that is not there.
        """
        seen = self._run(run)
        size = self._rows(seen)
        rows = range(size) if row is None else _indices(row, size).tolist()
        maps: list[AttentionMap] = []
        titles: list[str] = []
        for number, index in enumerate(rows):
            if seen.hypotheses is not None:
                _check_hypothesis(seen.hypotheses, index, hypothesis)
            labels = Labels.of(seen, index, hypothesis, self.task)
            titles.append(labels.title)
            for address in self.addresses if addresses is None else addresses:
                if addresses is not None or address in seen.calls:
                    maps.append(self._map(address, index, run, hypothesis, labels, number))
        if not maps:
            raise InputError(
                "nothing was recorded; use the model inside the block: with regard.look(model) as seen: ..."
            )
        return AttentionView(title=titles[0], maps=tuple(maps), examples=tuple(titles))

    def show(self, path: str | os.PathLike[str] | None = None, *, row: int | None = 0, run: int = -1) -> None:
        """Show the maps: on the terminal, or in a file of the kind its suffix says.

        Arguments:
            path: `.html` for one self-contained page with all layers and heads, `.png` or `.svg` for a plot (needs
                matplotlib), `.json` for the numbers; None prints heatmaps.
            row: which batch row; None for all.
            run: which of `runs`.

        Raises:
            InputError: for another suffix, or a place that cannot be written to.
        """
        view = self.view(row, run=run)
        if path is None:
            from rich.console import Console

            from regard.inspection.terminal import render

            Console().print(render(view))
        elif Path(path).suffix.lower() in (".html", ".htm"):
            from regard.inspection.page import save_page

            save_page(view, path)
        else:
            from regard.inspection.plots import save_plot

            save_plot(view, path)

    def _repr_html_(self) -> str:
        """The page, in a frame of its own, for notebooks."""
        from regard.inspection.page import html_fragment

        return html_fragment(self.view())

    def _run(self, run: int) -> Run:
        if not self.runs:
            raise InputError(
                "nothing was recorded; use the model inside the block: with regard.look(model) as seen: ..."
            )
        try:
            return self.runs[run]
        except IndexError as error:
            raise InputError(f"run {run} of {len(self.runs)} recorded; count from 0, or from -1 backwards") from error

    def _calls(self, seen: Run, address: str) -> list[Call]:
        if address not in self.recorder.layers:
            raise InputError(f"no layer {address!r} was looked at; {nearest(address, self.addresses)}")
        if address not in seen.calls:
            raise InputError(f"{address} was not called in this run")
        return seen.calls[address]

    def _rows(self, seen: Run) -> int:
        if seen.source is not None:
            return len(seen.source)
        return next(iter(seen.calls.values()))[0].shape[0] if seen.calls else 0

    def _map(self, address: str, row: int, run: int, hypothesis: int, labels: Labels, example: int) -> AttentionMap:
        weights = self.weights(address, rows=[row], run=run, hypothesis=hypothesis)[0]
        queries_from, keys_from = self._between(address)
        queries = labels.queries(queries_from, keys_from, weights.shape[1])
        keys = labels.keys(keys_from, weights.shape[2])
        places = [place for place, _ in queries], [place for place, _ in keys]
        return AttentionMap(
            address=address,
            kind="self" if queries_from == keys_from else "cross",
            query_tokens=tuple(text for _, text in queries),
            key_tokens=tuple(text for _, text in keys),
            weights=weights[:, places[0]][:, :, places[1]].cpu().numpy(),
            example=example,
        )

    def _between(self, address: str) -> tuple[Side, Side]:
        layer = self.recorder.module.get_submodule(address)
        return layer.between if isinstance(layer, AttentionLayer) else ("source", "source")


def _followed(
    seen: Run, calls: Sequence[Call], rows: Index | None, heads: Tensor | None, hypothesis: int, *, growing: bool
) -> Tensor:
    """One map per source row of a search: at every step the row in which the hypothesis then stood.

    Arguments:
        growing: whether the keys are what was written so far. Those of all hypotheses about a source may stand side by side.
    """
    answers = seen.hypotheses or []
    sources = list(range(len(answers))) if rows is None else _indices(rows, len(answers)).tolist()
    for source in sources:
        _check_hypothesis(answers, source, hypothesis)
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


def _check_hypothesis(answers: Sequence[Sequence[Hypothesis]], row: int, hypothesis: int) -> None:
    if not 0 <= hypothesis < len(answers[row]):
        raise InputError(
            f"hypothesis {hypothesis} of {len(answers[row])} found for row {row}; search with a larger n_best"
        )


def _widened(parts: Sequence[Tensor]) -> list[Tensor]:
    """Parts of a map side by side, keys that came later filled with zeros in the earlier ones."""
    widest = max(part.shape[3] for part in parts)
    return [torch.nn.functional.pad(part, (0, widest - part.shape[3])) for part in parts]


def _indices(index: Index, size: int) -> Tensor:
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
