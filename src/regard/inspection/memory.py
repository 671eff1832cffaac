"""What a neural Turing machine does with its memory: steps and slots by name, and the figure of its paper.

Graves, Wayne, Danihelka 2014, figure 6: inputs and outputs over time, under them the vectors that were added to the memory and
read from it, and under these where the write and the read heads were, all with one axis of time.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.inspection.plots import DOTS_PER_INCH, Writer, fitted, write_figure
from regard.inspection.record import look
from regard.inspection.tracks import Track
from regard.inspection.view import AttentionView
from regard.models import NTM
from regard.tasks.copying import Copier

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DELIMITER = "delimiter"
"""The name of the step that marks the end of the input."""


def vectors_in(copier: Copier, text: str) -> list[str]:
    """The vectors of bits in a text, with spaces between them.

    Raises:
        InputError: for an empty text, or one of anything but zeros and ones.
    """
    vectors = text.split()
    if not vectors or set("".join(vectors)) - {"0", "1"}:
        raise InputError(
            f"{text!r}: this model copies vectors of {copier.task.width} bits; give them as zeros and ones with spaces between"
        )
    return vectors


def numbers_of(vectors: Sequence[str]) -> list[list[int]]:
    """Vectors of bits as `Copier.copy` takes them.

    >>> numbers_of(["10", "01"])
    [[1, 0], [0, 1]]
    """
    return [[int(bit) for bit in vector] for vector in vectors]


def step_names(vectors: Sequence[str], copied: Sequence[Sequence[int]]) -> list[str]:
    """What each step of a model that copies read, or wrote: `→ 10`.

    >>> step_names(["10"], [(1, 0)])
    ['10', 'delimiter', '→ 10']
    """
    return [*vectors, DELIMITER, *(f"→ {''.join(map(str, bits))}" for bits in copied)]


def slot_names(slots: int) -> list[str]:
    """The places of a memory, counted from 1.

    >>> slot_names(2)
    ['slot 1', 'slot 2']
    """
    return [f"slot {number + 1}" for number in range(slots)]


def copied_view(copier: Copier, text: str, addresses: Sequence[str] | None = None) -> AttentionView:
    """The places of memory that a model reads and writes while it copies vectors of bits, a row for each step.

    Of a neural Turing machine the view has the tracks of its paper's figure too.

    Arguments:
        copier: what `regard.load` gives.
        text: vectors of zeros and ones with spaces between.
        addresses: of attention; all where None.

    Raises:
        InputError: for another text, vectors of another width, and a model without attention.
    """
    vectors = vectors_in(copier, text)
    with look(copier, addresses) as record:
        copied = copier.copy(numbers_of(vectors))
    steps = step_names(vectors, copied.bits)
    view = record.view(0)
    maps = tuple(
        replace(
            one,
            kind="cross",
            query_tokens=tuple(steps[int(place)] for place in one.query_tokens),
            key_tokens=tuple(slot_names(one.weights.shape[2])),
            query_words=None,
            key_words=None,
        )
        for one in view.maps
    )
    title = f"{' '.join(vectors)} → {' '.join(step.removeprefix('→ ') for step in steps[len(vectors) + 1 :])}"
    tracks = tracks_of(memory_trace(copier, text)) if isinstance(copier.model, NTM) else ()
    return replace(view, title=title, maps=maps, examples=(title,), tracks=tracks)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MemoryTrace:
    """One sequence through a neural Turing machine: T steps, N slots of W numbers, H read heads and H write heads.

    Arguments:
        steps: T names, as `step_names` gives them.
        inputs: (T, I), what was read at each step, the delimiter's channel last.
        outputs: (T, O), the probability of each bit; those before the delimiter were asked by nobody.
        read: (H, T, W), the vector that each read head read.
        added, erased: (H, T, W), a and e of each write head.
        read_weights, write_weights: (H, T, N), where the heads were.
        memory: (T + 1, N, W), before the first step and after each.
    """

    steps: tuple[str, ...]
    inputs: np.ndarray
    outputs: np.ndarray
    read: np.ndarray
    added: np.ndarray
    erased: np.ndarray
    read_weights: np.ndarray
    write_weights: np.ndarray
    memory: np.ndarray


def tracks_of(trace: MemoryTrace) -> tuple[Track, ...]:
    """What the paper's figure shows, in pairs: inputs, outputs; of each head what it added and read, and where it did so."""
    border, several = trace.steps.index(DELIMITER), len(trace.read) > 1
    asked = np.arange(len(trace.steps)) > border  # outputs before the delimiter's are asked by nobody

    def track(name: str, values: np.ndarray, unit: str, **more: Any) -> Track:
        return Track(name=name, values=values, unit=unit, border=border, **more)

    found = [
        track("inputs", trace.inputs, "bit"),
        track("outputs", np.where(asked[:, None], trace.outputs, np.nan), "bit"),
    ]
    for head in range(len(trace.read)):
        of = f", head {head}" if several else ""
        found += [
            track(f"added to the memory{of}", trace.added[head], "entry", signed=True),
            track(f"read{of}", trace.read[head], "entry", signed=True),
            track(f"write weights{of}", trace.write_weights[head], "slot", first=1),
            track(f"read weights{of}", trace.read_weights[head], "slot", first=1),
        ]
    return tuple(found)


def memory_trace(copier: Copier, text: str) -> MemoryTrace:
    """All that a neural Turing machine read, wrote and remembered while it copied, as its own run computed it.

    Raises:
        InputError: as `copied_view`, and for a model without a memory.
    """
    if not isinstance(copier.model, NTM):
        raise InputError(f"a {type(copier.model).__name__} has no memory to show; give a neural Turing machine (ntm)")
    vectors = vectors_in(copier, text)
    model, kept = copier.model, _Kept()
    heads, width = model.config.heads, model.config.slot_width
    handles = [model.memory.register_forward_hook(kept.gathered), model.write.register_forward_hook(kept.wrote)]
    try:
        batch = copier.task.batch([copier.numbers(numbers_of(vectors))]).to(copier.device)
        with torch.no_grad():
            outputs = torch.sigmoid(model(batch.x).float())[0]
    finally:
        for handle in handles:
            handle.remove()
    read, weights = torch.stack(kept.read).split((width, model.config.slots), dim=-1)  # (T, 2H, W) and (T, 2H, N)
    erased, added = torch.stack(kept.written).unflatten(-1, (heads, 2, width)).unbind(dim=2)  # (T, H, W)
    last = kept.memories[-1]
    for head in range(heads):
        last = last * (1 - weights[-1, heads + head, :, None] * torch.sigmoid(erased[-1, head, None, :]))
    last = last + weights[-1, heads:].T @ added[-1]
    return MemoryTrace(
        steps=tuple(step_names(vectors, (outputs[len(vectors) + 1 :] > 0.5).int().tolist())),
        inputs=_array(batch.x[0]),
        outputs=_array(outputs),
        read=_array(read[:, :heads].transpose(0, 1)),
        added=_array(added.transpose(0, 1)),
        erased=_array(torch.sigmoid(erased).transpose(0, 1)),
        read_weights=_array(weights[:, :heads].transpose(0, 1)),
        write_weights=_array(weights[:, heads:].transpose(0, 1)),
        memory=_array(torch.stack([*kept.memories, last])),
    )


class _Kept:
    """What went through the memory at each step of one sequence."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.read: list[Tensor] = []
        self.memories: list[Tensor] = []
        self.written: list[Tensor] = []

    def gathered(self, _: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> None:
        self.memories.append(arguments[0].key[0, 0].detach().float().clone())
        self.read.append(output[0, :, 0].detach().float().clone())

    def wrote(self, _: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> None:
        del arguments
        self.written.append(output[0].detach().float().clone())


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().float().cpu().numpy()


# The figure.

STEP, ROW = 0.17, 0.1
"""Inches that a step is wide, and a number of a vector or a slot high."""
NARROWEST, WIDEST, TALLEST = 3.6, 16.0, 2.6
GAP, BELOW, ABOVE = 0.34, 0.12, 0.25


def memory_figure(trace: MemoryTrace, *, title: str = "") -> Figure:
    """The figure of a neural Turing machine's memory over time, as figure 6 of its paper.

    Each column is a step. From the top: inputs and outputs, the vectors added and read (violet below zero, orange above it), and
    the weights of the write and of the read heads over the slots of the memory. Several heads are under one another.

    Returns:
        A figure that is not known to pyplot; write it with `regard.inspection.plots.write_figure`.

    Raises:
        InputError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("a plot needs matplotlib: pip install 'regard[plot]'") from None
    tracks = tracks_of(trace)
    rows = list(zip(tracks[::2], tracks[1::2], strict=True))
    wide = min(max(STEP * len(trace.steps), NARROWEST), WIDEST)
    high = [min(max(ROW * max(track.values.shape[1] for track in pair), 0.5), TALLEST) for pair in rows]
    whole, total = 2 * wide + 3 * GAP, sum(high) + (GAP + BELOW) * len(high) + ABOVE
    drawing = Figure(figsize=(whole, total))
    write = Writer.for_texts([title, *trace.steps])
    bottom = total - (ABOVE if title else 0.0)
    for pair, height in zip(rows, high, strict=True):
        bottom -= GAP + height
        largest = max(track.largest for track in pair) or 1.0
        ends = (-largest, largest) if pair[0].signed else (0.0, max(largest, 1.0))
        for column, track in enumerate(pair):
            left = (GAP + wide) * column + GAP
            axes = drawing.add_axes((left / whole, bottom / total, wide / whole, height / total))
            _over_time(axes, track, ends)
            if pair is rows[-1]:
                names = [write.token(step, number) for number, step in enumerate(trace.steps)]
                axes.set_xticks(range(len(names)), names, rotation=90, **write.style(6 if len(names) > 12 else 7))
                axes.set_xlabel("time", fontsize=7)
        bottom -= BELOW
    if title:
        drawing.text(GAP / whole, 1 - 0.18 / total, write(title), ha="left", va="center", **write.style(10))
    return fitted(drawing)


def _over_time(axes: Axes, track: Track, ends: tuple[float, float]) -> None:
    """One track: time to the right, slots or numbers of a vector downwards."""
    colours = "PuOr_r" if track.signed else "viridis"
    axes.imshow(track.values.T, aspect="auto", interpolation="nearest", cmap=colours, vmin=ends[0], vmax=ends[1])
    axes.set_title(track.name, loc="left", fontsize=9, pad=3)
    if track.border is not None:  # where the input ends
        axes.axvline(track.border + 0.5, color="#666666", linewidth=0.8, linestyle=(0, (3, 2)))
    last = track.values.shape[1] - 1
    axes.set_yticks([0, last], [str(track.first), str(last + track.first)], fontsize=6)
    axes.set_ylabel(track.unit, fontsize=7, labelpad=1)
    axes.tick_params(length=0, pad=2)
    axes.set_xticks([])


def save_memory(trace: MemoryTrace, path: str | os.PathLike[str], *, title: str = "") -> None:
    """Write the figure as .png or .svg.

    Raises:
        InputError: as `memory_figure`, and for a place that cannot be written to.
    """
    write_figure(memory_figure(trace, title=title), path, {"Title": title}, dots_per_inch=DOTS_PER_INCH)
