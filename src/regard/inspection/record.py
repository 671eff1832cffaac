"""`regard.look`: record the attention of a model while it runs. The record gives weights by address, and figures of them."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard.errors import InputError, nearest
from regard.inspection.calls import Call
from regard.inspection.marks import Marks, marks_of
from regard.inspection.patches import Patches, shown
from regard.inspection.recorder import Recorder
from regard.inspection.runs import Index, Joined, Labels, Run, check_hypothesis, followed, indices
from regard.inspection.view import AttentionMap, AttentionView
from regard.inspection.words import word_numbers
from regard.layers import Images
from regard.tasks.predictor import Predictor

if TYPE_CHECKING:
    from regard.inspection.widget import AttentionWidget
    from regard.tasks.task import Task


def save_view(view: AttentionView, path: str | os.PathLike[str]) -> None:
    """Write a view to a file; the suffix decides its format: `.html`, `.png`, `.svg` or `.json`.

    Raises:
        InputError: for another suffix, or a path that cannot be written.
    """
    if Path(path).suffix.lower() in (".html", ".htm"):
        from regard.inspection.viewer import save_page

        save_page(view, path)
    else:
        from regard.inspection.plots import save_plot

        save_plot(view, path)


class Record:
    """The recording of `regard.look`. Weights are exact, before dropout, and computed when they are read.

    Arguments:
        recorder: the recorder that stores it.
        task: turns token ids into strings for labels; None = ids are shown.
        runs: the runs in this record; None = all that the recorder stored.
    """

    def __init__(self, recorder: Recorder, task: Task | None = None, runs: list[Run] | None = None) -> None:
        self.recorder = recorder
        self.task = task
        self._runs = runs

    def __repr__(self) -> str:
        runs = len(self.runs)
        return f"Record({runs} {'run' if runs == 1 else 'runs'} of {', '.join(self.addresses) or 'no attention'})"

    @property
    def addresses(self) -> list[str]:
        """The addresses of the recorded attention layers; those of other libraries' modules appear after their first call.

        A module that computes attention at several lines of its code has an address for each, `name` and `name:2`. A module that
        is called again in the same forward pass, with parameters shared between layers, has `name@2`.
        """
        return self.recorder.addresses

    @property
    def runs(self) -> list[Run]:
        """The recorded forward passes and searches, in order."""
        return self.recorder.runs if self._runs is None else self._runs

    def joined(self, runs: slice = slice(None), *, rows: Tensor | Sequence[Sequence[int]] | None = None) -> Record:
        """The same record with several runs joined to one map, for a generation with another library's model.

        Each forward pass of such a generation is a run: the first over the prompt, then one for each generated token. Joined they
        are one map with a row for each token that was read. The positions of keys are found in the cache, which holds the keys of
        the previous pass; a sliding cache drops the oldest ones. In a beam search rows are reordered, as given by `rows`.

        Arguments:
            runs: the runs to join, in order.
            rows: (answers, passes), the batch row of each answer in each pass, -1 after its end: the `beam_indices` that
                `generate` of `transformers` returns with `return_dict_in_generate=True, output_scores=True`. Hidden states are
                then left out.

        Raises:
            InputError: if a run is a search of this package, which already is one map, or there are no runs; if rows were
            reordered
                and `rows` is not given; if it cannot be determined which keys a cache kept.
        """
        chosen = self.runs[runs]
        if not chosen or any(run.searched or run.source is not None for run in chosen):
            raise InputError(
                "joined takes passes of another library's model, at least one; a search of ours is one map already"
            )
        together = Run()
        for run in chosen:
            for address, calls in run.calls.items():
                together.calls.setdefault(address, []).extend(calls)
            for address, outputs in run.hidden.items() if rows is None else ():
                together.hidden.setdefault(address, []).extend(outputs)
        given = None if rows is None else torch.as_tensor(rows).cpu()
        together.joined = Joined.of(together.calls, given)
        return Record(self.recorder, self.task, [together])

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

        A search, or a forward pass that called the layer once per step (a recurrent decoder), also gives one map with a row for
        each step. In a search, row b is the `hypothesis`-th best answer to source b, with the weights of the beam row in which it
        was at each step. Steps after its end are zero, and so are keys that a growing cache did not yet have.

        Arguments:
            address: such as `decoder.layers.0.cross_attention`; see `addresses`.
            rows: batch rows; None = all.
            heads: None = all.
            queries: query positions; None = all.
            run: an index into `runs`; by default the last.
            hypothesis: in a search, the index in each n-best list.

        Returns:
            (rows, heads, queries, keys) float32.

        Raises:
            InputError: for an unknown address, a run that did not call it, or parameters that have changed since.
        """
        seen = self._run(run)
        calls = self._calls(seen, address)
        chosen = None if heads is None else indices(heads, calls[0].shape[1])
        queries_from, keys_from = calls[0].between
        if seen.joined is not None:
            weights = seen.joined.weights(address, calls, rows, chosen)
        elif seen.searched and queries_from == "target":
            weights = followed(seen, calls, rows, chosen, hypothesis, growing=keys_from == "target")
        else:
            picked = None if rows is None else indices(rows, calls[0].shape[0])
            parts = [call.read(picked, chosen) for call in calls]
            weights = parts[0] if len(parts) == 1 else torch.cat(_widened(parts), dim=2)
        return weights if queries is None else weights[:, :, indices(queries, weights.shape[2])]

    def note(self, address: str, *, run: int = -1) -> str | None:
        """A description of the axes of one layer's weights in one run, if rows are not queries or columns not keys.

        Modules with sparse attention compute parts of the map: blocks of queries and keys, bands around the diagonal, or steps
        through a few positions. These parts are recorded, and this describes them.

        Returns:
            A sentence; None if the weights are the map of all queries and keys.

        Raises:
            InputError: as `weights`.
        """
        seen = self._run(run)
        call = self._calls(seen, address)[0]
        if call.called.note is not None:
            return call.called.note
        module = _module_of(address)
        parts = [name for name in seen.calls if _module_of(name) == module]
        if any(seen.calls[name][0].called.note is not None for name in parts if name != address):
            return f"one of {len(parts)} parts that {module} computes: {call.shape[2]} queries, {call.shape[3]} keys"
        return None

    def attentions(self, *patterns: str, run: int = -1) -> tuple[Tensor, ...]:
        """The weights of every layer, as `transformers` gives them with `output_attentions=True` and as BertViz takes them.

        For an encoder-decoder there are usually three tuples: `attentions("encoder.*")`, `attentions("decoder.*.self_attn")` and
        `attentions("decoder.*.encoder_attn")`, with the layer names of that model.

        Arguments:
            patterns: addresses, with `*`; by default all that were called in the run.
            run: an index into `runs`.

        Returns:
            For each layer, in the order of the calls, (batch, heads, queries, keys) float32.

        Raises:
            InputError: if no called layer matches.
        """
        called = list(self._run(run).calls)
        chosen = [name for name in called if not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)]
        if not chosen:
            raise InputError(f"nothing to show of {' and '.join(patterns) or 'this run'}: {self._of_these(called)}")
        return tuple(self.weights(address, run=run) for address in chosen)

    def queries(self, address: str, *, rows: Index | None = None, heads: Index | None = None, run: int = -1) -> Tensor:
        """The projected queries of one layer in one run, (rows, heads, queries, E), in the dtype of the model.

        Raises:
            InputError: as `weights`, and if only weights were recorded, as for a search or a growing cache.
        """
        parts = [
            self._of_rows(call.queries_and_keys()[0], rows, heads) for call in self._calls(self._run(run), address)
        ]
        return torch.cat(parts, dim=2)

    def keys(self, address: str, *, rows: Index | None = None, heads: Index | None = None, run: int = -1) -> Tensor:
        """The projected keys of one layer at the end of one run, (rows, key heads, keys, E).

        Raises:
            InputError: as `queries`.
        """
        return self._of_rows(self._calls(self._run(run), address)[-1].queries_and_keys()[1], rows, heads)

    def value_norms(
        self, address: str, *, rows: Index | None = None, heads: Index | None = None, run: int = -1
    ) -> Tensor:
        """The Euclidean norms of the values of one layer at the end of one run, (rows, key heads, keys) float32.

        A large weight on a value of nearly zero length has almost no effect (Kobayashi et al. 2020).

        Raises:
            InputError: as `weights`, and if `look` was called without `values=True`.
        """
        return self._of_rows(self._calls(self._run(run), address)[-1].value_norms(), rows, heads)

    def head_outputs(self, address: str, *, run: int = -1) -> Tensor:
        """The output of every head of one layer in one run, before the output projection: the weighted sum of its values.

        Returns:
            (B, H, L, Ev), computed as a matrix product in the dtype of the values.

        Raises:
            InputError: as `weights`, and if `look` was called without `values=True`.
        """
        parts = [call.head_outputs() for call in self._calls(self._run(run), address)]
        return torch.cat(parts, dim=2)

    def hidden(self, address: str, *, run: int = -1) -> Tensor:
        """The output of a module in one run, as the model computed it; several calls are concatenated along axis 1.

        Raises:
            InputError: for a module whose output was not recorded, or has been changed in place since.
        """
        seen = self._run(run)
        if address not in seen.hidden:
            known = list(seen.hidden)
            hint = nearest(address, known) if known else "name modules to look at with hidden=[...]"
            raise InputError(f"the output of {address!r} was not kept in this run; {hint}")
        parts = [kept.read(f"{address}: the output") for kept in seen.hidden[address]]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def view(
        self,
        row: int | None = None,
        *,
        run: int = -1,
        hypothesis: int = 0,
        addresses: Sequence[str] | None = None,
        tokens: Sequence[str] | None = None,
        target_tokens: Sequence[str] | None = None,
        image: Any = None,
        patches: Patches | None = None,
    ) -> AttentionView:
        """The maps of all layers for one batch row, or for every row, with tokens as labels and padding left out.

        Arguments:
            row: a batch row; None = all rows, as examples to choose from.
            run: an index into `runs`.
            hypothesis: in a search, the index in the n-best list.
            addresses: of layers; None = all.
            tokens: the source tokens of one row, with padding, if there is no task: for a bare model or a module of another
                library. None = ids or numbers.
            target_tokens: the tokens that its decoder read, if it has one.
            image: the image that the model read, PNG bytes or a uint8 array (Y, X, 3), under the weights. The image of a
                captioner or an image classifier of this package is recorded, and need not be given.
            patches: the positions that are patches of this image.

        Raises:
            InputError: for a row, run, hypothesis or address that does not exist, tokens or an image without a single row, or
                patches that do not fit.
        """
        given = any(one is not None for one in (tokens, target_tokens, image))
        if row is None and given and self._rows(self._run(run)) > 1:
            raise InputError("tokens and an image are those of one batch row; say which with row=")
        if (image is None) != (patches is None):
            raise InputError("image and patches belong together; give both, or neither")
        seen = self._run(run)
        if not seen.calls:
            raise InputError(f"nothing to show of this run: {self._of_these([])}")
        size = self._rows(seen)
        rows = range(size) if row is None else indices(row, size).tolist()
        maps: list[AttentionMap] = []
        titles: list[str] = []
        images: list[Any] = [] if image is None else [image]
        for number, index in enumerate(rows):
            if seen.hypotheses is not None:
                check_hypothesis(seen.hypotheses, index, hypothesis)
            labels = Labels.of(seen, index, hypothesis, self.task, tokens, target_tokens)
            titles.append(labels.title)
            if isinstance(seen.source, Images) and seen.grid is not None and image is None:
                pixels, patches = shown(seen.source, index, seen.grid, seen.leading)
                images.append(pixels)
            for address in self.addresses if addresses is None else addresses:
                if addresses is not None or address in seen.calls:
                    maps.append(self._map(address, index, run, hypothesis, labels, number, patches))
        if not maps:
            raise InputError(f"nothing to show of this run: {self._of_these([])}")
        layers = dict.fromkeys(one.address for one in maps)
        notes = [f"{address}: {note}." for address in layers if (note := self.note(address, run=run)) is not None]
        notes += {f"{one.address}: {one.marks.note}.": None for one in maps if one.marks is not None and one.marks.note}
        return AttentionView(
            title=titles[0], maps=tuple(maps), note=" ".join(notes), examples=tuple(titles), images=tuple(images)
        )

    def show(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        row: int | None = 0,
        run: int = -1,
        tokens: Sequence[str] | None = None,
        target_tokens: Sequence[str] | None = None,
        image: Any = None,
        patches: Patches | None = None,
    ) -> None:
        """Show the maps on the terminal, or write them to a file, whose suffix decides the format.

        Arguments:
            path: `.html` for one self-contained page with all layers and heads, `.png` or `.svg` for a plot (needs
                matplotlib), `.json` for the numbers; None prints heatmaps on the terminal.
            row: a batch row; None = all.
            run: an index into `runs`.
            tokens, target_tokens, image, patches: of that row, as `view` takes them.

        Raises:
            InputError: for another suffix, or a path that cannot be written.
        """
        view = self.view(row, run=run, tokens=tokens, target_tokens=target_tokens, image=image, patches=patches)
        if path is not None:
            save_view(view, path)
        else:
            from rich.console import Console

            from regard.inspection.terminal import render

            Console().print(render(view))

    def widget(self, **settings: Any) -> AttentionWidget:
        """The page as a live widget in a notebook: Python can read and set the displayed cell (`AttentionWidget`).

        Arguments:
            settings: as `view` takes them, and `height` of the frame in CSS pixels.

        Raises:
            InputError: as `view`, and if anywidget is not installed.
        """
        try:
            from regard.inspection.widget import AttentionWidget
        except ModuleNotFoundError as error:
            raise InputError(
                f"a live widget needs {error.name}, which is not installed: pip install 'regard[notebook]'; without it "
                "a record shows itself as a page that Python cannot steer"
            ) from error
        height = settings.pop("height", 680)
        return AttentionWidget(self.view(**settings), height=height)

    def _repr_html_(self) -> str:
        """The page in a frame, for notebooks."""
        from regard.inspection.viewer import html_fragment

        return html_fragment(self.view())

    def _ipython_display_(self) -> None:
        """For notebooks of Jupyter and VS Code: the widget if anywidget is installed, else `_repr_html_`."""
        if importlib.util.find_spec("anywidget") is None:
            raise NotImplementedError  # which IPython takes as: show what the other methods give
        self.widget()._ipython_display_()

    def _display_(self) -> Any:
        """For notebooks of marimo: the same."""
        if importlib.util.find_spec("anywidget"):
            return self.widget()
        return SimpleNamespace(_repr_html_=self._repr_html_)  # marimo would ask this record for `_display_` again

    def _run(self, run: int) -> Run:
        if not self.runs:
            raise InputError(
                "nothing was recorded; use the model inside the block: with regard.look(model) as seen: ..."
            )
        try:
            return self.runs[run]
        except IndexError as error:
            raise InputError(f"run {run} of {len(self.runs)} recorded; count from 0, or from -1 backwards") from error

    def _of_these(self, known: list[str], wrong: str = "") -> str:
        if known:
            return nearest(wrong, known) if wrong else f"choose from {', '.join(known)}"
        nothing = "no attention was called, neither a mechanism of this package nor an attention function of torch"
        if not self.recorder.lost:
            return (
                f"{nothing}, nor a softmax over places; what mixes places otherwise, or in a kernel of another library, has no "
                "weights that could be seen here"
            )
        name, shape = next(iter(self.recorder.lost.items()))
        return (
            f"{nothing}; a softmax of shape {shape} was computed, but it goes into torch's {name.strip('_')} before it is "
            "multiplied into anything, and is not followed through that; take the model's own output of weights, where it has one"
        )

    def _calls(self, seen: Run, address: str) -> list[Call]:
        if address not in self.addresses:
            raise InputError(f"no layer {address!r} was looked at: {self._of_these(self.addresses, address)}")
        if address not in seen.calls:
            raise InputError(f"{address} was not called in this run")
        return seen.calls[address]

    @staticmethod
    def _of_rows(tensor: Tensor, rows: Index | None, heads: Index | None) -> Tensor:
        tensor = tensor if rows is None else tensor[indices(rows, tensor.shape[0])]
        return tensor if heads is None else tensor[:, indices(heads, tensor.shape[1])]

    def _rows(self, seen: Run) -> int:
        if seen.source is not None:
            return len(seen.source)
        if seen.joined is not None:
            return seen.joined.size
        return next(iter(seen.calls.values()))[0].shape[0] if seen.calls else 0

    def _map(
        self,
        address: str,
        row: int,
        run: int,
        hypothesis: int,
        labels: Labels,
        example: int,
        patches: Patches | None,
    ) -> AttentionMap:
        weights = self.weights(address, rows=[row], run=run, hypothesis=hypothesis)[0]
        between = self._calls(self._run(run), address)[0].between
        queries, keys = labels.axes(between, weights)
        places = [place for place, _ in queries], [place for place, _ in keys]
        query_tokens, key_tokens = tuple(text for _, text in queries), tuple(text for _, text in keys)
        return AttentionMap(
            address=address,
            kind="self" if between[0] == between[1] else "cross",
            query_tokens=query_tokens,
            key_tokens=key_tokens,
            weights=weights[:, places[0]][:, :, places[1]].cpu().numpy(),
            example=example,
            query_words=word_numbers(query_tokens),
            key_words=word_numbers(key_tokens),
            query_patches=patches if between[0] == "source" else None,
            key_patches=patches if between[1] == "source" else None,
            marks=self._marks(address, row, run, hypothesis, places),
        )

    def _marks(
        self, address: str, row: int, run: int, hypothesis: int, places: tuple[Sequence[int], Sequence[int]]
    ) -> Marks | None:
        seen = self._run(run)
        calls = self._calls(seen, address)
        if seen.joined is not None or calls[0].called.note is not None:
            return None
        across = calls[0].between == ("target", "source")
        path = seen.hypotheses[row][hypothesis].rows if seen.hypotheses is not None and across else None
        if seen.hypotheses is not None and not across:
            return None
        return marks_of(calls, row, path, *places)


def _module_of(address: str) -> str:
    return address.split(":")[0].split("@")[0]


def _widened(parts: Sequence[Tensor]) -> list[Tensor]:
    """The rows of several parts of a map, joined; later keys are zero in earlier parts."""
    widest = max(part.shape[3] for part in parts)
    return [torch.nn.functional.pad(part, (0, widest - part.shape[3])) for part in parts]


@contextlib.contextmanager
def look(
    model: Predictor[Any] | nn.Module,
    addresses: Sequence[str] | None = None,
    *,
    keep: int | None = None,
    values: bool = False,
    hidden: Sequence[str] = (),
) -> Iterator[Record]:
    """Record the attention of a model inside a `with` block.

    The output of the model does not change, and it is at most a few percent slower: the queries and keys that the model computes
    anyway are stored, and weights are computed from them when they are read. This also works for modules of other libraries with
    their default kernels: for calls of `scaled_dot_product_attention` or flex attention, torch's multi-head attention, and
    modules that compute their weights explicitly.

    Arguments:
        model: a predictor from `regard.load`, or any torch module.
        addresses: of layers, as names or patterns such as `decoder.layers.*.cross_attention`; None = all.
        keep: the number of forward passes or searches to store, the latest ones; None = all. They stay in memory, so give a
            number to record a long training run.
        values: whether to store values too, for `Record.value_norms` and `Record.head_outputs`.
        hidden: modules whose outputs to store for `Record.hidden`, as names or patterns such as `encoder.layers.*`; `*` matches
            text without a dot: the layers, but not their parts.

    Yields:
        The record, which can be read inside the block or after it.

    Raises:
        InputError: for an address that no layer has, or a model of this package without attention.

    >>> from regard.models import Transformer, TransformerConfig
    >>> from regard.layers import Tokens
    >>> model = Transformer(TransformerConfig(source_vocabulary=9, target_vocabulary=9, width=8, heads=2, encoder_layers=1,
    ...                                       decoder_layers=1))
    >>> with look(model) as seen:
    ...     logits = model(Tokens.pad([[3, 4, 5]]), Tokens.pad([[1, 3]]))
    >>> seen.weights("decoder.layers.0.cross_attention").shape
    torch.Size([1, 2, 2, 3])
    """
    if isinstance(model, Predictor):
        recorder = Recorder(model.model, addresses, keep, values=values, hidden=hidden)
        with model.observing(recorder), recorder.recording():
            yield Record(recorder, model.task)
    elif isinstance(model, nn.Module):
        recorder = Recorder(model, addresses, keep, values=values, hidden=hidden)
        with recorder.recording():
            yield Record(recorder)
    else:
        raise InputError(f"a {type(model).__name__} cannot be looked at; give a loaded model or a torch module")
