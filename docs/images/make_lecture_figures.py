"""The three figures of docs/lectures.md, computed with this package: python docs/images/make_lecture_figures.py [FOLDER].

Each shows one mistake of the lecture decks next to what is right, on numbers that are computed here from fixed seeds. Needs
matplotlib; takes a few seconds on a CPU.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard.attention import AttentionInputs, Dot, MultiHeadAttention, ScaledDot
from regard.inspection.analysis.collapse import relative_residual
from regard.models import AttentionStack, AttentionStackConfig

HERE = Path(__file__).parent
RIGHT, WRONG = "#0072b2", "#d55e00"


def normal(*shape: int, seed: int) -> Tensor:
    """Random numbers that a seed decides."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def scores_divided_by_d(width: int = 512, tokens: int = 12) -> dict[str, Tensor]:
    """B-29: the attention weights of random queries and keys, with the scores divided by sqrt(d) and by d."""
    inputs = AttentionInputs(query=normal(1, 1, tokens, width, seed=7), key=normal(1, 1, tokens, width, seed=8))
    return {
        "scores divided by √d (right)": ScaledDot()(inputs.query, inputs.key)[0, 0].softmax(-1),
        "scores divided by d (deck D3)": (Dot()(inputs.query, inputs.key) / width)[0, 0].softmax(-1),
    }


def gradients(positions: int, width: int = 32) -> dict[str, float]:
    """B-43: the norm of the gradient of each projection of a layer that attends over so many positions."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layer = MultiHeadAttention(width, heads=4).double()
    x = normal(16, positions, width, seed=1).double()
    layer(x, layer.keys_values(x)).square().mean().backward()
    projections = {"query": layer.query, "key": layer.key, "value": layer.value, "output": layer.output}
    return {name: float(each.weight.grad.norm()) for name, each in projections.items()}


def residuals(*, skips: bool, layers: int = 6) -> list[float]:
    """B-44: how far the token vectors are from all being equal, after each layer of a stack of attention alone."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = AttentionStackConfig(
            vocabulary=11,
            width=32,
            heads=2,
            layers=layers,
            maximum_positions=12,
            skips=skips,
            feedforward=False,
            norm="none",
        )
        model = AttentionStack(config).double().eval()
    state = normal(1, 12, 32, seed=2).double()
    found = [relative_residual(state[0]).item()]
    for layer in model.layers:
        state = layer(state, None)
        found.append(relative_residual(state[0]).item())
    return found


def scores_figure() -> Figure:
    """B-29: two heatmaps on one scale."""
    found = scores_divided_by_d()
    drawing = Figure(figsize=(7.2, 4.2), layout="constrained")
    panels = drawing.subplots(1, 2, sharey=True)
    uniform = math.log(12)
    for axes, (name, weights) in zip(panels, found.items(), strict=True):
        entropy = float(-(weights * weights.log()).sum(-1).mean()) / uniform
        image = axes.imshow(
            weights.numpy(), cmap="Oranges", vmin=0, vmax=float(max(each.max() for each in found.values()))
        )
        axes.set_title(f"{name}\nentropy {entropy:.3f} of the uniform distribution's", fontsize=9)
        axes.set_xlabel("key")
    panels[0].set_ylabel("query")
    drawing.colorbar(image, ax=panels, label="attention weight", shrink=0.9)
    return drawing


def gradients_figure() -> Figure:
    """B-43: a bar for each projection, over 1 and over 16 positions."""
    drawing = Figure(figsize=(7.2, 3.0), layout="constrained")
    axes = drawing.subplots()
    for shift, positions, colour in ((-0.2, 1, WRONG), (0.2, 16, RIGHT)):
        found = gradients(positions)
        called = "1 position (the deck's net)" if positions == 1 else f"{positions} positions"
        axes.bar([place + shift for place in range(4)], [*found.values()], 0.38, color=colour, label=called)
        for place, value in enumerate(found.values()):  # a logarithmic scale has no place for 0
            axes.text(place + shift, max(value, 1e-4) * 1.1, f"{value:.2g}", ha="center", fontsize=8)
    axes.set_xticks(range(4), [f"{name} projection" for name in found])
    axes.set_yscale("log")
    axes.set_ylim(1e-4, 1)
    axes.set_ylabel("gradient norm")
    axes.legend(frameon=False, title="attention over", loc="upper left")
    return drawing


def residuals_figure() -> Figure:
    """B-44: a curve with skip connections and one without."""
    drawing = Figure(figsize=(7.2, 3.2), layout="constrained")
    axes = drawing.subplots()
    for skips, colour, mark in ((True, RIGHT, "o"), (False, WRONG, "s")):
        found = [max(each, 1e-17) for each in residuals(skips=skips)]
        axes.plot(found, color=colour, marker=mark, label=f"{'with' if skips else 'without'} skip connections")
    axes.axhspan(1e-17, 2e-16, color="0.9")
    axes.text(0.1, 3e-17, "below the precision of float64", fontsize=8, va="center")
    axes.set_yscale("log")
    axes.set_ylim(1e-17, 10)
    axes.set_xlabel("layers of attention")
    axes.set_ylabel("relative residual (0: rank one)")
    axes.legend(frameon=False, loc="center right")
    return drawing


FIGURES = {
    "lecture-scores.png": scores_figure,
    "lecture-one-position.png": gradients_figure,
    "lecture-rank.png": residuals_figure,
}


def main(folder: Path = HERE) -> None:
    """Write the three figures."""
    for name, figure in FIGURES.items():
        figure().savefig(folder / name, dpi=110)
        print(folder / name)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
