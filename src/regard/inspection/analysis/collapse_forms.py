"""A model's depth against rank as it is, and with parts taken out of all its blocks; as a figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, get_args

import torch
from torch import nn

from regard.errors import InputError
from regard.inspection.analysis.collapse import Collapse, stack_addresses
from regard.inspection.drawings import COLOURS
from regard.inspection.editing import without_feedforward, without_skips
from regard.inspection.look import look
from regard.layers.blocks import Block

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 5.2, 3.4  # inches

FORMS: Mapping[str, Callable[[nn.Module], nn.Module]] = {
    "as it is": lambda module: module,
    "without skips": without_skips,
    "without feed-forward": without_feedforward,
    "attention alone": lambda module: without_feedforward(without_skips(module)),
}
"""What is compared, as the paper's figure 2 does: all with the parameters of the model as it was trained, norms included."""


def collapse_forms(module: nn.Module, read: Callable[[Any], Any]) -> dict[str, Collapse]:
    """The residuals after each layer of a model, and of copies of it without skip connections, feed-forward nets, or both.

    Arguments:
        module: a model of blocks, in evaluation mode.
        read: runs the module it is given on the same texts each time.

    Raises:
        InputError: for a model that is not made of blocks, and in training mode.

    >>> from regard.layers import Tokens
    >>> from regard.models import Bert, BertConfig
    >>> model = Bert(BertConfig(vocabulary=9, width=8, heads=2, feedforward_width=16, layers=2)).eval()
    >>> found = collapse_forms(model, lambda each: each(Tokens.pad([[3, 4, 5]])))
    >>> [*found], found["attention alone"].residuals.shape
    (['as it is', 'without skips', 'without feed-forward', 'attention alone'], torch.Size([3, 1]))
    """
    if module.training:
        raise InputError("the module is in training mode, where dropout changes its states; call eval() first")
    addresses = stack_addresses(module)
    if not any(isinstance(part, get_args(Block)) for part in module.modules()):
        raise InputError(f"there is no block in a {type(module).__name__}; give a Transformer or one of its kin")
    found = {}
    for name, form in FORMS.items():
        model = form(module)
        with torch.no_grad(), look(model, [], hidden=addresses) as seen:
            read(model)
        found[name] = Collapse.of_record(seen)
    return found


def collapse_figure(found: Mapping[str, Collapse]) -> Figure:
    """Residuals against depth, a line for each, means over texts; what is exactly 0 is not on a logarithmic axis.

    Arguments:
        found: by the line's name; all of the same layers.

    Returns:
        A figure that is not known to pyplot; write it with `regard.inspection.plots.write_figure`.

    Raises:
        InputError: for layers that differ, or without matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("a plot needs matplotlib: pip install 'regard[plot]'") from None
    if len({each.addresses for each in found.values()}) != 1:
        raise InputError("these have different layers, or there are none; give those of one model")
    addresses = next(iter(found.values())).addresses
    drawing = Figure(figsize=(max(WIDTH, 0.4 * len(addresses)), HEIGHT), layout="constrained")
    axes = drawing.add_subplot()
    for number, (name, collapse) in enumerate(found.items()):
        axes.plot(
            range(len(addresses)),
            collapse.means,
            marker="o",
            markersize=4,
            linewidth=1.6,
            color=COLOURS[number % len(COLOURS)],
            label=name,
        )
    axes.set_yscale("log")
    axes.set_xticks(range(len(addresses)), list(addresses), fontsize=7, rotation=45, ha="right")
    axes.set_ylabel("relative residual", fontsize=8)
    axes.tick_params(axis="y", labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False)
    return drawing
