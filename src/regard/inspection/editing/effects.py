"""What changing one part after another does to a score: ablation and activation patching."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import torch
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from torch import nn

from regard.errors import InputError
from regard.inspection.editing.edits import Edit, MeanHeads, ScaleHeads, SetHeads, SetOutput, change
from regard.inspection.record import Record, look
from regard.inspection.view import AttentionView
from regard.rendering import Fitted
from regard.tasks.predictor import Predictor

By = Literal["head", "layer"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Effect:
    """What changing one part did.

    Arguments:
        address: of the attention layer or module.
        part: the head, or the position, that was changed; None where the whole was.
        score: with the change.
        effect: what the change is responsible for (see `Effects.about`).
    """

    address: str
    part: int | None
    score: float
    effect: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Effects:
    """The effect of every change, in the order of the model.

    Arguments:
        about: what an effect is, as a sentence.
        baseline: the score with nothing changed; in patching, that of the corrupted input.
        clean: in patching, the score of the clean input.
        parts: what the parts are, "head" or "position"; None where each row is a whole layer.
        rows: the effects.
    """

    about: str
    baseline: float
    rows: tuple[Effect, ...]
    parts: str | None = None
    clean: float | None = None

    def strongest(self, count: int | None = None) -> tuple[Effect, ...]:
        """The rows by the size of their effect, the largest first."""
        return tuple(sorted(self.rows, key=lambda row: -abs(row.effect))[:count])

    def view(self) -> AttentionView:
        """A figure: a row for each layer, a column for each part."""
        addresses = list(dict.fromkeys(row.address for row in self.rows))
        parts = sorted({-1 if row.part is None else row.part for row in self.rows})
        matrix = np.zeros((len(addresses), len(parts)), dtype=np.float32)
        for row in self.rows:
            part = -1 if row.part is None else row.part
            matrix[addresses.index(row.address), parts.index(part)] = row.effect
        columns = ["layer" if part < 0 else f"{self.parts} {part}" for part in parts]
        return AttentionView.of(matrix, addresses, columns, title=self.about, address="effect", kind="cross")

    def show(self, path: str | os.PathLike[str] | None = None, count: int | None = 20) -> None:
        """Print the strongest effects, or draw all of them into a `.html`, `.png`, `.svg` or `.json` file."""
        if path is not None:
            from regard.inspection.record import save_view

            save_view(self.view(), path)
        else:
            Console().print(Fitted(self.table(count)))

    def table(self, count: int | None = None) -> Table:
        """The strongest effects, as a table for `rich`."""
        table = Table(title=self.about, title_justify="left", caption=self._caption(), caption_justify="left")
        table.add_column("where")
        if self.parts is not None:
            table.add_column(self.parts, justify="right")
        table.add_column("score", justify="right")
        table.add_column("effect", justify="right")
        for row in self.strongest(count):
            part = [] if self.parts is None else ["all" if row.part is None else str(row.part)]
            table.add_row(row.address, *part, f"{row.score:.4g}", f"{row.effect:+.4g}")
        return table

    def to_json(self) -> str:
        """All of it, as JSON."""
        return json.dumps(asdict(self))

    def __str__(self) -> str:
        with (console := Console(width=120)).capture() as drawn:
            console.print(Fitted(self.table()))
        return drawn.get().rstrip()

    def _repr_mimebundle_(self, include: Sequence[str], exclude: Sequence[str], **others: Any) -> dict[str, str]:
        return self.table()._repr_mimebundle_(include, exclude, **others)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The whole table."""
        yield Fitted(self.table())

    def _caption(self) -> str:
        clean = "" if self.clean is None else f", clean {self.clean:.4g}"
        return f"nothing changed: {self.baseline:.4g}{clean}"


def ablate(
    model: Predictor[Any] | nn.Module,
    score: Callable[[], float],
    addresses: Sequence[str] | None = None,
    *,
    by: By = "head",
    to: Literal["zero", "mean"] = "zero",
) -> Effects:
    """What a score loses without each attention head, or each attention layer, one at a time (Michel et al. 2019, section 3).

        effect = score with the head silenced - score

    The score is computed as often as there are heads, and twice more.

    Arguments:
        model: what `regard.load` gives, or any torch module.
        score: runs the model and gives a number: a loss, an accuracy, the log-probability of an answer.
        addresses: which layers, as names or patterns; all that the score calls where None.
        by: whether to silence heads or whole layers.
        to: what silenced heads give out: zero, or their mean over the batch and its positions.

    Raises:
        InputError: where nothing is called so, the score calls no attention, or gives something that is no number.

    >>> layer = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    >>> x = torch.randn(2, 3, 8)
    >>> found = ablate(layer, lambda: layer(x, x, x)[0].square().mean().item())
    >>> [(row.address, row.part) for row in found.rows]
    [('MultiheadAttention', 0), ('MultiheadAttention', 1)]
    """
    with look(model, addresses, keep=1) as seen:
        baseline = _number(score())
    heads = _heads_called(seen)

    def edits() -> Iterator[tuple[str, int | None, Edit]]:
        kind = ScaleHeads if to == "zero" else MeanHeads
        for address, count in heads.items():
            if by == "layer":
                yield address, None, kind(address=address)
            else:
                yield from ((address, head, kind(address=address, heads=[head])) for head in range(count))

    rows = []
    for address, head, edit in edits():
        with change(model, edit):
            changed = _number(score())
        rows.append(Effect(address=address, part=head, score=changed, effect=changed - baseline))
    what = "each head" if by == "head" else "each attention layer"
    instead = "zero" if to == "zero" else "its mean"
    return Effects(
        about=f"score with {what} set to {instead}, less the score",
        baseline=baseline,
        parts="head" if by == "head" else None,
        rows=tuple(rows),
    )


def patch(
    model: Predictor[Any] | nn.Module,
    clean: Callable[[], Any],
    corrupted: Callable[[], Any],
    score: Callable[[Any], float],
    addresses: Sequence[str] | None = None,
    *,
    by: By = "head",
    hidden: Sequence[str] = (),
    by_position: bool = False,
) -> Effects:
    """Activation patching between two inputs: how much of a score comes back when one part works as on the clean input.

        effect = (patched - corrupted) / (clean - corrupted)

    1 where the part alone restores the score of the clean input, 0 where it changes nothing (causal mediation, Vig et al.
    2020; causal tracing, Meng et al. 2022). The two inputs have to be of the same size.

    Arguments:
        model: what `regard.load` gives, or any torch module.
        clean, corrupted: run the model once on each of the two inputs and give what `score` takes.
        score: what came out, as a number.
        addresses: of attention layers whose heads' outputs are patched; all where None, unless `hidden` is given.
        by: whether to patch heads or whole attention layers.
        hidden: modules whose outputs are patched instead, as names or patterns such as `encoder.layers.*`.
        by_position: of these, each position by itself.

    Raises:
        InputError: where nothing is called so, the sizes differ, or the two inputs have the same score.

    >>> layer = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    >>> x, y = torch.randn(1, 3, 8), torch.randn(1, 3, 8)
    >>> found = patch(layer, lambda: layer(x, x, x)[0], lambda: layer(y, y, y)[0], lambda out: out.sum().item(), by="layer")
    >>> round(found.rows[0].effect, 3)
    1.0
    """
    if hidden and addresses is not None:
        raise InputError("addresses and hidden are both given; patch attention or hidden states, one after the other")
    with torch.no_grad():
        with look(model, addresses, keep=1, values=True, hidden=hidden) as seen:
            best = _number(score(clean()))
        with look(model, addresses, keep=1) as other:
            worst = _number(score(corrupted()))
        if best == worst:
            raise InputError(
                f"both inputs have the score {best:.6g}, so nothing can be restored; choose inputs that differ in it"
            )
        rows = []
        for address, part, edit in _hidden_edits(seen, by_position) if hidden else _head_edits(seen, other, by):
            with change(model, edit):
                patched = _number(score(corrupted()))
            rows.append(Effect(address=address, part=part, score=patched, effect=(patched - worst) / (best - worst)))
    parts = ("position" if by_position else None) if hidden else ("head" if by == "head" else None)
    return Effects(
        about="share of the clean score that one part brings back",
        baseline=worst,
        clean=best,
        parts=parts,
        rows=tuple(rows),
    )


def _head_edits(seen: Record, other: Record, by: By) -> Iterator[tuple[str, int | None, Edit]]:
    for address, count in _heads_called(seen).items():
        outputs = seen.head_outputs(address)
        there = other.runs[-1].calls.get(address) if other.runs else None
        if there is None or sum(call.shape[2] for call in there) != outputs.shape[2]:
            raise InputError(
                f"{address}: the two inputs are not of the same size there; choose inputs of as many tokens"
            )
        if by == "layer":
            yield address, None, SetHeads(address=address, to=outputs)
        else:
            for head in range(count):
                yield address, head, SetHeads(address=address, to=outputs, heads=[head])


def _hidden_edits(seen: Record, by_position: bool) -> Iterator[tuple[str, int | None, Edit]]:
    for address in seen.runs[-1].hidden:
        output = seen.hidden(address)
        for position in range(output.shape[1]) if by_position else (None,):
            places = None if position is None else [position]
            yield address, position, SetOutput(address=address, to=output, positions=places)


def _heads_called(seen: Record) -> dict[str, int]:
    if not seen.runs or not seen.runs[-1].calls:
        raise InputError("the score called no attention of this model; give one that runs it")
    return {address: calls[0].shape[1] for address, calls in seen.runs[-1].calls.items()}


def _number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(
            f"the score is a {type(value).__name__}, not a number; give a function that returns one"
        ) from None
    if number != number:
        raise InputError("the score is not a number (NaN)")
    return number
